"""Doors before services that tests share: one that is shut is a service that is away, for whoever comes through it.

Kafka tells its clients where it is, so a door before it tells them its own address instead.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_BYTES = 65_536
_SIZE_BYTES = 4
_WAITING = 128
_TURNS = 3
_Passes = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Door:
    """A port of this machine that leads to another one while it is open.

    Shut, it refuses connections and has ended those that there were; its port stays its own.

    Args:
        there: host and port of the service.
        is_kafka: whether the service tells its clients its address.
    """

    def __init__(self, there: str, *, is_kafka: bool = False) -> None:
        host, _, port = there.rpartition(":")
        self._there = host, int(port)
        self._kept = _bound(0)  # never listens: a connection to a port that nobody has may end at its own beginning
        self.port = int(self._kept.getsockname()[1])
        self.address = f"{host}:{self.port}"
        self._told = host.encode() + self._there[1].to_bytes(4), host.encode() + self.port.to_bytes(4)
        self._answers: _Passes = self._framed if is_kafka else _passed
        self._listening: socket.socket | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="door", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Let everybody through."""
        asyncio.run_coroutine_threadsafe(self._opened(), self._loop).result(30)

    def shut(self) -> None:
        """Let nobody through, and end what is under way."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(30)

    def close(self) -> None:
        """Shut it for good."""
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
        self._kept.close()

    async def _opened(self) -> None:
        self._listening = _bound(self.port)
        self._listening.listen(_WAITING)
        self._loop.add_reader(self._listening, self._entered, self._listening)

    async def _shut(self) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        under_way = list(self._under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for _ in range(_TURNS):  # in which the loop closes what was aborted
            await asyncio.sleep(0)

    def _entered(self, listening: socket.socket) -> None:
        """Take a connection at once, so that none is lost between the loop's turns where the door is shut in one."""
        with suppress(OSError):
            connection, _ = listening.accept()
            connection.setblocking(False)
            task = self._loop.create_task(self._led(connection))
            self._under_way.add(task)

            def left(_: object) -> None:
                self._under_way.discard(task)
                connection.close()

            task.add_done_callback(left)

    async def _led(self, connection: socket.socket) -> None:
        """Carry what both sides say, until one of them has nothing to say any more."""
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(sock=connection)
            try:
                await self._carried(reader, writer)
            finally:
                writer.transport.abort()

    async def _carried(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, onward = await asyncio.open_connection(*self._there)
        ways = [asyncio.ensure_future(_passed(reader, onward)), asyncio.ensure_future(self._answers(back, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            onward.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _framed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers of Kafka, each behind its size: the address in them becomes this one, which is as long."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(_SIZE_BYTES)
                answer = await reader.readexactly(int.from_bytes(size))
                writer.write(size + answer.replace(*self._told))
                await writer.drain()


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What comes, as it comes."""
    with suppress(OSError):
        while came := await reader.read(_BYTES):
            writer.write(came)
            await writer.drain()


def _bound(port: int) -> socket.socket:
    """A socket at a port that several of this process may have."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made


@contextmanager
def door(there: str, *, is_kafka: bool = False) -> Iterator[Door]:
    """An open door. Args: as `Door`."""
    made = Door(there, is_kafka=is_kafka)
    made.open()
    try:
        yield made
    finally:
        made.close()
