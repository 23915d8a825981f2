"""Writing the facets of an entity to the journal: looked up, compared, sent with `expected`, and again if that failed.

One at a time of each entity in a process; other processes are held off by `expected`. What is deleted is not described,
but looked up each time, since it may be registered again; of all else, what no event describes anew is neither looked
up nor sent (`remembered`), and what was not kept is told each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from ...schemas.endpoints import Request, Sends
from ...schemas.errors import EventTooLargeError
from ...schemas.urn import Urn
from ..catalog.events import SYSTEM, EntityRegistered, PropertiesRemoved, PropertiesSet
from .kept import Facet, Omitted, Stood, Update, latest, update_of
from .remembered import Compared, Remembered

_STALE: Final = frozenset({"stale-entity", "unknown-entity"})
_TOO_LARGE: Final = "too-large"
_AT_ONCE: Final = 32
"""Entities that are written at the same time: more would only wait for each other's look-ups."""


class Keeper:
    """Keeps facets; of one event loop."""

    def __init__(self) -> None:
        self._remembered = Remembered()
        self._turns: dict[tuple[str, Urn], _Turn] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    def has_news(self, request: Request, entity: Urn, facets: Sequence[Facet]) -> bool:
        """Whether facets of an entity are to be looked up, or are known not to be kept."""
        is_busy = (request.tenant, entity) in self._turns
        return is_busy or any(self._remembered.compared(request.tenant, entity, facets))

    async def keep(self, sends: Sends, request: Request, entity: Urn, facets: Sequence[Facet]) -> list[Omitted]:
        """Have facets in the journal, accepted; gives those that are not kept.

        Args:
            sends: as who asks.
            request: of who asks, for the tenant.
            entity: whose facets they are.
            facets: in any order.
        Raises:
            MetajournalError: they could not be written in time.
        """
        async with self._turn(request.tenant, entity):
            compared = self._remembered.compared(request.tenant, entity, facets)
            if not compared.news:
                return compared.omitted
            async with self._room:
                return await self._written(sends, request, entity, facets, compared)

    async def _written(
        self, sends: Sends, request: Request, entity: Urn, facets: Sequence[Facet], compared: Compared
    ) -> list[Omitted]:
        news, omitted = compared
        while news:
            row = await sends.newest(entity)
            if row is not None and row.deleted:
                self._remembered.forget(request.tenant, entity, facets)
                return [Omitted(facet.name, "deleted") for facet in latest(facets)]
            update, stood = update_of({} if row is None else row.system_properties, news)
            if update is None:
                self._remembered.hold(request.tenant, entity, stood)
                break
            refused = await _sent(sends, entity, row, update, max(facet.at_ms for facet in news))
            if refused is None:
                self._remembered.hold(request.tenant, entity, stood)
                break
            if refused not in _STALE:
                news, left_out = _halved(news)
                self._remembered.hold(request.tenant, entity, _as_said(left_out), refused)
                omitted += [Omitted(facet.name, refused) for facet in left_out]
        return omitted

    @asynccontextmanager
    async def _turn(self, tenant: str, entity: Urn) -> AsyncIterator[None]:
        """The only one that writes this entity in this process."""
        turn = self._turns.setdefault((tenant, entity), _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[tenant, entity]


class _Turn:
    """Who writes an entity, and how many are about to."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


async def _sent(sends: Sends, entity: Urn, row: Any, update: Update, at_ms: int) -> str | None:
    """Send an update as one chain of events, each on the condition of the one before; gives why it was refused.

    Removals come before the times that tell of them: an end in between leaves nothing that is never removed.
    """
    expected = 0 if row is None else row.logical_timestamp
    try:
        if row is None:
            expected = await sends.send(EntityRegistered(entity), event_time=at_ms, expected=0)
        if update.removed:
            removal = PropertiesRemoved(entity, update.removed, scope=SYSTEM)
            expected = await sends.send(removal, event_time=at_ms, expected=expected)
        event = PropertiesSet(entity, update.properties, SYSTEM)
        outcome = await sends.write(event, event_time=at_ms, expected=expected)
    except EventTooLargeError:
        return _TOO_LARGE
    reason: str | None = getattr(outcome, "reason", None)
    return reason


def _halved(facets: Sequence[Facet]) -> tuple[list[Facet], list[Facet]]:
    """The smaller half of facets, and the larger one."""
    by_size = sorted(facets, key=lambda facet: (len(facet.text or ""), facet.name))
    return by_size[: len(by_size) // 2], by_size[len(by_size) // 2 :]


def _as_said(facets: Sequence[Facet]) -> dict[str, Stood]:
    """What is remembered of facets that were not kept, so that they are not tried each time."""
    return {facet.name: Stood(facet.standing, facet.at_ms) for facet in facets}
