"""Reading without Spark: current, AS AT, history, cut at what the stream has finished."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.reading import LakeReader
from metajournal.lake.table import Table
from metajournal.lake.tables import Lake
from metajournal.lake.views.log import TableLog
from metajournal.lake.views.table import MarkedView
from metajournal.schemas.domain import Domain, Kind
from metajournal.schemas.errors import (
    InvalidPositionError,
    NotFinalError,
    NotYetVisibleError,
    UnavailableError,
    UnknownEntityError,
)
from metajournal.schemas.positions import Position, position
from metajournal.schemas.topics import TopicNames
from metajournal.schemas.urn import urn
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord
from tests.outside.taking_in import taken_in
from tests.streaming.harness import TOPIC, Crash, EndsAt, Fold, placed

PURCHASES, OTHER = dataset("default", "purchases"), dataset("default", "orders")
PARTITIONS = 2


def journal() -> list[JournalRecord]:
    """Registered, owner set twice, deleted, registered anew; another entity in between."""
    events = [
        EntityRegistered(PURCHASES, tags=["new"]),
        PropertiesSet(PURCHASES, {"owner": "ali"}),
        EntityRegistered(OTHER),
        PropertiesSet(PURCHASES, {"owner": "bea"}),
        EntityDeleted(PURCHASES),
        EntityRegistered(PURCHASES, description="again"),
    ]
    records = [record_of(event, number, header=header_for(event, number + 1)) for number, event in enumerate(events)]
    return placed(records, PARTITIONS)


@pytest.fixture
def fold(tmp_path: Path) -> Fold:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal())
    return fold


def reader(fold: Fold) -> LakeReader:
    return LakeReader(Lake(str(fold.path)), TopicNames(), PARTITIONS)


def place(record: JournalRecord) -> Position:
    return Position(TOPIC, record.partition, record.position)


def test_current_is_the_newest_row_and_says_how_far_the_lake_holds(fold: Fold) -> None:
    answer = reader(fold).current("default", PURCHASES)
    assert answer.row is not None
    assert answer.row.system_properties["description"] == "again"
    assert answer.row.user_properties == {}
    assert answer.held_to == Position(TOPIC, journal()[5].partition, journal()[5].position + 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "owner"), [(0, None), (1, "ali"), (3, "bea")])
def test_as_at_a_position_holds_that_event_and_none_after_it(fold: Fold, number: int, owner: str | None) -> None:
    answer = reader(fold).as_at("default", PURCHASES, place(journal()[number]))
    assert answer.row is not None
    assert answer.row.user_properties.get("owner") == owner
    assert answer.final


def test_as_at_a_time_holds_what_was_appended_by_then(fold: Fold) -> None:
    answer = reader(fold).as_at("default", PURCHASES, NOON + 2999)
    assert answer.row is not None
    assert answer.row.user_properties == {"owner": "ali"}
    assert answer.final
    at_the_event = reader(fold).as_at("default", PURCHASES, NOON + 3000)
    assert at_the_event.row is not None
    assert at_the_event.row.user_properties == {"owner": "bea"}


def test_as_at_a_position_of_another_partition_means_the_time_of_that_event(fold: Fold) -> None:
    other = journal()[2]
    if other.partition == journal()[0].partition:
        pytest.fail("the two entities must stand in different partitions for this test")
    answer = reader(fold).as_at("default", PURCHASES, place(other))
    assert answer.row is not None
    assert answer.row.user_properties == {"owner": "ali"}


def test_a_position_before_the_first_of_another_partition_is_before_everything(fold: Fold) -> None:
    other = next(record for record in journal() if record.partition != journal()[0].partition)
    with pytest.raises(UnknownEntityError):
        reader(fold).as_at("default", PURCHASES, Position(TOPIC, other.partition, 7))


@pytest.mark.parametrize("at", [Position(TOPIC, 99, position(1, 0)), Position("elsewhere", 0, position(1, 0))])
def test_a_position_of_no_partition_of_the_journal_is_refused(fold: Fold, at: Position) -> None:
    with pytest.raises(InvalidPositionError, match=f"This journal has no {at.topic}/{at.partition}"):
        reader(fold).as_at("default", PURCHASES, at)


def test_a_time_that_its_partition_has_not_passed_is_not_final_and_can_be_refused(fold: Fold) -> None:
    late = NOON + 10_000_000
    assert not reader(fold).as_at("default", PURCHASES, late).final
    with pytest.raises(NotFinalError):
        reader(fold).as_at("default", PURCHASES, late, final_only=True)


def test_a_position_that_the_lake_has_not_reached_is_not_answered(fold: Fold) -> None:
    last = journal()[5]
    with pytest.raises(NotFinalError) as refused:
        reader(fold).as_at("default", PURCHASES, Position(TOPIC, last.partition, last.position + 1))
    assert str(last.position + 1) in str(refused.value)


@pytest.mark.parametrize("at", [NOON - 1, "deleted"])
def test_before_it_was_registered_and_while_it_was_deleted_it_is_unknown(fold: Fold, at: int | str) -> None:
    with pytest.raises(UnknownEntityError):
        reader(fold).as_at("default", PURCHASES, at if isinstance(at, int) else place(journal()[4]))


def test_another_tenant_does_not_see_it(fold: Fold) -> None:
    with pytest.raises(UnknownEntityError):
        reader(fold).current("acme", PURCHASES)


def test_history_is_every_row_oldest_first(fold: Fold) -> None:
    rows = reader(fold).history("default", PURCHASES)
    assert [row.user_properties.get("owner") for row in rows] == [None, "ali", "bea", None, None]
    assert [row.deleted for row in rows] == [False, False, False, True, False]


def test_rows_of_before_a_kind_was_taken_over_are_read_and_say_which_topic_they_are_of(tmp_path: Path) -> None:
    """Before the domain's own topic holds anything, too: all that the catalog's holds of it was judged by then."""
    fold, game = Fold(tmp_path, PARTITIONS), urn("game", "chess", "knight")
    events = [EntityRegistered(game), EntityDeleted(game)]
    fold.batch(placed([record_of(event, number) for number, event in enumerate(events)], PARTITIONS))
    catalog, games = TopicNames().journal("catalog"), TopicNames().journal("games")
    known = {catalog: PARTITIONS, games: 3}
    taken_over = LakeReader(Lake(str(fold.path)), TopicNames(), known, firsts={games: position(2, 0)})
    of_before = reader(fold).history("default", game)
    kinds = (Kind("league", "games", 1, 1), Kind("game", "games", 2, 2, "league", 1))
    with taken_in(Domain("games", "", kinds=kinds)):
        now = urn("game", "chess", "knight")
        assert now.aggregate == "league:chess"
        rows = taken_over.history("default", now)
        assert [row.deleted for row in rows] == [False, True]
        assert rows == of_before
        assert {row.aggregate for row in rows} == {str(now)}
        with pytest.raises(UnknownEntityError, match="no longer exists: it was deleted"):
            taken_over.current("default", now)
        places = [taken_over.position_of(row) for row in rows]
    assert [(place.topic, place.value) for place in places] == [(catalog, row.logical_timestamp) for row in rows]
    assert {place.partition for place in places} == {reader(fold).place("default", game)[1]}


@pytest.mark.thorough
def test_history_comes_page_by_page_from_the_newest_back(fold: Fold) -> None:
    rows = reader(fold).history("default", PURCHASES)
    for limit in range(1, 7):
        pages, before = [], None
        while page := reader(fold).history("default", PURCHASES, limit=limit, before=before):
            pages.append(page)
            before = page[0].logical_timestamp
        assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert [row for page in reversed(pages) for row in page] == rows
    assert reader(fold).history("default", PURCHASES, before=1 << 62) == rows
    with pytest.raises(UnknownEntityError):
        reader(fold).history("default", dataset("default", "never"), limit=1, before=5)


def test_rows_of_an_unfinished_batch_are_not_read(tmp_path: Path) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal(), until=journal()[:2])

    fold.engine._crash = EndsAt("after-outcomes")
    with pytest.raises(Crash):
        fold.batch(journal())
    assert len(fold.rows()) == 6
    rows = reader(fold).history("default", PURCHASES)
    assert [row.user_properties.get("owner") for row in rows] == [None, "ali"]
    with pytest.raises(UnknownEntityError):
        reader(fold).current("default", OTHER)


def test_a_lake_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no lake"):
        LakeReader(Lake(str(tmp_path / "nowhere")), TopicNames(), PARTITIONS).current("default", PURCHASES)


def test_the_journal_is_looked_at_before_the_tables_that_its_marks_speak_of(
    fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a batch that ends in between would have its marks seen and its rows not."""
    seen: list[str] = []
    look, refresh = TableLog.look, Table.refresh

    def looked(log: TableLog) -> MarkedView:
        seen.append(log.name)
        return look(log)

    def refreshed(table: Table) -> None:
        seen.append(table.name)
        refresh(table)

    monkeypatch.setattr(TableLog, "look", looked)
    monkeypatch.setattr(Table, "refresh", refreshed)
    reader(fold).current("default", PURCHASES)
    assert seen == ["journal", "entities"]
    Lake(str(fold.path)).refresh()
    assert seen[2] == "journal"
    assert len(seen) == 2 + len(fold.lake.tables)


def test_a_cut_may_name_where_a_partition_begins_in_which_nothing_was_ever_written(fold: Fold) -> None:
    """A search's vector does: `journal.show(…, as_at=found.position_vector)`."""
    last = journal()[5]
    empty = ("metajournal.journal.files", 0)
    cut = {(TOPIC, last.partition): last.position + 1, empty: position(1, 0)}
    assert reader(fold).as_at("default", PURCHASES, cut).row == reader(fold).current("default", PURCHASES).row
    with pytest.raises(NotFinalError):
        reader(fold).as_at("default", PURCHASES, {**cut, empty: position(1, 1)})


def test_as_at_a_cut_holds_the_entitys_own_position_or_else_the_latest_of_the_times(fold: Fold) -> None:
    own, other = journal()[1], journal()[2]
    both = {(TOPIC, one.partition): one.position + 1 for one in (own, other)}
    answer = reader(fold).as_at("default", PURCHASES, both)
    assert answer.row is not None
    assert answer.row.user_properties == {"owner": "ali"}
    assert answer.final
    by_time = reader(fold).as_at("default", PURCHASES, {(TOPIC, other.partition): other.position + 1})
    assert by_time.row == answer.row
    before = reader(fold).as_at("default", PURCHASES, {**both, (TOPIC, own.partition): own.position})
    assert before.row is not None
    assert before.row.user_properties == {}
    marks = {key: reader(fold).views.take(()).journal.mark(key) for key in both}
    assert reader(fold).as_at("default", PURCHASES, marks).row == reader(fold).current("default", PURCHASES).row
    with pytest.raises(NotFinalError):
        reader(fold).as_at("default", PURCHASES, {**both, (TOPIC, other.partition): other.position + 1000})
    with pytest.raises(InvalidPositionError):
        reader(fold).as_at("default", PURCHASES, {**both, ("elsewhere", 0): 1})


def test_who_waits_for_a_position_reads_what_is_folded_meanwhile(fold: Fold) -> None:
    deleted = EntityDeleted(OTHER)
    records = placed([*journal(), record_of(deleted, 6, header=header_for(deleted, 7))], PARTITIONS)
    lake, last = reader(fold), records[-1]
    folding = threading.Thread(target=fold.batch, args=(records,))
    folding.start()
    lake.wait({(TOPIC, last.partition): last.position + 1}, 60)
    with pytest.raises(UnknownEntityError):
        lake.current("default", OTHER)
    folding.join()


def test_a_position_that_is_not_held_in_time_says_how_far_behind_the_lake_is(fold: Fold) -> None:
    last = journal()[5]
    wanted = {(TOPIC, last.partition): last.position + 8}
    with pytest.raises(NotYetVisibleError, match=f"{TOPIC}/{last.partition} by 7 positions") as caught:
        reader(fold).wait(wanted, 0)
    assert caught.value.behind == {(TOPIC, last.partition): 7}
    reader(fold).wait({(TOPIC, last.partition): last.position + 1}, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("key", [("other.journal.catalog", 0), (TOPIC, PARTITIONS), (TOPIC, -1)])
def test_a_position_of_another_journal_is_not_waited_for(fold: Fold, key: tuple[str, int]) -> None:
    with pytest.raises(InvalidPositionError):
        reader(fold).wait({key: 1}, 60)


def test_a_lake_that_is_not_there_in_time_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        LakeReader(Lake(str(tmp_path / "none")), TopicNames(), PARTITIONS).wait({(TOPIC, 0): 1}, 0)
    assert caught.value.code == "no-lake"
