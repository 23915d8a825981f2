"""What generated encoders and decoders share at run time: Avro's numbers, and lookup tables for the short ones.

Source: Avro specification 1.12, Binary Encoding.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

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
    if 0x400_0000_0000 > rest >= 0x8_0000_0000:  # six bytes: times in milliseconds
        return bytes(
            (
                rest & 0x7F | 0x80,
                rest >> 7 & 0x7F | 0x80,
                rest >> 14 & 0x7F | 0x80,
                rest >> 21 & 0x7F | 0x80,
                rest >> 28 & 0x7F | 0x80,
                rest >> 35,
            )
        )
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


def refuse(why: str) -> NoReturn:
    """Raise what every fault of the bytes becomes."""
    raise Undecodable(why)
