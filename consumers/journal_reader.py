"""The one thread, and the one client of Kafka, that read for all followers of an installation in this process.

In rounds: what others ask for, then what each follower has to do before anything is read, then what came of its
partition. Thread and client begin with the first follower and end with the last. Left to others: what the records
mean, and when a follower is over (follower).

Invariant: followers are let in and out by this thread alone, between two reads; so all that comes of a partition
belongs to the follower that is in.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import KafkaException

from ..producers.answers import Administrator
from ..producers.asked_ends import AskedEnds, leave_ends, shared_ends
from ..producers.waiting.futures import AwaitableFuture
from ..schemas.settings import Settings
from .records import Partition
from .tail import Came, Tail

_POLL_S: Final = 0.02
_WAIT_MS: Final = 20
"""Of both: whoever opens a follower waits for what is being read of others."""
_LOOKING: Final = 4
"""Most threads that look at the lake, which the reading must not wait for."""
_NOTHING: Final = Came([])
_T = TypeVar("_T")


class Reads(Protocol):
    """Who reads one partition. None of its methods raises anything."""

    @property
    def place(self) -> Partition: ...
    def prepare(self, tail: Tail, pool: Executor) -> None: ...
    def end(self, tail: Tail) -> None: ...
    def take(self, tail: Tail, came: Came, pool: Executor) -> None: ...
    def stop_for(self, tail: Tail, problem: Exception) -> None: ...


class JournalReader:
    """Reads for the followers of an installation.

    Args:
        settings: how to reach Kafka.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ends: AskedEnds | None = None
        self._questions = 0
        self._is_called = False
        self._lock = threading.Lock()
        self._in: dict[Partition, Reads] = {}
        self._calls: deque[tuple[Callable[[Tail], Any], Future[Any]]] = deque()
        self._tail: Tail | None = None
        self._thread: threading.Thread | None = None

    # Asked in any thread

    @property
    def latest_error(self) -> str | None:
        """The latest sentence of Kafka's client."""
        tail = self._tail
        latest = tail.errors.latest if tail is not None else None
        return None if latest is None else latest.text

    def end_of(self, place: Partition) -> AwaitableFuture[int]:
        """The offset behind the last record of a partition now, also of what stands behind an open unit; asked by
        another client: one that reads answers nobody else."""
        with self._lock:
            future = self._asking().end(*place, committed=False)
            self._questions += 1
        future.add_done_callback(self._answered)
        return future

    def administrator(self) -> Administrator:
        """The client that asks for ends, for other questions."""
        with self._lock:
            return self._asking().administrator()

    def _asking(self) -> AskedEnds:
        """Who asks for ends, with the lock held."""
        if self._ends is None:
            self._ends = shared_ends(self._settings)
        return self._ends

    def _answered(self, _: object) -> None:
        with self._lock:
            self._questions -= 1

    def is_in(self, follower: Reads) -> bool:
        """Whether its partition is read."""
        return self._in.get(follower.place) is follower and self._is_alive()

    def _is_alive(self) -> bool:
        """Whether its thread runs: not in a process that was forked off."""
        thread = self._thread
        return self._tail is not None and thread is not None and thread.is_alive()

    def is_current(self) -> bool:
        """Whether it is its thread that asks."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[Tail], _T]) -> _T:
        """Call a function in the reading thread, between two reads; what it returns, or raises."""
        if self.is_current() and self._tail is not None:  # a callback that begins to follow something else
            return function(self._tail)
        called: Future[_T] = Future()
        with self._lock:
            if not self._is_alive():
                self._begin()
            self._calls.append((function, called))
        return called.result()

    def _begin(self) -> None:
        tail = Tail(self._settings, wait_ms=_WAIT_MS)
        thread = threading.Thread(target=self._run, args=(tail,), name="metajournal-followers", daemon=True)
        try:
            thread.start()  # it waits for the lock
        except BaseException:
            tail.close()
            raise
        self._in.clear()
        self._tail, self._thread = tail, thread

    def wait_for_end(self) -> None:
        """Where nobody is in any more, return once its threads have ended."""
        ends = None
        while not self.is_current():
            with self._lock:
                if self._in or self._calls or self._is_called:
                    break
                if not self._questions and self._ends is not None:
                    ends, self._ends = self._ends, None
                thread = self._thread
            if thread is None or not thread.is_alive():
                break
            thread.join(_POLL_S)
        if ends is not None:
            leave_ends(ends)

    # In its own thread

    def let_in(self, tail: Tail, follower: Reads, offset: int) -> None:
        """Read a follower's partition from an offset on, until it is let out."""
        other = self._in.get(follower.place)
        if other is not None and other is not follower:
            other.end(tail)  # it is being closed
        tail.begin({follower.place: offset})
        self._in[follower.place] = follower

    def let_out(self, tail: Tail, follower: Reads) -> None:
        """Read its partition no longer, if it is read for this one."""
        if self._in.get(follower.place) is not follower:
            return
        del self._in[follower.place]
        with suppress(KafkaException, RuntimeError):  # of a client that failed: all are let out, and it is closed
            tail.leave(follower.place)

    def _run(self, tail: Tail) -> None:
        try:
            with ThreadPoolExecutor(_LOOKING, thread_name_prefix="metajournal-pin") as pool:
                while not self._is_over():
                    self._round(tail, pool)
        finally:
            self._leave(tail)
            tail.close()

    def _leave(self, tail: Tail) -> None:
        """Tell whoever still waits, where something has ended this thread."""
        with self._lock:
            if self._tail is not tail:
                return
            self._tail, calls = None, [*self._calls]
            self._calls.clear()
        problem = RuntimeError("the thread that read the journal has ended")
        for follower in [*self._in.values()]:
            follower.stop_for(tail, problem)
        for _, called in calls:
            called.set_exception(problem)

    def _is_over(self) -> bool:
        with self._lock:
            if self._in or self._calls:
                return False
            self._tail = None  # whoever calls from now on begins another thread
            return True

    def _round(self, tail: Tail, pool: Executor) -> None:
        self._is_called = True
        while self._calls:
            _answer(tail, *self._calls.popleft())
        self._is_called = False
        for follower in [*self._in.values()]:
            follower.prepare(tail, pool)
        if not self._in:
            return
        try:
            came = tail.came(_POLL_S)
        except Exception as problem:  # each of them tells whoever waits for it
            for follower in [*self._in.values()]:
                follower.stop_for(tail, problem)
            return
        for follower in [*self._in.values()]:
            follower.take(tail, came.get(follower.place, _NOTHING), pool)


def _answer(tail: Tail, function: Callable[[Tail], Any], called: Future[Any]) -> None:
    try:
        called.set_result(function(tail))
    except BaseException as problem:
        called.set_exception(problem)
        if not isinstance(problem, Exception):
            raise
