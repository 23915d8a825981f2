"""Searching the catalog: one question, one answer that says what it shows.

Job: options to a request, the answer to `Results`, pages over one point in time, so that none skips or doubles an
entity while writes go on. Left to others: the grammar, the queries, the reasons, waiting, completion (suggest).
Invariants: every request filters by tenant and leaves deleted entities out; the vector in the answer was stored before
the search began, so the answer shows at least that much.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, cast

from elasticsearch import ApiError

from ...lake.kept_cursors import KeptCursors
from ...schemas.arguments import Inside
from ...schemas.errors import InputError, InvalidPositionError, OperatorError
from ...schemas.positions import Cut, behind, merge
from ...schemas.settings import Settings
from ...schemas.urn import Urn
from ...schemas.within import Within
from ..connection import cause_of, is_away, is_failed_search, make_client, reason_of
from ..errors import IndexMissingError, InvalidCursorError, InvalidQueryError
from ..mapping import is_concrete
from ..waiting import Deadline, checked_timeout, is_gone_view, is_missing_index, wanted_marks
from .brought import BroughtWords
from .cursors import Cursor
from .described import SharedTexts
from .explain import Near, explain
from .foreign import JournalPartitions
from .grammar import Term
from .key_starts import known_keys, unknown_keys
from .notes import note_of
from .options import SearchOptions, Sort, checked_limit, checked_name, checked_options, checked_text, scopes_of
from .pages import RawHit, page_of
from .phrase_starts import unknown_starts
from .query import Ask
from .ranking import Tier, plain_word
from .readable import checked_within
from .results import Count, Hit, Results
from .suggest import Suggestion, suggest
from .typos import meant, misspelt_terms, near_words_of, nearest, unknown_terms

__all__ = ["Count", "Hit", "Results", "Search", "Sort", "Suggestion"]

_KEEP_ALIVE: Final = "2m"
_NOT_TAKEN: Final = frozenset({400, 413})
"""Answers to a request that is too large, or has a value that no document can have."""
_FAILED: Final = 500
"""From here on the answers say that the server failed, not the request."""
_REFUSED_S: Final = 1.0
"""How long a server that refuses connections is waited for, within the time-out: it is not running."""
_OF_A_CURSOR_S: Final = 2.0
"""How long the index is waited for until it shows what a cursor says was shown: anybody may write one."""
_OTHER_VIEW: Final = (
    f"The view of the earlier pages no longer exists ({_KEEP_ALIVE} passed, or the index was rebuilt). This page "
    "continues after their last hit in what the index shows now: an entity that has changed meanwhile may appear "
    "twice or not at all; start again without a cursor if that matters."
)


class Search:
    """Searches one index; safe to use from several threads.

    Args:
        settings: where Elasticsearch is, and the tenant.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._index = settings.elasticsearch.index
        self._partitions = JournalPartitions(settings)
        self._brought = BroughtWords(settings)
        self.cursors = KeptCursors(refusal=InvalidCursorError, named=settings.client.short_cursors)
        self._client = make_client(settings)
        self._closed = False

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back; what is asked later is refused."""
        self._closed = True
        self._client.close()

    def search(
        self,
        query: str = "",
        *,
        namespace: str | None = None,
        kinds: Collection[str] | str | None = None,
        scope: str | None = None,
        tenant: str | None = None,
        at_least: Inside | None = None,
        timeout_s: float = 10.0,
        limit: int = 20,
        cursor: str | None = None,
        sort: Sort = "relevance",
        facets: bool = False,
        paging: bool = True,
        within: Collection[Within] | None = None,
    ) -> Results:
        """Find entities by the grammar of `grammar`.

        Args:
            query: the user's text; empty for everything.
            namespace: only entities of this namespace.
            kinds: only entities of these kinds.
            scope: USER or SYSTEM: which metadata may match (names always may); None or BOTH for all.
            tenant: whose entities; `journal.tenant` of the settings if None.
            at_least: what the answer must include: an event's position or receipt, several of these, or a cut of next
                positions.
            timeout_s: seconds to wait for that and for an unavailable Elasticsearch.
            limit: maximum number of hits per page, 0 to 1,000.
            cursor: from an earlier answer to the same search; continues after its last hit, in the view of that answer.
                If the view no longer exists (after two minutes, or a rebuild of the index), it continues in what the
                index shows now, and `note` says so.
            sort: `relevance`, `name` or `creation_time` (newest first), with `:asc` or `:desc`; ties by URN.
            facets: count the hits by kind, namespace and tag.
            paging: whether the answer may have a cursor; without one the search is a little cheaper.
            within: only entities for which one of these conditions holds; none: no entity. Total, facets, pages and
                what is meant by a typing error are those of these entities alone. None: all entities.

        Raises:
            InvalidQueryError: the query is too long or an option is wrong.
            InvalidCursorError: the cursor is not valid, or belongs to another search.
            InputError: the search is closed, or `at_least` has a wrong type.
            InvalidPositionError: `at_least` belongs to another journal.
            NotYetVisibleError: the index did not show `at_least` in time; `behind` says how much is missing.
            IndexMissingError: there is no index yet.
            SearchUnavailableError: Elasticsearch does not answer.
            OperatorError: it refuses this client, or fails.
        """
        options = checked_options(
            query,
            tenant=self._tenant(tenant),
            namespace=namespace,
            kinds=kinds,
            scope=scope,
            sort=sort,
            limit=limit,
            facets=facets,
            within=within,
        )
        wanted = wanted_marks(at_least)
        if cursor is not None and options.limit == 0:
            raise InvalidQueryError("With a cursor limit must be at least 1.", option="limit")
        self._partitions.refuse_foreign(wanted)
        after = None if cursor is None else self._parsed(cursor, options)
        if after is not None:
            options = replace(options, misspelt=tuple(options.query.terms[number] for number in after.misspelt))
        deadline = self._deadline(timeout_s)
        try:
            if after is not None:
                return self._next_page(options, after, wanted, deadline)
            vector = self._shown(wanted, deadline)
            view = self._open(deadline) if paging and options.limit > 0 else None
            return self._page(options, vector, view, None, deadline)
        except ApiError as error:
            raise self._meaning(error) from error

    def _meaning(self, error: ApiError) -> Exception:
        """What an answer other than hits means to the caller."""
        if is_missing_index(error):
            return IndexMissingError(self._index)
        if error.status_code in _NOT_TAKEN:
            return InvalidQueryError(f"Elasticsearch does not accept this search: {cause_of(error)}.")
        url = self._settings.elasticsearch.url
        return OperatorError(
            f"Elasticsearch at {url} fails to answer ({reason_of(error)}): {cause_of(error)}.",
            hint="Its log has more details; search again once the cause is fixed.",
            code="search-failed",
            url=url,
        )

    def suggest_names(
        self,
        prefix: str = "",
        *,
        tenant: str | None = None,
        limit: int = 10,
        timeout_s: float = 10.0,
        after: str | None = None,
        within: Collection[Within] | None = None,
        at_least: Inside | None = None,
    ) -> list[Suggestion]:
        """Names that begin with a text, in any case, and how many entities have each; in alphabetical order.

        Args:
            after: only those behind this one, the last of an earlier answer.
            within, at_least: as of `search`.
        Raises:
            IndexMissingError, SearchUnavailableError, NotYetVisibleError: as `search`.
        """
        return self._suggest(("suggest_name",), prefix, tenant, limit, timeout_s, after, within, at_least)

    def suggest_keys(
        self,
        prefix: str = "",
        *,
        scope: str | None = None,
        tenant: str | None = None,
        limit: int = 10,
        timeout_s: float = 10.0,
        after: str | None = None,
        within: Collection[Within] | None = None,
        at_least: Inside | None = None,
    ) -> list[Suggestion]:
        """Metadata keys that begin with a text, and how many entities have each; in alphabetical order.

        Args:
            after, within, at_least: as of `suggest_names`.
        Raises:
            IndexMissingError, SearchUnavailableError, NotYetVisibleError: as `search`.
        """
        fields = tuple(f"{scope_name.lower()}.suggest_key" for scope_name in scopes_of(scope))
        return self._suggest(fields, prefix, tenant, limit, timeout_s, after, within, at_least)

    def _suggest(
        self,
        fields: tuple[str, ...],
        prefix: str,
        tenant: str | None,
        limit: int,
        timeout_s: float,
        after: str | None,
        within: Collection[Within] | None,
        at_least: Inside | None,
    ) -> list[Suggestion]:
        checked_text(prefix, "prefix")
        if after is not None:
            checked_text(after, "after")
        whose, most, seen = self._tenant(tenant), checked_limit(limit), checked_within(within)
        wanted, deadline = wanted_marks(at_least), self._deadline(timeout_s)
        try:
            if wanted:
                self._shown(wanted, deadline)
            return suggest(deadline, self._index, fields, prefix, tenant=whose, limit=most, after=after, within=seen)
        except ApiError as error:
            raise self._meaning(error) from error

    def _tenant(self, tenant: str | None) -> str:
        return self._settings.journal.tenant if tenant is None else checked_name(tenant, "tenant")

    def _deadline(self, timeout_s: float) -> Deadline:
        if self._closed:
            raise InputError("The search is closed.", hint="Connect again: Journal.connect().", code="closed")
        url = self._settings.elasticsearch.url
        return Deadline(self._client, url, checked_timeout(timeout_s), refused_s=_REFUSED_S)

    def _shown(self, wanted: Cut, deadline: Deadline) -> Cut:
        def doubt(lacking: Cut, shown: Cut) -> None:
            self._partitions.refuse_missing(lacking, shown, timeout_s=deadline.left_s)

        return deadline.shown(self._index, wanted, doubt).vector

    # --- pages

    def _parsed(self, text: str, options: SearchOptions) -> Cursor:
        cursor = Cursor.parse(self.cursors.whole(text), options)
        if not is_concrete(cursor.index, self._index):
            raise InvalidCursorError("The cursor belongs to another index.")
        try:
            self._partitions.refuse_foreign(cursor.vector)
        except InvalidPositionError as error:
            raise InvalidCursorError("The cursor belongs to another journal.") from error
        return cursor

    def _open(self, deadline: Deadline) -> str:
        opened = deadline.ask(lambda client: client.open_point_in_time(index=self._index, keep_alive=_KEEP_ALIVE))
        return cast(str, opened.body["id"])

    def _next_page(self, options: SearchOptions, cursor: Cursor, wanted: Cut, deadline: Deadline) -> Results:
        """The page behind a cursor: of the same point in time, else of a new one, which the answer says.

        The order's values are the same in every index, so both go on behind the same hit. A point in time that the
        server fails to read is as good as gone; where the server itself fails, so does the new one, in its own words.
        """
        if not behind(cursor.vector, wanted) and deadline.ask(lambda client: client.indices.exists(index=cursor.index)):
            try:
                return self._page(
                    options, cursor.vector, cursor.view, cursor.after, deadline, is_final=is_failed_search
                )
            except ApiError as error:
                if error.status_code in _NOT_TAKEN:
                    raise InvalidCursorError("This is not a valid search cursor.") from error
                if not (is_gone_view(error) or is_missing_index(error) or error.status_code >= _FAILED):
                    raise
        self._shown(wanted, deadline)
        brief = self._deadline(min(deadline.left_s, _OF_A_CURSOR_S))
        vector = self._shown(merge(cursor.vector, wanted), brief)
        page = self._page(options, vector, self._open(deadline), cursor.after, deadline)
        return replace(page, note=" ".join(filter(None, (page.note, _OTHER_VIEW))))

    def _page(
        self,
        options: SearchOptions,
        vector: Cut,
        view: str | None,
        after: list[Any] | None,
        deadline: Deadline,
        *,
        is_final: Callable[[Exception], bool] = lambda error: False,
    ) -> Results:
        where: dict[str, Any] = {"index": self._index}
        if view is not None:
            where = {"pit": {"id": view, "keep_alive": _KEEP_ALIVE}}

        def ask(request: dict[str, Any]) -> Mapping[str, Any]:
            answer = deadline.ask(
                lambda client: client.search(**where, **request),
                is_final=is_final,
            ).body
            if view is not None:
                where["pit"]["id"] = answer.get("pit_id", view)
            return cast(Mapping[str, Any], answer)

        options = replace(options, unknown=(*unknown_starts(options, ask), *unknown_keys(options, ask)))
        options = replace(options, known=known_keys(options, ask))
        page = page_of(options, after, ask, more=view is not None)
        hits = self._hits(options, page.hits)
        total = page.answer["hits"]["total"]["value"]
        if after is None:
            unknown = unknown_terms(options, {term for hit in hits for term in hit[1]}, total, ask)
            if misspelt := misspelt_terms(unknown):
                options = replace(options, misspelt=misspelt, unknown=(*options.unknown, *unknown))
                page = page_of(options, after, ask, more=view is not None)
                hits = self._hits(options, page.hits)
                total = page.answer["hits"]["total"]["value"]
        note = note_of(options.query, total, _meant(options, total, [hit for hit, _ in hits], ask))
        return Results(
            total=total,
            hits=tuple(hit for hit, _ in hits),
            position_vector=vector,
            facets=_facets(page.answer.get("aggregations", {})),
            cursor=None if view is None else self._cursor(options, vector, where["pit"]["id"], page.hits),
            note=note,
        )

    def _hits(self, options: SearchOptions, raw_hits: Sequence[RawHit]) -> list[tuple[Hit, frozenset[Term]]]:
        """The page's hits, and the terms that each one's reasons are of."""
        shown = raw_hits[: options.limit]
        self._brought.take_in(hit.state for hit in shown)
        misspelt = near_words_of(options.misspelt)
        shared = SharedTexts()
        return [_hit(options, hit, misspelt, shared) for hit in shown]

    def _cursor(self, options: SearchOptions, vector: Cut, view: str, hits: Sequence[RawHit]) -> str | None:
        """The cursor of the next page; at the end the point in time is given back."""
        if len(hits) > options.limit:
            last = hits[options.limit - 1]
            misspelt = tuple(options.query.terms.index(term) for term in options.misspelt)
            text = Cursor(view, last.index_name, last.place, vector, options.digest, misspelt).text()
            return self.cursors.name(text)
        try:
            self._client.options(request_timeout=1.0).close_point_in_time(id=view)
        except Exception as error:
            if not (is_away(error) or (isinstance(error, ApiError) and is_gone_view(error))):
                raise
        return None


def _hit(
    options: SearchOptions, raw_hit: RawHit, misspelt: Mapping[Term, Near], shared: SharedTexts
) -> tuple[Hit, frozenset[Term]]:
    state = raw_hit.state
    explained = explain(options.query.terms, state, options.scopes, misspelt, shared)
    hit = Hit(
        urn=Urn(state["urn"]),
        kind=state["kind"],
        namespace=state["namespace"],
        name=state["name"],
        tier=Tier(int(raw_hit.score)) if options.query.ranked else None,
        score=raw_hit.score,
        why=explained.why,
        document=state,
    )
    return hit, explained.terms


def _meant(options: SearchOptions, total: int, hits: Sequence[Hit], ask: Ask) -> dict[str, str]:
    """The nearest known words, where the query has unknown ones alone."""
    if total == 0:
        return nearest(options, ask)
    words = [plain_word(term) for term in options.misspelt]
    return meant(words, (why for hit in hits for why in hit.why)) if len(words) == len(options.query.terms) else {}


def _facets(aggregations: Mapping[str, Any]) -> dict[str, tuple[Count, ...]]:
    return {
        name: tuple(Count(bucket["key"], bucket["doc_count"]) for bucket in facet["buckets"])
        for name, facet in aggregations.items()
    }
