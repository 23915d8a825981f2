"""Requests to a system side by side, in threads that end with the block, whatever happens in it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for requests; those that have not begun when the block ends are not made any more."""
    pool = ThreadPoolExecutor(number)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
