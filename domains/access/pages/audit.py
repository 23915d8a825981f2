"""The page of the audit: who was refused, logged in, changed rights or read, the newest first.

Shown are records of the reader's own tenant, each to whoever may read its principal. Requests without a valid key, of
which nobody knows the tenant, are shown to whoever may read all principals, and without the entity that they name. An
entity is named to whoever may read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from ....consumers.audit_records import audit_page
from ....schemas.endpoints import READ, Need, Parameter, Request
from ....schemas.errors import MetajournalError
from ....schemas.pages import Page, Shown
from ....schemas.times import time_ms
from ....schemas.urn import Urn
from ....schemas.within import are_all_within
from ..rights import READ_ACCESS
from ..urns import KEY, PRINCIPAL, ROLE, name_fault, principal_urn

_ALL, _DONE, _REFUSED = "all", "done", "refused"
_OUTCOMES: Final = (_ALL, _DONE, _REFUSED)
_FAILED: Final = 400
_MOST_OFFSET: Final = 10**15


def _audit(journal: Any, request: Request) -> Shown:
    who, outcome = request.query.get("principal", "").strip(), request.choice("outcome", _OUTCOMES, _ALL)
    before = request.whole("before", _MOST_OFFSET, _MOST_OFFSET, least=0)
    sees_all = are_all_within(f"{PRINCIPAL}:", request.within)

    def is_wanted(record: Mapping[str, Any]) -> bool:
        if outcome != _ALL and (record["status"] >= _FAILED) != (outcome == _REFUSED):
            return False
        return (not who or record.get("principal") == who) and _is_shown(request, record, sees_all=sees_all)

    page = audit_page(journal.settings, is_wanted, before=before)
    older = None if page.before is None else urlencode({"principal": who, "outcome": outcome, "before": page.before})
    values = {
        "records": [_record(request, record) for record in page.records], "who": who,
        "outcome": outcome, "older": older, "is_newest": "before" not in request.query,
    }  # fmt: skip
    return Shown("access/audit.html", values)


def _record(request: Request, record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as its line needs it: its time in milliseconds, or None where that is none."""
    try:
        when = time_ms(record["time"])
    except ValueError:
        when = None
    named = _named(request, record)
    return {"left_out": 0, **record, "time_ms": when, "urn": named, "to": None if named is None else _page_of(named)}


def _page_of(text: str) -> str | None:
    """Where an entity of this domain is changed; None: it has the page that all entities have."""
    urn = Urn.parse(text)
    if urn.kind == ROLE:
        return f"/access/roles/{urn.name}"
    return f"/access/principals/{urn.parts[0]}" if urn.kind in (PRINCIPAL, KEY) else None


def _is_shown(request: Request, record: Mapping[str, Any], *, sees_all: bool) -> bool:
    name = record.get("principal")
    if name is None:
        return sees_all
    return (
        record.get("tenant") == request.tenant and name_fault(name) is None and request.may(READ, principal_urn(name))
    )


def _named(request: Request, record: Mapping[str, Any]) -> str | None:
    """The entity of a record; None where it names none, or one that the page's reader may not read."""
    text = record.get("urn")
    if text is None or record.get("tenant") != request.tenant:
        return None
    try:
        return text if request.may(READ, Urn.parse(text)) else None
    except MetajournalError:
        return None


def _any_access(request: Request) -> Sequence[Need]:
    return (Need(READ_ACCESS),)


AUDIT_PAGE: Final = Page(
    "GET", "/access/audit", "Who was refused, logged in, changed rights or read.", READ_ACCESS, show=_audit,
    needs=_any_access,
    query=(
        Parameter("principal", "Whose requests."), Parameter("outcome", "all, done or refused."),
        Parameter("before", "The page's end: only older ones.", int),
    ),
)  # fmt: skip
