"""URNs that were made before their kind was known: an event typed on the command line is made before connecting.

A URN checks its parts when it is made. One of a kind that a journal serves from outside may be older than the
connection that told of the kind, and then anything passed; the rules would reject it. So it is checked again here.
"""

from __future__ import annotations

from typing import Any

from ...schemas.errors import Fault, InvalidUrnError
from ...schemas.registry import taken_in
from ...schemas.urn import Urn


def late_faults(event: Any) -> list[Fault]:
    """Faults of the entities that a valid event names, by what is known of their kinds by now; [] of our own kinds."""
    outside = {kind for domain in taken_in() for kind in domain.kind_names}
    faults = []
    for entity in event.entities if outside else ():
        if entity.kind in outside:
            try:
                Urn.parse(str(entity))
            except InvalidUrnError as error:
                faults.append(Fault(_field_of(event, entity), error.message))
    return faults


def _field_of(event: Any, entity: Urn) -> str:
    """What an event calls an entity."""
    fields = getattr(event, "__dataclass_fields__", ())
    return next((name for name in fields if getattr(event, name) is entity), "entity")
