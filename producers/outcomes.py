"""The reader of the outcomes topics: finds the verdict of a receipt's position.

One background reader for each journal, started by the first question. It reads only the partitions that were asked
for, from the append time of the earliest event asked; a question about an earlier event rewinds its partition. What
was read is kept (bounded) as one range of positions for each journal partition with the verdicts in it that are not
plainly accepted, so a program that asks for every receipt in turn is answered from memory.

Invariant: a verdict is told only from a record whose range holds the position; a mark beyond it is not enough.
A record bears the running system time of its range's end, which is never before the append time of an event in it.
The stream writes records in position order for each journal partition and repeats ranges after a restart with equal
verdicts, so the newest range extends or repeats what is held. A record that cannot be read, or speaks of positions that
the journal does not hold, is said in the log and passed over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ..schemas.arguments import check_number
from ..schemas.errors import InputError, KafkaUnavailableError, NotYetVisibleError, PositionExpired
from ..schemas.positions import Position, epoch_of
from ..schemas.settings import Settings
from ..schemas.topics import UnknownTopicError
from ..schemas.untrusted import UNREADABLE
from .journal_ends import JournalEnds
from .kafka import ErrorLog, asked_again, is_passing, make_consumer
from .passed_over import PassedOver
from .topics import TopicEpoch
from .verdicts import Outcome, OutcomeRecord, outcome_of

_log = logging.getLogger("metajournal.outcomes")
_POLL_S: Final = 0.1
_KEPT_VERDICTS: Final = 200_000
"""Most verdicts kept for one journal partition; beyond it the older half is forgotten (and read again if asked)."""
_SEEK_TIMEOUT_S: Final = 10.0
_T = TypeVar("_T")


class Held:
    """What was read of one journal partition: the verdicts of [start, end), and how far the stream is."""

    __slots__ = ("end", "mark", "start", "system_time", "verdicts")

    def __init__(self) -> None:
        self.start = self.end = 0
        self.verdicts: dict[int, list[Any]] = {}
        self.mark = 0
        self.system_time = 0

    def add(self, record: OutcomeRecord) -> None:
        """Take a record in: it extends the range, or replaces one that it does not touch."""
        self.mark = max(self.mark, record.end)
        self.system_time = max(self.system_time, record.system_time)
        if record.start > self.end or record.end < self.start:
            if record.start == record.end:
                return  # a repeated mark of an idle partition: nothing to hold
            self.start, self.end, self.verdicts = record.start, record.end, {}
        self.start, self.end = min(self.start, record.start), max(self.end, record.end)
        self.verdicts.update(record.verdicts)
        if len(self.verdicts) > _KEPT_VERDICTS:
            self._forget()

    def _forget(self) -> None:
        kept = sorted(self.verdicts)[len(self.verdicts) // 2 :]
        self.start = kept[0]
        self.verdicts = {position: self.verdicts[position] for position in kept}

    def find(self, position: Position) -> Outcome | None:
        """The verdict of a position, or None where its range was not read."""
        if not self.start <= position.value < self.end:
            return None
        return outcome_of(position, self.verdicts.get(position.value))


class Question:
    """One position that somebody waits for."""

    __slots__ = ("answered", "expired", "outcome", "position", "since")

    def __init__(self, position: Position, since: int) -> None:
        self.position = position
        self.since = since
        self.outcome: Outcome | None = None
        self.expired = False
        self.answered = threading.Event()


def _in_the_journal(behind: int | None, said: str) -> NotYetVisibleError:
    """No verdict yet: that is no reason to send the event again."""
    error = NotYetVisibleError(behind, said)
    error.hint = "The event is in the journal: do not send it again. Ask for its outcome later; `metajournal status`."
    return error


class OutcomeReader:
    """Answers questions about positions from the outcomes topics; shared between threads.

    Args:
        settings: how to reach Kafka.
        epochs: the journal topics, where they are known.
        consumer: makes the consumer, for tests.
    Attributes:
        passed_over: counts the records that were passed over.
    """

    def __init__(
        self,
        settings: Settings,
        epochs: Mapping[str, TopicEpoch] | None = None,
        *,
        consumer: Callable[[Settings, ErrorLog], Consumer] | None = None,
    ) -> None:
        self._settings = settings
        self._names = settings.journal.topics
        self._make = consumer or (lambda settings, errors: make_consumer(settings, errors, role="outcomes"))
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], Held] = {}
        self._questions: dict[tuple[str, int], list[Question]] = {}
        self._new: list[Question] = []
        self._from: dict[tuple[str, int], int] = {}
        """Append time from which each partition of an outcomes topic is read."""
        self._errors = ErrorLog()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._closing = False
        self._ends = JournalEnds(settings, epochs, stopping=lambda: self._closing)
        self.passed_over = PassedOver(_log)

    def outcome(self, position: Position, system_time: int, timeout_s: float | None = None) -> Outcome:
        """The verdict of a position.

        Args:
            position: where the event stands.
            system_time: its append time, ms.
            timeout_s: seconds to wait; `client.outcome_timeout_s` where None.
        Raises:
            NotYetVisibleError: no verdict in time; `behind` is the number of positions that the stream lacks.
            PositionExpired: the verdict is no longer in the topic.
            KafkaUnavailableError: the topic cannot be read.
        """
        check_number("timeout_s", timeout_s)
        limit = self._settings.client.outcome_timeout_s if timeout_s is None else timeout_s
        question = Question(position, system_time)
        with self._lock:
            held = self._held.get((position.topic, position.partition))
            found = held.find(position) if held is not None else None
            if found is not None:
                return found
            if self._closing:
                raise InputError(
                    "The journal is closed: no verdict is read any more.",
                    code="closed",
                    hint=f"Ask before it is closed; `metajournal why` tells what became of the event at {position}.",
                )
            self._new.append(question)
            self._start()
        asked = time.monotonic()
        question.answered.wait(min(limit, threading.TIMEOUT_MAX))  # beyond it Python's locks refuse to wait
        return self._answer(question, asked, limit)

    def close(self) -> None:
        """Stop the reader."""
        self._closing = True
        if self._thread is not None:
            self._thread.join()

    def _answer(self, question: Question, asked: float, limit: float) -> Outcome:
        if question.outcome is not None:
            return question.outcome
        if question.expired:
            raise PositionExpired(f"The verdict of {question.position} is no longer in its topic.", earliest=None)
        if self._failure is not None:
            raise KafkaUnavailableError(f"Verdicts cannot be read: {self._failure}.") from self._failure
        said = self._errors.since(asked)
        if said is not None:
            raise KafkaUnavailableError(f"Verdicts cannot be read: {said}.", position=question.position)
        raise self._not_yet(question, limit)

    def _not_yet(self, question: Question, limit: float) -> NotYetVisibleError:
        position = question.position
        with self._lock:
            self._drop(question)
            held = self._held.get((position.topic, position.partition))
        waited = f"The stream has given no verdict on {position} within {limit:g} s"
        if held is None or not held.mark:
            return _in_the_journal(None, f"{waited}; none of its partition was seen. Does the stream run?")
        behind = position.value + 1 - held.mark
        if behind <= 0 or epoch_of(held.mark) != epoch_of(position.value):
            return _in_the_journal(None, f"{waited}; it has passed the position, the verdict is being read.")
        text = f"{waited}; it is {behind:,} positions behind"
        if held.system_time > 0:
            text += f" and has reached what was written {time.time() - held.system_time / 1000:.1f} s ago"
        return _in_the_journal(behind, f"{text}.")

    def _drop(self, question: Question) -> None:
        position = question.position
        waiting = self._questions.get((position.topic, position.partition), [])
        waiting[:] = [one for one in waiting if one is not question]
        self._new[:] = [one for one in self._new if one is not question]

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._failure = None
            self._held.clear()
            self._from.clear()
            self._thread = threading.Thread(target=self._run, name="metajournal-outcomes", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        consumer: Consumer | None = None
        try:
            consumer = self._make(self._settings, self._errors)
            while not self._closing:
                self._take(consumer)
                if self._from:
                    messages = consumer.consume(1000, _POLL_S)
                    arrived_s = time.monotonic()
                    for message in messages:
                        self._read(message, arrived_s)
        except Exception as error:  # whoever waits must learn it; the next question starts anew
            self._failure = error
            with self._lock:
                waiting = self._new + [one for many in self._questions.values() for one in many]
                self._new, self._questions = [], {}
            for question in waiting:
                question.answered.set()
        finally:
            if consumer is not None:
                consumer.close()
            self._ends.close()

    def _take(self, consumer: Consumer) -> None:
        """Take new questions in, and (re)assign the partitions that must be read from an earlier time."""
        with self._lock:
            new, self._new = self._new, []
            stale = {self._target(question) for question in new if not self._covered(question)}
            pending = [one for many in self._questions.values() for one in many]
        for target in stale:
            since = min(one.since for one in pending if self._target(one) == target)
            self._seek(consumer, target, since)

    def _covered(self, question: Question) -> bool:
        """Answer a new question, or keep it; False where its partition must be read from an earlier time."""
        key = (question.position.topic, question.position.partition)
        held = self._held.setdefault(key, Held())
        question.outcome = held.find(question.position)
        if question.outcome is not None:
            question.answered.set()
            return True
        self._questions.setdefault(key, []).append(question)
        self._ends.learn(key, question.position.value + 1)  # most records need no more, and Kafka is not asked
        read_from = self._from.get(self._target(question))
        return read_from is not None and read_from <= question.since and question.position.value >= held.start

    def _seek(self, consumer: Consumer, target: tuple[str, int], since: int) -> None:
        topic, partition = target
        # The end first: what is written between the two look-ups must not be passed over.
        place, asked = TopicPartition(topic, partition), [TopicPartition(topic, partition, since)]
        _, end = self._asked(consumer, lambda: consumer.get_watermark_offsets(place, timeout=_SEEK_TIMEOUT_S))
        [found] = self._asked(consumer, lambda: consumer.offsets_for_times(asked, timeout=_SEEK_TIMEOUT_S))
        if target in self._from:
            consumer.incremental_unassign([TopicPartition(topic, partition)])
        with self._lock:
            for key in [key for key in self._held if self._target_of(*key) == target]:
                self._held[key] = Held()
        offset = found.offset if found.offset >= 0 else end
        consumer.incremental_assign([TopicPartition(topic, partition, offset)])
        self._from[target] = since

    def _asked(self, consumer: Consumer, ask: Callable[[], _T]) -> _T:
        return asked_again(consumer, ask, time.monotonic() + _SEEK_TIMEOUT_S, stopping=lambda: self._closing)

    def _target(self, question: Question) -> tuple[str, int]:
        return self._target_of(question.position.topic, question.position.partition)

    def _target_of(self, topic: str, partition: int) -> tuple[str, int]:
        """Partition of the outcomes topic that tells of a journal partition (they have the same number)."""
        return self._names.outcomes(self._names.domain_of(topic)), partition

    def _read(self, message: Message, arrived_s: float) -> None:
        error = message.error()
        if error is not None:
            if not is_passing(error):
                raise KafkaException(error)
            return
        record = self._true(message, arrived_s)
        if record is None:
            return
        key = (record.topic, record.partition)
        with self._lock:
            held = self._held.setdefault(key, Held())
            held.add(record)
            waiting = self._questions.get(key)
            if waiting:
                waiting[:] = [one for one in waiting if not self._settle(one, held, record)]

    def _true(self, message: Message, arrived_s: float) -> OutcomeRecord | None:
        """A message's record; None where the stream cannot have written it."""
        target, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
        try:
            record = OutcomeRecord.parse(message.value() or b"")
            journal = record.topic, record.partition
            if self._target_of(*journal) != target or message.key() != f"{journal[0]}/{journal[1]}".encode():
                raise ValueError("its key or its topic speaks of another journal partition")
        except (UnknownTopicError, *UNREADABLE) as error:
            self.passed_over.damaged(target, offset, error)
            return None
        if self._ends.holds(journal, record.end - 1, arrived_s):
            return record
        self.passed_over.claims(target, offset, f"to {record.end} of {journal[0]}/{journal[1]}")
        return None

    def _settle(self, question: Question, held: Held, record: OutcomeRecord) -> bool:
        question.outcome = held.find(question.position)
        # Reading began before the event was written: a range that begins above it means that its own one is gone.
        question.expired = question.outcome is None and record.start > question.position.value
        if question.outcome is None and not question.expired:
            return False
        question.answered.set()
        return True
