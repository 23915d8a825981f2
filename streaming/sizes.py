"""How large a batch is, before its records are received: which of the ways folds it follows from that alone.

The batch before it tells, and of the first one a look at the topics. All of it is an estimate that costs or
saves time; what a batch gives does not depend on it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..producers.kafka import ErrorLog, make_consumer
from ..schemas.settings import Settings
from .plan import PartitionKey
from .report import Report

EVENT_BYTES: Final = 400
"""Of a usual event."""
LARGE_BYTES: Final = 8_000
"""Events of that many bytes are read faster by Kafka's own client than by Spark's source, which copies each twice."""
_FEWEST: Final = 100
"""Records from which on a look at them costs less than it may save."""
_LOOK_S: Final = 0.5
_LOOKED_AT: Final = 20
"""Records of each partition."""


class Size(NamedTuple):
    """About how large a batch is.

    Attributes:
        weight: as that many usual events.
        is_of_large: its events are large.
    """

    weight: float
    is_of_large: bool


class Sizes:
    """The sizes of a stream's batches.

    Args:
        settings: how to reach Kafka.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rows_per_event = 1.0
        self._bytes_per_event: float | None = None
        """Of the batch before; None: there was none yet."""
        self._looked_at: float | None = None
        """Bytes of an event, by the look at the first batch."""

    def of(self, counts: Mapping[PartitionKey, int], starts: Mapping[PartitionKey, int]) -> Size:
        """About how large a batch is.

        Args:
            counts: records of each journal partition, at most.
            starts: offset of the first one of each.
        """
        events, per_event = sum(counts.values()), self._bytes_per_event
        if per_event is not None:
            return Size(events * self._rows_per_event, per_event >= LARGE_BYTES)
        if events < _FEWEST:
            return Size(events, False)
        if self._looked_at is None:
            self._looked_at = _looked_at(self._settings, counts, starts)
        return Size(events * max(1.0, self._looked_at / EVENT_BYTES), self._looked_at >= LARGE_BYTES)

    def learn(self, report: Report) -> None:
        """What a batch was; a few hundred events that record files in bulk are a large one too."""
        if report.events:
            self._rows_per_event = max(1.0, report.rows / report.events)
            self._bytes_per_event = report.size_bytes / report.events


def size_of(records: pa.Table) -> Size:
    """How large a batch is that is here."""
    return Size(records.nbytes / EVENT_BYTES, records.nbytes >= LARGE_BYTES * max(1, records.num_rows))


def _looked_at(settings: Settings, counts: Mapping[PartitionKey, int], starts: Mapping[PartitionKey, int]) -> float:
    """Bytes of an event, by the first ones of each partition that come; 0: none came in time."""
    consumer = make_consumer(settings, ErrorLog(), role="sizes")
    try:
        consumer.assign([TopicPartition(*key, starts[key]) for key, count in counts.items() if count])
        return _mean(consumer, counts)
    except KafkaException:  # who reads the records says so
        return 0.0
    finally:
        consumer.close()


def _mean(consumer: Consumer, counts: Mapping[PartitionKey, int]) -> float:
    seen, size_bytes = Counter[PartitionKey](), Counter[PartitionKey]()
    wanted = {key: min(count, _LOOKED_AT) for key, count in counts.items() if count}
    until = time.monotonic() + _LOOK_S
    while time.monotonic() < until and any(seen[key] < most for key, most in wanted.items()):
        message = consumer.poll(0.05)
        if message is None or message.error():
            continue
        key = str(message.topic()), int(message.partition() or 0)
        seen[key] += 1
        size_bytes[key] += len(message.value() or b"")
    known = sum(counts[key] for key in seen)
    return sum(counts[key] * size_bytes[key] / seen[key] for key in seen) / known if known else 0.0
