"""Verdicts and rows of an aggregate before the stream has told them: the stream's own fold, run here.

One follower for each journal partition and process, shared by all who ask: it is given what comes at the end of the
partition (journal_reader) and judges what stands under the followed keys (foretelling) over a pin of the lake (pins).
It begins at a pin's mark; each minute a newer one takes its place, and reading begins again there, so what is kept is a
minute old and the stream's delay. After a minute unasked it ends, and begins again when it is asked.

Invariant: a verdict is told only once everything below its position was read; what this process cannot know as the
stream does is refused, with the reason, and whoever asked waits for the outcome instead.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from json import loads
from typing import Any, Final, TypeVar, cast

from confluent_kafka import KafkaException

from ..fold.folded import Verdict
from ..producers.topics import Epochs, read_epochs
from ..producers.verdicts import Outcome, outcome_of
from ..producers.waiting.futures import AwaitableFuture, fail, follow_on, resolve
from ..rules.entity import EntityRow
from ..schemas.errors import (
    InputError,
    InvalidPositionError,
    KafkaUnavailableError,
    MetajournalError,
    NotYetVisibleError,
    UnavailableError,
    UnknownSchemaError,
)
from ..schemas.hashing import canonical_json
from ..schemas.positions import Position, offset_of, position
from ..schemas.settings import Settings
from .awaited import Awaited, AwaitedOnes, AwaitedRow, AwaitedVerdict, SeenRow, fail_all
from .facts import AggregateRows
from .foretelling import Foretold
from .journal_reader import JournalReader
from .pins import Pin, take_pin
from .records import Partition
from .tail import Came, Tail, lost

MOST_BEHIND: Final = 100_000
"""Most records between the lake's mark and the end of the partition."""
PIN_S: Final = 60.0
UNASKED_S: Final = 60.0
_END_S: Final = 10.0
_STOPPED_S: Final = 1.0
"""Seconds between two looks at the epochs topic, while an unknown schema stands in the way."""
_T = TypeVar("_T")
_INSTEAD: Final = "Wait for the outcome instead: receipt.outcome()."


class Follower:
    """Follows one journal partition; made and shared by `followers`.

    Args:
        settings: how to reach Kafka and the lake.
        epochs: the journal topics.
        topic, partition: what to follow.
        reader: reads for it.
    """

    def __init__(self, settings: Settings, epochs: Epochs, topic: str, partition: int, reader: JournalReader) -> None:
        self.settings = settings
        self.topic = topic
        self.partition = partition
        self.reader = reader
        self._epochs = epochs
        self._lock = threading.RLock()  # not the condition itself: see `AskedEnds`
        self._changed = threading.Condition(self._lock)
        self._opening = threading.Lock()
        self._followed: Counter[bytes] = Counter()
        self._new: set[bytes] = set()
        """Keys that are not taken up yet: records of them were passed over, or nothing is read."""
        self._awaited: list[int] = []
        self._futures = AwaitedOnes()
        self._asked = 0.0
        self._known: Foretold | None = None
        self._failure: MetajournalError | None = None
        self._pinning: Future[Pin | None] | None = None
        self._pinned_at = 0.0
        self._closing = False

    # What is asked of it, in any thread

    @property
    def place(self) -> Partition:
        return self.topic, self.partition

    @property
    def running(self) -> bool:
        return self.reader.is_in(self) and self._failure is None

    @property
    def followed(self) -> bool:
        """Whether anybody follows a key."""
        return bool(self._followed)

    def follow(self, key: bytes) -> None:
        """Follow a key until it is released; begins to read where nobody did. Raises as `take_pin`, and:

        Raises:
            NotYetVisibleError: the lake is more than 100,000 records behind.
        """
        with self._lock:
            self._followed[key] += 1
            self._new.add(key)
            if self._known is not None:
                self._take_up(self._known)  # or the reading thread would, once its turn is over
        try:
            self._ensure()
        except BaseException:
            self.release(key)
            raise

    def release(self, key: bytes) -> None:
        with self._lock:
            self._followed[key] -= 1
            if not self._followed[key]:
                del self._followed[key]

    def peek(self, key: bytes, position: Position) -> Outcome | None:
        """The verdict of a position, where it is at hand: no lock, no wait."""
        known = self._known
        self._asked = time.monotonic()
        verdict = known.verdicts.get(position.value) if known is not None and key in known.keys else None
        return None if verdict is None else receipt_outcome(position, verdict)

    def verdict(self, key: bytes, position: Position, timeout_s: float) -> Outcome:
        """The verdict of a position under a followed key; waits until everything below it was read."""
        self._check(position)
        pin, verdict = self._reached(
            key, position.value, timeout_s, lambda known: (known.pin, known.verdicts.get(position.value))
        )
        return _verdict(pin, verdict, key, position)

    def verdict_future(self, key: bytes, position: Position, timeout_s: float) -> AwaitableFuture[Outcome]:
        """`verdict`, when it comes. The key is followed until then; to begin to follow it may take 200 ms."""
        self._check(position)
        return self._awaited_future(AwaitedVerdict(key, position, timeout_s))

    def row_future(
        self, key: bytes, tenant: str, urn: str, at_least: Position, timeout_s: float
    ) -> AwaitableFuture[SeenRow]:
        """`row`, when everything up to a position was read; as `verdict_future`."""
        self._check(at_least)
        return self._awaited_future(AwaitedRow(key, at_least, timeout_s, tenant, urn))

    def _awaited_future(self, awaited: Awaited[_T]) -> AwaitableFuture[_T]:
        """The future of what is awaited, resolved at once where it is at hand."""
        with self._lock:
            self._asked = time.monotonic()
            known = self._known
            is_known = known is not None and self.running and _has_reached(known, awaited.key, awaited.position.value)
            found = awaited.look(known) if is_known and known is not None else None
            if found is None:
                self._futures.add(awaited)
        if found is not None:
            resolve(awaited.future, _told(awaited, found))
            return awaited.future
        try:
            self.follow(awaited.key)
        except BaseException:
            with self._lock:
                self._futures.drop(awaited)
            raise
        awaited.future.add_done_callback(lambda _: self.release(awaited.key))
        return awaited.future

    def row(
        self, key: bytes, tenant: str, urn: str, at_least: Position | None, timeout_s: float
    ) -> tuple[EntityRow | None, Position]:
        """The newest row of an entity under a followed key, and the position below which everything is in it.

        Args:
            at_least: a position that it must know; None: all that the partition holds now, so that the units that are
                open in it are waited for.
        """
        if at_least is None:
            at_least = self._end(timeout_s)
        self._check(at_least)
        pin, row, end = self._reached(
            key, at_least.value, timeout_s, lambda known: (known.pin, known.rows.get((tenant, urn)), known.next)
        )
        return row or pin.row(tenant, urn), Position(self.topic, self.partition, end)

    def facts(
        self, key: bytes, tables: Collection[str] | None, at_least: Position | None, timeout_s: float
    ) -> AggregateRows:
        """The rows of other tables than `entities` that events under a followed key made; arguments as of `row`.

        Args:
            tables: whose rows; None: of all of them.
        """
        if at_least is None:
            at_least = self._end(timeout_s)
        self._check(at_least)
        (begin, rows), end = self._reached(
            key, at_least.value, timeout_s, lambda known: (known.facts(key, tables), known.next)
        )
        return AggregateRows(begin, Position(self.topic, self.partition, end), rows)

    def _end(self, timeout_s: float) -> Position:
        """The last position that the partition holds now."""
        end = self._end_offset(timeout_s)
        return Position(*self.place, position(self._epochs[self.topic].epoch, end) - 1)

    def _end_offset(self, timeout_s: float) -> int:
        if self._closing:
            raise _closed()
        try:
            return self.reader.end_of(self.place).result(min(timeout_s, threading.TIMEOUT_MAX))
        except TimeoutError:
            text = f"The end of {self.topic}/{self.partition} was not returned within {timeout_s:g} s."
            raise KafkaUnavailableError(text) from None

    def stop(self) -> None:
        """Have it end soon; whoever waits is told."""
        self._closing = True

    def close(self) -> None:
        """End it, and wait until it has; whoever waits is told."""
        self.stop()
        if not self.reader.is_current():
            with self._lock:
                self._changed.wait_for(lambda: not self.reader.is_in(self))
            self.reader.wait_for_end()

    def _check(self, position: Position) -> None:
        if (position.topic, position.partition) != (self.topic, self.partition):
            raise InvalidPositionError(
                f"{position} is not a position in {self.topic}/{self.partition}, where this aggregate's events are.",
                text=str(position),
            )

    def _reached(self, key: bytes, value: int, timeout_s: float, look: Callable[[Foretold], _T]) -> _T:
        """What `look` sees, once all up to a position is read under a key.

        Raises:
            NotYetVisibleError: it is not in time; `behind` says how many positions are missing.
            UnknownSchemaError: the stream stops before that position.
            MetajournalError: why this process cannot follow any longer.
            InputError: a callback asks, in the thread that would read it.
        """
        with self._awaiting(value):
            if self.reader.is_current() and not self._settled(key, value):
                raise InputError(
                    "A callback of a follower must not wait: nothing would read what it waits for.",
                    code="would-wait",
                    hint="Use a future and add a callback to it: verdict_future().",
                )
            self._changed.wait_for(lambda: self._settled(key, value), min(timeout_s, threading.TIMEOUT_MAX))
            known = self._known
            if self._failure is not None:
                raise copy.copy(self._failure)
            if known is None:
                raise _closed()
            if _has_reached(known, key, value):
                return look(known)
        raise self._refusal(known, value, timeout_s)

    def _refusal(self, known: Foretold, value: int, timeout_s: float) -> MetajournalError:
        """Why what stands at a position is not known."""
        if known.stopped_by is not None:
            return UnknownSchemaError(self.topic, self.partition, known.next, known.stopped_by.fingerprint)
        return self._not_yet(value, known.next, timeout_s)

    @contextmanager
    def _awaiting(self, value: int) -> Iterator[None]:
        """With it running and its lock held; it does not end itself while anybody waits."""
        with self._lock:
            self._awaited.append(value)
        try:
            self._ensure()
            with self._lock:
                yield
        finally:
            with self._lock:
                self._awaited.remove(value)
                self._asked = time.monotonic()

    def _settled(self, key: bytes, value: int) -> bool:
        known = self._known
        if self._failure is not None or self._closing or known is None:
            return True
        return _has_settled(known, key, value)

    def _not_yet(self, value: int, reached: int, timeout_s: float) -> NotYetVisibleError:
        lacking = max(0, value + 1 - reached)
        latest = self.reader.latest_error
        why = "" if latest is None else f" (Kafka said: {latest})"
        error = NotYetVisibleError(
            {(self.topic, self.partition): lacking},
            f"The end of {self.topic}/{self.partition} was not read within {timeout_s:g} s: {lacking:,} positions are"
            f" missing{why}.",
        )
        error.advise(_INSTEAD)
        return error

    # Opening, in the thread of whoever asks

    def _ensure(self) -> None:
        """See to it that it is read for. Raises: why it cannot be."""
        with self._lock:  # so that it cannot end itself between the two
            self._asked = time.monotonic()
            if self.running:
                return
        if self.reader.is_current():  # a callback; whoever is opening it meanwhile finds it open
            if self._closing:
                raise _closed()
            self._open()
            return
        with self._opening:
            if not self.running:
                if self._closing:
                    raise _closed()
                self._open()

    def _open(self) -> None:
        self.reader.call(partial(self._enter, self._pinned()))

    def _pinned(self) -> Pin:
        """A pin, from which on the topic can be read.

        Raises:
            TopicMismatchError: the topic does not reach up to it.
            NotYetVisibleError: too much stands behind it.
        """
        pin = take_pin(self.settings, self._epochs, *self.place, self.reader.administrator())
        offset, end = offset_of(pin.mark), self._end_offset(_END_S)
        if offset > end:
            text = f"the lake ends at offset {offset}, the topic at {end}"
            raise lost(self.topic, self.partition, text)
        self._check_behind(end - offset)
        return pin

    # Reading, in the reader's thread

    def _enter(self, pin: Pin, tail: Tail) -> None:
        """Begin over a pin."""
        if self._closing:
            raise _closed()
        if self.running:
            return
        self._begin_with(pin)
        self._failure = None
        self._cancel_look()
        self.reader.let_in(tail, self, offset_of(pin.mark))

    def _cancel_look(self) -> None:
        pinning, self._pinning = self._pinning, None
        if pinning is not None:
            pinning.cancel()

    def _begin_with(self, pin: Pin) -> None:
        """Judge anew what stands behind a pin's mark."""
        with self._lock:
            self._known = Foretold(pin, self._followed)
            self._new.clear()
            self._pinned_at = time.monotonic()
            self._changed.notify_all()

    def _check_behind(self, behind: int) -> None:
        if behind > MOST_BEHIND:
            error = NotYetVisibleError(
                {(self.topic, self.partition): behind},
                f"The lake is {behind:,} records behind the end of {self.topic}/{self.partition}; from "
                f"{MOST_BEHIND:,} on, verdicts are not available ahead of the stream.",
            )
            error.advise(f"{_INSTEAD} `metajournal status` shows how far the stream is.")
            raise error

    def prepare(self, tail: Tail, pool: Executor) -> None:
        """What is due before its partition is read on."""
        try:
            if not self._ends_itself(tail):
                self._renew(tail, pool)
        except Exception as problem:  # whoever waits must learn it; the next question begins anew
            self.stop_for(tail, problem)

    def take(self, tail: Tail, came: Came, pool: Executor) -> None:
        """What came of its partition."""
        try:
            self._read(tail, came)
            self._answer_awaited(pool)
        except Exception as problem:
            self.stop_for(tail, problem)

    def _error(self, problem: Exception) -> MetajournalError:
        """A problem as whoever waits is told it."""
        if isinstance(problem, MetajournalError):
            return problem
        if isinstance(problem, KafkaException):
            return KafkaUnavailableError(f"{self.topic} cannot be followed: {problem.args[0].str()}.")
        text = f"{self.topic}/{self.partition} cannot be followed: {problem!r}."
        return UnavailableError(text, code="follower-failed", hint=_INSTEAD)

    def stop_for(self, tail: Tail, problem: Exception) -> None:
        """End because of a problem; whoever waits is told."""
        error = self._error(problem)
        self._cancel_look()
        with self._lock:
            self.reader.let_out(tail, self)
            self._failure = error
            waiting = self._futures.take_all()
            self._changed.notify_all()
        fail_all(waiting, lambda: copy.copy(error))

    def _ends_itself(self, tail: Tail) -> bool:
        """Whether it was closed, or nobody has asked for a minute."""
        with self._lock:
            is_awaited = self._awaited or self._futures
            if not self._closing and (is_awaited or time.monotonic() - self._asked <= UNASKED_S):
                return False
            waiting = self._let_out(tail)
        fail_all(waiting, _closed)
        return True

    def end(self, tail: Tail) -> None:
        """End; whoever waits is told."""
        with self._lock:
            waiting = self._let_out(tail)
        fail_all(waiting, _closed)

    def _let_out(self, tail: Tail) -> list[Awaited[Any]]:
        """Be read for no longer, with the lock held; gives the futures of those who wait."""
        self._cancel_look()
        self.reader.let_out(tail, self)
        self._known = None
        self._changed.notify_all()
        return self._futures.take_all()

    def _read(self, tail: Tail, came: Came) -> None:
        known = self._known
        if known is None or not known.goes_on():
            return
        first = position(known.pin.epoch, 0)
        with self._lock:
            self._take_up(known)  # what is emitted by whoever follows its key first is judged as it comes
            judged = known.take(came.messages) if came.messages else False
            known.reach(first + came.reached)
            if judged or not known.goes_on() or min(self._awaited, default=known.next) < known.next:
                self._changed.notify_all()
        if came.problem is not None:
            raise came.problem
        if not known.goes_on():
            tail.leave(self.place)

    def _answer_awaited(self, pool: Executor) -> None:
        """Resolve the futures that are due, under no lock; what only the lake knows is read beside."""
        if not self._futures:
            return
        known = self._known
        assert known is not None  # in this thread
        with self._lock:
            due = self._futures.take(lambda key, value: _has_settled(known, key, value))
            reached = [_has_reached(known, awaited.key, awaited.position.value) for awaited in due]
            found = [awaited.look(known) if is_known else None for awaited, is_known in zip(due, reached, strict=True)]
            pin = known.pin
        for awaited, is_known, seen in zip(due, reached, found, strict=True):
            if not is_known:
                fail(awaited.future, self._refusal(known, awaited.position.value, awaited.limit_s))
            elif seen is not None:
                resolve(awaited.future, _told(awaited, seen))
            else:
                read = partial(_verdict, pin, None, awaited.key, awaited.position)
                follow_on(awaited.future, pool.submit(read), _itself)

    def _take_up(self, known: Foretold) -> bool:
        """Follow new keys from here on, with the lock held; tells whether records of one have been passed over."""
        if self._new:
            passed = set(filter(known.has_passed, self._new))
            known.keys |= self._new - passed
            if len(passed) < len(self._new):
                self._new = passed
                self._changed.notify_all()
        return bool(self._new)

    def _renew(self, tail: Tail, pool: Executor) -> None:
        """Take new keys up, and a new pin where it is due; it is taken beside the reading."""
        known = self._known
        assert known is not None
        with self._lock:
            passed = self._take_up(known)
        if self._pinning is None:
            age_s = time.monotonic() - self._pinned_at
            if passed or age_s > (PIN_S if known.goes_on() else _STOPPED_S):
                self._pinning = pool.submit(self._look, None if known.goes_on() else known.next)
        elif self._pinning.done():
            pin, self._pinning = self._pinning.result(), None
            self._pinned_at = time.monotonic()
            if pin is not None:
                self._take(tail, known, pin, anew=passed or not known.goes_on())

    def _look(self, stopped_at: int | None) -> Pin | None:
        """A new pin; None while an unknown schema stands in the way that no operator has shelved."""
        if stopped_at is not None:
            epochs = read_epochs(self.settings)
            if (self.topic, self.partition, stopped_at) not in epochs.shelved:
                return None
            self._epochs = epochs
        return self._pinned()

    def _take(self, tail: Tail, known: Foretold, pin: Pin, *, anew: bool) -> None:
        if anew or pin.mark != known.pin.mark:
            self._begin_with(pin)
            tail.begin({self.place: offset_of(pin.mark)})
        else:
            self._check_behind(known.next - pin.mark)
            known.renew(pin)


def _has_settled(known: Foretold, key: bytes, value: int) -> bool:
    """Whether what stands at a position is known, or cannot be."""
    return not known.goes_on() or _has_reached(known, key, value)


def _has_reached(known: Foretold, key: bytes, value: int) -> bool:
    """Whether everything up to a position was read under a key."""
    return key in known.keys and known.next > value


def _told(awaited: Awaited[_T], seen: Any) -> _T:
    """What a follower knows, as it is told."""
    told: Any = receipt_outcome(awaited.position, seen) if isinstance(seen, Verdict) else seen
    return cast(_T, told)


def _verdict(pin: Pin, verdict: Verdict | None, key: bytes, position: Position) -> Outcome:
    """A verdict that was found behind the pin, or else the lake's. Raises: InvalidPositionError: there is none."""
    if verdict is None and position.value < pin.mark:
        verdict = pin.verdict(position.value, key)
    if verdict is None:
        raise InvalidPositionError(
            f"No event of {key.decode(errors='replace')} is at {position}.",
            hint="Use a follower of that event's aggregate; `metajournal why` shows which it is.",
            text=str(position),
        )
    return receipt_outcome(position, verdict)


def _itself(outcome: Outcome) -> Outcome:
    return outcome


def _closed() -> InputError:
    return InputError("The journal is closed.", code="closed", hint="Connect again: Journal.connect().")


def receipt_outcome(position: Position, verdict: Verdict) -> Outcome:
    """A verdict as a receipt's outcome tells it: through the form that it has in an outcome record."""
    return outcome_of(position, loads(canonical_json(verdict.wire(position.value))))
