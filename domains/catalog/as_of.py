"""Annotations as of a time: which events an entity begins with."""

from __future__ import annotations

from typing import Any

from .events import EntityRegistered


def begins(event: Any) -> bool:
    """Whether entities may begin with an event; the others change or end what is there."""
    return isinstance(event, EntityRegistered)
