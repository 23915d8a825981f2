"""Names as one types: what a script puts below a search field. Without it the field is as good as before."""

from __future__ import annotations

from typing import Final

from ...client import Journal
from ...schemas.endpoints import Parameter, Request
from ...schemas.pages import Page, Shown
from .needs import needs_reading

_NAMES: Final = 10
_LONGEST: Final = 200


def _completions(journal: Journal, request: Request) -> Shown:
    prefix = request.query.get("query", "").strip()
    names = []
    if prefix and len(prefix) <= _LONGEST:
        names = journal.suggest_names(prefix, tenant=request.tenant, limit=_NAMES, within=request.within)
    return Shown("completions.html", {"names": names})


COMPLETIONS: Final = Page(
    "GET", "/suggest", "Names that begin with what was typed.", show=_completions, needs=needs_reading,
    waits_itself=True,
    query=(Parameter("query", "What was typed."),),
)  # fmt: skip
