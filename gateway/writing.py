"""From an event to an answer: emitted on the loop, answered by the verdict of this process's follower.

200 says that the event is in the journal and what the rules say of it, whether the stream runs or not. Nothing here
holds a thread, so as many requests wait at once as come.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ..client import Journal
from ..producers.receipts import Receipt
from ..producers.verdicts import Accepted, Duplicate, Outcome, Rejected, Shelved
from ..schemas.endpoints import LINEAGE, Answer, Endpoint, Request
from ..schemas.errors import MetajournalError, RejectedError, UnavailableError
from ..schemas.events.base import Event
from ..schemas.positions import Position
from ..values import outcome_json
from .conditions import Wish
from .earlier import is_same_event, stands_already
from .following import Following
from .principals import Principals
from .problems import HttpError, hint_of, told_faults
from .threads import Readers

PENDING: Final = "pending"
EVENT_ID: Final = "Metajournal-Event-Id"
POSITION: Final = "Metajournal-Position"
OUTCOME: Final = "Metajournal-Outcome"
REPLAYED: Final = "Idempotency-Replayed"
_PAUSED_AFTER: Final = 100
"""Events of a request that are emitted before others have their turn on the loop."""


class Writer:
    """Emits events of requests.

    Args:
        journal: where to.
        following: this process's followers.
        readers: the threads that read.
        principals: whose rights an event may change.
    """

    def __init__(self, journal: Journal, following: Following, readers: Readers, principals: Principals) -> None:
        self._journal = journal
        self._following = following
        self._readers = readers
        self._principals = principals
        self.leaving = asyncio.Event()
        """Set when the server ends: who waits for a verdict is answered without it."""

    async def write(
        self, endpoint: Endpoint, request: Request, event: Event, wish: Wish, about: Mapping[str, Any] | None = None,
        tells: Mapping[str, Any] | None = None,
    ) -> Answer:  # fmt: skip
        """Emit an event and answer with what became of it.

        Args:
            about: what the event's own line says about it; it wins over the request's headers.
            tells: what the answer has besides, where the event is not refused.
        Raises:
            InvalidEventError, EventTooLargeError, QueueFullError: nothing was sent.
            OutcomeUnknownError: it may or may not be in the journal; has its `event_id`.
            RejectedError: the rules refused it.
            HttpError: 422: its key was used for another event.
        """
        aggregate = event.entities[0].aggregate if not event.validate() else None
        follow = (
            await self._following.follow(aggregate, request.tenant) if aggregate is not None and wish.wait_s else None
        )
        said = {
            "event_time": request.at_ms, "expected": wish.expected, "event_id": wish.event_id,
            "repeat": wish.event_id is not None, **(about or {}), "tenant": request.tenant, "actor": request.actor,
        }  # fmt: skip
        is_secret, unjudged = bool(tells), tells if wish.event_id is None else None
        if is_secret and wish.event_id is not None:
            asked = replace(request, urn=event.entities[0])
            stands = partial(stands_already, self._journal, wish.event_id, asked, by_anybody=True)
            if await self._readers.run(stands, asker=request.asker):
                if not wish.wait_s:
                    raise _told_once()
                tells = None  # whatever becomes of this event, its secret is nobody's
        receipt = self._journal.emit(event, **said)
        position = await receipt
        if not wish.wait_s:
            return _pending(receipt, position, unjudged)
        until = time.monotonic() + wish.wait_s
        outcome = await self._unless_leaving(self._following.verdict(follow, receipt, wish.wait_s))
        if outcome is None:
            return _pending(receipt, position, unjudged)
        headers = _headers(receipt, position, outcome.word)
        try:
            if is_secret and isinstance(outcome, Duplicate):
                if isinstance(outcome.original, Rejected | Shelved):
                    outcome.original.raise_if_rejected()
                raise _told_once()
            answer = await self._answer(endpoint, request, event, said["expected"], receipt, outcome, headers)
            if not await self._is_heard_of(position, until - time.monotonic()):
                return _pending(receipt, position, tells)
            return replace(answer, value={**answer.value, **(tells or {})})
        except RejectedError as error:
            error.data["headers"] = headers
            raise

    async def _is_heard_of(self, position: Position, wait_s: float) -> bool:
        """Whether this process knows in time what an event changed about rights: who is answered with 200 may use
        them."""
        held = self._principals.held(position)
        if held.done():
            return True
        heard: asyncio.Future[Any] = asyncio.wrap_future(held)
        leaving = asyncio.ensure_future(self.leaving.wait())
        try:
            waits: set[asyncio.Future[Any]] = {heard, leaving}
            await asyncio.wait(waits, timeout=max(0.0, wait_s), return_when=asyncio.FIRST_COMPLETED)
            return heard.done()
        finally:
            leaving.cancel()
            heard.cancel()

    async def _answer(
        self, endpoint: Endpoint, request: Request, event: Event, expected: Any, receipt: Receipt, outcome: Outcome,
        headers: dict[str, str],
    ) -> Answer:  # fmt: skip
        judged, stands_at = outcome, receipt.position
        if isinstance(outcome, Duplicate):
            await self._check_same(request, event, expected, outcome)
            judged, stands_at = outcome.original, outcome.of
            headers |= {REPLAYED: "true", POSITION: str(stands_at)}
        if isinstance(judged, Rejected | Shelved):
            judged.raise_if_rejected()
        is_new = isinstance(judged, Accepted)
        is_row = endpoint.action != LINEAGE and request.urn is not None and request.urn == event.entities[0]
        return Answer(
            {"ok": True, **_named(receipt, stands_at), **outcome_json(outcome)},
            status=endpoint.created if is_new else 200,
            headers=headers,
            etag=str(stands_at.value) if is_new and is_row else None,
        )

    async def _check_same(self, request: Request, event: Event, expected: Any, outcome: Duplicate) -> None:
        """Refuse a key that belongs to another event. Raises: HttpError: 422."""
        is_same = await self._readers.run(
            lambda: is_same_event(self._journal, outcome.of, event, actor=request.actor, expected=expected),
            asker=request.asker,
        )
        if not is_same:
            raise HttpError(
                422, "This Idempotency-Key was used for another request.", code="key-reused",
                hint="Send a new key with each request; repeat a request with its own key, body and conditions.",
                headers={OUTCOME: "key-reused"},
            )  # fmt: skip

    async def _unless_leaving(self, verdict: Any) -> Outcome | None:
        """A verdict, or None once the server ends."""
        task = asyncio.ensure_future(verdict)
        leaving = asyncio.ensure_future(self.leaving.wait())
        try:
            await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            leaving.cancel()
            task.cancel()

    async def lines(
        self, request: Request, typed: list[tuple[int, Any]], refused: list[dict[str, Any]], wish: Wish
    ) -> list[dict[str, Any]]:
        """Emit an event of each line; each is answered by itself, in order.

        Args:
            typed: number of the line, with what was read of it (`terminal.parsing.Typed`).
            refused: the answers of lines that were refused before.
        """
        sent: list[tuple[int, Any, Receipt]] = []
        results = list(refused)
        for place, (number, one) in enumerate(typed, 1):
            if place % _PAUSED_AFTER == 0:
                await asyncio.sleep(0)
            try:
                sent.append((number, one, await self._emit_line(request, one)))
            except MetajournalError as error:
                results.append({"line": number, **line_error(error)})
        for _, _, receipt in reversed(sent):  # once the last one is there the others mostly are, which costs no wait
            if receipt.pending:
                with suppress(MetajournalError):
                    await receipt
        verdicts = await self._verdicts([receipt for _, _, receipt in sent], wish.wait_s)
        for (number, one, receipt), verdict in zip(sent, verdicts, strict=True):
            result = await self._line_result(request, one, receipt, verdict, waited=wish.wait_s > 0)
            results.append({"line": number, **result})
        return sorted(results, key=_line)

    async def _verdicts(self, receipts: Sequence[Receipt], wait_s: float) -> list[Outcome | MetajournalError | None]:
        """The verdicts that come within a time that is the same for all; None: it did not, or the server ends."""
        if not wait_s:
            return [None] * len(receipts)
        asked = {
            place: asyncio.ensure_future(self._following.verdict(None, receipt, wait_s))
            for place, receipt in enumerate(receipts) if receipt.acknowledged
        }  # fmt: skip
        every = asyncio.gather(*asked.values(), return_exceptions=True)
        leaving = asyncio.ensure_future(self.leaving.wait())
        try:
            waits: set[asyncio.Future[Any]] = {every, leaving}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            every.cancel()
        found: list[Outcome | MetajournalError | None] = [None] * len(receipts)
        for place, task in asked.items():
            if task.done() and not task.cancelled():
                error = task.exception()
                if error is not None and not isinstance(error, MetajournalError):
                    raise error
                found[place] = task.result() if error is None else error
        return found

    async def unit(self, request: Request, typed: Sequence[Any], wait_s: float) -> Answer:
        """Write events as one unit; once this is answered with 200, whoever reads sees all of them.

        With 202 they are in the journal, too, but Kafka did not show them to readers in time: an error there would have
        its sender repeat what is done, and a unit has no id that counts a repetition once.

        Args:
            wait_s: seconds to wait for that, behind the commit.
        Raises:
            InvalidUnitError: nothing was sent.
            MetajournalError: as `Unit.commit`.
        """
        events = [(one.event, one.about) for one in typed]
        said = {"tenant": request.tenant, "actor": request.actor, "event_time": request.at_ms}
        unit = await self._readers.run(lambda: self._journal.emit_unit(events, **said), asker=request.asker)
        results = []
        for one, receipt in zip(typed, unit.receipts, strict=True):
            result = {"ok": True, **_sent(one, receipt), "position": str(receipt.position)}
            results.append(result)
        told = {"ok": True, "unit": unit.id, "events": results}
        until = time.monotonic() + wait_s
        last = {(one.position.topic, one.position.partition): one.position for one in unit.receipts}
        try:
            for position in last.values():
                await self._following.shown(position, until - time.monotonic())
        except UnavailableError:
            return Answer({**told, "outcome": PENDING}, status=202)
        return Answer(told)

    async def _emit_line(self, request: Request, typed: Any) -> Receipt:
        about = {"event_time": request.at_ms, **typed.about, "tenant": request.tenant, "actor": request.actor}
        if self._journal.emitter.pending >= self._journal.settings.client.queue_events:
            await asyncio.sleep(0)
        return self._journal.emit(typed.event, **about)

    async def _line_result(
        self, request: Request, typed: Any, receipt: Receipt, outcome: Outcome | MetajournalError | None, *,
        waited: bool,
    ) -> dict[str, Any]:  # fmt: skip
        about = _sent(typed, receipt)
        try:
            position = receipt.position if receipt.acknowledged else await receipt
        except MetajournalError as error:
            return {**about, **line_error(error)}
        result = {"ok": True, **about, "position": str(position)}
        if outcome is None:
            return {**result, "outcome": PENDING} if waited else result
        if isinstance(outcome, MetajournalError):
            return {**result, **line_error(outcome)}
        judged: Any = outcome
        if isinstance(outcome, Duplicate):
            judged = outcome.original
            try:
                await self._check_same(request, typed.event, typed.about.get("expected"), outcome)
            except HttpError as error:
                return {**result, **line_error(error)}
        return {**result, **outcome_json(outcome), "ok": not isinstance(judged, Rejected | Shelved)}


def _told_once() -> HttpError:
    """The answer to a key of an earlier request whose answer told a secret: this one's is another secret's event."""
    return HttpError(
        422, "This Idempotency-Key was used before, and what was made then, if anything, is in the first answer alone.",
        code="key-reused", headers={OUTCOME: "key-reused"},
        hint="List what there is, revoke what nobody knows, and send a new Idempotency-Key.",
    )  # fmt: skip


def _line(result: Mapping[str, Any]) -> int:
    return int(result["line"])


def line_error(error: MetajournalError) -> dict[str, Any]:
    """Why a line was not sent."""
    faults = told_faults(error.data.get("faults", ()))
    more = {"faults": faults} if faults else {}
    return {"ok": False, "error": {"code": error.code, "message": error.message, "hint": hint_of(error), **more}}


def _named(receipt: Receipt, position: Position) -> dict[str, Any]:
    return {"event_id": receipt.event_id, "position": str(position)}


def _sent(typed: Any, receipt: Receipt) -> dict[str, Any]:
    return {"type": typed.event.TYPE, "entity": str(typed.event.entities[0]), "event_id": receipt.event_id}


def _headers(receipt: Receipt, position: Position, word: str) -> dict[str, str]:
    return {EVENT_ID: receipt.event_id, POSITION: str(position), OUTCOME: word}


def _pending(receipt: Receipt, position: Position, tells: Mapping[str, Any] | None) -> Answer:
    """The event is in the journal; its verdict is asked for later."""
    value = {"ok": True, **_named(receipt, position), "outcome": PENDING, **(tells or {})}
    where = {"Location": f"/api/v1/events/{receipt.event_id}"}
    return Answer(value, status=202, headers={**_headers(receipt, position, PENDING), **where})
