"""Batches of large records: known as such before they are received, read by the tasks themselves, folded the same."""

from __future__ import annotations

import json
import logging
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import Message

from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.fold.records import SOURCE
from metajournal.lake.digest import table_digest
from metajournal.lake.storage.files import TableFiles
from metajournal.lake.tables import Lake
from metajournal.producers.kafka import ErrorLog, make_transactional
from metajournal.producers.topics import Epochs, TopicEpoch, ensure_topics
from metajournal.schemas.errors import LakeWriteError
from metajournal.schemas.positions import offset_of
from metajournal.schemas.settings import LakeSettings, Settings
from metajournal.streaming import folder
from metajournal.streaming.engine import Engine
from metajournal.streaming.plan import Plan
from metajournal.streaming.replay import UnreadRangeError
from metajournal.streaming.report import Report
from metajournal.streaming.sizes import EVENT_BYTES, LARGE_BYTES, Sizes, size_of
from metajournal.streaming.spark import wide
from metajournal.streaming.spark.wide import SparkTasks
from tests.builders import header_for, record_of
from tests.consumers.stream import source_row
from tests.model import JournalRecord
from tests.processes import running_stream
from tests.streaming.harness import TOPIC, Fold, LocalTasks, MemoryTopics, registered, table_of
from tests.streaming.spark_here import Frame, Session
from tests.topics import folded_to_the_end, read, write
from tests.wait import eventually

LARGE = "v" * 40_000
EVENTS = 600


def records_of_size(count: int, text: str) -> list[JournalRecord]:
    """Datasets that are registered, each with a property of a text."""
    entities = [dataset("default", f"large{number}") for number in range(count // 2)]
    events = [event for one in entities for event in (EntityRegistered(one), PropertiesSet(one, {"text": text}))]
    return [record_of(event, number, header=header_for(event, number + 1)) for number, event in enumerate(events)]


@pytest.fixture
def topic(settings: Settings) -> str:
    ensure_topics(settings)
    return settings.journal.topics.journal("catalog")


def counts_of(messages: list[Message], topic: str, partitions: int) -> dict[tuple[str, int], int]:
    counts = dict.fromkeys([(topic, number) for number in range(partitions)], 0)
    for message in messages:
        counts[topic, int(message.partition() or 0)] += 1
    return counts


@pytest.mark.services
@pytest.mark.parametrize(("text", "is_large"), [(LARGE, True), ("short", False)])
def test_a_first_batch_is_known_as_large_by_a_look_at_its_records(
    settings: Settings, topic: str, text: str, is_large: bool
) -> None:
    write(settings, records_of_size(EVENTS, text))
    messages = read(settings, topic)
    counts = counts_of(messages, topic, settings.journal.partitions)
    size = Sizes(settings).of(counts, dict.fromkeys(counts, 0))
    weight = sum(len(message.value() or b"") for message in messages) / EVENT_BYTES
    assert size.is_of_large is is_large
    assert weight / 2 < size.weight < weight * 2 if is_large else size.weight == EVENTS


def test_few_records_are_not_looked_at_and_where_no_broker_answers_nothing_is_known() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        sizes = Sizes(replace(Settings(), kafka={"bootstrap.servers": address}))
        for count in (99, 100):
            assert sizes.of({(TOPIC, 0): count}, {(TOPIC, 0): 0}) == (count, False)


def test_the_first_batch_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the stream begins, and the batch comes a second later."""
    looks = iter([2.0 * LARGE_BYTES])
    monkeypatch.setattr("metajournal.streaming.sizes._looked_at", lambda *_: next(looks))
    sizes = Sizes(Settings())
    weight = 100 * 2 * LARGE_BYTES / EVENT_BYTES
    assert [sizes.of({(TOPIC, 0): 100}, {(TOPIC, 0): 0}) for _ in range(2)] == [(weight, True)] * 2


def test_workers_that_cannot_be_started_early_end_nothing() -> None:
    tried = list[int]()

    def gone(count: int) -> None:
        tried.append(count)
        raise ConnectionRefusedError("Spark has stopped")

    wide.warm_up(cast(Any, SimpleNamespace(range=gone)))
    assert tried == [1]


def test_a_later_batch_is_known_by_the_one_before_it_and_large_properties_make_no_wide_one() -> None:
    sizes = Sizes(Settings())
    sizes.learn(Report(10, {}, 4_000, 10, None, 10 * LARGE_BYTES, {}))
    assert sizes.of({(TOPIC, 0): 1_000}, {}) == (400_000, True)
    sizes.learn(Report(10, {}, 10, 10, None, 10 * LARGE_BYTES, {}))
    assert sizes.of({(TOPIC, 0): 1_000}, {}) == (1_000, True)
    sizes.learn(Report(0, {}, 0, 0, None, 0, {}))
    assert sizes.of({(TOPIC, 0): 1_000}, {}) == (1_000, True), "an empty batch says nothing"
    sizes.learn(Report(10, {}, 10, 10, None, 9 * LARGE_BYTES, {}))
    assert not sizes.of({(TOPIC, 0): 1_000}, {}).is_of_large


def test_a_batch_that_is_here_is_known_as_it_is() -> None:
    small, large = (table_of(records_of_size(20, text)) for text in ("short", LARGE))
    assert (size_of(small).is_of_large, size_of(large).is_of_large) == (False, True)
    assert size_of(large).weight == large.nbytes / EVENT_BYTES
    assert not size_of(large.schema.empty_table()).weight


@pytest.mark.services
@pytest.mark.long
def test_what_the_tasks_read_is_what_one_process_makes_of_all_records(
    settings: Settings, topic: str, tmp_path: Path
) -> None:
    """Records of an aborted transaction, bytes that are no event, and one without any among them."""
    records = records_of_size(EVENTS, LARGE)
    odd = [JournalRecord(0, 0, 0, key, value, None) for key, value in ((b"k", None), (None, b"no event"))]
    write(settings, records[: EVENTS // 2] + odd)
    aborted = make_transactional(settings, ErrorLog(), "large-records")
    aborted.init_transactions(30)
    aborted.begin_transaction()
    for one in records[:40]:
        aborted.produce(topic, one.value, one.key)
    aborted.flush(30)
    aborted.abort_transaction(30)
    write(settings, records[EVENTS // 2 :])
    metrics = tmp_path / "metrics.jsonl"
    asked = replace(settings, stream=replace(settings.stream, metrics_file=str(metrics)))
    with running_stream(asked, tmp_path / "stream.log") as stream:
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({stream.log})")
    (batch,) = [line for line in map(json.loads, metrics.read_text().splitlines()) if line["events"]]
    assert batch["events"] == EVENTS + len(odd)
    assert "task read" in batch["ms"]
    assert "task wait" not in batch["ms"], "Spark's source gave the records"
    made = Lake(settings.lake.path)
    here = Lake(str(tmp_path / "here"))
    here.include(())
    here.create()
    partitions = settings.journal.partitions
    epochs = Epochs({topic: TopicEpoch(topic, 1, "id", partitions)}, frozenset())
    marks = {(topic, number): made.journal.mark((topic, number)) for number in range(partitions)}
    own = replace(settings, lake=LakeSettings(path=here.path))
    engine = Engine(own, epochs, here, MemoryTopics())  # type: ignore[arg-type]
    given = pa.Table.from_pylist([*map(source_row, read(settings, topic))], schema=SOURCE)
    engine.run(given, {key: offset_of(mark) for key, mark in marks.items()})
    for name in ("journal", "entities"):
        tables = [{"journal": lake.journal, **lake.tables}[name] for lake in (made, here)]
        assert len({table_digest(table.delta, marks) for table in tables}) == 1, name
    assert here.journal.delta.count() == EVENTS + len(odd)


def test_sparks_source_reads_what_a_task_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fold, session = Fold(tmp_path, 1), Session()

    def refused(*_: Any) -> None:
        raise UnreadRangeError("The topic has damaged records.", code="journal-records-damaged")

    monkeypatch.setattr(wide, "refold", refused)
    frame = Frame(table_of(registered(3)).combine_chunks().to_batches(), session)
    tasks = SparkTasks(cast(Any, frame), fold.settings, read_themselves=True)
    local = LocalTasks(table_of([]), fold.topics)
    with caplog.at_level(logging.WARNING, "metajournal.stream"):
        fold.engine.run_wide(cast(Any, SimpleNamespace(fold=tasks.fold, publish=local.publish)), {(TOPIC, 0): 3})
    assert session.tasks == [1], "it was tried"
    assert len(fold.journal()) == 3
    assert "damaged records. Spark's Kafka source reads that batch." in caplog.text


def test_no_more_tasks_read_at_once_than_one_machine_has_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold, session, told = Fold(tmp_path, 5), Session(), list[tuple[str, int]]()
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(wide, "refold", lambda plan, key: told.append(key))
    ends = {(TOPIC, number): count for number, count in enumerate((1, 9, 0, 3, 4))}
    plan: Plan = fold.engine._plan(ends, cast(Any, None))
    tasks = SparkTasks(cast(Any, Frame([], session)), fold.settings, read_themselves=True)
    tasks.fold(plan)
    assert session.tasks == [2]
    assert [number for _, number in told] == [1, 3, 4, 0], "each takes large and small ones"
    elsewhere = Session("spark://somewhere:7077")
    SparkTasks(cast(Any, Frame([], elsewhere)), fold.settings, read_themselves=True).fold(plan)
    assert elsewhere.tasks == [4]


def test_what_cannot_be_written_ends_the_task_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are written by a thread, behind what is folded."""
    fold, written = Fold(tmp_path, 1), list[str]()
    whole = TableFiles.write

    def full(files: TableFiles, rows: pa.Table) -> None:
        written.append(files._name)
        if len(written) == 5:
            raise OSError(28, "No space left on device")
        whole(files, rows)

    monkeypatch.setattr(TableFiles, "write", full)
    monkeypatch.setattr(folder, "_WAITING", 1)
    records = registered(9)
    tasks = LocalTasks(table_of(records), fold.topics, rows=1)
    monkeypatch.setattr("metajournal.streaming.tasks._SLICE_ROWS", 1)
    with pytest.raises(LakeWriteError, match="disk"):
        fold.engine.run_wide(tasks, {(TOPIC, 0): 9})
    assert (fold.journal(), fold.topics.records, [*tmp_path.rglob("part-*.parquet")]) == ([], {}, [])
    monkeypatch.undo()
    fold.batch(records, wide=True)
    assert len(fold.journal()) == 9
