"""Many lines, one result each, whatever is wrong with some; on a journal that never fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from metajournal.commands.emitting import WINDOW, Sending, about_each
from metajournal.producers.verdicts import Accepted, Rejected
from metajournal.schemas.errors import (
    InputError,
    InvalidEventError,
    KafkaUnavailableError,
    NotYetVisibleError,
    QueueFullError,
)
from metajournal.schemas.positions import Position
from metajournal.terminal import views


@dataclass
class Sent:
    """The receipt of a journal that never fails."""

    event_id: str
    position: Position
    system_time: int = 0

    acknowledged: bool = True

    def outcome(self, timeout_s: float | None) -> Any:
        if self.position.value == 5:
            raise NotYetVisibleError({("t", 0): 1})
        if self.position.value == 7:
            raise KafkaUnavailableError("Verdicts cannot be read: no broker.")
        refused = self.position.value % 3 == 2
        return Rejected(self.position, "unknown-entity", {"entity": "x"}) if refused else Accepted(self.position)


class Counting:
    """A journal that hands out receipts and counts them."""

    def __init__(self) -> None:
        self.sent = 0

    def emit(self, event: Any, **about: Any) -> Sent:
        if faults := event.validate():
            raise InvalidEventError(faults)
        self.sent += 1
        return Sent(f"id-{self.sent}", Position("t", 0, self.sent))


class Listing(Counting):
    """One that also lists the events."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def emit(self, event: Any, **about: Any) -> Sent:
        self.events.append(event)
        return super().emit(event, **about)


def test_many_lines_give_one_result_each_in_their_order_whatever_is_wrong_with_some() -> None:
    good = '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": ["x"]}'
    lines = [good, "nonsense", good, "", '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": []}', good]
    results = list(Sending(Counting(), outcome=True).lines(lines))  # type: ignore[arg-type]
    assert [result["line"] for result in results] == [1, 2, 3, 5, 6]
    assert [result["ok"] for result in results] == [True, False, False, False, True]
    assert results[2]["reason"] == "unknown-entity"
    assert results[3]["error"]["faults"] == [{"field": "tags", "message": "must not be empty"}]


def test_what_was_sent_is_told_before_an_error_that_ends_the_command() -> None:
    class Full(Counting):
        def emit(self, event: Any, **about: Any) -> Sent:
            if self.sent == 3:
                raise QueueFullError("10 events are waiting.", pending=10, limit=10)
            return super().emit(event, **about)

    good = '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": ["x"]}'
    results = Sending(Full(), outcome=False).lines([good] * 5)  # type: ignore[arg-type]
    assert [next(results)["line"] for _ in range(3)] == [1, 2, 3]
    with pytest.raises(QueueFullError):
        next(results)


@pytest.mark.parametrize("timeout_s", [float("nan"), -1, True])
def test_a_timeout_that_is_no_number_of_seconds_is_refused_before_anything_is_sent(timeout_s: float) -> None:
    with pytest.raises(InputError, match="timeout_s must be a number"):
        Sending(Counting(), outcome=True, timeout_s=timeout_s)  # type: ignore[arg-type]


def test_a_line_without_an_answer_in_time_is_told_and_the_rest_goes_on() -> None:
    good = '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": ["x"]}'
    results = list(Sending(Counting(), outcome=True).lines([good] * 9))  # type: ignore[arg-type]
    assert [result.get("outcome") for result in results] == [
        "accepted",
        "rejected",
        "accepted",
        "accepted",
        None,
        "accepted",
        None,
        "rejected",
        "accepted",
    ]
    assert (results[4]["position"], results[4]["error"]["code"]) == ("t/0/5", "not-yet-visible")
    assert str(views.result_line(results[4])).startswith("unknown  line 5  not-yet-visible")
    assert (results[6]["position"], results[6]["error"]["code"]) == ("t/0/7", "kafka-unavailable")


def test_a_slow_pipe_gets_each_result_before_its_next_line() -> None:
    good = '{"type": "TagsAdded", "entity": "dataset:a/ß", "tags": ["x"]}\n'.encode()
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as lines, open(writing, "wb", buffering=0) as pipe:  # noqa: PTH123
        results = Sending(Counting(), outcome=True).lines(lines)  # type: ignore[arg-type]
        pipe.write(good + b"\n" + good[:-20])
        assert next(results)["line"] == 1
        pipe.write(good[-20:])
        assert next(results)["line"] == 3
        pipe.write(good.rstrip())
        pipe.close()
        assert [result["line"] for result in results] == [4]


def test_a_pipe_without_end_holds_a_bounded_number_of_receipts() -> None:
    journal = Counting()

    def endless() -> Iterator[str]:
        while True:
            yield '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": ["x"]}'

    results = Sending(journal, outcome=False).lines(endless())  # type: ignore[arg-type]
    assert [next(results)["line"] for _ in range(10)] == list(range(1, 11))
    assert journal.sent <= WINDOW + 10


def test_each_urn_gets_the_event_and_what_is_none_is_told_with_its_line() -> None:
    lines = ["dataset:a/b\n", "shop.orders", "", " dataset:a/c\r\n", "dataset:postgres://db/shop.x"]
    journal = Listing()
    results = list(Sending(journal, outcome=True).lines(lines, about_each("TagsAdded", {"tags": ["x"]})))  # type: ignore[arg-type]
    assert [(result["line"], result["ok"]) for result in results] == [(1, True), (2, False), (4, False), (5, False)]
    assert [result.get("reason") for result in results] == [None, None, "unknown-entity", None]
    assert [(event.entity, event.tags) for event in journal.events] == [
        ("dataset:a/b", ("x",)),
        ("dataset:a/c", ("x",)),
    ]
    assert "`metajournal search shop.orders`" in results[1]["error"]["hint"]
    assert "Did you mean dataset:postgres%3A%2F%2Fdb%3A5432/shop.x?" in results[3]["error"]["hint"]
    assert str(views.result_line(results[1])).startswith("refused  line 2  invalid-urn: 'shop.orders' is not a valid")


def test_options_that_make_no_event_are_refused_before_any_urn_is_read() -> None:
    with pytest.raises(InputError, match="no event type"):
        about_each("TagAdded", {})
    with pytest.raises(InvalidEventError, match="tags: must be given"):
        about_each("TagsAdded", {})


def test_an_event_about_an_entity_that_is_not_there_says_so_and_what_to_do() -> None:
    refused = {"outcome": "rejected", "position": "t/0/2", "entity": "dataset:a/b", "reason": "unknown-entity"}
    line = str(views.result_line({**refused, "detail": {"entity": "dataset:a/b"}}))
    assert line.endswith(
        "unknown-entity: There is no entity dataset:a/b. Register it first, or check the spelling of its URN."
    )
    stale = {**refused, "reason": "stale-entity", "detail": {"expected": 3, "actual": 4}}
    assert str(views.result_line(stale)).endswith("stale-entity: expected 3, actual 4")
