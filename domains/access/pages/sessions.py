"""The page of all sessions: who is logged in, until when, with a form that ends each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ....schemas.endpoints import READ, WRITE, Need, Request
from ....schemas.pages import Page, Shown
from ..http import HEARD_S
from ..rights import READ_ACCESS
from ..urns import principal_urn

_USE: Final = "session"
_MOST: Final = 200


def _sessions(journal: Any, request: Request) -> Shown:
    with journal.access.opened(timeout_s=HEARD_S) as known:
        names = [one.name for one in known.principals(request.tenant)]
        keys = [key for name in names for key in known.keys(request.tenant, name)]
    found = [
        key
        for key in keys if request.may(READ, principal_urn(key.principal))
        if key.use == _USE and (key.not_after or 0) >= request.at_ms
    ]  # fmt: skip
    found.sort(key=lambda key: key.logical_timestamp, reverse=True)
    shown = [(key, request.may(WRITE, principal_urn(key.principal))) for key in found[:_MOST]]
    return Shown("access/sessions.html", {"sessions": shown, "more": len(found) - len(shown)})


def _any_access(request: Request) -> Sequence[Need]:
    return (Need(READ_ACCESS),)


SESSIONS_PAGE: Final = Page(
    "GET", "/access/sessions", "Who is logged in.", READ_ACCESS, show=_sessions, needs=_any_access
)
