"""Compaction changes no row, no mark and no digest, costs what was added, and may end at any moment."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.lake.columns import ENTITIES, JOURNAL
from metajournal.lake.declared import SPECS
from metajournal.lake.digest import table_digest
from metajournal.lake.entities import rows_to_arrow
from metajournal.lake.storage import compaction
from metajournal.lake.storage.compaction import live_files
from metajournal.lake.storage.files import TableFiles, run_of
from metajournal.lake.storage.runs import FAN_IN, MOST_LOOSE, LiveFile, runs_of, tier, to_merge, to_sort
from metajournal.lake.tables import Lake, Reached, Table
from tests.lake.test_tables import lake_at, row
from tests.properties import examples

TOPIC = "metajournal.journal.catalog"
KEY = (TOPIC, 2)
ALL = {KEY: 1 << 50}
POINTS = ("compact-before-files", "compact-after-files", "compact-after-commit")


class KilledError(Exception):
    """The process ended here."""


def killing(point: str) -> Any:
    def at(passed: str) -> None:
        if passed == point:
            raise KilledError

    return at


def entities(names: Sequence[int], first: int) -> pa.Table:
    """Rows of the entities with these numbers, at positions from `first` on."""
    return rows_to_arrow(
        (
            row(name, logical_timestamp=first + number, user_tags=tuple(f"t{n}" for n in range(name % 3))),
            "catalog",
            KEY[1],
        )
        for number, name in enumerate(names)
    )


def many(count: int, first: int) -> pa.Table:
    """As `entities`, in bulk: the names run from 0 on, in the order of their text."""
    rows = entities([0], first).take(pa.array([0] * count))
    urns = pc.binary_join_element_wise("dataset:default/", pc.utf8_lpad(pa.array(map(str, range(count))), 7, "0"), "")
    columns = {"urn": urns, "logical_timestamp": pa.array(range(first, first + count))}
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.names.index(name), ENTITIES.field(name), values)
    return rows


def append(table: Table, names: Sequence[int], first: int) -> None:
    table.append(entities(names, first), Reached({KEY: first + len(names)}, {}, {"catalog": "rules-1"}))


def journal_rows(days: Sequence[int], first: int) -> pa.Table:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows: list[dict[str, Any]] = [
        {
            "topic": TOPIC,
            "journal_partition": KEY[1],
            "logical_timestamp": first + number,
            "system_date": (start + timedelta(days=day)).date(),
            "system_time": start + timedelta(days=day),
            "append_time": start,
            "outcome": "accepted",
            "entities": ["a", "b"] if day % 2 else None,
            "event_payload": bytes([day, 0, 255]),
            "headers": [{"key": "h", "value": b"\x00"}, {"key": "h", "value": None}],
        }
        for number, day in enumerate(days)
    ]
    return pa.Table.from_pylist(rows, schema=JOURNAL)


def everything(table: Table) -> list[dict[str, Any]]:
    return sorted(Table(table.name, table.uri, {}).query("*", "true"), key=str)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return lake_at(tmp_path).tables["entities"]


def fill(table: Table, appends: int = MOST_LOOSE, each: int = 3) -> None:
    start = table.mark(KEY)
    for number in range(appends):
        first = start + number * each
        append(table, [(first + one) * 7919 % 50 for one in range(each)], first)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 9), min_size=1, max_size=5)),
        st.tuples(st.just("many"), st.integers(1, MOST_LOOSE)),
        st.tuples(st.sampled_from(["tidy", "compact", "reopen", *POINTS]), st.none()),
    ),
    max_size=8,
)


@pytest.mark.thorough
@given(steps)
@settings(max_examples=examples(6), deadline=None)
def test_any_sequence_of_appends_compactions_and_deaths_gives_the_rows_marks_and_digest_of_the_appends_alone(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    lakes = [lake_at(tmp_path_factory.mktemp("lake")) for _ in range(2)]
    compacted, plain = (lake.tables["entities"] for lake in lakes)
    for what, detail in steps:
        if what in ("append", "many"):
            for names in [detail] if what == "append" else [[number % 7] for number in range(detail)]:
                first = plain.mark(KEY)
                append(plain, names, first)
                append(compacted, names, first)
        elif what == "tidy":
            compacted.tidy()
        elif what == "compact":
            compacted.compact()
        else:
            with contextlib.suppress(KilledError):
                compacted.compact(killing(what))
            compacted = Table("entities", compacted.uri, {})
    assert everything(compacted) == everything(plain)
    assert Table("entities", compacted.uri, {}).mark(KEY) == plain.mark(KEY)
    assert table_digest(compacted.delta, ALL) == table_digest(plain.delta, ALL)


@pytest.mark.thorough
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=MOST_LOOSE // 2, max_size=MOST_LOOSE))
@settings(max_examples=examples(4), deadline=None)
def test_the_journal_table_keeps_every_record_verbatim_and_each_file_its_date(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
) -> None:
    journal = lake_at(tmp_path_factory.mktemp("lake")).journal
    for days in batches:
        first = journal.mark(KEY)
        journal.append(
            journal_rows(sorted(days), first), Reached({KEY: first + len(days)}, {KEY: first}, {"catalog": "rules-1"})
        )
    before, digest, loose = everything(journal), table_digest(journal.delta, ALL), len(live_files(journal.delta))
    gone = journal.compact()
    assert everything(journal) == before
    assert table_digest(journal.delta, ALL) == digest
    assert (gone > 0) == (loose >= MOST_LOOSE)
    assert sum(run_of(file.path) is None for file in live_files(journal.delta)) < MOST_LOOSE
    assert journal.clock(KEY) == Lake(journal.uri.removesuffix("/journal")).journal.clock(KEY)


@pytest.mark.thorough
@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_ends_inside_compaction_leaves_nothing_doubled_or_lost(table: Table, point: str) -> None:
    fill(table)
    before = everything(table)
    with pytest.raises(KilledError):
        table.compact(killing(point))
    again = Table("entities", table.uri, {})
    assert everything(again) == before
    append(again, [1], again.mark(KEY))
    assert again.compact() == (0 if point == "compact-after-commit" else MOST_LOOSE + 1)
    assert len(everything(again)) == len(before) + 1


@pytest.mark.thorough
def test_a_commit_of_somebody_else_wins_and_compaction_is_tried_again_later(table: Table) -> None:
    fill(table)
    other = Table("entities", table.uri, {})

    def meanwhile(point: str) -> None:
        if point == "compact-after-files":
            append(other, [77], other.mark(KEY))

    before = everything(table)
    assert table.compact(meanwhile) == 0
    assert len(everything(table)) == len(before) + 1
    assert table.compact() == 0
    append(table, [78], table.mark(KEY))
    assert table.compact() == MOST_LOOSE + 2
    assert len(everything(table)) == len(before) + 2


def test_two_compactors_do_not_double_a_table(table: Table) -> None:
    fill(table)
    other = Table("entities", table.uri, {})
    assert other.delta.version() == table.delta.version()
    before = everything(table)
    assert (table.compact(), other.compact()) == (MOST_LOOSE, 0)
    assert everything(table) == before


@pytest.mark.thorough
def test_a_compacted_file_is_sorted_in_small_row_groups_with_statistics(table: Table) -> None:
    for number in range(MOST_LOOSE):
        rows = many(30_000, 1).take(pa.array(range(number, 30_000, MOST_LOOSE)))
        table.append(rows, Reached({KEY: 30_001}, {}, {"catalog": "rules-1"}))
    table.compact()
    (file,) = live_files(table.delta)
    found = pq.ParquetFile(f"{table.uri}/{file.path}")
    rows = found.read().select(SPECS["entities"].sorted_by).to_pylist()
    places = [tuple(one.values()) for one in rows]
    assert places == sorted(places)
    assert len(places) == 30_000
    assert [found.metadata.row_group(number).num_rows for number in range(2)] == [16_384, 30_000 - 16_384]
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"
    actions = pa.table(table.delta.get_add_actions(flatten=True))
    assert actions["num_records"].to_pylist() == [30_000]
    assert actions["min.urn"].to_pylist() == [places[0][1]]
    assert actions["max.urn"].to_pylist() == [places[-1][1]]


def test_a_compaction_says_in_the_log_that_no_data_changed(table: Table) -> None:
    fill(table)
    table.compact()
    log = Path(table.uri) / "_delta_log" / f"{table.delta.version():020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    removed = [action["remove"] for action in actions if "remove" in action]
    added = [action["add"] for action in actions if "add" in action]
    assert (len(removed), len(added)) == (MOST_LOOSE, 1)
    assert not any(one["dataChange"] for one in removed + added)
    assert [action["txn"]["appId"] for action in actions if "txn" in action] == ["metajournal.compaction"]
    assert table.rules() == {"catalog": "rules-1"}


@pytest.mark.thorough
def test_large_loose_files_are_sorted_and_merged_in_several_steps(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_STEP_S", 0)  # a step is as short as it can be
    files = TableFiles("entities", table.uri)
    files.write(many(100_000, 1))
    table.add_files(files.close(), Reached({KEY: 100_001}, {}, {"catalog": "rules-1"}))
    for number in range(MOST_LOOSE - 1):
        append(table, range(number + 1), table.mark(KEY))
    before = table_digest(table.delta, ALL)
    steps = 0
    while table.tidy():
        steps += 1
    assert steps > 10
    assert table_digest(table.delta, ALL) == before
    assert all(run_of(file.path) for file in live_files(table.delta))


@pytest.mark.thorough
def test_appends_go_on_between_the_steps_of_a_merge(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_STEP_S", 0)
    for first in range(1, FAN_IN * 33_000, 33_000):
        files = TableFiles("entities", table.uri, run=f"{first:032x}")
        files.write(many(33_000, first))
        table.add_files(files.close(), Reached({KEY: first + 33_000}, {}, {"catalog": "rules-1"}))
    steps = 0
    while table.tidy():
        append(table, [1], table.mark(KEY))
        steps += 1
    assert steps > MOST_LOOSE
    rows = sorted(run.rows for run in runs_of(live_files(table.delta)))
    assert rows[-1] == FAN_IN * 33_000
    assert rows[0] < 100  # what was appended meanwhile was sorted before the merge had ended
    assert table.query("count(*) as rows", "true") == [{"rows": FAN_IN * 33_000 + steps}]


@pytest.mark.thorough
def test_every_reader_of_delta_tables_opens_a_compacted_table(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    table, journal = lake.tables["entities"], lake.journal
    fill(table, MOST_LOOSE + 5)
    for number in range(MOST_LOOSE):
        journal.append(journal_rows([number % 2], number + 1), Reached({KEY: number + 2}, {}, {"catalog": "rules-1"}))
    assert table.compact()
    assert journal.compact()
    files = [uri.removeprefix("file://") for uri in table.delta.file_uris()]
    with duckdb.connect() as connection:
        assert connection.read_parquet(files).aggregate("count(*)").fetchall() == [((MOST_LOOSE + 5) * 3,)]
    assert pl.scan_delta(table.uri).select(pl.len()).collect().item() == (MOST_LOOSE + 5) * 3
    assert pl.scan_delta(journal.uri).select(pl.col("system_date").n_unique()).collect().item() == 2
    assert table.delta.to_pyarrow_table().schema.names == ENTITIES.names


files_of_tables = st.lists(
    st.builds(
        lambda number, rows, day, run: LiveFile(
            f"run-{run:032x}-{number:06}.zstd.parquet" if run else f"part-{number}.zstd.parquet",
            rows,
            rows,
            {"system_date": f"2026-01-0{day}"},
        ),
        st.integers(0, 99),
        st.integers(1, 10**7),
        st.integers(1, 3),
        st.integers(0, 40),
    ),
    unique_by=lambda file: file.path,
    max_size=60,
).filter(lambda files: all(len({str(file.partition) for file in run.files}) == 1 for run in runs_of(files)))


@given(files_of_tables)
def test_planning_ends_and_leaves_few_loose_files_and_few_runs_of_each_tier(files: list[LiveFile]) -> None:
    live, made = list(files), 0
    while (job := to_sort(live) or to_merge(live)) is not None:
        assert len({str(file.partition) for file in job.files}) == 1
        live = [file for file in live if file not in job.files]
        made += 1
        rows = sum(file.rows for file in job.files)
        live.append(LiveFile(f"run-{made + 1000:032x}-000000.zstd.parquet", rows, rows, job.files[0].partition))
    assert sum(run_of(file.path) is None for file in live) < MOST_LOOSE
    tiers = [(tier(run.rows), str(run.files[0].partition)) for run in runs_of(live)]
    assert all(tiers.count(one) < FAN_IN for one in tiers)


@pytest.mark.thorough
def test_a_row_is_written_again_once_for_each_tier() -> None:
    """The cost of compaction follows what was added: log(table / batch) times, never once for each batch."""
    live: list[LiveFile] = []
    written = added = made = 0
    for number in range(10_000):
        live.append(LiveFile(f"part-{number}.zstd.parquet", 200, 200, {}))
        added += 200
        while (job := to_sort(live) or to_merge(live)) is not None:
            gone = {file.path for file in job.files}
            live = [file for file in live if file.path not in gone]
            rows, made = sum(file.rows for file in job.files), made + 1
            written += rows
            live.append(LiveFile(f"run-{made:032x}-000000.zstd.parquet", rows, rows, {}))
    assert written / added < 7
    assert len(live) < MOST_LOOSE + 6 * FAN_IN
