"""The fold's invariants, over real Delta tables: the result depends on the journal's content alone."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, PropertiesSet, TagsAdded
from metajournal.domains.catalog.urns import app, dataset, program
from metajournal.fold.folded import SHELVED, Judged, Verdict
from metajournal.fold.records import Place, Record
from metajournal.fold.repeats import hashes_of
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.rules.entity import EntityRow
from metajournal.schemas.errors import StreamError, UnknownSchemaError
from metajournal.schemas.hashing import digest, partition_of
from metajournal.schemas.positions import position
from metajournal.streaming.deadletters import dead_letter
from metajournal.streaming.engine import Engine
from tests.builders import header_for, raw_record, record_of
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.strategies import journals
from tests.streaming.harness import TOPIC, Crash, EndsAt, Fold, LocalTasks, placed, table_of

CHANGES, SYSTEM, STATE, OUTCOMES = (
    "metajournal.changes.catalog",
    "metajournal.changes.catalog.system",
    "metajournal.state.catalog",
    "metajournal.outcomes.catalog",
)
PURCHASES = dataset("default", "purchases")
PARTITIONS = 3
many = settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))


def assert_equal(fold: Fold, model: Model) -> None:
    """Tables, topics and verdicts are the model's."""
    assert fold.rows() == in_order(model.tables["entities"])
    for topic, published in ((CHANGES, model.user_changes), (SYSTEM, model.system_changes), (STATE, model.states)):
        wanted = [
            (one.partition, one.position, one.seq, f"{one.tenant}/{one.urn}", one.system_time, one.document)
            for one in published
        ]
        assert fold.topics.seen(topic) == sorted(wanted, key=lambda one: one[:3])
    journal = fold.journal()
    assert [(row["journal_partition"], row["logical_timestamp"]) for row in journal] == sorted(model.verdicts)
    for row in journal:
        place = (row["journal_partition"], row["logical_timestamp"])
        verdict = model.verdicts[place]
        assert row["outcome"] == verdict.outcome
        assert row["reason"] == verdict.data.get("reason")
        assert row["duplicate_of"] == verdict.data.get("of")
        assert round(row["system_time"].timestamp() * 1000) == model.system_times[place]
    told = fold.verdicts()
    assert told.keys() == {place for place, verdict in model.verdicts.items() if verdict.outcome != "accepted"}
    for place, (outcome, data) in told.items():
        assert outcome == model.verdicts[place].outcome
        key = "of" if outcome == "duplicate" else "reason"
        assert (data or {}).get(key) == model.verdicts[place].data.get(key)


def in_order(rows: list[EntityRow]) -> list[EntityRow]:
    def place(row: EntityRow) -> tuple[int, int, int]:
        partition = partition_of(f"{row.tenant}/{row.aggregate}".encode(), PARTITIONS)
        return partition, row.logical_timestamp, row.seq

    return sorted(rows, key=place)


@st.composite
def cuts(draw: st.DrawFn, count: int) -> list[int]:
    inner = draw(st.sets(st.integers(1, max(count - 1, 1)), max_size=5))
    return sorted({0, count, *(one for one in inner if one < count)})


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS), st.data())
@many
def test_any_cut_into_batches_with_any_restarts_gives_the_tables_and_topics_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    records = journal
    fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS, cache_rows=data.draw(st.sampled_from([1, 3, 1000])))
    with pytest.MonkeyPatch.context() as patch:  # what is looked up one by one, and what at once
        patch.setattr("metajournal.fold.prior._KEYS_PER_QUERY", data.draw(st.sampled_from([1, 500])))
        patch.setattr("metajournal.fold.prior._MANY_MISSING", data.draw(st.sampled_from([1, 64])))
        patch.setattr("metajournal.streaming.engine._IN_COLUMNS", data.draw(st.sampled_from([1, 300])))
        for _, end in pairwise(data.draw(cuts(len(records)))):
            if data.draw(st.booleans()):
                fold.start()
            fold.batch(records, until=records[:end], wide=data.draw(st.booleans()))
    assert_equal(fold, Model.of(records))


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS), st.integers(1, 5), st.integers(1, 3))
@many
def test_the_wide_way_in_slices_of_any_size_gives_the_rows_and_records_of_the_short_one(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], slice_rows: int, bit_rows: int
) -> None:
    short, wide = (Fold(tmp_path_factory.mktemp(name), PARTITIONS) for name in ("short", "wide"))
    short.batch(journal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metajournal.streaming.tasks._SLICE_ROWS", slice_rows)
        patch.setattr("metajournal.fold.steps._BIT_ROWS", bit_rows)
        patch.setattr("metajournal.fold.prior._KEYS_PER_QUERY", 1)
        wide.batch(journal, wide=True)
    assert wide.rows() == short.rows()
    assert wide.journal() == short.journal()
    assert [wide.topics.seen(topic) for topic in (CHANGES, SYSTEM, STATE)] == [
        short.topics.seen(topic) for topic in (CHANGES, SYSTEM, STATE)
    ]
    assert wide.verdicts() == short.verdicts()
    assert wide.engine.marks == short.engine.marks
    assert wide.engine.clocks == short.engine.clocks
    assert not (wide.path / "_staging" / "anything").parent.exists() or not any((wide.path / "_staging").iterdir())


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS), st.data())
@many
def test_a_process_that_ends_between_any_two_steps_leaves_nothing_doubled_skipped_or_unpublished(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    records = journal
    fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metajournal.fold.prior._MANY_MISSING", data.draw(st.sampled_from([1, 64])))
        for _, end in pairwise(data.draw(cuts(len(records)))):
            crash = data.draw(st.sampled_from(["none", CHANGES, STATE, OUTCOMES, "journal"]))
            crash_here(fold, crash)
            try:
                fold.batch(records, until=records[:end], wide=data.draw(st.booleans()))
            except Crash:
                fold.topics.fail = lambda topic: None
                fold.start()
        fold.topics.fail = lambda topic: None
        fold.start()
        fold.batch(records)
    assert_equal(fold, Model.of(records))


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS), st.data())
@many
def test_events_whose_ids_have_one_hash_are_told_apart(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS)
    few = data.draw(st.sampled_from([0, 1, 7]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metajournal.fold.repeats.hashes_of", lambda ids: hashes_of(ids) & few)
        patch.setattr("metajournal.streaming.tasks._SLICE_ROWS", data.draw(st.sampled_from([1, 3, 50_000])))
        for _, end in pairwise(data.draw(cuts(len(journal)))):
            if data.draw(st.booleans()):
                fold.start()
            fold.batch(journal, until=journal[:end], wide=data.draw(st.booleans()))
    assert_equal(fold, Model.of(journal))


def crash_here(fold: Fold, step: str) -> None:
    """End the process when it publishes to a topic, or before it writes the done mark."""

    def fail(topic: str) -> None:
        if topic == step:
            raise Crash

    fold.topics.fail = fail
    if step == "journal":
        fold.engine._crash = EndsAt("after-outcomes")


def journal_of(*events: Any, **header: Any) -> list[JournalRecord]:
    records = [
        record_of(event, offset, header=header_for(event, offset + 1, **header)) for offset, event in enumerate(events)
    ]
    return placed(records, PARTITIONS)


def test_rows_that_a_crash_left_ahead_of_the_marks_are_not_seen_by_the_fold(tmp_path: Path) -> None:
    records = journal_of(EntityRegistered(PURCHASES), TagsAdded(PURCHASES, ["pii"]), TagsAdded(PURCHASES, ["pii"]))
    fold = Fold(tmp_path, PARTITIONS)
    crash_here(fold, "journal")
    with pytest.raises(Crash):
        fold.batch(records)
    fold.start()
    fold.batch(records, until=records[:1])
    fold.batch(records)
    assert_equal(fold, Model.of(records))
    assert [row["outcome"] for row in fold.journal()] == ["accepted", "accepted", "unchanged"]


@pytest.mark.thorough
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(("start", "end"), [(0, 4), (1, 4), (2, 3)])
def test_a_batch_that_does_not_lie_between_mark_and_end_is_refused_in_either_way(
    tmp_path: Path, wide: bool, start: int, end: int
) -> None:
    records = [record_of(TagsAdded(PURCHASES, [f"t{number}"]), number) for number in range(4)]
    fold = Fold(tmp_path, 1)
    fold.batch(records[:2])
    table, ends = table_of(records[start:]), {(TOPIC, 0): end}
    with pytest.raises(StreamError, match="between its mark and its planned end"):
        fold.engine.run_wide(LocalTasks(table, fold.topics), ends) if wide else fold.engine.run(table, ends)
    assert len(fold.journal()) == 2


def test_a_topic_of_a_new_epoch_is_read_from_its_beginning(tmp_path: Path) -> None:
    fold = Fold(tmp_path, 1)
    fold.batch([record_of(TagsAdded(PURCHASES, [f"t{number}"]), number) for number in range(3)])
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 2, "other", 1)}, frozenset())
    engine = Engine(fold.settings, epochs, Lake(str(tmp_path)), fold.topics)  # type: ignore[arg-type]
    assert engine.marks == {(TOPIC, 0): position(2, 0)}
    assert engine.starting_offsets() == {(TOPIC, 0): 0}


def test_a_batch_of_markers_alone_moves_the_marks(tmp_path: Path) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    fold.engine.run(table_of([]), {(TOPIC, 1): 5})
    fold.start()
    assert fold.engine.starting_offsets() == {(TOPIC, 0): 0, (TOPIC, 1): 5, (TOPIC, 2): 0}


def test_deleting_an_app_takes_along_programs_of_earlier_batches_and_of_this_one(tmp_path: Path) -> None:
    shop = app("default", "shop")
    first, second = program("default", "shop", "flow", "a"), program("default", "shop", "flow", "b")
    records = journal_of(
        EntityRegistered(shop),
        EntityRegistered(first, properties={"owner": "ali"}),
        EntityRegistered(second, properties={"owner": "bea"}),
        EntityDeleted(shop),
    )
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(records, until=records[:2])
    fold.start()
    fold.batch(records)
    assert_equal(fold, Model.of(records))
    assert [(row.urn, row.deleted) for row in fold.rows()][-3:] == [(shop, True), (first, True), (second, True)]


def test_an_unknown_schema_stops_its_partition_after_what_stands_before_it(tmp_path: Path) -> None:
    known = record_of(EntityRegistered(PURCHASES), 0)
    unknown = raw_record(b"\xc3\x01" + bytes(8) + b"body", 1, key=known.key)
    records = placed([known, unknown, record_of(TagsAdded(PURCHASES, ["late"]), 2)], PARTITIONS)
    fold = Fold(tmp_path, PARTITIONS)
    with pytest.raises(UnknownSchemaError) as stopped:
        fold.batch(records)
    assert (stopped.value.partition, stopped.value.position) == (records[1].partition, records[1].position)
    assert [row.user_tags for row in fold.rows()] == [()]
    fold.shelved = frozenset({(TOPIC, records[1].partition, records[1].position)})
    fold.start()
    fold.batch(records)
    assert [row["outcome"] for row in fold.journal()] == ["accepted", "shelved", "accepted"]


@pytest.mark.parametrize("restart", [True, False])
def test_a_repeated_event_gets_the_original_verdict_also_batches_later(tmp_path: Path, restart: bool) -> None:
    first = record_of(EntityRegistered(PURCHASES), 0)
    set_event = PropertiesSet(PURCHASES, {"owner": "ali"})
    header = header_for(set_event, 7)
    original = record_of(set_event, 1, header=header)
    other = record_of(PropertiesSet(PURCHASES, {"owner": "bea"}), 2)
    again = record_of(set_event, 3, header=header._replace(repeat=True))
    zombie = record_of(set_event, 4, header=header)
    records = placed([first, original, other, again, zombie], PARTITIONS)
    fold = Fold(tmp_path, PARTITIONS)
    for end in (3, 4, 5):
        fold.batch(records, until=records[:end])
        if restart:
            fold.start()
    assert_equal(fold, Model.of(records))
    assert [row["duplicate_of"] for row in fold.journal()][3:] == [records[1].position] * 2
    assert fold.rows()[-1].user_properties == {"owner": "bea"}


def test_a_shelved_record_is_kept_verbatim_and_copied_to_the_dead_letter_topic(tmp_path: Path) -> None:
    good = record_of(EntityRegistered(PURCHASES), 0)
    bad = good._replace(value=b"\xff\x00rubbish", digest=digest(b"other"))
    records = placed([good, bad], PARTITIONS)
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(records)
    row = fold.journal()[1]
    assert (row["outcome"], row["reason"], row["event_payload"]) == ("shelved", "bad-digest", bad.value)
    letters = [one for (topic, _), held in fold.topics.records.items() if topic == "metajournal.dlq" for one in held]
    assert [(one.key, one.value) for one in letters] == [(bad.key, bad.value)]
    headers = {name: value.decode() for name, value in letters[0].headers if name != "mj-digest"}
    assert headers["__connect.errors.topic"] == TOPIC
    assert headers["__connect.errors.partition"] == str(records[1].partition)
    assert headers["__connect.errors.offset"] == "1"


def test_a_record_in_another_partition_than_its_keys_is_shelved(tmp_path: Path) -> None:
    record = placed([record_of(EntityRegistered(PURCHASES), 0)], PARTITIONS)[0]
    moved = record._replace(partition=(record.partition + 1) % PARTITIONS)
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch([moved])
    assert [(row["outcome"], row["reason"]) for row in fold.journal()] == [("shelved", "wrong-partition")]


def test_an_event_of_another_domain_is_shelved(tmp_path: Path) -> None:
    event = TagsAdded("repo:one", ["pii"])
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(placed([record_of(event, 0)], PARTITIONS))
    assert [(row["outcome"], row["reason"]) for row in fold.journal()] == [("shelved", "wrong-topic")]


def test_an_event_time_beyond_the_year_9999_is_rejected_and_kept(tmp_path: Path) -> None:
    event = EntityRegistered(PURCHASES)
    record = record_of(event, 0, header=header_for(event, event_time=1 << 60))
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(placed([record], PARTITIONS))
    row = fold.journal()[0]
    assert (row["outcome"], row["reason"], row["event_time"]) == ("rejected", "invalid", None)
    assert json.loads(row["detail"])[0]["field"] == "header.event_time"


@pytest.mark.thorough
def test_a_long_range_is_told_in_several_outcome_records_without_a_gap(tmp_path: Path) -> None:
    unknown = [record_of(TagsAdded(PURCHASES, [f"t{number}"]), number) for number in range(4_100)]
    records = placed(unknown, 1)
    fold = Fold(tmp_path, 1)
    fold.batch(records)
    said = [json.loads(one.value or b"") for one in fold.topics.records[(OUTCOMES, 0)]]
    assert len(said) == 3
    assert all(one["to"] == other["from"] for one, other in pairwise(said))
    assert (said[0]["from"], said[-1]["to"]) == (records[0].position, records[-1].position + 1)
    assert sum(len(one["verdicts"]) for one in said) == 4_100


@pytest.mark.thorough
def test_verdicts_with_long_details_are_told_in_records_that_a_topic_takes(tmp_path: Path) -> None:
    keys = [f"{'k' * 1_100}{number}" for number in range(900)]
    events = [record_of(PropertiesSet(PURCHASES, dict.fromkeys(keys, "v")), number) for number in range(12)]
    fold = Fold(tmp_path, 1)
    fold.batch(placed(events, 1))
    said = fold.topics.records[(OUTCOMES, 0)]
    assert [row["reason"] for row in fold.journal()] == ["invalid"] * 12
    assert len(said) > 1
    assert max(len(one.value or b"") for one in said) < 2 * 1024 * 1024
    assert sum(len(json.loads(one.value or b"")["verdicts"]) for one in said) == 12


def elsewhere(urn: str) -> Any:
    """A dataset whose journal partition is another one than this entity's."""
    taken = partition_of(f"default/{urn}".encode(), PARTITIONS)
    names = (dataset("default", f"other{number}") for number in range(100))
    return next(one for one in names if partition_of(f"default/{one}".encode(), PARTITIONS) != taken)


def test_an_event_that_names_an_entity_of_another_aggregate_does_not_hide_it(tmp_path: Path) -> None:
    other = elsewhere(PURCHASES)
    stray = TagsAdded(other, ["pii"])
    records = placed(
        [
            record_of(EntityRegistered(PURCHASES, tags=["kept"]), 0),
            record_of(stray, 1, header=header_for(stray, 2, entities=(str(other), str(PURCHASES)))),
            record_of(TagsAdded(PURCHASES, ["late"]), 2),
        ],
        PARTITIONS,
    )
    fold = Fold(tmp_path, PARTITIONS)
    for end in (1, 2, 3):
        fold.batch(records, until=records[:end])
        if end == 1:
            fold.start()  # nothing is cached
    assert_equal(fold, Model.of(records))
    assert fold.rows()[-1].user_tags == ("kept", "late")


@pytest.mark.thorough
@pytest.mark.parametrize("ends", [(1, 5), (5,), (1, 2, 5), (1, 3, 5), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("restart", [True, False])
def test_the_original_is_the_lowest_event_wherever_batches_end(
    tmp_path: Path, ends: tuple[int, ...], restart: bool
) -> None:
    event = EntityRegistered(PURCHASES)
    header = header_for(event, 7)
    copies = [header, header, header._replace(repeat=True), header, header]
    records = placed([record_of(event, offset, header=one) for offset, one in enumerate(copies)], 1)
    fold = Fold(tmp_path, 1)
    for end in ends:
        fold.batch(records, until=records[:end])
        if restart:
            fold.start()
    assert [row["duplicate_of"] for row in fold.journal()] == [None, None, *[records[0].position] * 3]


@pytest.mark.parametrize("cut", [1, 2])
def test_a_repeated_event_of_no_valid_tenant_is_a_duplicate_wherever_batches_end(tmp_path: Path, cut: int) -> None:
    event = EntityRegistered(PURCHASES)
    header = header_for(event, 7, tenant="Not A Tenant", repeat=True)
    records = placed([record_of(event, offset, header=header) for offset in range(2)], PARTITIONS)
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(records, until=records[:cut])
    fold.batch(records)
    assert [row["outcome"] for row in fold.journal()] == ["rejected", "duplicate"]


@pytest.mark.thorough
def test_what_is_told_of_a_hostile_event_fits_into_a_record(tmp_path: Path) -> None:
    events = [
        record_of(TagsAdded(PURCHASES, [""] * 900_000), 0),
        record_of(EntityRegistered(PURCHASES, schema=[("", "")] * 400_000), 1),
        record_of(PropertiesSet(PURCHASES, {f"{number:x}\0": "" for number in range(100_000)}), 2),
        record_of(EntityRegistered(PURCHASES), 3, key=b"\0" * 1_000_000),
    ]
    fold = Fold(tmp_path, 1)
    fold.batch([one._replace(partition=0) for one in events])
    said = fold.topics.records[(OUTCOMES, 0)]
    assert [row["reason"] for row in fold.journal()] == ["invalid", "invalid", "invalid", "wrong-key"]
    assert max(len(one.value or b"") for one in said) < 2 * 1024 * 1024


@pytest.mark.parametrize("large", ["value", "key", "headers"])
def test_a_shelved_record_that_fills_its_topic_is_copied_without_what_is_too_much(large: str) -> None:
    filling = b"\0" * (4 * 1024 * 1024 - 100)
    parts: dict[str, Any] = {"key": b"k", "value": b"v", "headers": [("h", b"w")]}
    parts[large] = [("h", filling)] if large == "headers" else filling
    record = Record(position(1, 9), 0, **parts)
    judged = Judged(record, 0, None, Verdict(SHELVED, "no-digest", "none"))
    letter = dead_letter(Place(TOPIC, 1, 4, "catalog", frozenset()), judged, "dlq")
    size = sum(len(part or b"") for part in (letter.key, letter.value, *(value for _, value in letter.headers)))
    assert size < 10_000
    assert letter.key == (b"k" if large == "value" else None)
    assert "too large to copy" in dict(letter.headers)["__connect.errors.exception.message"].decode()


@pytest.mark.thorough
def test_an_app_takes_three_thousand_programs_along_at_once(tmp_path: Path) -> None:
    shop = app("default", "shop")
    events = [record_of(EntityRegistered(program("default", "shop", "flow", f"p{n}")), n) for n in range(3_000)]
    records = placed([*events, record_of(EntityRegistered(shop), 3_000), record_of(EntityDeleted(shop), 3_001)], 1)
    fold = Fold(tmp_path, 1)
    fold.batch(records, until=records[:3_001])
    fold.start()
    fold.batch(records)
    assert_equal(fold, Model.of(records))
    assert sum(row.deleted for row in fold.rows()) == 3_001
