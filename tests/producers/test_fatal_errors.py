"""A fatal error of Kafka's client: whoever waits is told, nothing more is taken, nobody meets its own exception."""

from __future__ import annotations

from typing import Any, cast

import pytest

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.emitter import Emitter
from metajournal.producers.ids import EventIds
from metajournal.producers.kafka import ErrorLog, make_producer, take_in
from metajournal.producers.receipts import Receipt
from metajournal.schemas.errors import KafkaUnavailableError, OutcomeUnknownError
from tests.producers.mocked import fail_for_good, mocked_emitter, mocked_settings
from tests.wait import eventually

ORDERS = dataset("default", "orders")


@pytest.fixture
def emitter() -> Any:
    """An emitter whose events wait, so that a fatal error finds them."""
    emitter = mocked_emitter(linger_ms=20_000.0)
    yield emitter
    emitter.close(5)


def emitted(emitter: Emitter, count: int) -> list[Receipt]:
    return [emitter.emit(TagsAdded(dataset("default", f"orders_{number}"), ["pii"])) for number in range(count)]


def test_whoever_waits_is_told_and_the_next_emit_says_that_nothing_was_sent(emitter: Emitter) -> None:
    called: list[Receipt] = []
    receipts = emitted(emitter, 3)
    futures = [receipt.position_future() for receipt in receipts]
    receipts[0].add_done_callback(called.append)
    fail_for_good(emitter._producer)
    for future in futures:
        assert isinstance(future.exception(20), OutcomeUnknownError)
    eventually(lambda: called == receipts[:1], what="the callback")
    assert emitter._idler.is_alive()
    for _ in range(2):
        with pytest.raises(KafkaUnavailableError, match=r"this is the end\); nothing was sent") as caught:
            emitter.emit(TagsAdded(ORDERS, ["pii"]))
        assert "Connect again" in caught.value.hint
    with pytest.raises(OutcomeUnknownError, match="3 events failed"):
        emitter.flush(5)
    assert isinstance(receipts[0].failure(), OutcomeUnknownError)


def test_whoever_asks_for_the_broker_is_told_that_the_client_has_ended(emitter: Emitter) -> None:
    emitter.check_broker(20)
    assert emitter.ended is None
    fail_for_good(emitter._producer)
    eventually(lambda: emitter.ended, what="the error")
    with pytest.raises(KafkaUnavailableError, match=r"sends nothing more \(.*this is the end"):
        emitter.check_broker(20)


def test_waiting_for_a_position_meets_it(emitter: Emitter) -> None:
    [receipt] = emitted(emitter, 1)
    fail_for_good(emitter._producer)
    with pytest.raises(OutcomeUnknownError):
        receipt.position  # noqa: B018
    with pytest.raises(OutcomeUnknownError, match="1 events failed"):
        emitter.flush(5)


def test_an_emit_whose_turn_meets_it_returns_the_receipt_of_its_event(
    emitter: Emitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event was queued and is unknown, though the call said otherwise."""
    produce = emitter._produce

    def then_fail(*record: Any) -> None:
        produce(*record)
        fail_for_good(emitter._producer)

    monkeypatch.setattr(emitter, "_produce", then_fail)
    monkeypatch.setattr(emitter, "_turn_is_due", lambda: True)
    receipt = emitter.emit(TagsAdded(ORDERS, ["pii"]))
    with pytest.raises(OutcomeUnknownError):
        receipt.position  # noqa: B018
    assert emitter._taken_failures() == [receipt]


def test_waiting_for_a_place_in_the_queue_meets_it() -> None:
    emitter = mocked_emitter(linger_ms=20_000.0, queue_events=2)
    emitted(emitter, 2)
    fail_for_good(emitter._producer)
    with pytest.raises(KafkaUnavailableError, match="nothing was sent"):
        emitter.emit(TagsAdded(ORDERS, ["pii"]), block_s=20)
    with pytest.raises(OutcomeUnknownError, match="2 events failed"):
        emitter.close(5)


@pytest.mark.parametrize("wait", ["flush", "close"])
def test_a_flush_or_the_end_tells_the_events_that_it_ended(wait: str) -> None:
    emitter = mocked_emitter(linger_ms=20_000.0)
    receipts = emitted(emitter, 3)
    fail_for_good(emitter._producer)
    with pytest.raises(OutcomeUnknownError, match="3 events failed") as caught:
        getattr(emitter, wait)(5)
    assert set(caught.value.data["event_ids"]) == {receipt.event_id for receipt in receipts}
    emitter.close(5)


@pytest.mark.thorough
@pytest.mark.parametrize("is_sent", [False, True])
def test_a_flush_that_goes_on_behind_it_loses_no_report(is_sent: bool) -> None:
    """The first report behind it met an error of the interpreter's, and its event waited until the time was over."""
    errors = ErrorLog()
    producer = make_producer(
        mocked_settings(), errors, **{"linger.ms": 0 if is_sent else 20_000, "test.mock.broker.rtt": 200}
    )
    journal = cast(Any, type("Journal", (), {"name": "t", "epoch": 1, "failed": lambda *_: None}))()
    warm, *receipts = [Receipt(EventIds()(1), journal) for _ in range(4)]
    producer.produce("t", b"v", b"k", 0, warm.delivered)
    producer.flush(20)
    assert warm.acknowledged
    for receipt in receipts:
        producer.produce("t", b"v", b"k", 0, receipt.delivered)
    fail_for_good(producer)
    take_in(producer.flush, errors, 20)
    assert [receipt.pending for receipt in receipts] == [False] * 3
    assert errors.fatal is not None
    assert errors.fatal.text.endswith("this is the end")


def test_what_is_no_error_of_kafka_is_not_taken_for_one() -> None:
    def fails(_: float) -> None:
        raise SystemError("of something else")

    with pytest.raises(SystemError):
        take_in(fails, ErrorLog(), 0)
