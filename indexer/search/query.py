"""Terms to Elasticsearch queries.

Job: for each form of the grammar the exact query over the fields that `documents` fills, and the five tiers of the
order. User text only ever becomes a *value* of a term, prefix, phrase or wildcard query; what goes into a wildcard
pattern is encoded first (`terms.encode`), so the only star in it is the one written here.
Left to others: the grammar (grammar), which keys begin so, where they are asked for one by one (key_starts), paging,
facets and errors (search).
Invariant: scores are the tiers' constants and nothing else, so equal hits have equal scores on every shard and run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from .. import terms
from ..documents import SCOPES, Scope
from ..errors import InvalidQueryError
from ..keys import folded_key, hashed_key_token, key_token
from .grammar import Everything, Field, HasKey, HasTags, Nothing, Property, Query, Tag, Term, Text, Value

Dsl = dict[str, Any]
Known = Mapping[tuple[Property, Scope], Sequence[str]]
"""Of terms whose key only begins so: the keys that are asked for one by one, as they stand before words."""

_EXPANSIONS: Final = 50_000
"""Most words that a prefix at the end of a phrase stands for."""
_SPAN_EXPANSIONS: Final = 1_000
"""The same where the key, too, is a prefix."""
_LONGEST_PREFIX_BYTES: Final = 900
_NEVER: Final = "\1\2\1"
_NONE: Final[Dsl] = {"match_none": {}}
_ALL: Final[Dsl] = {"match_all": {}}


class Tier(IntEnum):
    """Why a hit stands where it stands; higher is better."""

    SOME_TERMS = 1
    EVERY_TERM = 2
    NAME_WORD = 3
    NAME_PREFIX = 4
    EXACT_NAME = 5


def scored(query: Query, scopes: Collection[Scope], filters: Sequence[Dsl], known: Known) -> Dsl:
    """The query whose hits match any term and all filters, scored by tier.

    Each hit has the lowest tier's score, and what the best of its other tiers is above that; so only what is scored is
    compared with names at all.
    """
    each = [matches(term, scopes, known) for term in query.terms]
    if query.terms == (Everything(),) or query.nothing:
        return {"bool": {"filter": [*each, *filters]}}
    least = Tier.EVERY_TERM if len(each) == 1 else Tier.SOME_TERMS
    better = [_score(tier - least, dsl) for tier, dsl in _tiers(query, each)]
    must = _score(least, {"bool": {"filter": [_any(each), *filters]}})
    return {"bool": {"must": [must], "should": [{"dis_max": {"queries": better}}] if better else []}}


def _tiers(query: Query, each: list[Dsl]) -> Iterable[tuple[Tier, Dsl]]:
    """The tiers above the lowest; a hit of the only term has every term."""
    texts = [term.value.text for term in query.terms if isinstance(term, Value)]
    if len(each) > 1:
        yield Tier.EVERY_TERM, {"bool": {"filter": each}}
    if texts:
        yield Tier.NAME_WORD, _any(dsl for text in texts for dsl in _begun_in("name_words", text))
        yield Tier.NAME_PREFIX, _any(_as_whole("name", text, prefix=True) for text in texts)
        yield Tier.EXACT_NAME, _any(_as_whole("name", text, prefix=False) for text in texts)


def _score(score: int, query: Dsl) -> Dsl:
    return {"constant_score": {"filter": query, "boost": float(score)}}


def matches(term: Term, scopes: Collection[Scope], known: Known) -> Dsl:
    """The query of one term within the metadata of the given scopes; names may always match."""
    match term:
        case Everything():
            return _ALL
        case Nothing():
            return _NONE
        case Value(value):
            own = _texts("identity", "identity_words", value)
            return _any(own + [dsl for path in _paths(scopes) for dsl in _texts(f"{path}whole", f"{path}words", value)])
        case Property():
            return _any(dsl for scope in _each(scopes) for dsl in _property(scope, term, known.get((term, scope), ())))
        case HasKey(key):
            return _any(_has_key(f"{path}keys", key) for path in _paths(scopes))
        case Tag(value):
            return _any(dsl for path in _paths(scopes) for dsl in _texts(f"{path}tags", f"{path}tag_words", value))
        case HasTags():
            return _any({"exists": {"field": f"{path}tags"}} for path in _paths(scopes))
        case Field():
            return _field(term) if "SYSTEM" in scopes else _NONE


def _paths(scopes: Collection[Scope]) -> list[str]:
    return [scope_path(scope) for scope in _each(scopes)]


def _each(scopes: Collection[Scope]) -> list[Scope]:
    return [scope for scope in SCOPES if scope in scopes]


def scope_path(scope: Scope) -> str:
    """What the names of a scope's fields begin with."""
    return f"{scope.lower()}."


def _any(queries: Iterable[Dsl]) -> Dsl:
    kept: list[Dsl] = []
    for query in queries:
        if query is not _NONE and query not in kept[-2:]:  # the one word of a text often is the whole of it
            kept.append(query)
    if not kept:
        return _NONE
    return kept[0] if len(kept) == 1 else {"bool": {"should": kept, "minimum_should_match": 1}}


# --- one text against the wholes and the words of a field


def _texts(whole_field: str, words_field: str, text: Text) -> list[Dsl]:
    """A text as a whole and word by word; what is one plain word stands among the wholes alone."""
    queries = [_as_whole(whole_field, text.text, text.prefix)]
    for words, prefix in _readings(text):
        if len(words) == 1:
            queries.append(_composed(whole_field, words[0], prefix))
        queries.append(_sequence(words_field, words, prefix))
    return queries


def _readings(text: Text) -> list[tuple[list[str], bool]]:
    """The words of a text, and whether what is looked for may go on behind the last one; cut at humps and uncut."""
    return [(words, text.prefix and open_end) for words, open_end in terms.readings(text.text)]


def _as_whole(field: str, text: str, prefix: bool) -> Dsl:
    term = terms.whole_prefix(text) if prefix else terms.whole(text)
    if term is None:
        return _NONE
    return _composed(field, term, prefix)


def _begun_in(field: str, text: str) -> list[Dsl]:
    """The words of a text, the last of which may go on."""
    return [_sequence(field, words, prefix) for words, prefix in terms.readings(text)]


def _sequence(field: str, words: list[str], prefix: bool) -> Dsl:
    """The words one after the other, the last one as a prefix where asked."""
    if not words:
        return _NONE
    if len(words) == 1:
        return _composed(field, words[0], prefix)
    phrase: Dsl = {"query": " ".join(words), "analyzer": "whitespace"}
    if prefix:
        return {"match_phrase_prefix": {field: {**phrase, "max_expansions": _EXPANSIONS}}}
    return {"match_phrase": {field: phrase}}


# --- a text under a key


def _property(scope: Scope, term: Property, known: Sequence[str]) -> list[Dsl]:
    path = scope_path(scope)
    if not term.key.prefix:
        return _keyed(f"{path}pairs", f"{path}pair_words", term.key, term.value)
    start = short_start(term.key)
    queries = [_pair_under_start(f"{path}pairs", term.key, term.value)]
    for words, prefix in _readings(term.value):
        if len(words) == 1:
            queries += [_wildcard(f"{path}{field}", start, words[0], prefix) for field in ("pairs", "pair_words")]
        queries += [_under_token(f"{path}pair_words", token, words, prefix) for token in known]
    return queries


def _keyed(pairs: str, pair_words: str, key: Text, value: Text) -> list[Dsl]:
    if key.prefix:
        return [_pair_under_start(pairs, key, value), *_words_under_start(pairs, pair_words, key, value)]
    whole = terms.whole_prefix(value.text) if value.prefix else terms.whole(value.text)
    folded = folded_key(key.text)
    queries = [_NONE if whole is None else _composed(pairs, terms.pair(folded, whole), value.prefix)]
    for words, prefix in _readings(value):
        if len(words) == 1:
            queries.append(_composed(pairs, terms.pair(folded, words[0]), prefix))
        for token in dict.fromkeys((key_token(folded), hashed_key_token(folded))):
            queries.append(_under_token(pair_words, token, words, prefix))
    return queries


def _under_token(field: str, token: str, words: list[str], prefix: bool) -> Dsl:
    return _sequence(field, [f"{token}={word}" for word in words], prefix)


def _composed(field: str, term: str, prefix: bool) -> Dsl:
    return begins(field, term) if prefix else {"term": {field: {"value": term}}}


def begins(field: str, start: str) -> Dsl:
    """Documents with a term that begins so.

    Elasticsearch takes a prefix of 1,000 bytes at most, since Lucene goes down each path of an automaton to see whether
    it ends. One that could go round at its first step is known not to; so a longer text stands behind what may come any
    number of times there, and never does.
    """
    if len(start.encode("utf-8", "replace")) <= _LONGEST_PREFIX_BYTES:
        return {"prefix": {field: {"value": start}}}
    return {"regexp": {field: {"value": f'("{_NEVER}")*{literal(start)}.*', "flags": "NONE"}}}


def literal(text: str) -> str:
    """A text in a pattern of Lucene's, taken as it is."""
    return '\\"'.join(f'"{part}"' if part else "" for part in text.split('"'))


def _pair_under_start(field: str, key: Text, value: Text) -> Dsl:
    whole = terms.whole_prefix(value.text) if value.prefix else terms.whole(value.text)
    return _NONE if whole is None else _wildcard(field, short_start(key), terms.encode(whole), value.prefix)


def _words_under_start(pairs: str, words_field: str, key: Text, value: Text) -> list[Dsl]:
    """The words under one type that begins so. Types are few; one that stands as a digest is found by its wholes."""
    queries = []
    for words, prefix in _readings(value):
        if len(words) == 1:
            queries += [_wildcard(field, short_start(key), words[0], prefix) for field in (pairs, words_field)]
        elif words:
            queries.append(_near_under_start(words_field, short_start(key), words, prefix))
    return queries


def _near_under_start(words_field: str, start: str, words: list[str], prefix: bool) -> Dsl:
    clauses, last = [], len(words) - 1
    for index, word in enumerate(words):
        wildcard = _wildcard(words_field, start, word, prefix and index == last)
        wildcard["wildcard"][words_field]["rewrite"] = f"top_terms_{_SPAN_EXPANSIONS}"
        clauses.append({"span_multi": {"match": wildcard}})
    return {"span_near": {"clauses": clauses, "slop": 0, "in_order": True}}


def most_words(value: Text) -> int:
    """How many words are looked for one after the other."""
    return max(len(words) for words, _ in _readings(value))


def keys_begin(path: str, start: str, value: Text) -> Dsl:
    """Documents with keys that begin so and stand as digests; or, of several words, that may be hits."""
    queries = [begins(f"{path}hashed_keys", start)]
    for words, prefix in _readings(value):
        last = len(words) - 1
        each = [
            _wildcard(f"{path}pair_words", start, word, prefix and index == last) for index, word in enumerate(words)
        ]
        if last > 0:
            queries.append({"bool": {"filter": each}})
    return _any(queries)


def key_start(key: Text) -> str:
    """What the keys of a term that begin so begin with, encoded."""
    return terms.encode(terms.fold(key.text.lstrip()))


def short_start(key: Text) -> str:
    """The same, where something else has to follow behind a star.

    Raises:
        InvalidQueryError: it is longer than that may be.
    """
    start = key_start(key)
    if (size := len(start.encode("utf-8", "replace"))) > _LONGEST_PREFIX_BYTES:
        raise InvalidQueryError(
            f"Before a star a key has at most {_LONGEST_PREFIX_BYTES} bytes, not {size:,}.",
            hint="Give less of the key.",
        )
    return start


def _wildcard(field: str, start: str, value: str, prefix: bool) -> Dsl:
    """A key that begins so, and its encoded value (words are encoded as they are)."""
    return {"wildcard": {field: {"value": f"{start}*={value}{'*' * prefix}"}}}


def _has_key(field: str, key: Text) -> Dsl:
    if key.prefix and not key.text:
        return {"exists": {"field": field}}
    return _composed(field, key_start(key) if key.prefix else terms.encode(folded_key(key.text)), key.prefix)


def _field(term: Field) -> Dsl:
    if term.type is None:
        return _any(_texts("system.fields", "system.field_words", term.name))
    return _any(_keyed("system.typed", "system.typed_words", term.type, term.name))
