"""A whole journal of repositories, evaluated again by plain dictionaries: verdicts, contents, conflicts."""

from __future__ import annotations

from typing import Any

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.merging.bases import base_of, content_at
from metajournal.domains.repositories.merging.paths import SOURCE, decided
from metajournal.domains.repositories.rows import content_of
from tests.repositories.plain_model import ACCEPTED, Refs

Tree = dict[str, bytes]


class Replay:
    """The repositories of one tenant after some events, each given with the digest of its record.

    Attributes:
        trees: the content of each path, by commit.
        conflicts: the paths in conflict of each merge, by commit.
        parents: by commit.
    """

    def __init__(self) -> None:
        self.refs = Refs()
        self.trees: dict[str, Tree] = {"": {}}
        self.conflicts: dict[str, list[str]] = {}
        self.parents: dict[str, list[str]] = {}
        self._ids: list[str] = []
        self._numbers: dict[str, int] = {}
        self._graph: list[list[int]] = []
        self._staged: dict[str, dict[str, bytes | None]] = {}

    def add(self, event: Any, digest: bytes) -> str:
        """Outcome or reason of the next event."""
        branch = getattr(event, "destination", None) or getattr(event, "branch", None)
        before = self._head(branch)
        outcome = self.refs.judge(event, digest)
        if outcome == ACCEPTED and branch is not None:
            self._apply(event, branch, before)
        return outcome

    def _head(self, branch: Any) -> str:
        if branch is None:
            return ""
        repository = self.refs.repositories.get(branch.parts[0])
        held = None if repository is None else repository.branches.get(branch.parts[1])
        return "" if held is None else held.head

    def _apply(self, event: Any, branch: Any, before: str) -> None:
        staged = self._staged.setdefault(branch, {})
        if isinstance(event, e.ObjectsWritten):
            staged |= {
                one.path: content_of(one.checksum, one.size, one.content_type, one.metadata) for one in event.entries
            }
        elif isinstance(event, e.ObjectsDeleted):
            staged |= dict.fromkeys(event.paths)
        elif isinstance(event, e.Committed | e.Merged):
            self._commit(event, branch, before)
        else:
            known = e.RepositoryCreated | e.BranchCreated | e.BranchDeleted | e.BranchReset
            assert isinstance(event, known), event
            self._staged.pop(branch, None)

    def _commit(self, event: Any, branch: Any, before: str) -> None:
        head = self._head(branch)
        sides = [before] if before else []
        over: dict[str, bytes | None] = {}
        conflicts: list[str] = []
        if isinstance(event, e.Merged):
            sides.append(event.source_head)
            over, conflicts = self._merged(before, event.source_head, event.strategy)
        self._numbers[head] = len(self._ids)
        self._ids.append(head)
        self._graph.append([self._numbers[one] for one in sides])
        self.parents[head] = sides
        over |= self._staged.pop(branch, {})
        self.conflicts[head] = [path for path in conflicts if path not in over]
        self.trees[head] = {path: one for path, one in (self.trees[before] | over).items() if one is not None}

    def _merged(self, before: str, source: str, strategy: str) -> tuple[dict[str, bytes | None], list[str]]:
        """What a merge takes from its source, and the paths in conflict."""
        base = None
        if before:
            base = base_of(self._graph, self._ids, self._numbers[before], self._numbers[source])
        into, taken = self.trees[before], self.trees[source]
        over: dict[str, bytes | None] = {}
        conflicts = []
        for path in into.keys() | taken.keys() | {path for one in _commits(base) for path in self._tree(one)}:
            at = content_at(base, {one: self._tree(one).get(path) for one in _commits(base)})
            side, conflict = decided(at, into.get(path), taken.get(path), strategy)
            if side == SOURCE:
                over[path] = taken.get(path)
            if conflict:
                conflicts.append(path)
        return over, conflicts

    def _tree(self, number: int) -> Tree:
        return self.trees[self._ids[number]]


def _commits(base: Any) -> set[int]:
    if base is None:
        return set()
    return {base} if isinstance(base, int) else _commits(base.left) | {base.right} | _commits(base.base)
