"""One partition that is being read, and how it begins: at a start, or where a commit of the group goes on.

A commit without what was reached (somebody else's tool made it, or not all of it fitted in) is no reason to deliver
anything twice: what stands before its offset, from the last watermark on, is read again without being delivered.
Left to others: finding offsets (starts), committing (commits).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from ..schemas.errors import PositionExpired
from .ledger import CompactedLedger, Ledger, Reached, Source, from_text, to_text
from .records import Partition
from .starts import Since, Start, Starts
from .watermarks import LookUp

_UNKNOWN: Final = -1
_log = logging.getLogger("metajournal.subscription")


class Reading:
    """One partition that is being read.

    Attributes:
        next: first offset that was neither delivered nor passed over.
        backlog_end: offset behind what was there when reading began; no time-out cuts that short.
        sent: offset of the last commit that was sent.
        kept: offset of the last commit that the broker has.
    """

    __slots__ = ("backlog_end", "kept", "ledger", "next", "partition", "sent", "silent_until", "since_ms")

    def __init__(self, partition: Partition, start: Start, ledger: Ledger, end: int) -> None:
        self.partition = partition
        self.ledger = ledger
        self.next = start.offset
        self.silent_until = start.silent_until
        self.since_ms = start.since_ms
        self.backlog_end = end
        self.sent = self.kept = _UNKNOWN

    def pass_over(self, offset: int) -> None:
        """The record at an offset is not the stream's."""
        self.ledger.pass_over(offset)
        self.next = offset + 1

    @property
    def offset(self) -> int:
        """The offset to commit: everything before it is done."""
        return max(self.next, self.silent_until)

    @property
    def commit(self) -> TopicPartition:
        """The commit of what is done, with what was reached."""
        text = to_text(self.ledger.reached, complete=self.next >= self.silent_until)
        return TopicPartition(*self.partition, self.offset, metadata=text)


class Opener:
    """Begins readings for one subscription.

    Args:
        starts: finds offsets.
        look_up: asks Kafka.
        targets: the topics to read, with their number of partitions.
        compacted: they are state topics.
    """

    def __init__(self, starts: Starts, look_up: LookUp, targets: Mapping[str, int], *, compacted: bool) -> None:
        self._starts = starts
        self._look_up = look_up
        self._targets = targets
        self._compacted = compacted

    def starts_of(self, since: Since, wanted: list[Partition]) -> dict[Partition, Start]:
        """Where partitions without a commit begin. Raises as `Starts.find`."""
        return self._starts.find(since, self._targets, wanted) if wanted else {}

    def begun(
        self,
        partition: Partition,
        start: Start,
        reached: Mapping[Source, Reached] | None = None,
        after: int | None = None,
    ) -> Reading:
        """A partition from a start on.

        Args:
            reached: what was read of it before.
            after: up to which offset, where that is not the start's.
        """
        _, high = self._look_up.range(partition)
        if self._compacted:
            ledger: Ledger = CompactedLedger(reached, start.floors, start.offset if after is None else after)
        else:
            ledger = Ledger({source: Reached(place) for source, place in start.floors.items()})
            ledger.merge(reached or {})
        return Reading(partition, start, ledger, high)

    def commits(self, consumer: Consumer, wanted: list[Partition]) -> dict[Partition, TopicPartition]:
        """What the consumer's group has committed of these partitions."""
        asked = [TopicPartition(*partition) for partition in wanted]
        committed = self._look_up.answer(lambda limit: consumer.committed(asked, timeout=limit)) if asked else []
        return {(commit.topic, commit.partition): commit for commit in committed if commit.offset >= 0}

    def resumed(self, partition: Partition, commit: TopicPartition) -> Reading:
        """A partition from a commit of the group on.

        Raises:
            PositionExpired: what comes after the commit is no longer in the topic.
        """
        offset, (low, high) = int(commit.offset), self._look_up.range(partition)
        if offset > high:
            raise PositionExpired(
                f"The group has read {partition[0]}, partition {partition[1]}, up to offset {offset}, but it ends at "
                f"{high}: the topic was recreated or has lost records.",
                hint="Use another group, or reset this one's offsets.",
                earliest=self._starts.earliest(partition, self._targets[partition[0]]),
            )
        if offset < low and not self._compacted:
            self._starts.expired(partition, low, self._targets[partition[0]])
        kept = from_text(commit.metadata)
        if kept is not None and kept.complete:
            reading = self.begun(partition, Start(max(offset, low)), kept.reached, after=offset)
            reading.sent = reading.kept = offset
            return reading
        if kept is None:
            _log.warning(
                "The commit for %s/%d at offset %d does not say what was reached: it was made by something other "
                "than a subscription. What precedes it is read again, to recognize records that the stream "
                "repeats.", *partition, offset,
            )  # fmt: skip
        start = self._starts.behind(partition, max(offset, low), self._targets[partition[0]])
        if self._compacted:  # what compaction has taken away was perhaps never delivered
            start = Start(start.offset, silent_until=start.silent_until)
        return self.begun(partition, start, kept.reached if kept else None)
