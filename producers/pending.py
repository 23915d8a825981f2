"""Which event of each aggregate was emitted last, so that flushes and units can wait until it is acknowledged.

Each thread notes its own emits, without a lock, which is all that the hot path does here: nobody else writes there, so
what a thread has noted is the latest that it emitted, and the latest of all is among what the threads have noted.
Entries of acknowledged events are dropped now and then, so that memory follows what waits, not what was ever emitted.
Rests on librdkafka: within a partition delivery reports come in order, so a thread's last one of a key speaks for all.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final, NamedTuple

from .receipts import Receipt

_LEAST: Final = 16_384
"""Entries below which nothing is dropped: some 4 MB."""
_LEAST_THREADS: Final = 64
"""Threads below which none is looked for that has ended."""
_TURN_S: Final = 0.01


class LatestEmits:
    """The receipts of the latest events of each key; shared between threads.

    Attributes:
        own: where the calling thread notes what it has emitted.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._noted: list[_Noted] = []
        self._limit = _LEAST
        self._most_threads = _LEAST_THREADS
        self.own = _Own(self._begun)

    def tidy(self) -> None:
        """Drop what is acknowledged, if there is much of it."""
        if sum(len(noted.by_key) for noted in self._noted) <= self._limit:
            return
        with self._lock:
            for noted in self._noted:
                _drop_acknowledged(noted.by_key)
            self._limit = max(_LEAST, 2 * sum(len(noted.by_key) for noted in self._noted))

    def settled(
        self, keys: Iterable[bytes] | None, serve: Callable[[float], object], deadline: float, left: Callable[[], int]
    ) -> bool:  # fmt: skip
        """Wait until nothing emitted so far under these keys is under way any more, whichever thread emitted it.

        Args:
            keys: all where None.
            serve: takes delivery reports in for some seconds.
            deadline: monotonic time.
            left: how many events have no delivery report yet. Where there is none, a receipt that still waits has lost
                its own to a signal, and counts as failed.
        Returns:
            Whether that came true in time; a failed event is no longer under way either.
        """
        for receipt in self._waiting(None if keys is None else list(keys)):
            while receipt.pending:
                if not left() and receipt.pending:  # in this order: an event is left until its report was taken in
                    receipt.cut_off()
                    break
                if time.monotonic() >= deadline:
                    return False
                serve(_TURN_S)
        return True

    def _waiting(self, keys: list[bytes] | None) -> list[Receipt]:
        with self._lock:
            if keys is None:
                found = [receipt for noted in self._noted for receipt in list(noted.by_key.values())]
            else:
                found = [noted.by_key[key] for noted in self._noted for key in keys if key in noted.by_key]
            return [receipt for receipt in found if receipt.pending]

    def _begun(self, thread: _Thread) -> dict[bytes, Receipt]:
        """Where a thread that emits for the first time is to note it; forgets threads that have ended."""
        noted = _Noted(weakref.ref(thread), {})
        with self._lock:
            if len(self._noted) >= self._most_threads:
                self._noted = [one for one in self._noted if one.thread() is not None or _drop_acknowledged(one.by_key)]
                self._most_threads = max(_LEAST_THREADS, 2 * len(self._noted))
            self._noted.append(noted)
        return noted.by_key


class _Thread:
    """Lives as long as its thread."""

    __slots__ = ("__weakref__",)


class _Noted(NamedTuple):
    """What one thread has emitted last, by key."""

    thread: weakref.ref[_Thread]
    by_key: dict[bytes, Receipt]


class _Own(threading.local):
    """The calling thread's own.

    Args:
        begun: called in each thread once.
    """

    def __init__(self, begun: Callable[[_Thread], dict[bytes, Receipt]]) -> None:
        self._thread = _Thread()
        self.by_key = begun(self._thread)


def _drop_acknowledged(by_key: dict[bytes, Receipt]) -> bool:
    """Drop the entries of acknowledged events, in any thread; whether some are left."""
    for key, receipt in by_key.copy().items():
        if not receipt.pending:
            popped = by_key.pop(key, None)
            if popped is not None and popped.pending:  # its thread has just emitted: its one stays
                by_key.setdefault(key, popped)
    return bool(by_key)
