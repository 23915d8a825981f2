"""Typing errors: which terms of a search find nothing by themselves, and which known word is the nearest.

A first page nearly always tells: a term that explains one of its hits finds something. Only the others are asked for,
all in one request; so most searches cost nothing for this. What a tenant's own entities have, within the search's
filters and scopes, is all that counts.
Invariant: the pages of one search agree, since a cursor carries what the first page found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, Final

from .described import Described
from .edits import MOST_EDITS, distance, edits_of
from .explain import Near, Why, near
from .grammar import Clauses, Node, Term, Value
from .options import SearchOptions
from .query import Ask, any_of, matches, near_fields
from .ranking import near_words, plain_word
from .unmatched import unmatched

MOST_MISSPELT: Final = 3
"""Terms of a query whose typing errors are looked for: what finds words at two edits takes 20 ms for each of them."""
_LOOKED_AT: Final = 20
"""Entities among which the nearest word is looked for, in the first text of each that has one so near."""


def unknown_terms(options: SearchOptions, matched: Collection[Term], total: int, ask: Ask) -> tuple[Term, ...]:
    """The terms that match nothing: where anything else is found only those long enough to contain a typing error.

    Args:
        matched: terms that are known to match something.
        total: how many entities the search has found.
    """
    if total == 0 and _any_is_enough(options.query.root):
        return options.query.terms
    doubtful = [term for term in options.query.terms if term not in matched and edits_of(plain_word(term))]
    if not doubtful:
        return ()
    return unmatched([(term, matches(term, options.scopes, {})) for term in doubtful], options, ask)


def misspelt_terms(unknown: Iterable[Term]) -> tuple[Term, ...]:
    """The first of the terms that match nothing whose typing errors are looked for."""
    return tuple(term for term in unknown if edits_of(plain_word(term)))[:MOST_MISSPELT]


def near_words_of(misspelt: Iterable[Term]) -> dict[Term, Near]:
    """What the hits of a page may have instead of each term."""
    words = {term: plain_word(term) for term in misspelt}
    return {term: Near(word, edits_of(word), set()) for term, word in words.items()}


def nearest(options: SearchOptions, ask: Ask) -> dict[str, str]:
    """For the first words the nearest known one, at most two edits away, where nothing has any of the words.

    The search itself found nothing: what it has looked for as far away, where any word was enough, is not asked again.
    """
    words = [plain_word(term) for term in options.query.terms[:MOST_MISSPELT]]
    if not all(map(plain_word, options.query.terms)):
        return {}
    any_is_enough = _any_is_enough(options.query.root)
    if any_is_enough:
        asked = {plain_word(term) for term in options.misspelt}
        words = [word for word in words if word not in asked or _edits(word) > edits_of(word)]
    if not words:
        return {}
    fields = near_fields(options.scopes)
    within = [
        any_of(near_words(field, word, min(most, _edits(word))) for word in words for field in fields)
        for most in range(1, MOST_EDITS + 1)
    ]
    request: dict[str, Any] = {
        "size": _LOOKED_AT,
        "query": {"bool": {
            "filter": options.filters,
            "should": [{"constant_score": {"filter": close}} for close in within],  # fewer edits first
            "minimum_should_match": 1,
        }},
        "sort": [{"_score": "desc"}, "urn"],
        "source": True,
        "track_total_hits": False,
    }  # fmt: skip
    if not any_is_enough:  # otherwise all of them are unknown, since nothing was found
        known = any_of(matches(term, options.scopes, {}) for term in options.query.terms)
        request["aggs"] = {"known": {"filter": known}}
    answer = ask(request)
    if not any_is_enough and answer["aggregations"]["known"]["doc_count"]:
        return {}
    described = [Described(hit["_source"]["entity"], options.scopes) for hit in answer["hits"]["hits"]]
    closest = [next(near(each, word, _edits(word)), None) for each in described for word in words]
    return meant(words, filter(None, closest))


def _any_is_enough(root: Node) -> bool:
    nodes = root.should if isinstance(root, Clauses) and not root.must and not root.must_not else (root,)
    return all(isinstance(node, Value) for node in nodes)


def meant(words: Iterable[str], reasons: Iterable[Why]) -> dict[str, str]:
    """For each word the one that stands instead of it in the reasons: the nearest, then the commonest."""
    seen: dict[str, Counter[str]] = {word: Counter() for word in words}
    for why in reasons:
        if why.instead_of in seen:
            seen[why.instead_of].update(why.text[start:end].casefold() for start, end in why.matched)
    return {word: min(found, key=lambda other: _order(word, other, found)) for word, found in seen.items() if found}


def _order(word: str, other: str, found: Counter[str]) -> tuple[int, int, str]:
    apart = distance(word, other, len(word))
    return len(word) if apart is None else apart, -found[other], other


def _edits(word: str) -> int:
    return 0 if len(word) < 3 else 1 if len(word) < 5 else MOST_EDITS
