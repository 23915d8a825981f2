"""Everything that a journal topic holds, followed by one thread: first as the lake has it, then record by record.

For small topics that a process needs whole and at once, whether the stream runs or not. As the follower of one
aggregate it judges with the stream's own fold over a pin of the lake; where it stands back (other rules, an unknown
schema, too far behind, no lake yet) the lake is looked at each second instead.

Each second the topic is asked where it ends. Once everything below that was read, the topic is *heard* as of the moment
at which was asked; how long ago that is tells its reader whether an answer may be given.
Invariant: what was taken in is never less than what stood in the topic when it was last heard.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from math import inf
from typing import Final

from confluent_kafka import KafkaException

from ..fold.folded import Folded
from ..lake.views.views import View, views_at, whole_view
from ..producers.asked_ends import leave_ends, shared_ends
from ..producers.topics import Epochs, read_epochs
from ..schemas.errors import KafkaUnavailableError, MetajournalError, NotYetVisibleError, UnavailableError
from ..schemas.positions import offset_of, position
from ..schemas.settings import Settings
from .follower import MOST_BEHIND, PIN_S
from .foretelling import Foretold
from .pins import Pin, take_pins
from .tail import Tail, lost

ASK_S: Final = 1.0
"""Seconds between two questions for the topic's end, and between two looks at the lake where the topic is not read."""
_ANSWER_S: Final = 2.5
_AGAIN_S: Final = 5.0
"""Seconds until a lake that was away is looked at again."""
_POLL_S: Final = 0.02
_log = logging.getLogger("metajournal.follower")
Marks = Mapping[int, int]
"""The next position of each partition."""


class WholeTopic:
    """Follows one journal topic until it is closed.

    Args:
        settings: how to reach Kafka and the lake.
        epochs: the journal topics.
        topic: what to follow.
        load: is given a view of the lake and the marks below which its rows count; takes them all in.
        take_in: is given what was judged of the topic above them. Both are called in this object's thread; the same
            rows may come again, and never older ones alone.
    """

    def __init__(
        self,
        settings: Settings,
        epochs: Epochs,
        topic: str,
        load: Callable[[View, Marks], None],
        take_in: Callable[[Folded], None],
    ) -> None:
        self._settings = settings
        self._epochs = epochs
        self._topic = topic
        self._load = load
        self._take_in = take_in
        self._asked_ends = shared_ends(settings)
        self._lock = threading.RLock()  # not the condition itself: see `AskedEnds`
        self._changed = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._hurry = threading.Event()
        """Somebody waits for the topic's end, and it is asked for at once."""
        self._heard_at = -inf
        self._asked_at = -inf
        self._ends: dict[int, int] = {}
        self._known: dict[int, Foretold] = {}
        self._pinned_at = -inf
        self._pinning: Future[dict[int, Pin]] | None = None
        self.problem: MetajournalError | None = None
        """Why the topic is not read at the moment."""
        self._thread = threading.Thread(target=self._run, name=f"metajournal-whole-{topic}", daemon=True)
        self._thread.start()

    # What is asked of it, in any thread

    def unheard_s(self) -> float:
        """Seconds since the topic's end was last known and reached; infinite before the first time."""
        return time.monotonic() - self._heard_at

    def wait(self, timeout_s: float) -> bool:
        """Wait until the topic's end, as of this call or later, is reached; whether it is in time."""
        now = time.monotonic()
        self._hurry.set()
        with self._lock:
            return self._changed.wait_for(lambda: self._heard_at >= now or self._closing.is_set(), timeout_s) and (
                self._heard_at >= now
            )

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
        leave_ends(self._asked_ends)

    # In its own thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._follow()
            except MetajournalError as error:
                self._stands_back(error)
            except KafkaException as error:
                self._stands_back(KafkaUnavailableError(f"{self._topic} cannot be followed: {error.args[0].str()}."))
            except Exception as error:  # whoever asks must learn it; the next second begins anew
                _log.exception("%s cannot be followed.", self._topic)
                self._stands_back(UnavailableError(f"{self._topic} cannot be followed: {error!r}."))
            self._closing.wait(ASK_S)

    def _follow(self) -> None:
        """Read the topic until it is closed. Raises: why it cannot be."""
        tail = Tail(self._settings)
        try:
            self._begin(tail, self._pins())
            self.problem = None
            with ThreadPoolExecutor(1, thread_name_prefix="metajournal-pin") as pool:
                while not self._closing.is_set():
                    self._renew(tail, pool)
                    self._ask()
                    self._read(tail)
        finally:
            tail.close()

    def _pins(self) -> dict[int, Pin]:
        partitions = range(self._epochs[self._topic].partitions)
        administrator = self._asked_ends.administrator()
        pins = take_pins(self._settings, self._epochs, self._topic, partitions, administrator)
        return dict(zip(partitions, pins, strict=True))

    def _renew(self, tail: Tail, pool: Executor) -> None:
        """Go on from newer pins where that is due; they are taken beside the reading, which must not wait for it.

        While there are none, as where the lake is away, those that there are do: what the topic tells is judged over
        them as before.
        """
        if self._pinning is None:
            if time.monotonic() - self._pinned_at > PIN_S:
                self._pinning = pool.submit(self._pins)
        elif self._pinning.done():
            taken, self._pinning = self._pinning, None
            try:
                pins = taken.result()
            except UnavailableError as error:
                _log.debug("%s goes on without a newer lake: %s", self._topic, error)
                self._pinned_at = time.monotonic() - PIN_S + _AGAIN_S
                return
            if any(pin.mark != self._known[partition].pin.mark for partition, pin in pins.items()):
                self._begin(tail, pins)
                return
            for partition, pin in pins.items():
                self._known[partition].renew(pin)
            self._pinned_at = time.monotonic()

    def _begin(self, tail: Tail, pins: Mapping[int, Pin]) -> None:
        """Take the lake in, and read the topic from there on."""
        self._pinning = None
        self._check(pins, {partition: tail.ends((self._topic, partition)) for partition in pins})
        self._load(pins[0].view, {partition: pin.mark for partition, pin in pins.items()})
        tail.begin({(self._topic, partition): offset_of(pin.mark) for partition, pin in pins.items()})
        self._known = {partition: Foretold(pin, None, self._take_in) for partition, pin in pins.items()}
        self._pinned_at = time.monotonic()

    def _check(self, pins: Mapping[int, Pin], ends: Mapping[int, tuple[int, int]]) -> None:
        for partition, pin in pins.items():
            offset, (low, high) = offset_of(pin.mark), ends[partition]
            if not low <= offset <= high:
                text = f"the lake ends at offset {offset}, the topic holds {low} to {high}"
                raise lost(self._topic, partition, text)
            if high - offset > MOST_BEHIND:
                raise NotYetVisibleError(
                    {(self._topic, partition): high - offset},
                    f"The lake is {high - offset:,} records behind the end of {self._topic}/{partition}.",
                )

    def _ask(self) -> None:
        """Ask where the topic ends, each second; while nobody answers, go on with what comes."""
        now = time.monotonic()
        if now - self._asked_at < ASK_S and self._ends and not self._hurry.is_set():
            return
        self._hurry.clear()
        self._asked_at = now
        try:
            self._ends = self._ends_now()
        except KafkaUnavailableError as error:
            self._ends = {}
            _log.debug("%s", error)
            return
        self._hear({partition: known.next for partition, known in self._known.items()})

    def _ends_now(self) -> dict[int, int]:
        """The next position of each partition. Raises: KafkaUnavailableError: it is not said at once."""
        known = self._epochs[self._topic]
        asked = [self._asked_ends.end(self._topic, partition) for partition in range(known.partitions)]
        try:
            wait(asked, _ANSWER_S)
            return {number: position(known.epoch, end.result(0)) for number, end in enumerate(asked)}
        except TimeoutError:
            raise KafkaUnavailableError(
                f"The ends of {self._topic} were not returned within {_ANSWER_S:g} s."
            ) from None

    def _read(self, tail: Tail) -> None:
        came = tail.came(_POLL_S)
        first = position(self._epochs[self._topic].epoch, 0)
        for (_, partition), one in came.items():
            known = self._known[partition]
            known.take(one.messages)
            known.reach(first + one.reached)
            if one.problem is not None:
                raise one.problem
            if known.stopped_by is not None:
                self._refuse(known, partition)
        if came and self._ends:
            self._hear({partition: known.next for partition, known in self._known.items()})

    def _refuse(self, known: Foretold, partition: int) -> None:
        """Raises: UnavailableError: the stream stops at a record; it is shelved, or a newer version reads it."""
        raise UnavailableError(
            f"A record at {known.next} of {self._topic}/{partition} needs a newer version of metajournal.",
            code="unknown-schema",
            hint="Upgrade, or have the stream skip it: `metajournal shelve`.",
        )

    def _hear(self, reached: Marks) -> None:
        """Note that the ends that were asked for last are reached, if they are."""
        if all(reached[partition] >= end for partition, end in self._ends.items()):
            with self._lock:
                self._heard_at = self._asked_at
                self._changed.notify_all()

    # Where the topic is not read

    def _stands_back(self, error: MetajournalError) -> None:
        """Look at the lake instead; it counts as heard where it holds all that the topic does."""
        if self.problem is None or self.problem.code != error.code:
            _log.warning("%s is read from the lake alone: %s", self._topic, error)
        self.problem = error
        try:
            self._epochs = read_epochs(self._settings)
            self._look()
        except (MetajournalError, KafkaException) as problem:
            _log.debug("%s", problem)

    def _look(self) -> None:
        known = self._epochs[self._topic]
        self._asked_at = time.monotonic()
        self._ends = self._ends_now()
        view = whole_view(views_at(self._settings.lake.path, self._settings.lake.storage_options))
        marks = {
            partition: known.reached(partition, 0 if view is None else view.journal.mark((self._topic, partition)))
            for partition in self._ends
        }
        if view is not None:
            self._load(view, marks)
        self._hear(marks)


def condition(domain: str, marks: Marks) -> str:
    """The rows of a table that a domain's topic made below some marks, as SQL."""
    below: Sequence[str] = [
        f"(journal_partition = {partition} and logical_timestamp < {mark})" for partition, mark in marks.items()
    ]
    return f"domain = '{domain}' and ({' or '.join(below) or 'false'})"
