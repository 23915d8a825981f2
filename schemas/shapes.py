"""What JSON values look like, as data: the shapes of entities, events, changes and hits, and how a shape is written.

A shape is a type of Python, None, a tuple of alternatives, a list of one shape for each entry, a mapping of names to
shapes (`name?` may be missing), or `Map` for any names. `object` is any value. Reference pages, OpenAPI and tests are
made from these; a domain has the shapes of its own answers in its file `values`.
Invariant: nothing is computed here; what gives a value its shape stands in the root's and the domains' `values.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Map(NamedTuple):
    """An object with any names, each value of one shape."""

    value: Any


class Named(dict[str, Any]):
    """An object's shape that has a name where several refer to it.

    Args:
        name: one word.
        members: as of any object's shape.
    """

    def __init__(self, name: str, members: Mapping[str, Any]) -> None:
        super().__init__(members)
        self.name = name


TEXT: Final = (str, None)
NUMBER: Final = (int, float)
WHOLE: Final = (int, None)
METADATA: Final = Named("Metadata", {"properties": Map(str), "tags": [str]})
ENTITY: Final = Named("Entity", {
    "tenant": str, "urn": str, "kind": str, "namespace": TEXT, "name": str, "aggregate": str,
    "logical_timestamp": int, "seq": int, "system_time": int, "event_time": int, "event_id": str, "actor": TEXT,
    "deleted": bool, "record": (Map(object), None), "user": METADATA, "system": METADATA,
})  # fmt: skip
REVISION: Final = Named("Revision", {**ENTITY, "position": str})
CHANGED: Final = Named("Changed", {"additions": METADATA, "deletions": METADATA})
DIFFERENCE: Final = {"from": (ENTITY, None), "to": ENTITY, "differences": {"user": CHANGED, "system": CHANGED}}
ERROR: Final = {"ok": bool, "error": Map(object)}
OUTCOME: Final[dict[str, Any]] = {"outcome": str, "reason?": str, "detail?": object, "of?": (str, int)}
RECORDED: Final = Named("Recorded", {
    "ok": bool, "event_id": str, "position": str, "outcome?": str, "reason?": str, "detail?": object,
    "of?": (str, int), "original?": Map(object),
})  # fmt: skip
EMITTED: Final = Named("Emitted", {
    "ok": bool, "line?": int, "event_id": str, "type": str, "entity": str, "position?": str, "system_time?": int,
    "outcome?": str, "reason?": str, "detail?": object, "of?": (str, int), "original?": Map(object),
    "error?": Map(object),
})  # fmt: skip
REFUSED: Final = {"line": int, **ERROR}
EMITTED_UNIT: Final = {"ok": bool, "unit": str, "events": [EMITTED]}
PLACED: Final = {"id": str, "urn": str, "tenant": str, "position": str, "seq": int, "time": int}
CHANGE: Final = {**PLACED, "scope": TEXT, "type": str, "record": Map(object)}
STATE: Final = {**PLACED, "deleted": bool, "document": Map(object)}
WHY: Final = {
    "field": str, "key": str, "text": str, "matched": [[int]], "scope?": TEXT, "instead_of": str, "marked": str,
}  # fmt: skip
HIT: Final = Named("Hit", {
    "urn": str, "tier": TEXT, "why": [WHY], "entity": Map(object),
    "then?": ({**ENTITY, "final": bool}, {"final": bool}, None),
})  # fmt: skip
RESULTS: Final = Named("Results", {
    "total": int, "hits": [HIT], "facets": Map([{"value": str, "hits": int}]), "shows": Map(int), "cursor": TEXT,
    "note": str,
})  # fmt: skip
COMPLETIONS: Final = [{"text": str, "entities": int}]
PLACE: Final = {
    "topic": str, "partition": int, "offset": int, "position": str, "logical_timestamp": int, "tenant": str,
    "type": str, "aggregate": str, "entities": [str], "actor": TEXT, "append_time": int, "system_time": WHOLE,
    "event_time": WHOLE, "unit_id": TEXT, "outcome": str, "reason": TEXT, "detail": object, "original": TEXT,
    "rows": [Map(object)], "behind": int, "index": {"name": TEXT, "shows": WHOLE, "said": str}, "row_counts": Map(int),
}  # fmt: skip
TRACE: Final = Named("Trace", {"event_id": TEXT, "made_at": WHOLE, "places": [PLACE]})
