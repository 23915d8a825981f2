"""Receipts that somebody waits for without a thread: called back once the broker has the event or it has failed.

The delivery report fills a receipt in and knows nothing of this, so an event that nobody waits for costs nothing more.
The emitter's background thread looks at those that are awaited, which are few, and calls back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from ..receipts import Receipt
from .futures import called_back


class _Awaited(NamedTuple):
    receipt: Receipt
    late_s: float
    """Monotonic time at which no report can come any more."""
    callback: Callable[[Receipt], object]


class Acknowledgements:
    """Shared between threads; `settle` and `wait` are the emitter's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._awaited: list[_Awaited] = []
        self._woken = threading.Event()

    def __bool__(self) -> bool:
        return bool(self._awaited)

    def add(self, receipt: Receipt, limit_s: float, callback: Callable[[Receipt], object]) -> None:
        """Call back with a receipt when it is acknowledged or has failed, or after a time with what it is then."""
        with self._lock:
            self._awaited.append(_Awaited(receipt, time.monotonic() + limit_s, callback))
        self._woken.set()

    def wait(self, timeout_s: float) -> None:
        """Wait until somebody waits, or for some seconds."""
        self._woken.wait(timeout_s)
        self._woken.clear()

    def wake(self) -> None:
        """End `wait`."""
        self._woken.set()

    def settle(self, *, every: bool = False) -> None:
        """Call back for those that are no longer under way.

        Args:
            every: for all, since no more report comes.
        """
        if not self._awaited:
            return
        now = time.monotonic()
        with self._lock:
            settled = [
                awaited for awaited in self._awaited if every or not awaited.receipt.pending or awaited.late_s <= now
            ]
            if settled:
                gone = set(map(id, settled))
                self._awaited = [awaited for awaited in self._awaited if id(awaited) not in gone]
        for awaited in settled:
            called_back(awaited.callback, awaited.receipt)
