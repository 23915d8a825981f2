"""The index of a file's row groups: it never leaves out a group that holds a value, and names few others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.domains.files.events import DAY_MS, FilesRecorded
from metajournal.lake.declared import SPECS
from metajournal.lake.storage import group_index
from metajournal.lake.storage.group_index import IndexWriter, groups_with, read_index
from metajournal.lake.storage.groups import Groups
from metajournal.lake.views.table import TableView
from tests.archive import a_file
from tests.lake.test_groups import BOUNDED, a_table, paths

texts = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=3))
rows_of_a_group = st.lists(st.tuples(texts, st.text("ab", max_size=2), st.booleans()), max_size=6)


def index_of(groups: list[list[tuple[str | None, str, bool]]]) -> group_index.GroupIndex:
    """The index of a file, as it comes back out of the file's footer."""
    writer = IndexWriter("file_records")
    for group in groups:
        work_ids, ids, supersedes = zip(*group, strict=True) if group else ((), (), ())
        named = {"work_id": pa.array(work_ids, pa.string()), "file_id": pa.array(ids, pa.string())}
        writer.note(pa.table({**named, "supersedes": pa.array(supersedes, pa.bool_())}))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, pa.schema([("n", pa.int64())])) as file:
        file.add_key_value_metadata(writer.metadata())
    return read_index(pq.read_metadata(pa.BufferReader(sink.getvalue())).metadata)


@given(st.lists(rows_of_a_group, max_size=5))
def test_the_groups_of_a_value_are_those_that_hold_it(groups: list[list[tuple[str | None, str, bool]]]) -> None:
    index = index_of(groups)
    for wanted in {work_id for group in groups for work_id, *_ in group if work_id is not None} | {"nowhere"}:
        held = {number for number, group in enumerate(groups) if wanted in [work_id for work_id, *_ in group]}
        assert groups_with(index, "work_id", [wanted]) == held
    for wanted in ("a", "ab", "zz"):
        held = {n for n, group in enumerate(groups) if any(one == wanted and again for _, one, again in group)}
        assert groups_with(index, "file_id", [wanted]) == held


@given(st.lists(rows_of_a_group, max_size=5))
def test_values_of_one_hash_leave_no_group_out(groups: list[list[tuple[str | None, str, bool]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_index, "crc32", lambda raw: len(raw) % 2)
        index = index_of(groups)
        for wanted in {work_id for group in groups for work_id, *_ in group if work_id is not None}:
            held = {number for number, group in enumerate(groups) if wanted in [work_id for work_id, *_ in group]}
            assert held <= (groups_with(index, "work_id", [wanted]) or set())


def test_what_is_not_indexed_is_not_known() -> None:
    assert groups_with(read_index(None), "work_id", ["w1"]) is None
    assert groups_with(index_of([]), "url", ["w1"]) is None
    assert groups_with(index_of([]), "work_id", ["w1"]) == set()
    assert IndexWriter("entities").metadata() == {}


@pytest.mark.parametrize("has_index", [True, False])
def test_a_table_tells_the_groups_that_can_hold_a_value_and_nothing_of_files_without_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_index: bool
) -> None:
    monkeypatch.setitem(SPECS, "file_records", replace(SPECS["file_records"], group_rows=2))
    if not has_index:
        monkeypatch.setitem(SPECS, "file_records", replace(SPECS["file_records"], indexed={}))
    works = ("w1", None, "w2", "w1", None, None, "w2")
    event = FilesRecorded([a_file(id=str(at), start=at * DAY_MS, work_id=one) for at, one in enumerate(works)])
    table = a_table(tmp_path, event)
    source = Groups(TableView.of(table.delta, table.name, table.uri), BOUNDED)
    found = source.of(paths(table))
    told = source.possible(found, "work_id", ["w1"])
    assert told == ([True, True, False, False] if has_index else [None] * 4)
    assert source.possible(found[2:], "work_id", ["w1", "w2"]) == ([False, True] if has_index else [None] * 2)
