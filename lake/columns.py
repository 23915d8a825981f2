"""The columns of every Delta table, as Arrow schemas: the one place where a table's shape stands.

Times are microseconds UTC (Delta knows no milliseconds), identifiers are text, so that every table makes sense
by itself in duckdb, polars or Spark SQL. `domain` and `journal_partition` name the journal partition that a row came
from; with `logical_timestamp` they are its place in the log, which lets a reader cut any table at a position.
"""

from __future__ import annotations

from typing import Final

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

RUNS = history(
    [pa.field("run", pa.string(), nullable=False)],
    [
        pa.field("program", pa.string(), nullable=False),
        pa.field("start", TIMESTAMP),
        pa.field("first_access", TIMESTAMP),
        pa.field("stop", TIMESTAMP),
        pa.field("status", pa.string()),
    ],
)
"""What stands of each run: one row for each fact that changed it."""

ACCESSES = history(
    [pa.field(name, pa.string(), nullable=False) for name in ("run", "data", "access", "component")],
    [
        pa.field("program", pa.string(), nullable=False),
        pa.field("happened_at", TIMESTAMP, nullable=False),
        pa.field("metadata", pa.string()),
    ],
)
"""Which run touched which data: read, write or unknown, by component (empty where there is none). `metadata` is
canonical JSON of what was recorded with the access. A program's runs stand together, since its URN begins theirs."""

RELATIONS = history([pa.field(name, pa.string(), nullable=False) for name in ("data", "program")], [])
"""Which program has ever touched which data: one row for each pair, the way from data to `accesses`."""

EXTERNAL_WRITES = history(
    [pa.field(name, pa.string(), nullable=False) for name in ("stream", "source", "day")],
    [pa.field("happened_at", TIMESTAMP, nullable=False)],
)
"""The first write of each outside source to each stream on each day (UTC)."""
FILE_RECORDS = history(
    [pa.field("urn", pa.string(), nullable=False), pa.field("bucket", pa.int64(), nullable=False)],
    [
        pa.field("file_where", pa.string(), nullable=False),
        pa.field("file_what", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("first_bucket", pa.int64(), nullable=False),
        pa.field("start_ms", pa.int64(), nullable=False),
        pa.field("end_ms", pa.int64()),
        pa.field("created_ms", pa.int64()),
        pa.field("size_bytes", pa.int64()),
        pa.field("work_id", pa.string()),
        pa.field("supersedes", pa.bool_(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("time_index_key", pa.string(), nullable=False),
        pa.field("work_id_index_key", pa.string(), nullable=False),
        pa.field("range_key", pa.string(), nullable=False),
        pa.field("metadata", pa.string()),
    ],
)
"""One row per record of one file in one of its day buckets. Times of the files themselves are whole milliseconds, as
their source has them: they may lie beyond what a timestamp holds. `metadata` is canonical JSON."""

JOURNAL_TABLE = "journal"
SCHEMAS: dict[str, pa.Schema] = {
    JOURNAL_TABLE: JOURNAL,
    "entities": ENTITIES,
    "runs": RUNS,
    "accesses": ACCESSES,
    "relations": RELATIONS,
    "external_writes": EXTERNAL_WRITES,
    "file_records": FILE_RECORDS,
}
PARTITION_COLUMNS: dict[str, list[str]] = {JOURNAL_TABLE: ["system_date"]}
STATISTICS: dict[str, list[str]] = {
    JOURNAL_TABLE: ["topic", "journal_partition", "logical_timestamp", "system_time", "event_id"],
    "entities": ["tenant", "urn", "aggregate", "journal_partition", "logical_timestamp", "system_time"],
    "runs": ["tenant", "run", "program", "journal_partition", "logical_timestamp", "system_time"],
    "accesses": ["tenant", "run", "program", "journal_partition", "logical_timestamp", "system_time"],
    "relations": ["tenant", "data", "program", "journal_partition", "logical_timestamp", "system_time"],
    "external_writes": ["tenant", "stream", "journal_partition", "logical_timestamp", "system_time"],
    "file_records": ["tenant", "file_what", "bucket", "journal_partition", "logical_timestamp", "system_time"],
}
"""Columns whose least and greatest value stand in the table's log for each file: those that look-ups name. Every one
more makes each commit dearer, since the log's state is kept in memory for all live files."""
HISTORY_TABLES: tuple[str, ...] = ("entities", "file_records", "runs", "accesses", "relations", "external_writes")
SORTED_BY: dict[str, list[str]] = {
    JOURNAL_TABLE: ["topic", "journal_partition", "logical_timestamp"],
    "entities": ["tenant", "urn", "logical_timestamp", "seq"],
    # Pages of files go by time, so the rows of a page stand side by side whatever else is asked.
    "file_records": ["tenant", "bucket", "start_ms", "urn", "logical_timestamp", "seq"],
    "runs": ["tenant", "run", "logical_timestamp", "seq"],
    "accesses": ["tenant", "run", "data", "access", "component", "logical_timestamp", "seq"],
    "relations": ["tenant", "data", "program", "logical_timestamp", "seq"],
    "external_writes": ["tenant", "stream", "source", "day", "logical_timestamp", "seq"],
}
"""The order that compaction brings each table's rows into, within a partition value; no column of it is ever null."""
REPEATING = (
    "topic",
    "journal_partition",
    "outcome",
    "reason",
    "tenant",
    "event_type",
    "actor",
    "domain",
    "seq",
    "deleted",
    "kind",
    "namespace",
    "access",
    "component",
    "program",
    "status",
    "source",
    "day",
    "file_where",
    "file_what",
    "supersedes",
    "version",
)
"""Columns of few values, which files keep by number. For all others that makes files larger and slower to write."""
ROW_GROUP_ROWS: Final = 16_384
SMALL_GROUP_ROWS: Final[dict[str, int]] = {"file_records": 2_048}
"""Rows of a row group where they are fewer: a page of files takes a few rows of each, and groups are read whole."""


def row_group_rows(name: str) -> int:
    """Rows of a row group of a table."""
    return SMALL_GROUP_ROWS.get(name, ROW_GROUP_ROWS)
