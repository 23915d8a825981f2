"""Verdicts are found from records in the outcomes topic, however late or early they are asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from metajournal.producers.kafka import consumer_config
from metajournal.producers.outcomes import OutcomeReader
from metajournal.producers.topics import ensure_topics
from metajournal.producers.verdicts import Accepted, OutcomeRecord, Rejected, Unchanged
from metajournal.producers.waiting.questions import KnownVerdicts
from metajournal.schemas.errors import InputError, KafkaUnavailableError, NotYetVisibleError, PositionExpired
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.producers.published import publish_outcome

START = 1 << 40


def record(start: int, end: int, *verdicts: list[object]) -> OutcomeRecord:
    return OutcomeRecord("t", 0, START + start, START + end, {int(str(one[0])): list(one) for one in verdicts}, 1)


def at(value: int) -> Position:
    return Position("t", 0, START + value)


def test_ranges_that_follow_or_repeat_each_other_are_held_as_one() -> None:
    held = KnownVerdicts()
    for one in (record(0, 10), record(10, 20, [START + 12, "unchanged"]), record(5, 15, [START + 12, "unchanged"])):
        held.add(one)
    assert held.find(at(0)) == Accepted(at(0))
    assert held.find(at(12)) == Unchanged(at(12))
    assert held.find(at(20)) is None


def test_a_gap_is_never_taken_for_accepted() -> None:
    held = KnownVerdicts()
    held.add(record(0, 10))
    held.add(record(15, 20))
    assert held.find(at(12)) is None
    assert held.find(at(15)) == Accepted(at(15))


def test_a_repeated_mark_holds_nothing() -> None:
    held = KnownVerdicts()
    held.add(record(0, 10))
    held.add(record(30, 30))
    assert held.find(at(29)) is None
    assert held.find(at(9)) == Accepted(at(9))
    assert held.mark == START + 30


def test_memory_is_bounded_and_what_is_forgotten_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metajournal.producers.waiting.questions._KEPT_VERDICTS", 100)
    held = KnownVerdicts()
    for start in range(0, 1000, 10):
        held.add(record(start, start + 10, *([START + number, "unchanged"] for number in range(start, start + 10))))
        assert len(held.verdicts) <= 100
    assert held.find(at(0)) is None
    assert held.find(at(999)) == Unchanged(at(999))


@pytest.fixture
def journal(settings: Settings) -> str:
    """Name of a journal topic whose outcomes topic is there."""
    ensure_topics(settings)
    return settings.journal.topics.journal("catalog")


@pytest.fixture
def reader(settings: Settings) -> Iterator[OutcomeReader]:
    reader = OutcomeReader(settings)
    yield reader
    reader.close()


def now() -> int:
    return int(time.time() * 1000)


def recently() -> int:
    """Append time of an event whose verdict a test has just published, on however slow a machine."""
    return now() - 60_000


def test_a_verdict_is_found_whenever_it_is_written(settings: Settings, journal: str, reader: OutcomeReader) -> None:
    first, later = Position(journal, 1, START), Position(journal, 1, START + 7)
    publish_outcome(settings, first, START + 5, now(), [[START + 1, "rejected", {"reason": "invalid", "detail": []}]])
    assert reader.outcome(first, recently(), 10) == Accepted(first)
    second = Position(journal, 1, START + 1)
    assert reader.outcome(second, recently(), 10) == Rejected(second, "invalid", [])
    found = []
    waiting = threading.Thread(target=lambda: found.append(reader.outcome(later, recently(), 20)))
    waiting.start()
    publish_outcome(settings, Position(journal, 1, START + 5), START + 9, now(), [[START + 7, "unchanged"]])
    waiting.join()
    assert found == [Unchanged(later)]


def test_a_receipt_of_long_ago_is_answered_too(settings: Settings, journal: str, reader: OutcomeReader) -> None:
    """The reader stands at the end already; the question rewinds its partition."""
    hour_ago = now() - 3_600_000
    old, new = Position(journal, 2, START), Position(journal, 2, START + 10)
    publish_outcome(settings, old, START + 10, hour_ago, [[START, "unchanged"]])
    publish_outcome(settings, new, START + 20, now())
    assert reader.outcome(new, recently(), 10) == Accepted(new)
    assert reader.outcome(old, hour_ago - 1, 10) == Unchanged(old)
    assert reader.outcome(new, recently(), 10) == Accepted(new)


def test_each_partition_is_read_by_itself(settings: Settings, journal: str, reader: OutcomeReader) -> None:
    since = recently()
    for partition in range(4):
        publish_outcome(settings, Position(journal, partition, START), START + 1, now(), [])
    for partition in range(4):
        position = Position(journal, partition, START)
        assert reader.outcome(position, since, 10) == Accepted(position)


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e300])
def test_one_may_wait_for_ever(settings: Settings, journal: str, reader: OutcomeReader, timeout_s: float) -> None:
    position = Position(journal, 3, START)
    publish_outcome(settings, position, START + 1, now())
    assert reader.outcome(position, recently(), timeout_s) == Accepted(position)


def test_a_stream_that_is_behind_is_told_with_how_far(settings: Settings, journal: str, reader: OutcomeReader) -> None:
    publish_outcome(settings, Position(journal, 0, START), START + 3, now())
    with pytest.raises(NotYetVisibleError, match="8 positions behind") as caught:
        reader.outcome(Position(journal, 0, START + 10), recently(), 2)
    assert caught.value.behind == 8


def test_what_passes_is_asked_again(settings: Settings, journal: str) -> None:
    """The outcomes partition changes its leader while it is asked for."""
    refusals = [KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._TRANSPORT]

    class Moving(Consumer):
        def get_watermark_offsets(self, *args: Any, **more: Any) -> Any:
            if refusals:
                raise KafkaException(KafkaError(refusals.pop()))
            return super().get_watermark_offsets(*args, **more)

    position = Position(journal, 1, START)
    publish_outcome(settings, position, START + 1, now())
    reader = OutcomeReader(settings, consumer=lambda settings, _: Moving(consumer_config(settings)))
    assert reader.outcome(position, recently(), 10) == Accepted(position)
    assert not refusals
    reader.close()


def test_no_stream_at_all_is_told_so(journal: str, reader: OutcomeReader) -> None:
    with pytest.raises(NotYetVisibleError, match="Is the stream running") as caught:
        reader.outcome(Position(journal, 0, START), now(), 0.5)
    assert "do not send it again" in caught.value.hint


@pytest.mark.parametrize("timeout_s", [float("nan"), -1, "5"])
def test_a_wrong_timeout_is_refused(journal: str, reader: OutcomeReader, timeout_s: Any) -> None:
    with pytest.raises(InputError, match="timeout_s must be a number"):
        reader.outcome(Position(journal, 0, START), now(), timeout_s)


def test_a_closed_reader_says_so_at_once(journal: str, reader: OutcomeReader) -> None:
    reader.close()
    with pytest.raises(InputError, match="The journal is closed"):
        reader.outcome(Position(journal, 0, START), now(), 60)


def test_a_verdict_that_is_no_longer_in_the_topic_is_an_error(
    settings: Settings, journal: str, reader: OutcomeReader
) -> None:
    publish_outcome(settings, Position(journal, 0, START + 50), START + 60, now())
    with pytest.raises(PositionExpired):
        reader.outcome(Position(journal, 0, START + 10), recently(), 10)


def test_a_topic_that_cannot_be_read_is_told_and_the_next_question_tries_anew(
    settings: Settings, reader: OutcomeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topics are made only after the first question."""
    monkeypatch.setattr("metajournal.producers.outcomes._SEEK_TIMEOUT_S", 1.0)
    position = Position(settings.journal.topics.journal("catalog"), 0, START)
    with pytest.raises(KafkaUnavailableError, match="Verdicts cannot be read"):
        reader.outcome(position, now(), 30)
    ensure_topics(settings)
    publish_outcome(settings, position, START + 1, now())
    assert reader.outcome(position, recently(), 10) == Accepted(position)
