"""One feed: from its request to its end.

It copies from the ring to its socket what its reader may read and asked for. Whoever does not read is cut off: its
socket's buffer is all that it holds. What the ring no longer has comes from Kafka first; where that is gone too, an
event `gap` says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from starlette.types import Receive, Send

from ...consumers.every_change import first_offsets, last_offsets
from ...consumers.records import Partition
from ...schemas.endpoints import READ, Wanted
from ...schemas.errors import MetajournalError, PositionExpired, UnavailableError
from ..principals import Principal
from ..replies import encoded
from .cuts import Read
from .feeds import Feeds, Shown
from .past import Past
from .ring import Entry, merged

T = TypeVar("T")
_log = logging.getLogger("metajournal.gateway")
BEAT_S: Final = 15.0
STALLED_S = 20.0
"""Seconds after which a reader that takes nothing is cut off."""
SLOW_S = 1.0
"""Seconds that one piece may take with a reader that has fallen behind the ring, so that Kafka is read for it."""
TURN_S = 5.0
"""Seconds that a feed reads from Kafka before others have their turn."""
TAKEN_S = 5.0
"""Seconds that its reader may take for a piece then."""
RETRY_MS: Final = 1_000
_CHUNK_BYTES: Final = 64 * 1024
_LOOKED_AT: Final = 1_000
"""Most changes that one turn of the loop looks at for a feed."""
_ENDING_S: Final = 1.0


class Reader(NamedTuple):
    """Who reads a feed, and what.

    Attributes:
        who: who that is, as rights are now; None where nobody has the key any longer.
        principal: who asked.
        wants: whether a change is asked for.
        hears_beats: a beat is an event for it: scripts of pages learn of an id by no other means.
    """

    who: Callable[[], Principal | None]
    principal: Principal
    wants: Wanted
    hears_beats: bool = False

    @property
    def asker(self) -> str:
        """Who reads, as one name."""
        return f"{self.principal.tenant}/{self.principal.actor}"

    def now(self) -> Principal | None:
        """The one who asked, as rights are now; None where that one may not any longer, or nobody knows."""
        try:
            principal = self.who()
        except MetajournalError:
            return None
        if principal is None or principal[:3] != self.principal[:3] or not principal.rights.within(READ):
            return None
        return principal


class _SlowError(Exception):
    """The reader does not keep up."""


class _OverError(Exception):
    """What comes does not follow on what the reader had."""


class Feed:
    """One open feed.

    Args:
        feeds: all of them.
        shown: the ring.
        reader: who reads it, and what.
        since: what the id of the last event says that the reader had; None: it begins now.
    Attributes:
        why: it ended.
    """

    def __init__(self, feeds: Feeds, shown: Shown, reader: Reader, since: Read | None) -> None:
        self._feeds, self._shown, self._reader, self._since = feeds, shown, reader, since
        self._number = shown.ring.next
        self._offsets: dict[Partition, int] | None = None
        """The next offset of each partition, where that is not what the ring says of its changes."""
        self._is_sending = False
        self._last_id = shown.ring.id
        self._sent_at, self._slowest_s = time.monotonic(), 0.0
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.why = ""

    @property
    def asker(self) -> str:
        """Who reads it."""
        return self._reader.asker

    def judge(self) -> Principal | None:
        """Who reads, as rights are now; ends it where that one may not any longer."""
        principal = self._reader.now()
        if principal is None:
            self.end("not allowed any longer")
        return principal

    def end(self, why: str) -> None:
        """End it soon."""
        if not self._ended.done():
            self._ended.set_result(why)

    async def serve(self, receive: Receive, send: Send, abort: Callable[[], None]) -> None:
        """Send changes until the reader goes, may not read any longer, or the server ends.

        Args:
            receive, send: of the request, whose answer's head was sent.
            abort: drops its connection with all that is buffered for it.
        """
        sending = asyncio.ensure_future(self._send_all(send))
        gone = asyncio.ensure_future(_gone(receive))
        tasks: set[asyncio.Future[Any]] = {sending, gone, self._ended}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        was_sending = self._is_sending
        self.why = self._reason(sending, gone)
        sending.cancel()
        gone.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)
        if was_sending or not await _finished(send):
            abort()

    def _reason(self, sending: asyncio.Future[None], gone: asyncio.Future[None]) -> str:
        if self._ended.done():
            return self._ended.result()
        if gone.done():
            return "the reader left"
        error = sending.exception()
        if isinstance(error, _SlowError | _OverError):
            return str(error)
        if isinstance(error, MetajournalError):
            return error.message
        _log.error("A feed failed.", exc_info=error)
        return "it failed"

    def _beat(self, place: str) -> bytes:
        return _beat(place, is_event=self._reader.hears_beats)

    async def _send_all(self, send: Send) -> None:
        ring, since = self._shown.ring, self._since
        await self._send(send, f"retry: {RETRY_MS}\n\n".encode())
        if since is None:
            await self._send(send, self._beat(self._last_id))
        else:
            await self._resume(send, since)
        while True:
            news = self._feeds.news
            if self._number < ring.first:
                await self._fall_back(send)
            is_more, chunk = self._next()
            if self._ended.done():
                return
            if chunk:
                await self._send(send, chunk)
            if is_more:
                await asyncio.sleep(0)
                continue
            left_s = self._sent_at + BEAT_S - time.monotonic()
            if left_s > 0:
                await asyncio.wait({news}, timeout=left_s)
            elif self._number == ring.next:
                await self._send(send, self._beat(self._id))

    async def _send(self, send: Send, chunk: bytes, within_s: float | None = None) -> None:
        self._is_sending, began = True, time.monotonic()
        try:
            async with asyncio.timeout(STALLED_S if within_s is None else within_s):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except TimeoutError:
            raise _SlowError("the reader takes nothing") from None
        self._is_sending = False
        self._sent_at = time.monotonic()
        self._slowest_s = max(self._slowest_s, self._sent_at - began)

    # From the ring

    def _next(self) -> tuple[bool, bytes]:
        """Whether there is more at once, and what is to be sent.

        Raises:
            _OverError: the ring ended.
        """
        ring = self._shown.ring
        if self._shown.is_over:
            raise _OverError("the subscription began anew")
        principal = self.judge()
        if principal is None:
            return False, b""
        chunk = self._looked_up(principal) if self._offsets is None else self._looked_at(principal)
        if self._number == ring.next:
            self._settle()
        return self._number < ring.next, chunk

    def _looked_at(self, principal: Principal) -> bytes:
        """What is to be sent of the next changes, each looked at."""
        ring, chunk = self._shown.ring, bytearray()
        last = min(ring.next, self._number + _LOOKED_AT)
        while self._number < last and len(chunk) < _CHUNK_BYTES:
            entry = ring[self._number]
            self._number += 1
            if self._is_new(entry) and self._is_shown(entry, principal):
                chunk += f"id: {self._id_at(entry)}\n".encode() + entry.frame
        return bytes(chunk)

    def _looked_up(self, principal: Principal) -> bytes:
        """The same where the reader had everything before: only changes that can be asked for are looked at."""
        ring, chunk, looked_at = self._shown.ring, bytearray(), 0
        for number in ring.numbers(self._reader.wants.keys, self._number):
            entry = ring[number]
            self._number, self._last_id, looked_at = number + 1, entry.id, looked_at + 1
            if self._is_shown(entry, principal):
                chunk += f"id: {entry.id}\n".encode() + entry.frame
            if looked_at == _LOOKED_AT or len(chunk) >= _CHUNK_BYTES:
                return bytes(chunk)
        self._number, self._last_id = ring.next, ring.id
        return bytes(chunk)

    def _is_new(self, entry: Entry) -> bool:
        """Whether its reader did not have a change before; takes it as had."""
        assert self._offsets is not None
        if entry.offset < self._offsets.get(entry.partition, 0):
            return False
        self._offsets[entry.partition] = entry.offset + 1
        return True

    def _is_shown(self, entry: Entry, principal: Principal) -> bool:
        """Whether a change is its reader's, asked for, and only of what may be read."""
        return (
            entry.tenant == principal.tenant
            and self._reader.wants(entry)
            and all(principal.rights.may(READ, urn) for urn in entry.entities)
        )

    def _id_at(self, entry: Entry) -> str:
        assert self._offsets is not None
        return self._shown.cuts.text(self._offsets)

    def _settle(self) -> None:
        """Everything in the ring is looked at: where it is ahead of its reader nowhere, it says where that one is."""
        ring, self._slowest_s = self._shown.ring, 0.0
        offsets = self._offsets or {}
        if all(ring.reached.get(place, 0) >= offset for place, offset in offsets.items()):
            self._offsets, self._last_id = None, ring.id

    @property
    def _id(self) -> str:
        """Where it is, with everything looked at."""
        return self._shown.ring.id if self._offsets is None else self._shown.cuts.text(self._offsets)

    # From Kafka

    async def _fall_back(self, send: Send) -> None:
        """Read from Kafka what came too fast to be looked at in the ring.

        Raises:
            _SlowError: it was the reader that took its time.
        """
        if self._slowest_s > SLOW_S:
            raise _SlowError("the reader does not keep up")
        offsets = self._shown.cuts.read(self._last_id).offsets if self._offsets is None else self._offsets
        await self._resume(send, Read(offsets, True))

    async def _resume(self, send: Send, since: Read) -> None:
        """Go on behind the last event that the reader had; what the ring no longer has comes first."""
        ring = self._shown.ring
        self._offsets = dict(since.offsets)
        if not since.is_whole:
            await self._send(send, self._gap("A change topic was created again: what it had before is gone."))
        await self._hold_to_ends(send)
        while not ring.covers(self._offsets):
            await self._wait_for_turn(send)
            try:
                await self._read_past(send, self._offsets)
            finally:
                self._feeds.from_kafka.release()
        self._number = ring.first

    async def _hold_to_ends(self, send: Send) -> None:
        """Begin with the next changes where an id names some that were never there, and say so."""
        assert self._offsets is not None
        reached = self._shown.ring.reached
        ahead = {place: offset for place, offset in self._offsets.items() if offset > reached.get(place, 0)}
        ends = await self._in_pool(last_offsets, self._feeds.journal.settings, ahead) if ahead else {}
        if any(offset > ends[place] for place, offset in ahead.items()):
            self._offsets |= {place: min(offset, ends[place]) for place, offset in ahead.items()}
            await self._send(send, self._gap("The id names changes that are not there."))

    async def _wait_for_turn(self, send: Send) -> None:
        while True:
            try:
                async with asyncio.timeout(BEAT_S):
                    await self._feeds.from_kafka.acquire()
                    return
            except TimeoutError:
                await self._send(send, _beat(None))

    async def _read_past(self, send: Send, offsets: dict[Partition, int]) -> None:
        """Send what Kafka has behind some offsets, which go on with it: all, or what one turn gives.

        Raises:
            KafkaUnavailableError: it cannot be read.
        """
        before, past = dict(offsets), None
        try:
            past = await self._in_pool(
                Past, self._feeds.journal, self._shown.topics, before, self._reader.principal.tenant
            )
            until = time.monotonic() + TURN_S  # once it is open: a turn in which nothing is read would never end
            while entries := await self._in_pool(past.some):
                await self._send_some(send, entries, offsets)
                if time.monotonic() >= until:
                    break
            offsets |= merged(offsets, past.reached)
        except PositionExpired as error:
            await self._skip_gone(send, offsets, error)
        finally:
            if past is not None:  # before its place is given to others: it holds memory
                await asyncio.shield(asyncio.wrap_future(self._feeds.pool.submit(past.close)))
        if offsets == before and not self._shown.ring.covers(offsets):
            raise UnavailableError("The change topics cannot be read up to the newest changes.")

    async def _send_some(self, send: Send, entries: list[Entry], offsets: dict[Partition, int]) -> None:
        principal = self.judge()
        if principal is None:
            return
        chunk = bytearray()
        for entry in entries:
            if self._is_new(entry) and self._is_shown(entry, principal):
                chunk += f"id: {self._shown.cuts.text(offsets)}\n".encode() + entry.frame
        if chunk:
            await self._send(send, bytes(chunk), TAKEN_S)
        elif time.monotonic() > self._sent_at + BEAT_S:
            await self._send(send, self._beat(self._shown.cuts.text(offsets)))

    async def _skip_gone(self, send: Send, offsets: dict[Partition, int], error: PositionExpired) -> None:
        """Go on with what is left, and say that something is gone."""
        first = await self._in_pool(first_offsets, self._feeds.journal.settings, self._shown.topics)
        left = merged(offsets, first)
        if left == offsets:  # beyond what there is: such an id was never given
            left = merged({}, self._shown.ring.reached)
            self._offsets = left
        offsets |= left
        await self._send(send, self._gap(error.message))

    async def _in_pool(self, call: Callable[..., T], *arguments: Any) -> T:
        """What a call gives in one of the threads that read the past; what it opens after nobody waits is closed."""
        future = self._feeds.pool.submit(call, *arguments)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(_close_unused)
            raise

    def _gap(self, detail: str) -> bytes:
        assert self._offsets is not None
        said = encoded({"code": PositionExpired.CODE, "detail": detail})
        return f"id: {self._shown.cuts.text(self._offsets)}\nevent: gap\ndata: ".encode() + said + b"\n\n"


def _beat(place: str | None, *, is_event: bool = False) -> bytes:
    """A sign of life. Without a line of data no event comes of it, but the id of the last one moves on.

    Source: the HTML standard, "Server-sent events".
    """
    if place is None:
        return b": beat\n\n"
    return f"id: {place}\nevent: beat\ndata:\n\n".encode() if is_event else f": beat\nid: {place}\n\n".encode()


async def _gone(receive: Receive) -> None:
    """Return once the reader has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _finished(send: Send) -> bool:
    """Whether the answer's end could be sent."""
    try:
        async with asyncio.timeout(_ENDING_S):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except TimeoutError:
        return False
    return True


def _close_unused(future: Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None and isinstance(future.result(), Past):
        future.result().close()
