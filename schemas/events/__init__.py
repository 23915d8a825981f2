"""Event classes by type: each domain's own stand in the file `events` of its folder.

Invariant: a domain has exactly the classes of the event types that it declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

from ..registry import domain_named, role, served
from .base import Event

__all__ = ["Event", "EventsFile", "event_class", "event_types"]


class EventsFile(Protocol):
    """The file `events` of a domain: the class of each event type that it declares (see `base.Event`)."""

    @property
    def EVENTS(self) -> Sequence[type[Event]]:  # noqa: N802  (a constant of the module)
        """The classes."""


def event_class(event_type: str) -> type[Any]:
    """The class of an event type that this version writes and reads. Raises: KeyError: there is none."""
    domain = event_type.partition(".")[0]
    if domain_named(domain) is None:
        raise KeyError(event_type)  # remembered by nobody: it may be taken in later
    return _classes(domain)[event_type]


def event_types() -> dict[str, type[Any]]:
    """Every class by its event type, domain by domain."""
    return {event_type: found for domain in served() for event_type, found in _classes(domain.name).items()}


@cache
def _classes(domain: str) -> Mapping[str, type[Any]]:
    declared, module = domain_named(domain), role(domain, "events")
    if declared is None or module is None:
        return {}
    classes: dict[str, type[Any]] = {event.TYPE: event for event in cast(EventsFile, module).EVENTS}
    if set(classes) != set(declared.event_types):
        differ = ", ".join(sorted(set(classes) ^ set(declared.event_types)))
        raise TypeError(f"the domain {domain} declares other event types than it has classes of: {differ}")
    return classes
