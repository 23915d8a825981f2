"""Look-ups of many keys at once: the newest row below a position, whatever files hold it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.lake import lookup, scan
from metajournal.lake.columns import ENTITIES
from metajournal.lake.entities import row_from_dict, rows_to_arrow
from metajournal.lake.lookup import BELOW, newest_rows_below
from metajournal.lake.lookup import PARTITION as KEY_PARTITION
from metajournal.lake.tables import Lake, Reached
from metajournal.lake.views.table import frozen
from metajournal.rules.entity import EntityRow
from tests.lake.test_tables import lake_at, row
from tests.properties import examples

Key = tuple[str, str]
TOPIC = "metajournal.journal.catalog"
PARTITION = 2


def append(lake: Lake, rows: Sequence[EntityRow], partition: int = PARTITION) -> None:
    table = rows_to_arrow((one, "catalog", partition) for one in rows)
    lake.tables["entities"].append(table, Reached({(TOPIC, partition): 1 << 50}, {}, {"catalog": "rules-1"}))


def keys_of(keys: Sequence[Key], below: int = 1 << 50) -> pa.Table:
    columns = [pa.array([key[part] for key in keys], pa.string()) for part in (0, 1)]
    places = [pa.array([PARTITION] * len(keys), pa.int32()), pa.array([below] * len(keys), pa.int64())]
    return pa.table([*columns, *places], names=["tenant", "urn", KEY_PARTITION, BELOW])


def found(lake: Lake, keys: Sequence[Key], below: int = 1 << 50) -> dict[Key, EntityRow]:
    table = newest_rows_below(lake.tables["entities"].delta, keys_of(keys, below))
    assert table.schema.equals(ENTITIES)
    rows = [row_from_dict(one) for one in table.to_pylist(maps_as_pydicts="strict")]
    assert len({(one.tenant, one.urn) for one in rows}) == len(rows)
    return {(one.tenant, one.urn): one for one in rows}


names = st.sampled_from(["a", "b", "é", "z'", "m%2F"])
rows = st.builds(
    lambda tenant, name, place, seq, deleted: row()._replace(
        tenant=tenant, urn=f"dataset:default/{name}", logical_timestamp=place, seq=seq, deleted=deleted
    ),
    st.sampled_from(["default", "acme"]),
    names,
    st.integers(1, 30),
    st.integers(0, 2),
    st.booleans(),
)
batches = st.lists(
    st.lists(rows, min_size=1, max_size=6), max_size=4
).map(  # a place of the log has one row for each entity and sequence number
    lambda given_rows: [
        [one for number, one in enumerate(batch) if _first(given_rows, turn, number)]
        for turn, batch in enumerate(given_rows)
    ]
)


def _first(batches: list[list[EntityRow]], turn: int, number: int) -> bool:
    seen = [_place(one) for batch in batches[:turn] for one in batch] + [_place(one) for one in batches[turn][:number]]
    return _place(batches[turn][number]) not in seen


def _place(one: EntityRow) -> tuple[str, str, int, int]:
    return one.tenant, one.urn, one.logical_timestamp, one.seq


def appended(lake: Lake, given_batches: list[list[EntityRow]], below: int) -> dict[Key, EntityRow]:
    """Append batch by batch; gives the newest row of each key below a position."""
    newest: dict[Key, EntityRow] = {}
    for batch in given_batches:
        if batch:
            append(lake, batch)
        for one in batch:
            key = (one.tenant, one.urn)
            if one.logical_timestamp < below and (key not in newest or _place(newest[key]) < _place(one)):
                newest[key] = one
    return newest


@given(
    batches, st.lists(st.tuples(st.sampled_from(["default", "acme", "nobody"]), names), max_size=5), st.integers(0, 31)
)
@settings(max_examples=examples(20), deadline=None)
def test_each_key_gets_its_newest_row_below_the_position(
    tmp_path_factory: pytest.TempPathFactory, given_batches: list[list[EntityRow]], wanted: list[Key], below: int
) -> None:
    lake = lake_at(tmp_path_factory.mktemp("lake"))
    newest = appended(lake, given_batches, below)
    keys = [(tenant, f"dataset:default/{name}") for tenant, name in wanted]
    expected = {key: newest[key] for key in keys if key in newest}
    assert found(lake, keys, below) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_FEW_FILES", -1)
        assert found(lake, keys, below) == expected


def test_rows_of_other_partitions_are_not_seen(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(1)], partition=1)
    assert found(lake, [("default", row(1).urn)]) == {}


def test_a_pinned_version_does_not_see_what_is_written_later(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(1)])
    table = lake.tables["entities"]
    before = frozen(table.delta)
    append(lake, [row(1, logical_timestamp=1 << 45)])
    keys = keys_of([("default", row(1).urn)])
    assert newest_rows_below(before, keys)["logical_timestamp"].to_pylist() == [1 << 40 | 1]
    assert newest_rows_below(table.delta, keys)["logical_timestamp"].to_pylist() == [1 << 45]


def test_no_keys_and_a_table_without_files_give_no_rows(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    assert found(lake, [("default", "dataset:default/a")]) == {}
    append(lake, [row(1)])
    assert found(lake, []) == {}


@pytest.mark.parametrize("folder", ["with space", "it's", "star*", "é"])
def test_a_lake_in_a_folder_of_any_name_is_read(tmp_path: Path, folder: str) -> None:
    lake = lake_at(tmp_path / folder)
    append(lake, [row(1), row(2)])
    assert list(found(lake, [("default", row(2).urn)]).values()) == [row(2)]


def test_the_way_of_stores_gives_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_at(tmp_path)
    append(lake, [row(number) for number in range(50)])
    keys = [("default", row(number).urn) for number in range(0, 60, 3)]
    expected = found(lake, keys)
    monkeypatch.setattr(scan, "local_folder", lambda _: None)
    assert len(expected) == 17
    assert found(lake, keys) == expected


@given(
    st.lists(
        st.tuples(*[st.none() | st.integers(0, 4)] * 3).map(
            lambda said: dict(
                zip(["min.journal_partition", "max.journal_partition", "min.logical_timestamp"], said, strict=True)
            )
        ),
        max_size=5,
    ),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(0, 5),
)
def test_few_files_are_chosen_as_many_are(
    said: list[dict[str, int | None]], partition: int | None, below: int | None
) -> None:
    schema = pa.schema([
        ("min.journal_partition", pa.int32()), ("max.journal_partition", pa.int32()),
        ("min.logical_timestamp", pa.int64()),
    ])  # fmt: skip
    files = pa.Table.from_pylist(said, schema)
    assert [lookup._can_hold(file, partition, below) for file in said] == lookup._possible(
        files, partition, below
    ).to_pylist()


def test_few_keys_open_only_the_files_that_can_hold_them(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    for number in range(5):
        append(lake, [row(number)])
    delta = lake.tables["entities"].delta
    for path in Path(tmp_path / "entities").glob("*.parquet"):
        if path.name not in lookup._paths(
            delta, keys_of([("default", row(3).urn)]).select(["tenant", "urn"]), PARTITION, 1 << 50
        ):
            path.unlink()
    assert len(list(Path(tmp_path / "entities").glob("*.parquet"))) == 1
    assert list(found(lake, [("default", row(3).urn)]).values()) == [row(3)]
