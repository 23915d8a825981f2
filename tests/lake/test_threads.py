"""Several threads that share a journal's questions, beside a stream that goes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.columns import JOURNAL_TABLE
from metajournal.lake.table import Table
from metajournal.lake.tables import Lake
from metajournal.lake_client import LakeClient
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.errors import NotFinalError
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import LakeSettings, Settings
from tests.builders import header_for, record_of
from tests.streaming.harness import TOPIC, Fold, placed

PURCHASES = dataset("default", "purchases")
AT_MOST_S = 20.0


def test_no_thread_is_told_final_without_the_row_because_another_one_looked_at_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread has looked at all tables; a batch ends; another thread has looked at the journal table alone."""
    events = [EntityRegistered(PURCHASES), PropertiesSet(PURCHASES, {"n": "1"})]
    records = placed([record_of(one, number, header=header_for(one, number)) for number, one in enumerate(events)], 1)
    fold = Fold(tmp_path, 1)
    fold.batch(records, until=records[:1])
    client = LakeClient(
        Settings(lake=LakeSettings(path=str(tmp_path))), Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", 1)}, frozenset())
    )
    asked = Position(TOPIC, 0, records[1].position)
    first_has_looked, second_saw_the_journal, first_is_told = (threading.Event() for _ in range(3))
    first, second = threading.local(), threading.local()
    look_at_all, look = Lake.refresh, Table.refresh

    def refresh_all(lake: Lake, *names: Any) -> None:
        look_at_all(lake, *names)
        if getattr(first, "here", False):
            first_has_looked.set()
            assert second_saw_the_journal.wait(AT_MOST_S)

    def refresh(table: Table) -> None:
        look(table)
        if getattr(second, "here", False) and table.name == JOURNAL_TABLE:
            second_saw_the_journal.set()
            assert first_is_told.wait(AT_MOST_S)

    def ask(who: threading.local) -> Any:
        who.here = True
        try:
            return client.answer(PURCHASES, as_at=asked)
        finally:
            if who is first:
                first_is_told.set()

    monkeypatch.setattr(Lake, "refresh", refresh_all)
    monkeypatch.setattr(Table, "refresh", refresh)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(ask, first)
        assert first_has_looked.wait(AT_MOST_S)
        fold.batch(records)
        late = pool.submit(ask, second)
        with pytest.raises(NotFinalError):
            early.result()
        assert late.result().row.logical_timestamp == asked.value
