"""`ack()` returns when the broker has what is done; what went with its partition is told once, and never kept quiet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from metajournal.consumers import subscription
from metajournal.consumers.filters import Filter
from metajournal.consumers.records import Change
from metajournal.consumers.subscription import Subscription, changes
from metajournal.producers.journal_ends import JournalEnds
from metajournal.schemas.errors import KafkaUnavailableError
from tests.consumers.without_broker import EPOCHS, SETTINGS, Client, Record, over, readings


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    over(monkeypatch, client := Client([Record(0, 0), Record(1, 1), Record(2, 2)]))
    monkeypatch.setattr(JournalEnds, "end", lambda *_: 3)
    return client


@pytest.fixture
def found(client: Client) -> Subscription[Change]:
    """A member whose first change is at hand."""
    wanted = Filter.of(scope="USER")
    found = changes(SETTINGS, EPOCHS, group="g", since="earliest", wanted=wanted, commit_interval_s=3600)
    next(found)
    return found


def lose(found: Subscription[Change], client: Client) -> Callable[[], None]:
    """As librdkafka calls back when the member's session has ended."""
    taken = found._intake
    assert taken is not None
    return lambda: taken._lost(client, [])  # type: ignore[arg-type]


def test_a_loss_while_ack_waits_is_an_error(found: Subscription[Change], client: Client) -> None:
    client.on_poll, client.answers = lose(found, client), False
    with pytest.raises(KafkaUnavailableError, match="has not kept all that is done"):
        found.ack()
    found.ack()  # nothing else is done
    found.close()


def test_a_loss_before_ack_is_told_once_by_the_next_one(
    found: Subscription[Change], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nothing is left that it could commit; or is done since, which is kept all the same."""
    taken = found._intake
    assert taken is not None
    monkeypatch.setattr(subscription, "_TOP_UP_S", 0.0)
    client.answers = False
    next(found)
    found._settle()
    lose(found, client)()
    with pytest.raises(KafkaUnavailableError):
        found.ack()
    client.answers = True
    taken._begin(readings(3))
    client.records.extend([Record(0, 0), Record(1, 1), Record(2, 2)])
    assert next(found).position.offset == 0
    found.ack()
    assert client.committed == 1
    found._settle()
    next(found)
    found._settle()
    lose(found, client)()
    taken._begin(readings(3))
    client.records.extendleft([Record(0, 0)])
    next(found)
    with pytest.raises(KafkaUnavailableError):
        found.ack()
    assert client.committed == 1
    found.ack()
    found.close()


def test_a_loss_of_what_was_kept_is_no_error(found: Subscription[Change], client: Client) -> None:
    found.ack()
    lose(found, client)()
    found.ack()
    found.close()


@pytest.mark.parametrize("way", ["raised", "answered", "kept"])
def test_a_last_commit_that_fails_in_a_rebalance_is_an_error(
    found: Subscription[Change], client: Client, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    taken = found._intake
    assert taken is not None
    refused = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)

    def commit(*, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        if way == "raised":
            raise KafkaException(refused)
        one = TopicPartition("t", 0, 1)
        return [Answered(refused if way == "answered" else None), one]  # type: ignore[list-item]

    found._settle()
    monkeypatch.setattr(client, "commit", commit)
    taken._revoked(client, [])  # type: ignore[arg-type]
    if way != "kept":
        with pytest.raises(KafkaUnavailableError):
            found.ack()
    found.ack()
    found.close()


class Answered:
    """A partition as a commit's answer has it."""

    def __init__(self, error: KafkaError | None) -> None:
        self.error = error
