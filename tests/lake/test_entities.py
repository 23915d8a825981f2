"""Rows to columns and back: nothing is lost, maps are sorted, and the order of rows stays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.lake.columns import ENTITIES
from metajournal.lake.entities import row_from_dict, rows_from_arrow, rows_to_arrow
from metajournal.lake.rows import OF_EVENT, each_once
from metajournal.rules.entity import EntityRow

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
properties = st.dictionaries(texts, texts, max_size=5)
tags = st.lists(texts, max_size=4).map(tuple)
times = st.integers(-62_135_596_800_000, 253_402_300_799_999)
rows = st.builds(
    EntityRow, texts, texts, texts, st.none() | texts, texts, texts, st.integers(0, 2) | st.integers(0, 2**63 - 1),
    st.integers(0, 3),
    times, times, texts, st.none() | texts, st.booleans(), st.none() | properties, properties, tags, properties, tags,
)  # fmt: skip
Given = list[tuple[EntityRow, str, int]]


def as_of_events(given_rows: Given) -> Given:
    """The rows as events make them: those of one place in the log have what the event's header says in common."""
    first: dict[tuple[str, int, int], EntityRow] = {}
    made = []
    for row, domain, partition in given_rows:
        of_event = first.setdefault((domain, partition, row.logical_timestamp), row)
        shared = {name: getattr(of_event, name) for name in OF_EVENT}
        made.append((row._replace(**shared), domain, partition))
    return made


@pytest.mark.thorough
@settings(deadline=None)
@given(
    st.lists(st.tuples(rows, st.sampled_from(["catalog", "files"]), st.integers(0, 1)), max_size=20).map(as_of_events)
)
def test_rows_come_back_as_they_were_with_their_maps_sorted(given_rows: Given) -> None:
    table = rows_to_arrow(iter(given_rows))
    table.validate(full=True)
    assert table.schema == ENTITIES
    assert table["domain"].to_pylist() == [domain for _, domain, _ in given_rows]
    assert table["journal_partition"].to_pylist() == [partition for _, _, partition in given_rows]
    assert [row_from_dict(one) for one in table.to_pylist(maps_as_pydicts="strict")] == [
        row for row, _, _ in given_rows
    ]
    for name in ("user_properties", "system_properties"):
        wanted = [sorted(getattr(row, name).items()) for row, _, _ in given_rows]
        assert table[name].to_pylist() == wanted


@given(
    st.lists(st.lists(st.tuples(rows, st.just("catalog"), st.just(0)), max_size=8), min_size=1, max_size=4),
    st.integers(0, 8),
    st.integers(0, 8),
    st.lists(st.booleans(), min_size=32, max_size=32),
)
def test_rows_of_any_part_of_a_table_are_those_of_its_dicts(
    pieces: list[Given], first: int, count: int, absent: list[bool]
) -> None:
    """In several chunks, cut, and with nulls in the place of maps and lists, as other writers may leave them."""
    whole = pa.concat_tables([rows_to_arrow(as_of_events(one)) for one in pieces])
    for name in ("user_properties", "user_tags"):
        column = whole[name].combine_chunks()
        mask = pa.array(absent[: len(column)] + [False] * (len(column) - len(absent)))
        put = pc.if_else(mask, pa.scalar(None, column.type), column)
        whole = whole.set_column(whole.schema.get_field_index(name), name, put)
    for table in (whole, whole.slice(first, count), rows_to_arrow(as_of_events(pieces[0]))):
        dicts = table.to_pylist(maps_as_pydicts="strict")
        assert rows_from_arrow(table) == [row_from_dict(one) for one in dicts]


def test_a_map_that_has_a_key_twice_is_refused() -> None:
    twice = pa.array([[("a", "1"), ("a", "2")]], ENTITIES.field("user_properties").type)
    table = pa.table([twice if name == "user_properties" else pa.nulls(1) for name in ENTITIES.names], ENTITIES.names)
    with pytest.raises(ValueError, match="user_properties has a key twice"):
        rows_from_arrow(table)


def test_a_table_of_no_rows_has_the_columns() -> None:
    assert rows_to_arrow([]).equals(pa.Table.from_pylist([], schema=ENTITIES))


@given(st.lists(st.integers(0, 3), max_size=40))
def test_values_that_are_one_object_come_back_each_in_its_place(numbers: list[int]) -> None:
    objects = [{"n": 0}, {"n": 1}, {"n": 1}, None]
    values = [objects[number] for number in numbers]
    made = each_once(values, lambda some: pa.array([one and one["n"] for one in some], pa.int64()))
    assert made.to_pylist() == [one and one["n"] for one in values]
