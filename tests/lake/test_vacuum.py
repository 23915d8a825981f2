"""Vacuum: what no version of the last hours needs goes, orphans too; readers of such a version go on reading."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from metajournal.lake import tables
from metajournal.lake.storage.files import TableFiles
from metajournal.lake.storage.runs import MOST_LOOSE
from metajournal.lake.tables import Lake, Reached, Table
from tests.lake.test_compaction import KEY, append, entities, everything, fill, journal_rows
from tests.lake.test_tables import lake_at


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return lake_at(tmp_path).tables["entities"]


def parquet(table: Table) -> set[str]:
    return {path.name for path in Path(table.uri).glob("**/*.parquet") if "_delta_log" not in path.parts}


def age(table: Table, hours: float) -> None:
    """As if all data files had been written some hours ago."""
    then = time.time() - hours * 3600
    for name in parquet(table):
        os.utime(Path(table.uri) / name, (then, then))


def orphan(table: Table) -> str:
    files = TableFiles("entities", table.uri)
    files.write(entities([1], 1 << 41))
    return files.close()[0].path


def test_orphans_older_than_the_retention_go_and_younger_ones_stay(table: Table) -> None:
    append(table, [1], 1)
    old = orphan(table)
    age(table, 2)
    young = orphan(table)
    before = everything(table)
    assert table.vacuum(1) == 1
    assert old not in parquet(table)
    assert young in parquet(table)
    assert everything(table) == before


def test_a_reader_of_the_version_before_a_compaction_goes_on_reading_within_the_retention(table: Table) -> None:
    fill(table)
    reader = Table("entities", table.uri, {})
    before = everything(reader)
    held = reader.delta
    table.compact()
    age(table, 2)  # the files are old, but they were live until just now
    table.vacuum(1)
    assert len(held.file_uris()) == MOST_LOOSE
    assert sorted(reader.query("*", "true"), key=str) == before


def test_files_that_were_compacted_away_longer_ago_go(table: Table) -> None:
    fill(table)
    table.compact()
    assert len(parquet(table)) == MOST_LOOSE + 1
    before = everything(table)
    age(table, 2)
    assert table.vacuum(0) == MOST_LOOSE
    assert len(parquet(table)) == 1
    assert everything(table) == before


def test_the_writer_goes_on_after_a_vacuum_with_its_marks(table: Table) -> None:
    append(table, [1], 1)
    table.vacuum(1)
    append(table, [2], 2)
    assert Table("entities", table.uri, {}).mark(KEY) == 3
    assert len(everything(table)) == 2
    assert table.rules() == {"catalog": "rules-1"}


@pytest.mark.thorough
def test_upkeep_does_one_thing_at_a_time_and_vacuums_when_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_at(tmp_path)
    fill(lake.tables["entities"])
    old = orphan(lake.tables["entities"])
    age(lake.tables["entities"], 2)
    points: list[str] = []
    while lake.tidy(points.append):
        pass
    assert points == ["compact-before-files", "compact-after-files", "compact-after-commit"]
    assert old in parquet(lake.tables["entities"])
    monkeypatch.setattr(tables, "_FIRST_VACUUM_S", 0.0)
    again = Lake(str(tmp_path), vacuum_retention_h=1)
    turns = 0
    while again.tidy(points.append):
        turns += 1
    assert turns == len(again.tables)
    assert points[3:] == ["vacuum-before", "vacuum-after"] * turns
    assert old not in parquet(again.tables["entities"])
    assert not again.tidy()


@pytest.mark.thorough
def test_upkeep_serves_every_table_in_turn(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    for number in range(2 * MOST_LOOSE):
        append(lake.tables["entities"], [number], number + 1)
        lake.journal.append(
            journal_rows([number % 2], number + 1), Reached({KEY: number + 2}, {}, {"catalog": "rules-1"})
        )
        lake.tidy()
    while lake.tidy():
        pass
    assert all(len(table.delta.file_uris()) < MOST_LOOSE + 5 for table in lake.tables.values())


@pytest.mark.thorough
def test_upkeep_goes_on_for_as_long_as_it_is_given(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    worked = [lake.tables["entities"], lake.journal]
    for table in worked:
        for number in range(MOST_LOOSE):
            rows = entities([1], number + 1) if table.name == "entities" else journal_rows([0], number + 1)
            table.append(rows, Reached({KEY: number + 2}, {}, {"catalog": "rules-1"}))
    assert lake.tidy(for_s=60.0)
    assert [len(table.delta.file_uris()) for table in worked] == [1, 1]
    assert not lake.tidy(for_s=60.0)
