"""Records to be folded again, as Spark's Kafka source would give them: from the journal table, or from the topic.

In slices of consecutive positions, so that memory stays bounded whatever the table's size. Files that hold nothing of
a slice are left out by the statistics in the table's log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ..lake import scan
from ..lake.views.table import Readable
from ..producers.headers import HeaderNameError, Headers, headers_of
from ..producers.kafka import ErrorLog, is_passing, make_consumer
from ..producers.recorded.restored import Earlier, is_gap
from ..schemas.errors import KafkaUnavailableError, StreamError
from ..schemas.positions import MAX_OFFSET, epoch_of, offset_of, position
from ..schemas.settings import Settings

PartitionKey = tuple[str, int]
_FIRST_CONSUMED, _MOST_CONSUMED, _CONSUMED_BYTES = 20, 10_000, 4 * 1024 * 1024
"""Messages of the first call, and the most of any: a call waits for as many as it asks for."""
_CONSUMING_S, _PATIENCE_S = 0.1, 60
_FIRST_STEP, _SLICE_BYTES = 1_000, 128 * 1024 * 1024
_CONSUMED_SLICE_BYTES = 32 * 1024 * 1024  # what comes next is fetched meanwhile
_READING: Final = {"enable.partition.eof": True, "fetch.message.max.bytes": 8 * 1024 * 1024}
"""A fetch of one megabyte, the default, is six events of a thousand objects, which are folded before the next comes."""
_DAMAGED: Final = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG})
"""Errors of a batch of records that is not as it was written; Kafka's client repeats them without end, or goes on
behind the batch."""
_COLUMNS = f"""
    topic, journal_partition as "partition", logical_timestamp & {MAX_OFFSET} as "offset", append_time as "timestamp",
    "key", event_payload as "value", headers, outcome
"""


class UnreadRangeError(StreamError):
    """The journal topic does not give a range of records."""


def journal_slices(
    journal: Readable, key: PartitionKey, start: int, end: int, positions: int
) -> Iterator[tuple[int, pa.Table]]:
    """Records of one journal partition, in position order.

    Args:
        journal: a view of it, or a handle, whose version is the one that is read.
        start: first position.
        end: the position after the last one.
        positions: most positions in a slice; it has fewer where records are large.
    Returns:
        Epoch and records of each slice that has any: topic, partition, offset, timestamp, key, value and headers as
        Spark's Kafka source has them, and the outcome that the table says.
    """
    files = _files(journal, key)
    step = min(positions, _FIRST_STEP)
    start_of_slice: int | None = _next(journal, files, key, start, end)
    while start_of_slice is not None:
        until = min(start_of_slice + step, end, position(epoch_of(start_of_slice), MAX_OFFSET) + 1)
        rows = _rows(journal, files, key, start_of_slice, until, f"select {_COLUMNS}", "order by logical_timestamp")
        if rows.num_rows:
            yield epoch_of(start_of_slice), rows
            start_of_slice = until if until < end else None
            fitting = step * _SLICE_BYTES // max(rows.nbytes, 1)
            step = max(1, min(positions, step * 8, fitting))
        else:
            start_of_slice = _next(journal, files, key, until, end)


def kafka_slices(
    settings: Settings, key: PartitionKey, start: int, end: int, records: int, earlier: Earlier = ()
) -> Iterator[tuple[int, pa.Table]]:
    """The same, read from the journal topic; without the outcome, which Kafka does not know.

    Args:
        settings: how to reach Kafka.
        key, start, end: as in `journal_slices`.
        records: most records in a slice.
        earlier: epochs that were restored into the topic; a slice ends where one does.
    Raises:
        KafkaUnavailableError: the broker gave nothing for a minute, or refuses.
        UnreadRangeError: the topic does not hold that range any more, or records of it are damaged, or have a header
            whose name is not UTF-8.
    """
    errors = ErrorLog()
    consumer = make_consumer(settings, errors, role="rebuild", **_READING)
    place = TopicPartition(*key, offset_of(start))
    try:
        consumer.assign([place])
        messages: list[Message] = []
        size, heard, count = 0, time.monotonic(), _FIRST_CONSUMED
        while offset_of(start) < offset_of(end) and (reached := _position(consumer, place)) < offset_of(end):
            consumed = consumer.consume(min(count, offset_of(end) - reached), timeout=_CONSUMING_S)
            heard = time.monotonic() if consumed else heard
            if time.monotonic() - heard > _PATIENCE_S:
                raise KafkaUnavailableError(f"Kafka gave no record of {key[0]}/{key[1]} for {_PATIENCE_S} s.")
            taken = [
                message
                for message in map(_checked, consumed)
                if message is not None and (message.offset() or 0) < offset_of(end)
            ]
            messages += taken
            taken_bytes = sum(len(message.value() or b"") for message in taken)
            size += taken_bytes
            if taken:
                count = max(1, min(_MOST_CONSUMED, len(taken) * _CONSUMED_BYTES // max(1, taken_bytes)))
            if len(messages) >= records or size >= _CONSUMED_SLICE_BYTES:
                yield from _in_epochs(messages, key[1], epoch_of(end), earlier)
                messages, size = [], 0
        yield from _in_epochs(messages, key[1], epoch_of(end), earlier)
    except KafkaException as error:
        raise KafkaUnavailableError(f"The journal topic cannot be read: {error.args[0].str()}.") from error
    finally:
        consumer.close()


def _in_epochs(messages: list[Message], partition: int, epoch: int, earlier: Earlier) -> Iterator[tuple[int, pa.Table]]:
    """Messages in offset order by the epochs that their offsets belong to, without those that only fill an offset.

    Args:
        epoch: the one behind all earlier ones.
    """
    if not earlier:
        if messages:
            yield epoch, _as_source(messages)
        return
    start = 0
    for number, ends in (*earlier, (epoch, None)):
        limit = MAX_OFFSET + 1 if ends is None else ends[partition]
        own = [message for message in messages if start <= (message.offset() or 0) < limit]
        own = own if ends is None else [message for message in own if not is_gap(_headers(message))]
        if own:
            yield number, _as_source(own)
        start = limit


def _position(consumer: Consumer, place: TopicPartition) -> int:
    """The next offset that the consumer will give; the markers of transactions move it too."""
    (place_reached,) = consumer.position([place])
    return max(place.offset, int(place_reached.offset))


def _checked(message: Message) -> Message | None:
    """The message where it is a record; None where asking again may help: nothing else may be passed over."""
    error = message.error()
    if error is None:
        return message
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise UnreadRangeError(
            f"{message.topic()}/{message.partition()} does not contain the range that must be folded again.",
            code="journal-lost-records",
            hint="The topic lost records: rebuild from the journal table (--from journal), which contains them.",
        )
    if error.code() in _DAMAGED:
        raise UnreadRangeError(
            f"{message.topic()}/{message.partition()} has damaged records, which cannot be folded again: "
            f"{error.str()}.",
            code="journal-records-damaged",
            hint="The live tables are unchanged. Rebuild from the journal table (--from journal), which contains these "
            "records, or have Kafka restore the partition from a replica that is whole.",
        )
    if error.code() != KafkaError._PARTITION_EOF and not is_passing(error):
        raise KafkaException(error)
    return None


def _as_source(messages: Sequence[Message]) -> pa.Table:
    headers = [[{"key": name, "value": value} for name, value in _headers(message)] for message in messages]
    columns = [
        pa.array([message.topic() for message in messages], pa.string()),
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC")),
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
    return pa.table(columns, names=["topic", "partition", "offset", "timestamp", "key", "value", "headers"])


def _headers(message: Message) -> Headers:
    try:
        return headers_of(message)
    except HeaderNameError as error:
        raise UnreadRangeError(
            f"{message.topic()}/{message.partition()} has a header at offset {message.offset()} whose name is not "
            "UTF-8.",
            code="journal-records-unreadable",
            hint="Rebuild from the journal table (--from journal), which contains these records.",
        ) from error


def count_records(journal: Readable, keys: Sequence[PartitionKey], starts: Sequence[int], ends: Sequence[int]) -> int:
    """How many records the table holds in these ranges."""
    total = 0
    for key, start, end in zip(keys, starts, ends, strict=True):
        rows = _rows(journal, _files(journal, key), key, start, end, "select count(*) as number", "")
        total += sum(rows["number"].to_pylist())
    return total


def reached_after(journal: Readable, key: PartitionKey, start: int, end: int, records: int) -> int:
    """The position behind which `records` records of a range stand; its end where there are fewer."""
    most = f"order by logical_timestamp offset {records} limit 1"
    rows = _rows(journal, _files(journal, key), key, start, end, "select logical_timestamp as place", most)
    return rows["place"][0].as_py() if rows.num_rows else end


def _next(journal: Readable, files: list[dict[str, Any]], key: PartitionKey, start: int, end: int) -> int | None:
    """The first position at or after `start` that has a record. (A new epoch leaves a gap of a million millions.)"""
    rows = _rows(journal, files, key, start, end, "select min(logical_timestamp) as place", "")
    return rows["place"][0].as_py() if rows.num_rows else None


def _files(journal: Readable, key: PartitionKey) -> list[dict[str, Any]]:
    """The files that can hold a partition, with the bounds of their positions."""
    files = scan.live_files(journal).to_pylist()
    return [
        file
        for file in files
        if _within(file, "journal_partition", key[1], key[1]) and _within(file, "topic", key[0], key[0])
    ]


def _within(file: dict[str, Any], name: str, low: Any, high: Any) -> bool:
    """Whether a column of a file can hold a value from low to high."""
    least, greatest = file.get(f"min.{name}"), file.get(f"max.{name}")
    return (least is None or least <= high) and (greatest is None or greatest >= low)


def _rows(
    journal: Readable, files: list[dict[str, Any]], key: PartitionKey, start: int, end: int, select: str, rest: str
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
