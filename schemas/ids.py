"""Event and unit ids: 16 bytes on the wire, 36 characters in tables and JSON."""

from __future__ import annotations


def id_text(value: bytes) -> str:
    """The text of a 16-byte id, as RFC 9562 writes it."""
    fours = value.hex("-", 2)
    return f"{fours[:4]}{fours[5:29]}{fours[30:34]}{fours[35:]}"


def id_bytes(text: str) -> bytes:
    """The 16 bytes of an id's text.

    Raises:
        ValueError: the text has no 32 hex digits.
    """
    value = bytes.fromhex(text.replace("-", ""))
    if len(value) != 16:
        raise ValueError(f"{text!r} is not an id of 16 bytes")
    return value
