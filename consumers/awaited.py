"""What somebody waits for of a followed partition without a thread: verdicts, and rows of entities.

Values and lists only: the follower says when something is settled, and resolves the futures under no lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from ..producers.verdicts import Outcome
from ..producers.waiting.futures import AwaitableFuture, fail
from ..rules.entity import EntityRow
from ..schemas.errors import MetajournalError
from ..schemas.positions import Position

if TYPE_CHECKING:
    from ..fold.folded import Verdict
    from .foretelling import Foretold
    from .pins import Pin

T = TypeVar("T")
AnyAwaited: TypeAlias = "Awaited[Any]"


class Awaited(Generic[T]):
    """What is known once everything up to a position was read under a followed key.

    Args:
        key: the followed key.
        position: up to where, itself included.
        limit_s: seconds to wait.
    """

    def __init__(self, key: bytes, position: Position, limit_s: float) -> None:
        self.key = key
        self.position = position
        self.limit_s = limit_s
        self.late_s = time.monotonic() + limit_s
        self.future: AwaitableFuture[T] = AwaitableFuture()

    def look(self, known: Foretold) -> Any:
        """What is to be told, as the follower knows it; None where only the lake does. Its lock is held."""
        raise NotImplementedError


class AwaitedVerdict(Awaited[Outcome]):
    """The verdict of one position under a followed key."""

    def look(self, known: Foretold) -> Verdict | None:
        return known.verdicts.get(self.position.value)


class SeenRow:
    """The newest row of an entity as everything up to a position makes it.

    Args:
        row: what the follower knows of it; None where only the lake may.
        pin: the lake below what the follower has read.
        tenant, urn: the entity.
        end: the position up to (not including) which all events are in it.
    """

    __slots__ = ("_pin", "_tenant", "_urn", "end", "row")

    def __init__(self, row: EntityRow | None, pin: Pin, tenant: str, urn: str, end: Position) -> None:
        self.row = row
        self._pin = pin
        self._tenant = tenant
        self._urn = urn
        self.end = end

    def read(self) -> EntityRow | None:
        """The row, from the lake (4 ms) where no newer event is known; None where the entity never existed."""
        return self.row or self._pin.row(self._tenant, self._urn)


class AwaitedRow(Awaited[SeenRow]):
    """The newest row of an entity under a followed key.

    Args:
        tenant, urn: the entity.
    """

    def __init__(self, key: bytes, position: Position, limit_s: float, tenant: str, urn: str) -> None:
        super().__init__(key, position, limit_s)
        self._tenant = tenant
        self._urn = urn

    def look(self, known: Foretold) -> SeenRow:
        end = Position(self.position.topic, self.position.partition, known.next)
        return SeenRow(known.rows.get((self._tenant, self._urn)), known.pin, self._tenant, self._urn, end)


class AwaitedOnes:
    """Those of one follower. Its lock guards them: it is held in every call."""

    def __init__(self) -> None:
        self._waiting: list[AnyAwaited] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, awaited: AnyAwaited) -> None:
        self._waiting.append(awaited)

    def drop(self, gone: AnyAwaited) -> None:
        self._waiting = [awaited for awaited in self._waiting if awaited is not gone]

    def take(self, is_settled: Callable[[bytes, int], bool]) -> list[AnyAwaited]:
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

    def take_all(self) -> list[AnyAwaited]:
        """Take all out."""
        waiting, self._waiting = self._waiting, []
        return waiting


def fail_all(waiting: Iterable[AnyAwaited], error: Callable[[], MetajournalError]) -> None:
    """Tell everybody why nothing comes, each by an error of its own."""
    for awaited in waiting:
        fail(awaited.future, error())
