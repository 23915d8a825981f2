"""Reading of bodies: bounded in bytes, unpacked bytes, time and depth, before anything looks at them.

`values.py`'s reader comes first, since the types' own keeps the last of two equal names without a word.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from ..schemas.errors import Fault, InputError, InvalidEventError
from ..values import json_value
from .fields import unknown_fields
from .problems import HttpError

T = TypeVar("T")
BODY_BYTES: Final = 1024 * 1024
EVENTS_BYTES: Final = 16 * 1024 * 1024
HELD_BYTES: Final = 128 * 1024 * 1024
"""Most that the bodies of all requests hold together."""
HELD_BYTES_OF_ONE: Final = 48 * 1024 * 1024
"""Most that the bodies of one who asks hold: three of the largest."""
_LARGE: Final = 64 * 1024
"""Characters that are read on the loop, a few milliseconds."""
_READERS: Final = ThreadPoolExecutor(2, "metajournal-bodies")
"""Reads larger bodies: two at once, since the values of one may take thirty times its memory."""
JSON: Final = "application/json"
LINES: Final = ("application/x-ndjson", "application/jsonl", "application/ndjson")
_ENTRY: Final = re.compile(r"\$(?:\.(\w+))?\[\.\.\.\]")
_UTF8: Final = ("utf-8", "utf8")
_PACKED: Final = 16 + zlib.MAX_WBITS
_MOST_MEMBERS: Final = 10_000
"""Most members of a gzip body: each takes time, however little it holds."""
_FORM: Final = "application/x-www-form-urlencoded"
"""What curl says of `-d` unless told otherwise; the source's samples say nothing else."""


class Room:
    """How much the bodies of all requests may hold together, and of each who asks: others find room beside them.

    Args:
        most_bytes: of all, as they came and as they were unpacked.
        of_one: of one who asks.
    """

    def __init__(self, most_bytes: int, of_one: int) -> None:
        self.left = most_bytes
        self._of_one = of_one
        self._held: dict[str, int] = {}

    def take(self, asker: str, size: int) -> bool:
        """Whether there is room for so many bytes more, which are held then."""
        held = self._held.get(asker, 0) + size
        if size > self.left or held > self._of_one:
            return False
        self.left -= size
        self._held[asker] = held
        return True

    def give_back(self, asker: str, size: int) -> None:
        """Have bytes back."""
        self.left += size
        self._held[asker] -= size
        if not self._held[asker]:
            del self._held[asker]


class Held:
    """What one request holds of the room for all.

    Args:
        room: of the process.
    Attributes:
        asker: who asks; set once that is known. All whom nobody knows yet, as at the login, are one.
    """

    __slots__ = ("_room", "_taken", "asker")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._taken = 0
        self.asker = ""

    def take(self, size: int) -> None:
        """Hold so many bytes more. Raises: HttpError: 503: there is no room for them now."""
        if not self._room.take(self.asker, size):
            raise HttpError(
                503, "The requests that are being answered hold as much as this process takes in at once.", code="busy",
                hint="Send it again in a moment, or less at once.",
            )  # fmt: skip
        self._taken += size

    def give_back(self) -> None:
        """Hold nothing any more."""
        if self._taken:
            self._room.give_back(self.asker, self._taken)
            self._taken = 0


class Body:
    """A body as text.

    Args:
        text: of UTF-8.
        is_lines: whether its type says that each line is a value.
    """

    __slots__ = ("is_lines", "text")

    def __init__(self, text: str, *, is_lines: bool) -> None:
        self.text = text
        self.is_lines = is_lines


async def read_body(
    headers: Mapping[str, str], chunks: AsyncIterator[bytes], *, held: Held, most_bytes: int, deadline_s: float,
    lines: bool, is_none: bool = False,
) -> Body | None:  # fmt: skip
    """The body of a request; None where it has none.

    Args:
        headers: by their names in small letters.
        held: what the request holds.
        most_bytes: of the body, and of what it unpacks to.
        deadline_s: seconds for all of it.
        lines: whether it may be JSON lines.
        is_none: whether there must be none, whatever its type says.
    Raises:
        HttpError: 408, 413 or 415; 422: there must be none, and there is; 503: others hold too much.
        InputError: it is not UTF-8, not packed as it says, or sent in a way that is not understood.
    """
    _check_transfer(headers.get("transfer-encoding", ""))
    is_lines = not is_none and _check_type(headers.get("content-type", ""), lines=lines)
    is_packed = not is_none and _is_packed(headers.get("content-encoding", ""))
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > most_bytes:
        raise _too_large(most_bytes)
    try:
        async with asyncio.timeout(deadline_s):
            data = await _unpacked(chunks, most_bytes, held, is_packed=is_packed)
    except TimeoutError:
        text = f"The body did not come within {deadline_s:g} s."
        raise HttpError(408, text, code="too-slow", headers={"Connection": "close"}) from None
    if not data:
        return None
    if is_none:
        raise _no_body_here()
    try:
        return Body(data.decode("utf-8"), is_lines=is_lines)
    except UnicodeDecodeError as error:
        raise InputError("The body is not UTF-8.", code="not-utf-8") from error


async def _unpacked(chunks: AsyncIterator[bytes], most_bytes: int, held: Held, *, is_packed: bool) -> bytes:
    """All of a body; gzip of several members is what they hold, one after the other (RFC 1952, 2.2)."""
    data, packed_bytes, members, unpack = bytearray(), 0, 1, zlib.decompressobj(_PACKED)
    async for chunk in chunks:
        packed_bytes += len(chunk)
        if packed_bytes > most_bytes:
            raise _too_large(most_bytes)
        if not is_packed:
            held.take(len(chunk))
            data += chunk
            continue
        left = chunk
        while left:
            if unpack.eof:
                members += 1
                if members > _MOST_MEMBERS:
                    raise InputError(f"The body has more than {_MOST_MEMBERS:,} gzip members.", code="not-gzip")
                unpack = zlib.decompressobj(_PACKED)
            piece = await _held_by(unpack, left, most_bytes + 1 - len(data))
            held.take(len(piece))
            data += piece
            if len(data) > most_bytes:
                raise _too_large(most_bytes)
            left = unpack.unused_data
    if is_packed and packed_bytes and not unpack.eof:
        raise InputError("The gzip body ends before its end.", code="not-gzip")
    return bytes(data)


async def _held_by(unpack: Any, packed: bytes, most_bytes: int) -> bytes:
    """What a piece of gzip holds, up to so many bytes; much is unpacked in a thread, so that others have their turns.

    Args:
        unpack: what unpacked the pieces before it.
    """
    try:
        first: bytes = unpack.decompress(packed, min(_LARGE, most_bytes))
        if len(first) < _LARGE:
            return first
        rest = partial(_rest, unpack, most_bytes - len(first))
        return first + await asyncio.get_running_loop().run_in_executor(_READERS, rest)
    except zlib.error as error:
        raise InputError("The body is not valid gzip.", code="not-gzip") from error


def _rest(unpack: Any, most_bytes: int) -> bytes:
    """What is still to come of a piece that was unpacked in part: also where all of it was read already."""
    data = bytearray()
    while not unpack.eof and len(data) < most_bytes:
        piece = unpack.decompress(unpack.unconsumed_tail, most_bytes - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def _check_type(content_type: str, *, lines: bool) -> bool:
    """Whether a type says JSON lines. Raises: HttpError: 415: it says something else than JSON."""
    name, _, rest = content_type.partition(";")
    kind = name.strip().lower()
    for parameter in rest.replace(" ", "").lower().split(";"):
        if parameter.startswith("charset=") and parameter.removeprefix("charset=").strip('"') not in _UTF8:
            raise _unsupported(content_type)
    if kind in LINES and lines:
        return True
    if kind in ("", JSON, _FORM) or (kind.startswith("application/") and kind.endswith("+json")):
        return False
    raise _unsupported(content_type)


def _check_transfer(codings: str) -> None:
    """Refuse what would have to be decoded before it is a body (RFC 9112, 6.1). Raises: InputError."""
    if codings.strip().lower() not in ("", "chunked"):
        raise InputError(
            f"The transfer coding {codings!r:.40} is not supported.", code="unsupported-transfer-coding",
            hint="Send the body with its length, or in chunks; gzip is a Content-Encoding.",
        )  # fmt: skip


def _is_packed(encoding: str) -> bool:
    """Whether a body is gzip. Raises: HttpError: 415: it is encoded otherwise."""
    kind = encoding.strip().lower()
    if kind in ("", "identity", "gzip"):
        return kind == "gzip"
    raise HttpError(
        415, f"The content encoding {encoding!r:.40} is not supported.", code="unsupported-encoding",
        hint="Send gzip, or nothing.", headers={"Accept-Encoding": "gzip"},
    )  # fmt: skip


def _unsupported(content_type: str) -> HttpError:
    return HttpError(
        415, f"A body of type {content_type!r:.80} is not supported.", code="unsupported-type",
        hint="Send JSON in UTF-8: `Content-Type: application/json`.", headers={"Accept": JSON},
    )  # fmt: skip


def _no_body_here() -> HttpError:
    return HttpError(422, "This request takes no body.", code="no-body-here", hint="Omit the body.")


def _too_large(most_bytes: int) -> HttpError:
    text = f"The body is larger than {most_bytes:,} bytes."
    return HttpError(413, text, code="body-too-large", hint="Send less in one request.")


async def read_value(body: Body | None, kind: Any, *, optional: bool) -> Any:
    """`value_of`; a large body is read in a thread, so that others have their turns meanwhile."""
    read = partial(value_of, body, kind, optional=optional)
    return await aside(read, 0 if body is None else len(body.text))


async def aside(read: Callable[[], T], size: int) -> T:
    """What a function makes of a text, made in a thread where the text is large.

    Args:
        size: of the text, characters.
    """
    return await asyncio.get_running_loop().run_in_executor(_READERS, read) if size > _LARGE else read()


def value_of(body: Body | None, kind: Any, *, optional: bool) -> Any:
    """The value of a body as its endpoint's type has it; None where it is missing and may be.

    Args:
        kind: a type of Python; None: there must be no body.
    Raises:
        InputError: it is no JSON, or missing.
        InvalidEventError: a field of it has another type, or is not known.
    """
    if kind is None:
        if body is not None:
            raise _no_body_here()
        return None
    if body is None:
        if optional:
            return None
        raise InputError("The request has no body.", code="no-body", hint="Send JSON.")
    value = _json(body.text)
    try:
        converted = msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at ")
        raise InvalidEventError([Fault(_place(value, at.strip("`")) or "body", text)]) from error
    if unknown := unknown_fields(value, kind):
        raise InvalidEventError(unknown)
    return converted


def _place(value: Any, at: str) -> str:
    """Where a value is not of its type; a converter does not say in which entry of a mapping of texts."""
    found = _ENTRY.fullmatch(at)
    texts = value if found is None or found[1] is None else value.get(found[1])
    if found is None or not isinstance(texts, Mapping):
        return at
    wrong = next((key for key, one in texts.items() if not isinstance(one, str)), None)
    return at if wrong is None else f"{at.removesuffix('[...]')}[{wrong!r:.80}]"


def _json(text: str) -> Any:
    try:
        return json_value(text, longest=EVENTS_BYTES)
    except ValueError as error:
        raise InputError(f"The body is not JSON: {error}.", code="not-json", hint="Send one JSON value.") from error
