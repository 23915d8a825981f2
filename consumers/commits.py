"""What a group keeps: the offset of each partition and, as the commit's metadata, what was reached of the journal.

Invariant: no commit is ever made without its metadata, and none says more than what is done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from .reading import Reading
from .records import Partition

_ANSWER_S: Final = 0.002
"""How long a waiting commit listens at a time; the broker answers in a few milliseconds."""
_UNKNOWN: Final = -1
_log = logging.getLogger("metajournal.subscription")


class Commits:
    """Commits what is done of some readings.

    Args:
        readings: the partitions that this member has now.
        interval_s: seconds between two commits; 0: after each change.
        poll: lets librdkafka call back.
    """

    def __init__(
        self, readings: Callable[[], dict[Partition, Reading]], interval_s: float, poll: Callable[[float], Any]
    ) -> None:
        self._readings = readings
        self._interval_s = interval_s
        self._poll = poll
        self._last = 0.0
        self._is_unkept = False
        """Whether partitions went with something that was done and not confirmed, and nobody was told yet."""

    @property
    def due(self) -> bool:
        """Whether something is done that the broker has not confirmed."""
        return any(reading.offset != reading.kept for reading in self._readings().values())

    def answered(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """What librdkafka calls with the broker's answer (`on_commit`)."""
        for partition in partitions:
            reading = self._readings().get((partition.topic, partition.partition))
            problem = partition.error or error
            if reading is None:
                continue
            if problem is None:
                reading.kept = max(reading.kept, partition.offset)
            else:
                reading.sent = _UNKNOWN
                _log.info("A commit of %s/%d failed: %s", partition.topic, partition.partition, problem.str())

    def if_due(self, consumer: Consumer) -> None:
        """Send what is done, when the last time is long enough ago."""
        now = time.monotonic()
        if now - self._last >= self._interval_s:
            self._last = now
            self.send(consumer)

    def send(self, consumer: Consumer) -> None:
        """Send what is done; the answer comes later."""
        due = [reading for reading in self._readings().values() if reading.offset != reading.sent]
        if due:
            consumer.commit(offsets=[reading.commit for reading in due], asynchronous=True)
            for reading in due:
                reading.sent = reading.offset

    def before_leaving(self, consumer: Consumer) -> None:
        """In a rebalance: keep what is done before another member gets these partitions."""
        due = [reading for reading in self._readings().values() if reading.offset != reading.kept]
        if due:
            try:
                kept = consumer.commit(offsets=[reading.commit for reading in due], asynchronous=False)
                problem = next((one.error for one in kept or () if one.error is not None), None)
            except KafkaException as error:
                problem = error.args[0]
            if problem is not None:
                self._is_unkept = True
                _log.warning("The last commit before a rebalance failed: %s", problem.str())

    def lost(self) -> None:
        """These partitions have gone without a last commit."""
        self._is_unkept |= self.due

    def at_first(self, consumer: Consumer, begun: Iterable[Reading]) -> None:
        """Keep where a new group begins, so that it misses nothing if it ends before its first change.

        The broker takes this from somebody outside the group as long as it has no members; they keep it otherwise.
        """
        first = [reading.commit for reading in begun]
        if first:
            try:
                consumer.commit(offsets=first, asynchronous=False)
            except KafkaException as error:
                _log.info("The start of the group was not stored: %s", error.args[0].str())

    def wait(self, consumer: Consumer, timeout_s: float) -> bool:
        """Send what is done and wait for the answer; false when it is not confirmed in time, or was lost before.

        What was lost with its partition is told once. (librdkafka's own waiting takes up to a minute when the broker is
        away.)
        """
        deadline, mine = time.monotonic() + timeout_s, self._readings()
        while self.due and self._readings() is mine:  # until it is kept, or a rebalance comes in between
            if time.monotonic() > deadline:
                return False
            self.send(consumer)
            self._poll(_ANSWER_S)
        was_lost, self._is_unkept = self._is_unkept, False
        return not was_lost
