"""Publishing to the change, state, outcome and dead-letter topics: in order, by one producer, all acknowledged.

The producer is idempotent and never gives a message up, so within a partition nothing overtakes; while the broker is
away it waits, and says so. A record's partition is fixed by its journal partition (p mod n), its timestamp is the
event's system_time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ..fold.documents import Outgoing
from ..producers.kafka import ErrorLog, asked_again, make_consumer, make_producer
from ..schemas.errors import KafkaUnavailableError
from ..schemas.settings import Settings
from .outcomes import Ends

_PATIENT = {"client.id": "metajournal-stream", "delivery.timeout.ms": 0, "enable.gapless.guarantee": True}
"""Never give a message up, and rather fail for good than leave a gap in a partition."""
_IN_A_TASK = {
    **_PATIENT,
    "delivery.timeout.ms": 60_000,  # a task that fails is tried anew by the driver, which tells people why
    "delivery.report.only.error": True,
    "linger.ms": 20,
    "queue.buffering.max.messages": 10_000,  # more take memory that nobody has touched: half as much time again
    "compression.type": "lz4",
}
_POLL_S = 0.25
_OFFSETS_S = 10.0
_SERVE_EVERY = 10_000
_ROOM_S = 0.01
_SAY_AFTER_POLLS = 12


class Publisher:
    """Publishes records and knows the end offsets of what it published, and of what it is told that others did.

    Args:
        settings: how to reach Kafka.
        partitions: number of partitions of every target topic.
        ends: end offset per (topic, partition) at the start.
        stopping: asked while waiting for a broker that is away; True gives up.
        say: told once when the broker is away, and when it is back.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: Mapping[str, int],
        ends: Mapping[tuple[str, int], int],
        stopping: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._producer = make_producer(settings, ErrorLog(), **_PATIENT)
        self.partitions = partitions
        self._ends = dict(ends)
        self._stopping = stopping
        self._say = say
        self._failure: KafkaError | None = None

    def publish(self, records: Iterable[Outgoing], between: Callable[[], None] = lambda: None) -> int:
        """Publish records in order and wait until all are acknowledged; gives their number.

        Args:
            between: called when all are handed over and none is awaited yet.
        Raises:
            KafkaUnavailableError: the producer failed for good, or was told to stop while the broker was away.
        """
        count = 0
        for record in records:
            self._produce(record)
            count += 1
        between()
        self._wait()
        return count

    def _produce(self, record: Outgoing) -> None:
        partition = record.journal_partition % self.partitions[record.topic]
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    partition=partition,
                    timestamp=record.time_ms,
                    headers=record.headers,
                    on_delivery=self._delivered,
                )
                return
            except BufferError:
                self._producer.poll(_POLL_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        self._reach((str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0) + 1)

    def _reach(self, place: tuple[str, int], end: int) -> None:
        self._ends[place] = max(self._ends.get(place, 0), end)

    def _wait(self) -> None:
        polls = 0
        while self._producer.flush(_POLL_S) and self._failure is None:
            polls += 1
            if polls == _SAY_AFTER_POLLS:
                self._say("Kafka does not acknowledge; waiting for it")
            if self._stopping():
                raise KafkaUnavailableError(
                    "Kafka did not acknowledge a batch before the stream was stopped; the next start publishes it "
                    "again."
                )
        if polls >= _SAY_AFTER_POLLS:
            self._say("Kafka acknowledges again")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise KafkaUnavailableError(f"Publishing failed: {failure.str()}.") from KafkaException(failure)

    def ends(self, topic: str, journal_partition: int) -> tuple[int, int]:
        """Partition and end offset of a topic that a journal partition's records go to."""
        partition = journal_partition % self.partitions[topic]
        return partition, self._ends.get((topic, partition), 0)

    def learn(self, ends: Ends) -> None:
        """Partitions that others publish to, too, are known to reach up to these offsets."""
        for topic, (partition, end) in ends.items():
            self._reach((topic, partition), end)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(_POLL_S)


class BulkPublisher:
    """Publishes many records of one journal partition from one task; hears of failures alone.

    Args:
        settings: how to reach Kafka.
        partitions: number of partitions of every target topic.
    """

    def __init__(self, settings: Settings, partitions: Mapping[str, int]) -> None:
        self._settings = settings
        self._partitions = partitions
        self._failure: KafkaError | None = None
        self._producer = make_producer(settings, ErrorLog(), **_IN_A_TASK)

    def publish(self, records: Iterable[Outgoing], between: Callable[[], None] = lambda: None) -> int:
        """Publish records in order and wait until all are acknowledged; gives their number.

        Raises:
            KafkaUnavailableError: some are not acknowledged in time.
        """
        produce, failed, partitions = self._producer.produce, self._failed, self._partitions
        count = 0
        for count, (topic, journal_partition, key, value, headers, time_ms) in enumerate(records, 1):
            partition = journal_partition % partitions[topic]
            try:
                produce(topic, value, key, partition, failed, None, time_ms, headers)
            except BufferError:
                self._produce_later(topic, value, key, partition, failed, None, time_ms, headers)
            if not count % _SERVE_EVERY:
                self._producer.poll(0)
        between()
        while self._producer.flush(_POLL_S) and self._failure is None:
            pass
        if self._failure is not None:
            raise KafkaUnavailableError(f"Publishing failed: {self._failure.str()}.")
        return count

    def _produce_later(self, *record: Any) -> None:
        """Hand a record over once there is room for it."""
        while True:
            self._producer.poll(_ROOM_S)
            with suppress(BufferError):
                return self._producer.produce(*record)

    def _failed(self, error: KafkaError | None, _: Message) -> None:
        self._failure = self._failure or error

    def ends(self, topic: str, journal_partition: int) -> tuple[int, int]:
        """Partition and end offset of a topic that a journal partition's records go to.

        The broker's own end: everything that was acknowledged here stands below it.
        """
        partition = journal_partition % self._partitions[topic]
        ((_, high),) = watermarks(self._settings, [(topic, partition)]).values()
        return partition, high

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(_POLL_S)


def watermarks(settings: Settings, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """First and end offset of each (topic, partition).

    Raises:
        KafkaUnavailableError: the broker did not answer within 10 s.
    """
    consumer = make_consumer(settings, ErrorLog(), role="watermarks")
    deadline = time.monotonic() + _OFFSETS_S
    try:
        return {place: _watermarks_of(consumer, place, deadline) for place in places}
    except KafkaException as error:
        raise KafkaUnavailableError(f"Kafka did not return its offsets: {error.args[0].str()}.") from error
    finally:
        consumer.close()


def _watermarks_of(consumer: Consumer, place: tuple[str, int], deadline: float) -> tuple[int, int]:
    """First and end offset; a partition that was made just now, or moves, has no leader for a moment."""
    ask = partial(consumer.get_watermark_offsets, TopicPartition(*place), timeout=_OFFSETS_S)
    low, high = asked_again(consumer, ask, deadline)
    return int(low), int(high)
