"""The threads that read: few, with a bounded number of requests that wait for one.

A read blocks on files of the lake or on the index. Everything else runs on the loop. Whoever asks for much at once gets
some of the threads and some of the room of the queue, so that others are answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from ..schemas.errors import UnavailableError

T = TypeVar("T")
THREADS: Final = 8
WAITING: Final = 200
OF_ONE: Final = 4
"""Most threads that one asker has at once."""
WAITING_OF_ONE: Final = 100
"""Most reads of one asker that wait or run."""


@dataclass(slots=True)
class _Lane:
    """What one asker has under way."""

    turns: asyncio.Semaphore
    asked: int = 0


class Readers:
    """Threads for reads; of one event loop.

    Args:
        threads: how many.
        waiting: most requests that wait for one.
        name: what the threads are called.
    """

    def __init__(self, threads: int = THREADS, waiting: int = WAITING, *, name: str = "read") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"metajournal-{name}")
        self._most = threads + waiting
        self._lanes: dict[str, _Lane] = {}
        self.busy = 0

    async def run(self, read: Callable[[], T], *, asker: str | None = None) -> T:
        """What a function returns, run in one of the threads.

        Args:
            asker: for whom it is read, who shares the threads with others; None: for nobody in particular.
        Raises:
            UnavailableError: too many wait for a thread.
        """
        if self.busy >= self._most:
            raise UnavailableError(
                f"{self.busy} reads are waiting for a thread.", code="too-busy", hint="Try again in a second."
            )
        self.busy += 1
        try:
            return await (self._read(read) if asker is None else self._in_lane(read, asker))
        finally:
            self.busy -= 1

    async def _in_lane(self, read: Callable[[], T], asker: str) -> T:
        lane = self._lanes.setdefault(asker, _Lane(asyncio.Semaphore(OF_ONE)))
        if lane.asked >= WAITING_OF_ONE:
            raise UnavailableError(
                f"{lane.asked} of your reads are waiting for a thread.", code="too-busy", hint="Try again in a second."
            )
        lane.asked += 1
        try:
            async with lane.turns:
                return await self._read(read)
        finally:
            lane.asked -= 1
            if not lane.asked:
                del self._lanes[asker]

    def _read(self, read: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, read)

    def close(self) -> None:
        """Let the threads end; what waits is not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
