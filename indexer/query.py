"""Terms to Elasticsearch queries.

Job: for each form of the grammar the exact query over the fields that `documents` fills, and the five tiers of the
order. User text only ever becomes a *value* of a term, prefix, phrase or wildcard query; what goes into a wildcard
pattern is encoded first (`terms.encode`), so the only star in it is the one written here.
Left to others: the grammar (grammar), paging, facets and errors (search).
Invariant: scores are the tiers' constants and nothing else, so equal hits have equal scores on every shard and run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import Any, Final

from . import terms
from .documents import Scope
from .grammar import Everything, Field, HasKey, HasTags, Nothing, Property, Query, Tag, Term, Text, Value
from .keys import folded_key, hashed_key_token, key_token

Dsl = dict[str, Any]

_EXPANSIONS: Final = 50_000
"""Most words that a prefix at the end of a phrase stands for."""
_SPAN_EXPANSIONS: Final = 1_000
"""The same where the key, too, is a prefix."""
_NONE: Final[Dsl] = {"match_none": {}}
_ALL: Final[Dsl] = {"match_all": {}}


class Tier(IntEnum):
    """Why a hit stands where it stands; higher is better."""

    SOME_TERMS = 1
    EVERY_TERM = 2
    NAME_WORD = 3
    NAME_PREFIX = 4
    EXACT_NAME = 5


def scored(query: Query, scopes: Collection[Scope], filters: Sequence[Dsl]) -> Dsl:
    """The query whose hits match any term and all filters, scored by tier.

    Each hit has the lowest tier's score, and what the best of its other tiers is above that; so only what is scored is
    compared with names at all.
    """
    each = [matches(term, scopes) for term in query.terms]
    if query.terms == (Everything(),) or query.nothing:
        return {"bool": {"filter": [*each, *filters]}}
    least = Tier.EVERY_TERM if len(each) == 1 else Tier.SOME_TERMS
    better = [_score(tier - least, one) for tier, one in _tiers(query, each)]
    must = _score(least, {"bool": {"filter": [_any(each), *filters]}})
    return {"bool": {"must": [must], "should": [{"dis_max": {"queries": better}}] if better else []}}


def _tiers(query: Query, each: list[Dsl]) -> Iterable[tuple[Tier, Dsl]]:
    """The tiers above the lowest; a hit of the only term has every term."""
    asked = [term.value.text for term in query.terms if isinstance(term, Value)]
    if len(each) > 1:
        yield Tier.EVERY_TERM, {"bool": {"filter": each}}
    if asked:
        yield Tier.NAME_WORD, _any(_in_words("name_words", text, prefix=True) for text in asked)
        yield Tier.NAME_PREFIX, _any(_as_whole("name", text, prefix=True) for text in asked)
        yield Tier.EXACT_NAME, _any(_as_whole("name", text, prefix=False) for text in asked)


def _score(score: int, query: Dsl) -> Dsl:
    return {"constant_score": {"filter": query, "boost": float(score)}}


def matches(term: Term, scopes: Collection[Scope]) -> Dsl:
    """The query of one term within the metadata of the given scopes; names may always match."""
    match term:
        case Everything():
            return _ALL
        case Nothing():
            return _NONE
        case Value(value):
            own = _texts("identity", "identity_words", value)
            return _any(own + [one for at in _paths(scopes) for one in _texts(f"{at}whole", f"{at}words", value)])
        case Property(key, value):
            return _any(one for at in _paths(scopes) for one in _keyed(f"{at}pairs", f"{at}pair_words", key, value))
        case HasKey(key):
            return _any(_has_key(f"{at}keys", key) for at in _paths(scopes))
        case Tag(value):
            return _any(one for at in _paths(scopes) for one in _texts(f"{at}tags", f"{at}tag_words", value))
        case HasTags():
            return _any({"exists": {"field": f"{at}tags"}} for at in _paths(scopes))
        case Field():
            return _field(term) if "SYSTEM" in scopes else _NONE


def _paths(scopes: Collection[Scope]) -> list[str]:
    return [f"{scope.lower()}." for scope in ("USER", "SYSTEM") if scope in scopes]


def _any(queries: Iterable[Dsl]) -> Dsl:
    kept = [query for query in queries if query is not _NONE]
    if not kept:
        return _NONE
    return kept[0] if len(kept) == 1 else {"bool": {"should": kept, "minimum_should_match": 1}}


# --- one text against the wholes and the words of a field


def _texts(whole_field: str, words_field: str, text: Text) -> list[Dsl]:
    return [_as_whole(whole_field, text.text, text.prefix), _in_words(words_field, text.text, text.prefix)]


def _as_whole(field: str, text: str, prefix: bool) -> Dsl:
    term = terms.whole_prefix(text) if prefix else terms.whole(text)
    if term is None:
        return _NONE
    return {"prefix": {field: {"value": term}}} if prefix else {"term": {field: {"value": term}}}


def _in_words(field: str, text: str, prefix: bool) -> Dsl:
    words, open_end = terms.words_begun(text)
    return _sequence(field, words, prefix and open_end)


def _sequence(field: str, words: list[str], prefix: bool) -> Dsl:
    """The words one after the other, the last one as a prefix where asked."""
    if not words:
        return _NONE
    if len(words) == 1:
        return {"prefix" if prefix else "term": {field: {"value": words[0]}}}
    phrase: Dsl = {"query": " ".join(words), "analyzer": "whitespace"}
    if prefix:
        return {"match_phrase_prefix": {field: {**phrase, "max_expansions": _EXPANSIONS}}}
    return {"match_phrase": {field: phrase}}


# --- a text under a key


def _keyed(pairs: str, pair_words: str, key: Text, value: Text) -> list[Dsl]:
    if key.prefix:
        return [_pair_under_prefix(pairs, key, value), _words_under_prefix(pair_words, key, value)]
    whole = terms.whole_prefix(value.text) if value.prefix else terms.whole(value.text)
    folded = folded_key(key.text)
    words, open_end = terms.words_begun(value.text)
    queries = [_NONE if whole is None else _composed(pairs, terms.pair(folded, whole), value.prefix)]
    for token in dict.fromkeys((key_token(folded), hashed_key_token(folded))):
        queries.append(_sequence(pair_words, [f"{token}={word}" for word in words], value.prefix and open_end))
    return queries


def _composed(field: str, term: str, prefix: bool) -> Dsl:
    return {"prefix" if prefix else "term": {field: {"value": term}}}


def _pair_under_prefix(field: str, key: Text, value: Text) -> Dsl:
    whole = terms.whole_prefix(value.text) if value.prefix else terms.whole(value.text)
    return _NONE if whole is None else _wildcard(field, _key_start(key), whole, value.prefix)


def _words_under_prefix(field: str, key: Text, value: Text) -> Dsl:
    """The words under one key that begins so; words of a document with hashed keys are found by exact keys only."""
    words, open_end = terms.words_begun(value.text)
    if not words:
        return _NONE
    start, last, prefix = _key_start(key), len(words) - 1, value.prefix and open_end
    if last == 0:
        return _wildcard(field, start, words[0], prefix)
    clauses = []
    for at, word in enumerate(words):
        wildcard = _wildcard(field, start, word, prefix and at == last)
        wildcard["wildcard"][field]["rewrite"] = f"top_terms_{_SPAN_EXPANSIONS}"
        clauses.append({"span_multi": {"match": wildcard}})
    return {"span_near": {"clauses": clauses, "slop": 0, "in_order": True}}


def _key_start(key: Text) -> str:
    return terms.encode(terms.fold(key.text.lstrip()))


def _wildcard(field: str, start: str, value: str, prefix: bool) -> Dsl:
    return {"wildcard": {field: {"value": f"{start}*={terms.encode(value)}{'*' * prefix}"}}}


def _has_key(field: str, key: Text) -> Dsl:
    if key.prefix and not key.text:
        return {"exists": {"field": field}}
    return _composed(field, _key_start(key) if key.prefix else terms.encode(folded_key(key.text)), key.prefix)


def _field(term: Field) -> Dsl:
    if term.type is None:
        return _any(_texts("system.fields", "system.field_words", term.name))
    return _any(_keyed("system.typed", "system.typed_words", term.type, term.name))
