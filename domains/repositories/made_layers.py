"""What the pass reads: rows of the tables, and those of the layers that it has made of its piece so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from ...fold.derived import Bounded, Earlier
from ...lake.spool import Spool
from .layers import TREES

_LAYER = "layer"


class PassReads:
    """Rows of the tables and of the piece's layers (`areas.AreaReads`).

    Args:
        earlier: the tables.
        start: the piece's first position: the layers from it on are in `made` alone.
        made: the layers of the piece.
    """

    def __init__(self, earlier: Earlier, start: int, made: Spool) -> None:
        self._earlier = earlier
        self._start = start
        self.made = made

    def rows(
        self, table: str, among: Mapping[str, Sequence[Any]], *, columns: Sequence[str], in_order: bool = True
    ) -> pa.Table:
        """As of `fold.derived.Earlier`; of the tables alone."""
        return self._earlier.rows(table, among, columns=columns, in_order=in_order)

    def blocks(
        self,
        table: str,
        among: Mapping[str, Sequence[Any]],
        *,
        columns: Sequence[str],
        between: Mapping[str, tuple[Any, Any]] | None = None,
        keys: pa.Table | None = None,
    ) -> Iterator[pa.Table]:
        """As of `fold.derived.Earlier`; of `made` by paths alone."""
        made, before = self._parted(table, among)
        least, greatest = (between or {}).get("path", (None, None))
        for number in made:
            for chunk in self.made.chunks(number, least, greatest):
                yield _some(chunk, least, greatest, keys).select(list(columns))
        if before is not None:
            yield from self._earlier.blocks(table, before, columns=columns, between=between, keys=keys)

    def spans(
        self,
        table: str,
        column: str,
        among: Mapping[str, Sequence[Any]],
        *,
        between: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> Sequence[Bounded]:
        """As of `fold.derived.Earlier`; of `made` those of paths."""
        made, before = self._parted(table, among)
        spans: list[Bounded] = [span for number in made for span in self.made.spans(number)]
        return spans if before is None else [*spans, *self._earlier.spans(table, column, before, between=between)]

    def _parted(
        self, table: str, among: Mapping[str, Sequence[Any]]
    ) -> tuple[Sequence[int], Mapping[str, Sequence[Any]] | None]:
        """The layers that were made of the piece, and the conditions of what stands in front of it, if anything."""
        if table != TREES:
            return (), among
        made = [number for number in among[_LAYER] if number >= self._start]
        before = [number for number in among[_LAYER] if number < self._start]
        return made, {**among, _LAYER: before} if before else None


def _some(rows: pa.Table, least: str | None, greatest: str | None, keys: pa.Table | None) -> pa.Table:
    """Those of some rows in the order of paths that lie between two paths, and have one of some."""
    if least is None and keys is None:
        return rows
    paths = pl.Series(rows["path"])
    if least is not None and greatest is not None:
        begin = paths.search_sorted(least, "left")
        rows = rows.slice(begin, paths.search_sorted(greatest, "right") - begin)
        paths = paths.slice(begin, rows.num_rows)
    return rows if keys is None else rows.filter(paths.is_in(pl.Series(keys["path"]).implode()).to_arrow())
