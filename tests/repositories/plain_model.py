"""Refs of repositories as plainly as they can be told: dictionaries and sets, one verdict for each operation.

It is the oracle of the rules, and shares nothing with them but the names of events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any

from metajournal.domains.repositories import events as e

EMPTY = "00" * 16
ACCEPTED, UNCHANGED = "accepted", "unchanged"


@dataclass
class Branch:
    """Where a branch is, and what is staged on it."""

    head: str
    digest: str = EMPTY
    events: int = 0
    paths: int = 0


@dataclass
class Repository:
    """One repository between its creation and its deletion."""

    default: str
    branches: dict[str, Branch]
    commits: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)


@dataclass
class Refs:
    """All repositories of a tenant."""

    tenant: str = "default"
    repositories: dict[str, Repository] = field(default_factory=dict)

    def judge(self, event: Any, digest: bytes) -> str:
        """Outcome or reason of the next event; `digest` is its record's."""
        name = event.aggregate.name
        repository = self.repositories.get(name)
        if isinstance(event, e.RepositoryCreated):
            if repository is not None:
                return "exists"
            self.repositories[name] = Repository(event.default_branch, {event.default_branch: Branch("")})
            return ACCEPTED
        if repository is None:
            return "unknown-entity"
        if isinstance(event, e.RepositoryDeleted):
            del self.repositories[name]
            return ACCEPTED
        if isinstance(event, e.ObjectsRegistered | e.ObjectsUnregistered):
            before = set(repository.objects)
            change = before.union if isinstance(event, e.ObjectsRegistered) else before.difference
            repository.objects = change(event.paths)
            return UNCHANGED if repository.objects == before else ACCEPTED
        if isinstance(event, e.Merged):
            return self._merge(name, repository, event, digest)
        return self._on_branch(name, repository, event, digest)

    def _on_branch(self, name: str, repository: Repository, event: Any, digest: bytes) -> str:
        named = event.branch.parts[1]
        branch = repository.branches.get(named)
        if isinstance(event, e.BranchCreated):
            if event.commit is not None and event.commit.parts[1] not in repository.commits:
                return "unknown-entity"
            if branch is not None:
                return "exists"
            repository.branches[named] = Branch("" if event.commit is None else event.commit.parts[1])
            return ACCEPTED
        if branch is None:
            return "unknown-entity"
        if isinstance(event, e.BranchReverted) and event.commit.parts[1] not in repository.commits:
            return "unknown-entity"
        if isinstance(event, e.BranchDeleted) and named == repository.default:
            return "protected"
        if getattr(event, "expected_head", None) not in (None, branch.head):
            return "stale-head"
        if getattr(event, "staging_digest", None) not in (None, branch.digest):
            return "stale-staging"
        if isinstance(event, e.BranchDeleted):
            del repository.branches[named]
        elif isinstance(event, e.BranchReverted):
            if branch.events:
                return "dirty"
            if branch.head == event.commit.parts[1]:
                return UNCHANGED
            branch.head = event.commit.parts[1]
        elif isinstance(event, e.Committed):
            if not branch.events and not event.allow_empty:
                return "nothing-staged"
            self._commit(name, repository, branch, [branch.head] if branch.head else [], digest)
        elif isinstance(event, e.BranchReset):
            if not branch.events:
                return UNCHANGED
            if event.path is None and event.prefix is None:
                branch.digest, branch.events, branch.paths = EMPTY, 0, 0
            else:
                _stage(branch, digest, 0)
        else:
            _stage(branch, digest, len(event.entries if isinstance(event, e.ObjectsWritten) else event.paths))
        return ACCEPTED

    def _merge(self, name: str, repository: Repository, event: e.Merged, digest: bytes) -> str:
        into = repository.branches.get(event.destination.parts[1])
        source = repository.branches.get(event.source.parts[1])
        if into is None or source is None:
            return "unknown-entity"
        if (into.head, source.head) != (event.destination_head, event.source_head):
            return "stale-head"
        if event.staging_digest not in (None, into.digest):
            return "stale-staging"
        if source.events or (into.events and event.staged == "refuse"):
            return "dirty"
        if source.head in ("", into.head):
            return "nothing-to-merge"
        self._commit(name, repository, into, [head for head in (into.head, source.head) if head], digest)
        return ACCEPTED

    def _commit(self, name: str, repository: Repository, branch: Branch, parents: list[str], digest: bytes) -> None:
        text = json.dumps([self.tenant, name, parents, branch.digest, digest.hex()], separators=(",", ":"))
        head = sha256(text.encode()).hexdigest()
        repository.commits.add(head)
        branch.head, branch.digest, branch.events, branch.paths = head, EMPTY, 0, 0


def _stage(branch: Branch, digest: bytes, paths: int) -> None:
    branch.digest = blake2b(bytes.fromhex(branch.digest) + digest, digest_size=16).hexdigest()
    branch.events += 1
    branch.paths += paths
