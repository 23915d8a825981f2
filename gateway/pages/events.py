"""An event: where it stands, the verdict on it, what it made, and whether the index shows it.

Whoever writes may see what became of it, so the page needs no right; of others' events it shows what may be read.
"""

from __future__ import annotations

from typing import Any, Final

from ...client import Journal
from ...schemas.endpoints import Parameter, Request
from ...schemas.errors import InputError, UnknownEventError
from ...schemas.pages import Page, Shown
from ...schemas.rejections import detail_in_words, next_step
from ..own.events import trace_of
from .needs import needs_nothing


def _event(journal: Journal, request: Request) -> Shown:
    wanted = request.query.get("event", "").strip()
    values: dict[str, Any] = {"wanted": wanted, "trace": None, "unknown": None}
    values |= {"next_step": next_step, "in_words": detail_in_words}
    if not wanted:
        return Shown("event.html", values)
    try:
        values["trace"] = trace_of(journal, request, wanted)
    except UnknownEventError as error:
        return Shown("event.html", {**values, "unknown": error}, 404)
    except InputError as error:
        return Shown("event.html", {**values, "unknown": error}, 400)
    return Shown("event.html", values)


EVENT: Final = Page(
    "GET", "/event", "What became of an event.", show=_event, needs=needs_nothing, menu="Event",
    query=(Parameter("event", "Its id or position."),),
)  # fmt: skip
