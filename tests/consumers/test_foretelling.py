"""What the follower judges, without Kafka: over any journal, mark and keys it says what stream and model say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.consumers.facts import KeptFacts
from metajournal.consumers.follower import receipt_outcome
from metajournal.consumers.foretelling import Foretold
from metajournal.consumers.pins import Pin
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.fold.records import Place
from metajournal.lake.declared import history_tables
from metajournal.lake.tables import Lake
from metajournal.lake.views.viewed import ViewedTable
from metajournal.lake.views.views import Views
from metajournal.producers.verdicts import Duplicate, Outcome, OutcomeRecord, outcome_of
from metajournal.rules.entity import EntityRow
from metajournal.schemas.errors import UnavailableError
from metajournal.schemas.hashing import DIGEST_HEADER
from metajournal.schemas.positions import Position, offset_of, position
from tests.builders import header_for, raw_record, record_of
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.strategies import journals
from tests.streaming.harness import TOPIC, Fold

ORDERS, SHOPS = dataset("default", "orders"), dataset("default", "shops")
OWN = b"default/dataset:default/orders"
SHOPS_KEY = b"default/dataset:default/shops"
UNKNOWN = b"\xc3\x01" + b"\x07" * 8 + b"body"


@dataclass(frozen=True)
class Message:
    """A record as Kafka's client gives it."""

    record: JournalRecord

    def offset(self) -> int:
        return offset_of(self.record.position)

    def timestamp(self) -> tuple[int, int]:
        return 2, self.record.append_time

    def key(self) -> bytes | None:
        return self.record.key

    def value(self) -> bytes | None:
        return self.record.value

    def headers(self) -> Any:
        return None if self.record.digest is None else [(DIGEST_HEADER, self.record.digest)]


def pin_of(lake: Lake, partition: int = 0, partitions: int = 1, shelved: frozenset[int] = frozenset()) -> Pin:
    view = Views(lake).take()
    place = Place(TOPIC, partition, partitions, "catalog", shelved)
    mark = max(view.journal.mark((TOPIC, partition)), position(1, 0))
    return Pin(view, place, 1, mark, view.journal.clock((TOPIC, partition)))


def messages(records: Sequence[JournalRecord]) -> list[Message]:
    return list(map(Message, records))


def outcomes_of(fold: Fold) -> dict[tuple[int, int], Outcome]:
    """What the stream's outcome records say of each record that it has judged."""
    spoken: dict[tuple[int, int], list[Any]] = {}
    for (topic, _), records in fold.topics.records.items():
        for one in records if ".outcomes." in topic else []:
            said = OutcomeRecord.parse(one.value or b"")
            spoken |= {(said.partition, at): wire for at, wire in said.verdicts.items()}
    places = [(row["journal_partition"], row["logical_timestamp"]) for row in fold.journal()]
    return {(n, at): outcome_of(Position(TOPIC, n, at), spoken.get((n, at))) for n, at in places}


@pytest.mark.thorough
@given(journals(partitions=2, max_records=40), st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_verdicts_and_rows_of_any_keys_over_any_mark_are_those_of_stream_and_model(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    fold = Fold(tmp_path_factory.mktemp("lake"), 2)
    fold.batch(journal, until=journal[: data.draw(st.integers(0, len(journal)))])
    pins = [pin_of(Lake(str(fold.path)), partition, 2) for partition in range(2)]
    fold.batch(journal)
    outcomes, model = outcomes_of(fold), Model.of(journal)
    for pin in pins:
        partition = pin.place.partition
        tail = [one for one in journal if one.partition == partition and one.position >= pin.mark]
        every = sorted({one.key for one in tail if one.key is not None})
        keys = data.draw(st.sets(st.sampled_from(every))) if every else set()
        foretold = Foretold(pin, keys)
        while tail:
            size = data.draw(st.integers(1, len(tail)))
            foretold.take(messages(tail[:size]))
            tail = tail[size:]
        for one in journal:
            if one.partition == partition and one.position >= pin.mark and one.key in keys:
                at = Position(TOPIC, partition, one.position)
                outcome = receipt_outcome(at, foretold.verdicts[one.position])
                assert outcome == outcomes[partition, one.position]
                assert outcome.word == model.verdicts[partition, one.position].outcome
        newest = {key: row for key, row in model.newest.items() if _is_ahead(row, keys, pin.mark)}
        assert foretold.rows == newest
        for table in [name for name in history_tables() if name != "entities"]:
            ahead = [row for row in fold.rows(table) if _is_ahead(row, keys, pin.mark)]
            assert sorted(_facts(foretold, keys, table)) == sorted(ahead)


def _is_ahead(row: EntityRow, keys: set[bytes], mark: int) -> bool:
    return _key(row) in keys and row.logical_timestamp >= mark


def _key(row: Any) -> bytes:
    return f"{row.tenant}/{row.aggregate}".encode()


def _facts(foretold: Foretold, keys: set[bytes], table: str) -> list[Any]:
    """The rows of a table that are kept of some keys: each under its own key, in the order of the events."""
    found = []
    for key in keys:
        begin, rows = foretold.facts(key, [table])
        kept = rows.get(table, [])
        assert begin == foretold.pin.mark
        assert {*map(_key, kept)} <= {key}
        assert kept == sorted(kept, key=_place)
        found += kept
    return found


def _place(row: Any) -> tuple[int, int]:
    return row.logical_timestamp, row.seq


@given(st.lists(st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 4)), max_size=3), max_size=8), st.data())
def test_the_oldest_events_rows_that_no_rule_reads_are_dropped_whole(
    bits: list[list[tuple[str, int]]], data: st.DataObject
) -> None:
    """Whatever the number that is kept: what is at or above `begin` is complete, and as much as may be is kept."""
    most = data.draw(st.integers(0, 9))
    kept = KeptFacts(0, most)
    events: list[tuple[str, list[_Row]]] = []
    for bit in bits:
        new = [(table, [_Row(len(events) + place, seq) for seq in range(n)]) for place, (table, n) in enumerate(bit)]
        events += new
        unread = {name: [row for table, rows in new if table == name for row in rows] for name in "xy"}
        kept.add({"read": [_Row(rows[0].logical_timestamp, 0) for _, rows in new if rows]}, unread)
    begin, rows = kept.of(None)
    below = next((n for n in range(len(events) + 1) if sum(len(made) for _, made in events[n:]) <= most), 0)
    assert sum(len(made) for _, made in events[begin:]) == sum(len(made) for _, made in events[below:])
    for name in "xy":
        whole = [row for table, made in events if table == name for row in made]
        assert rows.get(name, []) == [row for row in whole if row.logical_timestamp >= begin]
    assert kept.of(["read"]) == (0, {"read": each} if (each := [made[0] for _, made in events if made]) else {})


class _Row(NamedTuple):
    logical_timestamp: int
    seq: int


def test_a_clock_that_others_moved_is_the_streams(tmp_path: Path) -> None:
    """A foreign record bears a later time than the followed one behind it."""
    journal = [
        record_of(EntityRegistered(SHOPS), 1, append_time=5_000),
        record_of(EntityRegistered(ORDERS), 2, append_time=1_000),
    ]
    fold = Fold(tmp_path, 1)
    foretold = Foretold(pin_of(Lake(str(tmp_path))), [OWN])
    foretold.take(messages(journal))
    fold.batch(journal)
    (row,) = foretold.rows.values()
    assert row.system_time == 5_000
    assert row in fold.rows()


def test_an_unmarked_copy_of_an_event_below_the_mark_that_was_marked_is_its_duplicate(tmp_path: Path) -> None:
    registered = EntityRegistered(ORDERS)
    marked = header_for(registered, 1, repeat=True)
    journal = [
        record_of(registered, 1, header=marked),
        record_of(registered, 2, header=marked._replace(repeat=False)),
    ]
    fold = Fold(tmp_path, 1)
    fold.batch(journal[:1])
    foretold = Foretold(pin_of(Lake(str(tmp_path))), [OWN])
    foretold.take(messages(journal[1:]))
    outcome = receipt_outcome(Position(TOPIC, 0, position(1, 2)), foretold.verdicts[position(1, 2)])
    assert isinstance(outcome, Duplicate)
    assert outcome.of.value == position(1, 1)


def test_a_new_id_opens_no_file_of_the_journal_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing grows with the journal: the statistics say that no earlier event can have it."""
    Fold(tmp_path, 1).batch([record_of(EntityRegistered(ORDERS), 1)])
    pin = pin_of(Lake(str(tmp_path)))
    asked: list[str] = []

    def query(self: ViewedTable, select: str, where: str, among: Any) -> list[Any]:
        asked.append(where)
        return []

    monkeypatch.setattr(ViewedTable, "query", query)
    foretold = Foretold(pin, [OWN])
    foretold.take(messages([record_of(TagsAdded(ORDERS, ["new"]), 2)]))
    assert foretold.verdicts[position(1, 2)].outcome == "accepted"
    assert asked == []
    assert pin.marked([("default", "dataset:default/orders", header_for(TagsAdded(ORDERS, ["a"]), 1).event_id)]) == {}
    assert len(asked) == 1


ids = st.sampled_from("abcdefg")
limits = st.tuples(ids, ids).map(lambda two: tuple(sorted(two)))


@given(st.lists(limits, max_size=4), st.booleans(), ids)
def test_an_id_is_looked_for_where_a_file_may_hold_it(
    given_limits: list[tuple[str, ...]], one_says_nothing: bool, event_id: str
) -> None:
    least, greatest = ([limit[side] for limit in given_limits] + [None] * one_says_nothing for side in range(2))
    files = pa.table({"min.event_id": pa.array(least, pa.string()), "max.event_id": pa.array(greatest, pa.string())})
    view: Any = SimpleNamespace(journal=SimpleNamespace(files=files))
    pin = Pin(view, Place(TOPIC, 0, 1, "catalog", frozenset()), 1, position(1, 0), 0)
    within = any(first <= event_id <= last for first, last in given_limits)
    assert pin._may_hold(event_id) == (within or one_says_nothing)


def test_nothing_behind_an_unknown_schema_is_judged_until_it_is_shelved(tmp_path: Path) -> None:
    journal = [
        record_of(EntityRegistered(ORDERS), 1),
        raw_record(UNKNOWN, 2, key=SHOPS_KEY),
        record_of(TagsAdded(ORDERS, ["a"]), 3),
    ]
    Fold(tmp_path, 1)
    foretold = Foretold(pin_of(Lake(str(tmp_path))), [OWN])
    foretold.take(messages(journal))
    foretold.reach(position(1, 9))
    assert foretold.stopped_by is not None
    assert (foretold.next, [*foretold.verdicts]) == (position(1, 2), [position(1, 1)])
    shelved = Foretold(pin_of(Lake(str(tmp_path)), shelved=frozenset({position(1, 2)})), [OWN])
    shelved.take(messages(journal))
    assert shelved.goes_on()
    assert [*shelved.verdicts] == [position(1, 1), position(1, 3)]


class Unread(Message):
    """A record of which Kafka's client can give no headers, as it says once."""

    def headers(self) -> Any:
        raise SystemError("a result with an exception set") from UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")

    def set_headers(self, value: list[Any]) -> None:
        pass


@pytest.mark.parametrize("keys", [[OWN], None])
def test_a_record_that_only_the_stream_can_read_is_told_after_what_stands_before_it(
    tmp_path: Path, keys: list[bytes] | None
) -> None:
    first, odd, last = (record_of(TagsAdded(ORDERS, ["a"]), number) for number in (1, 2, 3))
    Fold(tmp_path, 1)
    foretold = Foretold(pin_of(Lake(str(tmp_path))), keys)
    with pytest.raises(UnavailableError, match=f"record at {TOPIC}/0/{position(1, 2)} has a name that is not") as told:
        foretold.take([Message(first), Unread(odd), Message(last)])
    assert told.value.code == "journal-header-unreadable"
    assert (foretold.next, [*foretold.verdicts]) == (position(1, 2), [position(1, 1)])
    beside = Foretold(pin_of(Lake(str(tmp_path))), [SHOPS_KEY])
    assert beside.take([Message(first), Unread(odd), Message(last)]) is False  # nobody asks for its headers
    assert beside.next == position(1, 4)


def test_an_unknown_schema_in_bytes_without_a_right_digest_stops_nothing(tmp_path: Path) -> None:
    journal = [raw_record(UNKNOWN, 1, digest=None), record_of(EntityRegistered(ORDERS), 2)]
    Fold(tmp_path, 1)
    foretold = Foretold(pin_of(Lake(str(tmp_path))), [OWN])
    foretold.take(messages(journal))
    assert foretold.goes_on()
    assert foretold.verdicts[position(1, 2)].outcome == "accepted"


def test_a_key_that_was_read_past_is_told_from_one_that_was_not(tmp_path: Path) -> None:
    Fold(tmp_path, 1)
    foretold = Foretold(pin_of(Lake(str(tmp_path))), [OWN])
    foretold.take(messages([record_of(EntityRegistered(SHOPS), 1)]))
    assert foretold.has_passed(b"default/dataset:default/shops")
    assert not foretold.has_passed(b"default/dataset:default/new")
    assert not foretold.has_passed(OWN)
