"""One position is shelved for good by a record, and nothing else can be."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from metajournal.producers.compacted import write_all
from metajournal.producers.shelving import shelve
from metajournal.producers.topics import ensure_topics, read_epochs
from metajournal.schemas.errors import InputError, TopicMismatchError
from metajournal.schemas.positions import Position, position
from metajournal.schemas.settings import Settings


def test_a_shelved_position_stands_in_the_epochs_beside_the_topics(settings: Settings) -> None:
    topic = settings.journal.topics.journal("catalog")
    ensure_topics(settings)
    producer = Producer({"bootstrap.servers": settings.kafka["bootstrap.servers"]})
    producer.produce(topic, b"any", partition=2)
    assert producer.flush(10) == 0
    for _ in range(2):
        shelve(settings, Position(topic, 2, position(1, 0)))
    epochs = read_epochs(settings)
    assert epochs.shelved == {(topic, 2, position(1, 0))}
    assert set(epochs) == {settings.journal.topics.journal(name) for name in epochs.domains}
    assert set(epochs) >= {topic, settings.journal.topics.journal("files")}


def test_what_no_journal_topic_has_cannot_be_shelved(settings: Settings) -> None:
    topic = settings.journal.topics.journal("catalog")
    ensure_topics(settings)
    for at, code in (
        (Position(topic, 2, position(1, 0)), "no-such-position"),
        (Position(topic, 2, 7), "no-such-position"),
        (Position(topic, 2, position(2, 0)), "no-such-position"),
        (Position(topic, 4, position(1, 0)), "no-such-partition"),
        (Position("elsewhere", 0, position(1, 0)), "no-such-topic"),
    ):
        with pytest.raises(InputError) as refused:
            shelve(settings, at)
        assert refused.value.code == code
    assert read_epochs(settings).shelved == frozenset()


@pytest.mark.parametrize(("key", "value"), [("shelve/t/x/y", b"{}"), ("t", b"[]"), ("t", b"{"), ("t", b'{"epoch":1}')])
def test_a_foreign_record_in_the_epochs_topic_is_named(settings: Settings, key: str, value: bytes) -> None:
    ensure_topics(settings)
    write_all(settings, settings.journal.topics.epochs, {key: value})
    with pytest.raises(TopicMismatchError, match=f"neither an epoch nor a shelved position: '{key}'"):
        read_epochs(settings)
