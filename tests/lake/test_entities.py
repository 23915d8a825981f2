"""Rows to columns and back: nothing is lost, maps are sorted, and the order of rows stays."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.lake.columns import ENTITIES
from metajournal.lake.entities import row_from_dict, rows_to_arrow
from metajournal.rules.entity import EntityRow

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
properties = st.dictionaries(texts, texts, max_size=5)
tags = st.lists(texts, max_size=4).map(tuple)
times = st.integers(-62_135_596_800_000, 253_402_300_799_999)
rows = st.builds(
    EntityRow, texts, texts, texts, st.none() | texts, texts, texts, st.integers(0, 2**63 - 1), st.integers(0, 3),
    times, times, texts, st.none() | texts, st.booleans(), st.none() | properties, properties, tags, properties, tags,
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.tuples(rows, st.sampled_from(["catalog", "files"]), st.integers(0, 7)), max_size=8))
def test_rows_come_back_as_they_were_with_their_maps_sorted(given_rows: list[tuple[EntityRow, str, int]]) -> None:
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
