"""Repositories: git-like versions over object metadata. Every event is of the aggregate of its repository."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import MANY, Actions, Domain, Kind, Named

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
    next_steps=(
        (
            "unknown-entity",
            "Check the name that the detail gives (`metajournal repo list`, `metajournal repo branches`): what does "
            "not exist must be created first, and need not be deleted.",
        ),
        ("exists", "Choose another name."),
        ("protected", "The default branch stays as long as its repository."),
        ("stale-head", "Look at the branch as it is now, and send the change again."),
        ("stale-staging", "Look at what is staged now, and send the change again."),
        ("dirty", "Commit or reset what is staged in the branch first."),
        ("nothing-to-merge", "The branch holds it already; nothing is to be done."),
        ("nothing-staged", "Stage something first."),
        ("too-many", "Remove something first; the detail names the limit."),
        ("too-large", "Send less; the detail names the limit."),
    ),
    names_many=True,
    actions=Actions("Repo", ("Create", "Delete", "Read", "Write")),
    reserved=("repo", "branch", "commit", "object"),
    names=(Named("repo", "default_branch", "branch"),),
)
