"""Rows by conditions are those that a plain look at every row gives, wherever groups and files end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.lake.columns import TableSpec, history
from metajournal.lake.declared import SPECS
from metajournal.lake.group_rows import GroupRows, Span
from metajournal.lake.storage import groups
from metajournal.lake.table import Reached, Table
from metajournal.lake.views.table import TableView
from tests.properties import examples

SPEC = TableSpec(
    "numbered",
    history(
        [pa.field("name", pa.string(), nullable=False)], [pa.field("number", pa.int64()), pa.field("note", pa.string())]
    ),
    sorted_by=("tenant", "name", "logical_timestamp", "seq"),
    statistics=("tenant", "name", "number", "logical_timestamp"),
    group_rows=3,
    version=1,
)
NAMES = ("a", "a/b", "b", "ä", "z" * 70 + "1", "z" * 70 + "2")
ROW = st.tuples(st.sampled_from(["t", "u"]), st.sampled_from(NAMES), st.none() | st.integers(0, 4))
VALUES: dict[str, list[Any]] = {
    "tenant": ["t", "u"], "name": [*NAMES], "number": [*range(5)], "note": [f"n{number}" for number in range(5)],
}  # fmt: skip
FILES = st.lists(st.lists(ROW, max_size=9), max_size=4)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPECS, "numbered", SPEC)


def filled(folder: Path, files: list[list[Any]]) -> tuple[Table, list[dict[str, Any]]]:
    """A table of these files, and its rows."""
    table = Table("numbered", str(folder / "numbered"), {})
    rows: list[dict[str, Any]] = []
    table.create()
    for file in files:
        made = [
            {
                "tenant": tenant, "name": name, "number": number, "note": f"n{number}",
                "logical_timestamp": len(rows) + at, "seq": 0, "aggregate": "g", "domain": "d",
                "journal_partition": 0, "system_time": 0, "event_time": 0, "event_id": "e", "deleted": False,
            }
            for at, (tenant, name, number) in enumerate(file)
        ]  # fmt: skip
        rows += made
        table.append(pa.Table.from_pylist(made, SPEC.schema), Reached({}, {}, {"d": "rules"}))
    return table, rows


def reader(table: Table) -> GroupRows:
    return GroupRows(TableView.of(table.delta, table.name, table.uri))


@pytest.mark.thorough
@given(FILES, st.data())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_rows_by_conditions_are_what_a_look_at_every_row_gives(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[Any]], data: st.DataObject
) -> None:
    table, rows = filled(tmp_path_factory.mktemp("lake"), files)
    among: dict[str, list[Any]] = data.draw(st.fixed_dictionaries({}, optional={
        "tenant": st.lists(st.sampled_from(["t", "u", "v"]), max_size=2),
        "number": st.lists(st.integers(0, 5), max_size=3),
        "name": st.lists(st.sampled_from([*NAMES, "none"]), max_size=3),
    }))  # fmt: skip
    names = st.sampled_from([*NAMES, "", "zz"])
    between: dict[str, tuple[Any, Any]] = data.draw(st.fixed_dictionaries({}, optional={
        "name": st.tuples(names, names), "logical_timestamp": st.tuples(st.integers(0, 30), st.integers(0, 30)),
    }))  # fmt: skip
    keyed = data.draw(st.sampled_from([(), ("name",), ("tenant", "name"), ("number", "note")]))
    keys = data.draw(st.lists(st.tuples(*[st.sampled_from(VALUES[one]) for one in keyed]), max_size=4))
    wanted = [
        row
        for row in rows
        if all(row[one] in some for one, some in among.items())
        and all(row[one] is not None and low <= row[one] <= high for one, (low, high) in between.items())
        and (not keyed or tuple(row[one] for one in keyed) in keys)
    ]
    keys_table = pa.table(
        {one: pa.array([key[at] for key in keys], SPEC.schema.field(one).type) for at, one in enumerate(keyed)}
    )
    source = reader(table)
    named = ["note", "logical_timestamp", "tenant"]
    found = source.rows(named, among, between=between, keys=keys_table if keyed else None)
    assert found.schema.equals(pa.schema([SPEC.schema.field(one) for one in named]))
    key = "logical_timestamp"
    assert sorted(found.to_pylist(), key=lambda row: row[key]) == [{one: row[one] for one in named} for row in wanted]
    if not keyed:
        assert source.count(among, between=between) == len(wanted)
        spans = source.spans("name", among, between=between)
        assert all(any(span.least <= row["name"] <= span.greatest for span in spans) for row in wanted)


def test_groups_that_cannot_hold_a_row_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = filled(tmp_path, [[("t", f"{number:02}", number) for number in range(9)], [("u", "07", 1)] * 4])
    read: list[tuple[int, tuple[str, ...]]] = []
    whole = groups.Groups._rows

    def noted(self: Any, part: Any, columns: Any) -> pa.Table:
        read.extend((group.number, tuple(columns)) for group in part)
        return whole(self, part, columns)

    monkeypatch.setattr(groups.Groups, "_rows", noted)
    source = reader(table)
    keys = pa.table({"name": ["07"]})
    assert source.rows(["note"], {"tenant": ["t"]}, keys=keys).to_pylist() == [{"note": "n7"}]
    assert read == [(2, ("name",)), (2, ("note",))]
    read.clear()
    assert source.rows(["note"], {"tenant": ["t"]}, between={"name": ("00", "02")}).num_rows == 3
    assert read == [(0, ("note",))]
    read.clear()
    assert source.count({"tenant": ["u"]}) == 4
    assert not read
    assert sorted(source.spans("name", {"tenant": ["t"]})) == [
        Span(*bounds, 3) for bounds in (("00", "02"), ("03", "05"), ("06", "08"))
    ]


def test_much_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metajournal.lake.group_rows._BLOCK_ROWS", 6)
    monkeypatch.setitem(SPECS, "numbered", replace(SPEC, group_rows=3))
    table, rows = filled(tmp_path, [[("t", f"{number:02}", number) for number in range(20)]])
    blocks = [block.num_rows for block in reader(table).blocks(["name"])]
    assert (sum(blocks), max(blocks)) == (len(rows), 6)
