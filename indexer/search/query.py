"""Terms to Elasticsearch queries.

Job: for each form of the grammar the exact query over the fields that `documents` fills. User text only ever becomes a
*value* of a term, prefix, phrase or wildcard query; what goes into a wildcard pattern is encoded first
(`terms.encode`), so the only star in it is the one written here.
Left to others: the grammar (grammar), what a hit's place in the order is (ranking), which keys begin so, where they are
asked for one by one (key_starts), paging, facets and errors (search).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from .. import terms
from ..documents import SCOPES, Scope
from ..errors import InvalidQueryError
from ..keys import folded_key, key_tokens
from .grammar import (
    AllOf,
    Clauses,
    Everything,
    Field,
    HasKey,
    HasTags,
    Node,
    Not,
    Nothing,
    Property,
    Tag,
    Term,
    Text,
    Value,
)

Dsl = dict[str, Any]
Ask = Callable[[Dsl], Mapping[str, Any]]
"""Sends a request's body to the index, and gives the answer."""
Known = Mapping[tuple[Property, Scope], Sequence[str]]
"""Of terms whose key only begins so: the keys that are asked for one by one, as they stand before words."""

_EXPANSIONS: Final = 50_000
"""Most words that a prefix at the end of a phrase stands for."""
_SPAN_EXPANSIONS: Final = 1_000
"""The same where the key, too, is a prefix."""
_LONGEST_PREFIX_BYTES: Final = 900
_NEVER: Final = "\1\2\1"
NONE: Final[Dsl] = {"match_none": {}}
"""Matches nothing."""
_ALL: Final[Dsl] = {"match_all": {}}


def tree(node: Node, leaf: Callable[[Term], Dsl], excluded: Callable[[Term], Dsl] | None = None) -> Dsl:
    """The query of a tree.

    Args:
        leaf: the query of one term.
        excluded: the same below a NOT, where nothing is scored; `leaf` where None.
    """
    unscored = excluded or leaf

    def below(nodes: Iterable[Node]) -> list[Dsl]:
        return [tree(inner, leaf, excluded) for inner in nodes]

    def without(nodes: Iterable[Node]) -> list[Dsl]:
        return [tree(inner, unscored) for inner in nodes]

    match node:
        case Not(inner):
            return {"bool": {"must_not": without([inner])}}
        case AllOf(nodes):
            return {
                "bool": {
                    "must": below(inner for inner in nodes if not isinstance(inner, Not)),
                    "must_not": without(inner.node for inner in nodes if isinstance(inner, Not)),
                }
            }
        case Clauses(should, must, must_not):
            least = {"minimum_should_match": 1} if should and not must else {}
            negative = [inner.node for inner in should if isinstance(inner, Not)]
            options = below(inner for inner in should if not isinstance(inner, Not))
            if negative:  # one of several does not match: not all of them match, which takes one clause
                options.append({"bool": {"must_not": [_all_of(without(negative))]}})
            return {"bool": {"must": below(must), "should": options, "must_not": without(must_not), **least}}
    return leaf(node)


def matches(term: Term, scopes: Collection[Scope], known: Known) -> Dsl:
    """The query of one term within the metadata of the given scopes; names may always match."""
    match term:
        case Everything():
            return _ALL
        case Nothing():
            return NONE
        case Value(value):
            return any_of(_texts(whole_fields(scopes, value), word_fields(scopes), value))
        case Property():
            return any_of(
                dsl for scope in _each(scopes) for dsl in _property(scope, term, known.get((term, scope), ()))
            )
        case HasKey(key):
            return any_of(_has_key(f"{path}keys", key) for path in _paths(scopes))
        case Tag(value):
            return any_of(_texts(*tag_fields(scopes), value))
        case HasTags():
            return any_of({"exists": {"field": f"{path}tags"}} for path in _paths(scopes))
        case Field():
            return _field(term) if "SYSTEM" in scopes else NONE


def whole_fields(scopes: Collection[Scope], value: Text) -> list[str]:
    """Where a value is looked for as a whole: a beginning that is one word only where words do not begin so as well."""
    odd = "odd_" if _is_one_beginning(value) else ""
    return [f"{odd}identity", *(f"{path}{odd}whole" for path in _paths(scopes))]


def name_field(value: Text) -> str:
    """The same of names alone."""
    return "odd_name" if _is_one_beginning(value) else "name"


def _is_one_beginning(value: Text) -> bool:
    start = terms.whole_prefix(value.text) if value.prefix else None
    return start is not None and start.isalnum() and ([start], True) in text_readings(value)


def near_fields(scopes: Collection[Scope]) -> list[str]:
    """Where words that resemble one are looked for: the fewest fields that each word is in."""
    if len(_each(scopes)) < len(SCOPES):
        return word_fields(scopes)
    return ["name_words", "identity_words", "near_tag_words", "near_words", "system.description_words"]


def word_fields(scopes: Collection[Scope]) -> list[str]:
    """Where the words of a value are looked for; each text is in one of them."""
    scoped = [f"{path}{field}" for path in _paths(scopes) for field in ("tag_words", "words")]
    system = ["system.field_words", "system.description_words"] if "SYSTEM" in scopes else []
    return ["name_words", "identity_words", *scoped, *system]


def tag_fields(scopes: Collection[Scope]) -> tuple[list[str], list[str]]:
    """Where tags are looked for: as wholes, and their words."""
    return [f"{path}tags" for path in _paths(scopes)], [f"{path}tag_words" for path in _paths(scopes)]


def _paths(scopes: Collection[Scope]) -> list[str]:
    return [scope_path(scope) for scope in _each(scopes)]


def _each(scopes: Collection[Scope]) -> list[Scope]:
    return [scope for scope in SCOPES if scope in scopes]


def scope_path(scope: Scope) -> str:
    """What the names of a scope's fields begin with."""
    return f"{scope.lower()}."


def _all_of(queries: list[Dsl]) -> Dsl:
    return queries[0] if len(queries) == 1 else {"bool": {"filter": queries}}


def any_of(queries: Iterable[Dsl]) -> Dsl:
    """What matches one of some queries."""
    kept: list[Dsl] = []
    for query in queries:
        if query is not NONE and query not in kept[-2:]:  # the one word of a text often is the whole of it
            kept.append(query)
    if not kept:
        return NONE
    return kept[0] if len(kept) == 1 else {"bool": {"should": kept, "minimum_should_match": 1}}


# --- one text against the wholes and the words of a field


def _texts(whole_fields: Iterable[str], words_fields: Iterable[str], text: Text) -> list[Dsl]:
    """A text as a whole and word by word."""
    wholes = [as_whole(field, text.text, text.prefix) for field in whole_fields]
    return wholes + [sequence(field, words, prefix) for field in words_fields for words, prefix in text_readings(text)]


def text_readings(text: Text) -> list[tuple[list[str], bool]]:
    """The words of a text, and whether what is looked for may go on behind the last one; cut at humps and uncut."""
    return [(words, text.prefix and open_end) for words, open_end in terms.readings(text.text)]


def as_whole(field: str, text: str, prefix: bool) -> Dsl:
    term = terms.whole_prefix(text) if prefix else terms.whole(text)
    if term is None:
        return NONE
    return _composed(field, term, prefix)


def sequence(field: str, words: list[str], prefix: bool, boost: float | None = None) -> Dsl:
    """The words one after the other, the last one as a prefix where asked."""
    if not words:
        return NONE
    weight = {} if boost is None else {"boost": boost}
    if len(words) == 1:
        return _composed(field, words[0], prefix, **weight)
    phrase: Dsl = {"query": " ".join(words), "analyzer": "whitespace", **weight}
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
    for words, prefix in text_readings(term.value):
        if len(words) == 1:
            queries += [_wildcard(f"{path}{field}", start, words[0], prefix) for field in ("pairs", "pair_words")]
        queries += [_under_token(f"{path}pair_words", token, words, prefix) for token in known]
    return queries


def _keyed(pairs: str, pair_words: str, key: Text, value: Text) -> list[Dsl]:
    if key.prefix:
        return [_pair_under_start(pairs, key, value), *_words_under_start(pairs, pair_words, key, value)]
    whole = terms.whole_prefix(value.text) if value.prefix else terms.whole(value.text)
    folded = folded_key(key.text)
    queries = [NONE if whole is None else _composed(pairs, terms.pair(folded, whole), value.prefix)]
    for words, prefix in text_readings(value):
        if len(words) == 1:
            queries.append(_composed(pairs, terms.pair(folded, words[0]), prefix))
        for token in key_tokens(folded):
            queries.append(_under_token(pair_words, token, words, prefix))
    return queries


def _under_token(field: str, token: str, words: list[str], prefix: bool) -> Dsl:
    return sequence(field, [f"{token}={word}" for word in words], prefix)


def _composed(field: str, term: str, prefix: bool, **weight: float) -> Dsl:
    return begins(field, term) if prefix else {"term": {field: {"value": term, **weight}}}


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
    return NONE if whole is None else _wildcard(field, short_start(key), terms.encode(whole), value.prefix)


def _words_under_start(pairs: str, words_field: str, key: Text, value: Text) -> list[Dsl]:
    """The words under one type that begins so. Types are few; one that stands as a digest is found by its wholes."""
    queries = []
    for words, prefix in text_readings(value):
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


def keys_begin(scope: Scope, start: str, value: Text) -> Dsl:
    """Documents with keys that begin so and stand as digests; or, of several words, that may be hits.

    Those have the words one after the other in some value: to look for that is cheap, whatever the keys are.
    """
    path = scope_path(scope)
    queries = [begins(f"{path}hashed_keys", start)]
    fields = [f"{path}words", *(["system.description_words"] if scope == "SYSTEM" else [])]
    phrases = any_of(
        sequence(field, words, prefix) for words, prefix in text_readings(value) if len(words) > 1 for field in fields
    )
    if phrases is not NONE:
        queries.append({"bool": {"filter": [begins(f"{path}keys", start), phrases]}})
    return any_of(queries)


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
        return any_of(_texts(["system.fields"], ["system.field_words"], term.name))
    return any_of(_keyed("system.typed", "system.typed_words", term.type, term.name))
