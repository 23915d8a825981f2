"""Events over HTTP: sent as `metajournal emit -` sends them, and followed as `metajournal why` does."""

from __future__ import annotations

from typing import Any, Final

from ...client import Journal
from ...schemas.endpoints import READ, WRITE, Answer, Endpoint, Need, Parameter, Request
from ...schemas.errors import UnavailableError, UnknownEventError
from ...schemas.shapes import EMITTED, EMITTED_UNIT, RECORDED, REFUSED, TRACE
from ...tracing import Step, Trace
from ...values import trace_json
from .rows import may, may_name

_SHELVED: Final = "shelved"
_SENT: Final = (
    RECORDED, {"ok": bool, "results": [(EMITTED, REFUSED)]}, {**EMITTED_UNIT, "outcome?": str},
)  # fmt: skip
"""Of one event, of lines, and of a unit."""


def _why(journal: Journal, request: Request) -> Answer:
    return Answer(trace_json(trace_of(journal, request, "/".join(request.parts.values()))))


def trace_of(journal: Journal, request: Request, wanted: str) -> Trace:
    """Where an event is.

    Args:
        wanted: its id or position.
    Raises:
        UnknownEventError: there is none, it is another tenant's, or it speaks of what may not be read.
        UnavailableError: whether there is one is not known yet.
        InputError: the text is neither.
    """
    try:
        trace = journal.why(wanted)
    except UnknownEventError as error:
        if error.data.get("whole") is False:
            raise UnavailableError(
                "The lake does not have that event, and what the journal has beyond it could not be read in time.",
                code="not-yet-visible", hint="Ask again in a while: the stream is far behind.",
            ) from None  # fmt: skip
        raise _unknown(wanted) from None
    steps = tuple(_readable(step, request) for step in trace.steps if _is_shown(step, request))
    if not steps:
        raise _unknown(wanted)
    return trace._replace(steps=steps)


def _is_shown(step: Step, request: Request) -> bool:
    """Whether all that an event speaks of may be read, or it names the asker as its actor and is about what they may
    write; nothing vouches for what a shelved record says."""
    if step.tenant != request.tenant or step.outcome == _SHELVED:
        return False
    if step.actor == request.actor and all(may(request, WRITE, entity) for entity in step.entities):
        return True
    return all(may(request, READ, entity) for entity in step.entities)


def _readable(step: Step, request: Request) -> Step:
    """A step without the rows, and the detail, that name other entities which may not be read."""
    rows = tuple(row for row in step.rows if all(may_name(value, request) for value in row.key.values()))
    return step._replace(rows=rows, detail=step.detail if may_name(step.detail, request) else None)


def _unknown(wanted: str) -> UnknownEventError:
    return UnknownEventError(f"There is no event {wanted!r:.120}.", hint="Check its id or position.")


def _needs(request: Request) -> tuple[Need, ...]:
    return ()  # whoever writes may see what became of it; of others' events what may be read is shown


EVENTS: Final = (
    Endpoint(
        "POST", "/api/v1/events", "Send events: one as JSON, or one a line as NDJSON.", lines=True, body=dict[str, Any],
        answer=_SENT,
        query=(
            Parameter("unit", "All of them are in the journal afterwards, or none.", bool),
            Parameter("outcome", "Wait for the verdict on each line too.", bool),
        ),
    ),
    Endpoint(
        "GET", "/api/v1/events/{event}", "Where an event is, by its id, and what became of it.", read=_why,
        needs=_needs, answer=TRACE,
    ),
    Endpoint(
        "GET", "/api/v1/events/{topic}/{partition}/{value}", "Where an event is, by its position.", read=_why,
        needs=_needs, answer=TRACE,
    ),
)  # fmt: skip
