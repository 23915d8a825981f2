"""Figure 1: catching up with a backlog, against a bare copy of the same topic from Kafka to Delta by Spark.

The whole fold (tables, change, state and outcome topics) over the copy's events per second; both begin when their
query starts and end when the last event is committed, and the copy takes the best of three settings. What came out is
then held against the plain in-memory fold, record by record.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.workload import journal
from metajournal.lake.tables import Lake
from metajournal.producers.kafka import ErrorLog, make_producer
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import DIGEST_HEADER, digest, record_key
from metajournal.schemas.header import Header
from metajournal.schemas.positions import offset_of
from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, LakeSettings, Settings, StackSettings
from metajournal.stack.jars import ensure_parts, spark_jars
from metajournal.stack.kafka import start_kafka
from metajournal.streaming.publish import watermarks

EVENTS: Final = 1_000_000
ENTITIES: Final = 300_000
LEAST_RATIO: Final = 0.2
COPIES: Final = (("local[2]", 250_000), ("local[4]", 500_000), ("local[4]", 1_000_000))
_TOPIC: Final = "bench.journal.catalog"
_LONGEST_S: Final = 600

Say = Callable[[str], None]


def run(say: Say, *, events: int = EVENTS, entities: int = ENTITIES, check: bool = True) -> list[dict[str, Any]]:
    """Measure; gives the figure with the copy's events per second as its limit."""
    with (
        tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder,
        backlog(Path(folder), events, entities) as (
            settings,
            filled_s,
        ),
    ):
        say(f"{events:,} events of {entities:,} entities written in {filled_s:.0f} s")
        copies = [copied(settings, Path(folder) / f"copy-{number}", *how, events) for number, how in enumerate(COPIES)]
        for (master, most), rate in zip(COPIES, copies, strict=True):
            say(f"bare copy, {master}, {most:,} a batch: {rate:,.0f} events/s")
        took_s, batches = caught_up(settings, Path(folder))
        say(f"catch-up: {took_s:.1f} s, {events / took_s:,.0f} events/s")
        for batch in batches:
            say(
                f"  {batch['events']:,} events: "
                + ", ".join(f"{step} {ms / 1000:.1f} s" for step, ms in batch["ms"].items())
            )
        if check:
            say(compared(settings))
        name = f"catch-up of {events:,} events over {entities:,} entities"
        ratio = events / took_s / max(copies)
        return [
            {"name": name, "value": events / took_s, "limit": max(copies), "ratio": ratio, "unit": "events/s",
             "least": LEAST_RATIO}
        ]  # fmt: skip


@contextmanager
def backlog(folder: Path, events: int, entities: int) -> Iterator[tuple[Settings, float]]:
    """A broker whose journal topic holds the events, and settings with a lake that does not exist yet."""
    broker = start_kafka(ensure_parts(("kafka",)), folder / "kafka")
    try:
        settings = Settings(
            journal=JournalSettings(prefix="bench", actor="bench"),
            kafka={"bootstrap.servers": broker.endpoint},
            lake=LakeSettings(path=str(folder / "lake")),
            elasticsearch=ElasticsearchSettings(index="bench"),
            stack=StackSettings(home=str(folder / "home")),
        )
        ensure_topics(settings)
        started = time.monotonic()
        _fill(settings, events, entities)
        yield settings, time.monotonic() - started
    finally:
        broker.stop()


def _fill(settings: Settings, events: int, entities: int) -> None:
    producer = make_producer(settings, ErrorLog(), **{"linger.ms": 50})
    for number, (tenant, entity, event) in enumerate(journal(events, entities)):
        time_ms = 1_760_000_000_000 + number // 20
        identity = (time_ms << 80 | 7 << 76 | number).to_bytes(16, "big")
        header = Header(identity, tenant, event.TYPE, str(entity), (str(entity),), f"user-{number % 200}", time_ms)
        value = codec.encode(event, header)
        headers: Any = [(DIGEST_HEADER, digest(value))]
        while True:
            try:
                producer.produce(_TOPIC, value, record_key(tenant, str(entity)), headers=headers)
                break
            except BufferError:
                producer.poll(0.05)
        if not number % 5000:
            producer.poll(0)
    producer.flush()


def ends_of(settings: Settings) -> dict[tuple[str, int], int]:
    """End offset of every partition of the journal topic."""
    places = [(_TOPIC, partition) for partition in range(settings.journal.partitions)]
    return {place: high for place, (_, high) in watermarks(settings, places).items()}


def caught_up(settings: Settings, folder: Path) -> tuple[float, list[dict[str, Any]]]:
    """Run the stream until its lake holds the whole topic; gives seconds, and what each batch took."""
    metrics = folder / "metrics.jsonl"
    settings = replace(settings, stream=replace(settings.stream, metrics_file=str(metrics)))
    ends = ends_of(settings)
    jars = spark_jars()
    process = multiprocessing.get_context("spawn").Process(target=_stream, args=(settings, jars), daemon=True)
    process.start()
    try:
        status = Path(settings.stack.home or "") / "stream.json"
        _until(lambda: status.exists() and json.loads(status.read_text())["state"] == "running", process)
        started = time.time()
        _until(lambda: _marks(settings) == ends, process)
    finally:
        process.terminate()
        process.join(60)
    batches = [json.loads(line) for line in metrics.read_text().splitlines()]
    return batches[-1]["at_ms"] / 1000 - started, batches


def _marks(settings: Settings) -> dict[tuple[str, int], int]:
    lake = Lake(settings.lake.path)
    if not lake.journal.exists():
        return {}
    places = [(_TOPIC, partition) for partition in range(settings.journal.partitions)]
    return {place: offset_of(lake.journal.mark(place)) for place in places}


def _until(check: Callable[[], bool], process: Any) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not check():
        if time.monotonic() > deadline or not process.is_alive():
            raise RuntimeError("the stream did not get there; its log is in the folder of the run")
        time.sleep(0.02)


def _stream(settings: Settings, jars: list[str]) -> None:
    from metajournal.streaming.runner import run_stream

    run_stream(settings, jars)


def copied(settings: Settings, folder: Path, master: str, most: int, events: int) -> float:
    """Events per second of Spark's own copy from the topic to a Delta table, at one setting."""
    jars = spark_jars()
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    process = context.Process(target=_copy, args=(settings, folder, jars, master, most, results), daemon=True)
    process.start()
    took_s: float = results.get(timeout=_LONGEST_S)
    process.join(60)
    return events / took_s


def _copy(settings: Settings, folder: Path, jars: list[str], master: str, most: int, results: Any) -> None:
    from metajournal.streaming.spark.session import open_session

    spark = open_session(
        jars,
        {
            "spark.master": master,
            "spark.driver.memory": "2g",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.driver.extraJavaOptions": "-Xss4m -XX:+UseSerialGC",  # the full compiler: a long run gains by it
        },
        log=str(folder),
    )
    frame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka["bootstrap.servers"])
        .option("subscribe", _TOPIC)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(most))
        .load()
    )
    started = time.monotonic()
    query = (
        frame.writeStream.format("delta")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "table"))
    )
    query.awaitTermination()
    results.put(time.monotonic() - started)
    spark.stop()


def compared(settings: Settings) -> str:
    """Hold tables and topics against the in-memory fold of the topic.

    Raises:
        AssertionError: something differs.
    """
    from metajournal.lake.entities import COLUMNS, row_from_dict
    from tests.model import Model
    from tests.topics import journal_records, outcomes, seen

    started = time.monotonic()
    names = settings.journal.topics
    model = Model.of(journal_records(settings), names.journal("catalog"))
    lake = Lake(settings.lake.path)
    wanted = {(row.tenant, row.urn, row.logical_timestamp, row.seq): row for row in model.tables["entities"]}
    count = 0
    for record_batch in lake.tables["entities"].sql(f"select {COLUMNS} from entities").to_batches(max_chunksize=50_000):
        for values in record_batch.to_pylist(maps_as_pydicts="strict"):
            row = row_from_dict(values)
            assert wanted[(row.tenant, row.urn, row.logical_timestamp, row.seq)] == row
            count += 1
    assert count == len(wanted)
    record_count = 0
    for topic, published in (
        (names.changes("catalog"), model.user_changes),
        (names.annotations_system, model.system_changes),
        (names.state("catalog"), model.states),
    ):
        expected = sorted(
            (
                (
                    record.partition,
                    record.position,
                    record.seq,
                    f"{record.tenant}/{record.urn}",
                    record.system_time,
                    record.document,
                )
                for record in published
            ),
            key=lambda record: record[:3],
        )
        assert [tuple(record) for record in seen(settings, topic)] == expected, topic
        record_count += len(expected)
    verdicts = {
        (record["partition"], place): outcome
        for record in outcomes(settings)
        for place, outcome, *_ in record["verdicts"]
    }
    assert verdicts == {
        place: verdict.outcome for place, verdict in model.verdicts.items() if verdict.outcome != "accepted"
    }
    took_s = time.monotonic() - started
    return (
        f"equal to the in-memory fold: {count:,} rows, {record_count:,} records, {len(verdicts):,} verdicts "
        f"(compared in {took_s:.0f} s)"
    )


if __name__ == "__main__":
    import sys

    small = [int(argument) for argument in sys.argv[1:3]] or [EVENTS, ENTITIES]
    print(os.uname().release, json.dumps(run(print, events=small[0], entities=small[1]), indent=1))
