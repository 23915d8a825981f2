"""The ends that outcomes tell lie behind all that was published before, whichever way a batch was folded."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, ensure_topics, wanted_topics
from metajournal.schemas.settings import Settings
from metajournal.streaming.engine import Engine
from metajournal.streaming.publish import BulkPublisher, Publisher, watermarks
from tests.builders import record_of
from tests.streaming.harness import LocalTasks, ends_of, placed, table_of
from tests.topics import outcomes

pytestmark = pytest.mark.services
REGISTERED, REJECTED = 40, 20


@pytest.fixture
def epochs(settings: Settings) -> Epochs:
    return ensure_topics(settings)


@pytest.fixture
def targets(settings: Settings, epochs: Epochs) -> dict[str, int]:
    """Number of partitions of every topic."""
    return {one.topic: one.partitions for one in wanted_topics(settings, None, [one.name for one in epochs.outside])}


@pytest.fixture
def publisher(settings: Settings, targets: dict[str, int]) -> Iterator[Publisher]:
    """The driver's, of a stream that began when the topics were empty."""
    publisher = Publisher(settings, targets, {}, lambda: False, lambda said: None)
    yield publisher
    publisher.close()


@pytest.fixture
def bulk(settings: Settings, targets: dict[str, int]) -> Iterator[BulkPublisher]:
    """A task's."""
    publisher = BulkPublisher(settings, targets)
    yield publisher
    publisher.close()


def test_after_a_wide_batch_no_outcome_tells_an_end_from_before_it(
    settings: Settings, epochs: Epochs, targets: dict[str, int], publisher: Publisher, bulk: BulkPublisher
) -> None:
    """Neither that of a rejected event, which publishes nothing else, nor the repeated one of an idle partition."""
    names = settings.journal.topics
    topic = names.journal("catalog")
    lake = Lake(settings.lake.path)
    lake.include([one.name for one in epochs.outside])
    lake.create()
    engine = Engine(settings, epochs, lake, publisher)
    count, now = targets[topic], round(time.time() * 1000)
    events = [EntityRegistered(dataset("default", f"d{number}")) for number in range(REGISTERED)]
    refused = [TagsAdded(dataset("default", f"not-there-{number}"), ["t"]) for number in range(REJECTED)]
    records = placed(
        [record_of(event, number, append_time=now) for number, event in enumerate([*events, *refused])], count
    )
    wide, short = records[:REGISTERED], records[REGISTERED:]
    assert {record.partition for record in wide} == {record.partition for record in short} == set(range(count))

    engine.run_wide(LocalTasks(table_of(wide, topic), bulk), ends_of(wide, count, topic))
    behind_wide = watermarks(
        settings, [(target, partition) for target in names.published("catalog") for partition in range(targets[target])]
    )
    assert all(behind_wide[names.state("catalog"), partition][1] > 0 for partition in range(count))
    before = len(outcomes(settings))
    report = engine.run(table_of(short, topic), ends_of(records, count, topic))
    assert report.verdicts == {"rejected": REJECTED}
    engine.repeat_outcomes(engine.places)

    told = outcomes(settings)
    assert len(told) == before + 2 * count
    later = [one for number in range(count) for one in [one for one in told if one["partition"] == number][-2:]]
    too_low = [
        (target, number, end)
        for one in later
        for target, ends in one["ends"].items()
        for number, end in ends.items()
        if end < behind_wide[target, int(number)][1]
    ]
    assert too_low == []
