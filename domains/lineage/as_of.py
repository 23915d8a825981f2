"""Facts as of a time: a fact goes by the time that it speaks of, and a run stops once, at its greatest stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...schemas.header import Header
from ...schemas.urn import Urn
from .events import AccessesRecorded, RunStarted, RunStopped


def happened_at(header: Header, event: Any) -> int:
    """The time that a fact speaks of, milliseconds UTC."""
    if isinstance(event, RunStarted | RunStopped):
        return int(event.at)
    if isinstance(event, AccessesRecorded):
        return int(min(access.at for access in event.accesses))
    return header.event_time


def positions_in(urn: Urn) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Tables and keys, besides those of `entities`, whose rows tell where something of an entity was accepted."""
    if urn.kind == "run":
        yield "runs", {"run": str(urn)}


def superseded(events: Sequence[Any]) -> set[int]:
    """Indices of stops that do not stand (as `Times.of` has it)."""
    stops = [(event.at, event.status, index) for index, event in enumerate(events) if isinstance(event, RunStopped)]
    return {index for _, _, index in stops if index != max(stops)[2]}
