"""What an endpoint that sends events by itself gets: this process's doors to the journal, with one deadline.

Everything here is on the loop and holds no thread. Whoever waits longer than the deadline is told to try again, so
what is sent this way must be safe to repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from ..client import Journal
from ..producers.receipts import Receipt
from ..producers.verdicts import Outcome
from ..rules.entity import EntityRow
from ..schemas.endpoints import Answer, Endpoint, Request
from ..schemas.errors import ForbiddenError, OutcomeUnknownError, UnavailableError
from ..schemas.events.base import Event
from ..schemas.positions import Position
from ..schemas.urn import Urn
from .bulk import Bulk, Emit
from .following import Following
from .principals import Principal
from .problems import HttpError

T = TypeVar("T")
ANSWER_S: Final = 3.5
"""Seconds of an answer: with those of a turn 4, since those who ask give up at 5."""
TURN_S: Final = 0.5
"""Seconds that whoever asks for too much waits for a turn."""
_LOOK_S: Final = 0.02
RETRY_AFTER_S: Final = 2


class Senders:
    """Makes what each request sends by, and keeps what outlives it.

    Args:
        journal: where to.
        following: this process's followers.
    """

    def __init__(self, journal: Journal, following: Following) -> None:
        self._journal = journal
        self._following = following
        self._kept: dict[Any, Any] = {}
        self._bulk = Bulk(journal)
        self._waiting = 0

    async def close(self) -> None:
        """Wait for what is on its way, and let go of connections."""
        await self._bulk.close()

    async def answer(
        self, endpoint: Endpoint, request: Request, refused: Callable[[ForbiddenError], object]
    ) -> Answer:  # fmt: skip
        """The answer of an endpoint that sends by itself.

        Args:
            refused: records one of several events that may not be sent.
        Raises:
            UnavailableError: not everything was acknowledged in time; the request is to be sent again.
            MetajournalError: as the endpoint's function.
        """
        assert endpoint.sends is not None
        until = asyncio.get_running_loop().time() + ANSWER_S
        self._waiting += 1
        try:
            async with asyncio.timeout_at(until):
                return await endpoint.sends(self.of(request, until, refused), request)
        except TimeoutError:
            raise overloaded("Not everything was acknowledged in time.", "not-acknowledged") from None
        except OutcomeUnknownError as error:
            raise overloaded(error.message, error.code) from error
        finally:
            self._waiting -= 1

    def of(
        self, request: Request, until: float, refused: Callable[[ForbiddenError], object] = lambda error: None
    ) -> Sending:  # fmt: skip
        """What one request sends by.

        Args:
            until: the loop's time of its deadline.
            refused: as of `answer`.
        """
        return Sending(self._bulk.emit(self._waiting), self._following, request, until, self._kept, refused)


class Sending:
    """As `schemas.endpoints.Sends`.

    Args:
        emit: what an event is given to.
        following, request, until: as of `Senders`.
        kept: what outlives the request.
        refused: as of `Sends`.
    """

    def __init__(
        self, emit: Emit, following: Following, request: Request, until: float, kept: dict[Any, Any],
        refused: Callable[[ForbiddenError], object],
    ) -> None:  # fmt: skip
        self._emit = emit
        self._following = following
        self._request = request
        self._kept = kept
        self._refused = refused
        self._sent: dict[tuple[str, int], Position] = {}
        self.until = until

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.until - asyncio.get_running_loop().time())

    def refused(self, error: ForbiddenError) -> None:
        """As `Sends.refused`."""
        self._refused(error)

    async def follow(self, urn: Urn) -> None:
        """As `Sends.follow`."""
        await self._following.follow(urn.aggregate, self._request.tenant)

    async def send(self, event: Event, *, event_time: int, expected: int | None = None) -> int:
        """As `Sends.send`."""
        return self._noted(await self._emitted(event, event_time, expected)).value

    async def send_all(self, events: Sequence[Event], *, event_time: int) -> None:
        """As `Sends.send_all`."""
        receipts = [self._emitted(event, event_time) for event in events]
        for receipt in reversed(receipts):  # once the last one is there the others mostly are, which costs no wait
            if not receipt.acknowledged:
                await receipt
        for receipt in receipts:
            self._noted(receipt.position)

    async def write(self, event: Event, *, event_time: int, expected: int | None = None) -> Outcome:
        """As `Sends.write`."""
        follow = await self._following.follow(event.entities[0].aggregate, self._request.tenant)
        receipt = self._emitted(event, event_time, expected)
        self._noted(await receipt)
        outcome = await self._following.verdict(follow, receipt, self.left_s)
        if outcome is None:
            raise overloaded("The event is in the journal, but nothing has judged it in time.", "not-judged")
        return outcome

    async def newest(self, urn: Urn) -> EntityRow | None:
        """As `Sends.newest`."""
        return (await self._following.fresh(urn, self._request.tenant, self.left_s)).row

    def _emitted(self, event: Event, event_time: int, expected: int | None = None) -> Receipt:
        return self._emit(
            event, event_time=event_time, expected=expected, tenant=self._request.tenant, actor=self._request.actor
        )

    @property
    def positions(self) -> Sequence[Position]:
        """As `Sends.positions`."""
        return [*self._sent.values()]

    def _noted(self, position: Position) -> Position:
        place = position.topic, position.partition
        known = self._sent.get(place)
        if known is None or known.value < position.value:
            self._sent[place] = position
        return position

    def kept(self, make: Callable[[], T]) -> T:
        """As `Sends.kept`."""
        if make not in self._kept:
            self._kept[make] = make()
        return cast(T, self._kept[make])


def overloaded(why: str, code: str = "too-busy") -> UnavailableError:
    """The error of a request that is to come again later."""
    return UnavailableError(why, code=code, hint=f"Send it again in {RETRY_AFTER_S} s.", retry_after_s=RETRY_AFTER_S)


async def paced(ask: Callable[[], Principal]) -> Principal:
    """Who asks; one whose key asks for too much waits for a turn.

    Raises:
        UnavailableError: there was none, where others are answered with 429.
        MetajournalError: as `ask`.
    """
    until = asyncio.get_running_loop().time() + TURN_S
    while True:
        try:
            return ask()
        except HttpError as error:
            if error.status != 429:
                raise
            if asyncio.get_running_loop().time() > until:
                raise overloaded(error.message, error.code) from error
        await asyncio.sleep(_LOOK_S)
