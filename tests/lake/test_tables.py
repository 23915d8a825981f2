"""The lake's tables: marks stand with the rows, never go back, and a second writer is refused."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.lake.columns import ENTITIES, JOURNAL
from metajournal.lake.declared import SPECS, history_tables
from metajournal.lake.entities import COLUMNS, row_from_dict, rows_to_arrow
from metajournal.lake.table import Table
from metajournal.lake.tables import Lake, Reached, quoted
from metajournal.rules.entity import EntityRow
from metajournal.schemas.errors import DamagedTableError, LakeWriteError, StreamError
from tests.properties import examples

KEY = ("metajournal.journal.catalog", 2)
OTHER = ("metajournal.journal.catalog", 3)


def row(number: int = 0, **changes: Any) -> EntityRow:
    base = EntityRow(
        tenant="default",
        urn=f"dataset:default/name{number}",
        kind="dataset",
        namespace="default",
        name=f"name{number}",
        aggregate=f"dataset:default/name{number}",
        logical_timestamp=(1 << 40) + number,
        seq=0,
        system_time=1_700_000_000_123,
        event_time=-5,
        event_id="01890000-0000-7000-8000-000000000000",
        actor=None,
        deleted=False,
        record=None,
        user_properties={"owner": "alice"},
        user_tags=("pii",),
        system_properties={},
        system_tags=(),
    )
    return base._replace(**changes)


def lake_at(path: Path) -> Lake:
    lake = Lake(str(path))
    lake.create()
    return lake


def append(lake: Lake, rows: list[EntityRow], marks: dict[tuple[str, int], int]) -> None:
    table = rows_to_arrow((one, "catalog", KEY[1]) for one in rows)
    lake.tables["entities"].append(table, Reached(marks, {}, {"catalog": "rules-1"}))


def test_a_commit_without_rows_still_moves_the_marks(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    lake.journal.append(JOURNAL.empty_table(), Reached({KEY: 7}, {KEY: 123}, {"catalog": "rules-1"}))
    again = Lake(str(tmp_path))
    assert again.journal.mark(KEY) == 7
    assert again.journal.clock(KEY) == 123
    assert again.journal.mark(OTHER) == 0
    assert again.journal.rules() == {"catalog": "rules-1"}


def test_a_mark_never_goes_back(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(1)], {KEY: 9, OTHER: 4})
    append(lake, [row(2)], {KEY: 5, OTHER: 6})
    again = Lake(str(tmp_path)).tables["entities"]
    assert (again.mark(KEY), again.mark(OTHER)) == (9, 6)


def test_a_table_is_asked_once_for_a_partition_that_it_never_heard_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    look = DeltaTable.transaction_version

    def counted(table: DeltaTable, app: str) -> int | None:
        asked.append(app)
        return look(table, app)

    monkeypatch.setattr(DeltaTable, "transaction_version", counted)
    entities = lake_at(tmp_path).tables["entities"]
    assert [entities.mark(KEY) for _ in range(3)] == [entities.clock(KEY) for _ in range(3)] == [0, 0, 0]
    assert len(asked) == 2
    other = Table(entities.name, entities.uri, {})
    other.append(entities.schema.empty_table(), Reached({KEY: 7}, {}, {"catalog": "rules-1"}))
    entities.refresh()
    assert entities.mark(KEY) == 7
    entities.append(entities.schema.empty_table(), Reached({OTHER: 3}, {}, {"catalog": "rules-1"}))
    assert (entities.mark(KEY), entities.mark(OTHER)) == (7, 3)


def test_rows_and_marks_come_in_one_commit(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    entities = lake.tables["entities"]
    before = entities.delta.version()
    append(lake, [row(1), row(2)], {KEY: 9})
    assert entities.delta.version() == before + 1
    assert len(entities.query("urn", "true")) == 2


def test_a_second_writer_with_the_same_marks_is_refused(tmp_path: Path) -> None:
    mine, theirs = lake_at(tmp_path), Lake(str(tmp_path))
    append(theirs, [row(0)], {KEY: 1})
    mine.refresh()
    append(theirs, [row(1)], {KEY: 2})
    with pytest.raises(StreamError, match="same time"):
        append(mine, [row(1)], {KEY: 2})
    assert len(Lake(str(tmp_path)).tables["entities"].query("urn", "true")) == 2


@pytest.mark.parametrize("on_store", [False, True])
@pytest.mark.parametrize("what", ["vacuum", "compaction"])
def test_upkeep_that_fails_behind_its_commit_takes_no_later_rows_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, on_store: bool
) -> None:
    """Its commit was taken for the next append's on a store, and for another writer's elsewhere."""
    monkeypatch.setattr("metajournal.lake.table.is_store", lambda uri: on_store)
    lake = lake_at(tmp_path)
    entities = lake.tables["entities"]
    for number in range(3):
        append(lake, [row(number)], {KEY: number + 1})
    orphan = Path(entities.uri, "part-orphan.parquet")
    orphan.touch()
    os.utime(orphan, (time.time() - 36_000,) * 2)
    before = DeltaTable(entities.uri).version()

    def landed_and_failed(self: Table, *given: Any) -> None:
        beside = Table(self.name, self.uri, {})
        with monkeypatch.context() as real:
            real.setattr(Table, "_add", add)
            beside._add(*given)
        raise OSError(5, "Input/output error")

    add = Table._add
    with monkeypatch.context() as broken:
        broken.setattr(Table, "_add", landed_and_failed)
        if what == "vacuum":
            broken.setattr(Table, "delta", Vacuuming(entities))
            with pytest.raises(LakeWriteError):
                entities.vacuum(1)
        else:
            with pytest.raises(OSError, match="Input/output"):
                entities.replace([], [])
    assert DeltaTable(entities.uri).version() > before
    append(lake, [row(3)], {KEY: 4})
    append(lake, [row(4)], {KEY: 5})
    fresh = Lake(str(tmp_path)).tables["entities"]
    assert fresh.mark(KEY) == entities.mark(KEY) == 5
    assert {one["urn"] for one in fresh.query("urn", "true")} == {row(number).urn for number in range(5)}
    assert fresh.rules() == {"catalog": "rules-1"}


class Vacuuming:
    """A handle whose vacuum commits and then fails, as where a file cannot be deleted."""

    def __init__(self, table: Table) -> None:
        self._handle = table.delta
        self._uri = table.uri

    def __get__(self, table: Table, kind: type) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def vacuum(self, *given: Any, **named: Any) -> list[str]:
        DeltaTable(self._uri).vacuum(*given, **named)
        raise OSError(5, "Input/output error")


def test_creating_a_table_that_exists_changes_nothing(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(1)], {KEY: 9})
    again = lake_at(tmp_path)
    assert again.tables["entities"].mark(KEY) == 9
    assert again.tables["entities"].delta.schema().to_arrow() is not None


def test_a_table_that_is_gone_is_not_made_anew_under_a_journal_that_holds_events(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    shutil.rmtree(tmp_path / "entities")
    lake_at(tmp_path)  # nothing was folded yet
    append(lake_at(tmp_path), [row()], {KEY: (1 << 40) + 1})
    lake.journal.append(JOURNAL.empty_table(), Reached({KEY: (1 << 40) + 1}, {}, {"catalog": "rules-1"}))
    shutil.rmtree(tmp_path / "entities")
    with pytest.raises(DamagedTableError, match=r"'entities'.* is gone") as refused:
        lake_at(tmp_path)
    assert "metajournal rebuild lake" in refused.value.hint
    assert not (tmp_path / "entities").exists()


def folded_to(lake: Lake, mark: int) -> None:
    """The journal table holds events."""
    lake.journal.append(JOURNAL.empty_table(), Reached({KEY: mark}, {}, {"catalog": "rules-1"}))


def started(path: Path) -> Lake:
    """The lake as the stream's start leaves it."""
    lake = lake_at(path)
    lake.list_tables()
    return lake


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> str:
    """A history table that a later version brings."""
    spec = replace(SPECS["runs"], name="shelves", original=False)
    monkeypatch.setitem(SPECS, spec.name, spec)
    return spec.name


def test_a_table_that_a_later_version_brings_is_made_at_its_first_start(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folded_to(started(tmp_path), (1 << 40) + 1)
    name = request.getfixturevalue("later")
    started(tmp_path)
    assert (tmp_path / name).exists()
    shutil.rmtree(tmp_path / name)
    with pytest.raises(DamagedTableError, match=r"'shelves'.* is gone"):
        lake_at(tmp_path)


@pytest.mark.parametrize("unfinished", [True, False])
def test_a_start_that_was_killed_before_it_listed_a_new_table_is_done_again(
    tmp_path: Path, later: str, unfinished: bool
) -> None:
    spec = SPECS.pop(later)
    folded_to(started(tmp_path), (1 << 40) + 1)
    SPECS[later] = spec
    if unfinished:
        Lake(str(tmp_path)).tables[later].create()
    assert Lake(str(tmp_path)).journal.listed() == frozenset(name for name in history_tables() if name != later)
    started(tmp_path)
    assert Lake(str(tmp_path)).journal.listed() == frozenset(history_tables())


def test_a_lake_of_before_tables_were_listed_has_the_original_ones(tmp_path: Path, later: str) -> None:
    lake = lake_at(tmp_path)
    folded_to(lake, (1 << 40) + 1)
    assert Lake(str(tmp_path)).journal.listed() is None
    shutil.rmtree(tmp_path / later)
    started(tmp_path)
    assert later in (Lake(str(tmp_path)).journal.listed() or ())
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(DamagedTableError, match=r"'runs'.* is gone"):
        lake_at(tmp_path)


def test_a_generation_of_the_journal_table_lists_the_tables_too(tmp_path: Path) -> None:
    lake = started(tmp_path)
    folded_to(lake, (1 << 40) + 1)
    assert lake.begin_generation(["journal"]).journal.listed() == frozenset(history_tables())


@pytest.mark.thorough
def test_compaction_keeps_rows_and_marks_and_leaves_few_files(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    entities = lake.tables["entities"]
    given_rows = [row(number) for number in range(65)]
    gone = 0
    for number, one in enumerate(given_rows):
        append(lake, [one], {KEY: number + 1})
        gone += entities.compact()
    again = Lake(str(tmp_path)).tables["entities"]
    found = again.query(COLUMNS, "true order by logical_timestamp")
    assert [row_from_dict(one) for one in found] == given_rows
    assert (again.mark(KEY), again.rules()) == (65, {"catalog": "rules-1"})
    assert gone > 50
    assert len(again.delta.file_uris()) < 35
    append(lake, [row(1_000)], {KEY: 66})
    assert len(Lake(str(tmp_path)).tables["entities"].query("urn", "true")) == 66


def test_look_ups_read_only_files_that_can_hold_the_key(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(1)], {KEY: 1})
    actions = pa.table(lake.tables["entities"].delta.get_add_actions(flatten=True))
    assert actions["min.urn"].to_pylist() == ["dataset:default/name1"]
    assert "min.actor" not in actions.column_names


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
rows = st.builds(
    row,
    number=st.integers(0, 10**6),
    actor=st.none() | text,
    deleted=st.booleans(),
    event_time=st.integers(-62_135_596_800_000, 253_402_300_799_999),
    system_time=st.integers(0, 253_402_300_799_999),
    user_properties=st.dictionaries(text, text, max_size=3).map(lambda found: dict(sorted(found.items()))),
    system_properties=st.dictionaries(text, text, max_size=3).map(lambda found: dict(sorted(found.items()))),
    user_tags=st.lists(text, max_size=3, unique=True).map(lambda tags: tuple(sorted(tags))),
    namespace=st.none() | text,
    record=st.none() | st.dictionaries(text, st.none() | text | st.integers(-(2**53), 2**53), max_size=3),
)


@given(st.lists(rows, min_size=1, max_size=4, unique_by=lambda one: one.logical_timestamp))
@settings(max_examples=examples(10), deadline=None)
def test_rows_come_back_from_the_table_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, given_rows: list[EntityRow]
) -> None:
    lake = lake_at(tmp_path_factory.mktemp("lake"))
    append(lake, given_rows, {KEY: 1 << 41})
    found = lake.tables["entities"].query(COLUMNS, "true order by logical_timestamp")
    assert [row_from_dict(one) for one in found] == sorted(given_rows, key=lambda one: one.logical_timestamp)


@given(text)
def test_quoted_text_is_a_literal_of_exactly_this_text(value: str) -> None:
    assert quoted(value)[1:-1].replace("''", "").count("'") == 0
    assert quoted(value)[1:-1].replace("''", "'") == value


def test_tables_have_the_columns_that_every_history_table_has() -> None:
    common = [
        "tenant",
        "aggregate",
        "logical_timestamp",
        "seq",
        "system_time",
        "event_time",
        "event_id",
        "actor",
        "deleted",
    ]
    assert set(common) <= set(ENTITIES.names)
    assert pa.types.is_int64(ENTITIES.field("logical_timestamp").type)


@pytest.mark.thorough
def test_the_log_stays_short_and_still_names_the_rules(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    log = tmp_path / "entities" / "_delta_log"
    for number in range(45):
        append(lake, [row(number)], {KEY: number + 1})
    an_hour_ago = time.time() - 3600
    for path in log.iterdir():
        os.utime(path, (an_hour_ago, an_hour_ago))
    for number in range(45, 65):
        append(lake, [row(number)], {KEY: number + 1})
    assert sorted(log.glob("*.checkpoint.parquet"))
    assert not (log / f"{5:020}.json").exists()
    again = Lake(str(tmp_path)).tables["entities"]
    assert (again.mark(KEY), again.rules(), len(again.query("urn", "true"))) == (65, {"catalog": "rules-1"}, 65)
    for _ in range(12):
        lake.tables["entities"].vacuum(1)
    assert Lake(str(tmp_path)).tables["entities"].rules() == {"catalog": "rules-1"}


def test_a_table_made_with_other_properties_gets_the_current_ones_and_keeps_its_rows(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(1)], {KEY: 1})
    longer = Lake(str(tmp_path), vacuum_retention_h=48)
    longer.create()
    entities = Lake(str(tmp_path)).tables["entities"]
    assert entities.delta.metadata().configuration["delta.deletedFileRetentionDuration"] == "interval 48 hours"
    assert (entities.mark(KEY), entities.rules(), len(entities.query("urn", "true"))) == (1, {"catalog": "rules-1"}, 1)
    version = entities.delta.version()
    longer.create()
    append(longer, [row(2)], {KEY: 2})
    assert Lake(str(tmp_path)).tables["entities"].delta.version() == version + 1
