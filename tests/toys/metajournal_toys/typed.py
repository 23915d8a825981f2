"""Events of toys from what people type: minutes may be hours and minutes, `1:30`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def typed(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an event as JSON has them, made ready for its class."""
    minutes = values.get("minutes")
    if not isinstance(minutes, str) or ":" not in minutes:
        return values
    hours, _, rest = minutes.partition(":")
    return {**values, "minutes": int(hours) * 60 + int(rest)} if hours.isdigit() and rest.isdigit() else values
