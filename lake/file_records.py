"""The `file_records` table: rows of the rules to Arrow and back.

The two directions are each other's inverse; what a row means stands in `rules/files_rows.py`. Times of the files
themselves are whole milliseconds, as the source has them: they may lie beyond what a timestamp can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import pyarrow as pa

from ..rules.files_rows import FileRecordRow, index_keys
from ..schemas.events.files import DAY_MS
from ..schemas.urn import file_urn
from .columns import FILE_RECORDS
from .entities import microseconds, milliseconds
from .spelling import spelled

READ = (
    "system_time", "event_time", "event_id", "actor", "created_ms", "size_bytes", "supersedes", "version", "url",
    "metadata",
)  # fmt: skip
"""What a query reads of a row whose place it knows, in this order. The rest of a live row follows."""


def rows_to_arrow(rows: Iterable[tuple[FileRecordRow, str, int]]) -> pa.Table:
    """Rows of the `file_records` table, column by column.

    Args:
        rows: (row, domain, journal partition), in any order.
    Returns:
        A table of schema FILE_RECORDS, by bucket and start: files in the order in which queries read them can be
        passed over in pieces, also before they are compacted.
    """
    given = sorted(rows, key=_by_time)
    if not given:
        return FILE_RECORDS.empty_table()
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
        [made[field.name] if field.name in made else pa.array(held[field.name], field.type) for field in FILE_RECORDS],
        schema=FILE_RECORDS,
    )


def _by_time(row: tuple[FileRecordRow, str, int]) -> tuple[int, int, int, int, int]:
    record, _, partition = row
    return record.bucket, record.start_ms, partition, record.logical_timestamp, record.seq


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


def row_of_read(tenant: str, bucket: int, at: int, seq: int, read: tuple[Any, ...]) -> FileRecordRow:
    """A live row of its bucket, its logical_timestamp and seq, and the columns READ."""
    system_time, event_time, event_id, actor, created, size, supersedes, version, url, text = read
    metadata = orjson.loads(text)
    start, work_id = metadata["start"], metadata["work_id"]
    where, what, file_id = metadata["where"], metadata["what"], metadata["id"]
    urn = file_urn(where, what, file_id)
    return FileRecordRow(
        tenant, urn, bucket, urn.aggregate, at, seq, milliseconds(system_time), milliseconds(event_time), event_id,
        actor, False, where, what, file_id, start // DAY_MS, start, metadata["end"], created, size, work_id, supersedes,
        version, url, *index_keys(bucket, where, what, file_id, work_id), metadata,
    )  # fmt: skip
