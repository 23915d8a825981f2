"""The partition function: records of one journal partition and the rows before them in, rows and verdicts out.

Pure: the same records and the same prior rows give the same result, whatever the batch boundaries, caches or the
machine. Who fetches the prior rows, and where this runs (in the driver or in a Spark task), is the caller's matter.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from ..lake.declared import SPECS
from ..rules import apply, load
from ..rules.entity import At, EntityRow, FactKey, ForeignRowError
from ..rules.outcome import Accepted, Rejected
from ..rules.tables import TABLE_OF, key_of
from ..schemas.header import Header
from ..schemas.kinds import domain_of_kind
from ..schemas.registry import for_each_domain
from ..schemas.urn import Urn
from .folded import (
    ACCEPTED,
    DUPLICATE,
    REJECTED,
    SHELVED,
    UNCHANGED,
    Change,
    FactChange,
    Folded,
    IdKey,
    Judged,
    KeyOfFact,
    MembersKey,
    Originals,
    Prior,
    RowKey,
    Verdict,
)
from .readings import Readings
from .records import Shelved, digest_of

_FEW_ENTITIES = 8

_ACCEPTED, _UNCHANGED = Verdict(ACCEPTED), Verdict(UNCHANGED)
MOVED: Final = "moved-kind"
"""Why an event is rejected whose kind a domain from outside has taken over: it stands in the topic of before."""

for_each_domain(load)  # a domain whose rules lack a type must not wait for the first such event


def fold(readings: Readings, prior: Prior, system_time: int) -> Folded:
    """Judge every record in position order.

    Args:
        readings: the records and what they were read as.
        prior: rows from before the first of them.
        system_time: the running system_time before the first of them, milliseconds UTC.
    """
    folded = Folded(
        readings.place,
        readings.start,
        readings.end,
        system_time,
        stopped_by=readings.stopped_by,
        columns=readings.columns,
    )
    place = readings.place
    rows = PartitionRows(prior, folded.current, folded.current_facts, first=place.first)
    any_marked = bool(readings.needs().originals)
    unmarked = not any_marked and not prior.originals.any_marked()  # then nothing here is anything's second copy
    seen = _Seen(prior.originals, any_marked)
    judged = folded.judged
    for record, reading in readings.items:
        position, append_time, *_ = record
        if append_time > system_time:
            system_time = append_time
        if isinstance(reading, Shelved):
            judged.append(Judged(record, system_time, None, Verdict(SHELVED, reading.reason, reading.detail)))
            continue
        header, event, _ = reading
        verdict = None if unmarked else seen.original(header)
        if verdict is None and place.moved and place.moved_away(header.aggregate, position):
            verdict = _moved(header)
        if verdict is None:
            place_in_journal = tuple.__new__(At, (position, system_time, digest_of(record)))
            verdict = _judge(place_in_journal, header, event, rows, folded)
        if not unmarked:
            seen.remember(header, position, verdict, folded.marked)
        judged.append(tuple.__new__(Judged, (record, system_time, header, verdict)))  # past its own slower constructor
    folded.system_time = system_time
    return folded


def _judge(place: At, header: Header, event: Any, rows: PartitionRows, folded: Folded) -> Verdict:
    outcome = apply(header, event, place, rows.of(header))
    if type(outcome) is Accepted:
        changes = folded.changes
        for after in outcome.rows:
            changes.append(tuple.__new__(Change, (rows.advance(after), after)))
        for fact in outcome.facts:
            folded.facts.setdefault(TABLE_OF[type(fact)], []).append(rows.advance_fact(fact))
        return _ACCEPTED
    if type(outcome) is Rejected:
        return Verdict(REJECTED, outcome.reason, outcome.detail)
    return _UNCHANGED


def _moved(header: Header) -> Verdict:
    """The verdict over an event that stands where its kind's events stood once: its sender is to connect anew."""
    kind = header.aggregate.partition(":")[0]
    return Verdict(REJECTED, MOVED, {"kind": kind, "domain": domain_of_kind(kind)})


class PartitionRows:
    """The rules' row reader: the prior rows under the rows of this batch, only of the event's own aggregate."""

    def __init__(
        self,
        prior: Prior,
        current: dict[RowKey, EntityRow],
        current_facts: dict[KeyOfFact, Any] | None = None,
        *,
        first: int = 0,
    ) -> None:
        self._prior = prior
        self._first = first
        self._current = current
        self._current_facts = {} if current_facts is None else current_facts
        self._members: dict[MembersKey, dict[str, EntityRow]] = {
            key: {row.urn: row for row in rows if row.logical_timestamp >= first} for key, rows in prior.members.items()
        }
        self._header: Header | None = None
        self._set_of: Header | None = None
        self._set: frozenset[str] = frozenset()

    def of(self, header: Header) -> PartitionRows:
        self._header = header
        return self

    def entity(self, urn: str) -> EntityRow | None:
        """The newest row of an entity that the header names. Raises ForeignRowError for any other."""
        header = self._header or self._own()
        if urn not in self._named(header) or Urn.parse(urn).aggregate != header.aggregate:
            raise ForeignRowError(f"an event of {header.aggregate} asked for {urn}")
        key = (header.tenant, urn)
        row = self._current.get(key)
        return row if row is not None else self._own_row(self._prior.rows[key])

    def _own_row(self, row: EntityRow | None) -> EntityRow | None:
        """A row from before, unless it is of when the entity was another topic's."""
        return None if row is None or row.logical_timestamp < self._first else row

    def _named(self, header: Header) -> Collection[str]:
        """The entities that a header names: a tuple, or a set where it names many."""
        if len(header.entities) <= _FEW_ENTITIES:
            return header.entities
        if self._set_of is not header:
            self._set_of, self._set = header, frozenset(header.entities)
        return self._set

    def fact(self, key: FactKey) -> Any:
        """The newest row of another table. Raises ForeignRowError for one that nobody said would be read."""
        header = self._own()
        named = (key.TABLE, header.tenant, key)
        if named not in self._prior.facts or not any(value in self._named(header) for value in key):
            raise ForeignRowError(f"an event of {header.aggregate} asked for {key} of {key.TABLE}")
        row = self._current_facts.get(named)
        return self._prior.facts[named] if row is None else row

    def advance_fact(self, after: Any) -> FactChange:
        """Make a row of another table the newest of its key; gives it with the one before, where that is known.

        It counts whether this batch asks for it or not: a later one may, which must not find what stood before.
        """
        table = TABLE_OF[type(after)]
        if not SPECS[table].read_by_rules:
            return FactChange(None, after)
        key = (table, after.tenant, key_of(after))
        before = self._current_facts.get(key) or self._prior.facts.get(key)
        self._current_facts[key] = after
        return FactChange(before, after)

    def members(self, aggregate: str, kinds: Collection[str]) -> list[EntityRow]:
        """The newest rows of an aggregate's entities of some kinds: those from before, under those made here.

        Raises:
            ForeignRowError: it is not the event's own aggregate, or nobody said that these kinds would be read.
        """
        header = self._own()
        named = [(header.tenant, header.aggregate, kind) for kind in kinds]
        if aggregate != header.aggregate or not self._members.keys() >= {*named}:
            raise ForeignRowError(f"an event of {header.aggregate} asked for {', '.join(kinds)} of {aggregate}")
        return [row for key in named for row in self._members[key].values()]

    def advance(self, after: EntityRow) -> EntityRow | None:
        """Make a row the newest of its key and give the one before."""
        key = (after.tenant, after.urn)
        before = self._current.get(key) or self._own_row(self._prior.rows.get(key))
        if self._members:
            members = self._members.get((after.tenant, after.aggregate, after.kind))
            if members is not None:
                before = before or members.get(after.urn)
                members[after.urn] = after
        self._current[key] = after
        return before

    def _own(self) -> Header:
        if self._header is None:
            raise ForeignRowError("no event is being judged")
        return self._header


class _Seen:
    """Which events stood before: an event is a duplicate when one of the two is marked `repeat`."""

    def __init__(self, originals: Originals, any_marked: bool) -> None:
        self._originals = originals
        self._keep_all = any_marked
        self._here: dict[IdKey, tuple[int, Verdict]] = {}
        self._marked_here: set[IdKey] = set()

    def original(self, header: Header) -> Verdict | None:
        key = (header.tenant, header.aggregate, header.event_id)
        if header.repeat:
            earlier = self._first(key)
        else:
            earlier = self._originals.marked(key) or (self._first(key) if key in self._marked_here else None)
        if earlier is None:
            return None
        position, verdict = earlier
        of = position if verdict.duplicate_of is None else verdict.duplicate_of
        detail = {"outcome": verdict.outcome, "reason": verdict.reason, "detail": verdict.detail}
        return Verdict(DUPLICATE, None, verdict.detail if verdict.outcome == DUPLICATE else detail, of)

    def _first(self, key: IdKey) -> tuple[int, Verdict] | None:
        """The lowest event with an identity that a marked event of this batch has."""
        return self._originals.find(key) or self._here.get(key)

    def remember(self, header: Header, position: int, verdict: Verdict, marked: set[bytes]) -> None:
        if not (self._keep_all or header.repeat):
            return
        key = (header.tenant, header.aggregate, header.event_id)
        self._here.setdefault(key, (position, verdict))
        if header.repeat:
            self._marked_here.add(key)
            marked.add(header.event_id)
