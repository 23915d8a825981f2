"""Who asks a follower just as it ends, since nobody asked for a while, is answered by the next one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from metajournal.consumers import follower
from metajournal.consumers.follower import Follower
from metajournal.consumers.pins import Pin
from metajournal.fold.records import Place
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.positions import position
from metajournal.schemas.settings import Settings
from tests.wait import eventually

TOPIC = "metajournal.journal.catalog"


class SlowToClose:
    """A tail of a topic of ten records, that takes its time to close, as a client of Kafka does."""

    closing = threading.Event()
    may_close = threading.Event()
    errors: Any = None

    def __init__(self, *_: Any) -> None: ...

    def ends(self) -> tuple[int, int]:
        return 0, 10

    def begin(self, offset: int) -> None: ...

    def messages(self, wait_s: float) -> tuple[list[Any], int]:
        threading.Event().wait(0.001)
        return [], 10

    def close(self) -> None:
        self.closing.set()
        assert self.may_close.wait(60)


def test_who_asks_while_it_ends_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    lake: Any = type("NoLake", (), {"tables": {}, "journal": None})()
    pin = Pin(lake, Place(TOPIC, 0, 1, "catalog", frozenset()), 1, position(1, 10), 0)
    monkeypatch.setattr(follower, "Tail", SlowToClose)
    monkeypatch.setattr(follower, "take_pin", lambda *_: pin)
    monkeypatch.setattr(follower, "UNASKED_S", 0.01)
    followed = Follower(Settings(), Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", 1)}), TOPIC, 0)
    assert followed._end(30).value == position(1, 9)
    assert SlowToClose.closing.wait(30)
    SlowToClose.closing.clear()
    answers: list[Any] = []

    def ask() -> None:
        try:
            answers.append(followed._end(30))
        except Exception as error:
            answers.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: answers or followed._ends)
    SlowToClose.may_close.set()
    asking.join()
    followed.close()
    assert [getattr(one, "value", one) for one in answers] == [position(1, 9)]
