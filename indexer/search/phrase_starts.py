"""Which terms with a star behind several words match nothing, if a query has many of them.

A star behind several words (`goes-1*`) stands for each word that begins so, which the server looks up in each field
before it looks for the words before the star. Of a few such terms that is cheap. Of more, those whose words before the
star stand nowhere are found out first, by one request that looks up no beginnings of words; they are not asked for.
Invariant: a term that is left out matches nothing in the view that is asked.
"""

from __future__ import annotations

from typing import Final

from .grammar import Term, Value
from .options import SearchOptions
from .query import Ask, any_of, as_whole, sequence, text_readings, whole_fields, word_fields
from .unmatched import unmatched

_FEW: Final = 4


def unknown_starts(options: SearchOptions, ask: Ask) -> tuple[Term, ...]:
    """The terms that match nothing, among those with a star behind several words; none if these are few."""
    wanted = [term for term in options.query.atoms if isinstance(term, Value) and _is_phrase_start(term)]
    if len(wanted) <= _FEW:
        return ()
    words = word_fields(options.scopes)
    queries = [
        (term, any_of([
            *(as_whole(field, term.value.text, prefix=True) for field in whole_fields(options.scopes, term.value)),
            *(sequence(field, before or asked, prefix=not before) for field in words for asked, before in _parts(term)),
        ]))
        for term in wanted
    ]  # fmt: skip
    return unmatched(queries, options, ask)


def _is_phrase_start(term: Value) -> bool:
    return any(prefix and len(words) > 1 for words, prefix in text_readings(term.value))


def _parts(term: Value) -> list[tuple[list[str], list[str]]]:
    """Of each reading its words, and those before the star."""
    return [(words, words[:-1] if prefix else words) for words, prefix in text_readings(term.value) if words]
