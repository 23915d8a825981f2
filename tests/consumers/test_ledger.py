"""Deliver or drop, as a pure matter: each record once and in order, whatever the stream repeats, wherever one stops."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metajournal.consumers.ledger import (
    MAX_TEXT_BYTES,
    NOTHING,
    CompactedLedger,
    Ledger,
    Reached,
    below,
    from_text,
    to_text,
)

JOURNAL = "metajournal.journal.catalog"


class Record(NamedTuple):
    partition: int
    place: tuple[int, int]
    key: bytes


@st.composite
def journals(draw: st.DrawFn) -> list[list[Record]]:
    """Records of up to three journal partitions that share one target partition, in order; a key has one partition."""
    partitions = []
    for partition in draw(st.sampled_from([[0], [0, 4], [0, 4, 8]])):
        rows = draw(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", "c", "ab", "abc"])), max_size=8))
        position, records = 1 << 40, []
        for gap, names in rows:
            records += [
                Record(partition, (position, seq), f"{name}{partition}".encode()) for seq, name in enumerate(names)
            ]
            position += gap + 1
        partitions.append(records)
    return partitions


@st.composite
def wires(draw: st.DrawFn) -> list[Record]:
    """What the stream writes of a journal: batches in order, crashes in the middle, then from the mark on again."""
    partitions = draw(journals())
    marks = [0] * len(partitions)
    wire: list[Record] = []
    runs = draw(st.lists(st.tuples(st.integers(1, 8), st.one_of(st.none(), st.integers(0, 12))), max_size=6))
    for size, crash in [*runs, (1000, None)]:
        ends = [min(len(records), mark + size) for mark, records in zip(marks, partitions, strict=True)]
        parts = zip(marks, ends, partitions, strict=True)
        batch = [one for mark, end, records in parts for one in records[mark:end]]
        wire += batch[:crash]
        marks = ends if crash is None else marks  # a crash comes before the done mark
    return wire


def source(record: Record) -> tuple[str, int]:
    return JOURNAL, record.partition


@given(wires(), st.sets(st.integers(0, 80)))
def test_each_record_is_delivered_once_and_in_order_with_restarts_anywhere(wire: list[Record], stops: set[int]) -> None:
    ledger, delivered = Ledger(), []
    for offset, record in enumerate(wire):
        if offset in stops:
            kept = from_text(to_text(ledger.reached))
            assert kept is not None
            ledger = Ledger(kept.reached)
        if ledger.is_new(source(record), record.place, record.key, offset):
            delivered.append(record)
        ledger.take(source(record), record.place, record.key, offset)
    for partition in {record.partition for record in wire}:
        mine = [record for record in delivered if record.partition == partition]
        assert mine == sorted({record for record in wire if record.partition == partition})


def states(left: Iterable[tuple[int, Record]], stops: Container[int] = ()) -> list[Record]:
    """What a member delivers of a compacted topic's offsets; before some of them it is started anew."""
    ledger, delivered, committed = CompactedLedger(), [], 0
    for offset, record in left:
        if offset in stops:
            kept = from_text(to_text(ledger.reached))
            assert kept is not None
            ledger = CompactedLedger(kept.reached, start=committed)
        if ledger.is_new(source(record), record.place, record.key, offset):
            delivered.append(record)
        ledger.take(source(record), record.place, record.key, offset)
        committed = offset + 1
    return delivered


@given(wires(), st.sets(st.integers(0, 80)), st.data())
def test_on_a_compacted_topic_the_newest_of_each_key_comes_and_nothing_older_after_it(
    wire: list[Record], stops: set[int], data: st.DataObject
) -> None:
    cleaned_to = data.draw(st.integers(0, len(wire)))
    later = {index: {one.key for one in wire[index + 1 : cleaned_to]} for index in range(len(wire))}
    left = [(index, one) for index, one in enumerate(wire) if index >= cleaned_to or one.key not in later[index]]
    delivered, restarted = states(left, stops), any(offset in stops for offset, _ in left)
    assert restarted or len(set(delivered)) == len(delivered)
    for key in {record.key for record in wire}:
        seen = [one.place for one in delivered if one.key == key]
        assert seen[-1] == max(one.place for one in wire if one.key == key)
        assert restarted or seen == sorted(seen)


_TWICE = [Record(0, (5, 0), b"a0"), Record(4, (5, 0), b"a4")] * 2


@given(wires(), st.sets(st.integers(0, 80)))
@example(_TWICE, {1, 2})
def test_where_nothing_is_compacted_yet_states_come_once_with_restarts_anywhere(
    wire: list[Record], stops: set[int]
) -> None:
    assert sorted(states(enumerate(wire), stops)) == sorted(set(wire))


def test_a_second_copy_that_compaction_has_left_is_not_lost_behind_a_higher_position() -> None:
    a, b = Record(0, (5, 0), b"a"), Record(0, (6, 0), b"b")
    assert states([(1, b), (2, a), (3, b)]) == [b, a]  # offset 0, the first copy of a, is compacted away


def test_an_older_state_that_comes_again_after_a_restart_is_followed_by_the_newest() -> None:
    old, new = Record(0, (5, 0), b"a"), Record(0, (6, 0), b"a")
    left = [(2, old), (3, new), (4, old), (5, new)]  # published three times; the first are gone
    assert states(left, {4}) == [old, new, old, new]


places = st.tuples(st.integers(-1, (1 << 63) - 2), st.integers(-1, 1 << 31))
reached = st.dictionaries(
    st.tuples(st.sampled_from(["j.journal.catalog", "j.journal.files"]), st.integers(0, 999_999_999)),
    st.builds(Reached, places, st.one_of(st.just(NOTHING), places)),
    max_size=300,
)


@given(reached)
def test_what_was_reached_round_trips_through_a_commit_or_says_that_it_is_not_all(
    held: dict[tuple[str, int], Reached],
) -> None:
    text = to_text(held)
    assert len(text.encode()) <= MAX_TEXT_BYTES
    kept = from_text(text)
    assert kept is not None
    assert kept.reached.items() <= held.items()
    assert kept.complete == (kept.reached == held)


def test_two_hundred_journal_partitions_fit_into_one_commit() -> None:
    held = {(JOURNAL, number): Reached(((7 << 40) + number * 1_000_003, 3)) for number in range(200)}
    text = to_text(held)
    assert len(text) <= MAX_TEXT_BYTES
    assert from_text(text) == (held, True)
    many = {(JOURNAL, number): Reached(((7 << 40) + number, 3)) for number in range(5_000)}
    kept = from_text(to_text(many))
    assert kept is not None
    assert not kept.complete
    assert len(kept.reached) > 200


@pytest.mark.parametrize(
    "text",
    [None, "", "other", "mj2 a 0=1.1", "mj1 0=1.1", "mj1 a 0=1", "mj1 a 0=1.1 + 1=1.1", "mj1 a 0=1.1 é", "mj1  "],
)
def test_metadata_of_somebody_else_are_none(text: str | None) -> None:
    assert from_text(text) is None


@given(st.text())
def test_any_metadata_do_no_harm(text: str) -> None:
    for one in (text, f"mj1 {text}"):
        kept = from_text(one)
        assert kept is None or from_text(to_text(kept.reached, complete=kept.complete)) == kept


def test_a_floor_has_everything_before_its_position_behind_it() -> None:
    ledger = Ledger({(JOURNAL, 0): Reached(below(7))})
    assert not ledger.is_new((JOURNAL, 0), (6, 1 << 30), b"k", 0)
    assert ledger.is_new((JOURNAL, 0), (7, 0), b"k", 0)
