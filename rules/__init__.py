"""What rules may ask and answer, and how they are found: pure and deterministic.

The rules of a domain stand in the file `rules` of its folder. `RULES` there names the function that judges the events
of each type that the domain declares; `READS`, of those types whose rule asks for more than the entities that the
header names, the function that says what for. Rules read no clock, no file and no random number; the same journal
gives the same rows on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, cast

from ..schemas.domain import Domain
from ..schemas.events import Event
from ..schemas.header import Header
from ..schemas.registry import domain_named, role
from .entity import At, EntityRow, FactKey, ForeignRowError, Reads, RowReader
from .outcome import UNCHANGED, Accepted, Outcome, Rejected, Unchanged

__all__ = [
    "UNCHANGED",
    "Accepted",
    "At",
    "EntityRow",
    "FactKey",
    "ForeignRowError",
    "Outcome",
    "Reading",
    "Reads",
    "ReadsFile",
    "Rejected",
    "RowReader",
    "Rule",
    "RulesFile",
    "Unchanged",
    "apply",
    "load",
    "reads",
    "reads_more",
]

Rule = Callable[[Header, Any, At, RowReader], Outcome]
Reading = Callable[[Header, Any], Reads]
_NOTHING_MORE: Final = Reads()


class RulesFile(Protocol):
    """The file `rules` of a domain: pure, and deterministic."""

    @property
    def RULES(self) -> Mapping[str, Rule]:  # noqa: N802  (a constant of the module)
        """What judges the events of each type that the domain declares."""


class ReadsFile(RulesFile, Protocol):
    """The same of a domain whose rules ask for more than the entities that an event's header names."""

    @property
    def READS(self) -> Mapping[str, Reading]:  # noqa: N802
        """What events of a type may ask for besides."""


class _Rules(NamedTuple):
    """A domain's, by event type."""

    rules: Mapping[str, Rule]
    reads: Mapping[str, Reading]


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


def reads(header: Header, event: Event) -> Reads:
    """What `apply` may ask for besides the entities that the header names.

    Nothing of an event that is refused by its form.
    """
    reading = _reading(event.TYPE)
    return _NOTHING_MORE if reading is None or event.validate() else reading(header, event)


@cache
def reads_more(event_type: str) -> bool:
    """Whether events of a type may read anything but the entities that their headers name; most do not."""
    return _reading(event_type) is not None


def load(domain: Domain) -> None:
    """Load a domain's rules. Raises: TypeError: an event type that it declares has no rule, or a rule no such type."""
    if domain.served:
        _rules_of(domain.name)


@cache
def _rule(event_type: str) -> Rule:
    return _rules_of(event_type.partition(".")[0]).rules[event_type]


@cache
def _reading(event_type: str) -> Reading | None:
    return _rules_of(event_type.partition(".")[0]).reads.get(event_type)


@cache
def _rules_of(name: str) -> _Rules:
    """The rules of a domain, held against its declaration: an event that no rule names must never be judged."""
    domain, module = domain_named(name), role(name, "rules")
    declared = frozenset(() if domain is None else domain.event_types)
    found = _Rules({}, {}) if module is None else _Rules(cast(RulesFile, module).RULES, getattr(module, "READS", {}))
    differ = sorted((declared ^ found.rules.keys()) | (found.reads.keys() - declared))
    if differ:
        raise TypeError(
            f"The domain {name} must have a rule for each event type that it declares, and for no other; "
            f"these differ: {', '.join(differ)}. "
            "Mend event_types in its file `domain`, or RULES and READS in its file `rules`."
        )
    return found
