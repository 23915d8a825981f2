"""What a forked process has of its parent's: no thread that answers, and no client of Kafka's. It gets its own."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from metajournal.client import Journal
from metajournal.consumers import followers
from metajournal.consumers.follower import Follower
from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers import asked_ends
from metajournal.producers.asked_ends import leave_ends, shared_ends
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.errors import InputError
from metajournal.schemas.settings import Settings
from tests.forking import is_true_in_child

SETTINGS = Settings(kafka={"bootstrap.servers": "127.0.0.1:1"})
TOPIC = SETTINGS.journal.topics.journal("catalog")
EPOCHS = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "an id", 4)})


class Answering:
    """A client that answers with the process that it was made in."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def list_offsets(self, places: Collection[TopicPartition], **_: Any) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in places}
        for answer in answers.values():
            answer.set_result(ListOffsetsResultInfo(self.pid, 0, 0))
        return answers


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metajournal.producers.answers.make_admin", lambda *_: Answering())


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize("is_held", [False, True])
def test_a_forked_process_asks_for_ends_with_a_client_and_a_thread_of_its_own(is_held: bool) -> None:
    """It waited for good for a thread that did not come along."""
    ends = shared_ends(SETTINGS)
    assert ends.end("t", 0).result(20) == os.getpid()

    def asks() -> bool:
        own = shared_ends(SETTINGS)
        answered = own.end("t", 0).result(5) == os.getpid() and own is not ends
        leave_ends(own)
        for ask in (lambda: ends.end("t", 0), ends.administrator):
            with pytest.raises(InputError, match="closed"):
                ask()
        leave_ends(ends)  # of a journal of the parent's that is closed in the child
        return answered and asked_ends._shared == []

    if is_held:
        with asked_ends._lock, ends._changed:
            assert is_true_in_child(asks)
    else:
        assert is_true_in_child(asks)
    assert ends.end("t", 0).result(20) == os.getpid()
    leave_ends(ends)
    assert ends not in asked_ends._shared  # others may be asked by the journals of a whole session


@pytest.fixture
def made() -> Iterator[None]:
    yield
    followers.end_unused(SETTINGS)
    assert followers._made == []


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("is_held", [False, True])
def test_a_forked_process_follows_with_a_reader_of_its_own(is_held: bool) -> None:
    follower = followers._shared(SETTINGS, EPOCHS, TOPIC, 0)
    assert followers._shared(SETTINGS, EPOCHS, TOPIC, 0) is follower

    def follows() -> bool:
        own = followers._shared(SETTINGS, EPOCHS, TOPIC, 0)
        return own is not follower and own.reader is not follower.reader and followers._made == [own]

    if is_held:
        with followers._lock:
            assert is_true_in_child(follows)
    else:
        assert is_true_in_child(follows)
    assert followers._made == [follower]


def test_what_followed_before_a_fork_is_let_go_of_in_the_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for good for a lock that a thread of the parent's had held."""
    monkeypatch.setattr(Follower, "_ensure", lambda _: None)
    follow = followers.Follow(SETTINGS, EPOCHS, dataset("default", "orders"), "default")

    def closes() -> bool:
        follow.close()
        return True

    with follow._follower._changed:
        assert is_true_in_child(closes)
    follow.close()
    followers.end_unused(SETTINGS)
    assert followers._made == []


def test_a_forked_process_that_connects_emits_and_asks_for_ends(settings: Settings) -> None:
    orders = dataset("default", "orders")
    with Journal.connect(settings, create_topics=True) as journal:
        place = journal.emit(TagsAdded(orders, ["parent"])).position
        ends = shared_ends(settings)
        assert ends.end(place.topic, place.partition).result(30) == 1

        def emits() -> bool:
            with Journal.connect(settings) as own:
                value = own.emit(TagsAdded(orders, ["child"])).position.value
                asked = shared_ends(settings).end(place.topic, place.partition)
                return value == place.value + 1 and asked.result(30) == 2

        assert is_true_in_child(emits)
        assert ends.end(place.topic, place.partition).result(30) == 2
        leave_ends(ends)
