"""Topics are made as the journal needs them, recorded once, and a different topic is never taken for the same."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.compacted import read_all, write_all
from metajournal.producers.emitter import Emitter
from metajournal.producers.topics import Epochs, TopicEpoch, check_topics, ensure_topics, read_epochs
from metajournal.schemas.errors import TopicMismatchError
from metajournal.schemas.settings import Settings
from tests.new_topics import remake_topics
from tests.wait import eventually


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka})


def config_of(admin: AdminClient, topic: str) -> dict[str, str]:
    [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {key: str(entry.value) for key, entry in future.result().items()}


def alter(admin: AdminClient, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    [future] = admin.incremental_alter_configs([resource]).values()
    future.result()


def test_every_topic_has_the_configuration_that_the_journal_needs(settings: Settings, admin: AdminClient) -> None:
    ensure_topics(settings)
    names, week = settings.journal.topics, str(7 * 24 * 3600 * 1000)
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    published = {"cleanup.policy": "delete", "retention.ms": week, "message.timestamp.type": "CreateTime"}
    compacted = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    needed = {
        names.journal("catalog"): {**kept, "message.timestamp.type": "LogAppendTime"},
        names.changes("catalog"): published,
        names.annotations_system: published,
        names.outcomes("catalog"): published,
        names.state("catalog"): compacted,
        names.schemas: compacted,
        names.epochs: compacted,
        names.dlq: {"cleanup.policy": "delete"},
    }
    for topic, config in needed.items():
        found = config_of(admin, topic)
        assert {key: found[key] for key in config} == config, topic
        assert int(found["max.message.bytes"]) >= 4 * 1024 * 1024
    described = admin.describe_topics(TopicCollection(list(needed)))
    partitions = {topic: len(future.result().partitions) for topic, future in described.items()}
    single = {names.schemas, names.epochs, names.dlq}
    assert partitions == {topic: 1 if topic in single else 4 for topic in needed}


def test_making_them_again_changes_nothing(settings: Settings) -> None:
    first = ensure_topics(settings)
    journal = settings.journal.topics.journal("catalog")
    assert first[journal] == TopicEpoch(journal, 1, first[journal].topic_id, 4)
    more = replace(settings, journal=replace(settings.journal, partitions=9))
    assert ensure_topics(more) == check_topics(more) == first


def test_several_processes_may_make_them_at_once(settings: Settings) -> None:
    found: list[Epochs] = []
    threads = [threading.Thread(target=lambda: found.append(ensure_topics(settings))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(one == found[0] for one in found)


def test_missing_topics_are_an_error_that_says_what_to_run(settings: Settings) -> None:
    with pytest.raises(TopicMismatchError, match="Topics are missing") as caught:
        check_topics(settings)
    assert "metajournal up" in caught.value.hint
    assert f"{settings.journal.topics.epochs} is missing" in caught.value.data["differences"]


def test_a_journal_topic_made_anew_is_refused(settings: Settings, admin: AdminClient) -> None:
    epochs = ensure_topics(settings)
    topic = settings.journal.topics.journal("catalog")
    config = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(4 << 20)}
    remake_topics(admin, [NewTopic(topic, 4, config=config)])
    for look in (check_topics, ensure_topics):
        with pytest.raises(TopicMismatchError, match="was recreated") as caught:
            look(settings)
        assert epochs[topic].topic_id in caught.value.message
    assert read_epochs(settings) == epochs


def test_an_added_partition_is_refused(settings: Settings, admin: AdminClient) -> None:
    ensure_topics(settings)
    topic = settings.journal.topics.journal("catalog")
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result()

    def refused() -> bool:
        with pytest.raises(TopicMismatchError, match="has 5 partitions, recorded are 4"):
            check_topics(settings)
        return True

    eventually(refused, what="the fifth partition")


def test_every_wrong_configuration_is_told_at_once(settings: Settings, admin: AdminClient) -> None:
    ensure_topics(settings)
    names = settings.journal.topics
    alter(admin, names.journal("catalog"), "message.timestamp.type", "CreateTime")
    alter(admin, names.changes("catalog"), "max.message.bytes", "1000000")
    alter(admin, names.state("catalog"), "cleanup.policy", "delete")
    admin.create_partitions([NewPartitions(names.outcomes("catalog"), 6)])[names.outcomes("catalog")].result()

    def told() -> bool:
        with pytest.raises(TopicMismatchError) as caught:
            check_topics(settings)
        assert set(caught.value.data["differences"]) == {
            f"{names.journal('catalog')} has message.timestamp.type=CreateTime, needed is LogAppendTime",
            f"{names.changes('catalog')} has max.message.bytes=1000000, needed is at least 4194304",
            f"{names.state('catalog')} has cleanup.policy=delete, needed is compact",
            f"{names.outcomes('catalog')} has 6 partitions, needed are 4",
        }
        return True

    eventually(told, what="all four differences")


def test_a_journal_that_holds_events_is_not_taken_for_a_new_one(settings: Settings, admin: AdminClient) -> None:
    """Its epochs topic was lost: its epoch may have been another than 1."""
    epochs = ensure_topics(settings)
    emitter = Emitter(settings, epochs)
    emitter.emit(TagsAdded(dataset("default", "a"), ["x"]))
    emitter.close()
    config = {"cleanup.policy": "compact", "max.message.bytes": str(4 << 20)}
    remake_topics(admin, [NewTopic(settings.journal.topics.epochs, 1, config=config)])
    with pytest.raises(TopicMismatchError, match="holds events, but no epoch is recorded"):
        ensure_topics(settings)
    assert read_all(settings, settings.journal.topics.epochs) == {}


def test_positions_that_an_operator_shelved_are_read(settings: Settings) -> None:
    ensure_topics(settings)
    topic = settings.journal.topics.journal("catalog")
    position = (1 << 40) + 7
    record = {f"shelve/{topic}/2/{position}": json.dumps({"why": "from a newer version"}).encode()}
    write_all(settings, settings.journal.topics.epochs, record)
    assert check_topics(settings).shelved == {(topic, 2, position)}
