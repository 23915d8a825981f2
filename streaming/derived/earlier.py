"""What a function reads besides its piece: the rows in front of it, of the tables that it names.

Every table is read at the version that its handle is at when it is first asked for, by row groups (`GroupRows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

import polars as pl
import pyarrow as pa

from ...fold.derived import Beside, Derived, at_once
from ...lake.columns import PARTITION_COLUMNS
from ...lake.declared import SPECS
from ...lake.group_rows import GroupRows, Span
from ...lake.ranges import rows_between
from ...lake.tables import PartitionKey, Table
from ...lake.views.table import TableView

Memory = MutableMapping[Any, Any]
_PLACE: Final = ("logical_timestamp", "seq")


class Memories:
    """What functions keep from piece to piece in this process, by the folders of their tables and by partition."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, PartitionKey], tuple[Mapping[str, str], Memory]] = {}

    def of(self, name: str, tables: Mapping[str, Table], key: PartitionKey) -> Memory:
        """What a function has kept of a partition; nothing, where one of its tables is another one now."""
        uris = {table: handle.uri for table, handle in tables.items()}
        held_of, memory = self._held.get((name, key), ({}, {}))
        if held_of != uris:
            memory = {}
            self._held[name, key] = uris, memory
        return memory


class EarlierRows:
    """The rows in front of a piece (`fold.derived.Earlier`).

    Args:
        derived: the function.
        tables: those that it reads and makes.
        key: the piece's partition.
        start, end: its positions.
        kept: what the function keeps from piece to piece.
        beside: where it may have something computed.
    """

    def __init__(
        self,
        derived: Derived,
        tables: Mapping[str, Table],
        key: PartitionKey,
        start: int,
        end: int,
        kept: Memory | None = None,
        beside: Beside = at_once,
    ) -> None:
        self._ends = dict.fromkeys((*derived.reads, *derived.tables), start) | dict.fromkeys(derived.looks_up, end)
        self._tables = tables
        self._key = key
        self._readers: dict[str, GroupRows] = {}
        self.kept: Memory = {} if kept is None else kept
        self.beside = beside

    def rows(
        self,
        table: str,
        among: Mapping[str, Sequence[Any]],
        *,
        columns: Sequence[str] | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
        keys: pa.Table | None = None,
        in_order: bool = True,
    ) -> pa.Table:
        """As of `fold.derived.Earlier`."""
        end = self._end(table)
        names = SPECS[table].schema.names if columns is None else list(columns)
        if table in PARTITION_COLUMNS:
            return rows_between(self._tables[table].delta, self._key, 0, end, names, among, between, keys)
        order = [name for name in _PLACE if name in SPECS[table].schema.names] if in_order else []
        read = list(dict.fromkeys([*names, *order]))
        own, below = self._own(table, between)
        rows = self._reader(table).rows(read, {**among, **own}, between=below, keys=keys)
        return rows.sort_by([(name, "ascending") for name in order]).select(names) if order else rows

    def blocks(
        self,
        table: str,
        among: Mapping[str, Sequence[Any]],
        *,
        columns: Sequence[str],
        between: Mapping[str, tuple[Any, Any]] | None = None,
        keys: pa.Table | None = None,
    ) -> Iterator[pa.Table]:
        """As of `fold.derived.Earlier`."""
        own, below = self._own(table, between)
        yield from self._reader(table).blocks(columns, {**among, **own}, between=below, keys=keys)

    def spans(
        self,
        table: str,
        column: str,
        among: Mapping[str, Sequence[Any]],
        *,
        between: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> Sequence[Span]:
        """As of `fold.derived.Earlier`."""
        own, below = self._own(table, between)
        return self._reader(table).spans(column, {**among, **own}, between=below)

    def newest(self, table: str, keys: pa.Table) -> pa.Table:
        """As of `fold.derived.Earlier`."""
        own, below = self._own(table, None)
        rows = self._reader(table).rows(SPECS[table].schema.names, own, between=below, keys=keys)
        places = pl.DataFrame(rows.select([*keys.column_names, *_PLACE])).with_row_index("_row")
        newest = places.sort(*_PLACE).unique(keys.column_names, keep="last")["_row"]
        return rows.take(newest.to_arrow())

    def _own(
        self, table: str, between: Mapping[str, tuple[Any, Any]] | None
    ) -> tuple[dict[str, Sequence[Any]], dict[str, tuple[Any, Any]]]:
        """The conditions that rows of the partition below the end meet, with others."""
        topic, partition = self._key
        low, high = (between or {}).get("logical_timestamp", (0, self._end(table) - 1))
        place = (low, min(high, self._end(table) - 1))
        own: dict[str, Sequence[Any]] = {"domain": [topic.rpartition(".journal.")[2]], "journal_partition": [partition]}
        return own, {**(between or {}), "logical_timestamp": place}

    def _end(self, table: str) -> int:
        if table not in self._ends:
            raise ValueError(f"it does not say that it reads {table!r}")
        return self._ends[table]

    def _reader(self, table: str) -> GroupRows:
        if table not in self._readers:
            handle = self._tables[table]
            self._readers[table] = GroupRows(TableView.of(handle.delta, table, handle.uri))
        return self._readers[table]
