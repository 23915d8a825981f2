"""Outcome records that the stream cannot have written: they end no reader, and a receipt hears nothing from them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from metajournal.producers.asked_ends import AskedEnds
from metajournal.producers.journal_ends import JournalEnds
from metajournal.producers.outcomes import OutcomeReader
from metajournal.producers.topics import ensure_topics
from metajournal.producers.verdicts import Accepted, OutcomeRecord, Unchanged
from metajournal.schemas.errors import NotYetVisibleError, TopicMismatchError
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.schemas.untrusted import UNREADABLE
from tests.journals import Filled
from tests.new_topics import remake_topics
from tests.producers.published import publish_outcome
from tests.untrusted import any_bytes, damaged_json

START = 1 << 40
_VERDICTS = [[2, "unchanged"], [3, "rejected", {"reason": "invalid", "detail": []}], [4, "duplicate", {"of": 1}]]
_OUTCOME = {"topic": "j", "partition": 0, "from": 1, "to": 9, "verdicts": _VERDICTS, "ends": {}, "system_time": 5}


@given(any_bytes)
def test_bytes_are_no_outcome(value: bytes) -> None:
    with pytest.raises(UNREADABLE):
        OutcomeRecord.parse(value)


@given(st.one_of(damaged_json(_OUTCOME), *(damaged_json({**_OUTCOME, "verdicts": [one]}) for one in _VERDICTS)))
def test_a_damaged_outcome_is_refused_or_gives_a_verdict_of_every_position_in_its_range(value: bytes) -> None:
    from metajournal.producers.verdicts import outcome_of

    try:
        found = OutcomeRecord.parse(value)
    except UNREADABLE:
        return
    assert 0 <= found.start <= found.end < 1 << 63
    for position, verdict in found.verdicts.items():
        assert found.start <= position < found.end
        assert outcome_of(Position(found.topic, found.partition, position), verdict).position.value == position


@pytest.fixture
def journal(settings: Settings) -> str:
    ensure_topics(settings)
    return settings.journal.topics.journal("catalog")


@pytest.fixture
def reader(settings: Settings) -> Iterator[OutcomeReader]:
    reader = OutcomeReader(settings)
    yield reader
    reader.close()


def forge(settings: Settings, journal: str) -> int:
    """Outcome records of partition 0, all of them lies; their number."""
    true = {"topic": journal, "partition": 0, "from": START, "to": START + 9, "verdicts": [], "ends": {}}
    true |= {"system_time": 1, "written": 1}
    lies: list[dict[str, Any]] = [
        {"to": START + 10**6},
        {"to": (1 << 63) - 1},
        {"from": 3 * START, "to": 3 * START + 1},
        {"to": 1 << 70},
        {"from": START + 8, "to": START},
        {"verdicts": [[START, "unheard-of"]]},
        {"verdicts": [[START, "rejected"]]},
        {"verdicts": [[START + 900, "unchanged"]]},
        {"verdicts": 3},
        {"partition": 1},
        {"topic": "other"},
        {"system_time": 1e400},
    ]
    values = [json.dumps({**true, **lie}).encode() for lie in lies] + [b"[" * 100_000, b"\xff", b"", b"3"]
    producer = Producer({**settings.kafka, "message.max.bytes": 4 << 20})
    for value in values:
        producer.produce(settings.journal.topics.outcomes("catalog"), value, f"{journal}/0", 0)
    assert producer.flush(10) == 0
    return len(values)


@pytest.mark.services
def test_forged_outcomes_are_counted_and_the_true_one_behind_them_is_heard(
    settings: Settings, journal: str, reader: OutcomeReader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "metajournal.outcomes")
    position, before = Position(journal, 0, START + 4), round(time.time() * 1000) - 60_000
    Filled(settings).up_to(journal, 0, START + 9)
    count = forge(settings, journal)
    with pytest.raises(NotYetVisibleError):
        reader.outcome(position, before, 2)
    now = round(time.time() * 1000)
    publish_outcome(settings, Position(journal, 0, START), START + 9, now, [[START + 4, "unchanged"]])
    assert reader.outcome(position, before, 30) == Unchanged(position)
    assert reader.passed_over.total == count
    assert reader.passed_over.forged == 3
    assert sum("contradicts the journal" in one.getMessage() for one in caplog.records) == 1
    later = Position(journal, 0, START + 9)
    publish_outcome(settings, later, START + 20, now)
    assert reader.outcome(later, before, 30) == Accepted(later)


@pytest.mark.services
def test_ends_are_asked_again_only_for_a_claim_beyond_them(settings: Settings, journal: str) -> None:
    ends, filled = JournalEnds(settings), Filled(settings)
    filled.up_to(journal, 1, START + 5)
    now = time.monotonic()
    assert ends.holds((journal, 1), START + 4, now)
    assert not ends.holds((journal, 1), START + 5, now)
    assert not ends.holds((journal, 1), 2 * START, now)
    assert not ends.holds((journal, 9), START, now)
    assert not ends.holds(("other", 0), START, now)
    filled.up_to(journal, 1, START + 6)
    assert not ends.holds((journal, 1), START + 5, now)  # had arrived before the end was asked
    assert ends.holds((journal, 1), START + 5, time.monotonic())
    ends.close()


@pytest.mark.services
def test_no_end_is_reached_in_a_partition_that_a_topic_lacks(
    settings: Settings, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And Kafka is asked for the number of partitions again only for a later record that names one too many."""
    asked: list[str] = []
    partitions = AskedEnds.partitions

    def counted(ends: AskedEnds, topic: str, **options: Any) -> int:
        asked.append(topic)
        return partitions(ends, topic, **options)

    monkeypatch.setattr(AskedEnds, "partitions", counted)
    ends, state, now = JournalEnds(settings), settings.journal.topics.state("catalog"), time.monotonic()
    count = settings.journal.partitions
    producer = Producer(dict(settings.kafka))
    producer.produce(state, b"{}", b"key", count - 1)
    assert producer.flush(10) == 0
    assert ends.reaches((state, count - 1), 1, now)
    assert not ends.reaches((state, count - 1), 2, now)
    for number in (count, 99, 1 << 32):
        assert not ends.reaches((state, number), 1, now)
    assert asked == [state]
    assert not ends.reaches((state, count), 0, time.monotonic())
    assert asked == [state, state]
    ends.close()


@pytest.mark.services
def test_a_record_of_a_journal_that_is_another_one_is_not_called_forged(settings: Settings, journal: str) -> None:
    """Made anew, the topic ends below what the recorded one held: nobody may judge by it."""
    from confluent_kafka.admin import AdminClient, NewTopic

    ends = JournalEnds(settings)
    config = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(4 << 20)}
    remake_topics(AdminClient(dict(settings.kafka)), [NewTopic(journal, 4, config=config)])
    with pytest.raises(TopicMismatchError, match="was recreated"):
        ends.holds((journal, 0), START + 3, time.monotonic())
    ends.close()


@pytest.mark.services
def test_positions_before_a_restored_journals_epoch_are_no_claims(settings: Settings, journal: str) -> None:
    """A restored journal has another epoch: its positions are above all that stood in the one before."""
    from metajournal.producers.compacted import write_all
    from metajournal.producers.topics import read_epochs

    recorded = read_epochs(settings)[journal]
    ends = JournalEnds(settings)
    now = time.monotonic()
    assert not ends.holds((journal, 0), START + 3, now)
    value = {"topic": journal, "epoch": 2, "topic_id": recorded.topic_id, "partitions": recorded.partitions}
    write_all(settings, settings.journal.topics.epochs, {journal: json.dumps(value).encode()})
    Filled(settings).up_to(journal, 0, 2 * START + 1)
    now = time.monotonic()
    assert ends.holds((journal, 0), 2 * START, now)  # the epoch was looked up again
    assert ends.holds((journal, 0), START + 3, now)
    assert not ends.holds((journal, 0), 2 * START + 1, time.monotonic())
    ends.close()
