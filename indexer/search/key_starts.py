"""Which keys a search for `key*:value` has to ask for one by one.

A wildcard finds one word under all keys that begin so. It cannot say that several words stand under the same key one
after the other, nor does it find a key that stands as a digest before its words. Such keys are read first, from the
documents that may be hits, and asked for as they are.
Invariant: no key is left out silently; where there are too many, the search is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..documents import Scope
from ..errors import InvalidQueryError
from .atoms import most_words
from .grammar import Property, Term
from .options import SearchOptions
from .query import Ask, Dsl, Known, any_of, begins, keys_begin, literal, scope_path, short_start
from .unmatched import unmatched

MAX_KEYS: Final = 2_000
"""Most keys of all terms together; each is a phrase of its own, of which Elasticsearch takes a few thousand."""
_FEW: Final = 4
"""Terms that are asked for as they are; of more, those without any key that begins so are found out first."""
_TOGETHER: Final = 16
"""Terms and scopes that are asked for by one request: of 2 x 2,001 buckets each, where 65,536 are allowed."""


def unknown_keys(options: SearchOptions, ask: Ask) -> tuple[Term, ...]:
    """The terms that match nothing, since no key begins as theirs; none if there are few terms of this form.

    Raises:
        InvalidQueryError: a beginning is too long.
    """
    wanted = _under_key_starts(options)
    if len(wanted) <= _FEW:
        return ()
    queries = [
        (term, any_of(begins(f"{scope_path(scope)}keys", short_start(term.key)) for scope in options.scopes))
        for term in wanted
    ]
    return unmatched(queries, options, ask)


def _under_key_starts(options: SearchOptions) -> list[Property]:
    return [term for term in options.query.atoms if isinstance(term, Property) and term.key.prefix]


def known_keys(options: SearchOptions, ask: Ask) -> Known:
    """The keys as they stand before words, of each term and scope that needs them and is not known to match nothing.

    Raises:
        InvalidQueryError: a beginning is too long, or there are too many keys.
    """
    wanted = [
        (term, scope)
        for term in _under_key_starts(options)
        if most_words(term.value) and term not in options.unknown
        for scope in options.scopes
    ]
    known: dict[tuple[Property, Scope], tuple[str, ...]] = {}
    one_term = len(wanted) <= len(options.scopes)
    together = 1 if one_term else _TOGETHER  # of one term, what finds its keys is then built once
    for begin in range(0, len(wanted), together):
        known |= _keys(wanted[begin : begin + together], options.filters, ask)
        if sum(map(len, known.values())) > MAX_KEYS:
            raise _too_many(max(known, key=lambda term_and_scope: len(known[term_and_scope]))[0])
    return known


def _keys(
    wanted: Sequence[tuple[Property, Scope]], filters: Sequence[Dsl], ask: Ask
) -> dict[tuple[Property, Scope], tuple[str, ...]]:
    """The keys of some terms and scopes, by one request."""
    may_be = [keys_begin(scope, short_start(term.key), term.value) for term, scope in wanted]
    answer = ask({
        "size": 0,
        "query": {"bool": {"filter": [*filters, any_of(may_be)]}},
        "aggs": {
            str(number): {"filter": hits if len(wanted) > 1 else {"match_all": {}}, "aggs": _listed(*term_and_scope)}
            for number, (term_and_scope, hits) in enumerate(zip(wanted, may_be, strict=True))
        },
        "track_total_hits": False,
    })  # fmt: skip
    return {
        (term, scope): tuple(
            bucket["key"].rpartition("=")[2]
            for field in _listed(term, scope)
            for bucket in answer["aggregations"][str(number)][field]["buckets"]
        )
        for number, (term, scope) in enumerate(wanted)
    }


def _listed(term: Property, scope: Scope) -> dict[str, Dsl]:
    """Aggregations that list the keys."""
    start, path = short_start(term.key), scope_path(scope)
    fields = [f"{path}hashed_keys", *([f"{path}keys"] if most_words(term.value) > 1 else [])]
    pattern = f"{literal(start)}.*"
    return {field: {"terms": {"field": field, "size": MAX_KEYS + 1, "include": pattern}} for field in fields}


def _too_many(term: Property) -> InvalidQueryError:
    return InvalidQueryError(
        f"More than {MAX_KEYS:,} keys begin with {term.key.text!r} under which {term.value} may occur.",
        hint="Give more of the key, or omit it: words alone are searched for everywhere.",
    )
