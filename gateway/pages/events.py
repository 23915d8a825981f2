"""An event: where it stands, the verdict on it, what it made, and whether the index shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...client import Journal
from ...schemas.endpoints import READ, Need, Parameter, Request
from ...schemas.errors import InputError, UnknownEventError
from ...schemas.pages import Page, Shown
from ...schemas.rejections import next_step
from ..own.events import trace_of


def _event(journal: Journal, request: Request) -> Shown:
    wanted = request.query.get("event", "").strip()
    values: dict[str, Any] = {"next_step": next_step, "wanted": wanted, "trace": None, "unknown": None}
    if not wanted:
        return Shown("event.html", values)
    try:
        values["trace"] = trace_of(journal, request, wanted)
    except UnknownEventError as error:
        return Shown("event.html", {**values, "unknown": error}, 404)
    except InputError as error:
        return Shown("event.html", {**values, "unknown": error}, 400)
    return Shown("event.html", values)


def _may_read(request: Request) -> Sequence[Need]:
    return (Need(READ),)


EVENT: Final = Page(
    "GET", "/event", "What became of an event.", show=_event, needs=_may_read, menu="Event",
    query=(Parameter("event", "Its id or position."),),
)  # fmt: skip
