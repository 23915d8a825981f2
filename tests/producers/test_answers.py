"""Answers of the admin client: what passes is asked again, what does not is told, and so is what lasts too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo

from metajournal.producers.answers import Administrator
from metajournal.producers.kafka import asked_again
from metajournal.producers.recorded.topic_admin import has_records
from metajournal.schemas.errors import KafkaUnavailableError
from metajournal.schemas.settings import Settings

NOWHERE = Settings(kafka={"bootstrap.servers": "127.0.0.1:1"})
NOBODY = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
FENCED = "Unable to replicate the partition 1 time(s): All brokers are currently fenced."


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for metadata of a broker that is not there."""
    monkeypatch.setattr("metajournal.producers.kafka._METADATA_S", 0.01)


def told(found: int | KafkaError) -> Future[int]:
    future: Future[int] = Future()
    if isinstance(found, int):
        future.set_result(found)
    else:
        future.set_exception(KafkaException(found))
    return future


def asked(*times: Mapping[str, int | KafkaError], timeout_s: float = 30.0, fine: int | None = None) -> dict[str, int]:
    """The answers of a broker that answers so, one time after the other, and the last time for ever."""
    coming: Iterator[Mapping[str, int | KafkaError]] = iter(times)
    last: list[Mapping[str, int | KafkaError]] = []

    clients = set()

    def ask(client: AdminClient, limit: float) -> dict[str, Future[int]]:
        assert 0 < limit <= timeout_s
        assert client not in clients, "it would go by what it knows"
        clients.add(client)
        last[:] = [next(coming, *last)]
        return {name: told(found) for name, found in last[0].items()}

    return Administrator(NOWHERE).answers(ask, "Describing", timeout_s, fine=fine)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "problem",
    [
        KafkaError(KafkaError.FENCED_LEADER_EPOCH),
        KafkaError(KafkaError.LEADER_NOT_AVAILABLE),
        KafkaError(KafkaError._TIMED_OUT),
        KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, FENCED),
    ],
)
def test_what_passes_is_asked_again(problem: KafkaError) -> None:
    assert asked({"a": 1, "b": problem}, {"a": problem, "b": problem}, {"a": 1, "b": 2}) == {"a": 1, "b": 2}


def test_an_end_below_0_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic of which nothing was heard in time is not an empty one."""
    offsets = iter((-1001, 3))

    class Slow:
        """A client whose first answer does not come in time."""

        def list_offsets(self, places: Mapping[TopicPartition, object], **_: object) -> dict[TopicPartition, Any]:
            answers: dict[TopicPartition, Any] = {place: Future() for place in places}
            for answer in answers.values():
                answer.set_result(ListOffsetsResultInfo(next(offsets), -1, -1))
            return answers

    monkeypatch.setattr("metajournal.producers.answers.make_admin", lambda *_: Slow())
    topic: Any = SimpleNamespace(name="t", partitions=[SimpleNamespace(id=0)])
    assert has_records(Administrator(NOWHERE), topic, 30)


def test_what_does_not_pass_is_told_at_once_with_its_name() -> None:
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaUnavailableError, match=r"Describing b failed: .*uthoriz"):
        asked({"a": KafkaError(KafkaError._TIMED_OUT), "b": denied})
    with pytest.raises(KafkaUnavailableError, match="larger than"):
        asked({"a": KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, "factor 3 larger than available brokers")})


def test_what_lasts_is_told_when_the_time_is_over() -> None:
    with pytest.raises(KafkaUnavailableError, match="Describing a failed"):
        asked({"a": KafkaError(KafkaError.LEADER_NOT_AVAILABLE)}, timeout_s=0.2)


def test_what_is_fine_leaves_its_answer_out() -> None:
    unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert asked({"a": unknown, "b": 2}, fine=KafkaError.UNKNOWN_TOPIC_OR_PART) == {"b": 2}


def test_a_partition_is_named_by_its_topic() -> None:
    place = TopicPartition("t", 3)
    with pytest.raises(KafkaUnavailableError, match="Asking t failed"):
        Administrator(NOWHERE).answers(
            lambda *_: {place: told(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))}, "Asking", 1.0
        )


def failing(times: int, code: int) -> Callable[[], int]:
    """A request that fails so many times."""
    left = [KafkaException(KafkaError(code))] * times

    def ask() -> int:
        if left:
            raise left.pop()
        return 5

    return ask


def test_one_request_is_sent_again_until_it_is_answered() -> None:
    assert asked_again(NOBODY, failing(2, KafkaError.NOT_LEADER_FOR_PARTITION), time.monotonic() + 30) == 5


def test_one_request_is_given_up_for_good_reasons_only() -> None:
    away, denied = KafkaError._ALL_BROKERS_DOWN, KafkaError.TOPIC_AUTHORIZATION_FAILED
    for ask, deadline, stopping in (
        (failing(1, denied), time.monotonic() + 30, False),
        (failing(9, away), time.monotonic() - 1, False),
        (failing(9, away), time.monotonic() + 30, True),
    ):
        with pytest.raises(KafkaException):
            asked_again(NOBODY, ask, deadline, stopping=[False, stopping].pop)
