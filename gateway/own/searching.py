"""Search and completion over every kind of entity."""

from __future__ import annotations

from typing import Any, Final, cast

from ...client import Journal
from ...indexer.search.options import SORTS, Sort
from ...schemas.endpoints import READ, Answer, Endpoint, Need, Parameter, Request
from ...values import point, results_json, then_json

_MOST: Final = 1_000


def _needs(request: Request) -> tuple[Need, ...]:
    return (Need(READ),)


def _search(journal: Journal, request: Request) -> Answer:
    request.require_all()
    asked = request.query
    found = journal.search(
        asked.get("query", ""), namespace=asked.get("namespace"), kinds=_words(asked.get("kind")),
        scope=asked.get("scope"), tenant=request.tenant, at_least=request.at_least or None,
        limit=request.whole("limit", 20, _MOST, least=0), cursor=asked.get("cursor"),
        sort=cast(Sort, request.choice("sort", tuple(SORTS), "relevance")),
        facets=request.choice("facets", ("true", "false"), "false") == "true",
    )  # fmt: skip
    value = results_json(found)
    if "as_at" in asked:
        value = then_json(found, journal.then(found.hits, point(asked["as_at"]), tenant=request.tenant))
    return Answer(value, next=None if found.cursor is None else {"cursor": found.cursor})


def _names(journal: Journal, request: Request) -> Answer:
    request.require_all()
    prefix, limit = request.query.get("prefix", ""), request.whole("limit", 10, _MOST)
    return Answer([found._asdict() for found in journal.suggest_names(prefix, tenant=request.tenant, limit=limit)])


def _keys(journal: Journal, request: Request) -> Answer:
    request.require_all()
    prefix, limit, scope = (
        request.query.get("prefix", ""),
        request.whole("limit", 10, _MOST),
        request.query.get("scope"),
    )
    found = journal.suggest_keys(prefix, scope=scope, tenant=request.tenant, limit=limit)
    return Answer([one._asdict() for one in found])


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word for word in text.split(",") if word]


_LIMIT: Final = Parameter("limit", "Most entries of a page.", int)
_PREFIX: Final = Parameter("prefix", "What they begin with.")
_SCOPE: Final = Parameter("scope", "USER or SYSTEM: which metadata may match.")
SEARCHING: Final = (
    Endpoint(
        "GET", "/api/v1/search", "Entities that match a query, best first.", read=_search, needs=_needs,
        answer=dict[str, Any], waits_itself=True,
        query=(
            Parameter("query", "Words, `key:value`, `tags:x`, `AND`, `OR`, `NOT`."),
            Parameter("namespace", "Only entities of this namespace."), Parameter("kind", "Only of these kinds."),
            _SCOPE, _LIMIT, Parameter("cursor", "Of the page before."),
            Parameter("sort", f"One of {', '.join(SORTS)}."),
            Parameter("facets", "Counts by kind, namespace and tag.", bool),
        ),
    ),
    Endpoint(
        "GET", "/api/v1/suggest/names", "Names that begin with a text.", read=_names, needs=_needs,
        answer=list[dict[str, Any]], query=(_PREFIX, _LIMIT), waits_itself=True,
    ),
    Endpoint(
        "GET", "/api/v1/suggest/keys", "Keys of metadata that begin with a text.", read=_keys, needs=_needs,
        answer=list[dict[str, Any]], query=(_PREFIX, _LIMIT, _SCOPE), waits_itself=True,
    ),
)  # fmt: skip
