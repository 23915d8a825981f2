"""Rows to columns and back: nothing is lost, maps are sorted, and the order of rows stays."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.lake.columns import ENTITIES
from metajournal.lake.entities import row_from_dict, rows_to_arrow
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


def test_a_table_of_no_rows_has_the_columns() -> None:
    assert rows_to_arrow([]).equals(pa.Table.from_pylist([], schema=ENTITIES))


@given(st.lists(st.integers(0, 3), max_size=40))
def test_values_that_are_one_object_come_back_each_in_its_place(numbers: list[int]) -> None:
    objects = [{"n": 0}, {"n": 1}, {"n": 1}, None]
    values = [objects[number] for number in numbers]
    made = each_once(values, lambda some: pa.array([one and one["n"] for one in some], pa.int64()))
    assert made.to_pylist() == [one and one["n"] for one in values]
