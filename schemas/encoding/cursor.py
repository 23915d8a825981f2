"""Many values read side by side: where the reading of each stands, and Avro's numbers and lengths for all at once.

A cursor is a vector of places, one for each value; to read a field moves them all. Every length is held against the
bytes that remain before anything is made of it; where something is not right, that value's flag falls and its place
stays within its bytes, so that the others go on. What the fields are is left to `columns`.

Source: Avro specification 1.12, Binary Encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from .codec import MARKER, PREFIX_BYTES

Numbers: TypeAlias = npt.NDArray[Any]

LONGEST_BYTES: Final = 4 * 1024
"""Longest value that is read side by side."""
PADDING: Final = bytes(16)
"""Bytes to spare behind the last value."""


class Source:
    """Values one behind the other, and texts that came up in them before.

    Args:
        data: the bytes of all values, with PADDING behind them.
        starts, ends: where each value begins and ends in them; what is empty or too long is not read.
    """

    def __init__(self, data: bytes, starts: Numbers, ends: Numbers, known: Known) -> None:
        self.data = data
        self.known = known
        self.bytes = np.frombuffer(data, np.uint8)
        self._starts = starts
        self._ends = np.where(ends - starts <= LONGEST_BYTES, ends, starts)

    @staticmethod
    def of(values: Sequence[bytes], known: Known) -> Source:
        """The source of some values."""
        data = b"".join([value if len(value) <= LONGEST_BYTES else b"" for value in values]) + PADDING
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        lengths[lengths > LONGEST_BYTES] = 0
        ends = np.cumsum(lengths)
        return Source(data, ends - lengths, ends, known)

    @cached_property
    def text(self) -> str:
        """The bytes as Latin-1: a slice of ASCII bytes out of it is the text itself."""
        return self.data.decode("latin-1")

    def rows_by_fingerprint(self) -> Iterator[tuple[int, Numbers]]:
        """Each fingerprint with the rows of the single objects that name it."""
        rows = np.flatnonzero(self._ends - self._starts >= PREFIX_BYTES)
        starts = self._starts[rows]
        rows = rows[(self.bytes[starts] == MARKER[0]) & (self.bytes[starts + 1] == MARKER[1])]
        named = self._starts[rows, None] + np.arange(len(MARKER), PREFIX_BYTES)
        fingerprints = self.bytes[named].view("<u8").ravel()
        for fingerprint in np.unique(fingerprints):
            yield int(fingerprint), rows[fingerprints == fingerprint]

    def cursor(self, rows: Numbers) -> Cursor:
        """Behind the prefix of each of these rows."""
        ends = self._ends[rows]
        return Cursor(self.bytes, self._starts[rows] + PREFIX_BYTES, ends, np.ones(len(rows), np.bool_))

    def texts(self, starts: Numbers, stops: Numbers) -> list[str]:
        """The texts of these spans. Raises: UnicodeDecodeError."""
        text = self.text
        texts = [text[start:stop] for start, stop in zip(starts.tolist(), stops.tolist())]  # noqa: B905
        return texts if "".join(texts).isascii() else list(map(_as_utf8, texts))

    def recurring_texts(self, starts: Numbers, stops: Numbers) -> list[str]:
        """The same, one object for equal texts, so that each is hashed once."""
        text, known = self.text, self.known
        return [known[text[start:stop]] for start, stop in zip(starts.tolist(), stops.tolist())]  # noqa: B905


def _as_utf8(text: str) -> str:
    """The text whose UTF-8 was taken for Latin-1."""
    return text if text.isascii() else text.encode("latin-1").decode()


class Known(dict[str, str]):
    """Texts by what they look like when their UTF-8 is taken for Latin-1."""

    def __missing__(self, text: str) -> str:
        decoded = self[text] = _as_utf8(text)
        return decoded


class Cursor:
    """Where the reading of each of some values stands.

    Attributes:
        data: the bytes of all values, with some to spare behind them.
        at: index of the next byte of each; never beyond its end.
        end: index behind the last byte of each.
        right: False once something was not right; what is read of it then means nothing.
    """

    __slots__ = ("at", "data", "end", "right")

    def __init__(self, data: Numbers, at: Numbers, end: Numbers, right: Numbers) -> None:
        self.data, self.at, self.end, self.right = data, np.minimum(at, end), end, right & (at <= end)

    def only(self, rows: Numbers) -> Cursor:
        return Cursor(self.data, self.at[rows], self.end[rows], self.right[rows])

    def put_back(self, rows: Numbers, other: Cursor) -> None:
        self.at[rows], self.right[rows] = other.at, other.right

    def require(self, holds: Numbers) -> None:
        self.right &= holds

    def byte(self) -> Numbers:
        """The next byte of each."""
        values = self.data[self.at]
        self.skip(np.int64(1))
        return values

    def skip(self, count: Any) -> tuple[Numbers, Numbers]:
        """Go on by so many bytes, none of them negative; gives where they begin and end."""
        start = self.at
        fits = count <= self.end - start
        self.right &= fits
        self.at = np.where(fits, start + np.where(fits, count, 0), self.end)
        return start, self.at

    def long(self) -> Numbers:
        """A number of each, signed."""
        first = self.byte()
        longer = np.flatnonzero(first > 0x7F)
        if not len(longer):
            return _signed(first.astype(np.uint64))
        value = (first & 0x7F).astype(np.uint64)
        rest = self.only(longer)
        value[longer] |= rest.rest_of_long()
        self.put_back(longer, rest)
        return _signed(value)

    def rest_of_long(self) -> Numbers:
        """The bits of a number behind its first seven."""
        total = np.zeros(len(self.at), np.uint64)
        rows, cursor = np.arange(len(self.at)), self
        for shift in range(7, 70, 7):
            byte = cursor.byte()
            if shift == 63:
                cursor.require(byte <= 1)  # more than 64 bits, or yet another byte
            total[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            going_on = np.flatnonzero((byte > 0x7F) & cursor.right)
            if cursor is not self:
                self.put_back(rows, cursor)
            if not len(going_on):
                break
            rows = rows[going_on]
            cursor = self.only(rows)
        return total

    def span(self) -> tuple[Numbers, Numbers]:
        """Begin and end of what its length precedes."""
        length = self.long()
        self.require(length >= 0)
        return self.skip(np.where(length >= 0, length, 0))


def _signed(value: Numbers) -> Numbers:
    """Zigzag. Source: Avro specification 1.12, Binary Encoding."""
    half = (value >> np.uint64(1)).view(np.int64)
    return half ^ -(value & np.uint64(1)).view(np.int64)
