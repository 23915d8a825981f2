"""A page of hits in its order: what is asked for it, and what comes back.

Job: checked options and the place where the page before ended, to requests; answers to hits, each with its score and
its place. Left to others: points in time and cursors (search, cursors), which entities match (query).
Elasticsearch keeps the whole order of each hit that comes before those it holds so far. For a URN that is a look into
the index's dictionary, which costs 3 µs; and entities are mostly indexed in the order of their creation, so that by
`newest first` each hit comes before all others: 0.3 s for 100,000 of them. So times are ordered alone, and URNs are
compared only among entities of one time.
Invariant: a page holds the hits behind its place in the order of `SORTS`, whichever way they were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from .options import MISSING_TIMES, SORTS, URN, SearchOptions
from .query import Ask, Dsl
from .ranking import lowest, scored

FACET_VALUES: Final = 100
"""Most values of each facet; their counts are exact because the index has one shard."""
_SCORE: Final[Dsl] = {"_score": "desc"}
_BEHIND_ALL: Final = 2**63 - 1
"""Elasticsearch adds a document's place in the point in time to its order; tenant and URN already name one document."""
_FIRST_OF_A_TIME: Final = (9.0, 0)
"""A score above all others, and a document's place in the point in time."""
_LAST_OF_A_TIME: Final = (-1.0, _BEHIND_ALL)


class RawHit(NamedTuple):
    """A hit.

    Args:
        index_name: the index that it is in.
        state: its state document.
        value: what it is ordered by, before its URN.
        score: its tier, and how well it fits inside it; 0 where everything was asked for.
    """

    index_name: str
    state: Mapping[str, Any]
    value: Any
    score: float

    @property
    def urn(self) -> str:
        """The entity's."""
        return str(self.state["urn"])

    @property
    def place(self) -> list[Any]:
        """Where it stands in the order."""
        return [self.value, self.urn]


class Page(NamedTuple):
    """The hits, one more than asked for where there are more and `more` was asked for, and the first answer."""

    hits: list[RawHit]
    answer: Mapping[str, Any]


def page_of(options: SearchOptions, after: list[Any] | None, ask: Ask, *, more: bool) -> Page:
    """The hits behind a place.

    Args:
        after: the place; None for the first page.
        more: whether it matters that there are more.
    """
    if options.limit > 0 and options.sort.startswith("creation_time"):
        return _by_time(options, after, ask)
    request = _request(options, options.limit + more)
    if options.sort == "relevance":
        request["sort"], tail, score_at = SORTS[options.sort], [_BEHIND_ALL], 0
    else:
        request["sort"], tail, score_at = [*SORTS[options.sort], _SCORE], [0, _BEHIND_ALL], 2
    if after is not None:
        request["search_after"] = [*after, *tail]
    answer = ask(request)
    hits = [_raw_hit(options, hit, hit["sort"][0], score_at) for hit in answer["hits"]["hits"]]
    return Page(hits, answer)


def _by_time(options: SearchOptions, after: list[Any] | None, ask: Ask, *, over: bool = False) -> Page:
    """Times alone, from the place's time on; where the page begins or ends among equals, those by URN.

    Args:
        over: whether to go on behind all entities of the place's time.
    """
    size = options.limit + 1 + (after is not None)
    request = {**_request(options, size), "sort": [SORTS[options.sort][0], _SCORE]}
    if after is not None:
        request["search_after"] = [after[0], *(_LAST_OF_A_TIME if over else _FIRST_OF_A_TIME)]
    answer = ask(request)
    raw_hits = [_raw_hit(options, hit, hit["sort"][0], 1) for hit in answer["hits"]["hits"]]
    if len(raw_hits) < size:
        return Page(_behind(raw_hits, after), answer)
    last = raw_hits[-1]
    hits = _behind((hit for hit in raw_hits if hit.value != last.value), after)
    wanted = options.limit + 1 - len(hits)
    if wanted <= 1:
        return Page([*hits, last], answer)
    start = after[1] if after is not None and after[0] == last.value else None
    equals = _of_time(options, last.value, start, wanted, ask)
    if len(equals) < wanted:  # so many of the place's time stand before it
        equals += _by_time(options, [last.value, ""], ask, over=True).hits
    known = {hit.urn for hit in hits}  # without a point in time an entity's time may have changed since
    return Page(hits + [hit for hit in equals if hit.urn not in known], answer)


def _behind(raw_hits: Iterable[RawHit], after: list[Any] | None) -> list[RawHit]:
    """Those behind a place, equals by URN."""
    hits = [
        hit for _, equal in groupby(raw_hits, lambda hit: hit.value) for hit in sorted(equal, key=lambda hit: hit.urn)
    ]
    return hits if after is None else [hit for hit in hits if hit.value != after[0] or hit.urn > after[1]]


def _of_time(options: SearchOptions, time: int, after: str | None, size: int, ask: Ask) -> list[RawHit]:
    """The first entities of one time behind a URN."""
    request = _request(options, size)
    request.pop("aggs", None)
    same: Dsl = {"bool": {"must_not": [{"exists": {"field": "created"}}]}}
    if time not in MISSING_TIMES:
        same = {"term": {"created": time}}
    request |= {"query": {"bool": {"must": [request["query"]], "filter": [same]}}, "track_total_hits": False}
    request["sort"] = [URN, _SCORE]
    if after is not None:
        request["search_after"] = [after, 0, _BEHIND_ALL]
    return [_raw_hit(options, hit, time, 1) for hit in ask(request)["hits"]["hits"]]


def _request(options: SearchOptions, size: int) -> dict[str, Any]:
    request: dict[str, Any] = {
        "query": scored(
            options.query, options.scopes, options.filters, options.known, options.misspelt, options.unknown
        ),
        "size": size,
        "source": True,  # of a part, the server would take the text apart and write it anew
        "track_total_hits": True,
    }
    if options.facets:
        one_scope = f"{options.scopes[0].lower()}." if len(options.scopes) == 1 else ""
        fields = {"kind": "kind", "namespace": "namespace", "tag": f"{one_scope}tag_facet"}
        request["aggs"] = {name: {"terms": {"field": field, "size": FACET_VALUES}} for name, field in fields.items()}
    return request


def _raw_hit(options: SearchOptions, hit: Mapping[str, Any], value: Any, score_at: int) -> RawHit:
    """The score is a part of the order: asked for apart, it would be worked out for every hit, and here once more."""
    score = lowest(options.query, options.misspelt) + float(hit["sort"][score_at])
    return RawHit(hit["_index"], hit["_source"]["entity"], value, score)
