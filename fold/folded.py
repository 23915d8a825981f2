"""What goes into the fold and what comes out of it: rows from before, verdicts, changes. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from ..rules.entity import EntityRow, FactKey
from ..schemas.header import Header
from .records import Place, Record, UnknownSchema

RowKey = tuple[str, str]
MembersKey = tuple[str, str, str]
"""Tenant, aggregate, and the kind of those of its entities that are meant."""
KeyOfFact = tuple[str, str, FactKey]
"""Table, tenant, and the key in the table: keys of two tables may have equal values."""
IdKey = tuple[str, str, bytes]

ACCEPTED, UNCHANGED, REJECTED, DUPLICATE, SHELVED = "accepted", "unchanged", "rejected", "duplicate", "shelved"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a record: outcome, and for some of them why.

    Attributes:
        detail: a JSON value.
        duplicate_of: position of the original.
    """

    outcome: str
    reason: str | None = None
    detail: Any = None
    duplicate_of: int | None = None

    def wire(self, position: int) -> list[Any]:
        """Its form in an outcome record; `producers.verdicts.outcome_of` reads it."""
        head: list[Any] = [position, self.outcome]
        if self.duplicate_of is not None:
            return [*head, {"of": self.duplicate_of, **(self.detail or {})}]
        if self.reason is not None:
            return [*head, {"reason": self.reason, "detail": self.detail}]
        return head


class Judged(NamedTuple):
    """One record with its verdict: a row of the journal table."""

    record: Record
    system_time: int
    header: Header | None
    verdict: Verdict


class Change(NamedTuple):
    """One row that an accepted event made, with the row it supersedes."""

    before: EntityRow | None
    after: EntityRow


class FactChange(NamedTuple):
    """The same of a row of another table; `before` is None where the rules read no rows of that table."""

    before: Any
    after: Any


class Originals(Protocol):
    """Earlier events by identity: originals of the batch's marked events, and what its others may be copies of."""

    def find(self, key: IdKey) -> tuple[int, Verdict] | None:
        """Position and verdict of the lowest earlier event with this identity, where it is known."""

    def marked(self, key: IdKey) -> tuple[int, Verdict] | None:
        """The same, where any earlier event with this identity was marked `repeat`."""

    def any_marked(self) -> bool:
        """Whether any event of the batch has the identity of an earlier one that was marked `repeat`."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Rows as they stood before the first record.

    Attributes:
        rows: newest row by (tenant, URN); a key that is missing was not fetched, None says that there is none.
        members: newest rows of entities of one kind in an aggregate; none but those that events may ask for are in it.
        facts: newest rows of other tables; as `rows`.
    """

    rows: Mapping[RowKey, EntityRow | None]
    members: Mapping[MembersKey, Sequence[EntityRow]]
    originals: Originals
    facts: Mapping[KeyOfFact, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Folded:
    """The result for one partition: positions in [start, end) are judged, and nothing else is."""

    place: Place
    start: int
    end: int
    system_time: int
    judged: list[Judged] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    facts: dict[str, list[FactChange]] = field(default_factory=dict)
    current: dict[RowKey, EntityRow] = field(default_factory=dict)
    current_facts: dict[KeyOfFact, Any] = field(default_factory=dict)
    marked: set[bytes] = field(default_factory=set)
    """Ids of the events that were marked `repeat`."""
    stopped_by: UnknownSchema | None = None
    columns: pa.Table | None = None
    """The table that the records were read from, a row for each of `judged`; None where they came one by one."""
