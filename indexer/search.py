"""Searching the catalog: one question, one answer that says what it shows.

Job: options to a request, the answer to `Results`, pages over one point in time, so that none skips or doubles an
entity while writes go on. Left to others: the grammar, the queries, the reasons, waiting, completion (suggest).
Invariants: every request filters by tenant and leaves deleted entities out; the vector in the answer was stored before
the search began, so the answer shows at least that much.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from types import TracebackType
from typing import Any, Final, Literal, cast

from elasticsearch import ApiError

from ..schemas.errors import InvalidPositionError
from ..schemas.positions import Cut, Position, behind, cut_from_json, cut_to_json
from ..schemas.settings import Settings
from ..schemas.urn import Urn
from .connection import is_away, make_client
from .documents import SCOPES, Scope
from .errors import IndexMissingError, InvalidCursorError, InvalidQueryError
from .explain import explain
from .grammar import Query, parse
from .query import Dsl, Tier, scored
from .results import Count, Hit, Results
from .suggest import Suggestion, suggest
from .waiting import Deadline, is_gone_view, is_missing_index, not_yet, wanted_marks

__all__ = ["Count", "Hit", "Results", "Search", "Sort", "Suggestion"]

Sort = Literal["relevance", "name", "creation_time"]

MAX_LIMIT: Final = 1000
FACET_VALUES: Final = 100
"""Most values of each facet; their counts are exact because the index has one shard."""
_KEEP_ALIVE: Final = "2m"
_SORTS: Final[Mapping[str, list[Dsl]]] = {
    "relevance": [{"_score": "desc"}, {"urn": "asc"}],
    "name": [{"name": "asc"}, {"urn": "asc"}],
    "creation_time": [{"created": {"order": "desc", "missing": "_last"}}, {"urn": "asc"}],
}
_SEPARATORS_ONLY: Final = "The query has no letter or digit, so it finds nothing; an empty query finds everything."


@dataclass(frozen=True, slots=True)
class _Asked:
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

    @property
    def filters(self) -> list[Dsl]:
        filters: list[Dsl] = [{"term": {"tenant": self.tenant}}, {"term": {"deleted": False}}]
        if self.namespace is not None:
            filters.append({"term": {"namespace": self.namespace}})
        if self.kinds:
            filters.append({"terms": {"kind": list(self.kinds)}})
        return filters

    @property
    def digest(self) -> str:
        """What a cursor belongs to."""
        parts = [self.text, self.tenant, self.namespace, self.kinds, self.scopes, self.sort]
        return blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class _Cursor:
    view: str
    after: list[Any]
    vector: Cut
    asked: str

    def text(self) -> str:
        data = [self.view, self.after, cut_to_json(self.vector), self.asked]
        return base64.urlsafe_b64encode(json.dumps(data).encode()).decode()

    @classmethod
    def parse(cls, text: str, asked: _Asked) -> _Cursor:
        try:
            view, after, vector, digest = json.loads(base64.urlsafe_b64decode(text.encode("ascii")))
            cursor = cls(str(view), list(after), cut_from_json(vector), str(digest))
        except (ValueError, TypeError, binascii.Error, InvalidPositionError) as error:
            raise InvalidCursorError("This is no cursor of a search.") from error
        if cursor.asked != asked.digest:
            raise InvalidCursorError(
                "The cursor belongs to another search; its query, filters and order must be the same."
            )
        return cursor


class Search:
    """Searches one index; safe to use from several threads.

    Args:
        settings: where Elasticsearch is, and the tenant.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._index = settings.elasticsearch.index
        self._client = make_client(settings)

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def search(
        self,
        query: str = "",
        *,
        namespace: str | None = None,
        kinds: Collection[str] | str | None = None,
        scope: str | None = None,
        tenant: str | None = None,
        at_least: Position | Cut | None = None,
        timeout_s: float = 10.0,
        limit: int = 20,
        cursor: str | None = None,
        sort: Sort = "relevance",
        facets: bool = False,
        paging: bool = True,
    ) -> Results:
        """Find entities by the grammar of `grammar`.

        Args:
            query: the user's text; empty for everything.
            namespace: only entities of this namespace.
            kinds: only entities of these kinds.
            scope: USER or SYSTEM: which metadata may match (names always may); None or BOTH for all.
            tenant: whose entities; the settings' tenant where None.
            at_least: an event's position, or a cut of next positions, that the answer must show.
            timeout_s: seconds to wait for that and for an Elasticsearch that is away.
            limit: most hits of this page, 0 to 1,000.
            cursor: from an earlier answer to the same search; goes on behind its last hit.
            sort: `relevance`, `name`, or `creation_time` (newest first); ties by URN.
            facets: count the hits by kind, namespace and tag.
            paging: whether the answer may have a cursor; without one the search is a little cheaper.

        Raises:
            InvalidQueryError: the query is too long or an option is wrong.
            InvalidCursorError: the cursor belongs to another search or has expired.
            NotYetVisibleError: the index did not show `at_least` in time; `behind` says how much it lacks.
            IndexMissingError: there is no index yet.
            SearchUnavailableError: Elasticsearch stayed away.
        """
        asked = self._asked(query, namespace, kinds, scope, tenant, limit, sort, facets)
        deadline = Deadline(self._client, self._settings.elasticsearch.url, timeout_s)
        try:
            if cursor is not None:
                return self._next_page(asked, _Cursor.parse(cursor, asked), at_least, deadline)
            vector = deadline.shown(self._index, at_least).vector
            view = self._open(deadline) if paging and limit > 0 else None
            return self._page(asked, vector, view, None, deadline)
        except ApiError as error:
            if is_missing_index(error):
                raise IndexMissingError(self._index) from error
            raise

    def suggest_names(
        self, prefix: str = "", *, tenant: str | None = None, limit: int = 10, timeout_s: float = 10.0
    ) -> list[Suggestion]:
        """Names that begin with a text, in any case, and how many entities have each; in alphabetical order.

        Raises:
            IndexMissingError, SearchUnavailableError: as `search`.
        """
        return self._suggest(("suggest_name",), prefix, tenant, limit, timeout_s)

    def suggest_keys(
        self,
        prefix: str = "",
        *,
        scope: str | None = None,
        tenant: str | None = None,
        limit: int = 10,
        timeout_s: float = 10.0,
    ) -> list[Suggestion]:
        """Metadata keys that begin with a text, and how many entities have each; in alphabetical order.

        Raises:
            IndexMissingError, SearchUnavailableError: as `search`.
        """
        fields = tuple(f"{one.lower()}.suggest_key" for one in _scopes(scope))
        return self._suggest(fields, prefix, tenant, limit, timeout_s)

    def _suggest(
        self, fields: tuple[str, ...], prefix: str, tenant: str | None, limit: int, timeout_s: float
    ) -> list[Suggestion]:
        deadline = Deadline(self._client, self._settings.elasticsearch.url, timeout_s)
        whose = tenant or self._settings.journal.tenant
        try:
            return suggest(deadline, self._index, fields, prefix, tenant=whose, limit=_limit(limit))
        except ApiError as error:
            if is_missing_index(error):
                raise IndexMissingError(self._index) from error
            raise

    def _asked(
        self,
        text: str,
        namespace: str | None,
        kinds: Collection[str] | str | None,
        scope: str | None,
        tenant: str | None,
        limit: int,
        sort: str,
        facets: bool,
    ) -> _Asked:
        if sort not in _SORTS:
            raise InvalidQueryError(f"sort must be one of {', '.join(_SORTS)}, not {sort!r}.", option="sort")
        named = (kinds,) if isinstance(kinds, str) else tuple(sorted(kinds or ()))
        whose = tenant or self._settings.journal.tenant
        return _Asked(parse(text), text, whose, namespace, named, _scopes(scope), sort, _limit(limit), facets)

    # --- pages

    def _open(self, deadline: Deadline) -> str:
        opened = deadline.ask(lambda client: client.open_point_in_time(index=self._index, keep_alive=_KEEP_ALIVE))
        return cast(str, opened.body["id"])

    def _next_page(
        self, asked: _Asked, cursor: _Cursor, at_least: Position | Cut | None, deadline: Deadline
    ) -> Results:
        lacking = behind(cursor.vector, wanted_marks(at_least))
        if lacking:
            raise not_yet(lacking, 0.0)
        try:
            return self._page(asked, cursor.vector, cursor.view, cursor.after, deadline)
        except ApiError as error:
            if is_gone_view(error):
                raise InvalidCursorError(f"The cursor has expired; it lives {_KEEP_ALIVE} after each page.") from error
            raise

    def _page(
        self, asked: _Asked, vector: Cut, view: str | None, after: list[Any] | None, deadline: Deadline
    ) -> Results:
        request = _request(asked, view, after)
        if view is None:
            answer = deadline.ask(lambda client: client.search(index=self._index, **request)).body
        else:
            answer = deadline.ask(lambda client: client.search(**request)).body
        found = answer["hits"]["hits"]
        cursor = None
        if view is not None:
            view = answer.get("pit_id", view)
            cursor = self._cursor(asked, vector, view, found)
        return Results(
            total=answer["hits"]["total"]["value"],
            hits=tuple(_hit(asked, one) for one in found[: asked.limit]),
            position_vector=vector,
            facets=_facets(answer.get("aggregations", {})),
            cursor=cursor,
            note=_SEPARATORS_ONLY if asked.query.nothing else "",
        )

    def _cursor(self, asked: _Asked, vector: Cut, view: str, found: Sequence[Any]) -> str | None:
        """The cursor of the next page; at the end the point in time is given back."""
        if len(found) > asked.limit:
            return _Cursor(view, found[asked.limit - 1]["sort"], vector, asked.digest).text()
        try:
            self._client.options(request_timeout=1.0).close_point_in_time(id=view)
        except Exception as error:
            if not (is_away(error) or (isinstance(error, ApiError) and is_gone_view(error))):
                raise
        return None


def _request(asked: _Asked, view: str | None, after: list[Any] | None) -> dict[str, Any]:
    request: dict[str, Any] = {
        "query": scored(asked.query, asked.scopes, asked.filters),
        "sort": _SORTS[asked.sort],
        "size": asked.limit + (view is not None),  # one more tells whether there is a next page
        "source": ["entity"],
        "track_total_hits": True,
        "track_scores": True,
    }
    if view is not None:
        request["pit"] = {"id": view, "keep_alive": _KEEP_ALIVE}
    if after is not None:
        request["search_after"] = after
    if asked.facets:
        one_scope = f"{asked.scopes[0].lower()}." if len(asked.scopes) == 1 else ""
        fields = {"kind": "kind", "namespace": "namespace", "tag": f"{one_scope}tag_facet"}
        request["aggs"] = {name: {"terms": {"field": field, "size": FACET_VALUES}} for name, field in fields.items()}
    return request


def _hit(asked: _Asked, found: Mapping[str, Any]) -> Hit:
    state = found["_source"]["entity"]
    score = round(found.get("_score") or 0)
    return Hit(
        urn=Urn(state["urn"]),
        kind=state["kind"],
        namespace=state["namespace"],
        name=state["name"],
        tier=Tier(score) if score else None,
        why=explain(asked.query, state, asked.scopes),
        document=state,
    )


def _facets(aggregations: Mapping[str, Any]) -> dict[str, tuple[Count, ...]]:
    return {
        name: tuple(Count(bucket["key"], bucket["doc_count"]) for bucket in facet["buckets"])
        for name, facet in aggregations.items()
    }


def _scopes(scope: str | None) -> tuple[Scope, ...]:
    if scope is None or scope == "BOTH":
        return SCOPES
    for known in SCOPES:
        if scope == known:
            return (known,)
    raise InvalidQueryError(f"scope must be USER, SYSTEM or BOTH, not {scope!r}.", option="scope")


def _limit(limit: int) -> int:
    if not 0 <= limit <= MAX_LIMIT:
        raise InvalidQueryError(f"limit must be between 0 and {MAX_LIMIT:,}, not {limit}.", option="limit")
    return limit
