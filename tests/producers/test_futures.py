"""Receipts and verdicts that call back and can be awaited: thousands wait, and no thread more than before."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from metajournal import Journal
from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.outcomes import OutcomeReader
from metajournal.producers.receipts import Receipt
from metajournal.producers.topics import check_topics
from metajournal.producers.verdicts import Accepted, Outcome, Rejected
from metajournal.producers.waiting.futures import AwaitableFuture, all_of, follow_on
from metajournal.schemas.errors import InputError, KafkaUnavailableError, NotYetVisibleError
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.producers.published import publish_outcome
from tests.wait import eventually

CALLERS = 1_000
START = 1 << 40
ORDERS = dataset("default", "orders")


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    with Journal.connect(settings, create_topics=True) as journal:
        yield journal


def now() -> int:
    return int(time.time() * 1000)


def judge(settings: Settings, places: list[Position], rejected: Position) -> None:
    """What the stream says of each partition once it has folded all that was emitted."""
    for partition in {one.partition for one in places}:
        own = [one for one in places if one.partition == partition]
        ends = min(one.value for one in own), max(one.value for one in own) + 1
        verdicts = [[rejected.value, "rejected", {"reason": "invalid"}]] if partition == rejected.partition else []
        publish_outcome(settings, Position(own[0].topic, partition, ends[0]), ends[1], now(), verdicts)


def test_a_thousand_callers_await_their_verdicts_without_a_thread_each(journal: Journal, settings: Settings) -> None:
    seen = set[threading.Thread]()

    async def caller(number: int) -> tuple[Position, Outcome]:
        receipt = journal.emit(TagsAdded(dataset("default", f"orders_{number}"), ["pii"]))
        place = await receipt
        places.append(place)
        if len(places) == CALLERS:
            acknowledged.set()
        outcome = await receipt.outcome_future(60)
        seen.update(threading.enumerate())
        return place, outcome

    async def stream() -> None:
        await acknowledged.wait()
        await asyncio.to_thread(judge, settings, places, places[7])

    async def run() -> list[tuple[Position, Outcome]]:
        judging = asyncio.create_task(stream())
        found = await asyncio.gather(*map(caller, range(CALLERS)))
        await judging
        return found

    places: list[Position] = []
    acknowledged = asyncio.Event()
    journal.flush()
    before = set(threading.enumerate())
    found = asyncio.run(run())
    assert dict(found) == {place: Accepted(place) for place in places} | {
        places[7]: Rejected(places[7], "invalid", None)
    }
    assert len(places) == CALLERS
    began = sorted(thread.name.rstrip("-_0123456789") for thread in seen - before)
    # Who sends, who reads outcomes, who asks for the journal's ends with its client, and the test's own stream.
    assert set(began) <= {"metajournal-emitter", "metajournal-outcomes", "metajournal-ends", "Dummy", "asyncio"}, began
    assert len(began) <= 6, began


def test_a_receipt_calls_back_once_the_broker_has_the_event_and_a_failing_callback_stops_nobody(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[tuple[Receipt, int]] = []

    def fails(_: Receipt) -> None:
        raise RuntimeError("a callback of the caller's")

    receipt = journal.emit(TagsAdded(ORDERS, ["pii"]))
    with caplog.at_level(logging.ERROR, "metajournal.futures"):
        receipt.add_done_callback(fails)
        receipt.add_done_callback(lambda one: called.append((one, threading.get_ident())))
        eventually(lambda: called, 20, "the callback")
    assert called[0][0] is receipt
    assert called[0][1] != threading.get_ident()
    assert "a callback of the caller's" in caplog.text
    receipt.add_done_callback(lambda one: called.append((one, threading.get_ident())))
    assert called[1] == (receipt, threading.get_ident()), "what is known already calls back at once"
    assert receipt.position_future().result(0) == receipt.position


def test_verdicts_call_back_under_no_lock_and_a_callback_may_not_wait_for_another_one(
    journal: Journal, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = journal.emit(TagsAdded(ORDERS, ["pii"]))
    place = receipt.position
    later = Position(place.topic, place.partition, place.value + 1)
    told: list[Any] = []

    def asks_on(future: Future[Outcome]) -> None:
        told.append(future.result())
        told.append(receipt.outcome())  # in memory by now
        with pytest.raises(InputError, match="must not wait"):
            journal.emitter.outcomes.outcome(later, now(), 60)
        raise RuntimeError("logged")

    waiting = receipt.outcome_future(30)
    waiting.add_done_callback(asks_on)
    publish_outcome(settings, place, place.value + 1, now())
    eventually(lambda: "logged" in caplog.text, 30, "the callback's end")
    assert told == [Accepted(place)] * 2
    publish_outcome(settings, later, later.value + 1, now())
    assert journal.emitter.outcomes.outcome(later, now() - 1_000, 30) == Accepted(later)


def test_time_outs_come_without_a_thread_and_what_was_cancelled_is_forgotten(
    settings: Settings, journal: Journal
) -> None:
    reader = OutcomeReader(settings, check_topics(settings))
    topic = settings.journal.topics.journal("catalog")
    before = threading.active_count()
    late = [reader.outcome_future(Position(topic, 0, START + one), now(), 0.1 + one / 1_000) for one in range(200)]
    stays, cancelled = (reader.outcome_future(Position(topic, 0, START + one), now(), 60) for one in (300, 301))
    assert cancelled.cancel()
    assert threading.active_count() <= before + 2
    for one in late:
        assert isinstance(one.exception(20), NotYetVisibleError)
    assert not stays.done()
    reader.close()
    assert isinstance(stays.exception(0), InputError)
    assert "closed" in str(stays.exception(0))


def test_a_closed_journal_tells_everybody_who_waits(settings: Settings) -> None:
    journal = Journal.connect(settings, create_topics=True)
    receipt = journal.emit(TagsAdded(ORDERS, ["pii"]))
    waiting, position = receipt.outcome_future(600), receipt.position_future()
    blocked: list[Any] = []

    def block() -> None:
        with pytest.raises(InputError, match="closed"):
            receipt.outcome(600)
        blocked.append(True)

    thread = threading.Thread(target=block)
    thread.start()
    eventually(lambda: sum(map(len, journal.emitter.outcomes._questions.values())) == 2, 20, "both questions")
    journal.close()
    assert isinstance(waiting.exception(20), InputError)
    assert position.result(0) == receipt.position
    thread.join(20)
    assert blocked


def test_a_units_outcome_can_be_awaited_and_one_that_is_not_committed_says_so(
    journal: Journal, settings: Settings
) -> None:
    with journal.unit() as unit:
        for name in ("orders", "purchases"):
            unit.emit(TagsAdded(dataset("default", name), ["pii"]))
        with pytest.raises(InputError, match="not committed"):
            unit.outcome_future()
    places = list(unit.positions)
    waiting = unit.outcome_future(60)
    judge(settings, places, places[1])

    async def wait() -> Any:
        return await waiting

    found = asyncio.run(wait())
    assert found == unit.outcome()
    assert [one.word for _, one in found.events] == ["accepted", "rejected"]


def test_what_comes_of_several_comes_together_or_with_the_first_error() -> None:
    first, second = AwaitableFuture[int](), AwaitableFuture[int]()
    both = all_of([first, second])
    doubled: AwaitableFuture[int] = AwaitableFuture()
    follow_on(doubled, both, sum)
    second.set_result(2)
    assert not both.done()
    first.set_result(1)
    assert (both.result(0), doubled.result(0)) == ([1, 2], 3)
    failing, other = AwaitableFuture[int](), AwaitableFuture[int]()
    together = all_of([failing, other])
    failing.set_exception(KafkaUnavailableError("away"))
    assert isinstance(together.exception(0), KafkaUnavailableError)
    assert other.cancelled()
    assert all_of([]).result(0) == []
