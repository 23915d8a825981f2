"""The newest rows kept as columns: those that stood at the marks, and absences, without looking into the lake again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.fold import snapshot as snapshots
from metajournal.fold.hashes import hashes_of_rows
from metajournal.fold.prior import PriorRows
from metajournal.fold.snapshot import Snapshot
from metajournal.lake.tables import Lake
from metajournal.rules.entity import EntityRow
from tests.lake.test_lookup import PARTITION, TOPIC, Key, append, appended, batches, names
from tests.lake.test_tables import lake_at, row
from tests.properties import examples

HIGH = 1 << 50


def kept(lake: Lake, mark: int = HIGH, most_rows: int = 1000) -> Snapshot | None:
    return Snapshot.load(lake.tables["entities"].delta, {(TOPIC, PARTITION): mark}, most_rows)


@pytest.mark.thorough
@given(
    batches,
    st.lists(st.tuples(st.sampled_from(["default", "acme", "nobody"]), names), max_size=8),
    st.integers(0, 31),
)
@settings(max_examples=examples(25), deadline=None)
def test_each_key_gets_its_newest_row_below_the_mark(
    tmp_path_factory: pytest.TempPathFactory, given_batches: list[list[EntityRow]], wanted: Sequence[Key], mark: int
) -> None:
    lake = lake_at(tmp_path_factory.mktemp("lake"))
    newest = appended(lake, given_batches, mark)
    found = kept(lake, mark)
    assert found is not None
    keys = [(tenant, f"dataset:default/{name}") for tenant, name in wanted]
    assert found.rows(keys) == {key: newest[key] for key in keys if key in newest}


def test_rows_of_a_partition_without_a_mark_are_not_seen(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(1)], partition=PARTITION + 1)
    found = kept(lake)
    assert found is not None
    assert found.rows([("default", row(1).urn)]) == {}


def test_keys_that_share_a_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = hashes_of_rows
    monkeypatch.setattr(snapshots, "hashes_of_rows", lambda rows: real(rows) * 0)
    lake = lake_at(tmp_path)
    append(lake, [row(1), row(2)])
    found = kept(lake)
    assert found is not None
    assert found.rows([("default", row(2).urn), ("default", "dataset:default/nobody")]) == {
        ("default", row(2).urn): row(2)
    }


def test_more_newest_rows_than_asked_for_or_a_much_longer_history_are_not_kept(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(number) for number in range(5)])
    assert kept(lake, most_rows=4) is None
    assert kept(lake, most_rows=5) is not None
    for turn in range(1, 9):
        append(lake, [row(number, logical_timestamp=(1 << 41) + turn) for number in range(5)])
    assert kept(lake, most_rows=11) is None  # 45 rows of history
    assert kept(lake, most_rows=12) is not None


class Passes:
    """How often the newest rows were read from the lake, by whichever way."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.snapshots = self.look_ups = 0
        load = Snapshot.load

        def loaded(*asked: object) -> Snapshot | None:
            self.snapshots += 1
            return load(*asked)  # type: ignore[arg-type]

        monkeypatch.setattr(Snapshot, "load", loaded)
        self.prior = PriorRows(lake, cache_rows=100, marks=lambda: {(TOPIC, PARTITION): HIGH})
        look_up = self.prior._newest_of_many

        def looked_up(keys: Sequence[Key], places: Sequence[tuple[int, int]]) -> Mapping[Key, EntityRow]:
            self.look_ups += 1
            return look_up(keys, places)

        monkeypatch.setattr(self.prior, "_newest_of_many", looked_up)

    def ask(self, first: int, count: int = 64) -> dict[Key, EntityRow]:
        """Rows of so many entities that nobody has asked for, as `fetch` does."""
        reading = _Reading()
        return self.prior._rows([reading], [{("default", row(first + at).urn) for at in range(count)}])  # type: ignore[list-item]


class _Reading:
    """Where a partition's batch begins."""

    class place:  # noqa: N801
        topic, partition = TOPIC, PARTITION

    start = HIGH


def test_a_table_that_fits_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(number) for number in range(90)])
    passes = Passes(lake, monkeypatch)
    assert len(passes.ask(0)) == 64
    assert len(passes.ask(64)) == 26  # and nobody has the others
    assert passes.ask(200, count=1) == {}
    assert (passes.snapshots, passes.look_ups) == (1, 0)


def test_a_table_that_is_too_large_is_tried_once_and_then_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(number) for number in range(120)])
    passes = Passes(lake, monkeypatch)
    assert len(passes.ask(0)) == 64
    assert len(passes.ask(64)) == 56
    assert (passes.snapshots, passes.look_ups) == (1, 2)


def test_an_empty_table_knows_that_it_has_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passes(lake_at(tmp_path), monkeypatch)
    assert passes.ask(0) == passes.ask(64) == {}
    assert (passes.snapshots, passes.look_ups) == (1, 0)


def test_few_missing_rows_are_looked_up_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(1)])
    passes = Passes(lake, monkeypatch)
    assert list(passes.ask(0, count=63).values()) == [row(1)]
    assert (passes.snapshots, passes.look_ups) == (0, 1)
