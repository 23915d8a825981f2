"""Questions about entities of every kind: what one is, was, and how two of its states differ."""

from __future__ import annotations

from typing import Any, Final

from ...client import Journal
from ...rules.entity import EntityRow
from ...schemas.endpoints import Answer, Endpoint, Parameter, Request, number
from ...schemas.errors import InputError
from ...schemas.shapes import DIFFERENCE, ENTITY, REVISION
from ...values import moment, point
from .rows import AS_AT, AS_OF, shown_row

_ROWS: Final = 1_000
_LAST: Final = (1 << 63) - 1
"""The greatest logical timestamp."""
_BYTES: Final = 8 * 1024 * 1024
_AT_ONCE: Final = 100
"""Rows that are read together."""
_BACK: Final = frozenset({"before", "cursor"})
"""What asks for earlier changes, to which none comes any more."""


def _show(row: EntityRow, request: Request, journal: Any) -> Answer:
    return Answer(shown_row(row, request), by_rights=bool(row.record))


def history(journal: Journal, request: Request, most: int = 100) -> Answer:
    """The newest rows, oldest first, and the page before them; fewer where they are large.

    Args:
        most: rows of a page, where the query does not say it.
    """
    limit, before = request.whole("limit", most, _ROWS), None
    if "before" in request.query or "cursor" in request.query:
        name = "cursor" if "cursor" in request.query else "before"  # the next page's address has both
        before = request.whole(name, 0, _LAST, least=0)
    as_of = moment(request.query["as_of"]) if "as_of" in request.query else None
    page, more = _newest(journal, request, limit, before, as_of)
    shown = [{**shown_row(row, request), "position": str(journal.lake.position_of(row))} for row in page]
    return Answer(shown, next={"cursor": str(page[0].logical_timestamp)} if more else None)


def _newest(
    journal: Journal, request: Request, limit: int, before: int | None, as_of: int | None
) -> tuple[list[EntityRow], bool]:
    """So many of the newest rows in front of a place, oldest first, and whether there are more; each has all metadata
    of its entity, so as many as `_BYTES` take end a page, too."""
    kept: list[EntityRow] = []
    left_bytes = _BYTES
    while True:
        wanted = min(limit - len(kept), _AT_ONCE) + 1
        rows = journal.history(request.entity, limit=wanted, before=before, as_of=as_of, tenant=request.tenant)
        for row in reversed(rows):
            left_bytes -= _size(row)
            if len(kept) == limit or (kept and left_bytes < 0):
                return kept[::-1], True
            kept.append(row)
        if len(rows) < wanted:
            return kept[::-1], False
        before = rows[0].logical_timestamp


def _size(row: EntityRow) -> int:
    """About how much a row is, in characters."""
    both = (*row.user_properties.items(), *row.system_properties.items())
    said = sum(len(key) + len(value) for key, value in both)
    return said + sum(map(len, (*row.user_tags, *row.system_tags))) + len(str(row.record or ""))


def diff(journal: Journal, request: Request) -> Answer:
    """Two states of an entity, and what differs; by default the newest and the one before it."""
    if "from" not in request.query and "to" in request.query:
        raise InputError("`to` needs a `from`.", hint="Give both, `from` alone, or neither.")
    if "from" in request.query:
        asked, tenant = request.query, request.tenant
        left = journal.answer(request.entity, as_at=point(asked["from"]), tenant=tenant).row
        later = point(asked["to"]) if "to" in asked else None
        right = journal.answer(request.entity, as_at=later, tenant=tenant).row
    else:
        rows = journal.history(request.entity, limit=2, tenant=request.tenant)
        left, right = (rows[0] if len(rows) == 2 else None), rows[-1]
    assert right is not None
    before = None if left is None else shown_row(left, request)
    after = shown_row(right, request)
    differences = {scope: scope_diff((before or {}).get(scope, _NOTHING), after[scope]) for scope in ("user", "system")}
    return Answer({"from": before, "to": after, "differences": differences})


_NOTHING: Final[dict[str, Any]] = {"properties": {}, "tags": []}


def scope_diff(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What was added and removed in one scope; a changed value is both."""
    old, new = before["properties"], after["properties"]
    added = {key: value for key, value in new.items() if old.get(key) != value}
    removed = {key: value for key, value in old.items() if new.get(key) != value}
    tags = (set(after["tags"]) - set(before["tags"]), set(before["tags"]) - set(after["tags"]))
    return {
        "additions": {"properties": added, "tags": sorted(tags[0])},
        "deletions": {"properties": removed, "tags": sorted(tags[1])},
    }


ENTITIES: Final = (
    Endpoint(
        "GET", "/api/v1/entities/{urn}", "An entity: its metadata in both scopes, and when it was written.",
        row=_show, answer=ENTITY, query=(AS_AT, AS_OF),
    ),
    Endpoint(
        "GET", "/api/v1/history/{urn}", "The changes of an entity, oldest first; pages go back from the newest.",
        read=history, is_whole=lambda request: not _BACK & request.query.keys(), answer=[REVISION],
        query=(
            number("limit", "Most changes of a page.", _ROWS),
            number("before", "Only changes below this logical timestamp.", _LAST, least=0),
            number("cursor", "Of the page before.", _LAST, least=0)._replace(type=str), AS_OF,
        ),
    ),
    Endpoint(
        "GET", "/api/v1/diff/{urn}", "Two states of an entity, and how they differ.", read=diff,
        is_whole=lambda request: "to" not in request.query,
        answer=DIFFERENCE,
        query=(
            Parameter("from", "A position or a time.", read=point),
            Parameter("to", "A position or a time; now if omitted.", read=point),
        ),
    ),
)  # fmt: skip
