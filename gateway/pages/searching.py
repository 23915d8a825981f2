"""Search, and all keys: what the index says, of what may be read alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlencode

from ...client import Journal
from ...indexer.search.options import Sort
from ...indexer.search.results import TIER_NAMES
from ...schemas.endpoints import Parameter, Request
from ...schemas.errors import InputError, MetajournalError, UnavailableError
from ...schemas.pages import Page, Shown
from ..own_writes import with_own
from .home import shown_problem
from .needs import needs_reading

_HITS: Final = 20
_KEYS: Final = 200
_MATCHING_KEYS: Final = 10
_WORD: Final = re.compile(r'[^\s:"*()+]{1,200}')
_ORDERS: Final = {
    "relevance": "best first", "name": "by name", "creation_time:desc": "newest first",
    "creation_time:asc": "oldest first",
}  # fmt: skip
_SCOPES: Final = {"": "both scopes", "USER": "USER", "SYSTEM": "SYSTEM"}
_ASKED: Final = ("query", "namespace", "kind", "scope", "sort")


class Link(NamedTuple):
    """A value of a facet: how many hits have it, and the search that is narrowed to it."""

    text: str
    hits: int
    to: str | None


def _search(journal: Journal, request: Request) -> Shown:
    asked = {name: request.query.get(name, "") for name in _ASKED}
    found, status, is_typing, is_behind = None, 200, "typing" in request.query, False
    problem: MetajournalError | None = None
    search = partial(
        journal.search, asked["query"], namespace=asked["namespace"] or None, kinds=asked["kind"] or None,
        scope=asked["scope"] or None, tenant=request.tenant, limit=_HITS, cursor=request.query.get("cursor"),
        sort=cast(Sort, asked["sort"] or "relevance"), facets=True, within=request.within, paging=not is_typing,
    )  # fmt: skip
    own = () if is_typing or "cursor" in request.query else request.at_least
    try:
        found, is_behind = with_own(search, own)
    except UnavailableError as error:
        problem, status = error, 503
    except InputError as error:
        problem, status = error, 400
    values: dict[str, Any] = {
        "asked": asked, "found": found, "problem": shown_problem(problem, journal), "orders": _ORDERS,
        "scopes": _SCOPES, "is_behind": is_behind, "tiers": TIER_NAMES, "facets": {}, "next": None,
        "chosen": _chosen(asked), "keys": [], "whole": None,
    }  # fmt: skip
    if found is not None:
        values["keys"] = _matching_keys(journal, request, asked["query"])
        values["facets"] = {name: _links(name, counts, asked) for name, counts in found.facets.items()}
        if is_typing and found.total > len(found.hits):
            values["whole"] = _address(asked)
        values["next"] = None if found.cursor is None else _address({**asked, "cursor": found.cursor})
    return Shown("search.html", values, status)


def _matching_keys(journal: Journal, request: Request, query: str) -> list[Link]:
    """The keys that begin with a query of one word; none of other queries, or where the index does not say."""
    prefix = query.strip().removesuffix("*")
    if not _WORD.fullmatch(prefix) or "cursor" in request.query:
        return []
    try:
        found = journal.suggest_keys(prefix, tenant=request.tenant, limit=_MATCHING_KEYS, within=request.within)
    except UnavailableError:
        return []
    return [_key_link(key) for key in found]


def _links(facet: str, counts: Sequence[Any], asked: Mapping[str, str]) -> list[Link]:
    return [Link(one.value, one.hits, _narrowed(facet, one.value, asked)) for one in counts]


def _narrowed(facet: str, value: str, asked: Mapping[str, str]) -> str | None:
    """The search of those hits that have a value; None where the query's language cannot say it."""
    if facet != "tag":
        return _address({**asked, facet: value})
    if '"' in value:
        return None
    return _address({**asked, "query": f'{asked["query"]} +tags:"{value}"'.strip()})


def _chosen(asked: Mapping[str, str]) -> list[Link]:
    """What the search is narrowed to, each with the search without it."""
    return [
        Link(f"{name}: {asked[name]}", 0, _address({**asked, name: ""}))
        for name in ("namespace", "kind") if asked[name]
    ]  # fmt: skip


def _address(asked: Mapping[str, str]) -> str:
    return f"/search?{urlencode({name: value for name, value in asked.items() if value})}"


def _keys(journal: Journal, request: Request) -> Shown:
    prefix, after = request.query.get("prefix", ""), request.query.get("after")
    found, problem, is_behind = None, None, False
    suggest = partial(
        journal.suggest_keys, prefix, tenant=request.tenant, limit=_KEYS, after=after, within=request.within
    )  # fmt: skip
    try:
        found, is_behind = with_own(suggest, request.at_least if after is None else ())
    except UnavailableError as error:
        problem = error
    more = {"prefix": prefix, "after": found[-1].text} if found is not None and len(found) == _KEYS else None
    values = {
        "prefix": prefix, "keys": [_key_link(key) for key in found or ()], "problem": shown_problem(problem, journal),
        "next": None if more is None else f"/keys?{urlencode(more)}", "is_behind": is_behind,
    }  # fmt: skip
    return Shown("keys.html", values, 200 if problem is None else 503)


def _key_link(key: Any) -> Link:
    to = None if '"' in key.text else _address({"query": f'properties:"{key.text}"'})
    return Link(key.text, key.entities, to)


SEARCH: Final = Page(
    "GET", "/search", "Entities that match a query, with the reasons.", show=_search, needs=needs_reading,
    menu="Search", waits_itself=True, includes_own=True,
    query=(
        Parameter("query", "As /api/v1/search has it."), Parameter("namespace", "Only of this namespace."),
        Parameter("kind", "Only of this kind."), Parameter("scope", "USER or SYSTEM."), Parameter("sort", "The order."),
        Parameter("cursor", "Of the page before."), Parameter("typing", "The query is not whole yet: one page alone."),
    ),
)  # fmt: skip
KEYS: Final = Page(
    "GET",
    "/keys",
    "All keys of metadata, and how many entities have each.",
    show=_keys,
    needs=needs_reading,
    menu="Keys",
    waits_itself=True,
    includes_own=True,
    query=(Parameter("prefix", "What they begin with."), Parameter("after", "The last one of the page before.")),
)
