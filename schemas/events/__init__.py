"""Event classes by domain, and the table from event type to class."""

from __future__ import annotations

from typing import Any, Final

from . import catalog, files, lineage
from .base import Event

EVENT_TYPES: Final[dict[str, type[Any]]] = {
    event.TYPE: event for event in (*catalog.EVENTS, *files.EVENTS, *lineage.EVENTS)
}
"""Class of each event type that this version writes and reads."""

__all__ = ["EVENT_TYPES", "Event"]
