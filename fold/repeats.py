"""Which events may be copies of earlier ones: the ids of all that were marked `repeat`, in 8 bytes each.

An event without a mark is a copy of an earlier one only where that was marked, so nearly all events are told at once
to be none. Two ids may have one hash: whoever finds an id here still has to look the event up.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from ..schemas.encoding.cursor import Numbers
from .hashes import Hashes

_ID_BYTES: Final = 16
_NONE: Final = Hashes()
_ODD: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
"""Odd numbers without a pattern, one for each half of an id."""


def ids_of(ids: Collection[bytes]) -> Numbers:
    """Ids as an array of bytes, 16 a row."""
    return np.frombuffer(b"".join(ids), np.uint8).reshape(-1, _ID_BYTES)


def hashes_of(ids: Numbers) -> Numbers:
    """64-bit hashes of ids, the same on every machine.

    Args:
        ids: bytes, 16 a row.
    """
    hashes: Numbers = (np.ascontiguousarray(ids).view("<u8") * _ODD).sum(axis=1, dtype=np.uint64)
    return hashes


class Repeats:
    """A set of ids, by their hashes."""

    __slots__ = ("_hashes",)

    def __init__(self, hashes: Hashes = _NONE) -> None:
        self._hashes = hashes

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return self._hashes.nbytes

    def __bool__(self) -> bool:
        return len(self._hashes) > 0

    def plus(self, ids: Numbers) -> Repeats:
        """The set with more ids: bytes, 16 a row."""
        return Repeats(self._hashes.plus(hashes_of(ids)))

    def hits(self, ids: Numbers) -> Numbers:
        """Which of some ids (bytes, 16 a row) may be in the set; the others are not."""
        return self._hashes.hits(hashes_of(ids))
