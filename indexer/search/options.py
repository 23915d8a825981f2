"""A search's options: checked one by one, each fault with the option's name; then values.

Left to others: what the query's text means (grammar), how it is asked (query, search), what a cursor holds (cursors).
Invariant: two searches whose `digest` is equal ask for the same entities in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal

from ...schemas.within import Within
from ..documents import SCOPES, Scope
from ..errors import InvalidQueryError
from .grammar import Query, Term, parse
from .query import Dsl, Known
from .readable import checked_within, readable, spelled_within

Sort = Literal["relevance", "name", "name:asc", "name:desc", "creation_time", "creation_time:asc", "creation_time:desc"]

MAX_LIMIT: Final = 1000
URN: Final[Dsl] = {"urn": "asc"}
_BY_NAME: Final[list[Dsl]] = [{"name": {"order": "asc"}}, URN]
_NEWEST: Final[list[Dsl]] = [{"created": {"order": "desc", "missing": "_last"}}, URN]
SORTS: Final[Mapping[str, list[Dsl]]] = {
    "relevance": [{"_score": "desc"}, URN],
    "name": _BY_NAME,
    "name:asc": _BY_NAME,
    "name:desc": [{"name": {"order": "desc"}}, URN],
    "creation_time": _NEWEST,
    "creation_time:asc": [{"created": {"order": "asc", "missing": "_last"}}, URN],
    "creation_time:desc": _NEWEST,
}
"""Orders by name; ties by URN, and what has no creation time comes last."""
MISSING_TIMES: Final = frozenset({-(2**63), 2**63 - 1})
"""What Elasticsearch gives as the time of what has none, in either direction."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """A search's options, checked."""

    query: Query
    text: str
    tenant: str
    namespace: str | None
    kinds: tuple[str, ...]
    scopes: tuple[Scope, ...]
    sort: str
    limit: int
    facets: bool
    within: tuple[Within, ...] | None = None
    """Conditions of which one holds for every hit; None: everything is seen."""
    known: Known = field(default_factory=dict)
    """The keys of terms whose key only begins so; read before the first request."""
    misspelt: tuple[Term, ...] = ()
    """Words that find nothing and whose typing errors count; known after the first request, the same on all pages."""
    unknown: tuple[Term, ...] = ()
    """Terms that are known to match nothing in the view that is asked; so they are not asked for (again)."""

    @property
    def filters(self) -> list[Dsl]:
        """What every hit has."""
        filters: list[Dsl] = [{"term": {"tenant": self.tenant}}, {"term": {"deleted": False}}]
        if self.namespace is not None:
            filters.append({"term": {"namespace": self.namespace}})
        if self.kinds:
            filters.append({"terms": {"kind": list(self.kinds)}})
        if self.within is not None:
            filters.append(readable(self.within))
        return filters

    @property
    def digest(self) -> str:
        """What a cursor belongs to."""
        parts = [self.text, self.tenant, self.namespace, self.kinds, self.scopes, SORTS[self.sort]]
        parts += [] if self.within is None else [spelled_within(self.within)]
        return blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


def checked_options(
    text: str,
    *,
    tenant: str,
    namespace: str | None,
    kinds: Collection[str] | str | None,
    scope: str | None,
    sort: str,
    limit: int,
    facets: bool,
    within: Any = None,
) -> SearchOptions:
    """Check a search's options.

    Raises:
        InvalidQueryError: one of them is wrong; it is named.
    """
    checked_text(text, "query")
    if sort not in SORTS:
        raise InvalidQueryError(f"sort must be one of {', '.join(SORTS)}, not {sort!r}.", option="sort")
    if namespace is not None:
        checked_name(namespace, "namespace")
    named = _kinds(kinds)
    if not isinstance(facets, bool):
        raise InvalidQueryError(f"facets must be True or False, not {facets!r}.", option="facets")
    return SearchOptions(
        parse(text), text, tenant, namespace, named, scopes_of(scope), sort, checked_limit(limit), facets,
        checked_within(within),
    )  # fmt: skip


def _kinds(kinds: Any) -> tuple[str, ...]:
    if kinds is None or isinstance(kinds, str):
        return () if kinds is None else (checked_name(kinds, "kinds"),)
    if not isinstance(kinds, Collection) or isinstance(kinds, bytes | bytearray | Mapping):
        raise InvalidQueryError(f"kinds must be a kind or a list of kinds, not {kinds!r}.", option="kinds")
    if not kinds:
        raise InvalidQueryError("kinds must not be empty; omit it to search everywhere.", option="kinds")
    return tuple(sorted({checked_name(kind, "kinds") for kind in kinds}))


def checked_text(value: Any, option: str) -> str:
    """The value, where it is a text.

    Raises:
        InvalidQueryError: it is none.
    """
    if not isinstance(value, str):
        raise InvalidQueryError(f"{option} must be text, not {value!r}.", option=option)
    return value


def checked_name(value: Any, option: str) -> str:
    """The value, where it is a text that something can be called.

    Raises:
        InvalidQueryError: it is none, or empty.
    """
    text = checked_text(value, option)
    if not text:
        raise InvalidQueryError(f"{option} must not be empty; omit it to search everywhere.", option=option)
    return text


def scopes_of(scope: str | None) -> tuple[Scope, ...]:
    """The scopes whose metadata may match.

    Raises:
        InvalidQueryError: there is no such scope.
    """
    if scope is None or scope == "BOTH":
        return SCOPES
    for known in SCOPES:
        if scope == known:
            return (known,)
    raise InvalidQueryError(f"scope must be USER, SYSTEM or BOTH, not {scope!r}.", option="scope")


def checked_limit(limit: Any) -> int:
    """The limit, where it is one.

    Raises:
        InvalidQueryError: it is no whole number from 0 to 1,000.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MAX_LIMIT:
        raise InvalidQueryError(
            f"limit must be a whole number between 0 and {MAX_LIMIT:,}, not {limit!r}.", option="limit"
        )
    return limit
