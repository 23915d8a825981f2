"""What generated encoders and decoders share at run time: Avro's numbers, and lookup tables for the short ones.

Source: Avro specification 1.12, Binary Encoding.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NoReturn

from .errors import Undecodable

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


_SIX_BYTES: Final = 1 << 35
_SEVEN_BYTES: Final = 1 << 42
"""Times in milliseconds of the years 1970 to 2039 lie between: worth a way of their own."""


class _Low(dict[int, bytes]):
    """The first two bytes of a longer varint, by their 14 bits."""

    def __missing__(self, bits: int) -> bytes:
        encoded = self[bits] = bytes((bits & 0x7F | 0x80, bits >> 7 | 0x80))
        return encoded


class _High(dict[int, bytes]):
    """The last four bytes of a six-byte varint, by their 28 bits: the same for eight seconds. Bounded."""

    def __missing__(self, bits: int) -> bytes:
        if len(self) >= 1024:
            self.clear()
        encoded = bytes((bits & 0x7F | 0x80, bits >> 7 & 0x7F | 0x80, bits >> 14 & 0x7F | 0x80, bits >> 21))
        self[bits] = encoded
        return encoded


_LOW: Final = _Low()
_HIGH: Final = _High()


def write_long(value: int) -> bytes:
    """A long as zigzag varint.

    Raises:
        OverflowError: the value does not fit 64 bits.
    """
    if not MIN_LONG <= value <= MAX_LONG:
        raise OverflowError(f"{value} is no 64-bit number")
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return rest.to_bytes(1, "little")
    if _SIX_BYTES <= rest < _SEVEN_BYTES:
        return _LOW[rest & 0x3FFF] + _HIGH[rest >> 14]
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def write_int(value: int) -> bytes:
    """An int as zigzag varint.

    Raises:
        OverflowError: the value does not fit 32 bits.
    """
    if not MIN_INT <= value <= MAX_INT:
        raise OverflowError(f"{value} is no 32-bit number")
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
}
"""What the source of an encoder refers to."""


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A long and the place behind it.

    Raises:
        Undecodable: the varint has more than 64 bits.
        IndexError: the data end inside it.
    """
    byte = data[at]
    at += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > 63:
            raise Undecodable("a number has more than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value > _MAX_UNSIGNED:
        raise Undecodable("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), at


def read_span(data: bytes, at: int) -> tuple[int, int]:
    """Where a value that its length precedes begins, and where it ends; the caller checks the end.

    Raises:
        Undecodable: the length is negative.
        IndexError: the data end inside it.
    """
    length, start = read_long(data, at)
    if length < 0:
        raise Undecodable("a length is negative")
    return start, start + length


def refuse(why: str) -> NoReturn:
    """Raise what every fault of the bytes becomes."""
    raise Undecodable(why)
