"""What the indexer takes at once: a stream's batch as soon as its outcome is there, of a backlog a whole request."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.indexer.fill.bulk import BulkWriter
from metajournal.indexer.fill.intake import Intake
from metajournal.indexer.fill.patience import Patience
from metajournal.indexer.fill.progress import Progress
from metajournal.rules.documents import state_document
from metajournal.rules.entity import EntityRow
from metajournal.schemas.errors import KafkaUnavailableError
from metajournal.schemas.hashing import canonical_json
from metajournal.schemas.settings import Settings
from tests.untrusted import any_bytes, damaged_json

NAMES = Settings().journal.topics
STATE, OUTCOMES, JOURNAL = NAMES.state("catalog"), NAMES.outcomes("catalog"), NAMES.journal("catalog")


class Record:
    """A message of one partition."""

    def __init__(self, topic: str, offset: int, value: dict[str, Any], key: str) -> None:
        self.topic_name, self.place, self.text, self.name = topic, offset, canonical_json(value), key.encode()

    def key(self) -> bytes:
        return self.name

    def topic(self) -> str:
        return self.topic_name

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.place

    def value(self) -> bytes:
        return self.text

    def error(self) -> None:
        return None


class AtHand:
    """A consumer that has these records, and waits in vain for others."""

    def __init__(self, records: list[Record]) -> None:
        self.records = deque(records)
        self.waited_s = 0.0

    def poll(self, timeout_s: float) -> Record | None:
        if self.records:
            return self.records.popleft()
        self.waited_s += timeout_s
        return None

    def consume(self, count: int, timeout_s: float) -> list[Record]:
        return [self.records.popleft() for _ in range(min(count, len(self.records)))]


def row(place: int, entity: int) -> EntityRow:
    name = f"table_{entity}"
    urn = f"dataset:default/{name}"
    identity = f"01900000-0000-7000-8000-{place:012x}"
    return EntityRow(
        "default", urn, "dataset", "default", name, urn, place, 0, 1, 1, identity, None, False, None, {}, (), {}, ()
    )


def batches(count: int, states: int, entities: int) -> list[Record]:
    """Batches of a stream: each some states, then its outcome."""
    records, offset = [], 0
    for number in range(count):
        for _ in range(states):
            document = state_document(row(offset, offset % entities), 0)
            records.append(Record(STATE, offset, document, f"default/{document['urn']}"))
            offset += 1
        ends = {STATE: {"0": offset}}
        outcome = {"topic": JOURNAL, "partition": 0, "from": 0, "to": offset, "verdicts": [], "ends": ends}
        records.append(Record(OUTCOMES, number, {**outcome, "system_time": 1}, f"{JOURNAL}/0"))
    return records


@pytest.fixture
def intake() -> Intake:
    reader = Intake(Settings(), Patience(threading.Event(), lambda _: None), 100)
    reader.close()
    reader._ends = cast(Any, Boundless())
    return reader


class Boundless:
    """Ends that no claim is beyond."""

    def holds(self, *claim: object) -> bool:
        return True

    reaches = holds


def reading(intake: Intake, records: list[Record]) -> AtHand:
    intake._consumer = cast(Any, at_hand := AtHand(records))
    return at_hand


def test_a_batch_is_taken_with_its_outcome_and_nothing_is_waited_for_behind_it(intake: Intake) -> None:
    consumer = reading(intake, batches(1, 3, 3))
    taken = intake.take(5.0, 60.0)
    assert (len(taken.states), len(taken.outcomes), taken.full) == (3, 1, False)
    assert consumer.waited_s == 0.0
    assert taken.reached == {(STATE, 0): 3, (OUTCOMES, 0): 1}


def test_states_without_their_outcome_are_waited_for(intake: Intake) -> None:
    consumer = reading(intake, batches(1, 3, 3)[:2])
    taken = intake.take(5.0, 60.0)
    assert (len(taken.states), taken.outcomes, taken.full) == (2, [], False)
    assert consumer.waited_s == pytest.approx(60.0, abs=10)


@pytest.mark.parametrize("most", [10, 50])
def test_small_batches_that_are_at_hand_are_taken_together_until_a_request_is_full(intake: Intake, most: int) -> None:
    consumer = reading(intake, batches(40, 3, 1_000))
    sizes = []
    while consumer.records:
        taken = intake.take(5.0, 0.0, most)
        sizes.append(len(taken.states))
        assert taken.full or not consumer.records
    assert all(size >= most for size in sizes[:-1])
    assert sum(sizes) == 120


def test_many_records_of_few_entities_end_it_too(intake: Intake) -> None:
    consumer = reading(intake, batches(100, 3, 2))
    taken = intake.take(5.0, 0.0, 10)
    assert taken.full
    assert len(taken.states) == 2
    assert 40 <= 400 - len(consumer.records) < 60


class Raw(Record):
    """A message of any bytes."""

    def __init__(self, topic: str, value: bytes | None, key: bytes | None) -> None:
        self.topic_name, self.place = topic, 0
        self.text, self.name = cast(Any, value), cast(Any, key)


_STATE = state_document(row(5, 1), 0)
_TRUE_OUTCOME = {"topic": JOURNAL, "partition": 0, "to": 9, "ends": {STATE: {"0": 3}}, "system_time": 1}
_ENTITY = f"default/{_STATE['urn']}".encode()


@given(
    st.sampled_from([STATE, OUTCOMES]),
    st.none() | any_bytes | damaged_json({**_STATE, "record": {"url": "u", "metadata": {}}}, _TRUE_OUTCOME),
    st.sampled_from([None, b"", b"\xff", _ENTITY, f"{JOURNAL}/0".encode()]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_are_taken_or_counted_and_what_is_taken_makes_a_document_or_is_counted(
    intake: Intake, topic: str, value: bytes | None, key: bytes | None
) -> None:
    before = intake.passed_over.total
    reading(intake, [Raw(topic, value, key)])
    taken = intake.take(0.0, 0.0)
    assert len(taken.states) + len(taken.outcomes) + intake.passed_over.total - before == 1
    assert taken.reached == {(topic, 0): 1}
    writer = BulkWriter(cast(Any, None), "index", cast(Any, None), 10, 10**7)
    items = [item for chunk in writer.chunks(taken.states.values()) for item in chunk]
    assert len(items) + writer.counts.refused == len(taken.states)
    progress = Progress({}, {}, frozenset({STATE}))
    for outcome in taken.outcomes:
        progress.heard(outcome)
        progress.settle()
        (progress.oldest_waiting_ms() or 0) / 1000


def test_a_claim_beyond_an_end_is_counted_and_takes_nothing(intake: Intake) -> None:
    records = batches(1, 2, 2)
    reading(intake, records[:])
    intake._ends = cast(Any, Bounded(1))
    taken = intake.take(5.0, 0.0)
    assert [document["logical_timestamp"] for document in taken.states.values()] == [0]
    assert taken.outcomes == []
    assert intake.passed_over.forged == 2
    assert taken.reached == {(STATE, 0): 2, (OUTCOMES, 0): 1}


class Bounded:
    """Ends at the same position in every partition."""

    def __init__(self, end: int) -> None:
        self.end = end

    def holds(self, source: object, position: int, arrived_s: float) -> bool:
        return position < self.end

    def reaches(self, place: object, offset: int, arrived_s: float) -> bool:
        return offset <= self.end


def test_a_kafka_that_does_not_say_where_the_journal_ends_is_waited_for(intake: Intake) -> None:
    answers: list[Any] = [KafkaUnavailableError("away"), KafkaUnavailableError("away"), True, True, True]

    class Away:
        def holds(self, *claim: object) -> bool:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return bool(answer)

        reaches = holds

    messages: list[str] = []
    intake._patience = Patience(threading.Event(), messages.append)
    reading(intake, batches(1, 1, 1))
    intake._ends = cast(Any, Away())
    assert len(intake.take(5.0, 0.0).states) == 1
    assert messages == ["away", "away", ""]
    intake._ends = cast(Any, Refusing())
    reading(intake, batches(1, 1, 1))
    with pytest.raises(KafkaUnavailableError, match="may not"):
        intake.take(5.0, 0.0)


class Refusing:
    """Ends that this client may not ask for."""

    def holds(self, *claim: object) -> bool:
        raise KafkaUnavailableError("may not", code="not-allowed")
