"""Kafka topics as tests write and read them: raw records in, and everything that a topic holds out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from metajournal.lake.tables import Lake
from metajournal.producers.kafka import MESSAGE_BYTES, SHORT_READS, ErrorLog, is_passing, look_again, make_consumer
from metajournal.schemas.hashing import DIGEST_HEADER
from metajournal.schemas.positions import offset_of, position
from metajournal.schemas.settings import Settings
from tests.model import JournalRecord
from tests.wait import eventually


class Seen(NamedTuple):
    """A change or state record as a subscriber has it."""

    partition: int
    position: int
    seq: int
    key: str
    time_ms: int
    document: Any


def offsets(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """First and end offset of a partition, as soon as it has a leader: just made, it has none yet."""

    def told() -> tuple[int, int] | None:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        except KafkaException as error:
            if not is_passing(error.args[0]):
                raise
            look_again(consumer)
            return None
        return low, high

    return eventually(told, 30, f"a leader of {topic}/{partition}")


def write(settings: Settings, records: Iterable[JournalRecord], topic: str | None = None) -> int:
    """Write records as they are to the catalog's journal topic, each to its key's partition; gives their number."""
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka["bootstrap.servers"],
            "partitioner": "murmur2_random",
            "message.max.bytes": MESSAGE_BYTES,
            "log_level": 0,
        }
    )
    count = 0
    for one in records:
        headers: list[tuple[str, str | bytes | None]] = [] if one.digest is None else [(DIGEST_HEADER, one.digest)]
        producer.produce(topic or settings.journal.topics.journal("catalog"), one.value, one.key, headers=headers)
        count += 1
    assert producer.flush(30) == 0
    return count


def read(settings: Settings, topic: str) -> list[Message]:
    """Every committed record that a topic holds now, in offset order per partition.

    A partition's end is told by its own event: behind the last record may stand transaction markers. What stands
    behind an open transaction counts too, and is waited for; a reader of committed records is not told of it.
    """
    consumer = make_consumer(settings, ErrorLog(), role="tests", **SHORT_READS)
    ends = make_consumer(settings, ErrorLog(), role="tests", **{"isolation.level": "read_uncommitted"})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        found: list[Message] = []
        for partition in sorted(partitions):
            low, high = offsets(ends, topic, partition)
            consumer.assign([TopicPartition(topic, partition, low)])
            at = low
            while at < high:
                message = consumer.poll(40)
                assert message is not None, f"{topic}/{partition} ends at {at}, not at {high}"
                if message.partition() != partition:
                    continue  # the end of the partition before, which was queued until now
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at = max(at, message.offset() or 0)
                    continue
                found.append(message)
                at = max(at, (message.offset() or 0) + 1)
        return found
    finally:
        consumer.close()
        ends.close()


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    headers: Any = message.headers() or []
    return list(headers)


def journal_records(settings: Settings) -> list[JournalRecord]:
    """The catalog's journal as the broker holds it, for the model."""
    records = []
    for message in read(settings, settings.journal.topics.journal("catalog")):
        digests = [value for name, value in _headers(message) if name == DIGEST_HEADER]
        place = position(1, message.offset() or 0)
        records.append(
            JournalRecord(
                message.partition() or 0,
                place,
                message.timestamp()[1],
                message.key(),
                message.value(),
                digests[0] if digests else None,
            )
        )
    return records


def seen(settings: Settings, topic: str) -> list[Seen]:
    """A change or state topic as a subscriber sees it: repeats dropped by (position, seq), in order."""
    found: list[Seen] = []
    reached: dict[str, tuple[int, int]] = {}
    for message in read(settings, topic):
        headers = dict(_headers(message))
        source, partition, place, seq = (headers["ce_id"] or b"").decode().rsplit("/", 3)
        at = (int(place), int(seq))
        stream = f"{source}/{partition}"
        if at > reached.get(stream, (0, -1)):
            reached[stream] = at
            document = json.loads(message.value() or b"null")
            found.append(Seen(int(partition), *at, (message.key() or b"").decode(), message.timestamp()[1], document))
    return sorted(found, key=lambda one: one[:3])


def outcomes(settings: Settings) -> list[dict[str, Any]]:
    """Every outcome record, as JSON."""
    return [json.loads(one.value() or b"null") for one in read(settings, settings.journal.topics.outcomes("catalog"))]


def folded_to_the_end(settings: Settings) -> bool:
    """Whether the journal table holds all that the catalog's journal topic holds now."""
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    if not lake.journal.exists():
        return False
    topic = settings.journal.topics.journal("catalog")
    consumer = make_consumer(settings, ErrorLog(), role="tests")
    try:
        for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
            _, high = offsets(consumer, topic, partition)
            if offset_of(lake.journal.mark((topic, partition))) < high:
                return False
        return True
    finally:
        consumer.close()
