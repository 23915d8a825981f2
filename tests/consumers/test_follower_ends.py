"""Who asks a follower just as it ends, since nobody asked for a while, is answered by the next one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from metajournal.consumers import follower, journal_reader
from metajournal.consumers.follower import Follower
from metajournal.consumers.journal_reader import JournalReader
from metajournal.consumers.pins import Pin
from metajournal.consumers.records import Partition
from metajournal.consumers.tail import Came
from metajournal.fold.records import Place
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.producers.waiting.futures import AwaitableFuture
from metajournal.schemas.positions import position
from metajournal.schemas.settings import Settings

TOPIC = "metajournal.journal.catalog"


class Ends:
    """Says where a topic of ten records ends."""

    def end(self, topic: str, partition: int, *, committed: bool) -> AwaitableFuture[int]:
        future: AwaitableFuture[int] = AwaitableFuture()
        future.set_result(10)
        return future

    def administrator(self) -> Any:
        return None


class SlowToClose:
    """A tail of a topic of ten records, that takes its time to close, as a client of Kafka does."""

    closing = threading.Event()
    may_close = threading.Event()
    errors: Any = None

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def begin(self, offsets: dict[Partition, int]) -> None: ...

    def leave(self, place: Partition) -> None: ...

    def came(self, timeout_s: float) -> dict[Partition, Came]:
        threading.Event().wait(0.001)
        return {(TOPIC, 0): Came([], 10)}

    def close(self) -> None:
        self.closing.set()
        assert self.may_close.wait(60)


def test_who_asks_while_it_ends_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    lake: Any = type("NoLake", (), {"tables": {}, "journal": None})()
    pin = Pin(lake, Place(TOPIC, 0, 1, "catalog", frozenset()), 1, position(1, 10), 0)
    monkeypatch.setattr(journal_reader, "Tail", SlowToClose)
    monkeypatch.setattr(journal_reader, "shared_ends", lambda _: Ends())
    monkeypatch.setattr(journal_reader, "leave_ends", lambda _: None)
    monkeypatch.setattr(follower, "take_pin", lambda *_: pin)
    monkeypatch.setattr(follower, "UNASKED_S", 0.01)
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", 1)})
    followed = Follower(Settings(), epochs, TOPIC, 0, JournalReader(Settings()))
    followed.follow(b"key")
    assert read_up_to(followed) == position(1, 10)
    assert SlowToClose.closing.wait(30)
    for _ in range(20):  # while readers before still close
        assert read_up_to(followed) == position(1, 10)
    SlowToClose.may_close.set()
    followed.close()
    assert not any("follower" in one.name for one in threading.enumerate())


def test_who_closes_waits_for_no_call_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    SlowToClose.may_close.set()
    monkeypatch.setattr(journal_reader, "Tail", SlowToClose)
    reader, is_called, may_end = JournalReader(Settings()), threading.Event(), threading.Event()
    ended: list[bool] = []

    def call(_: Any) -> None:
        is_called.set()
        ended.append(may_end.wait(10))

    calling = threading.Thread(target=lambda: reader.call(call))
    calling.start()
    assert is_called.wait(60)
    reader.wait_for_end()
    assert ended == [], "the call is still under way"
    may_end.set()
    calling.join()
    assert ended == [True]


def test_ends_are_not_left_while_somebody_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    end: AwaitableFuture[int] = AwaitableFuture()
    left: list[Any] = []
    ends: Any = type("Ends", (), {"end": lambda *_, **__: end})()
    monkeypatch.setattr(journal_reader, "shared_ends", lambda _: ends)
    monkeypatch.setattr(journal_reader, "leave_ends", left.append)
    reader = JournalReader(Settings())
    assert reader.end_of((TOPIC, 0)) is end
    reader.wait_for_end()
    assert left == []
    end.set_result(10)
    reader.wait_for_end()
    assert left == [ends]


def read_up_to(followed: Follower) -> int:
    """What is read, once all records are."""
    return followed._reached(b"key", position(1, 9), 30, lambda known: known.next)
