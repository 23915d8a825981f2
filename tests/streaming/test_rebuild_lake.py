"""Rebuilds of the history tables: the journal table alone gives the same rows again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.lake.columns import ENTITIES
from metajournal.lake.digest import table_digest
from metajournal.lake.storage.locks import only_one
from metajournal.lake.tables import Lake, Reached
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.errors import DamagedTableError, StreamError
from metajournal.streaming.plan import Pin
from metajournal.streaming.rebuild import InProcess, LakeRebuild, Progress, rebuild_lake
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.strategies import journals, plain_journals
from tests.streaming.harness import TOPIC, Crash, Fold, table_of
from tests.streaming.test_engine import PARTITIONS, PURCHASES, assert_equal, journal_of

many = settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))


def epochs_of(fold: Fold) -> Epochs:
    return Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)}, fold.shelved)


def rebuild(fold: Fold, said: list[Progress] | None = None) -> LakeRebuild:
    target = fold.lake.begin_generation(["entities"])
    say: Any = (lambda progress: None) if said is None else said.append
    return LakeRebuild(fold.settings, epochs_of(fold), fold.lake, target, ["entities"], InProcess(), say)


@pytest.mark.thorough
@given(st.one_of(journals(partitions=PARTITIONS), plain_journals(partitions=PARTITIONS)), st.data())
@many
def test_a_rebuild_in_rounds_of_any_size_killed_between_any_two_gives_the_same_digest(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS)
    middle = data.draw(st.integers(0, len(journal)))
    fold.batch(journal, until=journal[:middle], wide=data.draw(st.booleans()))
    fold.batch(journal, wide=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        fold.lake.journal.compact()
    for records in data.draw(st.lists(st.integers(1, 4), max_size=3)):
        killed = rebuild(fold)
        killed.round(fold.engine.marks, records)
    said: list[Progress] = []
    rebuilt = rebuild(fold, said).run()
    assert rebuilt.equal
    assert rebuilt.marks == fold.engine.marks
    assert rebuilt.digests["entities"] == rebuilt.live["entities"]
    assert rebuilt.digests["entities"] == table_digest(fold.lake.tables["entities"].delta, fold.engine.marks)
    assert said[-1].records == said[-1].of == rebuilt.records == len(fold.journal())
    assert_equal(fold, Model.of(journal))
    rows = (
        rebuild(fold)
        ._target["entities"]
        .sql("select * from entities order by journal_partition, logical_timestamp, seq")
    )
    live = fold.lake.tables["entities"].sql("select * from entities order by journal_partition, logical_timestamp, seq")
    assert rows.to_pylist() == live.to_pylist()


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS), st.data())
@settings(max_examples=examples(5), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_rebuild_of_all_tables_killed_between_its_two_commits_gives_the_same_digests(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS)
    fold.batch(journal)
    names = ["entities", "journal"]

    def from_topic(_: Any, key: Any, start: int, end: int, records: int, earlier: Any) -> Iterator[Any]:
        own = [one for one in journal if one.partition == key[1] and start <= one.position < end]
        if own:
            yield 1, table_of(own)

    def begun() -> LakeRebuild:
        target = Lake(str(fold.path)).begin_generation(names)
        return LakeRebuild(fold.settings, epochs_of(fold), fold.lake, target, names, InProcess())

    def die(*_: Any) -> None:
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metajournal.streaming.tasks.kafka_slices", from_topic)
        for records in data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)):
            killed = begun()
            killed._target["journal"].add_files = die  # type: ignore[method-assign,assignment]
            with suppress(Crash):
                killed.round(fold.engine.marks, records)
        rebuilt = begun().run()
    assert rebuilt.digests == rebuilt.live


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS, max_records=12))
@settings(max_examples=examples(5), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_rebuild_does_without_the_history_tables_and_tells_of_other_rows(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord]
) -> None:
    path: Path = tmp_path_factory.mktemp("lake")
    fold = Fold(path, PARTITIONS)
    fold.batch(journal)
    entities = fold.lake.tables["entities"]
    digest = table_digest(entities.delta, fold.engine.marks)
    entities.delta.delete("seq >= 0")
    found = rebuild(fold).run()
    assert found.digests["entities"] == digest
    assert found.equal == (not fold.lake.tables["entities"].sql("select 1 from entities").num_rows
                           and not Model.of(journal).tables["entities"])  # fmt: skip
    (path / "entities").rename(path / "gone")
    fold.lake = Lake(str(path))
    found = rebuild(fold).run()
    assert found.live == {"entities": None}
    assert found.equal
    assert found.digests["entities"] == digest


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS), st.data())
@many
def test_the_stream_takes_a_rebuilt_generation_over_between_two_batches_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    """Whatever is folded between the offer and the swap, and wherever the stream dies around the swap."""
    fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS)
    first, second = sorted(data.draw(st.tuples(st.integers(0, len(journal)), st.integers(0, len(journal)))))
    fold.batch(journal, until=journal[:first])
    assert fold.engine.take_over() is None
    offering = Lake(str(fold.path))
    LakeRebuild(
        fold.settings, epochs_of(fold), offering, offering.begin_generation(["entities"]), ["entities"], InProcess()
    ).run()
    offering.offer_generation(1)
    fold.batch(journal, until=journal[:second], wide=data.draw(st.booleans()))
    point = data.draw(st.sampled_from(["none", "swap-before", "swap-after"]))

    def die(passed: str) -> None:
        if passed == point:
            raise Crash

    fold.engine._crash.pass_point = die  # type: ignore[method-assign,assignment]
    try:
        assert fold.engine.take_over() == 1
    except Crash:
        fold.start()
        assert fold.engine.take_over() == (1 if point == "swap-before" else None)
    assert fold.lake.generation == 1
    assert fold.lake.tables["entities"].uri.endswith("gen-1/entities")
    fold.batch(journal)
    assert_equal(fold, Model.of(journal))


@pytest.mark.thorough
def test_a_rebuild_that_differs_is_not_swapped_in_unless_it_is_accepted(tmp_path: Path) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES), TagsAdded(PURCHASES, ["pii"])))
    fold.lake.tables["entities"].delta.delete("seq >= 0")
    with pytest.raises(StreamError, match="rows of entities") as refused:
        rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True)
    assert refused.value.code == "rebuild-differs"
    assert Lake(str(tmp_path)).generation == 0
    done = rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True, accept=True)
    assert not done.equal
    fold.start()
    assert fold.lake.generation == 1
    assert [row.user_tags for row in fold.rows()] == [(), ("pii",)]


def test_a_rebuild_that_other_rules_began_is_begun_anew(tmp_path: Path) -> None:
    """It was gone on with after an upgrade, and what the old rules had made was swapped in."""
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES), TagsAdded(PURCHASES, ["pii"])))
    fold.lake.tables["entities"].delta.delete("seq >= 0")
    with pytest.raises(StreamError, match="rows of entities"):
        rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True)
    begun = fold.lake.begun_generation()
    assert begun is not None
    begun.tables["entities"].delta.delete("seq >= 0")
    begun.tables["entities"].refresh()
    begun.tables["entities"].append(ENTITIES.empty_table(), Reached({}, {}, {"catalog": "of another version"}))
    rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True, accept=True)
    fold.start()
    assert [row.user_tags for row in fold.rows()] == [(), ("pii",)]


def test_a_pin_whose_version_the_log_has_forgotten_is_read_at_a_later_one(tmp_path: Path) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES)))
    table = fold.lake.tables["entities"]
    pin = Pin("entities", table.uri, table.delta.version(), {})
    for number in range(3):
        table.append(ENTITIES.empty_table(), Reached({(TOPIC, 0): (1 << 40) + 10 + number}, {}, {}))
    table.delta.create_checkpoint()
    for version in range(pin.version + 1):
        Path(table.uri, "_delta_log", f"{version:020}.json").unlink()
    assert [row["urn"] for row in pin.open().query("urn", "true")] == [str(PURCHASES)]
    with pytest.raises(DamagedTableError):
        Pin("entities", table.uri, table.delta.version() + 1, {}).open()


@pytest.mark.thorough
@pytest.mark.parametrize("wide", [False, True])
def test_a_stream_whose_tables_somebody_else_has_swapped_stops_before_it_writes(tmp_path: Path, wide: bool) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    journal = journal_of(EntityRegistered(PURCHASES), TagsAdded(PURCHASES, ["pii"]))
    fold.batch(journal, until=journal[:1])
    rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True)
    with pytest.raises(StreamError) as stopped:
        fold.batch(journal, wide=wide)
    assert stopped.value.code == "second-writer"
    fold.start()
    fold.batch(journal, wide=wide)
    assert fold.lake.tables["entities"].uri.endswith("gen-1/entities")
    assert_equal(fold, Model.of(journal))


@pytest.mark.thorough
def test_a_stream_that_idles_notices_that_somebody_else_has_swapped_its_tables(tmp_path: Path) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES)))
    assert fold.engine.take_over() is None
    rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True)
    with pytest.raises(StreamError, match="generation 1"):
        fold.engine.take_over()


def test_who_swaps_is_whoever_has_the_lake_wherever_the_stream_runs(tmp_path: Path) -> None:
    """Its lock says so: the status that a stream leaves in its home is on another machine, or in another home."""
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES)))
    asked = []

    def between_two_batches() -> None:
        asked.append(fold.engine.take_over())

    with only_one(str(tmp_path), "stream", hint=""):
        assert rebuild_lake(fold.settings, epochs_of(fold), InProcess(), wait=between_two_batches).generation == 1
    assert len(asked) == 1
    fold.batch(journal_of(EntityRegistered(PURCHASES), TagsAdded(PURCHASES, ["pii"])))
    assert rebuild_lake(fold.settings, epochs_of(fold), InProcess(), wait=between_two_batches).generation == 2
    assert len(asked) == 1


def test_a_rebuild_says_where_the_journal_table_has_another_outcome_than_its_bytes_give(tmp_path: Path) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES), TagsAdded(PURCHASES, ["pii"])))
    fold.lake.journal.delta.update(updates={"outcome": "'unchanged'"}, predicate="event_type = 'catalog.TagsAdded.1'")
    fold.start()
    with pytest.raises(StreamError, match="outcome of 1 events") as refused:
        rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True)
    (place,) = [row["logical_timestamp"] for row in fold.journal() if row["outcome"] == "unchanged"]
    assert [one.rpartition("/")[2] for one in refused.value.data["events"]] == [str(place)]


@pytest.mark.thorough
@pytest.mark.parametrize("folder", ["topic=other", "outcome=rejected/journal_partition=7", "a b's", "ünï#?*"])
def test_a_lake_is_rebuilt_whatever_its_folder_is_called(tmp_path: Path, folder: str) -> None:
    fold = Fold(tmp_path / folder, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES), TagsAdded(PURCHASES, ["pii"])))
    found = rebuild(fold).run()
    assert (found.records, found.equal) == (2, True)


@pytest.mark.thorough
def test_two_rebuilds_of_one_lake_do_not_fill_one_generation(tmp_path: Path) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES)))

    def second(progress: Progress) -> None:
        with pytest.raises(StreamError, match="Another rebuild of the lake") as refused:
            rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True)
        assert refused.value.code == "rebuild-runs"

    assert rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True, say=second).equal
    assert rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True).generation == 2
