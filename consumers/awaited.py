"""Verdicts of a followed partition that somebody waits for without a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ..producers.verdicts import Outcome
from ..producers.waiting.futures import AwaitableFuture, fail
from ..schemas.errors import MetajournalError
from ..schemas.positions import Position


class AwaitedVerdict:
    """One position under a followed key.

    Args:
        limit_s: seconds to wait.
    """

    __slots__ = ("future", "key", "late_s", "limit_s", "position")

    def __init__(self, key: bytes, position: Position, limit_s: float) -> None:
        self.key = key
        self.position = position
        self.limit_s = limit_s
        self.late_s = time.monotonic() + limit_s
        self.future: AwaitableFuture[Outcome] = AwaitableFuture()


class AwaitedVerdicts:
    """Those of one follower. Its lock guards them: it is held in every call."""

    def __init__(self) -> None:
        self._waiting: list[AwaitedVerdict] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, awaited: AwaitedVerdict) -> None:
        self._waiting.append(awaited)

    def drop(self, gone: AwaitedVerdict) -> None:
        self._waiting = [awaited for awaited in self._waiting if awaited is not gone]

    def take(self, is_settled: Callable[[bytes, int], bool]) -> list[AwaitedVerdict]:
        """Take those out that can be answered, or whose time is over."""
        now = time.monotonic()
        settled, waiting = [], []
        for awaited in self._waiting:
            if is_settled(awaited.key, awaited.position.value) or awaited.late_s <= now:
                settled.append(awaited)
            elif not awaited.future.cancelled():
                waiting.append(awaited)
        self._waiting = waiting
        return settled

    def take_all(self) -> list[AwaitedVerdict]:
        """Take all out."""
        waiting, self._waiting = self._waiting, []
        return waiting


def fail_all(waiting: Iterable[AwaitedVerdict], error: Callable[[], MetajournalError]) -> None:
    """Tell everybody why no verdict comes, each by an error of its own."""
    for awaited in waiting:
        fail(awaited.future, error())
