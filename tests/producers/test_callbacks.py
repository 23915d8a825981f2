"""Callbacks that close the journal or raise what ends a thread: the others are called, and everybody else goes on."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, NoReturn, cast

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.asked_ends import AskedEnds
from metajournal.producers.outcomes import OutcomeReader
from metajournal.producers.receipts import Receipt
from metajournal.producers.verdicts import Accepted
from metajournal.producers.waiting.futures import AwaitableFuture, called_back
from metajournal.schemas.errors import InputError, KafkaUnavailableError
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.producers.mocked import mocked_emitter
from tests.wait import eventually

ORDERS = dataset("default", "orders")
EVENT = TagsAdded(ORDERS, ["pii"])
PLACE = Position("metajournal.journal.catalog", 1, (1 << 40) + 3)


def ends_thread(*_: object) -> NoReturn:
    raise SystemExit("a callback of the caller's")


def test_a_callback_may_close_the_journal_and_the_others_are_called() -> None:
    """It waited for its own thread: nobody was called any more, and nothing was let go."""
    emitter = mocked_emitter(linger_ms=200.0)
    closed: list[BaseException | None] = []
    called: list[threading.Thread] = []

    def close(_: Receipt) -> None:
        try:
            emitter.close(20)
        except BaseException as error:
            closed.append(error)
        else:
            closed.append(None)

    receipt = emitter.emit(EVENT)
    receipt.add_done_callback(close)
    receipt.add_done_callback(lambda _: called.append(threading.current_thread()))
    eventually(lambda: closed and called, 20, "both callbacks")
    assert (closed, called) == ([None], [emitter._idler])
    emitter._idler.join(20)
    assert not emitter._idler.is_alive()
    assert emitter.outcomes._closing
    with pytest.raises(InputError, match="closed"):
        emitter.emit(EVENT)


def test_a_callback_of_an_end_may_close_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer = threading.Event()

    class Patient:
        """A client that answers once there is a callback."""

        def list_offsets(self, places: Collection[TopicPartition], **_: Any) -> dict[TopicPartition, Future[Any]]:
            assert may_answer.wait(60)
            answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in places}
            for answer in answers.values():
                answer.set_result(ListOffsetsResultInfo(7, 0, 0))
            return answers

    monkeypatch.setattr("metajournal.producers.answers.make_admin", lambda *_: Patient())
    ends = AskedEnds(Settings())
    closed: list[bool] = []

    def close(_: object) -> None:
        ends.close()
        closed.append(True)

    asked = ends.end("t", 0)
    asked.add_done_callback(close)
    may_answer.set()
    eventually(lambda: closed, 20, "the end")
    assert asked.result(0) == 7


def test_a_callback_that_ends_its_thread_stops_no_receipt(caplog: pytest.LogCaptureFixture) -> None:
    emitter = mocked_emitter(linger_ms=200.0)
    called: list[Receipt] = []
    with caplog.at_level(logging.ERROR, "metajournal.futures"):
        receipt = emitter.emit(EVENT)
        receipt.add_done_callback(ends_thread)
        receipt.add_done_callback(called.append)
        eventually(lambda: called == [receipt], 20, "the other callback")
    assert "a callback of the caller's" in caplog.text
    assert emitter.emit(EVENT).position_future().result(20).value > receipt.position.value
    assert emitter._idler.is_alive()
    emitter.close()


class Outcomes:
    """A consumer that finds one outcome record, as soon as it may."""

    def __init__(self) -> None:
        self.may_read = threading.Event()
        self._left: list[Any] = [self]

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, 1

    def offsets_for_times(self, asked: list[Any], **_: Any) -> list[Any]:
        asked[0].offset = 0
        return asked

    def incremental_assign(self, _: Any) -> None: ...

    incremental_unassign = incremental_assign

    def consume(self, *_: Any) -> list[Any]:
        if not self.may_read.wait(0.01):
            return []
        left, self._left = self._left, []
        return left

    def close(self) -> None: ...

    # Its record

    def error(self) -> None: ...

    def topic(self) -> str:
        return "metajournal.outcomes.catalog"

    def partition(self) -> int:
        return PLACE.partition

    def offset(self) -> int:
        return 0

    def key(self) -> bytes:
        return f"{PLACE.topic}/{PLACE.partition}".encode()

    def value(self) -> bytes:
        record = {"topic": PLACE.topic, "partition": PLACE.partition, "from": PLACE.value, "to": PLACE.value + 1}
        return json.dumps({**record, "verdicts": [], "ends": {}, "system_time": 1, "written": 1}).encode()


def now() -> int:
    return int(time.time() * 1000)


def test_a_callback_that_ends_its_thread_stops_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    """The others were told that the journal is closed."""
    outcomes = Outcomes()
    reader = OutcomeReader(Settings(), consumer=lambda *_: cast(Consumer, outcomes))
    first, other = (reader.outcome_future(PLACE, now(), 60) for _ in range(2))
    called: list[object] = []
    first.add_done_callback(ends_thread)
    first.add_done_callback(called.append)
    with caplog.at_level(logging.ERROR, "metajournal.futures"):
        outcomes.may_read.set()
        assert other.result(20) == Accepted(PLACE)
    eventually(lambda: called == [first], what="the other callback")
    assert "a callback of the caller's" in caplog.text
    assert reader._thread is not None
    assert reader._thread.is_alive()
    reader.close()


def test_what_ends_the_reader_of_verdicts_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = Outcomes()
    monkeypatch.setattr(outcomes, "consume", ends_thread)
    reader = OutcomeReader(Settings(), consumer=lambda *_: cast(Consumer, outcomes))
    asked = reader.outcome_future(PLACE, now(), 60)
    assert isinstance(asked.exception(20), KafkaUnavailableError)
    reader.close()


def test_in_the_main_thread_a_callback_may_end_the_program() -> None:
    with pytest.raises(SystemExit):
        called_back(ends_thread, None)
    future: AwaitableFuture[int] = AwaitableFuture()
    future.set_result(7)
    with pytest.raises(SystemExit):
        future.add_done_callback(ends_thread)
