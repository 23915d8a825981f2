"""Frozen views: what they hold, when they are renewed, and that all who ask meanwhile share one look."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.cuts import time_below
from metajournal.lake.declared import FROM_OUTSIDE, SPECS
from metajournal.lake.entities import milliseconds
from metajournal.lake.reading import LakeReader
from metajournal.lake.storage.log_damage import NoTableError
from metajournal.lake.table import Table
from metajournal.lake.tables import Lake
from metajournal.lake.views import log as log_module
from metajournal.lake.views.log import TableLog
from metajournal.lake.views.table import TableView
from metajournal.lake.views.views import Views, whole_view
from metajournal.schemas.errors import DamagedTableError, StaleReadError, UnavailableError
from metajournal.schemas.positions import Position
from metajournal.schemas.topics import TopicNames
from tests.builders import header_for, record_of
from tests.streaming.harness import TOPIC, Fold, placed
from tests.wait import eventually

ORDERS = dataset("default", "orders")
PARTITIONS = 2


def records_of(count: int) -> list[Any]:
    events = [EntityRegistered(ORDERS), *(PropertiesSet(ORDERS, {"n": str(one)}) for one in range(count - 1))]
    return placed([record_of(one, number, header=header_for(one, number)) for number, one in enumerate(events)], 2)


@pytest.fixture
def fold(tmp_path: Path) -> Fold:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(records_of(40), until=records_of(1))
    return fold


def batches(fold: Fold, first: int, last: int) -> None:
    records = records_of(40)
    for end in range(first, last + 1):
        fold.batch(records, until=records[:end])


def marks_of(view: Any) -> dict[int, tuple[int, int]]:
    return {one: (view.journal.mark((TOPIC, one)), view.journal.clock((TOPIC, one))) for one in range(PARTITIONS)}


def marks_in(lake: Lake) -> dict[int, tuple[int, int]]:
    lake.refresh()
    return {one: (lake.journal.mark((TOPIC, one)), lake.journal.clock((TOPIC, one))) for one in range(PARTITIONS)}


def test_a_view_never_changes_and_the_next_one_has_what_was_committed_since(fold: Fold) -> None:
    views = Views(Lake(str(fold.path)))
    first = views.take()
    before = marks_of(first), {name: table.files for name, table in first.tables.items()}
    assert views.take() is first, "nothing was committed"
    batches(fold, 2, 3)
    second = views.take()
    assert (marks_of(first), {name: table.files for name, table in first.tables.items()}) == before
    assert marks_of(second) == marks_in(Lake(str(fold.path))) != before[0]
    assert second.journal.rules == Lake(str(fold.path)).journal.rules()
    assert second.tables["entities"].version > first.tables["entities"].version
    assert second.tables["runs"] is first.tables["runs"], "a table that has not moved is not read again"


def table_of(view: TableView) -> tuple[Any, ...]:
    """What a view tells, whatever order its files are in."""
    shared = [name for name in view.files.column_names if not name.startswith("null_count.")]
    files = view.files.select([name for name in shared if name != "modification_time"]).sort_by("path")
    return view.version, files.to_pylist(), files.schema.remove_metadata(), view.schema, view.partition_columns


def log_of(table: Table) -> TableLog:
    return TableLog(table.name, table.uri, table.storage_options)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["journal", "entities"])
def test_a_log_says_what_delta_rs_says_at_every_version_however_it_is_read(fold: Fold, name: str) -> None:
    """Read anew, from a checkpoint, or on from an earlier version; files are added, joined, and properties change."""
    table = Lake(str(fold.path)).tables[name]
    ahead, versions = log_of(table), [log_of(table).look()]
    for first in (2, 12, 24):  # beyond a checkpoint, which comes every twenty commits
        batches(fold, first, min(first + 11, 30))
        fold.lake.tables[name].refresh()
        fold.lake.tables[name].compact()
        fold.lake.tables[name].create(retention_h=first)
        versions.append(ahead.look())
        assert table_of(log_of(table).look()) == table_of(versions[-1])
    log = Path(table.uri, "_delta_log")
    assert list(log.glob("*.checkpoint.parquet"))
    for view in versions:
        then = DeltaTable(table.uri, version=view.version)
        assert table_of(view) == table_of(TableView.of(then))
        assert view.transactions == {app: then.transaction_version(app) for app in view.transactions}
    newest = Lake(str(fold.path)).tables[name]
    assert versions[-1].version == newest.delta.version()
    assert versions[-1].rules == newest.rules()
    if name == "journal":
        assert {app.partition("metajournal")[0] for app in versions[-1].transactions} >= {"", "system_time/"}
    for commit in sorted(log.glob("*.json"))[:20]:
        commit.unlink()
    assert table_of(log_of(table).look()) == table_of(ahead.look()) == table_of(versions[-1])


def test_who_looks_again_reads_the_commits_since_and_what_has_not_moved_stays(
    fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, read, commit = log_of(fold.lake.journal), list[int](), TableLog._commit

    def noted(self: TableLog, version: int) -> Any:
        actions = commit(self, version)
        read.append(version)
        return actions

    view = log.look()
    monkeypatch.setattr(TableLog, "_commit", noted)
    assert log.look() is view
    assert read == []
    batches(fold, 2, 4)
    assert log.look().version == view.version + 3
    assert read == [view.version + 1, view.version + 2, view.version + 3]


def test_a_commit_that_was_lost_behind_a_look_is_found_missing_within_a_minute(
    fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(fold.lake.journal)
    view = log.look()
    batches(fold, 2, 3)
    lost = Path(log.uri, "_delta_log", f"{view.version + 1:020}.json")
    lost.unlink()
    monkeypatch.setattr(log_module, "_GLANCES_S", 0.0)
    with pytest.raises(DamagedTableError) as refused:
        log.look()
    assert refused.value.file == f"_delta_log/{lost.name}"


@pytest.mark.parametrize("content", ["", "{", "[1]\n", '{"protocol":{"minReaderVersion":3}}\n'])
def test_a_commit_that_is_none_is_damage_whoever_reads_it(fold: Fold, content: str) -> None:
    ahead = log_of(fold.lake.journal)
    bad = Path(ahead.uri, "_delta_log", f"{ahead.look().version + 1:020}.json")
    bad.write_text(content)
    for log in (ahead, log_of(fold.lake.journal)):
        with pytest.raises(DamagedTableError):
            log.look()
    bad.unlink()
    assert ahead.look().version == log_of(fold.lake.journal).look().version


def test_a_place_without_commits_is_no_table(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(NoTableError):
            TableLog("entities", str(place), {}).look()
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(NoTableError):
        TableLog("entities", str(tmp_path), {}).look()


def test_every_declared_table_has_in_its_log_the_columns_that_it_is_declared_with(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.include(FROM_OUTSIDE.values())
    lake.create()
    for name, table in lake.tables.items():
        view = log_of(table).look()
        assert (view.schema, view.version) == (SPECS[name].schema, 0), name
        assert view.schema == TableView.of(table.delta).schema, name


def test_types_of_every_kind_are_read_from_a_log(tmp_path: Path) -> None:
    kinds = [
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(),
        pa.date32(), pa.timestamp("us", "UTC"), pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("n", pa.int32(), False)]))),
    ]  # fmt: skip
    schema = pa.schema([pa.field(f"c{number}", kind, number % 2 == 0) for number, kind in enumerate(kinds)])
    made = DeltaTable.create(str(tmp_path), schema=schema)
    assert TableLog("", str(tmp_path), {}).look().schema == pa.schema(made.schema().to_arrow())


def test_who_asks_while_a_look_is_under_way_shares_the_next_one(fold: Fold, monkeypatch: pytest.MonkeyPatch) -> None:
    views = Views(Lake(str(fold.path)))
    looks, goes_on, look = [], threading.Event(), Views._look

    def slow(self: Views, wanted: frozenset[str]) -> Any:
        looks.append(wanted)
        if len(looks) == 1:
            assert goes_on.wait(20)
        return look(self, wanted)

    monkeypatch.setattr(Views, "_look", slow)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(views.take, ("entities",))
        eventually(lambda: len(looks) == 1, 20, "the first look")
        batches(fold, 2, 2)
        others = [pool.submit(views.take, ("entities", "runs")) for _ in range(8)]
        eventually(lambda: views._next is not None and "runs" in views._wanted, 20, "a question for the next look")
        goes_on.set()
        assert len({id(one.result()) for one in others}) <= 2
        assert all(one.result().tables.keys() >= {"runs", "entities", "journal"} for one in others)
        assert first.result().tables.keys() == {"entities", "journal"}
    assert 2 <= len(looks) <= 3


def test_a_look_that_fails_is_told_to_all_who_share_it_and_the_next_one_is_free(tmp_path: Path) -> None:
    views = Views(Lake(str(tmp_path / "lake")))
    for _ in range(2):
        with pytest.raises(UnavailableError) as refused:
            views.take()
        assert refused.value.code == "no-lake"
    assert whole_view(views) is None
    Fold(tmp_path / "lake", PARTITIONS).batch(records_of(1))
    assert any(mark for mark, _ in marks_of(views.take()).values())


def test_a_damaged_table_stops_only_the_questions_that_need_it(fold: Fold) -> None:
    views = Views(Lake(str(fold.path)))
    shutil.rmtree(fold.path / "runs")
    for _ in range(2):
        assert views.take(("entities",)).tables["entities"].version
        with pytest.raises(DamagedTableError, match="'runs'"):
            views.take(("runs",))
        with pytest.raises(DamagedTableError, match="'runs'"):
            views.take()


def test_a_view_is_renewed_when_it_is_old_when_it_expired_and_when_tables_are_swapped(
    fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(fold.path))
    views = Views(Lake(str(fold.path)))
    first = views.take()
    lake.tables["entities"].delta.optimize.z_order(["tenant"])  # moves rows without a batch: the journal stays
    assert views.take() is first
    views.expire()
    expired = views.take()
    assert expired.tables["entities"].version > first.tables["entities"].version
    monkeypatch.setattr(views, "_most_age_s", time.monotonic() - expired.taken_s)
    assert views.take() is not expired
    monkeypatch.undo()
    begun = lake.begin_generation(["entities"])
    lake.swap_to(begun.generation)
    swapped = views.take()
    assert (swapped.generation, swapped.tables["entities"].files.num_rows) == (1, 0)
    assert swapped.tables["entities"].uri.endswith("gen-1/entities")
    assert set(swapped.tables) == set(fold.lake.tables)


@pytest.mark.thorough
def test_the_time_in_front_of_a_position_is_that_of_the_last_record_below(fold: Fold) -> None:
    batches(fold, 2, 30)
    fold.engine.tidy(for_s=5.0)
    batches(fold, 31, 40)
    journal = Views(Lake(str(fold.path))).take(()).journal
    rows = Lake(str(fold.path)).journal.query("journal_partition as p, logical_timestamp as at, system_time", "true")
    for row in rows:
        at = Position(TOPIC, row["p"], row["at"] + 1)
        below = [
            milliseconds(one["system_time"]) for one in rows if (one["p"], one["at"] < at.value) == (row["p"], True)
        ]
        assert time_below(journal, at) == max(below)
        assert time_below(journal, Position(TOPIC, row["p"], 1)) == 0


def test_a_question_over_all_tables_is_asked_once_more_of_a_new_view_where_a_file_is_gone(fold: Fold) -> None:
    reader = LakeReader(Lake(str(fold.path)), TopicNames(), PARTITIONS)
    views: list[Any] = []

    def ask(view: Any) -> int:
        views.append(view)
        if len(views) < 2:
            raise StaleReadError(str(fold.path / "entities"), "part-0.parquet")
        return len(view.tables)

    assert reader.of_all_tables(ask) == len(fold.lake.tables)
    assert views[0] is not views[1]
    assert LakeReader(Lake(str(fold.path / "none")), TopicNames(), PARTITIONS).of_all_tables(lambda view: view) is None


@pytest.mark.thorough
def test_who_reads_or_follows_single_entities_loads_neither_delta_rs_nor_polars(fold: Fold) -> None:
    """They begin threads and take memory, at the latest with the first table: who answers has no use for them."""
    asked = f"""
import sys
from metajournal.consumers import follower, whole_topic
from metajournal.lake.reading import LakeReader
from metajournal.lake.tables import Lake
from metajournal.schemas.topics import TopicNames
from metajournal.schemas.urn import Urn
reader = LakeReader(Lake({str(fold.path)!r}), TopicNames(), {PARTITIONS})
row = reader.current("default", Urn.parse("dataset:default/orders")).row
print(row.urn, {{"deltalake", "polars"}} & sys.modules.keys())
"""
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["dataset:default/orders", "set()"]
