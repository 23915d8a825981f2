"""The `file_records` table: its columns, and rows of the rules to Arrow and back.

The two directions are each other's inverse; what a row means stands in `rows`. Times of the files
themselves are whole milliseconds, as the source has them: they may lie beyond what a timestamp can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ...lake.columns import OF_HISTORIES, TableSpec, history
from ...lake.entities import microseconds, milliseconds, records
from ...lake.rows import OF_EVENT, RowColumns, each_once
from .events import DAY_MS
from .rows import FileRecordRow, index_keys
from .urns import file_urn

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

READ = (
    "system_time", "event_time", "event_id", "actor", "created_ms", "size_bytes", "supersedes", "version", "url",
    "metadata",
)  # fmt: skip
"""What a query reads of a row whose place it knows, in this order. The rest of a live row follows."""
_OF_EVENT: Final = OF_EVENT | {"file_where", "file_what", "version"}
_BY_TIME: Final = [
    (name, "ascending") for name in ("bucket", "start_ms", "journal_partition", "logical_timestamp", "seq")
]


def rows_to_arrow(rows: Iterable[tuple[FileRecordRow, str, int]]) -> pa.Table:
    """Rows of the `file_records` table, column by column.

    Args:
        rows: (row, domain, journal partition), in any order.
    Returns:
        A table of schema FILE_RECORDS, by bucket and start: files in the order in which queries read them can be
        passed over in pieces, also before they are compacted.
    """
    table = unsorted(rows)
    return table.take(pc.sort_indices(table, _BY_TIME)) if table.num_rows else table


def unsorted(rows: Iterable[tuple[FileRecordRow, str, int]]) -> pa.Table:
    """The same in the order of the rows."""
    given = list(rows)
    if not given:
        return FILE_RECORDS.empty_table()
    row_columns = RowColumns(given, FileRecordRow._fields, _OF_EVENT)
    made = {name: microseconds(row_columns.array(name, pa.int64())) for name in ("system_time", "event_time")}
    made["metadata"] = each_once(row_columns.values("metadata"), records)
    columns = [
        made[field.name] if field.name in made else row_columns.array(field.name, field.type) for field in FILE_RECORDS
    ]
    return pa.table(columns, schema=FILE_RECORDS)


def row_from_dict(row: Mapping[str, Any]) -> FileRecordRow:
    """The rules' row of one table row."""
    values = {name: row[name] for name in FileRecordRow._fields}
    values["system_time"] = milliseconds(row["system_time"])
    values["event_time"] = milliseconds(row["event_time"])
    values["metadata"] = None if row["metadata"] is None else orjson.loads(row["metadata"])
    return FileRecordRow(**values)


def row_of_read(tenant: str, bucket: int, place: int, seq: int, read: tuple[Any, ...]) -> FileRecordRow:
    """A live row of its bucket, its logical_timestamp and seq, and the columns READ."""
    system_time, event_time, event_id, actor, created, size, supersedes, version, url, text = read
    metadata = orjson.loads(text)
    start, work_id = metadata["start"], metadata["work_id"]
    where, what, file_id = metadata["where"], metadata["what"], metadata["id"]
    urn = file_urn(where, what, file_id)
    return FileRecordRow(
        tenant, urn, bucket, urn.aggregate, place, seq, milliseconds(system_time), milliseconds(event_time), event_id,
        actor, False, where, what, file_id, start // DAY_MS, start, metadata["end"], created, size, work_id, supersedes,
        version, url, *index_keys(bucket, where, what, file_id, work_id), metadata,
    )  # fmt: skip


TABLES: Final = (
    TableSpec(
        "file_records",
        FILE_RECORDS,
        # Pages of files go by time, so the rows of a page stand side by side whatever else is asked.
        sorted_by=("tenant", "bucket", "start_ms", "urn", "logical_timestamp", "seq"),
        statistics=("tenant", "file_what", "bucket", "journal_partition", "logical_timestamp", "system_time"),
        row=FileRecordRow,
        to_arrow=rows_to_arrow,
        from_dict=row_from_dict,
        group_rows=2_048,
        indexed={"work_id": None, "file_id": "supersedes"},
        repeating=OF_HISTORIES | {"file_where", "file_what", "supersedes", "version"},
        original=True,
        read_by_rules=False,
    ),
)
