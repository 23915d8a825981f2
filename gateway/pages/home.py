"""The first page: where to search, what there is, what is new, and how far the pipeline is.

Kinds of which many come at once (runs, commits) leave room for the others: what is new is a few of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ...client import Journal
from ...indexer.search.results import Count, Hit
from ...schemas.endpoints import PIPELINE, Request
from ...schemas.errors import MetajournalError, UnavailableError
from ...schemas.pages import Page, Shown
from ..own_writes import with_own
from ..problems import words_of
from .needs import needs_nothing
from .pipeline import freshness

_NEWEST: Final = 10
_LOOKED: Final = 50
"""So many of the newest entities are looked at for those that are listed."""
_OF_A_KIND: Final = 3
_NAMED_KINDS: Final = 4


def _home(journal: Journal, request: Request) -> Shown:
    found, problem, is_behind = None, None, False
    search = partial(
        journal.search, "", tenant=request.tenant, limit=_LOOKED, sort="creation_time:desc", facets=True, paging=False,
        within=request.within,
    )  # fmt: skip
    if request.within:
        try:
            found, is_behind = with_own(search, request.at_least)
        except UnavailableError as error:
            problem = error
    told = freshness(journal) if request.rights.anywhere(PIPELINE) else None
    values: dict[str, Any] = {
        "found": found, "problem": shown_problem(problem, journal), "may_read": bool(request.within), "freshness": told,
        "is_behind": is_behind,
    }  # fmt: skip
    if found is not None and found.total:
        values |= {"counted": counted(found.total, found.facets["kind"]), "newest": newest(found.hits)}
    return Shown("home.html", values)


def newest(hits: Sequence[Hit]) -> list[Hit]:
    """The hits to list, in their order: a few of each kind, more where few kinds are among them."""
    kinds = len({hit.kind for hit in hits})
    most, listed = max(_OF_A_KIND, _NEWEST // max(1, kinds)), Counter[str]()
    shown = []
    for hit in hits:
        listed[hit.kind] += 1
        if listed[hit.kind] <= most:
            shown.append(hit)
    return shown[:_NEWEST]


def counted(total: int, kinds: Sequence[Count]) -> str:
    """How many entities there are, in words: of each of the most frequent kinds, and of all others.

    Args:
        kinds: how many there are of each, the most frequent first.
    """
    told = [f"{one.hits} {one.value if one.hits == 1 else plural(one.value)}" for one in kinds[:_NAMED_KINDS]]
    rest = total - sum(one.hits for one in kinds[:_NAMED_KINDS])
    if rest:
        told.append(f"{rest} {'other' if rest == 1 else 'others'}")
    if len(told) == 1:
        return told[0]
    return f"{total} entities: {', '.join(told[:-1])} and {told[-1]}"


def plural(kind: str) -> str:
    """The plural of a kind's name."""
    if kind.endswith("s"):
        return kind
    if kind.endswith("y") and kind[-2:-1] not in "aeiou":
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith(("ch", "sh", "x")) else f"{kind}s"


def shown_problem(error: MetajournalError | None, journal: Journal) -> dict[str, Any] | None:
    """Why a part of a page is not there."""
    if error is None:
        return None
    message, hint = words_of(error, is_local=journal.settings.gateway.tells_all)
    return {"detail": message, "hint": hint}


HOME: Final = Page(
    "GET", "/", "What there is, what is new.", show=_home, needs=needs_nothing, waits_itself=True, includes_own=True,
    menu="Home",
)  # fmt: skip
