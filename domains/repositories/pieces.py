"""Many entries in pieces that an event takes, by their number and by their bytes.

Nearly all entries are small, so the bytes of a thousand are first estimated together; one by one only where they might
not fit. An entry that is none is left to the event to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from ...schemas.errors import InputError
from ...schemas.limits import MAX_ENTRIES, MAX_EVENT_BYTES
from .events import Entry, as_entry

ROOM_BYTES: Final = MAX_EVENT_BYTES - 64 * 1024
"""What the entries of one event may take; its header and names take the rest."""
_ENTRY_BYTES: Final = 64
"""More than all numbers and lengths of an entry."""
_PART_BYTES: Final = 32
"""More than the numbers and lengths of a block, or of a key and its value."""


def pieces(entries: Entry | Mapping[str, Any] | Iterable[Entry | Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Entries, as `events.as_entry` has them, in pieces that an event takes; also of a single one.

    Raises:
        InputError: they are no entries at all.
    """
    if isinstance(entries, Entry | Mapping):
        entries = [entries]
    if not isinstance(entries, Iterable) or isinstance(entries, str | bytes):
        raise InputError(
            f"{entries!r:.60} is no entries.", code="no-entries",
            hint='Give mappings such as {"path": "a.csv", "size": 3, "checksum": "…", "address": "s3://b/1"}.',
        )  # fmt: skip
    rest = iter(entries)
    while some := list(map(as_entry, islice(rest, MAX_ENTRIES))):
        if bytes_of(some) <= ROOM_BYTES:
            yield some
        else:
            yield from _by_size(some)


def _by_size(some: Sequence[Any]) -> Iterator[list[Any]]:
    piece: list[Any] = []
    taken = 0
    for entry in some:
        size = bytes_of([entry])
        if piece and taken + size > ROOM_BYTES:
            yield piece
            piece, taken = [], 0
        piece.append(entry)
        taken += size
    yield piece


def bytes_of(some: Sequence[Any]) -> int:
    """At least as many bytes as some entries take in an event; 0 where one of them is none."""
    if set(map(type, some)) != {Entry}:
        return 0
    paths, _, checksums, addresses, blocks, content_types, metadata, _ = zip(*some, strict=True)
    texts = [paths, checksums, filter(None, addresses), filter(None, content_types)]
    parts = 0
    try:
        if any(blocks):
            given = list(chain.from_iterable(blocks))
            texts += [[block.address for block in given], [block.checksum for block in given]]
            parts += len(given)
        if any(metadata):
            texts += [chain.from_iterable(metadata), chain.from_iterable([said.values() for said in metadata])]
            parts += sum(map(len, metadata))
        return len("".join(chain.from_iterable(texts)).encode()) + _ENTRY_BYTES * len(some) + _PART_BYTES * parts
    except (AttributeError, TypeError, UnicodeEncodeError):
        return 0
