"""What the journal holds: claims of records held against the ends of Kafka's partitions.

The stream publishes a record after the journal holds the event that it speaks of, so a true record never claims a
position at or beyond the end of its journal partition. Ends only grow. So what is known of an end is kept, and Kafka is
asked only when a record claims more; what is still beyond the answer is forged, provided that the journal topic is the
recorded one. (While a journal is being restored it is not, and nobody may judge by its end.)

A position of an earlier epoch is below every position of the present one: nothing is left to hold it against.
Left to others: asking Kafka (asked_ends), reading the records, and what becomes of a forged one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ..schemas.errors import KafkaUnavailableError
from ..schemas.settings import Settings
from .asked_ends import AskedEnds, leave_ends, shared_ends
from .passed_over import Partition
from .topics import Epochs, check_journal, read_epochs

_POLL_S: Final = 0.1


class JournalEnds:
    """The ends of partitions, as far as they were asked for; for one thread at a time.

    Args:
        settings: how to reach Kafka.
        epochs: the journal topics, where they are known; read when first needed otherwise.
        stopping: asked while waiting for an answer; True gives up.
    """

    def __init__(
        self,
        settings: Settings,
        epochs: Epochs | None = None,
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings = settings
        self.epochs = epochs
        """The journal topics as they were last read here: other domains may have joined since others read them."""
        self._stopping = stopping
        self._asked: AskedEnds | None = None
        self._ends: dict[Partition, int] = {}
        """What is known of each end: the next position of a journal partition, the next offset of another one."""
        self._asked_s: dict[Partition, float] = {}
        self._counts: dict[str, tuple[int, float]] = {}
        """How many partitions each of the stream's topics has, and when that was asked, seconds, monotonic."""
        self._checked_s = float("-inf")

    def close(self) -> None:
        """Ask no more."""
        if self._asked is not None:
            leave_ends(self._asked)
            self._asked = None

    def learn(self, source: Partition, end: int) -> None:
        """A journal partition is known to reach up to a next position: an event before it was acknowledged."""
        self._ends[source] = max(end, self._ends.get(source, 0))

    def holds(self, source: Partition, position: int, arrived_s: float) -> bool:
        """Whether a position is below the end of its journal partition.

        Args:
            source: journal topic and partition.
            position: what a record claims.
            arrived_s: when the record had arrived, seconds, monotonic; an end that was asked later is not asked again.
        Raises:
            KafkaUnavailableError: Kafka does not say.
            TopicMismatchError: the journal topic is not the recorded one.
        """
        if position < self._ends.get(source, 0):
            return True
        self._look(source, arrived_s)
        if position < self._ends.get(source, 0):
            return True
        if self._checked_s < arrived_s:
            now_s = time.monotonic()
            self.epochs = check_journal(self._settings, source[0])
            self._checked_s = now_s
            self._look(source, now_s)
        return position < self._ends.get(source, 0)

    def reaches(self, place: Partition, offset: int, arrived_s: float) -> bool:
        """Whether one of the stream's topics has a partition that ends at an offset or behind it. As `holds`."""
        if not self._is_there(place, arrived_s):
            return False
        if offset > self._ends.get(place, 0) and self._asked_s.get(place, float("-inf")) < arrived_s:
            self._asked_s[place], self._ends[place] = time.monotonic(), self.end(place)
        return offset <= self._ends.get(place, 0)

    def _is_there(self, place: Partition, arrived_s: float) -> bool:
        """Whether a topic has a partition; Kafka is asked again only for one that it lacked."""
        topic, partition = place
        count, asked_s = self._counts.get(topic, (0, float("-inf")))
        if partition >= count and asked_s < arrived_s:
            now_s = time.monotonic()
            count = self._asking().partitions(topic, stopping=self._stopping)
            self._counts[topic] = count, now_s
        return partition < count

    def _look(self, source: Partition, arrived_s: float) -> None:
        """Ask for the end of a journal partition, if there is one of that name."""
        if self.epochs is None:
            self.epochs = read_epochs(self._settings)
        topic, partition = source
        known = self.epochs.get(topic)
        if known is None or partition >= known.partitions or self._asked_s.get(source, float("-inf")) >= arrived_s:
            return
        now_s = time.monotonic()
        self.learn(source, known.position(partition, self.end(source)))
        self._asked_s[source] = now_s

    def end(self, place: Partition) -> int:
        """The offset behind the last record of a partition, committed or not. Raises: KafkaUnavailableError."""
        end = self._asking().end(*place, committed=False)
        while True:
            try:
                return end.result(_POLL_S)
            except TimeoutError:
                if self._stopping():
                    raise KafkaUnavailableError(
                        f"The end of {place[0]}, partition {place[1]}, is not waited for any more."
                    ) from None

    def _asking(self) -> AskedEnds:
        if self._asked is None:
            self._asked = shared_ends(self._settings)
        return self._asked
