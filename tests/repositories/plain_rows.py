"""Rows of the fold as dictionaries: histories too long to be judged event by event, at once in the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.lake.columns import JOURNAL
from metajournal.lake.declared import SPECS
from metajournal.lake.tables import Lake, Reached
from metajournal.schemas.topics import TopicNames

TOPIC = TopicNames().journal("repositories")
KEY = (TOPIC, 0)


class History:
    """One repository's rows, appended in the order of positions.

    Args:
        name: the repository's.
        lake: where they go.
    """

    def __init__(self, lake: Lake, name: str = "r1") -> None:
        self.lake, self.name = lake, name
        self.position = 1
        self.heads: dict[str, str] = {}
        self._staging: dict[str, int] = {}
        self._staged: dict[str, int] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {"objects": [], "commits": [], "branches": [], "resets": []}

    @classmethod
    def at(cls, folder: Path, name: str = "r1") -> History:
        """In a lake of its own."""
        lake = Lake(str(folder))
        lake.include(["repositories"])
        lake.create()
        return cls(lake, name)

    def branch(self, branch: str, head: str | None = None) -> None:
        """A branch begins."""
        if head is not None:
            self.heads[branch] = head
        self._begins(branch)

    def write(self, branch: str, paths: Iterable[str], content: str | None = "c") -> None:
        """Stage paths, all with one content in this event; None deletes them."""
        staged = list(paths)
        made = None if content is None else blake2b(content.encode(), digest_size=16).digest()
        for seq, path in enumerate(staged):
            self._add("objects", repo=self.name, staging=self._staging[branch], path=path, seq=seq,
                      branch=str(branch_urn(self.name, branch)), deleted=made is None, content=made,
                      size=None if made is None else 1)  # fmt: skip
        self._staged[branch] += len(staged)
        self._ref(branch)

    def reset(self, branch: str, path: str, *, is_prefix: bool = True) -> None:
        """Drop what is staged of a path or a prefix."""
        self._add("resets", repo=self.name, staging=self._staging[branch], path=path, is_prefix=is_prefix)
        self._ref(branch)

    def commit(self, branch: str, parents: Sequence[str] | None = None, strategy: str | None = None) -> str:
        """Commit what is staged; of a merge with these parents. Gives its id."""
        made = sha256(f"{self.name} {self.position}".encode()).hexdigest()
        before = [self.heads[branch]] if branch in self.heads else []
        staging = self._staging[branch] if self._staged[branch] else None
        self._add("commits", commit=str(commit_urn(self.name, made)), branch=str(branch_urn(self.name, branch)),
                  parents=list(parents or before), staging=staging, strategy=strategy, message="m", metadata="{}",
                  staging_digest="", digest="")  # fmt: skip
        self.heads[branch] = made
        self._begins(branch)
        return made

    def merge(self, destination: str, source: str, *, strategy: str = "none") -> str:
        """Merge a commit into a branch."""
        return self.commit(destination, [self.heads[destination], source], strategy)

    def store(self) -> None:
        """Put the rows into the tables: one batch of the stream."""
        reached = Reached({KEY: self.position}, {KEY: 1}, {"repositories": "rules"})
        for name, rows in self._rows.items():
            self.lake.tables[name].append(pa.Table.from_pylist(rows, SPECS[name].schema), reached)
            rows.clear()
        row = {"topic": TOPIC, "journal_partition": 0, "logical_timestamp": self.position - 1, "outcome": "accepted",
               "system_time": 0, "append_time": 0, "system_date": 0}  # fmt: skip
        self.lake.journal.append(pa.Table.from_pylist([row], JOURNAL), reached)

    def _begins(self, branch: str) -> None:
        self._staging[branch], self._staged[branch] = self.position, 0
        self._ref(branch)

    def _ref(self, branch: str) -> None:
        self._add("branches", urn=str(branch_urn(self.name, branch)), head=self.heads.get(branch),
                  staging=self._staging[branch], staged_rows=self._staged[branch])  # fmt: skip
        self.position += 1

    def _add(self, table: str, **values: Any) -> None:
        common = {
            "tenant": "default", "aggregate": str(repository_urn(self.name)), "domain": "repositories",
            "journal_partition": 0, "logical_timestamp": self.position, "seq": 0, "system_time": 0, "event_time": 0,
            "event_id": "e", "actor": None, "deleted": False,
        }  # fmt: skip
        self._rows[table].append(common | values)
