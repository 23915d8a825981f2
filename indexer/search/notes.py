"""What the caller of a search should know about the query: what was left out of it, and how it was read where nothing
was found. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from .. import terms
from .grammar import Property, Query

_SEPARATORS_ONLY: Final = "The query contains no letter or digit, so it finds nothing; an empty query finds everything."
_MEANT: Final = {"tag": "tags", "property": "properties", "key": "properties", "field": "schema"}
"""What people type for a form of the grammar."""
_ENTITY: Final = re.compile(r"[a-z][a-z0-9-]*:[^\s/:=]+(/[^\s/:=]+)+")


def note_of(query: Query, total: int, meant: Mapping[str, str]) -> str:
    """One sentence or several; empty most of the time.

    Args:
        meant: for words that nothing has the nearest known one.
    """
    return " ".join(_notes(query, total, meant))


def _notes(query: Query, total: int, meant: Mapping[str, str]) -> Iterator[str]:
    if query.nothing:
        yield _SEPARATORS_ONLY
        return
    if query.left_out:
        yield f"Ignored, since it contains no letter or digit: {' '.join(query.left_out)}."
    yield from (f"Nothing has `{word}`; did you mean `{other}`?" for word, other in meant.items())
    if total == 0:
        yield from (_read_as(term) for term in query.terms if isinstance(term, Property) and not term.key.prefix)


def _read_as(term: Property) -> str:
    text = f"{term.key}:{term.value}"
    read = f"`{text}` asks for a property {term.key.text!r}"
    meant = _MEANT.get(terms.fold(term.key.text.strip()))
    if meant is not None:
        return f"{read}; did you mean `{meant}:{term.value}`?"
    if _ENTITY.fullmatch(text):
        return f"{read}; `metajournal show {text}` shows the entity of that name; searching for its words finds it."
    return f"{read}; in double quotes it is searched for as text."
