"""Which event of each aggregate was emitted last, so that a unit can wait until it is acknowledged.

The emitting thread writes `by_key` without a lock, which is all that the hot path does here; entries of acknowledged
events are dropped now and then, so that memory follows what waits, not what was ever emitted.
Rests on librdkafka: within a partition delivery reports come in order, so the last one of a key speaks for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final

from .receipts import Receipt

_LEAST: Final = 16_384
"""Entries below which nothing is dropped: some 4 MB."""
_TURN_S: Final = 0.01


class LatestEmits:
    """The receipt of the latest event of each key; shared between threads."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, Receipt] = {}
        self._limit = _LEAST
        self._lock = Lock()

    def tidy(self) -> None:
        """Drop what is acknowledged, if there is much of it."""
        if len(self.by_key) <= self._limit:
            return
        with self._lock:
            for key, receipt in self.by_key.copy().items():
                if not receipt.pending:
                    popped = self.by_key.pop(key, None)
                    if popped is not None and popped.pending:  # another thread has just emitted: its one stays
                        self.by_key.setdefault(key, popped)
            self._limit = max(_LEAST, 2 * len(self.by_key))

    def settled(self, keys: Iterable[bytes], serve: Callable[[float], object], deadline: float) -> bool:
        """Wait until nothing emitted so far under these keys is under way any more.

        Args:
            serve: takes delivery reports in for some seconds.
            deadline: monotonic time.
        Returns:
            Whether that came true in time; a failed event is no longer under way either.
        """
        with self._lock:
            receipts = [self.by_key.get(key) for key in keys]
        for receipt in receipts:
            while receipt is not None and receipt.pending:
                if time.monotonic() >= deadline:
                    return False
                serve(_TURN_S)
        return True
