"""The staging area that a commit takes: what stands in it, by ranges of paths.

Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import polars as pl
import pyarrow as pa

from .layers import OBJECTS, Contents, PathRange, Reads, as_frame, newest, no_rows
from .merging.staging import Reset, covered_up_to

_PLACE: Final = ("logical_timestamp", "seq")


class AreaReads(Reads, Protocol):
    """`Reads` that give the rows of the table `resets`, too."""

    def rows(
        self, table: str, among: Mapping[str, Sequence[Any]], *, columns: Sequence[str], in_order: bool = True
    ) -> pa.Table:
        """As of `fold.derived.Earlier`."""
        ...


class Area:
    """Some of the rows of a staging area.

    Args:
        reads: the tables.
        tenant, repo: whose.
        number: its name.
        below: the position before which its rows and resets count.
    Attributes:
        since: the position from which on its rows count.
        resets: partial ones that fell into it.
        rows: how many of its rows `net` has read.
    """

    def __init__(self, reads: AreaReads, tenant: str, repo: str, number: int, below: int) -> None:
        self._reads = reads
        self._of: dict[str, Sequence[Any]] = {"tenant": [tenant], "repo": [repo], "staging": [number]}
        self._below = below
        self.since = 0
        self._contents = Contents(reads, tenant, repo)
        columns = ["path", "is_prefix", "logical_timestamp"]
        found = reads.rows("resets", self._of, columns=columns, in_order=False).to_pylist()
        self.resets = [
            Reset(one["path"].encode(), one["is_prefix"], one["logical_timestamp"])
            for one in found
            if one["logical_timestamp"] < below
        ]
        self.number = number
        self.rows = 0

    @property
    def _places(self) -> dict[str, tuple[int, int]]:
        return {"logical_timestamp": (self.since, self._below - 1)}

    @property
    def last_reset(self) -> int:
        """The position of the last partial reset; -1: there was none."""
        return max((one.position for one in self.resets), default=-1)

    def ranges(self) -> Sequence[PathRange | None]:
        """Ranges of all its paths, each with about RANGE_ROWS rows."""
        return self._contents.ranges_of([(OBJECTS, self._of)], None, self._places)

    def net(self, within: PathRange | None, columns: Sequence[str]) -> pl.DataFrame:
        """What stands in it.

        Args:
            columns: those that are wanted besides `path` and `deleted`.
        Returns:
            `path`, `deleted`, the columns, and the place of each row, by path.
        """
        wanted = ["path", "deleted", *columns, *_PLACE]
        between: dict[str, tuple[Any, Any]] = {**self._places}
        if within is not None:
            between["path"] = (within.first, within.last)
        blocks = self._reads.blocks(OBJECTS, self._of, columns=wanted, between=between)
        rows = pl.concat([*map(as_frame, blocks), no_rows(wanted)])
        self.rows += rows.height
        standing = newest(rows)
        if self.resets and standing.height:
            up_to = covered_up_to([path.encode() for path in standing["path"]], self.resets)
            standing = standing.filter(standing["logical_timestamp"] > pl.Series(up_to, dtype=pl.Int64))
        return standing
