"""Event ids: UUIDv7, made fast, growing within a process.

Source: RFC 9562, section 5.7. 48 bits of milliseconds, 12 random bits drawn anew for each millisecond, and 62 bits that
count up from a random start for the life of the process: two ids of a process are never equal, whatever the clock does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Final

_VERSION_AND_VARIANT: Final = (7 << 76) | (2 << 62)
_DRAWN_BYTES: Final = 4096
"""Random bytes that are drawn at once: to ask the system gives the interpreter away, which takes up to 5 ms where other
threads have work."""


class EventIds:
    """A source of ids; safe to share between threads, not between forked processes."""

    __slots__ = ("_base", "_bits", "_ms", "_next")

    def __init__(self) -> None:
        self._ms = -1
        self._base = 0
        self._bits: Iterator[int] = iter(())
        # 61 random bits: the 62-bit field takes 2**61 ids before it could overflow.
        self._next = count(int.from_bytes(os.urandom(8), "big") >> 3).__next__

    def __call__(self, now_ms: int) -> bytes:
        """The next id, 16 bytes.

        Args:
            now_ms: milliseconds since the epoch; a clock that runs backwards is held at the latest time seen.
        """
        if now_ms > self._ms:
            # The base first: a thread that sees the new time must not use the old base's bits with it.
            self._base = (now_ms << 80) | _VERSION_AND_VARIANT | self._twelve_bits() << 64
            self._ms = now_ms
        return (self._base + self._next()).to_bytes(16, "big")

    def _twelve_bits(self) -> int:
        """Random ones, each drawn once."""
        drawn = next(self._bits, None)
        if drawn is None:
            self._bits = iter(memoryview(os.urandom(_DRAWN_BYTES)).cast("H"))
            drawn = next(self._bits)
        return drawn & 0xFFF
