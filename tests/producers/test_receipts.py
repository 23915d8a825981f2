"""Receipts without a broker: how delivery reports become positions and errors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.ids import EventIds
from metajournal.producers.receipts import Receipt
from metajournal.producers.units import Unit
from metajournal.producers.verdicts import Accepted, Duplicate, Outcome, Rejected, Shelved, Unchanged, outcome_of
from metajournal.producers.waiting.futures import AwaitableFuture
from metajournal.schemas.errors import KafkaUnavailableError, OutcomeUnknownError, RejectedError
from metajournal.schemas.positions import Position

NEW_ID = EventIds()
PLACE = Position("metajournal.journal.catalog", 3, (2 << 40) + 17)


class Report:
    """A delivery report as librdkafka hands it out."""

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 17

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_700_000_000_000


class Unplaced(Report):
    """That of an event that the broker had already: it does not say where."""

    def offset(self) -> None:  # type: ignore[override]
        return None


class Silent:
    """A journal topic whose reports come when the test serves them."""

    name = "metajournal.journal.catalog"
    epoch = 2

    def __init__(self, wait_s: float = 0.0) -> None:
        self.limit_s = wait_s
        self.failures: list[Receipt] = []
        self.next: list[Any] = []
        self.asked: list[tuple[Position, int]] = []

    def wait_s(self) -> float:
        return self.limit_s

    def serve(self, timeout_s: float) -> None:
        for report in self.next:
            report()
        self.next.clear()

    def failed(self, receipt: Receipt) -> None:
        self.failures.append(receipt)

    def outcome(self, position: Position, system_time: int, timeout_s: float | None) -> Outcome:
        self.asked.append((position, system_time))
        return Accepted(position)

    def outcome_future(self, position: Position, system_time: int, timeout_s: float | None) -> AwaitableFuture[Outcome]:
        future: AwaitableFuture[Outcome] = AwaitableFuture()
        future.set_result(self.outcome(position, system_time, timeout_s))
        return future

    def watch(self, receipt: Receipt, limit_s: float, callback: Callable[[Receipt], object]) -> None:
        self.next.append(lambda: callback(receipt))


def delivered(journal: Silent, error: int | None = None) -> Receipt:
    receipt = Receipt(NEW_ID(1_700_000_000_000), journal)
    receipt.delivered(None if error is None else KafkaError(error), cast(Message, Report()))
    return receipt


def test_an_acknowledged_event_knows_its_position_and_time() -> None:
    receipt = delivered(Silent())
    assert receipt.acknowledged
    assert receipt.position == PLACE
    assert receipt.system_time == 1_700_000_000_000


def test_asking_for_the_position_serves_the_reports() -> None:
    journal = Silent(wait_s=5)
    receipt = Receipt(NEW_ID(1), journal)
    journal.next = [lambda: receipt.delivered(None, cast(Message, Report()))]
    assert not receipt.acknowledged
    assert receipt.position == PLACE


def test_the_outcome_is_asked_once() -> None:
    journal = Silent()
    receipt = delivered(journal)
    assert receipt.outcome() == receipt.outcome(0.0) == Accepted(PLACE)
    assert journal.asked == [(PLACE, 1_700_000_000_000)]


@pytest.mark.parametrize(
    "code",
    [KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError.NOT_ENOUGH_REPLICAS],
)
def test_an_event_that_may_be_in_the_log_has_an_unknown_outcome(code: int) -> None:
    """librdkafka's message status is not handed on to Python, so only the broker's own refusals are certain."""
    journal = Silent()
    receipt = delivered(journal, code)
    with pytest.raises(OutcomeUnknownError) as caught:
        receipt.position  # noqa: B018
    assert caught.value.data["event_id"] == receipt.event_id
    assert f"event_id={receipt.event_id!r}, repeat=True" in caught.value.hint
    assert journal.failures == [receipt]


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_TOPIC])
def test_an_event_that_the_broker_refused_is_not_in_the_log(code: int) -> None:
    receipt = delivered(Silent(), code)
    with pytest.raises(KafkaUnavailableError, match="not in the log"):
        receipt.outcome()


def test_an_event_whose_place_the_broker_did_not_tell_is_acknowledged_and_waited_for_no_longer() -> None:
    """It counted as not reported until the time was over."""
    receipt = Receipt(NEW_ID(1), Silent(wait_s=60))
    receipt.delivered(None, cast(Message, Unplaced()))
    assert (receipt.acknowledged, receipt.pending, receipt.failure()) == (True, False, None)
    with pytest.raises(OutcomeUnknownError, match="is in the log, but the broker did not return its position"):
        receipt.position  # noqa: B018
    assert isinstance(receipt.outcome_future().exception(0), OutcomeUnknownError)


def test_a_unit_whose_places_the_broker_did_not_tell_is_committed() -> None:
    journal = Silent(wait_s=60)
    sending = SimpleNamespace(
        new_id=NEW_ID, place=lambda *_: (b"key", 3), journal_of=lambda _: journal,
        commit=lambda _, records, block_s: [Unplaced() for _ in records],
    )  # fmt: skip
    options: Any = {"actor": None, "event_time": None, "cause": None, "tenant": None, "unit_id": None, "repeat": False}
    with Unit(cast(Any, sending), defaults=("default", None), **options) as unit:
        receipt = unit.emit(TagsAdded(dataset("default", "orders"), ["pii"]))
    assert (unit.committed, receipt.acknowledged, receipt.pending) == (True, True, False)
    with pytest.raises(OutcomeUnknownError, match="is in the log, but the broker did not return its position"):
        unit.positions  # noqa: B018


def test_no_report_at_all_is_an_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metajournal.producers.receipts._GRACE_S", 0.0)
    with pytest.raises(OutcomeUnknownError, match="no acknowledgement"):
        Receipt(NEW_ID(1), Silent()).position  # noqa: B018


@pytest.mark.parametrize(
    ("wire", "outcome"),
    [
        (None, Accepted(PLACE)),
        ([PLACE.value, "unchanged"], Unchanged(PLACE)),
        (
            [PLACE.value, "rejected", {"reason": "unknown-entity", "detail": {"urn": "x"}}],
            Rejected(PLACE, "unknown-entity", {"urn": "x"}),
        ),
        ([PLACE.value, "shelved", {"reason": "digest", "detail": None}], Shelved(PLACE, "digest")),
    ],
)
def test_every_verdict_is_read_from_its_wire_form(wire: list[Any] | None, outcome: Outcome) -> None:
    assert outcome_of(PLACE, wire) == outcome


def test_a_duplicate_has_the_verdict_of_its_original() -> None:
    of = Position(PLACE.topic, PLACE.partition, PLACE.value - 5)
    data = {"of": of.value, "outcome": "rejected", "reason": "too-large", "detail": {"size": 9}}
    found = outcome_of(PLACE, [PLACE.value, "duplicate", data])
    assert found == Duplicate(PLACE, of, Rejected(of, "too-large", {"size": 9}))
    with pytest.raises(RejectedError) as caught:
        found.raise_if_rejected()
    assert caught.value.position == of


def test_an_unknown_verdict_is_never_taken_for_a_good_one() -> None:
    with pytest.raises(ValueError, match="unknown verdict"):
        outcome_of(PLACE, [PLACE.value, "postponed"])


@pytest.mark.parametrize("refused", [Rejected(PLACE, "invalid", []), Shelved(PLACE, "digest")])
def test_what_has_no_effect_raises_when_asked_to(refused: Rejected | Shelved) -> None:
    with pytest.raises(RejectedError) as caught:
        refused.raise_if_rejected()
    assert caught.value.position == PLACE


def test_a_rejection_is_told_in_words_with_its_next_step() -> None:
    with pytest.raises(RejectedError) as caught:
        Rejected(PLACE, "stale-entity", {"entity": "dataset:a/b", "expected": 1, "found": 2}).raise_if_rejected()
    assert caught.value.message == "The event was rejected (stale-entity): entity dataset:a/b, expected 1, found 2"
    assert caught.value.hint.startswith("Read the entity as it is now")
    with pytest.raises(RejectedError) as caught:
        Rejected(PLACE, "of-another-domain", None).raise_if_rejected()
    assert caught.value.hint == RejectedError.HINT


@pytest.mark.parametrize("fine", [Accepted(PLACE), Unchanged(PLACE), Duplicate(PLACE, PLACE, Unchanged(PLACE))])
def test_what_holds_returns_itself(fine: Outcome) -> None:
    assert fine.raise_if_rejected() is fine
