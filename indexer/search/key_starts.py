"""Which keys a search for `key*:value` has to ask for one by one.

A wildcard finds one word under all keys that begin so. It cannot say that several words stand under the same key one
after the other, nor does it find a key that stands as a digest before its words. Such keys are read first, from the
documents that may be hits, and asked for as they are.
Invariant: no key is left out silently; where there are too many, the search is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..documents import Scope
from ..errors import InvalidQueryError
from .grammar import Property, Query
from .query import Dsl, Known, keys_begin, literal, most_words, scope_path, short_start

MAX_KEYS: Final = 2_000
"""Most keys of all terms together; each is a phrase of its own, of which Elasticsearch takes a few thousand."""
Ask = Callable[[dict[str, Any]], Mapping[str, Any]]


def known_keys(query: Query, scopes: Sequence[Scope], filters: Sequence[Dsl], ask: Ask) -> Known:
    """The keys as they stand before words, of each term and scope that needs them.

    Raises:
        InvalidQueryError: a beginning is too long, or there are too many keys.
    """
    known: dict[tuple[Property, Scope], tuple[str, ...]] = {}
    for term in query.terms:
        if isinstance(term, Property) and term.key.prefix and most_words(term.value):
            for scope in scopes:
                known[term, scope] = tuple(_keys(term, scope, filters, ask))
                if sum(map(len, known.values())) > MAX_KEYS:
                    raise _too_many(term)
    return known


def _keys(term: Property, scope: Scope, filters: Sequence[Dsl], ask: Ask) -> list[str]:
    start, path = short_start(term.key), scope_path(scope)
    fields = [f"{path}hashed_keys", *([f"{path}keys"] if most_words(term.value) > 1 else [])]
    pattern = f"{literal(start)}.*"
    answer = ask({
        "size": 0,
        "query": {"bool": {"filter": [*filters, keys_begin(path, start, term.value)]}},
        "aggs": {
            field: {"terms": {"field": field, "size": MAX_KEYS + 1, "include": pattern}}
            for field in fields
        },
        "track_total_hits": False,
    })  # fmt: skip
    return [bucket["key"].rpartition("=")[2] for field in fields for bucket in answer["aggregations"][field]["buckets"]]


def _too_many(term: Property) -> InvalidQueryError:
    return InvalidQueryError(
        f"More than {MAX_KEYS:,} keys begin with {term.key.text!r} under which {term.value} may occur.",
        hint="Give more of the key, or omit it: words alone are searched for everywhere.",
    )
