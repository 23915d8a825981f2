"""Completion of names and metadata keys.

Each completion is a term `<tenant>/<folded text>=<text>`, so the index's own term dictionary gives the ones of a tenant
that begin with a text, in order, in a few milliseconds. The dictionary also holds what no living document has any
more, so each candidate is counted before it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from . import terms
from .waiting import Deadline

_BATCH: Final = 50
_BATCHES: Final = 20


class Suggestion(NamedTuple):
    """A name or key, and how many entities have it."""

    text: str
    entities: int


def suggest(
    deadline: Deadline, index: str, fields: Sequence[str], prefix: str, *, tenant: str, limit: int
) -> list[Suggestion]:
    """Completions of a prefix that living entities have, in order.

    Args:
        fields: the fields to look in; an entity that has a text in two of them counts once.
    """
    start = f"{tenant}/{terms.encode(terms.fold(prefix.lstrip()))}"
    found: list[Suggestion] = []
    for batch in _batches(deadline, index, fields, start):
        found += _counted(deadline, index, fields, batch, tenant)
        if len(found) >= limit:
            break
    return found[:limit]


def _batches(deadline: Deadline, index: str, fields: Sequence[str], start: str) -> Iterator[list[str]]:
    """Terms in order, some at a time; from several fields only those that none of them has cut off."""
    after: str | None = None
    for _ in range(_BATCHES):
        answers = [_terms(deadline, index, field, start, after) for field in fields]
        full = [answer[-1] for answer in answers if len(answer) == _BATCH]
        border = min(full, default=None)
        batch = sorted({term for answer in answers for term in answer if border is None or term <= border})
        if batch:
            yield batch
        if border is None:
            return
        after = border


def _terms(deadline: Deadline, index: str, field: str, start: str, after: str | None) -> list[str]:
    more: dict[str, Any] = {} if after is None else {"search_after": after}
    answer = deadline.ask(
        lambda client: client.terms_enum(index=index, field=field, string=start, size=_BATCH, **more)
    ).body
    return list(answer["terms"])


def _counted(deadline: Deadline, index: str, fields: Sequence[str], batch: list[str], tenant: str) -> list[Suggestion]:
    filters = {
        str(at): {"bool": {"should": [{"term": {field: {"value": term}}} for field in fields]}}
        for at, term in enumerate(batch)
    }
    query = {"bool": {"filter": [{"term": {"tenant": tenant}}, {"term": {"deleted": False}}]}}
    answer = deadline.ask(
        lambda client: client.search(
            index=index, size=0, query=query, aggs={"terms": {"filters": {"filters": filters}}}, track_total_hits=False
        )
    ).body
    buckets = answer["aggregations"]["terms"]["buckets"]
    counted = [Suggestion(term.partition("=")[2], buckets[str(at)]["doc_count"]) for at, term in enumerate(batch)]
    return [one for one in counted if one.entities]
