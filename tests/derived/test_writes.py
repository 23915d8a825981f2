"""The latest write is the same however far the table by data is behind; and what a reader of a lagging one is told."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.lineage.events import AccessesRecorded
from metajournal.domains.lineage.latest import latest_write_of
from metajournal.lake.cuts import Cuts
from metajournal.lake.derived import derived_mark, wait_for_derived
from metajournal.lake.tables import Lake
from metajournal.lake.views.views import Views
from metajournal.schemas.errors import NotYetVisibleError
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.derived.committing import commit, fill, tables_of
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.functions import DERIVED
from metajournal.streaming.derived.making import Bounds, make_piece
from tests.builders import NOON
from tests.lake.test_lineage_queries import _DATA, _FACTS, NIGHTLY, PARTITIONS, folded, records_of
from tests.properties import examples
from tests.streaming.harness import TOPIC, Fold

KEYS = [(TOPIC, partition) for partition in range(PARTITIONS)]


def go_on(lake: Lake, pieces: int, rows: int) -> None:
    """Make some pieces of the table."""
    lake.refresh()
    owned, upto = DERIVED["writes"], {key: lake.journal.mark(key) for key in KEYS}
    for _ in range(pieces):
        tables = tables_of(owned, lake)
        offer = make_piece(owned, tables, upto, StoredFiles(lake.path, {}), bounds=Bounds(rows))
        if offer is not None:
            assert commit(offer, tables)


def naive(events: Sequence[Any], data: str, as_of: int | None) -> list[tuple[int, str]]:
    """When and by which run, as a reader of the facts would find it."""
    first: dict[tuple[str, str], int] = {}
    for event in events:
        for one in event.accesses if isinstance(event, AccessesRecorded) else ():
            if (one.data, one.access) == (data, "write") and (as_of is None or one.at <= as_of):
                key = event.run, one.component or ""
                first[key] = min(first.get(key, one.at), one.at)
    return sorted(((at, run) for (run, _), at in first.items()), reverse=True)[:1]


@pytest.mark.thorough
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(_FACTS, min_size=2, max_size=14), st.data())
def test_the_latest_write_is_what_a_naive_reading_of_the_facts_gives_at_any_lag(
    events: list[Any], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fold = Fold(Path(folder), PARTITIONS)
        records = records_of(events)
        cut = data.draw(st.integers(1, len(events)))
        for end in (cut, len(events)):
            fold.batch(records, until=records[:end])
            go_on(fold.lake, data.draw(st.integers(0, 3)), data.draw(st.integers(1, 4)))
            if data.draw(st.booleans()):
                fold.lake.tables["writes"].compact()
        view = Views(Lake(folder)).take()
        cuts = Cuts(view.journal, TopicNames(), PARTITIONS)
        as_of = data.draw(st.none() | st.integers(0, 12))
        for told, at in ((events, None), (events[:cut], NOON + 1_000 * (cut - 1))):
            for one in _DATA:
                found = latest_write_of(view, cuts.bounds("catalog", at), "default", str(one), as_of)
                assert [(at_ms, run) for at_ms, run, _ in found] == naive(told, one, as_of)


def test_a_reader_of_a_derived_table_waits_for_it_or_is_told_how_far_it_is_behind(tmp_path: Path) -> None:
    fold = folded(tmp_path, NIGHTLY)
    lake = Lake(str(tmp_path))
    wanted = {key: fold.lake.journal.mark(key) for key in KEYS}
    with pytest.raises(NotYetVisibleError, match="tables writes are behind") as behind:
        wait_for_derived(lake, ["writes"], wanted, timeout_s=0)
    assert behind.value.behind == {key: mark - (1 << 40) for key, mark in wanted.items() if mark > 1 << 40}
    fill(fold.lake, {"writes": wanted}, StoredFiles(fold.lake.path, {}))
    wait_for_derived(lake, ["writes"], wanted, timeout_s=0)
    assert {key: derived_mark(lake, "writes", key) for key in KEYS} == wanted
