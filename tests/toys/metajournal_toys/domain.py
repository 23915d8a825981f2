"""Toys in their boxes: kinds, events and reasons. A box is the unit of order; its toys belong to it."""

from __future__ import annotations

from typing import Final

from metajournal.schemas.domain import Domain, Kind

DOMAIN: Final = Domain(
    "toys",
    __package__,
    kinds=(Kind("toybox", "toys", 1, 1), Kind("toy", "toys", 2, 2, "toybox", 1)),
    event_types=("toys.ToyMade.1", "toys.ToyPlayed.1", "toys.ToyLost.1"),
    reasons=("unknown-toy",),
)
