"""The followers of this process, asked on the loop: verdicts, and rows of entities as every acknowledged event makes
them.

A key is followed before its event is emitted, so that the event is judged as it comes; the followed keys of late are
kept. Where the follower stands back (other rules, an unknown schema, too far behind) nobody is kept waiting for it: the
stream's outcome and the lake are waited for instead, and it is tried again after a second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ..client import Journal
from ..consumers.followers import Follow, is_running, place_of
from ..producers.asked_ends import leave_ends, shared_ends
from ..producers.receipts import Receipt
from ..producers.verdicts import Outcome
from ..rules.entity import EntityRow
from ..schemas.endpoints import Request
from ..schemas.errors import (
    InputError,
    InvalidPositionError,
    MetajournalError,
    NotYetVisibleError,
    OperatorError,
    UnavailableError,
    UnknownEntityError,
)
from ..schemas.hashing import record_key
from ..schemas.positions import Cut, Position
from ..schemas.urn import Urn
from .threads import Readers

T = TypeVar("T")
_log = logging.getLogger("metajournal.gateway")
KEPT: Final = 4_096
"""Most aggregates that are followed at once."""
_AGAIN_S: Final = 1.0
_SHOWN_S: Final = 0.01
_END_S: Final = 1.0
"""Seconds for Kafka to say where a partition ends, to refuse what is beyond that."""
_STANDS_BACK: Final = (OperatorError, UnavailableError)


class Fresh(NamedTuple):
    """An entity as every acknowledged event makes it.

    Args:
        row: its newest row; None: it never existed.
        end: the position up to (not including) which all events are in it.
    """

    row: EntityRow | None
    end: Position


class Following:
    """What one event loop asks the process's followers.

    Args:
        journal: whose.
        readers: the threads that read.
    """

    def __init__(self, journal: Journal, readers: Readers) -> None:
        self._journal = journal
        self._readers = readers
        self._ends = shared_ends(journal.settings)
        self._follows: OrderedDict[bytes, Follow] = OrderedDict()
        self._back_until: dict[tuple[str, int], float] = {}
        self._begun: dict[tuple[str, int], asyncio.Future[Follow]] = {}

    async def follow(self, urn: Urn, tenant: str) -> Follow | None:
        """Follow an entity's aggregate; None where the follower stands back.

        Raises:
            UnservedDomainError: the journal does not serve the entity's domain.
        """
        key = record_key(tenant, str(urn.aggregate))
        place = place_of(self._journal.settings, self._journal.epochs, urn, key)
        if self._back_until.get(place, 0.0) > time.monotonic():
            return None
        kept = self._follows.get(key)
        if kept is not None and is_running(self._journal.settings, *place):
            self._follows.move_to_end(key)
            return kept
        try:
            follow = await self._open(urn.aggregate, tenant, place)
        except _STANDS_BACK as error:
            self._stand_back(place, error)
            return None
        meanwhile = self._follows.get(key)
        if meanwhile is not None and meanwhile is not kept:  # another request has begun and may wait on it
            follow.close()
            return meanwhile
        self._keep(key, follow)
        return follow

    async def _open(self, aggregate: Urn, tenant: str, place: tuple[str, int]) -> Follow:
        """Follow an aggregate; who comes first to a partition begins it in a thread, and all others wait for that.

        One partition after the other: each takes a thread and a client of Kafka while it begins.
        """
        while not is_running(self._journal.settings, *place):
            begun = self._begun.get(place)
            if begun is not None:
                await asyncio.wait({begun})
                begun.result()  # raises what has kept it from beginning
                continue
            if self._begun:
                await asyncio.wait(self._begun.values())
                continue
            read = partial(self._journal.follow, aggregate, tenant=tenant)
            begun = self._begun[place] = asyncio.ensure_future(self._readers.run(read))
            begun.add_done_callback(lambda _: self._begun.pop(place))
            try:
                return await asyncio.shield(begun)
            except asyncio.CancelledError:
                begun.add_done_callback(_close_unused)
                raise
        return self._journal.follow(aggregate, tenant=tenant)

    def _keep(self, key: bytes, follow: Follow) -> None:
        gone = [self._follows.pop(key, None)]
        self._follows[key] = follow
        if len(self._follows) > KEPT:
            gone.append(self._follows.popitem(last=False)[1])
        for old in gone:
            if old is not None and old is not follow:
                old.close()

    def _stand_back(self, place: tuple[str, int], error: MetajournalError) -> None:
        _log.warning(
            "The follower of %s/%s stands back: %s", *place, error.message, extra={"data": {"code": error.code}}
        )
        self._back_until[place] = time.monotonic() + _AGAIN_S

    async def verdict(self, follow: Follow | None, receipt: Receipt, wait_s: float) -> Outcome | None:
        """The verdict on an acknowledged event; None where it did not come in time.

        Args:
            follow: of its aggregate; None: the stream is waited for.
        Raises:
            PositionExpired: the verdict is no longer in the outcomes topic.
        """
        until = time.monotonic() + wait_s
        if follow is not None:
            position = receipt.position
            try:
                return follow.peek(position) or await follow.verdict_future(position, timeout_s=wait_s)
            except _STANDS_BACK as error:
                if time.monotonic() >= until:
                    return None
                self._stand_back((position.topic, position.partition), error)
            except InputError as error:
                if error.code != "closed":  # others were followed since
                    raise
        try:
            return await receipt.outcome_future(max(0.0, until - time.monotonic()))
        except UnavailableError:
            return None

    async def fresh(self, urn: Urn, tenant: str, wait_s: float, *, asker: str | None = None) -> Fresh:
        """An entity as everything makes it that the journal holds now.

        Args:
            asker: for whom it is read, where it must be.
        Raises:
            KafkaUnavailableError: the end of its partition cannot be read.
            NotYetVisibleError: neither follower nor lake got there in time.
        """
        until = time.monotonic() + wait_s
        last = await self.last(urn, tenant)
        follow = await self.follow(urn, tenant)
        if follow is not None:
            try:
                seen = await follow.row_future(urn, at_least=last, timeout_s=wait_s)
                row = seen.row if seen.row is not None else await self._readers.run(seen.read, asker=asker)
                return Fresh(row, seen.end)
            except _STANDS_BACK as error:
                self._stand_back((last.topic, last.partition), error)
        await self._journal.wait_future(last, timeout_s=max(0.0, until - time.monotonic()))
        return await self._readers.run(lambda: _in_lake(self._journal, urn, tenant, last), asker=asker)

    async def seen(self, request: Request, read: Callable[[], Awaitable[T]], wait_s: float) -> T:
        """What a read of the lake gives; where it lacks an entity that the journal has, once it holds that.

        Raises:
            UnknownEntityError: the journal has none either.
            NotYetVisibleError: the lake did not get there in time.
        """
        try:
            return await read()
        except UnknownEntityError as error:
            if request.urn is None or error.urn != str(request.urn):
                raise
            row = (await self.fresh(request.urn, request.tenant, wait_s, asker=request.asker)).row
            if row is None or row.deleted:
                raise
        await self._journal.wait_future(await self.last(request.urn, request.tenant), timeout_s=wait_s)
        return await read()

    async def then(self, request: Request, read: Callable[[], Awaitable[T]], wait_s: float) -> T:
        """What a read of the lake as at a point gives; where it lacks an entity that the journal has, once it holds
        that.

        Raises:
            UnknownEntityError: the entity was not there then.
            NotYetVisibleError: the lake did not get there in time.
        """
        try:
            return await read()
        except UnknownEntityError as error:
            if error.data.get("final") or request.urn is None or error.urn != str(request.urn):
                raise
            newest = await self.newest(request, wait_s)
            if newest is None:
                raise
        await self._journal.wait_future(newest, timeout_s=wait_s)
        return await read()

    async def newest(self, request: Request, wait_s: float) -> Position | None:
        """Where the newest row of a request's entity stands; None: it never existed. Raises: as `fresh`."""
        fresh = await self.fresh(request.entity, request.tenant, wait_s, asker=request.asker)
        return None if fresh.row is None else replace(fresh.end, value=fresh.row.logical_timestamp)

    async def last(self, urn: Urn, tenant: str) -> Position:
        """The last position that an entity's partition holds now. Raises: KafkaUnavailableError."""
        place = place_of(self._journal.settings, self._journal.epochs, urn, record_key(tenant, str(urn.aggregate)))
        return await self._ends.last(*place, self._epoch(place[0]))

    def _epoch(self, topic: str) -> int:
        return self._journal.epochs[topic].epoch

    async def reach(self, wanted: Cut, wait_s: float) -> None:
        """Wait until the lake holds everything below some positions.

        Raises:
            InvalidPositionError: as `check_ends`; or the journal has no such partition.
            NotYetVisibleError: it did not get there in time.
            UnavailableError: there is no lake.
        """
        held = asyncio.wrap_future(self._journal.wait_future(wanted, timeout_s=wait_s))
        checked = asyncio.ensure_future(self.check_ends(wanted))
        try:
            await asyncio.wait({held, checked}, return_when=asyncio.FIRST_COMPLETED)
            if not held.done():
                await checked
            await held
        finally:
            held.cancel()
            if not checked.cancel():
                checked.exception()  # it was late with it: the lake has answered

    async def check_ends(self, wanted: Cut) -> None:
        """Refuse what lies beyond the journal's end: nothing that was acknowledged does. Where Kafka does not say at
        once where that is, nothing is refused.

        Raises:
            InvalidPositionError: a position is beyond the end of its partition, or there is no such partition.
        """
        for topic, partition in wanted:
            known = self._journal.epochs.get(topic)
            if known is None or partition >= known.partitions:
                raise InvalidPositionError(f"This journal has no {topic}/{partition}.", text=f"{topic}/{partition}")
        ends = {place: self._ends.last(*place, self._epoch(place[0]), committed=False) for place in wanted}
        asked = {place: asyncio.wrap_future(end) for place, end in ends.items()}
        if asked:
            await asyncio.wait(asked.values(), timeout=_END_S)
        for place, answer in asked.items():
            if not answer.done():
                answer.cancel()
            elif answer.exception() is None and wanted[place] > answer.result().value + 1:
                raise _beyond(Position(*place, wanted[place] - 1), answer.result())

    async def shown(self, position: Position, wait_s: float) -> None:
        """Wait until Kafka shows a position to readers: a unit is committed some milliseconds before that.

        Raises:
            KafkaUnavailableError: the end of its partition cannot be read.
            NotYetVisibleError: it was not shown in time.
        """
        until = time.monotonic() + wait_s
        place = position.topic, position.partition
        while (await self._ends.last(*place, self._epoch(position.topic))).value < position.value:
            if time.monotonic() > until:
                raise NotYetVisibleError(1, f"{position} is committed, but Kafka does not show it yet.")
            await asyncio.sleep(_SHOWN_S)

    async def close(self) -> None:
        """Stop following."""
        for follow in self._follows.values():
            follow.close()
        self._follows.clear()
        await asyncio.to_thread(leave_ends, self._ends)


def _beyond(position: Position, last: Position) -> InvalidPositionError:
    return InvalidPositionError(
        f"The journal does not have {position} yet: its last position there is {last.value}.",
        code="position-beyond-end", text=str(position), hint="Send a position as an answer or a change has told it.",
    )  # fmt: skip


def _close_unused(future: asyncio.Future[Follow]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()


def _in_lake(journal: Journal, urn: Urn, tenant: str, last: Position) -> Fresh:
    try:
        answer = journal.answer(urn, tenant=tenant)
    except UnknownEntityError:
        return Fresh(None, last)
    return Fresh(answer.row, answer.held_to)
