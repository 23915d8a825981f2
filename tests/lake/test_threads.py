"""Several threads that share a journal's questions, beside a stream that goes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.views.views import View, Views
from metajournal.lake_client import LakeClient
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.errors import InputError, InvalidPositionError, NotFinalError, UnavailableError
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import LakeSettings, Settings
from tests.builders import header_for, record_of
from tests.properties import examples
from tests.streaming.harness import TOPIC, Fold, placed
from tests.wait import eventually

PURCHASES = dataset("default", "purchases")
AT_MOST_S = 20.0


def client_of(folder: Path) -> LakeClient:
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", 1)}, frozenset())
    return LakeClient(Settings(lake=LakeSettings(path=str(folder))), epochs)


def test_no_thread_is_told_final_without_the_row_because_another_one_looked_at_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread has taken its view; a batch ends; another thread takes a view that has it, and is told."""
    events = [EntityRegistered(PURCHASES), PropertiesSet(PURCHASES, {"n": "1"})]
    records = placed([record_of(one, number, header=header_for(one, number)) for number, one in enumerate(events)], 1)
    fold = Fold(tmp_path, 1)
    fold.batch(records, until=records[:1])
    client = client_of(tmp_path)
    asked = Position(TOPIC, 0, records[1].position)
    first_has_looked, second_is_told = threading.Event(), threading.Event()
    first, take = threading.local(), Views.take

    def taken(views: Views, *names: Any) -> View:
        view = take(views, *names)
        if getattr(first, "here", False):
            first_has_looked.set()
            assert second_is_told.wait(AT_MOST_S)
        return view

    def ask_first() -> Any:
        first.here = True
        return client.answer(PURCHASES, as_at=asked)

    monkeypatch.setattr(Views, "take", taken)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(ask_first)
        assert first_has_looked.wait(AT_MOST_S)
        fold.batch(records)
        late = pool.submit(client.answer, PURCHASES, as_at=asked)
        row = late.result().row
        assert row is not None
        assert row.logical_timestamp == asked.value
        second_is_told.set()
        with pytest.raises(NotFinalError):
            early.result()


@pytest.mark.thorough
def test_eight_threads_beside_a_stream_are_never_told_final_without_the_row(tmp_path: Path) -> None:
    events = [EntityRegistered(PURCHASES), *(PropertiesSet(PURCHASES, {"n": str(one)}) for one in range(examples(60)))]
    records = placed([record_of(one, number, header=header_for(one, number)) for number, one in enumerate(events)], 1)
    fold = Fold(tmp_path, 1)
    fold.batch(records, until=records[:1])
    client = client_of(tmp_path)
    over = threading.Event()

    def ask() -> tuple[int, int]:
        """Answers, and those of them that lack a row: each thread asks for what comes next until it is there."""
        answers = wrong = 0
        place = 1
        while place < len(records):
            asked = Position(TOPIC, 0, records[place].position)
            try:
                answer = client.answer(PURCHASES, as_at=asked)
            except NotFinalError:
                assert not over.is_set(), "a view that was taken behind the last batch lacks it"
                continue
            newest = client.answer(PURCHASES)
            wrong += answer.row is None or answer.row.logical_timestamp != asked.value or not answer.final
            wrong += newest.row is None or newest.row.logical_timestamp != newest.held_to.value - 1
            answers, place = answers + 2, place + 1
        return answers, wrong

    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask) for _ in range(8)]
        for end in range(2, len(records) + 1):
            fold.batch(records, until=records[:end])
            fold.engine.tidy()
        over.set()
        counted = [one.result() for one in asking]
    assert counted == [(2 * (len(records) - 1), 0)] * 8


def test_a_hundred_wait_for_the_lake_and_one_thread_looks_for_all(tmp_path: Path) -> None:
    events = [EntityRegistered(PURCHASES), PropertiesSet(PURCHASES, {"n": "1"})]
    records = placed([record_of(one, number, header=header_for(one, number)) for number, one in enumerate(events)], 1)
    fold, client = Fold(tmp_path, 1), client_of(tmp_path)
    first, last = (Position(TOPIC, 0, one.position) for one in records)
    early = client.wait_future(first, timeout_s=AT_MOST_S)
    waiting = [client.wait_future(last, timeout_s=AT_MOST_S) for _ in range(100)]
    late, never = client.wait_future(last, timeout_s=0), client.wait_future(replace(last, value=1 << 50), timeout_s=600)
    assert waiters() == 1
    assert isinstance(late.exception(AT_MOST_S), UnavailableError), "no lake, or one that does not hold it"
    fold.batch(records, until=records[:1])
    assert early.result(AT_MOST_S) is None
    assert not any(one.done() for one in waiting)
    fold.batch(records)
    assert [one.result(AT_MOST_S) for one in waiting] == [None] * 100
    row = client.show(PURCHASES)
    assert row.logical_timestamp == last.value
    with pytest.raises(InvalidPositionError):
        client.wait_future(replace(last, partition=1))
    client._closed = True
    assert isinstance(never.exception(AT_MOST_S), InputError)
    eventually(lambda: not waiters(), AT_MOST_S, "the end of the thread")


def waiters() -> int:
    """Threads that look at the lake for who waits; others may come and go meanwhile."""
    return sum(thread.name == "metajournal-lake-waits" for thread in threading.enumerate())
