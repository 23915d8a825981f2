"""Tables: their kind is reserved, no event is served yet."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import Actions, Domain, Kind

DOMAIN: Final = Domain(
    "tables",
    __package__,
    kinds=(Kind("table", "tables", 2, 2),),
    served=False,
    actions=Actions("Table"),
    has_namespaces=True,
)
