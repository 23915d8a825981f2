"""Connections with deadlines: uvicorn itself never closes one whose request trickles in.

A head has 10 seconds from its first byte, or from the connection's beginning; a body's deadline is that of
`bodies.read_body`. What stands behind a body in chunks (trailers) is no part of the head: it is read over (RFC 9110,
6.5.1), and bounded as heads are.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .gathering import GatheringTransport

ABORT: Final = "metajournal.abort"
"""The extension of a request's scope that drops its connection, with all that waits to be sent."""
HEAD_S: Final = 10.0
HEAD_BYTES: Final = 65_536
STALLED_S: Final = 30.0
"""Seconds in which whoever is being answered must take something of what waits for them."""
_NOT_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 30\r\n"
    b"content-type: text/plain; charset=utf-8\r\n\r\nInvalid HTTP request received."
)
_NOT_TAKEN_OVER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 85\r\n"
    b"content-type: text/plain; charset=utf-8\r\n\r\n"
    b"No tunnel, and no body of a request that asks for an upgrade, is taken: omit Upgrade."
)
_TAKEN: Final = slice(120, 128)
"""Where Linux's tcp_info has how many bytes the other end has taken (linux/tcp.h: tcpi_bytes_acked)."""
_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"  # RFC 6585
)


class DeadlinedProtocol(HttpToolsProtocol):
    """uvicorn's connection, which ends when a request's head does not come in time or is too large."""

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _head_bytes: int = 0
    _beside_bytes: int = 0
    """What came since the last piece of a body and is none: sizes of chunks and trailers."""
    _in_head: bool = True
    _cycles: list[Any]
    """Requests that are not answered yet, one behind the other."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first head."""
        self._cycles = []
        super().connection_made(cast(Any, GatheringTransport(transport, self.loop)))
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes in; those of a head are counted."""
        if self._in_head:
            self._wait_for_head()
            self._head_bytes += len(data)
        else:
            self._beside_bytes += len(data)
        self._unset_keepalive_if_required()
        self._read(data)
        if (self._head_bytes if self._in_head else self._beside_bytes) > HEAD_BYTES:
            self._give_up(_TOO_LARGE)

    def _read(self, data: bytes) -> None:
        """Have the parser read; at a request that asks for another protocol it stops, and goes on (RFC 9110, 7.8)."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as stop:
                data = data[stop.args[0] :]
            except httptools.HttpParserError:
                self.logger.warning("Invalid HTTP request received.")
                self.send_400_response("")
                return

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; one behind the body must not pass for it."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._beside_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """The head is whole. Raises: HttpParserError: its target is none, or the parser would not read its body."""
        if self.parser.should_upgrade() and self._hides_a_body():
            self._give_up(_NOT_TAKEN_OVER)
            raise httptools.HttpParserError("not taken over")
        self.scope["extensions"] = cast(Any, {ABORT: self.transport.abort})
        super().on_headers_complete()
        self._in_head = False
        self._end_deadline()
        if self.scope["http_version"] < "1.1":
            self.cycle.send = _without_chunks(self.cycle)  # type: ignore[method-assign, assignment]
        self._cycles.append(self.cycle)

    def _hides_a_body(self) -> bool:
        """Whether what stands behind a head that asks for another protocol may be no request."""
        fields = dict(self.headers)
        is_long = bool(fields.get(b"content-length", b"").strip(b"0")) or b"transfer-encoding" in fields
        return is_long or self.parser.get_method() == b"CONNECT"

    def on_message_complete(self) -> None:
        """What comes next is another head; uvicorn's own deadline closes a connection on which none begins."""
        super().on_message_complete()
        self._end_deadline()
        self._in_head = True
        self._head_bytes = self._beside_bytes = 0

    def on_response_complete(self) -> None:
        """An answer that comes before the whole body leaves the rest a deadline, too."""
        self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete]
        super().on_response_complete()
        if self._is_tls and self._stalled is None:
            self._watch()
        is_read_on = not self._in_head and self.cycle is not None and self.cycle.response_complete
        if is_read_on and not self.transport.is_closing() and self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self._give_up, b"")

    def pause_writing(self) -> None:
        """More waits to be sent than the other end takes; from now on it must take something again and again.

        Over TLS the loop takes an answer whole, however large, and does not say so: there each answer is watched.
        """
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Next to nothing waits any more."""
        super().resume_writing()
        if not self._is_tls:
            self._end_watch()

    @property
    def _is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def _socket(self) -> Any:
        return self.transport.get_extra_info("socket")

    def _watch(self) -> None:
        self._end_watch()
        self._stalled = self.loop.call_later(STALLED_S, self._look_again, self._taken_bytes())

    def _look_again(self, before: int) -> None:
        """Drop a connection of which nothing was taken: to close it would be to wait for its reader."""
        if not self._unsent_bytes():
            self._stalled = None
        elif self._taken_bytes() <= before:
            self.transport.abort()
        else:
            self._watch()

    def _unsent_bytes(self) -> int:
        """What waits here and, where the system tells that, in its own buffer, which is large."""
        waiting = bytearray(4)
        with suppress(OSError):
            fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, waiting)
        return self.transport.get_write_buffer_size() + int.from_bytes(waiting, sys.byteorder)

    def _taken_bytes(self) -> int:
        """How much the other end has taken, to be compared alone; where the system does not count it, by what waits."""
        if sys.platform == "linux":
            with suppress(OSError):
                told = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TAKEN.stop)
                if taken := int.from_bytes(told[_TAKEN], sys.byteorder):
                    return taken
        return -self._unsent_bytes()

    def _end_watch(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over; uvicorn tells the request that came last alone."""
        self._end_deadline()
        self._end_watch()
        super().connection_lost(exc)
        self._end_cycles()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._give_up(_NOT_HTTP)

    def _wait_for_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self._give_up, _TOO_SLOW)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self, answer: bytes) -> None:
        """End the connection; without an answer where that would be taken for another request's."""
        self._end_deadline()
        if not self.transport.is_closing():
            if self._is_unanswered():
                self.transport.write(answer)
            self.transport.close()
            self._end_cycles()

    def _is_unanswered(self) -> bool:
        """Whether the next answer is that of the request that is being read: no other one waits, and it has none."""
        waiting = [cycle for cycle in self._cycles if not cycle.response_complete]
        if self._in_head:
            return not waiting
        return waiting == [self.cycle] and not self.cycle.response_started

    def _end_cycles(self) -> None:
        """Requests that are not answered yet get no answer any more."""
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()


def _without_chunks(cycle: Any) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """How an answer to HTTP/1.0 is sent: one whose length is not known ends with its connection (RFC 9112, 6.1)."""
    send, ends_with_connection = cycle.send, False

    async def sent(message: Any) -> None:
        nonlocal ends_with_connection
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            if ends_with_connection := b"content-length" not in names:
                cycle.chunked_encoding = cycle.keep_alive = False
        elif ends_with_connection:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    return sent
