"""What a Delta table is declared as: its columns, its order, what its files say of them; the layers' own tables.

Times are microseconds UTC (Delta knows no milliseconds), identifiers are text, so that every table makes sense
by itself in duckdb, polars or Spark SQL. `domain` and `journal_partition` name the journal partition that a row came
from; with `logical_timestamp` they are its place in the log, which lets a reader cut any table at a position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
_TEXTS = pa.list_(pa.string())
_TEXT_MAP = pa.map_(pa.string(), pa.string())

JOURNAL = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("journal_partition", pa.int32(), nullable=False),
        pa.field("logical_timestamp", pa.int64(), nullable=False),
        pa.field("system_date", pa.date32(), nullable=False),
        pa.field("system_time", TIMESTAMP, nullable=False),
        pa.field("append_time", TIMESTAMP, nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("duplicate_of", pa.int64()),
        pa.field("event_id", pa.string()),
        pa.field("tenant", pa.string()),
        pa.field("event_type", pa.string()),
        pa.field("aggregate", pa.string()),
        pa.field("entities", _TEXTS),
        pa.field("actor", pa.string()),
        pa.field("event_time", TIMESTAMP),
        pa.field("expected", pa.int64()),
        pa.field("unit_id", pa.string()),
        pa.field("unit_index", pa.int32()),
        pa.field("unit_count", pa.int32()),
        pa.field("cause", pa.string()),
        pa.field("repeat", pa.bool_()),
        pa.field("key", pa.binary()),
        pa.field("event_payload", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""One row per journal record, verbatim key, value and Kafka headers included. Source: architecture, "The lake"."""

_HISTORY_HEAD = [
    pa.field("tenant", pa.string(), nullable=False),
]
_HISTORY_TAIL = [
    pa.field("aggregate", pa.string(), nullable=False),
    pa.field("domain", pa.string(), nullable=False),
    pa.field("journal_partition", pa.int32(), nullable=False),
    pa.field("logical_timestamp", pa.int64(), nullable=False),
    pa.field("seq", pa.int32(), nullable=False),
    pa.field("system_time", TIMESTAMP, nullable=False),
    pa.field("event_time", TIMESTAMP, nullable=False),
    pa.field("event_id", pa.string(), nullable=False),
    pa.field("actor", pa.string()),
    pa.field("deleted", pa.bool_(), nullable=False),
]


def history(key: list[pa.Field], values: list[pa.Field]) -> pa.Schema:
    """The schema of a history table: tenant, key columns, the common columns, then the domain's own."""
    return pa.schema([*_HISTORY_HEAD, *key, *_HISTORY_TAIL, *values])


ENTITIES = history(
    [pa.field("urn", pa.string(), nullable=False)],
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("namespace", pa.string()),
        pa.field("name", pa.string(), nullable=False),
        pa.field("record", pa.string()),
        pa.field("user_properties", _TEXT_MAP),
        pa.field("user_tags", _TEXTS),
        pa.field("system_properties", _TEXT_MAP),
        pa.field("system_tags", _TEXTS),
    ],
)
"""Existence and annotations of every kind of entity: one row per accepted change of one entity. `record` is canonical
JSON of what the entity's own domain says of it."""

JOURNAL_TABLE: Final = "journal"
ENTITIES_TABLE: Final = "entities"
ROW_GROUP_ROWS: Final = 16_384
ToArrow = Callable[[Iterable[tuple[Any, str, int]]], pa.Table]
FromDict = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class TableSpec:
    """One table.

    Attributes:
        name: its name, used once in the lake.
        schema: its columns.
        sorted_by: the order that compaction brings its rows into, within a partition value; none of them is ever null.
        statistics: columns whose least and greatest value stand in the table's log for each file: those that look-ups
            name. Every one more makes each commit dearer, since the log's state is kept in memory for all live files.
        row: the class of its rows, of a history table.
        to_arrow: rows as (row, domain, journal partition), in position order per partition, to a table of its schema.
        from_dict: the row of one table row as a dict.
        group_rows: rows of a row group. Where a page takes a few rows of each, groups that are read whole are smaller.
        indexed: text columns whose values the footers index by group; and of each a column of booleans that says which
            rows count, or None: all.
        repeating: columns of few values, which files keep by number. For all others that makes files larger and slower
            to write.
        version: of the function that derives its rows from those of other tables (`fold.derived`), from 1; 0: the fold
            makes them.
        original: every lake has it, since the first version made it. What came later, only a lake that lists it.
        read_by_rules: whether rules may ask for its rows, of a history table. Those of any other are not kept in memory
            once they are made.
        sorts_files: whether rows are brought into `sorted_by` as they are written, as many at once as are in memory: of
            a table of which pages are read by key while it is not compacted yet.
    """

    name: str
    schema: pa.Schema
    sorted_by: tuple[str, ...]
    statistics: tuple[str, ...]
    row: type[Any] | None = None
    to_arrow: ToArrow | None = None
    from_dict: FromDict | None = None
    group_rows: int = ROW_GROUP_ROWS
    indexed: Mapping[str, str | None] = field(default_factory=dict)
    repeating: frozenset[str] = frozenset()
    version: int = 0
    original: bool = False
    read_by_rules: bool = True
    sorts_files: bool = False


OF_HISTORIES: Final = frozenset({"tenant", "actor", "domain", "journal_partition", "seq", "deleted"})
"""Columns of every history table that have few values."""
PARTITION_COLUMNS: Final[Mapping[str, list[str]]] = {JOURNAL_TABLE: ["system_date"]}
