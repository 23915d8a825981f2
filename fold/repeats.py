"""Which events may be copies of earlier ones: the ids of all that were marked `repeat`, in 8 bytes each.

An event without a mark is a copy of an earlier one only where that was marked, so nearly all events are told at once
to be none. Two ids may have one hash: whoever finds an id here still has to look the event up.

Invariant: a value never changes; what is added makes a new one, which shares what is old.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from ..schemas.encoding.cursor import Numbers

_ID_BYTES: Final = 16
_NONE: Final = np.empty(0, np.uint64)
_FEW: Final = 4_096
_SHARE: Final = 16
"""New hashes are sorted into the others when there is one of them for so many, so that adding stays cheap."""
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
    """A set of ids, by their hashes: most of them sorted, and the newest sorted by themselves."""

    __slots__ = ("_many", "_new")

    def __init__(self, many: Numbers = _NONE, new: Numbers = _NONE) -> None:
        self._many = many
        self._new = new

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return int(self._many.nbytes + self._new.nbytes)

    def __bool__(self) -> bool:
        return bool(len(self._many) or len(self._new))

    def plus(self, ids: Numbers) -> Repeats:
        """The set with more ids: bytes, 16 a row."""
        if not len(ids):
            return self
        new = np.union1d(self._new, hashes_of(ids))
        if len(new) <= max(_FEW, len(self._many) // _SHARE):
            return Repeats(self._many, new)
        return Repeats(np.union1d(self._many, new))

    def hits(self, ids: Numbers) -> Numbers:
        """Which of some ids (bytes, 16 a row) may be in the set; the others are not."""
        hashes = hashes_of(ids)
        return _among(self._many, hashes) | _among(self._new, hashes)


def _among(ordered: Numbers, hashes: Numbers) -> Numbers:
    if not len(ordered):
        return np.zeros(len(hashes), np.bool_)
    places = np.minimum(np.searchsorted(ordered, hashes), len(ordered) - 1)
    among: Numbers = ordered[places] == hashes
    return among
