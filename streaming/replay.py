"""Records as the journal table holds them, given out as Kafka's source would give them, to be folded again.

In slices of consecutive positions, so that memory stays bounded whatever the table's size. Files that hold nothing of
a slice are left out by the statistics in the table's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from ..lake import scan
from ..schemas.positions import MAX_OFFSET, epoch_of, position

PartitionKey = tuple[str, int]
_FIRST_STEP, _SLICE_BYTES = 1_000, 128 * 1024 * 1024
_COLUMNS = f"""
    topic, journal_partition as "partition", logical_timestamp & {MAX_OFFSET} as "offset", append_time as "timestamp",
    "key", event_payload as "value", headers, outcome
"""


def journal_slices(
    journal: DeltaTable, key: PartitionKey, start: int, end: int, positions: int
) -> Iterator[tuple[int, pa.Table]]:
    """Records of one journal partition, in position order.

    Args:
        journal: a handle; its version is the one that is read.
        start: first position.
        end: the position after the last one.
        positions: most positions in a slice; it has fewer where records are large.
    Returns:
        Epoch and records of each slice that has any: topic, partition, offset, timestamp, key, value and headers as
        Spark's Kafka source has them, and the outcome that the table says.
    """
    files = _files(journal, key)
    step = min(positions, _FIRST_STEP)
    at: int | None = _next(journal, files, key, start, end)
    while at is not None:
        until = min(at + step, end, position(epoch_of(at), MAX_OFFSET) + 1)
        rows = _rows(journal, files, key, at, until, f"select {_COLUMNS}", "order by logical_timestamp")
        if rows.num_rows:
            yield epoch_of(at), rows
            at = until if until < end else None
            fitting = step * _SLICE_BYTES // max(rows.nbytes, 1)
            step = max(1, min(positions, step * 8, fitting))
        else:
            at = _next(journal, files, key, until, end)


def count_records(journal: DeltaTable, keys: Sequence[PartitionKey], starts: Sequence[int], ends: Sequence[int]) -> int:
    """How many records the table holds in these ranges."""
    total = 0
    for key, start, end in zip(keys, starts, ends, strict=True):
        rows = _rows(journal, _files(journal, key), key, start, end, "select count(*) as number", "")
        total += sum(rows["number"].to_pylist())
    return total


def reached_after(journal: DeltaTable, key: PartitionKey, start: int, end: int, records: int) -> int:
    """The position behind which `records` records of a range stand; its end where there are fewer."""
    most = f"order by logical_timestamp offset {records} limit 1"
    rows = _rows(journal, _files(journal, key), key, start, end, "select logical_timestamp as place", most)
    return rows["place"][0].as_py() if rows.num_rows else end


def _next(journal: DeltaTable, files: list[dict[str, Any]], key: PartitionKey, start: int, end: int) -> int | None:
    """The first position at or after `start` that has a record. (A new epoch leaves a gap of a million millions.)"""
    rows = _rows(journal, files, key, start, end, "select min(logical_timestamp) as place", "")
    return rows["place"][0].as_py() if rows.num_rows else None


def _files(journal: DeltaTable, key: PartitionKey) -> list[dict[str, Any]]:
    """The files that can hold a partition, with the bounds of their positions."""
    found = pa.table(journal.get_add_actions(flatten=True)).to_pylist()
    return [
        file
        for file in found
        if _within(file, "journal_partition", key[1], key[1]) and _within(file, "topic", key[0], key[0])
    ]


def _within(file: dict[str, Any], name: str, low: Any, high: Any) -> bool:
    """Whether a column of a file can hold a value from low to high."""
    least, greatest = file.get(f"min.{name}"), file.get(f"max.{name}")
    return (least is None or least <= high) and (greatest is None or greatest >= low)


def _rows(
    journal: DeltaTable, files: list[dict[str, Any]], key: PartitionKey, start: int, end: int, select: str, rest: str
) -> pa.Table:
    paths = [file["path"] for file in files if _within(file, "logical_timestamp", start, end - 1)]
    if not paths or start >= end:
        return pa.table({"place": pa.array([], pa.int64()), "number": pa.array([], pa.int64())})
    with scan.cursor() as cursor:
        source = scan.source(cursor, journal, paths)
        topic = key[0].replace("'", "''")
        where = f"topic = '{topic}' and journal_partition = {key[1]}"
        where += f" and logical_timestamp >= {start} and logical_timestamp < {end}"
        return cursor.sql(f"{select} from {source} where {where} {rest}").to_arrow_table()
