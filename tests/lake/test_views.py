"""Frozen views: what they hold, when they are renewed, and that all who ask meanwhile share one look."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.cuts import time_below
from metajournal.lake.entities import milliseconds
from metajournal.lake.reading import LakeReader
from metajournal.lake.tables import Lake
from metajournal.lake.views import views as views_module
from metajournal.lake.views.log import LogReader
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


@pytest.mark.thorough
def test_marks_are_the_logs_at_every_version_however_they_are_read(fold: Fold) -> None:
    """Read anew, from a checkpoint, or from the commits since an earlier version: delta-rs says the same."""
    batches(fold, 2, 25)  # beyond a checkpoint, which comes every twenty commits
    journal = Lake(str(fold.path)).journal
    assert list(Path(journal.uri, "_delta_log").glob("*.checkpoint.parquet"))
    reader, known = LogReader(journal.uri, {}), None
    for version in range(1, journal.delta.version() + 1):
        known = reader.state(version, known)
        assert reader.state(version) == known
    assert known is not None
    assert known.transactions == {app: journal.delta.transaction_version(app) for app in known.transactions}
    assert {app.partition("metajournal")[0] for app in known.transactions} == {"", "system_time/"}
    for commit in sorted(Path(journal.uri, "_delta_log").glob("*.json"))[:20]:
        commit.unlink()
    assert reader.state(known.version, reader.state(known.version)) == known


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
    monkeypatch.setattr(views_module, "_MOST_AGE_S", time.monotonic() - expired.taken_s)
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
