"""The page of all sessions: who is logged in, until when, with a form that ends each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ....schemas.endpoints import READ, WRITE, Need, Request
from ....schemas.pages import Page, Shown
from ..rights import READ_ACCESS
from ..urns import principal_urn

_USE: Final = "session"
_MOST: Final = 200


def _sessions(journal: Any, request: Request) -> Shown:
    names = [one.name for one in journal.access.principals(tenant=request.tenant)]
    found = [
        key
        for name in names if request.may(READ, principal_urn(name))
        for key in journal.access.keys(name, tenant=request.tenant)
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
