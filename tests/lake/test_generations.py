"""Generations of tables: filled beside the live ones, swapped in all at once, found again after a crash."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from metajournal.lake import tables
from metajournal.lake.declared import derived_tables, history_tables
from metajournal.lake.storage.generations import POINTER
from metajournal.lake.tables import Lake, Reached
from metajournal.lake.views.log import TableLog
from metajournal.lake.views.table import MarkedView
from metajournal.lake.views.views import Views
from metajournal.schemas.errors import DamagedTableError, StreamError
from tests.lake.test_compaction import KEY, KilledError, append, killing
from tests.lake.test_tables import lake_at

OTHERS = {*history_tables(), *derived_tables()} - {"entities"}
"""Tables that stay where they are while `entities` is made anew."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = lake_at(tmp_path)
    append(lake.tables["entities"], [1], 1)
    return lake


def positions(lake: Lake) -> list[int]:
    return sorted(one["logical_timestamp"] for one in lake.tables["entities"].query("logical_timestamp", "true"))


def rebuilt(lake: Lake) -> Lake:
    view = lake.begin_generation(["entities"])
    append(view.tables["entities"], [5, 6], 100)
    return view


def test_a_lake_without_a_pointer_has_its_tables_at_their_own_names(lake: Lake, tmp_path: Path) -> None:
    assert lake.generation == 0
    assert lake.tables["entities"].uri == f"{tmp_path}/entities"
    assert not (tmp_path / POINTER).exists()


def test_a_generation_is_seen_by_nobody_until_it_is_swapped_in(lake: Lake, tmp_path: Path) -> None:
    view = rebuilt(lake)
    assert view.generation == 1
    assert view.tables["entities"].uri == f"{tmp_path}/gen-1/entities"
    assert view.journal.uri == lake.journal.uri
    assert (positions(view), positions(lake), positions(Lake(str(tmp_path)))) == ([100, 101], [1], [1])
    lake.swap_to(1)
    assert (lake.generation, positions(lake), positions(Lake(str(tmp_path)))) == (1, [100, 101], [100, 101])


def test_a_reader_sees_the_swap_when_it_refreshes_and_reads_the_old_tables_till_then(
    lake: Lake, tmp_path: Path
) -> None:
    reader = Lake(str(tmp_path))
    assert positions(reader) == [1]
    journal = reader.journal
    rebuilt(lake)
    lake.swap_to(1)
    assert positions(reader) == [1]
    reader.refresh()
    assert (reader.generation, positions(reader)) == (1, [100, 101])
    assert reader.journal is journal


def test_replaced_tables_cannot_be_opened_and_who_has_opened_them_goes_on(lake: Lake, tmp_path: Path) -> None:
    views = Views(Lake(str(tmp_path)))
    view, reader = views.take(("entities",)), Lake(str(tmp_path))
    assert positions(reader) == [1]
    for number, own in ((1, "entities"), (2, "gen-1/entities")):
        rebuilt(lake)
        lake.swap_to(number)
        assert lake.retire_replaced() == 1
        assert lake.retire_replaced() == 0
        assert not DeltaTable.is_deltatable(str(tmp_path / own)), own
        assert {*(tmp_path / own).glob("*.parquet")}, "the data stays for readers that have opened the table before"
        assert positions(Lake(str(tmp_path))) == [100, 101]
    assert positions(reader) == [1], "a handle that is there goes on"
    assert view.tables["entities"].files.num_rows == 1
    reader.refresh()
    assert (reader.generation, positions(reader)) == (2, [100, 101])
    assert views.take(("entities",)).generation == 2


def test_a_reader_that_meets_the_swap_between_pointer_and_table_looks_again(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pointer is read, then the tables are swapped and the old one is retired, then the table is opened."""
    rebuilt(lake)
    refresh_table = Lake.refresh_table
    swapped: list[str] = []

    def late(reader: Lake, name: str) -> None:
        if name == "entities" and not swapped:
            swapped.append(name)
            lake.swap_to(1)
            lake.retire_replaced()
        refresh_table(reader, name)

    monkeypatch.setattr(Lake, "refresh_table", late)
    reader = Lake(str(tmp_path))
    reader.refresh()
    assert positions(reader) == [100, 101]
    rebuilt(lake)
    look = TableLog.look
    swapped.clear()

    def later(log: TableLog) -> MarkedView:
        if log.name == "entities" and not swapped:
            swapped.append(log.name)
            lake.swap_to(2)
            lake.retire_replaced()
        return look(log)

    monkeypatch.setattr(TableLog, "look", later)
    assert Views(Lake(str(tmp_path))).take(("entities",)).generation == 2


def test_the_stream_retires_what_a_swap_replaced_only_when_no_piece_reads_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilt(lake)
    lake.swap_to(1)
    lake.tidy()
    assert DeltaTable.is_deltatable(str(tmp_path / "entities")), "readers may be opening it just now"
    monkeypatch.setattr(tables, "_OPENED_WITHIN_S", -1.0)
    lake.in_hand = frozenset({"writes"})
    lake.tidy()
    assert DeltaTable.is_deltatable(str(tmp_path / "entities"))
    lake.in_hand = frozenset()
    lake.tidy()
    assert not DeltaTable.is_deltatable(str(tmp_path / "entities"))


def test_an_unfinished_generation_is_found_again_and_continued(lake: Lake, tmp_path: Path) -> None:
    rebuilt(lake)
    again = Lake(str(tmp_path)).begin_generation(["entities"])
    assert again.tables["entities"].mark(KEY) == 102
    append(again.tables["entities"], [7], 102)
    lake.swap_to(again.generation)
    assert positions(lake) == [100, 101, 102]


@pytest.mark.parametrize(("point", "expected"), [("swap-before", [1]), ("swap-after", [100, 101])])
def test_a_swap_is_all_or_nothing_wherever_the_process_ends(
    lake: Lake, tmp_path: Path, point: str, expected: list[int]
) -> None:
    rebuilt(lake)
    with pytest.raises(KilledError):
        lake.swap_to(1, killing(point))
    again = Lake(str(tmp_path))
    assert positions(again) == expected
    again.swap_to(1)
    assert positions(again) == [100, 101]


def test_swapped_out_and_aborted_generations_are_dropped_and_live_ones_never(lake: Lake, tmp_path: Path) -> None:
    rebuilt(lake)
    lake.swap_to(1)
    rebuilt(lake)
    with pytest.raises(StreamError, match="is live"):
        lake.drop_generation(1)
    lake.drop_generation(2)
    lake.drop_generation(0)
    assert {path.name for path in tmp_path.iterdir()} == {"gen-1", "journal", POINTER, *OTHERS}
    view = rebuilt(lake)
    assert view.generation == 2
    lake.swap_to(2)
    lake.drop_generation(1)
    assert positions(Lake(str(tmp_path))) == [100, 101]


def test_what_an_interrupted_removal_leaves_is_never_used(lake: Lake, tmp_path: Path) -> None:
    rebuilt(lake)
    (tmp_path / "gen-1" / "generation.json").unlink()  # the first step of a removal
    with pytest.raises(StreamError) as refused:
        lake.swap_to(1)
    assert refused.value.code == "no-generation"
    view = lake.begin_generation(["entities"])
    assert positions(view) == []


def test_a_generation_of_other_tables_is_not_continued(lake: Lake) -> None:
    rebuilt(lake)
    with pytest.raises(StreamError, match="An unfinished rebuild"):
        lake.begin_generation(["entities", "journal"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"generation": "x", "tables": {}}', '{"generation": 1, "tables": 3}']
)
def test_a_pointer_that_cannot_be_read_is_told_and_never_taken_for_none(lake: Lake, tmp_path: Path, text: str) -> None:
    (tmp_path / POINTER).write_text(text)
    with pytest.raises(StreamError) as refused:
        lake.refresh()
    assert refused.value.code == "lake-pointer"


def test_the_pointer_says_in_plain_json_where_the_tables_are(lake: Lake, tmp_path: Path) -> None:
    rebuilt(lake)
    lake.swap_to(1)
    found: dict[str, Any] = json.loads((tmp_path / POINTER).read_text())
    assert found == {"generation": 1, "tables": {"entities": "gen-1/entities"}}


def test_a_lost_table_of_the_live_generation_is_not_made_anew(lake: Lake, tmp_path: Path) -> None:
    lake.journal.append(lake.journal.schema.empty_table(), Reached({KEY: 1}, {}, {"catalog": "rules-1"}))
    rebuilt(lake)
    lake.swap_to(1)
    (tmp_path / "gen-1").rename(tmp_path / "elsewhere")
    with pytest.raises(DamagedTableError, match="is gone"):
        Lake(str(tmp_path)).create()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"tables": 1}', b'{"tables": ["../x"]}', b'{"tables": [[]]}', b"\xff"]
)
def test_a_damaged_manifest_is_an_error_that_says_what_to_do(lake: Lake, tmp_path: Path, text: bytes) -> None:
    rebuilt(lake)
    lake.offer_generation(1)
    (tmp_path / "gen-1" / "generation.json").write_bytes(text)
    with pytest.raises(StreamError) as found:
        Lake(str(tmp_path)).offered_generation()
    assert found.value.code == "lake-manifest"
    assert "gen-1" in (found.value.hint or "")


def test_a_pointer_that_is_no_text_is_an_error_that_says_what_to_do(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / POINTER).write_bytes(b"\xff\xfe")
    with pytest.raises(StreamError) as found:
        Lake(str(tmp_path)).refresh()
    assert found.value.code == "lake-pointer"


@pytest.mark.parametrize("name", ["50%20off", "[b]", "back\\slash"])
def test_a_path_that_delta_tables_are_not_found_under_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StreamError) as found:
        Lake(str(tmp_path / name))
    assert found.value.code == "lake-path"


def test_what_was_swapped_out_goes_with_a_vacuum_after_the_retention(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        rebuilt(lake)
        lake.swap_to(number)
    monkeypatch.setattr("metajournal.lake.tables._FIRST_VACUUM_S", 0.0)
    assert Lake(str(tmp_path)).tidy(for_s=5)
    assert {path.name for path in tmp_path.iterdir()} >= {"entities", "gen-1", "gen-2"}
    then = (tmp_path / POINTER).stat().st_mtime - 2 * 3600
    os.utime(tmp_path / POINTER, (then, then))
    later = Lake(str(tmp_path))
    assert later.tidy(for_s=5)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"gen-2", "journal", *OTHERS}
    assert positions(later) == [100, 101]
