"""Memory of those who fold: no collector of cycles while a backlog is folded, and what it took goes back."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa


@contextmanager
def without_collector() -> Iterator[None]:
    """Without the collector of cycles: a task makes millions of values and no cycle, and each look costs seconds.

    What the block took goes back to the machine behind it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
        give_back()


def give_back() -> None:
    """Return free memory to the machine: the allocator keeps what a backlog took, for hours of small batches."""
    pa.default_memory_pool().release_unused()
    if _libc is not None:
        _libc.malloc_trim(0)


def _with_malloc_trim() -> Any:
    """The C library, where it is glibc."""
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None


_libc: Final = _with_malloc_trim()
