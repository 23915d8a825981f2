"""What must be true of a journal after any faults, held against what its clients wrote down (journalist.Book)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from metajournal.domains.catalog.events import PropertiesSet
from metajournal.schemas.encoding.codec import decode
from metajournal.schemas.header import Header
from metajournal.schemas.ids import id_text
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from tests.faults.journalist import Book, event_of
from tests.model import JournalRecord, Model
from tests.streaming.harness import TOPIC, Fold
from tests.topics import journal_records


class Copy(NamedTuple):
    """One record of an event; a repeated event has several."""

    partition: int
    position: int
    header: Header
    event: object


def assert_kept(settings: Settings, books: Sequence[Book], folder: Path) -> str:
    """No acknowledged event lost, doubled, torn or out of order for its aggregate; the fold counts each once.

    Returns:
        What was looked at, in numbers.
    """
    records = journal_records(settings)
    copies: dict[str, list[Copy]] = defaultdict(list)
    for one in sorted(records):
        decoded = decode(one.value or b"")
        if isinstance(decoded.event, PropertiesSet):  # the rest is `register`'s
            copy = Copy(one.partition, one.position, decoded.header, decoded.event)
            copies[id_text(decoded.header.event_id)].append(copy)
    for book in books:
        _assert_acknowledged(book, copies)
        _assert_units_whole(book, copies)
        _assert_in_order(book, copies)
    _assert_nothing_else(books, copies)
    _assert_counted_once(copies, records, folder)
    intents = [intent for book in books for intent in book.intents.values()]
    repeated = sum(len(many) - 1 for many in copies.values())
    units = sum(intent.unit is not None for intent in intents)
    return f"{len(intents):,} intents, {units:,} of them units, {len(copies):,} events, {repeated:,} further copies"


def _assert_acknowledged(book: Book, copies: dict[str, list[Copy]]) -> None:
    """Every acknowledged event stands where its receipt said, with what was intended."""
    for number, places in book.done.items():
        intent = book.intents[number]
        assert len(places) == len(intent.events)
        for (event_id, urn, text), place in zip(intent.events, places, strict=True):
            there = {(copy.partition, copy.position): copy for copy in copies[event_id]}
            assert place in there, f"{event_id} of intent {number} (unit {intent.unit}) was acknowledged at {place}; " \
                f"there are {[*there]}, and {positions_near(copies, place)} around it"  # fmt: skip
            assert there[place].event == event_of(urn, text)


def positions_near(copies: dict[str, list[Copy]], place: tuple[int, int]) -> list[int]:
    """What was read of the partition around a position."""
    partition, position = place
    read = {copy.position for many in copies.values() for copy in many if copy.partition == partition}
    return sorted(other for other in read if abs(other - position) <= 20)


def _assert_nothing_else(books: Sequence[Book], copies: dict[str, list[Copy]]) -> None:
    """Nothing that nobody intended is there, and a second copy is always marked."""
    intended = {event_id for book in books for intent in book.intents.values() for event_id, _, _ in intent.events}
    assert {event_id for event_id, many in copies.items() if many} <= intended
    for many in copies.values():
        assert all(later.header.repeat for later in many[1:])
        assert len({(one.header.aggregate, one.partition) for one in many}) <= 1


def _assert_units_whole(book: Book, copies: dict[str, list[Copy]]) -> None:
    """Each attempt at a unit left all of its events or none; a single event belongs to no unit."""
    for intent in book.intents.values():
        held = [copies.get(event_id, []) for event_id, _, _ in intent.events]
        assert len({len(many) for many in held}) == 1, f"the unit {intent.unit} is torn: {[*map(len, held)]}"
        for index, many in enumerate(held):
            for one in many:
                unit = one.header.unit
                said = None if unit is None else (id_text(unit.id), unit.index, unit.count)
                assert said == (None if intent.unit is None else (intent.unit, index, len(held)))


def _assert_in_order(book: Book, copies: dict[str, list[Copy]]) -> None:
    """The first copies of an aggregate's events stand in the order in which they were intended."""
    ordered: dict[str, list[int]] = defaultdict(list)
    for _, intent in sorted(book.intents.items()):
        for event_id, urn, _ in intent.events:
            if copies.get(event_id):
                ordered[urn].append(copies[event_id][0].position)
    for aggregate, positions in ordered.items():
        assert all(one < other for one, other in pairwise(positions)), f"{aggregate} is out of order"


def _assert_counted_once(copies: dict[str, list[Copy]], records: list[JournalRecord], folder: Path) -> None:
    """The model and the engine judge the first copy of each event and call every further one its duplicate."""
    model = Model.of(records, TOPIC)
    for many in copies.values():
        first, *later = many
        assert model.verdicts[first.partition, first.position].outcome == "accepted"
        for one in later:
            assert model.verdicts[one.partition, one.position] == ("duplicate", {"of": first.position})
    firsts = sorted((many[0] for many in copies.values()), key=lambda one: one.position)
    last = {one.header.aggregate: one.event for one in firsts}
    told = {
        row.urn: event_of(Urn.parse(row.urn), row.user_properties["last"])
        for row in model.newest.values()
        if row.urn in last
    }
    assert told == last
    assert len(model.tables["entities"]) == len(copies) + len(model.newest)
    fold = Fold(folder, 4)
    fold.batch(records, until=records[: len(records) // 2])
    fold.batch(records)
    folded = {(row["journal_partition"], row["logical_timestamp"]): row["outcome"] for row in fold.journal()}
    assert folded == {place: verdict.outcome for place, verdict in model.verdicts.items()}
    assert len(fold.rows()) == len(model.tables["entities"])
