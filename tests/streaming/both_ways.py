"""Folding a partition's records in columns and one by one, and holding what the two ways give side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metajournal.domains.catalog.columns import folder as column_folder
from metajournal.domains.catalog.columns.folder import ColumnFolder
from metajournal.fold import steps
from metajournal.fold.documents import Outgoing
from metajournal.fold.folded import ACCEPTED
from metajournal.fold.records import Place
from metajournal.fold.repeats import Repeats
from metajournal.fold.steps import Folder, RowFolder, Share
from metajournal.lake.tables import Lake
from metajournal.schemas.positions import position
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.plan import Part, Pin, PinnedLake, Plan, Task
from metajournal.streaming.staging import Staging
from metajournal.streaming.tasks import folding_of
from tests.builders import NOON
from tests.model import JournalRecord
from tests.streaming.harness import TOPIC, table_of

NAMES = TopicNames("metajournal")
ONE_TOPIC = TopicNames("metajournal", changes_topic=NAMES.annotations_system)
END = position(1, 1 << 30)


class Gave(NamedTuple):
    """What a partition's records gave: what is told of them, rows by file's partition and table, records by topic."""

    part: Part
    rows: dict[tuple[str, Any], list[Any]]
    records: dict[str, list[Outgoing]]
    outcomes: list[Outgoing]


def folded(
    way: type[Folder],
    lake: Lake,
    journal: Sequence[JournalRecord],
    cuts: Sequence[int] = (),
    *,
    rebuild: bool = False,
    names: TopicNames = NAMES,
    **fields: Any,
) -> Gave:
    """Fold a partition's records that come in slices, for the stream or for a rebuild."""
    tables = {"journal": lake.journal, **lake.tables}
    pins = {name: Pin(name, one.uri, one.delta.version(), {}) for name, one in tables.items()}
    place = Place(TOPIC, 0, 1, "catalog", fields.pop("shelved", frozenset()), fields.pop("moved", ()))
    task = replace(Task(place, 1, position(1, 0), END, NOON, {}, Repeats()), **fields)
    staging = None if rebuild else Staging(lake.path)
    written = ("entities", "accesses") if rebuild else ("entities", "accesses", "journal")
    plan = Plan({(TOPIC, 0): task}, pins, written, names, {}, staging, {})
    with pytest.MonkeyPatch.context() as patch:
        if way is RowFolder:
            patch.setattr(column_folder, "folder_of", lambda *_: None)
        folding = folding_of(plan, task, PinnedLake(pins))
    assert type(folding._folder) is way
    for start, end in pairwise([0, *cuts, len(journal)]):
        table = table_of(journal[start:end])
        if end > start:
            said = pa.array([ACCEPTED] * (end - start))
            folding.take(table.append_column("outcome", said) if rebuild else table, 1)
    part = folding.close()
    rows = {
        (name, tuple(one.partition.items())): pq.ParquetFile(Path(tables[name].uri) / one.path).read().to_pylist()
        for name, files in part.files.items()
        for one in files
    }
    records: dict[str, list[Outgoing]] = {}
    for one in staging.read(f"records-{TOPIC}-0") if staging is not None and part.staged else ():
        records.setdefault(one.topic, []).append(one)
    outcomes = [] if staging is None or not part.verdicts else list(staging.read(f"outcomes-{TOPIC}-0"))
    return Gave(replace(part, files={}, seconds={}), rows, records, outcomes)


def assert_same(
    lake: Lake, journal: Sequence[JournalRecord], cuts: Sequence[int] = (), **fields: Any
) -> list[dict[str, Any]]:
    """Both ways give the same; gives the rows of `entities`."""
    found, wanted = (folded(way, lake, journal, cuts, **fields) for way in (ColumnFolder, RowFolder))
    assert found.part == wanted.part
    assert found.rows == wanted.rows
    assert found.records == wanted.records
    assert found.outcomes == wanted.outcomes
    return found.rows.get(("entities", ()), [])


def in_bits_of(patch: pytest.MonkeyPatch, rows: int) -> None:
    """Both ways fold so many records at once: outcome records are cut by that."""
    for module in (column_folder, steps):
        patch.setattr(module, "_BIT_ROWS", rows)
    patch.setattr(column_folder, "_FIRST_ROWS", rows)


def offsets_folded_singly(patch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of the records that a `ColumnFolder` folds one by one from now on."""
    found: list[int] = []

    usual = ColumnFolder.read

    def noting(self: ColumnFolder, share: Share) -> Any:
        bit = usual(self, share)
        found.extend(record.position - position(1, 0) for record, _ in bit.readings.items)
        return bit

    patch.setattr(ColumnFolder, "read", noting)
    return found
