"""Tables and pairs fit 80 columns, and no word of them is ever broken: a URN can be copied wherever it stands."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metajournal.terminal.consoles import PatientConsole
from metajournal.terminal.rendering import fields, table
from metajournal.terminal.views import entity_view

WIDTH = 80
URN = "dataset:postgres%3A%2F%2Fdb.acme.example%3A5432/warehouse.public.orders_of_all_the_last_years_and_months"
SCHEMA = (
    '{"type":"record","name":"order","fields":[{"name":"id","type":"long"},{"name":"items","type":{"type":"array",'
    '"items":{"type":"record","name":"item","fields":[{"name":"sku","type":["null","string"]}]}}}]}'
)
words = st.text(st.characters(categories=["L", "N"], max_codepoint=0x7F), min_size=1, max_size=30) | st.just(URN)
cells = st.lists(words, max_size=12).map(" ".join)


def drawn(what: Any, width: int = WIDTH) -> list[str]:
    out = io.StringIO()
    PatientConsole(file=out, width=width, highlight=False, markup=False).print(what)
    return out.getvalue().splitlines()


def check(lines: list[str], texts: list[str]) -> None:
    """Every word stands whole, and a line is too long only where a single word is."""
    shown = [word for line in lines for word in line.split()]
    for word in {word for text in texts for word in text.split()}:
        assert word in shown
    for line in lines:
        assert len(line.rstrip()) <= WIDTH or max(map(len, line.split())) > WIDTH - 30


@given(st.integers(1, 6).flatmap(lambda count: st.lists(st.lists(cells, min_size=count, max_size=count), max_size=5)))
def test_a_table_fits_and_breaks_no_word(rows: list[list[str]]) -> None:
    columns = [f"column{number}" for number in range(len(rows[0]) if rows else 2)]
    lines = drawn(table(columns, rows, right=columns[-1:]))
    check(lines, [cell for row in rows for cell in row])


@given(st.lists(st.tuples(words, cells), max_size=6))
def test_pairs_fit_and_break_no_word(pairs: list[tuple[str, str]]) -> None:
    lines = drawn(fields([(name[:20], value) for name, value in pairs]))
    check(lines, [value for _, value in pairs])


def test_a_table_that_fits_stays_a_table_and_one_that_does_not_becomes_blocks() -> None:
    rows = [("dataset:default/orders", "a tag " * 20, 3)]
    head, first, *_ = drawn(table(["entity", "why", "n"], rows, right=["n"]))
    assert head.split() == ["entity", "why", "n"]
    assert first.split()[0] == "dataset:default/orders"
    assert first.rstrip().endswith("3")
    lines = drawn(table(["entity", "why", "n"], [(URN, "a tag " * 20, 3)]))
    assert lines[0] == URN
    assert lines[1].startswith("  why  a tag")
    assert lines[-1].split() == ["n", "3"]


def entity(schema: str) -> dict[str, Any]:
    system = {"properties": {"schema": schema, "creation_time": "0"}, "tags": []}
    return {
        "urn": URN, "system_time": 0, "actor": None, "logical_timestamp": 7, "deleted": False,
        "user": {"properties": {"owner": "alice"}, "tags": ["pii"]}, "system": system,
    }  # fmt: skip


def test_a_schema_is_shown_as_a_table_of_its_columns() -> None:
    lines = [line.rstrip() for line in drawn(entity_view(entity(SCHEMA)))]
    assert URN in [line.strip() for line in lines]
    start = lines.index("schema")
    assert [line.split() for line in lines[start + 1 :]] == [
        ["column", "type"], ["id", "long"], ["items", "array<record", "item>"], ["items.sku", "null|string"],
    ]  # fmt: skip
    assert not any("fields" in line for line in lines)
    pairs = drawn(entity_view(entity('[["id","long"],["name","string"]]')))
    assert [line.split() for line in pairs[-2:]] == [["id", "long"], ["name", "string"]]


def test_what_is_no_schema_is_shown_as_the_text_that_it_is() -> None:
    for text in ("just words", '{"no": "type"}', "[]"):
        assert any(text in line for line in drawn(entity_view(entity(text))))
