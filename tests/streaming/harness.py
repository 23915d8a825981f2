"""The engine without Kafka and Spark: real rules, real Delta tables, and topics that only remember.

`Fold` cuts a journal into batches as it is told, loses the process between any two steps, and shows tables and topics
as readers see them, so that they can be held against the model.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from metajournal.domains.catalog.events import EntityRegistered
from metajournal.domains.catalog.urns import dataset
from metajournal.fold.documents import Outgoing
from metajournal.fold.records import SOURCE
from metajournal.lake.declared import made_row
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.hashing import DIGEST_HEADER, partition_of
from metajournal.schemas.positions import offset_of, position
from metajournal.schemas.settings import LakeSettings, Settings, StreamSettings
from metajournal.streaming.crash import CrashPoints
from metajournal.streaming.engine import Engine
from metajournal.streaming.outcomes import Ends
from metajournal.streaming.parts import Publishing, publish_part
from metajournal.streaming.plan import Part, Plan, Published
from metajournal.streaming.tasks import fold_batch
from tests.builders import record_of
from tests.model import JournalRecord

TOPIC = "metajournal.journal.catalog"


class Crash(Exception):  # noqa: N818  (what it stands for)
    """The process ends here."""


class EndsAt(CrashPoints):
    """Ends the process at a point, as its engine is told: `fold.engine._crash = EndsAt("after-outcomes")`."""

    def __init__(self, point: str) -> None:
        super().__init__(None)
        self._end = point

    def pass_point(self, point: str) -> None:
        if point == self._end:
            raise Crash


class MemoryTopics:
    """Topics that take every record at once; `fail` is called with each record's topic and may raise."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], list[Outgoing]] = {}
        self.fail: Callable[[str], None] = lambda topic: None
        self.count = 2
        self.partitions: dict[str, int] = {}

    def publish(self, records: Iterable[Outgoing], between: Callable[[], None] = lambda: None) -> int:
        count = 0
        for one in records:
            self.fail(one.topic)
            self.records.setdefault((one.topic, one.journal_partition % self.count), []).append(one)
            count += 1
        between()
        return count

    def ends(self, topic: str, journal_partition: int) -> tuple[int, int]:
        partition = journal_partition % self.count
        return partition, len(self.records.get((topic, partition), []))

    def learn(self, ends: Ends) -> None:
        """Nothing: what it counts was published by both ways (a real publisher: test_told_ends.py)."""

    def close(self) -> None:
        pass

    def seen(self, topic: str) -> list[tuple[int, int, int, str, int, Any]]:
        """What a subscriber sees: (partition, position, seq, key, time, document), repeats dropped, in order."""
        seen: list[tuple[int, int, int, str, int, Any]] = []
        for (name, _), records in sorted(self.records.items()):
            reached: dict[int, tuple[int, int]] = {}
            for one in records if name == topic else []:
                place, seq = identity(one)
                if (place, seq) > reached.get(one.journal_partition, (0, -1)):
                    reached[one.journal_partition] = (place, seq)
                    key = (one.key or b"").decode()
                    seen.append((one.journal_partition, place, seq, key, one.time_ms, json.loads(one.value or b"null")))
        return sorted(seen, key=lambda one: one[:3])


def identity(record: Outgoing) -> tuple[int, int]:
    """Position and sequence of a change or state record, from its `ce_id`."""
    _, _, place, seq = dict(record.headers)["ce_id"].decode().split("/")
    return int(place), int(seq)


def placed(records: Sequence[JournalRecord], partitions: int) -> list[JournalRecord]:
    """The same records, each in its key's partition, with offsets from 0 and a gap after every third."""
    offsets = [0] * partitions
    result = []
    for one in records:
        partition = partition_of(one.key or b"", partitions)
        result.append(one._replace(partition=partition, position=position(1, offsets[partition])))
        offsets[partition] += 2 if offsets[partition] % 3 == 2 else 1
    return result


def ends_of(records: Iterable[JournalRecord], partitions: int, topic: str = TOPIC) -> dict[tuple[str, int], int]:
    """Planned end offsets just behind these records."""
    ends = {(topic, partition): 0 for partition in range(partitions)}
    for one in records:
        key = (topic, one.partition)
        ends[key] = max(ends[key], offset_of(one.position) + 1)
    return ends


def table_of(records: Iterable[JournalRecord], topic: str = TOPIC) -> pa.Table:
    """Records as Spark's Kafka source gives them."""
    rows = [
        {
            "topic": topic,
            "partition": one.partition,
            "offset": offset_of(one.position),
            "timestamp": one.append_time * 1000,
            "key": one.key,
            "value": one.value,
            "headers": [] if one.digest is None else [{"key": DIGEST_HEADER, "value": one.digest}],
        }
        for one in records
    ]
    return pa.Table.from_pylist(rows, schema=SOURCE)


def registered(count: int) -> list[JournalRecord]:
    """Events of the catalog, in one partition."""
    return [record_of(EntityRegistered(dataset("default", f"d{number}")), number) for number in range(count)]


class LocalTasks:
    """The wide way's tasks, one after the other in this process; what goes to a task and back is pickled as for Spark.

    Args:
        table: the batch.
        topics: what is published to.
        rows: records in one Arrow batch.
    """

    def __init__(self, table: pa.Table, topics: Publishing, rows: int = 3) -> None:
        self._table = table
        self._topics = topics
        self._rows = rows

    def fold(self, plan: Plan) -> list[Part]:
        parts: list[Part] = []
        for number in sorted(set(self._table["partition"].to_pylist()), reverse=True):
            own = self._table.filter(pc.equal(self._table["partition"], number)).sort_by("offset")
            batches = own.to_batches(max_chunksize=self._rows)
            parts += pickle.loads(pickle.dumps(fold_batch(pickle.loads(pickle.dumps(plan)), batches)))
        return parts

    def publish(self, plan: Plan, parts: Sequence[Part]) -> list[Published]:
        return [publish_part(plan, part, self._topics, 0) for part in reversed(parts)]


@dataclass
class Fold:
    """One lake and its topics, over as many processes as a test makes of them."""

    path: Path
    partitions: int
    shelved: frozenset[tuple[str, int, int]] = frozenset()
    cache_rows: int = 100
    topic: str = TOPIC
    joined: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.topics = MemoryTopics()
        self.settings = Settings(
            lake=LakeSettings(path=str(self.path)), stream=replace(StreamSettings(), cache_rows=self.cache_rows)
        )
        self.start()

    def start(self) -> None:
        """A new process: nothing is remembered but the lake and the topics."""
        epochs = Epochs({self.topic: TopicEpoch(self.topic, 1, "id", self.partitions)}, self.shelved)
        lake = Lake(str(self.path))
        lake.include(self.joined)
        lake.create()
        self.lake = lake
        self.engine = Engine(self.settings, epochs, lake, self.topics)  # type: ignore[arg-type]

    def batch(
        self, records: Sequence[JournalRecord], *, until: Sequence[JournalRecord] | None = None, wide: bool = False
    ) -> None:
        """Fold the records that stand at or above the marks and below the end of `until` (default: `records`)."""
        ends = ends_of(records if until is None else until, self.partitions, self.topic)
        ends = {key: max(end, offset_of(self.engine.marks[key])) for key, end in ends.items()}
        taken = [
            one
            for one in records
            if self.engine.marks[(self.topic, one.partition)]
            <= one.position
            < position(1, ends[(self.topic, one.partition)])
        ]
        if wide:
            self.engine.run_wide(LocalTasks(table_of(taken, self.topic), self.topics), ends)
        else:
            self.engine.run(table_of(taken, self.topic), ends)

    def rows(self, table: str = "entities") -> list[Any]:
        """A history table, in (partition, position, seq) order."""
        lake = Lake(str(self.path))
        found = lake.tables[table].query("*", "true order by journal_partition, logical_timestamp, seq")
        return [made_row(table)(one) for one in found]

    def journal(self) -> list[dict[str, Any]]:
        """The journal table, in position order per partition."""
        return Lake(str(self.path)).journal.query("*", "true order by journal_partition, logical_timestamp")

    def verdicts(self) -> dict[tuple[int, int], tuple[str, Any]]:
        """Outcome and reason by (partition, position), as the outcome records tell them; accepted ones left out."""
        told: dict[tuple[int, int], tuple[str, Any]] = {}
        for (topic, _), records in self.topics.records.items():
            for one in records if topic == self.topic.replace(".journal.", ".outcomes.") else []:
                said = json.loads(one.value or b"null")
                for place, outcome, *data in said["verdicts"]:
                    assert said["from"] <= place < said["to"]
                    told[(said["partition"], place)] = (outcome, data[0] if data else None)
        return told
