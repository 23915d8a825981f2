"""Repositories: git-like versions over object metadata. Every event is of the aggregate of its repository."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import MANY, Actions, Domain, Kind

DOMAIN: Final = Domain(
    "repositories",
    __package__,
    kinds=(
        Kind("repo", "repositories", 1, 1),
        Kind("branch", "repositories", 2, 2, "repo", 1),
        Kind("commit", "repositories", 2, 2, "repo", 1),
        Kind("object", "repositories", 2, MANY, "repo", 1),
    ),
    event_types=(
        "repositories.RepositoryCreated.1",
        "repositories.RepositoryDeleted.1",
        "repositories.BranchCreated.1",
        "repositories.BranchDeleted.1",
        "repositories.ObjectsWritten.1",
        "repositories.ObjectsDeleted.1",
        "repositories.Committed.1",
        "repositories.Merged.1",
        "repositories.BranchReset.1",
        "repositories.BranchReverted.1",
        "repositories.ObjectsRegistered.1",
        "repositories.ObjectsUnregistered.1",
    ),
    reasons=(
        "unknown-entity",
        "exists",
        "protected",
        "stale-head",
        "stale-staging",
        "dirty",
        "nothing-to-merge",
        "nothing-staged",
        "too-many",
        "too-large",
    ),
    names_many=True,
    actions=Actions("Repo", ("Create", "Delete", "Read", "Write")),
    reserved=("repo", "branch", "commit", "object"),
)
