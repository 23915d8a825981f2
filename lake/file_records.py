"""The `file_records` table: rows of the rules to Arrow and back.

The two directions are each other's inverse; what a row means stands in `rules/files_rows.py`. Times of the files
themselves are whole milliseconds, as the source has them: they may lie beyond what a timestamp can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import pyarrow as pa

from ..rules.files_rows import FileRecordRow
from .columns import history
from .entities import microseconds, milliseconds
from .spelling import spelled

KEY_FIELDS = [
    pa.field("urn", pa.string(), nullable=False),
    pa.field("bucket", pa.int64(), nullable=False),
]
VALUE_FIELDS = [
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
]
SCHEMA = history(KEY_FIELDS, VALUE_FIELDS)
"""One row per accepted record of one file and day bucket; `metadata` is canonical JSON of the source's document."""

STATISTICS = ["tenant", "file_what", "bucket", "journal_partition", "logical_timestamp", "system_time"]
SORTED_BY = ["tenant", "file_what", "bucket", "start_ms", "urn", "logical_timestamp", "seq"]
"""A page of a query is a range of one what's times, so its rows stand side by side."""
COLUMNS = ", ".join(name for name in SCHEMA.names if name not in ("domain", "journal_partition"))
"""What a look-up selects: all that `row_from_dict` needs."""


def rows_to_arrow(rows: Iterable[tuple[FileRecordRow, str, int]]) -> pa.Table:
    """Rows of the `file_records` table, column by column.

    Args:
        rows: (row, domain, journal partition), in position order per partition.
    Returns:
        A table of schema SCHEMA.
    """
    given = list(rows)
    if not given:
        return SCHEMA.empty_table()
    records, domains, partitions = zip(*given, strict=True)
    held = dict(zip(FileRecordRow._fields, zip(*records, strict=True), strict=True))
    made = {
        "domain": pa.array(domains, pa.string()),
        "journal_partition": pa.array(partitions, pa.int32()),
        "system_time": microseconds(held["system_time"]),
        "event_time": microseconds(held["event_time"]),
        "metadata": pa.array(_texts(held["metadata"]), pa.string()),
    }
    return pa.table(
        [made[field.name] if field.name in made else pa.array(held[field.name], field.type) for field in SCHEMA],
        schema=SCHEMA,
    )


def _texts(documents: Iterable[Mapping[str, Any] | None]) -> list[str | None]:
    """Each document as canonical JSON; that of a file in many buckets is written once."""
    texts: list[str | None] = []
    last: Mapping[str, Any] | None = None
    text: str | None = None
    for document in documents:
        if document is not last:
            last, text = document, None if document is None else spelled(document).decode()
        texts.append(text)
    return texts


def row_from_dict(row: Mapping[str, Any]) -> FileRecordRow:
    """The rules' row of one table row."""
    values = {name: row[name] for name in FileRecordRow._fields}
    values["system_time"] = milliseconds(row["system_time"])
    values["event_time"] = milliseconds(row["event_time"])
    values["metadata"] = None if row["metadata"] is None else orjson.loads(row["metadata"])
    return FileRecordRow(**values)
