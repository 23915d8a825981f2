"""Completion of names and metadata keys.

Each completion is a term (`keys.suggestion`), so the index's own term dictionary gives the ones of a tenant that begin
with a text, in order, in a few milliseconds. The dictionary also holds what no living document has any more, so each
candidate is counted before it is shown; and where it holds hardly anything else, the documents themselves are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ...schemas.within import Within
from .. import terms
from ..keys import completion_start, suggested, suggestion
from ..waiting import Deadline
from .query import Dsl, begins
from .readable import readable

_BATCH: Final = 50
_LEAST_SHARE: Final = 0.2
"""The living among the terms that the dictionary gave; below it, documents are asked."""


class Suggestion(NamedTuple):
    """A name or key, and how many entities have it."""

    text: str
    entities: int


_Source = Callable[[str, str | None], list[str] | None]
"""The first terms of a field, behind another one; None where the source cannot tell."""


def suggest(
    deadline: Deadline,
    index: str,
    fields: Sequence[str],
    prefix: str,
    *,
    tenant: str,
    limit: int,
    after: str | None = None,
    within: Sequence[Within] | None = None,
) -> list[Suggestion]:
    """Completions of a prefix that living entities have, in order.

    Args:
        fields: the fields to look in; an entity that has a text in two of them counts once.
        after: only completions behind this one.
        within: entities that count; None: all.
    """
    start = completion_start(tenant, terms.fold(prefix.lstrip()))
    living: list[Dsl] = [{"term": {"tenant": tenant}}, {"term": {"deleted": False}}]
    living += [] if within is None else [readable(within)]
    documents: _Source = partial(_of_documents, deadline, index, start, living)
    source: _Source = partial(_of_dictionary, deadline, index, start)
    suggestions: list[Suggestion] = []
    seen, last = 0, None if after is None else suggestion(tenant, terms.fold(after.strip()), after)
    while True:
        answers = [source(field, last) for field in fields]
        if any(answer is None for answer in answers):
            source = documents
            continue
        batch, last = _merged([answer for answer in answers if answer is not None])
        suggestions += _counted(deadline, index, fields, batch, living)
        seen += len(batch)
        if len(suggestions) >= limit or last is None:
            return suggestions[:limit]
        if len(suggestions) < seen * _LEAST_SHARE:
            source = documents


def _merged(answers: list[list[str]]) -> tuple[list[str], str | None]:
    """The terms of several fields in order, only those that none of them has cut off; the last one, if any has."""
    border = min((answer[-1] for answer in answers if len(answer) == _BATCH), default=None)
    return sorted({term for answer in answers for term in answer if border is None or term <= border}), border


def _of_dictionary(deadline: Deadline, index: str, start: str, field: str, after: str | None) -> list[str] | None:
    more: dict[str, Any] = {} if after is None else {"search_after": after}
    answer = deadline.ask(
        lambda client: client.terms_enum(index=index, field=field, string=start, size=_BATCH, **more)
    ).body
    return list(answer["terms"]) if answer["complete"] else None


def _of_documents(
    deadline: Deadline, index: str, start: str, living: list[Dsl], field: str, after: str | None
) -> list[str]:
    """The same of what living documents have. No term is `start` alone, so none is left out where it is `after`."""
    query: Dsl = {"bool": {"filter": [*living, begins(field, start)]}}
    terms_in_order = {"size": _BATCH, "sources": [{"term": {"terms": {"field": field}}}]}
    behind = {"after": {"term": start if after is None else after}}
    answer = deadline.ask(
        lambda client: client.search(
            index=index,
            size=0,
            query=query,
            aggs={"terms": {"composite": {**terms_in_order, **behind}}},
            track_total_hits=False,
        )
    ).body
    completions = [str(bucket["key"]["term"]) for bucket in answer["aggregations"]["terms"]["buckets"]]
    return [term for term in completions if term.startswith(start)]


def _counted(
    deadline: Deadline, index: str, fields: Sequence[str], batch: list[str], living: list[Dsl]
) -> list[Suggestion]:
    if not batch:
        return []
    filters = {
        str(number): {"bool": {"should": [{"term": {field: {"value": term}}} for field in fields]}}
        for number, term in enumerate(batch)
    }
    answer = deadline.ask(
        lambda client: client.search(
            index=index,
            size=0,
            query={"bool": {"filter": living}},
            aggs={"terms": {"filters": {"filters": filters}}},
            track_total_hits=False,
        )
    ).body
    buckets = answer["aggregations"]["terms"]["buckets"]
    counted = [Suggestion(suggested(term), buckets[str(number)]["doc_count"]) for number, term in enumerate(batch)]
    return [suggestion for suggestion in counted if suggestion.entities]
