"""Whether an event is the one that stands in the journal already under its id: what a repeated request is held against.

Its bytes are read from the journal table or, where that does not hold them yet, as one record of the topic.
"""

from __future__ import annotations

from typing import Final

from ..client import Journal
from ..consumers.finding import value_at
from ..lake.events import payload_at
from ..schemas.encoding.codec import decode
from ..schemas.endpoints import Request
from ..schemas.errors import DecodeError, UnavailableError, UnknownEventError
from ..schemas.events.base import Event
from ..schemas.positions import Position

_LIMIT_S: Final = 5.0


def is_same_event(journal: Journal, position: Position, event: Event, *, actor: str, expected: int | None) -> bool:
    """Whether the event at a position has the same type, fields, condition and actor.

    Raises:
        UnavailableError: it cannot be read.
    """
    value = _value(journal, position)
    if value is None:
        raise UnavailableError(f"The event at {position} cannot be read.", code="first-unread")
    try:
        first = decode(value)
    except DecodeError:
        return False
    return (first.event, first.header.actor, first.header.expected) == (event, actor, expected)


def stands_already(journal: Journal, event_id: str | None, asked: Request, *, by_anybody: bool = False) -> bool:
    """Whether an event of that id, by who asks and about the same aggregate, is in the journal.

    Args:
        by_anybody: one by somebody else of the tenant counts, too.
    Raises:
        UnavailableError: that is not known yet.
    """
    if event_id is None:
        return False
    try:
        steps = journal.why(event_id).steps
    except UnknownEventError as error:
        if error.data.get("whole") is False:
            raise UnavailableError(
                "Whether that request was made before is not known yet.", code="not-yet-visible",
                hint="Ask again in a while: the stream is far behind.",
            ) from None  # fmt: skip
        return False
    same = asked.tenant, str(asked.entity.aggregate)
    return any((step.tenant, step.aggregate) == same and (by_anybody or step.actor == asked.actor) for step in steps)


def _value(journal: Journal, position: Position) -> bytes | None:
    try:
        held = journal.lake.of_all_tables(lambda view: None if view is None else payload_at(view, position))
    except UnavailableError:  # no lake yet
        held = None
    return held or value_at(journal.settings, position, timeout_s=_LIMIT_S)
