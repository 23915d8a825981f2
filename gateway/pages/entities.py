"""An entity of any kind: what it is now, its changes, and two of its states compared.

What a domain knows of it besides (schema, lineage, forms) stands in sections, which domains declare.
"""

from __future__ import annotations

import json
from shlex import quote
from typing import Any, Final

from ...client import Journal
from ...rules.entity import EntityRow
from ...schemas.endpoints import Parameter, Request
from ...schemas.errors import UnknownEntityError
from ...schemas.limits import RESERVED_PROPERTIES
from ...schemas.pages import Page, Shown, address_of
from ...values import positions
from ..own.entities import diff, history, scope_diff
from ..own.rows import AS_AT, AS_OF, shown_row

_OWNER: Final = "owner"
_CHANGES: Final = 25
_STATES: Final = 200
_POINTS: Final = ("as_at", "as_of")


def _entity(journal: Journal, request: Request, row: EntityRow | None) -> Shown:
    if row is None:
        return Shown("absent.html", {"urn": request.entity}, 404)
    values: dict[str, Any] = {
        "row": row, "urn": request.entity, "done": "done" in request.query, "is_earlier": request.is_earlier,
    }  # fmt: skip
    if row.deleted:
        return Shown("gone.html", values, 410)
    owner = row.user_properties.get(_OWNER) or row.system_properties.get(_OWNER)
    shown = shown_row(row, request)["record"]
    record = None if shown is None else json.dumps(shown, indent=2, ensure_ascii=False, sort_keys=True)
    values |= {"owner": owner, "record": record, "copies": _copies(request), "sections": []}
    return Shown("entity.html", values)


def _copies(request: Request) -> dict[str, str]:
    """What asks for the state that is shown, to be copied; the server's name is the template's."""
    points = {name: request.query[name] for name in _POINTS if name in request.query}
    options = [f" --{name.replace('_', '-')} {quote(text)}" for name, text in points.items()]
    arguments = [f", {name}={_argument(text)}" for name, text in points.items()]
    return {
        "path": address_of("/api/v1/entities", request.entity, **points),
        "command": f"metajournal show {quote(str(request.entity))}{''.join(options)}",
        "python": f"journal.show({str(request.entity)!r}{''.join(arguments)})",
    }


def _argument(text: str) -> str:
    """A point of the address as Python writes it: a time is text there, a position is parsed."""
    if "/" not in text:
        return repr(text)
    parsed = [f"Position.parse({str(one)!r})" for one in positions(text)]
    return parsed[0] if len(parsed) == 1 else f"[{', '.join(parsed)}]"


def _history(journal: Journal, request: Request) -> Shown:
    answer = history(journal, request, most=_CHANGES)
    rows = answer.value
    changes = []
    for place, row in enumerate(rows):
        before = rows[place - 1] if place else None
        changes.append({"row": row, "differences": _differences(before, row) if place or answer.next is None else None})
    before = None if answer.next is None else {"before": answer.next["cursor"]}
    values = {
        "urn": request.entity, "changes": changes[::-1], "is_behind": bool(request.at_least),
        "next": None if before is None else address_of("/history", request.entity, **before),
    }  # fmt: skip
    return Shown("history.html", values)


def _states(journal: Journal, request: Request) -> dict[str, Any]:
    """The newest changes, oldest first, each with the position at which it made a state; none yet is no error."""
    try:
        answer = history(journal, request, most=_STATES)
    except UnknownEntityError:
        return {"states": [], "more": False}
    states = [
        {"at": row["position"], "time": row["system_time"], "actor": row["actor"], "deleted": row["deleted"]}
        for row in answer.value
    ]  # fmt: skip
    return {"states": states, "more": answer.next is not None}


def _differences(before: Any, after: Any) -> list[tuple[str, Any]]:
    """What changed in each scope, but what the fold itself keeps in SYSTEM of every change: its time and actor."""
    nothing: dict[str, Any] = {"properties": {}, "tags": []}
    found = [
        ("USER", scope_diff((before or {}).get("user", nothing), after["user"])),
        ("SYSTEM", scope_diff(_said((before or {}).get("system", nothing)), _said(after["system"]))),
    ]
    return [(scope, one) for scope, one in found if any(side[part] for side in one.values() for part in side)]


def _said(metadata: Any) -> dict[str, Any]:
    """SYSTEM metadata without what the fold keeps there."""
    properties = {key: value for key, value in metadata["properties"].items() if key not in RESERVED_PROPERTIES}
    return {"properties": properties, "tags": metadata["tags"]}


def _diff(journal: Journal, request: Request) -> Shown:
    shown = diff(journal, request).value
    values = {
        "urn": request.entity, "before": shown["from"], "after": shown["to"], "is_behind": bool(request.at_least),
        "differences": _differences(shown["from"], shown["to"]),
    }  # fmt: skip
    return Shown("diff.html", values)


ENTITY: Final = Page(
    "GET", "/entity/{urn}", "An entity, as every acknowledged event makes it.", of_row=_entity,
    query=(Parameter("done", "Whether a form was just sent."), AS_AT, AS_OF), has_sections=True,
)  # fmt: skip
HISTORY: Final = Page(
    "GET",
    "/history/{urn}",
    "The changes of an entity, newest first.",
    show=_history,
    includes_own=True,
    query=(Parameter("before", "Only changes below this logical timestamp."),),
)
STATES: Final = Page("GET", "/states/{urn}", "The points at which an entity changed.", data=_states, includes_own=True)
DIFF: Final = Page(
    "GET",
    "/diff/{urn}",
    "Two states of an entity, and how they differ.",
    show=_diff,
    includes_own=True,
    query=(Parameter("from", "A position or a time."), Parameter("to", "A position or a time; now if omitted.")),
)
