"""The threads that read: few, with a bounded number of requests that wait for one.

A read blocks on files of the lake or on the index. Everything else runs on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from ..schemas.errors import UnavailableError

T = TypeVar("T")
THREADS: Final = 8
WAITING: Final = 200


class Readers:
    """Threads for reads; of one event loop.

    Args:
        threads: how many.
        waiting: most requests that wait for one.
    """

    def __init__(self, threads: int = THREADS, waiting: int = WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="metajournal-read")
        self._most = threads + waiting
        self.busy = 0

    async def run(self, read: Callable[[], T]) -> T:
        """What a function returns, run in one of the threads.

        Raises:
            UnavailableError: too many wait for a thread.
        """
        if self.busy >= self._most:
            raise UnavailableError(
                f"{self.busy} reads are waiting for a thread.", code="too-busy", hint="Try again in a second."
            )
        self.busy += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, read)
        finally:
            self.busy -= 1

    def close(self) -> None:
        """Let the threads end; what waits is not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
