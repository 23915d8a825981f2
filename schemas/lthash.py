"""LtHash16: a hash of a set that elements are added to and removed from, in any order.

The state is 1,024 lanes of 16 bits, little endian; an element is as many, and is added lane by lane modulo 2^16. Lanes
are held as two whole numbers, those of even and those of odd places, each lane in a field of 32 bits: so one addition
of whole numbers adds all of a number's lanes, and 65,535 elements fit before a field runs over.

Source: Bellare and Micciancio, "A New Paradigm for Collision-Free Hashing" (1997), the lattice construction; Lewi et
al., "Securing Update Propagation with Homomorphic Hashing" (2019), section 4, LtHash16.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LANES: Final = 1024
LANE_BYTES: Final = 2
STATE_BYTES: Final = LANES * LANE_BYTES
NOTHING: Final = bytes(STATE_BYTES)
"""The state of the empty set."""

_FIELDS: Final = LANES // 2
_LOW: Final = int.from_bytes(b"\xff\xff\0\0" * _FIELDS, "little")
_CARRY: Final = int.from_bytes(b"\0\0\1\0" * _FIELDS, "little")
_MOST: Final = 0xFFFF


class LtHash16:
    """A set's state, brought up to date.

    Args:
        state: 2,048 bytes; by default that of the empty set.
    Raises:
        ValueError: it, or an element, has another length.
    """

    __slots__ = ("_added", "_count", "_even", "_odd", "_removed")

    def __init__(self, state: bytes = NOTHING) -> None:
        self._even = self._odd = 0
        self._added, self._removed = [0, 0], [0, 0]
        self._count = 0
        self.add(state)

    def add(self, element: bytes) -> None:
        """Put an element in, or all those of another state."""
        self._sum(self._added, element)

    def remove(self, element: bytes) -> None:
        """Take an element out; one that was never put in leaves what no set has."""
        self._sum(self._removed, element)

    def update(self, added: Iterable[bytes] = (), removed: Iterable[bytes] = ()) -> None:
        """Put elements in, and take others out."""
        for element in added:
            self._sum(self._added, element)
        for element in removed:
            self._sum(self._removed, element)

    @property
    def state(self) -> bytes:
        """The lanes: 2,048 bytes."""
        self._settle()
        return (self._even | self._odd << 16).to_bytes(STATE_BYTES, "little")

    def _sum(self, sums: list[int], element: bytes) -> None:
        if len(element) != STATE_BYTES:
            raise ValueError(f"an element has {STATE_BYTES} bytes, not {len(element)}")
        if self._count == _MOST:
            self._settle()
        self._count += 1
        lanes = int.from_bytes(element, "little")
        sums[0] += lanes & _LOW
        sums[1] += lanes >> 16 & _LOW

    def _settle(self) -> None:
        """Take the sums over into the lanes."""
        for place in (0, 1):
            held = self._odd if place else self._even
            # One more than the field holds keeps a difference from borrowing of the next field.
            lanes = (held + (self._added[place] & _LOW) & _LOW) + _CARRY - (self._removed[place] & _LOW) & _LOW
            if place:
                self._odd = lanes
            else:
                self._even = lanes
        self._added[:] = self._removed[:] = 0, 0  # in place: an element may be on its way into them
        self._count = 0
