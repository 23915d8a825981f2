"""Rows of one repository as SQL over whole tables, and the blocks that nothing holds, found so.

A *block* is the address of an object or of one of its parts. It is held by the net rows of staging areas: those that a
reachable commit took, and those of live branches. Each step groups, sorts or joins all rows at once and goes to files
where it exceeds its memory, so memory follows neither objects nor blocks. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pyarrow as pa

from ...lake import scan
from ...lake.declared import SPECS
from ...lake.lookup import possible_files
from ...lake.scan import Cursor
from ...lake.table import quoted
from .merging.sweep import Sweep
from .moment import Moment

_BATCH_ROWS: Final = 16_384
_ADDRESSES: Final = "unnest(case when blocks is null then [address] else json_extract_string(blocks, '$[*][0]') end)"
"""The blocks of a row."""
_ROW, _EXACTLY, _PREFIX = range(3)


class Block(NamedTuple):
    """A block that nothing holds.

    Attributes:
        address: where it lies.
        written: system time of the newest row that names it, milliseconds UTC.
    """

    address: str
    written: int


class BlockCounts(NamedTuple):
    """Blocks that the repository has ever named, and those of them that nothing holds."""

    named: int
    unused: int


def seen_rows(cursor: Cursor, moment: Moment, name: str, columns: str, *, below: int | None = None) -> str:
    """Rows of a repository in a table as a source of SQL: those that a moment sees.

    Args:
        columns: what is selected, as SQL.
        below: only rows in front of this position.
    """
    table = moment.table(name)
    named_by_repo = table is not None and "repo" in table.schema.names
    key = {"tenant": [moment.tenant], **({"repo": [moment.repo]} if named_by_repo else {})}
    paths = possible_files(table, key) if table is not None else []
    own = f"tenant = {quoted(moment.tenant)} and aggregate = {quoted(moment.aggregate)}"
    own += f" and repo = {quoted(moment.repo)}" if named_by_repo else ""
    own += f" and logical_timestamp < {int(below)}" if below is not None else ""
    parts = []
    if table is not None and paths:
        source = scan.source(cursor, table, paths, f"lake_{name}")
        parts.append(f"select {columns} from {source} where {own} and {moment.bounds.sql()}")
    newer = moment.newer.get(name)
    if newer is not None:
        cursor.register(f"newer_{name}", newer.to_arrow())
        parts.append(f"select {columns} from newer_{name} where {own}")
    if not parts:
        cursor.register(f"none_{name}", SPECS[name].schema.empty_table())
        parts.append(f"select {columns} from none_{name}")
    return f"({' union all '.join(parts)})"


class Blocks:
    """Finds the blocks that nothing holds.

    Args:
        moment: what is seen.
        commits: positions of the commits that are reached (int64).
        areas: names of the staging areas of live branches (int64).
        before_ms: only blocks that no row names at this system time or later, milliseconds UTC.
    """

    def __init__(self, moment: Moment, commits: pa.Array, areas: pa.Array, before_ms: int) -> None:
        self._moment = moment
        self._commits, self._areas = commits, areas
        self._before_us = before_ms * 1_000

    def counts(self) -> BlockCounts:
        """How many there are."""
        with self._found() as cursor:
            return BlockCounts(*cursor.sql("select count(*), count(*) filter (unused) from blocks").fetchall()[0])

    def unused(self) -> Iterator[Block]:
        """All of them, by address; read as they are asked for."""
        with self._found() as cursor:
            found = cursor.sql("select address, written from blocks where unused order by address")
            for batch in found.to_arrow_reader(_BATCH_ROWS):
                for address, written in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield Block(address, written // 1_000)

    @contextmanager
    def _found(self) -> Iterator[Cursor]:
        """The table `blocks`: every block, when it was last named, and whether nothing holds it."""
        with scan.spilling() as cursor:
            self._note_areas(cursor)
            self._note_taken(cursor)
            rows = self._objects(cursor, "logical_timestamp as place, seq, address, blocks, system_time")
            cursor.execute(f"""create table named as
                select {_ADDRESSES} as address, epoch_us(system_time) as written, taken.place is not null as held
                from {rows} rows left join taken on rows.place = taken.place and rows.seq = taken.seq
                where address is not null or blocks is not null""")
            cursor.execute(f"""create table blocks as
                select address, max(written) as written,
                    not bool_or(held) and max(written) < {self._before_us} as unused
                from named group by address""")
            yield cursor

    def _objects(self, cursor: Cursor, columns: str) -> str:
        return seen_rows(cursor, self._moment, "objects", columns)

    def _note_areas(self, cursor: Cursor) -> None:
        """Tables of the staging areas that are held, and of those of them into which a partial reset fell."""
        cursor.register("reached", pa.table({"place": self._commits}))
        cursor.register("live", pa.table({"staging": self._areas}))
        commits = seen_rows(cursor, self._moment, "commits", "logical_timestamp as place, staging")
        resets = seen_rows(cursor, self._moment, "resets", "staging")
        cursor.execute(f"""create table areas as
            select staging from {commits} semi join reached using (place) where staging is not null
            union select staging from live""")
        cursor.execute(f"create table reset_areas as select distinct staging from {resets} semi join areas "
                       "using (staging)")  # fmt: skip
        cursor.execute("create table plain_areas as select * from areas anti join reset_areas using (staging)")

    def _note_taken(self, cursor: Cursor) -> None:
        """A table of the places of the net rows of the areas."""
        cursor.execute(f"create table taken as select place, seq from ({self._newest(cursor, 'plain_areas')})")
        cursor.execute(f"create table newest as {self._newest(cursor, 'reset_areas')}")
        with cursor.beside() as reading:
            for rows in self._standing(reading):
                cursor.register("standing", rows)
                cursor.execute("insert into taken from standing")

    def _newest(self, cursor: Cursor, areas: str) -> str:
        """The newest row of each path of some staging areas, as SQL: an event has a path once."""
        rows = self._objects(cursor, "staging, path, logical_timestamp, seq")
        return f"""select staging, path, max(logical_timestamp) as place, arg_max(seq, logical_timestamp) as seq
            from {rows} semi join {areas} using (staging) group by staging, path"""

    def _standing(self, cursor: Cursor) -> Iterator[pa.Table]:
        """Places of the newest rows that no reset covers, some at a time."""
        resets = seen_rows(cursor, self._moment, "resets", "staging, path, is_prefix, logical_timestamp as place")
        found = cursor.sql(f"""
            select staging, path, {_ROW} as kind, place, seq from newest
            union all
            select staging, path, case when is_prefix then {_PREFIX} else {_EXACTLY} end, max(place), null
            from {resets} semi join reset_areas using (staging) group by all
            order by staging, path, kind desc""")
        sweep = Sweep()
        for batch in found.to_arrow_reader(_BATCH_ROWS):
            rows = zip(*(batch[name].to_pylist() for name in ("kind", "staging", "path", "place")), strict=True)
            stands = pa.array([_passes(sweep, *row) for row in rows], pa.bool_())
            yield pa.Table.from_batches([batch]).filter(stands).select(["place", "seq"])


def _passes(sweep: Sweep, kind: int, area: int, path: str, position: int) -> bool:
    """Take a row or a reset; whether it is a row that stands."""
    if kind == _ROW:
        return sweep.stands(area, path, position)
    sweep.reset(area, path, kind == _PREFIX, position)
    return False
