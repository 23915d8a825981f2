"""The first page: where to search, what there is, what is new, and how far the pipeline is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...client import Journal
from ...schemas.endpoints import PIPELINE, Need, Request
from ...schemas.errors import MetajournalError, UnavailableError
from ...schemas.pages import Page, Shown
from .pipeline import freshness

_NEWEST: Final = 10


def _home(journal: Journal, request: Request) -> Shown:
    found, problem = None, None
    if request.within:
        try:
            found = journal.search(
                "", tenant=request.tenant, limit=_NEWEST, sort="creation_time:desc", facets=True, within=request.within
            )
        except UnavailableError as error:
            problem = error
    told = freshness(journal) if request.rights.anywhere(PIPELINE) else None
    return Shown(
        "home.html",
        {"found": found, "problem": shown_problem(problem), "may_read": bool(request.within), "freshness": told},
    )


def shown_problem(error: MetajournalError | None) -> dict[str, Any] | None:
    """Why a part of a page is not there."""
    return None if error is None else {"detail": error.message, "hint": error.hint}


def _nothing(request: Request) -> Sequence[Need]:
    return ()


HOME: Final = Page(
    "GET", "/", "What there is, what is new.", show=_home, needs=_nothing, waits_itself=True, menu="Home"
)
