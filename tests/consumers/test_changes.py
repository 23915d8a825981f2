"""Change topics as a subscriber reads them: each change once, in order, from where one asked."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from metajournal.consumers.changes import Change, read_changes
from metajournal.consumers.subscription import changes as subscribed
from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.emitter import Emitter
from metajournal.producers.topics import Epochs, ensure_topics
from metajournal.schemas.errors import InputError, PositionExpired
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.producers.published import publish_changes

START = 1 << 40


@pytest.fixture
def epochs(settings: Settings) -> Epochs:
    return ensure_topics(settings)


@pytest.fixture
def journal(settings: Settings) -> str:
    return settings.journal.topics.journal("catalog")


def places(changes: list[Change]) -> list[tuple[int, int, int, str]]:
    return [(one.position.partition, one.position.value - START, one.seq, one.scope) for one in changes]


def everything(settings: Settings, epochs: Epochs, since: Position) -> list[Change]:
    return list(read_changes(settings, epochs, since=since, timeout_s=2))


def emitted(settings: Settings, epochs: Epochs, count: int = 1) -> list[tuple[Position, int]]:
    """Positions and append times of events of one aggregate."""
    emitter = Emitter(settings, epochs)
    receipts = [emitter.emit(TagsAdded(dataset("default", "a"), [f"t{number}"])) for number in range(count)]
    found = [(receipt.position, receipt.system_time) for receipt in receipts]
    emitter.close()
    return found


def test_a_change_says_what_changed_where_and_when(settings: Settings, epochs: Epochs, journal: str) -> None:
    changes = read_changes(settings, epochs, timeout_s=10, limit=1)
    place = Position(journal, 3, START + 9)
    publish_changes(settings, [(place, 2, 1_700_000_000_000, "dataset:default/a")])
    [change] = changes
    assert change == Change(
        urn="dataset:default/a",
        position=place,
        seq=2,
        scope="USER",
        type="metajournal.catalog.MetadataChangeRecord",
        time=1_700_000_000_000,
        record={"updater": str(place)},
        partition=3,
        domain="catalog",
    )


def test_what_the_stream_publishes_twice_comes_once_in_each_scope(
    settings: Settings, epochs: Epochs, journal: str
) -> None:
    now = int(time.time() * 1000)
    changes = read_changes(settings, epochs, timeout_s=2)
    first, second = ((Position(journal, 0, START + number), 0, now, "dataset:default/a") for number in (1, 2))
    programs = [(Position(journal, 0, START + 3), seq, now, f"dataset:default/{seq}") for seq in (0, 1)]
    # A restart repeats a range from an earlier position on.
    publish_changes(settings, [first, second, first, second, *programs, second, *programs])
    publish_changes(settings, [first, first], scope="SYSTEM")
    found = places(list(changes))
    assert [one for one in found if one[3] == "USER"] == [
        (0, 1, 0, "USER"),
        (0, 2, 0, "USER"),
        (0, 3, 0, "USER"),
        (0, 3, 1, "USER"),
    ]
    assert [one for one in found if one[3] == "SYSTEM"] == [(0, 1, 0, "SYSTEM")]


def test_without_a_start_only_what_comes_after_the_call_is_read(
    settings: Settings, epochs: Epochs, journal: str
) -> None:
    now = int(time.time() * 1000)
    publish_changes(settings, [(Position(journal, 1, START), 0, now, "dataset:default/a")])
    changes = read_changes(settings, epochs, timeout_s=2)
    # Before the first iteration, and after the call.
    publish_changes(settings, [(Position(journal, 1, START + 1), 0, now, "dataset:default/a")])
    assert places(list(changes)) == [(1, 1, 0, "USER")]


def test_since_an_event_its_partition_begins_after_it_and_the_others_at_its_time(
    settings: Settings, epochs: Epochs, journal: str
) -> None:
    (before, t1), (since, t2), (after, t3) = emitted(settings, epochs, 3)
    other = (since.partition + 1) % 4
    urn = "dataset:default/a"
    publish_changes(settings, [(before, 0, t1, urn), (since, 0, t2, urn), (since, 1, t2, urn), (after, 0, t3, urn)])
    publish_changes(settings, [(Position(journal, other, START + n), 0, t2 + n - 5, urn) for n in (1, 5, 9)])
    found = everything(settings, epochs, since)
    assert {one.position for one in found} == {
        after,
        Position(journal, other, START + 5),
        Position(journal, other, START + 9),
    }
    assert len(found) == 3


def test_a_start_whose_changes_are_gone_is_an_error(settings: Settings, epochs: Epochs, kafka: str) -> None:
    """The event is in the journal for ever, its change only as long as its topic keeps it."""
    [(since, append_time)] = emitted(settings, epochs)
    topic, urn = settings.journal.topics.changes("catalog"), "dataset:default/a"
    publish_changes(settings, [(since, number, append_time + number, urn) for number in range(5)])
    assert len(everything(settings, epochs, since)) == 0
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic, since.partition, 3)]).values():
        future.result()
    # As by age: the topic keeps changes for less time than has passed since the event.
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result()
    with pytest.raises(PositionExpired) as caught:
        everything(settings, epochs, since)
    assert topic in caught.value.message


def test_a_start_that_is_no_event_of_the_journal_is_refused(settings: Settings, epochs: Epochs, journal: str) -> None:
    for wrong in (
        Position("other.journal.catalog", 0, START),
        Position(journal, 4, START),
        Position(journal, 0, START),
    ):
        with pytest.raises(InputError, match=r"is not a position of|no event at"):
            read_changes(settings, epochs, since=wrong)
    with pytest.raises(InputError, match="no domain 'tables' with changes") as unserved:
        read_changes(settings, epochs, "tables")
    named = unserved.value.hint.removeprefix("Served: ").removesuffix(".").split(", ")
    assert len(named) == len(set(named)) > 1


def test_a_foreign_record_is_counted_and_passed_over(
    settings: Settings, epochs: Epochs, journal: str, kafka: str
) -> None:
    found = subscribed(settings, epochs, timeout_s=10, limit=1)
    producer, topic = Producer({"bootstrap.servers": kafka}), settings.journal.topics.changes("catalog")
    producer.produce(topic, b"{}", headers=[("ce_id", b"no identity")], partition=0)
    producer.flush()
    publish_changes(settings, [(Position(journal, 0, START), 0, 1_700_000_000_000, "dataset:default/a")])
    assert places(list(found)) == [(0, 0, 0, "USER")]
    assert found.passed_over == 1
