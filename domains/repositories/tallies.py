"""What a commit changes at its first parent, added up range by range: counts, bytes, lanes, conflicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from .lanes import Lanes
from .merging.paths import Conflicting
from .merging.ranges import BaseContent, MergedRange

MOST_SHOWN: Final = 100
"""Conflicts of a merge that its row tells."""
MOST_BYTES: Final = 2**63 - 1
"""The largest sum of sizes that is told."""


@dataclass
class Tally:
    """What was changed so far.

    Attributes:
        lanes: over the objects that there are now.
        size_bytes: of all of them.
        conflicts: of a merge; `shown` has the first 100.
    """

    lanes: Lanes
    size_bytes: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    conflicts: int = 0
    shown: list[list[Any]] = field(default_factory=list)

    def count(self, new: pl.DataFrame, old: pl.DataFrame, first: pl.DataFrame | None = None) -> None:
        """Some paths as they become.

        Args:
            new, old: `path`, `deleted`, `content`, `size` as they become, and as they were.
            first: as they were at the first parent, where that is something else than `old`.
        """
        if not new.height:
            return
        both = _there(new)
        if old.height:
            both = both.join(_there(old).rename({"content": "old", "size": "old_size"}), on="path", how="left")
        else:
            both = both.with_columns(old=pl.lit(None, pl.Binary), old_size=pl.lit(None, pl.Int64))
        both = both.filter(pl.col("content").ne_missing(pl.col("old")))
        self.size_bytes += _sum(both["size"]) - _sum(both["old_size"])
        for column, count in (("content", self.lanes.add), ("old", self.lanes.remove)):
            there = both.filter(pl.col(column).is_not_null())
            if there.height:
                count(there["path"], there[column])
        if first is None:
            self._note(both["content"], both["old"], 1)
        else:
            both = both.join(_there(first).select("path", first="content"), on="path", how="left")
            self._note(both["content"], both["first"], 1)
            self._note(both["old"], both["first"], -1)

    def __post_init__(self) -> None:
        self._is_known = self.size_bytes < MOST_BYTES

    @property
    def told_bytes(self) -> int:
        """`size_bytes` as it is told: once that is `MOST_BYTES`, it is no longer known what a commit on it holds."""
        return min(self.size_bytes, MOST_BYTES) if self._is_known else MOST_BYTES

    def _note(self, now: pl.Series, before: pl.Series, times: int) -> None:
        """Count what some paths are, of what they were at the first parent."""
        is_there, was_there = now.is_not_null(), before.is_not_null()
        self.added += times * int((is_there & ~was_there).sum())
        self.removed += times * int((~is_there & was_there).sum())
        self.changed += times * int((is_there & was_there & now.ne_missing(before)).sum())

    def note(self, found: MergedRange) -> None:
        """The conflicts of a range of a merge."""
        self.conflicts += len(found.conflicts)
        for path, base, destination, source in found.conflicts[: MOST_SHOWN - len(self.shown)]:
            self.shown.append([path, _text(base), _text(destination), _text(source)])


def _there(rows: pl.DataFrame) -> pl.DataFrame:
    """Content and size of paths, null where the path is deleted."""
    there = ~pl.col("deleted")
    return rows.select("path", content=pl.when(there).then("content"), size=pl.when(there).then("size"))


def _sum(sizes: pl.Series) -> int:
    """The sum of sizes, each of which may be the largest that 64 bits have."""
    return int(sizes.cast(pl.Int128).sum())


def _text(content: BaseContent) -> str | None:
    if isinstance(content, Conflicting):
        return "conflict"
    return None if content is None else content.hex()
