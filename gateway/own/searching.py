"""Search and completion over every kind of entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ...client import Journal
from ...indexer.search.in_steps import bounded
from ...indexer.search.options import SORTS, Sort
from ...schemas.endpoints import READ, Answer, Endpoint, Need, Parameter, Request, number
from ...schemas.shapes import COMPLETIONS, RESULTS
from ...values import point, results_json, then_json
from .rows import hide

_MOST: Final = 1_000


def _needs(request: Request) -> tuple[Need, ...]:
    return (Need(READ),)


def _search(journal: Journal, request: Request) -> Answer:
    asked = request.query
    found = bounded(
        journal.search, asked.get("query", ""), namespace=asked.get("namespace"), kinds=_words(asked.get("kind")),
        scope=asked.get("scope"), tenant=request.tenant, at_least=request.at_least or None,
        limit=request.whole("limit", 20, _MOST, least=0), cursor=asked.get("cursor"),
        sort=cast(Sort, request.choice("sort", tuple(SORTS), "relevance")),
        facets=request.choice("facets", ("true", "false"), "false") == "true", within=request.within,
    )  # fmt: skip
    value = results_json(found)
    if "as_at" in asked:
        value = then_json(found, journal.then(found.hits, point(asked["as_at"]), tenant=request.tenant))
    for hit in value["hits"]:
        for row in filter(None, (hit["entity"], hit.get("then"))):
            hide(row, request)
    return Answer(value, next=None if found.cursor is None else {"cursor": found.cursor})


def _names(journal: Journal, request: Request) -> Answer:
    found = journal.suggest_names(request.query.get("prefix", ""), **_completions(request))
    return Answer([one._asdict() for one in found], next=_after(found, request))


def _keys(journal: Journal, request: Request) -> Answer:
    asked = request.query
    found = journal.suggest_keys(asked.get("prefix", ""), scope=asked.get("scope"), **_completions(request))
    return Answer([one._asdict() for one in found], next=_after(found, request))


def _completions(request: Request) -> dict[str, Any]:
    return {
        "tenant": request.tenant, "limit": request.whole("limit", 10, _MOST), "after": request.query.get("after"),
        "within": request.within, "at_least": request.at_least or None,
    }  # fmt: skip


def _after(found: Sequence[Any], request: Request) -> Mapping[str, str] | None:
    """The query of the next page; None behind the last."""
    return {"after": found[-1].text} if len(found) == request.whole("limit", 10, _MOST) else None


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word for word in text.split(",") if word]


_LIMIT: Final = number("limit", "Most entries of a page.", _MOST)
_PREFIX: Final = Parameter("prefix", "What they begin with.")
_AFTER: Final = Parameter("after", "The last one of the page before.")
_SCOPE: Final = Parameter("scope", "USER or SYSTEM: which metadata may match.")
SEARCHING: Final = (
    Endpoint(
        "GET", "/api/v1/search", "Entities that match a query, best first.", read=_search, needs=_needs,
        answer=RESULTS, waits_itself=True,
        query=(
            Parameter("query", "Words, `key:value`, `tags:x`, `AND`, `OR`, `NOT`."),
            Parameter("namespace", "Only entities of this namespace."), Parameter("kind", "Only of these kinds."),
            _SCOPE, number("limit", "Most hits of a page; fewer where the entities are large.", _MOST, least=0),
            Parameter("cursor", "Of the page before."),
            Parameter("sort", f"One of {', '.join(SORTS)}."),
            Parameter("facets", "Counts by kind, namespace and tag.", bool),
            Parameter("as_at", "Tells of each hit what it was at a position or time, too.", read=point),
        ),
    ),
    Endpoint(
        "GET", "/api/v1/suggest/names", "Names that begin with a text.", read=_names, needs=_needs,
        answer=COMPLETIONS, query=(_PREFIX, _LIMIT, _AFTER), waits_itself=True,
    ),
    Endpoint(
        "GET", "/api/v1/suggest/keys", "Keys of metadata that begin with a text.", read=_keys, needs=_needs,
        answer=COMPLETIONS, query=(_PREFIX, _LIMIT, _SCOPE, _AFTER), waits_itself=True,
    ),
)  # fmt: skip
