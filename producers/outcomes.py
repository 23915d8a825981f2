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
from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ..schemas.arguments import check_number
from ..schemas.errors import (
    InputError,
    KafkaUnavailableError,
    MetajournalError,
    NotYetVisibleError,
    PositionExpired,
)
from ..schemas.positions import Position
from ..schemas.settings import Settings
from ..schemas.topics import UnknownTopicError
from ..schemas.untrusted import UNREADABLE
from .journal_ends import JournalEnds
from .kafka import ErrorLog, asked_again, is_passing, make_consumer
from .passed_over import PassedOver
from .topics import Epochs
from .verdicts import Outcome, OutcomeRecord
from .waiting.futures import AwaitableFuture, fail, resolve
from .waiting.questions import KnownVerdicts, Question, answer, closed, not_yet

_log = logging.getLogger("metajournal.outcomes")
_POLL_S: Final = 0.1
_DEADLINES: Final = 10_000
"""Time-outs kept before those of answered questions are dropped."""
_SEEK_TIMEOUT_S: Final = 10.0
_T = TypeVar("_T")


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
        epochs: Epochs | None = None,
        *,
        consumer: Callable[[Settings, ErrorLog], Consumer] | None = None,
    ) -> None:
        self._settings = settings
        self._names = settings.journal.topics
        self._make = consumer or (lambda settings, errors: make_consumer(settings, errors, role="outcomes"))
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], KnownVerdicts] = {}
        self._questions: dict[tuple[str, int], list[Question]] = {}
        self._new: list[Question] = []
        self._from: dict[tuple[str, int], int] = {}
        """Append time from which each partition of an outcomes topic is read."""
        self._errors = ErrorLog()
        self._thread: threading.Thread | None = None
        self._ended = True
        self._closing = False
        self._deadlines: list[tuple[float, int, Question]] = []
        """When each question's time is over, the first one first; only the reader's own thread looks at it."""
        self._numbers = count()
        self._most_deadlines = _DEADLINES
        self._ends = JournalEnds(settings, epochs, stopping=lambda: self._closing)
        self.passed_over = PassedOver(_log)

    def outcome(self, position: Position, system_time: int, timeout_s: float | None = None) -> Outcome:
        """The verdict of a position.

        Args:
            position: where the event stands.
            system_time: its append time, ms.
            timeout_s: seconds to wait; `client.outcome_timeout_s` if None.
        Raises:
            NotYetVisibleError: no verdict in time; `behind` is the number of positions that the stream lacks.
            PositionExpired: the verdict is no longer in the topic.
            KafkaUnavailableError: the topic cannot be read.
        """
        question = self._asked_for(position, system_time, timeout_s)
        if threading.current_thread() is self._thread and not question.answer.done():
            raise InputError(
                "A callback of a verdict must not wait for another one: nothing would read it.",
                code="would-wait",
                hint="Use receipt.outcome_future() and add a callback to it.",
            )
        try:
            # Beyond that maximum Python's locks refuse to wait.
            return question.answer.result(min(question.limit_s, threading.TIMEOUT_MAX))
        except TimeoutError:
            self._forget([question])
            return self._late(question)

    def outcome_future(
        self, position: Position, system_time: int, timeout_s: float | None = None
    ) -> AwaitableFuture[Outcome]:
        """The verdict of a position, when it comes; arguments and errors as `outcome`.

        However many wait, the one reader resolves them all, its time-outs too, which may come a poll late.
        """
        return self._asked_for(position, system_time, timeout_s).answer

    def _asked_for(self, position: Position, system_time: int, timeout_s: float | None) -> Question:
        check_number("timeout_s", timeout_s)
        limit = self._settings.client.outcome_timeout_s if timeout_s is None else timeout_s
        question = Question(position, system_time, limit)
        with self._lock:
            verdicts = self._held.get(question.key)
            outcome = verdicts.find(position) if verdicts is not None else None
            if outcome is None:
                if self._closing:
                    raise closed(position)
                self._new.append(question)
                self._start()
        if outcome is not None:
            question.answer.set_result(outcome)
        return question

    def close(self) -> None:
        """Stop the reader; whoever still waits is told."""
        self._closing = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _late(self, question: Question) -> Outcome:
        """What a question has come to that was not answered in time. Raises: that it was not."""
        if question.answer.done():
            return question.answer.result()
        text = self._errors.since(question.asked_s)
        if text is not None:
            raise KafkaUnavailableError(f"Verdicts cannot be read: {text}.", position=question.position)
        raise self._not_yet(question)

    def _not_yet(self, question: Question) -> NotYetVisibleError:
        with self._lock:
            return not_yet(question, self._held.get(question.key))

    def _forget(self, questions: Collection[Question]) -> None:
        """Wait for some questions' verdicts no longer."""
        gone = set(map(id, questions))
        with self._lock:
            for waiting in [
                self._new,
                *(self._questions.get(key, []) for key in {question.key for question in questions}),
            ]:
                waiting[:] = [question for question in waiting if id(question) not in gone]

    def _start(self) -> None:
        if self._ended:
            self._ended = False
            self._held.clear()
            self._from.clear()
            self._thread = threading.Thread(target=self._run, name="metajournal-outcomes", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        consumer: Consumer | None = None
        problem: BaseException | None = None
        try:
            consumer = self._make(self._settings, self._errors)
            while not self._closing:
                self._take(consumer)
                self._expire()
                if self._from:
                    messages = consumer.consume(1000, _POLL_S)
                    arrived_s = time.monotonic()
                    for message in messages:
                        self._read(message, arrived_s)
        except BaseException as error:  # whoever waits must learn it; the next question starts anew
            problem = error
        finally:
            if consumer is not None:
                consumer.close()
            self._ends.close()
            self._give_up(problem)

    def _give_up(self, problem: BaseException | None) -> None:
        """Tell everybody who waits why no verdict comes: a problem, or that the journal is closed."""
        with self._lock:
            self._ended = True  # who asks from now on starts another thread
            waiting = self._new + [question for many in self._questions.values() for question in many]
            self._new, self._questions, self._deadlines = [], {}, []
        for question in waiting:
            error: MetajournalError = closed(question.position)
            if problem is not None:
                error = KafkaUnavailableError(f"Verdicts cannot be read: {problem}.")
                error.__cause__ = problem
            fail(question.answer, error)

    def _expire(self) -> None:
        """Answer the questions whose time is over."""
        now, late = time.monotonic(), []
        while self._deadlines and self._deadlines[0][0] <= now:
            late.append(heappop(self._deadlines)[2])
        late = [question for question in late if not question.answer.done()]
        if late:
            self._forget(late)
        for question in late:
            try:
                resolve(question.answer, self._late(question))
            except MetajournalError as error:
                fail(question.answer, error)
        if len(self._deadlines) > self._most_deadlines:
            self._deadlines = [deadline for deadline in self._deadlines if not deadline[2].answer.done()]
            heapify(self._deadlines)
            self._most_deadlines = max(_DEADLINES, 2 * len(self._deadlines))

    def _take(self, consumer: Consumer) -> None:
        """Take new questions in, and (re)assign the partitions that must be read from an earlier time."""
        answered: list[tuple[Question, Outcome]] = []
        with self._lock:
            new, self._new = self._new, []
            stale = {self._target(question) for question in new if not self._covered(question, answered)}
            pending = [question for many in self._questions.values() for question in many]
        for question, outcome in answered:
            resolve(question.answer, outcome)
        for target in stale:
            since = min(question.since for question in pending if self._target(question) == target)
            self._seek(consumer, target, since)

    def _covered(self, question: Question, answered: list[tuple[Question, Outcome]]) -> bool:
        """Answer a new question, or keep it; False where its partition must be read from an earlier time."""
        verdicts = self._held.setdefault(question.key, KnownVerdicts())
        outcome = verdicts.find(question.position)
        if outcome is not None:
            answered.append((question, outcome))
            return True
        self._questions.setdefault(question.key, []).append(question)
        heappush(self._deadlines, (question.asked_s + question.limit_s, next(self._numbers), question))
        self._ends.learn(question.key, question.position.value + 1)  # most records need no more: Kafka is not asked
        read_from = self._from.get(self._target(question))
        return read_from is not None and read_from <= question.since and question.position.value >= verdicts.start

    def _seek(self, consumer: Consumer, target: tuple[str, int], since: int) -> None:
        topic, partition = target
        # The end first: what is written between the two look-ups must not be passed over.
        place, asked = TopicPartition(topic, partition), [TopicPartition(topic, partition, since)]
        _, end = self._answer(consumer, lambda: consumer.get_watermark_offsets(place, timeout=_SEEK_TIMEOUT_S))
        [start] = self._answer(consumer, lambda: consumer.offsets_for_times(asked, timeout=_SEEK_TIMEOUT_S))
        if target in self._from:
            consumer.incremental_unassign([TopicPartition(topic, partition)])
        with self._lock:
            for key in [key for key in self._held if self._target_of(*key) == target]:
                self._held[key] = KnownVerdicts()
        offset = start.offset if start.offset >= 0 else end
        consumer.incremental_assign([TopicPartition(topic, partition, offset)])
        self._from[target] = since

    def _answer(self, consumer: Consumer, ask: Callable[[], _T]) -> _T:
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
        answers: list[tuple[Question, Outcome | PositionExpired]] = []
        with self._lock:
            verdicts = self._held.setdefault(key, KnownVerdicts())
            verdicts.add(record)
            waiting = self._questions.get(key)
            if waiting:
                answers = [
                    (question, outcome)
                    for question in waiting
                    if (outcome := answer(question, verdicts, record)) is not None
                ]
                answered = {id(question) for question, _ in answers}
                waiting[:] = [
                    question for question in waiting if id(question) not in answered and not question.answer.done()
                ]
        for question, outcome in answers:
            if isinstance(outcome, PositionExpired):
                fail(question.answer, outcome)
            else:
                resolve(question.answer, outcome)

    def _true(self, message: Message, arrived_s: float) -> OutcomeRecord | None:
        """A message's record; None where the stream cannot have written it."""
        target, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
        try:
            record = OutcomeRecord.parse(message.value() or b"")
            journal = record.topic, record.partition
            if self._target_of(*journal) != target or message.key() != f"{journal[0]}/{journal[1]}".encode():
                raise ValueError("its key or its topic names another journal partition")
        except (UnknownTopicError, *UNREADABLE) as error:
            self.passed_over.damaged(target, offset, error)
            return None
        if self._ends.holds(journal, record.end - 1, arrived_s):
            return record
        self.passed_over.claims(target, offset, f"to {record.end} of {journal[0]}/{journal[1]}")
        return None
