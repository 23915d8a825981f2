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

    __slots__ = ("at", "future", "key", "late_s", "limit_s")

    def __init__(self, key: bytes, at: Position, limit_s: float) -> None:
        self.key = key
        self.at = at
        self.limit_s = limit_s
        self.late_s = time.monotonic() + limit_s
        self.future: AwaitableFuture[Outcome] = AwaitableFuture()


class AwaitedVerdicts:
    """Those of one follower. Its lock guards them: it is held in every call."""

    def __init__(self) -> None:
        self._waiting: list[AwaitedVerdict] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, one: AwaitedVerdict) -> None:
        self._waiting.append(one)

    def drop(self, gone: AwaitedVerdict) -> None:
        self._waiting = [one for one in self._waiting if one is not gone]

    def take(self, is_settled: Callable[[bytes, int], bool]) -> list[AwaitedVerdict]:
        """Take those out that can be answered, or whose time is over."""
        now = time.monotonic()
        settled, waiting = [], []
        for one in self._waiting:
            if is_settled(one.key, one.at.value) or one.late_s <= now:
                settled.append(one)
            elif not one.future.cancelled():
                waiting.append(one)
        self._waiting = waiting
        return settled

    def take_all(self) -> list[AwaitedVerdict]:
        """Take all out."""
        waiting, self._waiting = self._waiting, []
        return waiting


def fail_all(waiting: Iterable[AwaitedVerdict], error: Callable[[], MetajournalError]) -> None:
    """Tell everybody why no verdict comes, each by an error of its own."""
    for one in waiting:
        fail(one.future, error())
