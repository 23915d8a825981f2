"""What generated encoders and decoders share at run time: Avro's numbers, and lookup tables for the short ones.

Source: Avro specification 1.12, Binary Encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NoReturn

from ..errors import Undecodable

MIN_LONG: Final = -(1 << 63)
MAX_LONG: Final = (1 << 63) - 1
MIN_INT: Final = -(1 << 31)
MAX_INT: Final = (1 << 31) - 1
_MAX_UNSIGNED: Final = (1 << 64) - 1

pack_float: Final = struct.Struct("<f").pack
pack_double: Final = struct.Struct("<d").pack
unpack_float: Final = struct.Struct("<f").unpack_from
unpack_double: Final = struct.Struct("<d").unpack_from

BOOLEANS: Final = {False: b"\0", True: b"\1"}


_TWO_BYTES: Final = 1 << 14
_FOUR_BYTES: Final = 1 << 28
_SIX_BYTES: Final = 1 << 42
"""Below it lie times in milliseconds of the years 1900 to 2039."""


class _Low(dict[int, bytes]):
    """Two bytes of a varint behind which others come, by their 14 bits."""

    def __missing__(self, bits: int) -> bytes:
        encoded = self[bits] = bytes((bits & 0x7F | 0x80, bits >> 7 | 0x80))
        return encoded


class _Last(dict[int, bytes]):
    """The last one or two bytes of a varint, by their 14 bits."""

    def __missing__(self, bits: int) -> bytes:
        encoded = self[bits] = bytes((bits,)) if bits < 0x80 else bytes((bits & 0x7F | 0x80, bits >> 7))
        return encoded


_LOW: Final = _Low()
_LAST: Final = _Last()


def write_long(value: int) -> bytes:
    """A long as zigzag varint.

    Raises:
        OverflowError: the value does not fit 64 bits.
    """
    if not MIN_LONG <= value <= MAX_LONG:
        raise OverflowError(f"{value} is not a 64-bit number")
    rest = (value << 1) ^ (value >> 63)
    if rest < _TWO_BYTES:
        return _LAST[rest]
    if rest < _FOUR_BYTES:
        return _LOW[rest & 0x3FFF] + _LAST[rest >> 14]
    if rest < _SIX_BYTES:
        return _LOW[rest & 0x3FFF] + _LOW[rest >> 14 & 0x3FFF] + _LAST[rest >> 28]
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def write_longs(values: Sequence[int]) -> Sequence[bytes]:
    """Many longs, at a third of the price where all are times of these years. Raises: as `write_long`."""
    return _six_bytes(values) or list(map(write_long, values))


def write_optional_longs(values: Sequence[int | None]) -> Sequence[bytes]:
    """The same where some may be null, the union's index included."""
    made = None if None in values else _six_bytes(values, b"\2")  # type: ignore[arg-type]  # then none is null
    return made or [b"\0" if value is None else b"\2" + write_long(value) for value in values]


def _six_bytes(values: Sequence[int], before: bytes = b"") -> tuple[bytes, ...] | None:
    """Numbers that take six bytes each, with a byte or none before; None where some take more or fewer.

    All of them are one integer here, 64 bits of it for each, and every step works on all at once.
    """
    if not (values and min(values) >= _SIX_BYTES >> 8 and max(values) < _SIX_BYTES >> 1):
        return None
    count = len(values)
    try:
        rest = int.from_bytes(struct.pack(f"<{count}Q", *values), "little") << 1
    except struct.error:
        return None
    ones = int.from_bytes(_ONE * count, "little")
    spread = ones * 0x80_8080_8080
    for byte in range(6):
        spread |= (rest & (ones * 0x7F << 7 * byte)) << byte
    if before:
        spread = spread << 8 | ones * before[0]
    size = 6 + len(before)
    return struct.unpack(f"{size}s{8 - size}x" * count, spread.to_bytes(8 * count, "little"))


_ONE: Final = (1).to_bytes(8, "little")


def write_int(value: int) -> bytes:
    """An int as zigzag varint.

    Raises:
        OverflowError: the value does not fit 32 bits.
    """
    if not MIN_INT <= value <= MAX_INT:
        raise OverflowError(f"{value} is not a 32-bit number")
    return write_long(value)


def write_text(value: str) -> bytes:
    """Length and UTF-8 of a text. Raises: UnicodeEncodeError: it holds a lone surrogate."""
    raw = value.encode()
    return LENGTHS[len(raw)] + raw


def write_bytes(value: bytes) -> bytes:
    """Length and bytes."""
    return LENGTHS[len(value)] + value


def wrong_size(value: bytes, size: int) -> NoReturn:
    """Refuse a fixed of another size."""
    raise ValueError(f"{len(value)} bytes where {size} are due")


class _Lengths(dict[int, bytes]):
    """Zigzag varints of lengths and counts; the short ones are there, longer ones are made when asked for."""

    def __missing__(self, length: int) -> bytes:
        return write_long(length)


LENGTHS: Final = _Lengths({length: write_long(length) for length in range(2048)})


class _Recurring(dict[str, bytes]):
    """Encoded texts that come back in event after event: tenants, types, actors, property keys.

    Bounded: it starts anew when full, and longer texts are never kept.
    """

    def __missing__(self, text: str) -> bytes:
        encoded = write_text(text)
        if len(encoded) <= _RECURRING_BYTES:
            if len(self) >= _RECURRING_TEXTS:
                self.clear()
            self[text] = encoded
        return encoded


class _OptionalRecurring(dict["str | None", bytes]):
    """The same for a text that may be null, the union's index included."""

    def __missing__(self, text: str | None) -> bytes:
        if text is None:
            return b"\0"
        encoded = b"\2" + RECURRING[text]
        if len(encoded) <= _RECURRING_BYTES:
            if len(self) >= _RECURRING_TEXTS:
                self.clear()
            self[text] = encoded
        return encoded


_RECURRING_BYTES: Final = 128
_RECURRING_TEXTS: Final = 4096
RECURRING: Final = _Recurring()
OPTIONAL_RECURRING: Final = _OptionalRecurring()

WRITERS: Final[dict[str, Any]] = {
    "long": write_long,
    "int": write_int,
    "string": write_text,
    "bytes": write_bytes,
    "float": pack_float,
    "double": pack_double,
}
"""Functions of primitive types, by the type's name."""

TABLES: Final[dict[str, Any]] = {"boolean": BOOLEANS, "string": RECURRING}
"""Tables from value to bytes, by the type's name; of strings only for recurring ones."""

ENCODER_NAMES: Final[dict[str, Any]] = {
    **{f"write_{kind}": writer for kind, writer in WRITERS.items()},
    **TABLES,
    "optional_string": OPTIONAL_RECURRING,
    "L": LENGTHS,
    "wrong_size": wrong_size,
    "chain": chain.from_iterable,
    "to_utf8": str.encode,
    "write_longs": write_longs,
    "write_optional_longs": write_optional_longs,
}
"""What the source of an encoder refers to."""


def read_long(data: bytes, place: int) -> tuple[int, int]:
    """A long and the place behind it.

    Raises:
        Undecodable: the varint has more than 64 bits.
        IndexError: the data end inside it.
    """
    byte = data[place]
    place += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > 63:
            raise Undecodable("a number has more than 64 bits")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value > _MAX_UNSIGNED:
        raise Undecodable("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), place


def read_span(data: bytes, place: int) -> tuple[int, int]:
    """Where a value that its length precedes begins, and where it ends; the caller checks the end.

    Raises:
        Undecodable: the length is negative.
        IndexError: the data end inside it.
    """
    length, start = read_long(data, place)
    if length < 0:
        raise Undecodable("a length is negative")
    return start, start + length


def refuse(why: str) -> NoReturn:
    """Raise what every fault of the bytes becomes."""
    raise Undecodable(why)
