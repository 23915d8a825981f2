"""What is written in one turn of the loop goes out together: an answer's head and its body are one packet, not two.

uvicorn writes each by itself, and each costs a call of the system, a turn of the interpreter and a wake-up of whoever
reads it. What is long goes out as it is, so that nothing large is copied.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

_MOST_BYTES: Final = 65_536


class GatheringTransport:
    """A transport, but that short writes wait for the end of the turn.

    Args:
        transport: the connection's own.
        loop: its loop.
    """

    __slots__ = ("_loop", "_size", "_transport", "_waiting")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes behind those before them."""
        self._size += len(data)
        if self._size > _MOST_BYTES:
            self._send_waiting()
            if not self._transport.is_closing():
                self._transport.write(data)
            return
        if not self._waiting:
            self._loop.call_soon(self._send_waiting)
        self._waiting.append(data)

    def close(self) -> None:
        """End the connection once everything is sent."""
        self._send_waiting()
        self._transport.close()

    def abort(self) -> None:
        """End the connection with all that waits to be sent."""
        self._drop()
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        return int(self._transport.get_write_buffer_size()) + self._size

    def _send_waiting(self) -> None:
        data = b"".join(self._waiting)
        self._drop()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _drop(self) -> None:
        self._waiting.clear()
        self._size = 0
