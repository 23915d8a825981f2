"""Looking things up in the outcomes topic and the journal: from which offset a subscriber must read.

An outcome record says of a journal partition that all it speaks of, up to the position `to`, is published below the
offsets in `ends`; what stands at `to` or later is published, or published again, at or after them. So the last record
with `to` at or below a position gives the offset to begin at. A batch's verdicts may be split over several records
that all bear the batch's ends: of these only the last one will do, since what it lacks stands before its ends.

Invariant: no offset is later than needed; where no record helps, nothing is made up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ..producers.journal_ends import JournalEnds
from ..producers.kafka import SHORT_READS, ErrorLog, asked_again, is_passing, make_consumer
from ..producers.passed_over import PassedOver
from ..schemas.errors import InputError, KafkaUnavailableError, NotYetVisibleError, PositionExpired
from ..schemas.positions import EPOCH_SHIFT, Position
from ..schemas.settings import Settings
from ..schemas.untrusted import UNREADABLE, json_object, whole, whole_of
from .records import Partition

_log = logging.getLogger("metajournal.subscription")
LOOK_UP_S: Final = 10.0
_POLL_S: Final = 0.2
_WINDOW: Final = 512
"""Records of an outcomes partition that are read one after the other; a longer way is halved first."""


class Watermark(NamedTuple):
    """What one outcome record says, as far as it matters here."""

    to: int
    ends: dict[Partition, int]
    written: int
    ends_with_verdict: bool
    system_time: int

    @classmethod
    def of(cls, message: Message) -> Watermark:
        """Read an outcome record. Raises: one of UNREADABLE: it is none, or is not of the partition in its key."""
        record = json_object(message.value())
        if message.key() != f"{record['topic']}/{whole(record['partition'])}".encode():
            raise ValueError("its key is another journal partition's")
        ends = {(name, whole_of(n)): whole(end) for name, where in record["ends"].items() for n, end in where.items()}
        verdicts = record["verdicts"]
        last = bool(verdicts) and verdicts[-1][0] == record["to"] - 1
        return cls(whole(record["to"]), ends, whole(record["written"]), last, whole(max(record["system_time"], 0)))

    def whole(self, following: Watermark | None) -> bool:
        """Whether it is surely the last record of its batch: a split part ends with a verdict."""
        return not self.ends_with_verdict or (following is not None and following.written != self.written)


class LookUp:
    """Asks Kafka where to begin; a context manager, since it has a consumer of its own.

    Args:
        settings: how to reach Kafka.
        ends: what is known of the journal's ends.
        topics: the stream's topics that are looked for; what outcome records say of others does not matter.
        stopping: asked while waiting; True gives up.
    """

    def __init__(
        self,
        settings: Settings,
        ends: JournalEnds | None = None,
        topics: Collection[str] = (),
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ends = JournalEnds(settings, stopping=stopping) if ends is None else ends
        self._ends_are_own = ends is None
        self._topics = topics
        self._passed_over = PassedOver(_log)
        self._errors = ErrorLog()
        self._stopping = stopping
        self._consumer: Consumer = make_consumer(settings, self._errors, role="positions", **SHORT_READS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()
        if self._ends_are_own:
            self._ends.close()

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""

        def count(limit: float) -> int:
            metadata = self._consumer.list_topics(topic, timeout=limit).topics[topic]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            return len(metadata.partitions)

        return int(self.answer(count, topic))

    def range(self, partition: Partition) -> tuple[int, int]:
        """First offset of a partition, and the one behind its last; of the journal, behind the last committed one."""
        low, high = self.answer(
            lambda limit: self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=limit)
        )
        return int(low), int(high)

    def end(self, partition: Partition) -> int:
        """The offset behind the last record of a partition, committed or not."""
        return self._ends.end(partition)

    def append_time(self, position: Position) -> int:
        """When the event at a position was written, milliseconds UTC.

        Raises:
            PositionExpired: it is no longer in the journal.
            InputError: no event stands there.
            NotYetVisibleError: it stands behind a unit that is not committed in time.
        """
        low, high = self.range((position.topic, position.partition))
        if position.offset < low:
            raise PositionExpired(
                f"The event at {position} is no longer in the journal topic.",
                earliest=Position(position.topic, position.partition, (position.epoch << EPOCH_SHIFT) + low),
            )
        if position.offset >= high:
            self._wait_until_shown(position)
        back = 0
        while (message := self._read(position.topic, position.partition, max(position.offset - back, low))) is None:
            # A transaction's marker takes a position too; the event before it is hardly older.
            if position.offset - back <= low:
                return 0
            back = back * 2 or 1
        return int(message.timestamp()[1])

    def _wait_until_shown(self, position: Position) -> None:
        """Wait until the units before an event have ended. Raises: as `append_time`."""
        place, deadline = (position.topic, position.partition), time.monotonic() + LOOK_UP_S
        if position.offset >= self.end(place):
            raise InputError(f"There is no event at {position} yet.", hint="Give a position as its receipt prints it.")
        while position.offset >= (high := self.range(place)[1]):
            if self._given_up():
                raise self._unanswered()
            if time.monotonic() > deadline:
                raise NotYetVisibleError(
                    {place: position.offset + 1 - high},
                    f"The event at {position} was not shown within {LOOK_UP_S:g} s: a unit before it is not committed.",
                )
            time.sleep(_POLL_S)

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int | None:
        """The first offset whose record was appended at a time or later; None where none was."""
        asked = [TopicPartition(topic, partition, max(time_ms, 0))]
        [offset] = self.answer(lambda limit: self._consumer.offsets_for_times(asked, timeout=limit))
        return None if offset.offset < 0 else int(offset.offset)

    def last(
        self, outcomes: Partition, key: bytes, beyond: Callable[[Watermark], bool]
    ) -> tuple[Watermark | None, Watermark | None]:
        """The last outcome record of a journal partition that is not beyond something, and the first that is.

        Args:
            outcomes: where that partition's outcome records stand.
            key: of that partition's records.
            beyond: true for all records from one on, as good as (a restart of the stream may repeat some).
        """
        low, high = self.range(outcomes)
        first, end = low, high
        while end - first > _WINDOW:
            middle = (first + end) // 2
            first_record = self._first(outcomes, key, middle, end)
            if first_record is None or beyond(first_record[1]):
                end = middle
            else:
                first = first_record[0]
        # Before `first` nothing is beyond; a whole record may stand some way back.
        size = _WINDOW
        while True:
            start = max(low, first - size)
            best, following = self._scan(outcomes, key, start, high, beyond)
            if best is not None or start == low:
                return best, following
            size *= 8

    def _scan(
        self, outcomes: Partition, key: bytes, start: int, end: int, beyond: Callable[[Watermark], bool]
    ) -> tuple[Watermark | None, Watermark | None]:
        best: Watermark | None = None
        candidate: Watermark | None = None
        for _, watermark in self._records(outcomes, key, start, end):
            if candidate is not None and candidate.whole(watermark):
                best = candidate
            if beyond(watermark):
                return best, watermark
            candidate = watermark
        return (candidate if candidate is not None and candidate.whole(None) else best), None

    def _first(self, outcomes: Partition, key: bytes, start: int, end: int) -> tuple[int, Watermark] | None:
        """The first record of a journal partition in a range of offsets."""
        return next(self._records(outcomes, key, start, end), None)

    def _records(self, outcomes: Partition, key: bytes, start: int, end: int) -> Iterator[tuple[int, Watermark]]:
        """(offset, watermark) of each record with a key in a range of offsets, in order."""
        if start >= end:
            return
        self._consumer.assign([TopicPartition(*outcomes, start)])
        deadline = time.monotonic() + LOOK_UP_S
        while True:
            messages = self._consumer.consume(1, _POLL_S)
            messages += self._consumer.consume(_WINDOW, 0) if messages else []
            arrived_s = time.monotonic()
            for message in messages:
                error = message.error()
                if (message.offset() or 0) >= end or (error is not None and error.code() == KafkaError._PARTITION_EOF):
                    return
                if error is not None:
                    raise KafkaUnavailableError(f"Outcomes cannot be read: {error.str()}.")
                deadline = time.monotonic() + LOOK_UP_S
                if message.key() == key and (watermark := self._true(message, outcomes, arrived_s)) is not None:
                    yield message.offset() or 0, watermark
                if (message.offset() or 0) + 1 >= end:
                    return
            self._check(deadline)

    def _true(self, message: Message, outcomes: Partition, arrived_s: float) -> Watermark | None:
        """What an outcome record says; None where the stream cannot have written it."""
        offset = message.offset() or 0
        try:
            watermark = Watermark.of(message)
        except UNREADABLE as error:
            self._passed_over.damaged(outcomes, offset, error)
            return None
        journal, _, number = (message.key() or b"").decode().rpartition("/")
        if not self._ends.holds((journal, int(number)), watermark.to - 1, arrived_s):
            self._passed_over.claims(outcomes, offset, f"to {watermark.to} of {journal}/{number}")
            return None
        for target, end in watermark.ends.items():
            if target[0] in self._topics and not self._ends.reaches(target, end, arrived_s):
                self._passed_over.claims(outcomes, offset, f"the end {end} of {target[0]}/{target[1]}")
                return None
        return watermark

    def _read(self, topic: str, partition: int, offset: int) -> Message | None:
        """The first record at or after an offset."""
        self._consumer.assign([TopicPartition(topic, partition, offset)])
        deadline = time.monotonic() + LOOK_UP_S
        while True:
            message = self._consumer.poll(_POLL_S)
            error = message.error() if message is not None else None
            if message is not None and error is None:
                return message
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return None
            self._check(deadline)

    def _check(self, deadline: float) -> None:
        if self._given_up() or time.monotonic() > deadline:
            raise self._unanswered()

    def _given_up(self) -> bool:
        return self._errors.hopeless is not None or self._stopping()

    def _unanswered(self) -> KafkaUnavailableError:
        if self._errors.hopeless is not None:
            return KafkaUnavailableError(
                f"Kafka refuses this client: {self._errors.hopeless.text}.", code="not-allowed"
            )
        text = f" ({self._errors.latest.text})" if self._errors.latest else ""
        return KafkaUnavailableError(f"Kafka did not answer within {LOOK_UP_S:g} s{text}.")

    def answer(self, ask: Callable[[float], Any], what: str = "Kafka") -> Any:
        """An answer of the broker, asked for again until the time is over."""
        deadline = time.monotonic() + LOOK_UP_S
        try:
            return asked_again(self._consumer, lambda: ask(1.0), deadline, stopping=self._given_up)
        except KafkaException as error:
            problem = error.args[0]
            if is_passing(problem):
                raise self._unanswered() from error
            raise KafkaUnavailableError(f"{what} cannot be read: {problem.str()}.") from error
