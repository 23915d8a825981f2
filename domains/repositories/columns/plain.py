"""Which events of a repository are plain: objects that are surely valid, and that no header says anything special of.

Of a plain event nothing is left to decide but whether its branch is there, which its own and its repository's rows of
`branches` tell: so `staged_on` asks the rules, with one object in place of a thousand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ....fold.folded import ACCEPTED, Judged, KeyOfFact, Verdict
from ....fold.records import Place, Placed, Record, digest_of, is_whole
from ....fold.runs import Candidate
from ....rules import Accepted, At, apply
from ....rules.admission import refusal
from ....rules.entity import EntityRow, FactKey
from ....schemas.urn import Urn
from ..events import Entry, ObjectsDeleted, ObjectsWritten
from ..rows import BranchKey
from .decoding import PlainEvent, objects_of, plain_event, type_of
from .rows import BRANCHES_TABLE, PlainObjects, Staged

_ACCEPTED: Final = Verdict(ACCEPTED)
_ENTRY: Final = Entry("any", 0, "any", "any")


class _Read(NamedTuple):
    """An event that may be plain, and where it stands."""

    number: int
    record: Record
    system_time: int
    event: PlainEvent


def candidates(
    records: Sequence[Record], system_times: Sequence[int], place: Place, first: int
) -> Iterator[Candidate[PlainObjects]]:
    """The events among some records that are plain, whether or not their branches are there.

    Args:
        records: some records of a partition, behind each other.
        system_times: that of each.
        first: number of the first of them.
    """
    placed, reads = Placed(records, place), dict[str, list[_Read]]()
    for number, (record, system_time) in enumerate(zip(records, system_times, strict=True), first):
        value = record.value or b""
        event_type = type_of(value)
        event = None if event_type is None or not is_whole(record, place) else plain_event(value)
        if event is not None and placed.holds(record, event.header) and _asks_nothing(event):
            reads.setdefault(event.header.type, []).append(_Read(number, record, system_time, event))
    for event_type, some in reads.items():
        yield from _side_by_side(event_type, some, place)


def _asks_nothing(event: PlainEvent) -> bool:
    """Whether no earlier event matters, nothing is wrong with the header, and its actor is no mark of `documents`."""
    header = event.header
    if header.expected is not None or header.repeat or "\0" in (header.actor or ""):
        return False
    return refusal(header, _alone(header.type, event.branch)) is None


def _alone(event_type: str, branch: Urn) -> ObjectsWritten | ObjectsDeleted:
    """An event with one object."""
    if event_type == ObjectsDeleted.TYPE:
        return ObjectsDeleted(branch, (_ENTRY.path,))
    return ObjectsWritten(branch, (_ENTRY,))


def _side_by_side(event_type: str, some: Sequence[_Read], place: Place) -> Iterator[Candidate[PlainObjects]]:
    numbers, objects = objects_of(event_type, [read.event for read in some])
    if objects is None:
        return
    fine = [some[number] for number in numbers]
    judged = [Judged(read.record, read.system_time, read.event.header, _ACCEPTED) for read in fine]
    ends = np.cumsum([read.event.entries for read in fine])
    yield Candidate([read.number for read in fine], PlainObjects(place, judged, ends, objects))


def keys_of(events: PlainObjects) -> set[KeyOfFact]:
    """The keys of the rows that decide on some events."""
    return {
        (BRANCHES_TABLE, judged.header.tenant, BranchKey(urn))
        for judged in events.judged
        if judged.header is not None
        for urn in judged.header.entities
    }


def staged_on(events: PlainObjects, facts: Mapping[KeyOfFact, Any]) -> list[Staged]:
    """What the first of some events make, up to the first whose branch is not there.

    Args:
        facts: the newest rows of `keys_of`, before the first event.
    """
    rows, made = _Rows(facts), list[Staged]()
    for judged, count in zip(events.judged, events.counts.tolist(), strict=True):
        header, record = judged.header, judged.record
        assert header is not None  # it is an event
        rows.tenant = header.tenant
        alone = _alone(header.type, Urn.parse(header.entities[0]))
        outcome = apply(header, alone, At(record.position, judged.system_time, digest_of(record)), rows)
        if not isinstance(outcome, Accepted):
            break
        branch, example = outcome.facts
        branch = branch._replace(staged_rows=branch.staged_rows + count - 1)
        rows.advance(branch)
        made.append(Staged(branch, example))
    return made


class _Rows:
    """The rows that decide on plain events (rules.entity.RowReader)."""

    def __init__(self, facts: Mapping[KeyOfFact, Any]) -> None:
        self._facts = dict(facts)
        self.tenant = ""

    def entity(self, _urn: str) -> None:
        raise NotImplementedError("a plain event expects nothing of an entity")

    def members(self, _aggregate: str, _kinds: Collection[str]) -> Iterable[EntityRow]:
        raise NotImplementedError("a plain event asks for no members")

    def fact(self, key: FactKey) -> Any:
        return self._facts[key.TABLE, self.tenant, key]

    def advance(self, branch: Any) -> None:
        """Make a row the newest of its branch."""
        self._facts[BRANCHES_TABLE, branch.tenant, BranchKey(branch.urn)] = branch
