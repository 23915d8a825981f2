"""Where a hit stands in the order: its tier, and how well it fits inside the tier, in one score.

    score = tier + fit, 0 <= fit < 1

The server counts from the lowest tier that a hit of the query can have (`lowest`), so most hits need no clause for it.

The fit is a sum over the terms: of each the best over the fields of `weight * BM25`, and of what has a star (or nothing
to weigh) the weight alone, of a name with a little more the fewer words it has. All weights are divided by what the sum
can be at most for this query, whatever the index holds, so no fit reaches the next tier and one number orders the hits.
Left to others: which entities match (query). Invariant: equal hits have equal scores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

from ..documents import Scope
from .atoms import most_words
from .edits import edits_of
from .grammar import AllOf, Clauses, Field, Node, Not, Property, Query, Tag, Term, Text, Value
from .query import (
    NONE,
    Dsl,
    Known,
    any_of,
    as_whole,
    matches,
    name_field,
    near_fields,
    sequence,
    tag_fields,
    text_readings,
    tree,
    whole_fields,
    word_fields,
)

WEIGHTS: Final[Mapping[str, float]] = {
    "name_words": 1.5,
    "tag_words": 1.25,
    "words": 1.0,
    "field_words": 1.0,
    "identity_words": 0.5,
    "description_words": 0.9,
    "near_tag_words": 1.25,
    "near_words": 1.0,
}
"""What a word weighs by the field that it stands in: names, tags, other values, fields of schemas, kind and namespace,
descriptions; tags of both scopes, and other values with fields of schemas."""
_SHORT_NAME: Final = 0.25
"""What the beginning of a word weighs more in a name of one word; in one of two half of it, and so on."""
_LEAST_WEIGHT: Final = 0.5
"""Of what matches a whole text and none of its words."""
_LARGEST_BM25: Final = 50.0
"""Of a word of one among the 2^31 documents that a shard can have: its idf is ln(2^31 / 1.5) = 21.1, and Elasticsearch
counts it less than 2.2 times (k1 + 1)."""
_LARGEST: Final = max(WEIGHTS.values()) * _LARGEST_BM25


class Tier(IntEnum):
    """Why a hit stands where it stands; higher is better."""

    TYPING_ERROR = 0
    SOME_TERMS = 1
    EVERY_TERM = 2
    NAME_WORDS = 3
    EXACT_NAME = 4


def lowest(query: Query, misspelt: Collection[Term] = ()) -> Tier:
    """The tier of hits that no other one lifts, from which the server's scores count."""
    if misspelt or not query.ranked:
        return Tier.TYPING_ERROR
    return Tier.EVERY_TERM if _required(query.root).issuperset(query.terms) else Tier.SOME_TERMS


def _required(node: Node) -> set[Node]:
    """Terms that every hit matches."""
    match node:
        case Not():
            return set()
        case AllOf(nodes):
            return set[Node]().union(*map(_required, nodes))
        case Clauses(should, must):
            return set[Node]().union(*map(_required, must or (should if len(should) == 1 else ())))
    return {node}


def scored(
    query: Query,
    scopes: Collection[Scope],
    filters: Sequence[Dsl],
    known: Known,
    misspelt: Collection[Term] = (),
    unknown: Collection[Term] = (),
) -> Dsl:
    """The query whose hits match a query's tree and all filters, scored by tier and fit.

    Args:
        misspelt: terms that find nothing by themselves: their words' neighbours match as well, in the lowest tier.
        unknown: terms that are known to match nothing.
    """

    def matching(term: Term) -> Dsl:
        return NONE if term in unknown else matches(term, scopes, known)

    if not query.ranked:
        return {"bool": {"filter": [tree(query.root, matching), *filters]}}
    share = 1.0 / (_LARGEST * _most_words(query.root))

    def leaf(term: Term) -> Dsl:
        fits = [] if term in unknown else [_fit(term, scopes, known, share)]
        neighbours = _neighbours(term, scopes, share) if term in misspelt else []
        return _best([*fits, *neighbours]) if fits or neighbours else NONE

    hit = tree(query.root, leaf, matching)
    least = lowest(query, misspelt)
    tiers = [_constant(tier - least, dsl) for tier, dsl in _tiers(query, matching, unknown) if tier > least]
    if not tiers:
        return {"bool": {"must": [hit], "filter": list(filters)}}
    tier = _best(tiers)
    if misspelt:
        tier = {"bool": {"filter": [tree(query.root, matching)], "must": [tier]}}
    return {"bool": {"must": [hit], "filter": list(filters), "should": [tier]}}


def _tiers(query: Query, matching: Callable[[Term], Dsl], unknown: Collection[Term]) -> Iterator[tuple[Tier, Dsl]]:
    """The tiers of what matches the query as it is written."""
    yield Tier.SOME_TERMS, {"match_all": {}}
    if not any(term in unknown for term in query.terms):
        yield Tier.EVERY_TERM, {"bool": {"filter": list(map(matching, query.terms))}}
    values = [term.value for term in query.terms if isinstance(term, Value) and term not in unknown]
    if len(values) == len(query.terms):
        yield Tier.NAME_WORDS, {"bool": {"filter": [_in_name(value) for value in values]}}
    if values:
        yield Tier.EXACT_NAME, any_of(as_whole("name", value.text, prefix=False) for value in values)


def _in_name(value: Text) -> Dsl:
    """Whether a name, or words in it, are a text, or begin so where it has a star."""
    in_words = [sequence("name_words", words, prefix) for words, prefix in text_readings(value)]
    return any_of([as_whole(name_field(value), value.text, value.prefix), *in_words])


def _most_words(node: Node) -> int:
    """How many words can count for a hit, each as often as it is asked for."""
    match node:
        case Not():
            return 0
        case AllOf(nodes):
            return sum(map(_most_words, nodes))
        case Clauses(should, must):
            return sum(map(_most_words, (*must, *should)))
        case Value(value) | Tag(value) | Property(_, value) | Field(value):
            return max(1, most_words(value))
    return 1


# --- how well one term fits


def _fit(term: Term, scopes: Collection[Scope], known: Known, share: float) -> Dsl:
    """The query of one term, scored."""
    match term:
        case Value(value):
            return _weighed(whole_fields(scopes, value), word_fields(scopes), value, share)
        case Tag(value):
            return _weighed(*tag_fields(scopes), value, share)
        case Property(_, value):
            fields = [field for field in word_fields(scopes) if _sort(field) in ("words", "description_words")]
        case Field(value):
            fields = ["system.field_words"]
        case _:
            return _constant(_LEAST_WEIGHT * share, matches(term, scopes, known))
    if value.prefix:
        return _constant(_LEAST_WEIGHT * share, matches(term, scopes, known))
    words = _words(fields, value, share)
    return {"bool": {"filter": [matches(term, scopes, known)], "should": [_best(words)] if words else []}}


def _weighed(wholes: Iterable[str], fields: Sequence[str], text: Text, share: float) -> Dsl:
    as_wholes = any_of(as_whole(field, text.text, text.prefix) for field in wholes)
    queries = _begun(fields, text, share) if text.prefix else _words(fields, text, share)
    return _best([*queries, _constant(_LEAST_WEIGHT * share, as_wholes)])


def _words(fields: Iterable[str], text: Text, share: float) -> list[Dsl]:
    """Words one after the other: rare ones and short texts weigh more."""
    return [
        sequence(field, words, False, WEIGHTS[_sort(field)] * share)
        for field in fields
        for words, _ in text_readings(text)
        if words
    ]


def _begun(fields: Iterable[str], text: Text, share: float) -> list[Dsl]:
    """What begins so: one weight, whatever stands there, since each word of many would be looked up for its rarity."""
    queries = []
    for weight, same in _by_weight(fields):
        begun = any_of(sequence(field, words, prefix) for field in same for words, prefix in text_readings(text))
        if same == ["name_words"]:
            short = _short_name(_SHORT_NAME * share)
            queries.append({"bool": {"must": [_constant((weight - _SHORT_NAME) * share, begun)], "should": [short]}})
        else:
            queries.append(_constant(weight * share, begun))
    return queries


def _short_name(most: float) -> Dsl:
    """A score for every entity: the most for a name of one word, half of it for two, and so on."""
    length = {"field_value_factor": {"field": "name_length", "modifier": "reciprocal", "missing": 1}}
    return {"function_score": {**length, "boost": most}}


def _by_weight(fields: Iterable[str]) -> list[tuple[float, list[str]]]:
    groups: dict[float, list[str]] = {}
    for field in fields:
        groups.setdefault(WEIGHTS[_sort(field)], []).append(field)
    return list(groups.items())


def _sort(field: str) -> str:
    return field.rpartition(".")[2]


# --- typing errors


def plain_word(term: Term) -> str:
    """The one word of letters that a term without a star asks for; empty where it asks for anything else."""
    if not isinstance(term, Value) or term.value.prefix:
        return ""
    words, *other_reading = [words for words, _ in text_readings(term.value)]
    return words[0] if not other_reading and len(words) == 1 and words[0].isalpha() else ""


def _neighbours(term: Term, scopes: Collection[Scope], share: float) -> list[Dsl]:
    """Words at most so many edits away; fewer edits weigh more."""
    word = plain_word(term)
    return [
        _constant(
            weight * share / distance,
            any_of(near_words(field, word, distance) for field in same),
        )
        for distance in range(1, edits_of(word) + 1)
        for weight, same in _by_weight(near_fields(scopes))
    ]


def near_words(field: str, word: str, distance: int) -> Dsl:
    """Words at an edit distance; two letters in each other's place are one edit. All of them, not only the first.

    To build what finds them takes 2 ms for two edits; this rewrite does it once, `constant_score` for each segment.
    """
    value = {"value": word, "fuzziness": distance, "transpositions": True, "rewrite": "constant_score_boolean"}
    return {"fuzzy": {field: value}}


def _best(queries: list[Dsl]) -> Dsl:
    return queries[0] if len(queries) == 1 else {"dis_max": {"queries": queries}}


def _constant(score: float, query: Dsl) -> Dsl:
    return {"constant_score": {"filter": query, "boost": float(score)}}
