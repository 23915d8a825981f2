"""Many entries or paths in pieces that an event takes, by their number and by their bytes.

Nearly all are small, so the bytes of a thousand are first estimated together; one by one only where they might not fit.
What is no entry or path is left to the event to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from ...schemas.errors import Fault, InputError, InvalidUrnError
from ...schemas.limits import MAX_ENTRIES, MAX_EVENT_BYTES, MAX_KEY_BYTES
from .events import Entry, as_entry
from .questions import check_paths
from .urns import object_urn

ROOM_BYTES: Final = MAX_EVENT_BYTES - 64 * 1024
"""What the entries of one event may take; its header and names take the rest."""
_ENTRY_BYTES: Final = 64
"""More than all numbers and lengths of an entry."""
_PART_BYTES: Final = 32
"""More than the numbers and lengths of a block, or of a key and its value."""
_PATH_BYTES: Final = 16
"""More than the lengths of a path and of its URN, and what the latter begins with."""
_URN_BYTES: Final = 3
"""Most bytes that a URN has for a byte of a name."""
_MANY_BLOCKS: Final = MAX_EVENT_BYTES // (2 * MAX_KEY_BYTES)
"""Fewer blocks never exceed an event."""


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
    yield from _cut(map(as_entry, entries), bytes_of)


def pieces_of_paths(paths: Any, *, registered_in: str | None = None) -> Iterator[list[Any]]:
    """Paths in pieces that an event takes.

    Args:
        registered_in: name of the repository where they are registered, so that each stands as a URN, too.
    Raises:
        InputError: they are no paths at all.
    """
    size = _path_bytes if registered_in is None else partial(_registered_bytes, registered_in)
    yield from _cut(check_paths(paths), size)


def oversized(entries: Iterable[Any]) -> list[Fault]:
    """The faults of entries that no event takes, by their places."""
    given = ((number, entry) for number, entry in enumerate(entries) if _may_exceed(entry))
    return [fault for number, entry in given for fault in size_faults(f"entries[{number}]", entry)]


def size_faults(field: str, entry: Any) -> list[Fault]:
    """The fault of an entry that no event takes, though each of its fields is valid.

    Args:
        field: what it is called in the fault.
    """
    if not _may_exceed(entry):
        return []
    made = as_entry(entry)
    size = bytes_of([made])
    least = size - _ENTRY_BYTES - _PART_BYTES * (len(made.blocks) + len(made.metadata)) if size else 0
    if least <= MAX_EVENT_BYTES:
        return []
    return [Fault(field, f"takes {least:,} bytes or more, an event {MAX_EVENT_BYTES:,} at most: give fewer blocks")]


def _may_exceed(entry: Any) -> bool:
    """Whether an entry has so many blocks that it may exceed an event."""
    blocks = entry.get("blocks") if isinstance(entry, Mapping) else getattr(entry, "blocks", None)
    return isinstance(blocks, list | tuple) and len(blocks) >= _MANY_BLOCKS


def _cut(given: Iterable[Any], size_of: Callable[[Sequence[Any]], int]) -> Iterator[list[Any]]:
    rest = iter(given)
    while some := list(islice(rest, MAX_ENTRIES)):
        if size_of(some) <= ROOM_BYTES:
            yield some
        else:
            yield from _by_size(some, size_of)


def _by_size(some: Sequence[Any], size_of: Callable[[Sequence[Any]], int]) -> Iterator[list[Any]]:
    piece: list[Any] = []
    taken = 0
    for one in some:
        size = size_of([one])
        if piece and taken + size > ROOM_BYTES:
            yield piece
            piece, taken = [], 0
        piece.append(one)
        taken += size
    yield piece


def _path_bytes(some: Sequence[Any]) -> int:
    """At least as many bytes as some paths take in an event; 0 where one of them is none."""
    try:
        return len("".join(some).encode()) + _PATH_BYTES * len(some)
    except (TypeError, UnicodeEncodeError):
        return 0


def _registered_bytes(repository: str, some: Sequence[Any]) -> int:
    """The same with the URNs of the paths."""
    size = _path_bytes(some)
    most = size * (1 + _URN_BYTES) + len(repository) * len(some)
    if len(some) > 1 and most <= ROOM_BYTES:
        return most
    try:
        return size + sum(len(object_urn(repository, path)) for path in some) if size else 0
    except InvalidUrnError:
        return 0


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
