"""The digest of a table: equal for equal contents, another for any change of any column."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.lake import scan
from metajournal.lake.columns import ENTITIES, JOURNAL
from metajournal.lake.digest import table_digest
from metajournal.lake.entities import rows_to_arrow
from metajournal.lake.tables import Reached
from tests.lake.test_compaction import ALL, KEY, entities, journal_rows
from tests.lake.test_lookup import rows
from tests.lake.test_tables import lake_at
from tests.properties import examples


def digest(path: Path, name: str, *parts: pa.Table, marks: Any = None) -> str:
    """The digest of a fresh table that these parts were appended to."""
    table = lake_at(path).tables[name]
    for part in parts:
        table.append(part, Reached({KEY: 1}, {}, {"catalog": "rules-1"}))
    return table_digest(table.delta, ALL if marks is None else marks)


@pytest.mark.thorough
@given(st.lists(rows, min_size=1, max_size=6), st.randoms())
@settings(max_examples=examples(8), deadline=None)
def test_neither_order_nor_files_matter(tmp_path_factory: pytest.TempPathFactory, given_rows: Any, random: Any) -> None:
    whole = rows_to_arrow((one, "catalog", KEY[1]) for one in given_rows)
    random.shuffle(given_rows)
    parts = [rows_to_arrow([(one, "catalog", KEY[1])]) for one in given_rows]
    folders = [tmp_path_factory.mktemp("lake") for _ in range(2)]
    assert digest(folders[0], "entities", whole) == digest(folders[1], "entities", *parts)


ENTITY_CHANGES: dict[str, Any] = {
    "tenant": "acme",
    "urn": "dataset:default/other",
    "aggregate": "dataset:default/other",
    "logical_timestamp": 11,
    "seq": 1,
    "system_time": 1,
    "event_time": 2,
    "event_id": "x",
    "actor": "",
    "deleted": True,
    "kind": "stream",
    "namespace": None,
    "name": "other",
    "record": "{}",
    "user_properties": [("owner", "bob")],
    "user_tags": ["t", "0"],
    "system_properties": [("", "")],
    "system_tags": [""],
}
JOURNAL_CHANGES: dict[str, Any] = {
    "detail": "{}",
    "duplicate_of": 0,
    "entities": ["ab"],
    "repeat": False,
    "key": b"",
    "event_payload": b"\x01\x00\xfe",
    "headers": [{"key": "h", "value": b"\x00"}, {"key": "h", "value": b""}],
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "column"),
    [("entities", column) for column in ENTITY_CHANGES] + [("journal", column) for column in JOURNAL_CHANGES],
)
def test_a_change_of_any_column_shows(tmp_path: Path, name: str, column: str) -> None:
    row = entities([1], 10) if name == "entities" else journal_rows([1], 10)
    schema, changes = (ENTITIES, ENTITY_CHANGES) if name == "entities" else (JOURNAL, JOURNAL_CHANGES)
    field = schema.field(column)
    other = row.set_column(schema.names.index(column), field, pa.array([changes[column]], field.type))
    assert digest(tmp_path / "one", name, row) != digest(tmp_path / "other", name, other)


@pytest.mark.thorough
@pytest.mark.parametrize(("one", "other"), [(["a", "b"], ["a,b"]), (["1:a"], ["a"]), ([], None), (["-"], [None])])
def test_lists_that_look_alike_differ(tmp_path: Path, one: Any, other: Any) -> None:
    found = []
    for number, tags in enumerate((one, other)):
        row = entities([1], 10)
        column = ENTITIES.names.index("user_tags")
        values = pa.array([tags], ENTITIES.field("user_tags").type)
        found.append(digest(tmp_path / str(number), "entities", row.set_column(column, "user_tags", values)))
    assert found[0] != found[1]


def test_a_row_that_is_there_twice_counts_twice(tmp_path: Path) -> None:
    row = entities([1], 10)
    assert digest(tmp_path / "once", "entities", row) != digest(tmp_path / "twice", "entities", row, row)


def test_the_order_of_a_map_does_not_count(tmp_path: Path) -> None:
    column, field = ENTITIES.names.index("user_properties"), ENTITIES.field("user_properties")
    tables = [
        entities([1], 10).set_column(column, field, pa.array([entries], field.type))
        for entries in ([("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")])
    ]
    assert digest(tmp_path / "one", "entities", tables[0]) == digest(tmp_path / "other", "entities", tables[1])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["entities", "journal"])
def test_only_rows_below_the_marks_of_their_partition_count(tmp_path: Path, name: str) -> None:
    rows = entities(range(5), 10) if name == "entities" else journal_rows([0, 1, 0, 1, 0], 10)
    few = digest(tmp_path / "few", name, rows.slice(0, 3))
    assert digest(tmp_path / "all", name, rows, marks={KEY: 13}) == few
    assert digest(tmp_path / "more", name, rows, marks={KEY: 14}) != few
    nothing = digest(tmp_path / "none", name)
    assert digest(tmp_path / "other", name, rows, marks={(KEY[0], 0): 14}) == nothing
    assert digest(tmp_path / "topic", name, rows, marks={("metajournal.journal.files", KEY[1]): 14}) == nothing
    assert digest(tmp_path / "no marks", name, rows, marks={}) == nothing


@pytest.mark.parametrize("name", ["entities", "journal"])
def test_the_way_of_stores_gives_the_same_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    rows = entities(range(5), 10) if name == "entities" else journal_rows([0, 1, 0, 1, 0], 10)
    local = digest(tmp_path / "local", name, rows)
    monkeypatch.setattr(scan, "local_folder", lambda _: None)
    assert digest(tmp_path / "store", name, rows) == local


PLAIN = pa.schema(
    [
        pa.field("domain", pa.string(), nullable=False),
        pa.field("journal_partition", pa.int32(), nullable=False),
        pa.field("logical_timestamp", pa.int64(), nullable=False),
        ("text", pa.string()), ("other", pa.string()), ("number", pa.int64()), ("flag", pa.bool_()),
        ("bytes", pa.binary()), ("time", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VALUES = st.tuples(
    st.none() | st.text("a:-1é", max_size=3), st.none() | st.text("a:-1é", max_size=3),
    st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.booleans(), st.none() | st.binary(max_size=3),
    st.none() | st.integers(0, 2**50),
)  # fmt: skip


def told(value: Any) -> str:
    """The text of a value: its bytes in front, "-" for null."""
    if value is None:
        return "-"
    if isinstance(value, bytes):
        text = hashlib.md5(value).hexdigest()
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, datetime):
        text = str((value - EPOCH) // timedelta(microseconds=1))
    else:
        text = str(value)
    return f"{len(text.encode())}:{text}"


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=8))
def test_it_is_the_sum_of_the_halves_of_each_rows_hash(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[Any, ...]]
) -> None:
    rows = [
        ("catalog", 0, number, *one[:-1], None if one[-1] is None else EPOCH + timedelta(microseconds=one[-1]))
        for number, one in enumerate(values)
    ]
    folder = str(tmp_path_factory.mktemp("table"))
    write_deltalake(folder, pa.Table.from_pylist([dict(zip(PLAIN.names, row, strict=True)) for row in rows], PLAIN))
    upper = lower = 0
    for row in rows:
        hashed = hashlib.md5("".join(map(told, row)).encode()).digest()
        upper += int.from_bytes(hashed[:8], "big")
        lower += int.from_bytes(hashed[8:], "big")
    expected = hashlib.blake2b(f"{len(rows)}:{upper}:{lower}".encode(), digest_size=32).hexdigest()
    for engine in (scan.cursor, scan.single):
        assert table_digest(DeltaTable(folder), {("metajournal.journal.catalog", 0): len(rows)}, engine) == expected
