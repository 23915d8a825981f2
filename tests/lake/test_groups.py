"""Row groups: bounds, columns of several files side by side, and values that are known without reading."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metajournal.domains.files.events import DAY_MS, FilesRecorded
from metajournal.lake.declared import SPECS, made_arrow
from metajournal.lake.storage import files, groups
from metajournal.lake.storage.groups import Groups
from metajournal.lake.table import Reached, Table
from metajournal.lake.views.table import TableView
from tests.archive import a_file
from tests.lake.test_file_queries import TOPIC, journal_of
from tests.model import Model

BOUNDED = ("tenant", "start_ms", "file_where")


def a_table(folder: Path, *events: FilesRecorded) -> Table:
    """A table with a file for each event."""
    table = Table("file_records", str(folder / "file_records"), {})
    table.create()
    rows = Model.of(journal_of(list(events)), TOPIC).tables["file_records"]
    for event in events:
        urns = set(map(str, event.entities))
        own = [(row, "files", 0) for row in rows if row.urn in urns]
        table.append(made_arrow("file_records", own), Reached({}, {}, {"catalog": "rules"}))
    return table


def paths(table: Table) -> list[str]:
    return sorted(table.delta.get_add_actions(flatten=True)["path"].to_pylist())


def recorded(where: str, starts: range) -> FilesRecorded:
    return FilesRecorded([a_file(id=f"{where}{at}", where=where, start=at * DAY_MS, end=None) for at in starts])


def test_groups_tell_their_bounds_and_give_their_columns_in_the_asked_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SPECS, "file_records", replace(SPECS["file_records"], group_rows=2))
    table = a_table(tmp_path, recorded("a", range(5)), recorded("b", range(2, 4)))
    source = Groups(TableView.of(table.delta, table.name, table.uri), BOUNDED)
    found = sorted(source.of(paths(table)), key=lambda one: (one.bounds["file_where"], one.number))
    assert [group.rows for group in found] == [2, 2, 1, 2]
    starts = [(0, 1), (2, 3), (4, 4), (2, 3)]
    assert [group.bounds["start_ms"] for group in found] == [(one * DAY_MS, two * DAY_MS) for one, two in starts]
    assert [group.spans("start_ms", 2 * DAY_MS, 3 * DAY_MS) for group in found] == [False, True, False, True]
    assert [group.spans("file_id", "x", "y") for group in found] == [True] * 4
    asked = [found[3], found[2], found[0]]
    rows = source.read(asked, ["file_id", "tenant", "start_ms"])
    assert [one["file_id"].to_pylist() for one in rows] == [["b2", "b3"], ["a4"], ["a0", "a1"]]
    assert {name for one in rows for name in one["tenant"].to_pylist()} == {"default"}
    kinds = [SPECS["file_records"].schema.field(name).type for name in ("file_id", "tenant", "start_ms")]
    assert all(one.schema.types == kinds for one in rows)
    assert source.read([], ["file_id"]) == []


def test_a_group_holds_values_when_one_row_has_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPECS, "file_records", replace(SPECS["file_records"], group_rows=2))
    event = FilesRecorded([
        a_file(id=str(at), start=at * DAY_MS, end=None, work_id=work_id)
        for at, work_id in enumerate(("w1", None, "w2", "w1", None, None, "w2", "w2"))
    ])  # fmt: skip
    table = a_table(tmp_path, event)
    source = Groups(TableView.of(table.delta, table.name, table.uri), BOUNDED)
    found = source.of(paths(table))
    assert source.holding(found, {"work_id": "w1"}) == [True, True, False, False]
    assert source.holding(found, {"work_id": "w1", "file_id": "3"}) == [False, True, False, False]
    assert source.holding(found[2:], {"work_id": "w2", "file_id": "6"}) == [False, True]
    assert source.holding(found, {"work_id": "w2", "file_id": "3"}) == [False] * 4


def test_only_footers_of_the_last_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_MOST_HELD", 2)
    held = groups._Footers()
    monkeypatch.setattr(groups, "_footers", held)
    table = a_table(tmp_path, *(recorded(name, range(1)) for name in "abc"))
    source = Groups(TableView.of(table.delta, table.name, table.uri), BOUNDED)
    for path in paths(table):
        assert len(source.of([path])) == 1
    assert [name for name, _ in held._held] == [f"{table.uri}/{path}" for path in paths(table)[1:]]


@given(st.text("p\U0010ffff\uffffa", min_size=62, max_size=68))
@example("p" * 64 + "\U0010ffff" + "x")
def test_what_a_file_says_of_its_texts_holds_for_them(text: str) -> None:
    assert files._bound(text, "") <= text <= files._bound(text, files._HIGHEST)
