"""A page of hits, read in steps: entities may be large, so that a long page of them would fill the memory.

Whoever serves others asks so; one process that asks for itself may hold what it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from .results import Hit, Results

AT_ONCE: Final = 100
"""Hits that are read together; an entity is at most half a megabyte."""
MOST_BYTES: Final = 8 * 1024 * 1024


Searching = Callable[..., Results]
"""What searches, as `Journal.search` does."""


def in_steps(
    search: Searching, query: str, *, limit: int, cursor: str | None = None, facets: bool = False, **asked: Any
) -> Iterator[Results]:
    """The parts of a page. Args and errors: as of `searching.Search.search`."""
    left, parts = limit, 0
    while True:
        part = search(query, limit=min(left, AT_ONCE), cursor=cursor, facets=facets and not parts, **asked)
        yield part
        left -= len(part.hits)
        cursor, parts = part.cursor, parts + 1
        if cursor is None or left <= 0:
            return


def bounded(
    search: Searching, query: str, *, limit: int, cursor: str | None = None, facets: bool = False, **asked: Any
) -> Results:
    """A page that ends early where its entities are large: behind the part with which they hold `MOST_BYTES`.

    Args and errors: as of `searching.Search.search`.
    """
    parts: list[Results] = []
    left_bytes = MOST_BYTES
    for part in in_steps(search, query, limit=limit, cursor=cursor, facets=facets, **asked):
        parts.append(part)
        left_bytes -= sum(map(_size, part.hits))
        if left_bytes < 0:
            break
    first, last = parts[0], parts[-1]
    hits = tuple(hit for part in parts for hit in part.hits)
    notes = dict.fromkeys(part.note for part in parts if part.note)
    return replace(first, hits=hits, cursor=last.cursor, note=" ".join(notes))


def _size(hit: Hit) -> int:
    """About how many characters its entity has."""
    return _characters(hit.document) + len(hit.urn)


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _characters(one) for key, one in value.items())
    return sum(map(_characters, value)) if isinstance(value, list) else 8
