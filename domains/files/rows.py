"""Rows of the `file_records` table: one for each day bucket that a file touches.

The newest row of a (file, bucket) says what the file's record is there; a deleted one, that the file has left the
bucket. All rows of one record are the same but for their bucket. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from .events import RESERVED_WORK_ID


class FileRecordRow(NamedTuple):
    """One file in one day bucket after one event.

    A row that ends the file's stay in a bucket repeats what places the former row (bucket, names, start, work_id and
    the keys), and has neither url nor metadata.

    Attributes:
        urn: the file's URN.
        bucket: days since the epoch, UTC.
        file_where, file_what, file_id: the three parts of the URN, decoded.
        first_bucket: bucket of the file's start: the least one that it touches.
        start_ms: milliseconds since the epoch.
        end_ms: milliseconds since the epoch; None: the instant `start_ms`.
        created_ms: milliseconds since the epoch, or None.
        size_bytes: or None.
        work_id: or None.
        supersedes: whether the file was recorded before. Where it is false no older row can stand for the bucket,
            so a reader need look for what a row replaces among the few others only.
        version: of the source's record format, 0.
        url: None in a row that ends.
        time_index_key: `<bucket>:<what>`.
        work_id_index_key: `<work_id>:<what>`; `null<id>:<what>` where there is no work_id.
        range_key: `<where>:<id>`.
        metadata: the source's document; None in a row that ends.
    """

    tenant: str
    urn: str
    bucket: int
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    file_where: str
    file_what: str
    file_id: str
    first_bucket: int
    start_ms: int
    end_ms: int | None
    created_ms: int | None
    size_bytes: int | None
    work_id: str | None
    supersedes: bool
    version: int
    url: str | None
    time_index_key: str
    work_id_index_key: str
    range_key: str
    metadata: Mapping[str, Any] | None


def index_keys(bucket: int, where: str, what: str, file_id: str, work_id: str | None) -> tuple[str, str, str]:
    """The keys of the source's two indexes: time, work_id and range.

    Source: the source text's "Index Design".
    """
    return f"{bucket}:{what}", *lasting_keys(where, what, file_id, work_id)


def lasting_keys(where: str, what: str, file_id: str, work_id: str | None) -> tuple[str, str]:
    """Those of them that are the same in all of a file's buckets: work_id and range.

    A file without work_id gets the reserved prefix with its own id, which makes no hot key and is the same on every
    rebuild.
    """
    work = f"{RESERVED_WORK_ID}{file_id}:{what}" if work_id is None else f"{work_id}:{what}"
    return work, f"{where}:{file_id}"


def source_record(row: FileRecordRow) -> dict[str, Any]:
    """A live row in the source's record format. Source: the source text's "Datalake Record Format"."""
    return {
        "version": row.version,
        "url": row.url,
        "time_index_key": row.time_index_key,
        "work_id_index_key": row.work_id_index_key,
        "range_key": row.range_key,
        "metadata": row.metadata,
    }


class FileRecordKey(NamedTuple("FileRecordKey", [("urn", str), ("bucket", int)])):
    """The key of a file's row in one bucket."""

    __slots__ = ()
    TABLE: ClassVar[str] = "file_records"


ROWS: Final[Mapping[type[Any], type[Any]]] = {FileRecordRow: FileRecordKey}
"""Each class of rows, and that of their keys."""
