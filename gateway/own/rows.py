"""An entity's row as an answer: the newest one, or the one as at a point of the journal or as of a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from ...client import Journal
from ...rules.entity import EntityRow
from ...schemas.endpoints import READ, Answer, Parameter, Request
from ...schemas.errors import InvalidUrnError
from ...schemas.positions import Position
from ...schemas.registry import domain_named
from ...schemas.urn import Urn, urn
from ...values import entity_json, moment, point, positions

AS_AT = Parameter("as_at", "What the journal had recorded by a position, several of them, or a time.", read=point)
_POINTS: Final = ("as_at", "from", "to")
AS_OF = Parameter("as_of", "What was true at a time, whenever it was recorded.", read=moment)


def entity_answer(answer: Answer, row: EntityRow) -> Answer:
    """An answer about an entity, named by its row's logical timestamp."""
    return answer if answer.etag is not None else replace(answer, etag=str(row.logical_timestamp))


def read_then(journal: Journal, of_row: Callable[[Any, Request, Any], Answer], request: Request) -> Answer:
    """The answer of a row as at a point; whether later events can change it stands in a header.

    Raises:
        UnknownEntityError: the entity did not exist then.
        NotFinalError: the lake has not passed that point.
    """
    found = journal.answer(request.entity, tenant=request.tenant, **points_of(request))
    assert found.row is not None  # an entity that is not there is an UnknownEntityError
    answer = of_row(found.row, request, journal)
    return replace(answer, headers={**answer.headers, "Metajournal-Final": str(found.final).lower()})


def points_of(request: Request) -> dict[str, Any]:
    """The query's `as_at` and `as_of`, as questions take them. Raises: InputError: one is no point."""
    asked: dict[str, Any] = {}
    if "as_at" in request.query:
        asked["as_at"] = point(request.query["as_at"])
    if "as_of" in request.query:
        asked["as_of"] = moment(request.query["as_of"])
    return asked


def positions_named(query: Mapping[str, str]) -> list[Position]:
    """The positions as at which something is asked for. Raises: InvalidPositionError."""
    texts = (query[name] for name in _POINTS if "/" in query.get(name, ""))
    return [position for text in texts for position in positions(text)]


def may_name(value: Any, request: Request) -> bool:
    """Whether all entities may be read that a value names, whole texts in it."""
    if isinstance(value, Mapping):
        return all(may_name(one, request) for one in value.values())
    if isinstance(value, list | tuple):
        return all(may_name(one, request) for one in value)
    if not isinstance(value, str):
        return True
    try:
        return request.may(READ, Urn.parse(value))
    except InvalidUrnError:
        return True


def may(request: Request, action: str, entity: str) -> bool:
    """Whether an entity may be acted on that a record names: who writes past our client may call it anything, and that
    nobody may read.
    """
    try:
        return request.may(action, Urn.parse(entity))
    except InvalidUrnError:
        return False


def shown_row(row: EntityRow, request: Request) -> dict[str, Any]:
    """An entity's row as JSON, without what its record says by the name of another one that may not be read."""
    value = entity_json(row)
    hide(value, request)
    return value


def hide(row: dict[str, Any], request: Request) -> None:
    """Take out of a row's JSON what its record says by the name of another entity that may not be read: by its URN, or
    by the part of that which the row's domain declares (`Domain.names`)."""
    if record := row.get("record"):
        of = Urn.parse(row["urn"])
        domain = domain_named(of.domain)
        names = () if domain is None else domain.names
        kinds = {named.field: named.other for named in names if named.kind == of.kind}
        fields = ((key, _told(value, of, kinds.get(key), request)) for key, value in record.items())
        row["record"] = {key: value for key, value in fields if value is not _UNTOLD}


_UNTOLD: Final = object()


def _told(value: Any, of: Urn, kind: str | None, request: Request) -> Any:
    """A field of a record, of a list what may be told of it.

    Args:
        of: whose record it is.
        kind: of the entities whose names are in it; None: only URNs name any.
    """
    if isinstance(value, str):
        may_tell = may_name(value, request) if kind is None else _may_tell(kind, of, value, request)
        return value if may_tell else _UNTOLD
    if isinstance(value, list | tuple):
        told = (_told(one, of, kind, request) if isinstance(one, str) else one for one in value)
        return [one for one in told if one is not _UNTOLD]
    return value


def _may_tell(kind: str, of: Urn, name: str, request: Request) -> bool:
    """Whether another entity of an aggregate may be read; what is no name of one is not told either."""
    try:
        return request.may(READ, urn(kind, *of.aggregate.parts, name))
    except InvalidUrnError:
        return False
