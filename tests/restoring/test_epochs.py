"""A topic into which earlier epochs were restored: what its offsets mean, and that its fold is that of the lost one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.fold.records import SOURCE
from metajournal.lake.tables import Lake
from metajournal.producers.recorded.restored import GAP_HEADER, Earlier, restored_field, restored_of
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.errors import TopicMismatchError
from metajournal.schemas.positions import epoch_of, offset_of, position
from metajournal.streaming.engine import Engine
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.strategies import plain_journals
from tests.streaming.harness import TOPIC, Fold, ends_of, table_of
from tests.streaming.test_engine import PARTITIONS, assert_equal


@st.composite
def restored_topics(draw: st.DrawFn) -> TopicEpoch:
    """A topic of two partitions with up to three earlier epochs."""
    epochs = draw(st.lists(st.integers(1, 9), max_size=3, unique=True).map(sorted))
    ends: list[list[int]] = [[0, 0]]
    for _ in epochs:
        ends.append([end + draw(st.integers(0, 5)) for end in ends[-1]])
    earlier = tuple((epoch, tuple(end)) for epoch, end in zip(epochs, ends[1:], strict=True))
    return TopicEpoch("t", draw(st.integers(10, 12)), "id", 2, None, earlier)


@given(restored_topics(), st.integers(0, 1))
def test_positions_grow_with_offsets_through_all_epochs(topic: TopicEpoch, partition: int) -> None:
    behind = topic.earlier[-1][1][partition] if topic.earlier else 0
    places = [topic.position(partition, offset) for offset in range(behind + 3)]
    assert all(first < second for first, second in pairwise(places))
    assert [offset_of(place) for place in places] == list(range(behind + 3))
    assert places[behind] == topic.start(partition)
    assert topic.first(partition) == places[0]
    for offset, place in enumerate(places):
        assert topic.holds(partition, place)
        assert epoch_of(place) == topic.epoch or not topic.holds(partition, position(topic.epoch, offset))
        assert topic.reached(partition, place) == place, "a mark inside an epoch stays"
    with pytest.raises(TopicMismatchError, match="recorded is"):
        topic.reached(partition, position(topic.epoch + 1, 0))
    for epoch, ends in topic.earlier:
        mark = position(epoch, ends[partition])
        assert topic.reached(partition, mark) == places[ends[partition]], "one at its end is the next epoch's start"
        with pytest.raises(TopicMismatchError):
            topic.reached(partition, mark + 1)


@given(restored_topics())
def test_the_record_of_a_restored_topic_says_the_same_when_it_is_read(topic: TopicEpoch) -> None:
    record = {"partitions": 2, **restored_field(topic.earlier)}
    assert restored_of(record) == topic.earlier
    assert restored_of({"partitions": 2}) == ()
    if topic.earlier:
        with pytest.raises(ValueError, match="other partitions"):
            restored_of({**record, "partitions": 3})


@dataclass
class Restored(Fold):
    """Folds a topic into which epochs were restored."""

    earlier: Earlier = ()

    def start(self) -> None:
        epoch = TopicEpoch(self.topic, 5, "id", self.partitions, None, self.earlier)
        self.lake = Lake(str(self.path))
        self.lake.create()
        self.engine = Engine(self.settings, Epochs({self.topic: epoch}, self.shelved), self.lake, self.topics)  # type: ignore[arg-type]


def with_gaps(journal: list[JournalRecord], ends: dict[tuple[str, int], int]) -> pa.Table:
    """What a restored topic gives: the records, and one that fills each other offset."""
    there = {(record.partition, offset_of(record.position)) for record in journal}
    gaps = [
        {"topic": TOPIC, "partition": number, "offset": offset, "timestamp": 1_000, "key": None, "value": None,
         "headers": [{"key": GAP_HEADER, "value": b""}]}
        for (_, number), end in ends.items() for offset in range(end) if (number, offset) not in there
    ]  # fmt: skip
    return pa.concat_tables([table_of(journal), pa.Table.from_pylist(gaps, schema=SOURCE)])


@pytest.mark.thorough
@given(plain_journals(partitions=PARTITIONS), st.data())
@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_restored_topic_gives_the_tables_of_the_lost_one_wherever_batches_and_epochs_end(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    """The records keep their offsets; those of an earlier epoch have its positions, in the order of the epochs."""
    ends = ends_of(journal, PARTITIONS)
    first = tuple(data.draw(st.integers(0, ends[TOPIC, number])) for number in range(PARTITIONS))
    second = tuple(data.draw(st.integers(first[number], ends[TOPIC, number])) for number in range(PARTITIONS))
    topic = TopicEpoch(TOPIC, 5, "id", PARTITIONS, None, ((1, first), (3, second)))
    placed = [one._replace(position=topic.position(one.partition, offset_of(one.position))) for one in journal]
    fold = Restored(tmp_path_factory.mktemp("lake"), PARTITIONS, earlier=topic.earlier)
    table = with_gaps([one for one in journal if one.position < topic_end(topic, one)], dict_of(second))
    later = table_of([one for one in journal if one.position >= topic_end(topic, one)])
    whole = pa.concat_tables([table, later])
    for _ in range(data.draw(st.integers(0, 2))):
        until = {key: data.draw(st.integers(offset_of(mark), max(offset_of(mark), ends[key])))
                 for key, mark in fold.engine.marks.items()}  # fmt: skip
        fold.engine.run(within(whole, fold, until), until)
        fold.start()
    until = {key: max(end, offset_of(fold.engine.marks[key])) for key, end in ends.items()}
    fold.engine.run(within(whole, fold, until), until)
    assert not fold.engine.in_restored
    assert_equal(fold, Model.of(placed))
    assert {key: fold.lake.journal.mark(key) for key in ends} == {
        key: topic.position(key[1], end) if end else 0 for key, end in ends.items()
    }


def dict_of(ends: tuple[int, ...]) -> dict[tuple[str, int], int]:
    return {(TOPIC, number): end for number, end in enumerate(ends)}


def topic_end(topic: TopicEpoch, record: JournalRecord) -> int:
    """The position in the lost topic at which what was restored of it ends."""
    return position(1, topic.earlier[-1][1][record.partition])


def within(table: pa.Table, fold: Restored, until: dict[tuple[str, int], int]) -> pa.Table:
    """The records of a batch: from the marks to its planned ends."""
    rows = table.select(["topic", "partition", "offset"]).to_pylist()
    kept = [
        offset_of(fold.engine.marks[row["topic"], row["partition"]])
        <= row["offset"]
        < until[row["topic"], row["partition"]]
        for row in rows
    ]
    return table.filter(pa.array(kept, pa.bool_()))
