"""What the brokers are asked on behalf of many: above all, where journal partitions end.

One thread and one client, shared by all who ask of one installation; they begin with the first question and end after
a minute unasked. What is asked while an answer is under way goes into the next request. A partition whose broker does
not answer is asked again behind the others, one such at a time, so that they are answered meanwhile. Should the thread
fail, whoever waits is told, and the next question begins another one.
Invariant: an answer comes from a question to Kafka that began after whoever gets it had asked, so it holds everything
that was acknowledged before.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from ..schemas.errors import InputError, KafkaUnavailableError, MetajournalError
from ..schemas.positions import Position, position
from ..schemas.settings import Settings
from .answers import Administrator, offset_told
from .kafka import NOT_ALLOWED, asked_again, is_passing, look_again
from .waiting.futures import AwaitableFuture, fail, follow_on, resolve

_TRY_S: Final = 1.0
_LIMIT_S: Final = 5.0
_UNASKED_S: Final = 60.0
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LEVELS: Final = {True: IsolationLevel.READ_COMMITTED, False: IsolationLevel.READ_UNCOMMITTED}
_End = tuple[str, int, bool]
"""An end that is asked for: of a topic's partition, and whether of what is committed."""


class _Question(NamedTuple):
    """Who asks, and until when (seconds, monotonic) it is asked again."""

    future: AwaitableFuture[int]
    until: float


_Asked = dict[_End, list[_Question]]


class AskedEnds:
    """What is asked of the brokers of an installation; by `shared_ends` where others ask, too.

    Args:
        settings: how to reach Kafka.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.users = 0
        self._asked: _Asked = {}
        # Threads enter the lock itself: an exception of a signal handler (Ctrl-C, SIGTERM) that hits the Python code of
        # Condition.__enter__ would leave it locked, and one in notify() a waiter behind that takes the next turn.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._making = threading.Lock()
        self._administrator: Administrator | None = None

    def last(self, topic: str, partition: int, epoch: int, *, committed: bool = True) -> AwaitableFuture[Position]:
        """The last position that a partition holds now: that of its newest record, or the one before its first.

        Args:
            epoch: the topic's.
            committed: of what readers are shown; False: also of what stands behind an open unit.
        Raises:
            InputError: it is closed; a KafkaUnavailableError comes with the future.
        """
        future: AwaitableFuture[Position] = AwaitableFuture()
        end = self.end(topic, partition, committed=committed)
        follow_on(future, end, lambda offset: Position(topic, partition, position(epoch, offset) - 1))
        return future

    def end(self, topic: str, partition: int, *, committed: bool = True) -> AwaitableFuture[int]:
        """The offset behind the last record that a partition holds now. Arguments and errors as `last`."""
        future: AwaitableFuture[int] = AwaitableFuture()
        with self._lock:
            self._begin()
            question = _Question(future, time.monotonic() + _LIMIT_S)
            self._asked.setdefault((topic, partition, committed), []).append(question)
            self._changed.notify_all()
        return future

    def partitions(self, topic: str, *, stopping: Callable[[], bool] = lambda: False) -> int:
        """How many partitions a topic has now.

        Args:
            topic: its name.
            stopping: asked after each try that failed; True gives up.
        Raises:
            InputError: it is closed.
            KafkaUnavailableError: Kafka does not say, or says that there is no such topic.
        """
        client = self.administrator().client

        def count() -> int:
            metadata = client.list_topics(topic, timeout=_TRY_S).topics[topic]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            return len(metadata.partitions)

        try:
            return asked_again(client, count, time.monotonic() + _LIMIT_S, stopping=stopping)
        except KafkaException as refused:
            raise _unknown((topic, 0, False), refused.args[0]) from refused

    def administrator(self) -> Administrator:
        """The client, for other questions. Raises: InputError: it is closed."""
        made = self._made()
        with self._lock:
            self._begin()  # which lets it go when nobody asks any more
        return made

    def close(self) -> None:
        """End the thread; whoever waits is told."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def forked(self) -> None:
        """This is the copy in a forked process: nobody answers here, and who asks is told at once that it is closed."""
        self._lock, self._making, self._closed = threading.RLock(), threading.Lock(), True
        self._changed = threading.Condition(self._lock)

    def _begin(self) -> None:
        """Have the thread run, with the lock held. Raises: InputError: it is closed."""
        if self._closed:
            raise _closed()
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="metajournal-ends", daemon=True)
            thread.start()
            self._thread = thread  # not before: a signal may keep it from starting

    def _made(self) -> Administrator:
        with self._making:
            if self._administrator is None:
                self._administrator = Administrator(self.settings)
            return self._administrator

    def _run(self) -> None:
        asked: _Asked | None = {}
        failing: set[_End] = set()
        try:
            while (asked := self._next()) is not None:
                first, again = _turn(asked, failing)
                with self._lock:
                    for end, questions in again.items():
                        self._asked[end] = [*questions, *self._asked.get(end, ())]
                administrator = self._made()
                failed = self._ask(administrator, first)
                if failed:
                    look_again(administrator.client)
                failing = (failing - first.keys()) | failed
        except BaseException as problem:
            self._lose(asked or {}, problem)

    def _lose(self, asked: _Asked, problem: BaseException) -> None:
        """Tell whoever waits, for what is in hand too, that no answer comes; the next question begins a new thread."""
        with self._making:
            self._administrator = None
        with self._lock:
            self._thread = None
            waiting, self._asked = self._asked, {}
        error = KafkaUnavailableError(f"The ends of partitions cannot be read: {type(problem).__name__}: {problem}.")
        _fail(asked, error)
        _fail(waiting, error)

    def _next(self) -> _Asked | None:
        """What is asked for now; None where nobody asks any more: then the thread is over."""
        with self._lock:
            self._changed.wait_for(lambda: self._asked or self._closed, _UNASKED_S)
            asked, self._asked = self._asked, {}
            if asked and not self._closed:
                return asked
            self._thread = None
        with self._making:
            self._administrator = None
        _fail(asked, _closed())
        return None

    def _ask(self, administrator: Administrator, asked: _Asked) -> set[_End]:
        """Ask Kafka once; what may be answered later, is asked for again, and given."""
        answers = _sent(administrator, asked)
        failed = set()
        for end, questions in asked.items():
            try:
                offset = offset_told(answers[end].result())
            except KafkaException as refused:
                problem = refused.args[0]
                if problem.code() == KafkaError._NOENT:
                    problem = _refusal(administrator, end[0]) or problem
                if not self._give_up(administrator, end, questions, problem):
                    failed.add(end)
                continue
            for question in questions:
                resolve(question.future, offset)
        return failed

    def _give_up(
        self, administrator: Administrator, end: _End, questions: Sequence[_Question], problem: KafkaError
    ) -> bool:
        """Tell who has waited long enough, and ask again for the others; True where asking again cannot help."""
        is_over = self._closed or administrator.errors.hopeless is not None or not is_passing(problem)
        now = time.monotonic()
        late = [question for question in questions if is_over or question.until < now]
        with self._lock:
            if left := [question for question in questions if question not in late]:
                self._asked[end] = [*left, *self._asked.get(end, ())]
        _fail({end: late}, _unknown(end, problem))
        return is_over


def _sent(administrator: Administrator, ends: Collection[_End]) -> dict[_End, Future[ListOffsetsResultInfo]]:
    """Questions to the brokers that are under way."""
    sent: dict[_End, Future[ListOffsetsResultInfo]] = {}
    for committed, level in _LEVELS.items():
        of_level = {TopicPartition(*end[:2]): _LATEST for end in ends if end[2] is committed}
        if of_level:
            answers = administrator.client.list_offsets(of_level, isolation_level=level, request_timeout=_TRY_S)
            sent |= {(str(place.topic), int(place.partition), committed): one for place, one in answers.items()}
    return sent


def _turn(asked: _Asked, failing: Collection[_End]) -> tuple[_Asked, _Asked]:
    """What is asked now and what after that: of partitions that did not answer before, one at a time and last."""
    first = {end: questions for end, questions in asked.items() if end not in failing}
    again = {end: questions for end, questions in asked.items() if end in failing}
    if again:
        longest = min(again, key=lambda end: again[end][0].until)
        first[longest] = again.pop(longest)
    return first, again


_lock = threading.Lock()
_shared: list[AskedEnds] = []
_of_parent: list[AskedEnds] = []
"""In a forked process: those of its parent. They are kept, since to free a client waits for threads of the parent's."""


def shared_ends(settings: Settings) -> AskedEnds:
    """The one of this process that asks of an installation; given back with `leave_ends`."""
    with _lock:
        found = next((one for one in _shared if one.settings == settings), None)
        if found is None:
            _shared.append(found := AskedEnds(settings))
        found.users += 1
        return found


def leave_ends(ends: AskedEnds) -> None:
    """Ask it no more; it is closed with the last who does."""
    with _lock:
        if ends in _of_parent:  # of a journal that was connected before the fork
            return
        ends.users -= 1
        if ends.users:
            return
        _shared.remove(ends)
    ends.close()


def _forked() -> None:
    """The threads that answer did not come along, and one of them may have held the lock."""
    global _lock
    _lock = threading.Lock()
    for ends in _shared:
        ends.forked()
    _of_parent.extend(_shared)
    _shared.clear()


os.register_at_fork(after_in_child=_forked)


def _fail(asked: _Asked, error: MetajournalError) -> None:
    for questions in asked.values():
        for question in questions:
            fail(question.future, copy.copy(error))


def _closed() -> InputError:
    return InputError("The journal is closed.", code="closed", hint="Connect again: Journal.connect().")


def _refusal(administrator: Administrator, topic: str) -> KafkaError | None:
    """What the cluster's metadata say against a client: who may not describe a topic is merely told of no leader."""
    try:
        error: KafkaError | None = administrator.client.list_topics(topic, timeout=_TRY_S).topics[topic].error
    except KafkaException:
        return None
    return error if error is not None and error.code() in NOT_ALLOWED else None


def _unknown(end: _End, problem: KafkaError) -> KafkaUnavailableError:
    topic, partition, _ = end
    if problem.code() in NOT_ALLOWED:
        return KafkaUnavailableError(
            f"This client may not read the end of {topic}, partition {partition}: {problem.str()}.",
            code="not-allowed",
            hint="Allow this client to describe the journal topics (docs/how-to/secure-connections.md).",
        )
    return KafkaUnavailableError(f"The end of {topic}, partition {partition}, cannot be read: {problem.str()}.")
