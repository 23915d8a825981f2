"""What rules may ask and answer, and how they are found: pure and deterministic.

`apply` finds the rules of an event by the domain in its type: the file `rules` of its folder, with a function
`apply(header, event, at, rows)`. Rules read no clock, no file and no random number; the same journal gives the same
rows on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Protocol, cast

from ..schemas.events import Event
from ..schemas.header import Header
from ..schemas.registry import role
from .entity import At, EntityRow, ForeignRowError, RowReader
from .outcome import UNCHANGED, Accepted, Outcome, Rejected, Unchanged

__all__ = [
    "UNCHANGED",
    "Accepted",
    "At",
    "EntityRow",
    "ForeignRowError",
    "Outcome",
    "Rejected",
    "RowReader",
    "Unchanged",
    "apply",
    "facts_read",
]


class _Rule(Protocol):
    def __call__(self, header: Header, event: Event, at: At, rows: RowReader) -> Outcome: ...


def apply(header: Header, event: Event, at: At, rows: RowReader) -> Outcome:
    """Judge one event against the rows of its aggregate.

    Args:
        header: the event's header, as decoded.
        event: the event, as decoded; neither needs to be valid, nor to agree with the other.
        at: its place in the log.
        rows: newest rows of the header's aggregate in the header's tenant, as they stand before the event.
    Returns:
        Accepted with the new rows, UNCHANGED, or Rejected with its reason.
    """
    return _rule(event.TYPE)(header, event, at, rows)


def facts_read(event: Event) -> Iterable[tuple[str, tuple[str, ...]]]:
    """The rows of other tables than `entities` that `apply` may ask for, as (table, key without the tenant).

    None of an event that is refused by its form.
    """
    named = _facts(event.TYPE)
    return () if named is None or event.validate() else named(event)


@cache
def _facts(event_type: str) -> Callable[[Any], Iterable[tuple[str, tuple[str, ...]]]] | None:
    """What a domain's module says of the rows that its rules read; most read entities alone."""
    return getattr(role(event_type.partition(".")[0], "rules"), "facts_read", None)


@cache
def _rule(event_type: str) -> _Rule:
    """The rules of a type's domain. A decoded event's type comes from a known contract, so the module is there."""
    module = role(event_type.partition(".")[0], "rules")
    assert module is not None
    return cast(_Rule, module.apply)
