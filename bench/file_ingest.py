"""Archived files recorded in bulk: from the first emit until the lake holds the last one, all that follows published.

One process records the files with `Journal.files.record`, as users do; the stream runs beside it with its usual
settings. The journal table is written last, after the change and state records are acknowledged, so its marks say when
all is done. That each file gave one row, one change record and one state record is counted afterwards.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.catchup import _stream
from bench.files import events
from metajournal.client import Journal
from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.positions import offset_of
from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, LakeSettings, Settings, StackSettings
from metajournal.stack.jars import ensure_parts, spark_jars
from metajournal.stack.kafka import start_kafka
from metajournal.streaming.publish import watermarks

FILES: Final = 1_000_000
LIMIT: Final = 30_000
_PREFIX: Final = "bench"
_LONGEST_S: Final = 600


def run(say: Callable[[str], None], *, files: int = FILES, wide_events: int | None = None) -> list[dict[str, Any]]:
    """Measure; gives the figure with what it must reach as its limit."""
    records = [file for event in events(files, twice=False) for file in event.files]
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        broker = start_kafka(ensure_parts(("kafka",)), Path(folder) / "kafka")
        try:
            settings = _settings(broker.endpoint, Path(folder), wide_events)
            ensure_topics(settings)
            took_s, sent_s = _ingested(settings, Path(folder), records, say)
            _count(settings, len(records))
        finally:
            broker.stop()
    rate = len(records) / took_s
    say(f"{len(records):,} files: sent in {sent_s:.1f} s, visible after {took_s:.1f} s: {rate:,.0f} files/s")
    name = f"{len(records):,} files recorded in bulk, visible and published"
    return [{"name": name, "value": rate, "limit": LIMIT, "ratio": rate / LIMIT, "unit": "files/s", "least": 1.0}]


def _settings(endpoint: str, folder: Path, wide_events: int | None) -> Settings:
    settings = Settings(
        journal=JournalSettings(prefix=_PREFIX, actor="bench"),
        kafka={"bootstrap.servers": endpoint},
        lake=LakeSettings(path=str(folder / "lake")),
        elasticsearch=ElasticsearchSettings(index="bench"),
        stack=StackSettings(home=str(folder / "home")),
    )
    stream = replace(settings.stream, metrics_file=str(folder / "metrics.jsonl"))
    return replace(settings, stream=stream if wide_events is None else replace(stream, wide_events=wide_events))


def _ingested(settings: Settings, folder: Path, records: list[Any], say: Callable[[str], None]) -> tuple[float, float]:
    """Seconds from the first emit until the lake holds the last file, and until it was acknowledged."""
    jars = spark_jars()
    process = multiprocessing.get_context("spawn").Process(target=_stream, args=(settings, jars), daemon=True)
    process.start()
    try:
        status = Path(settings.stack.home or "") / "stream.json"
        _until(lambda: status.exists() and json.loads(status.read_text())["state"] == "running", process)
        with Journal.connect(settings) as journal:
            started = time.time()
            journal.files.record(records)
            sent_s = time.time() - started
        ends = _ends(settings)
        _until(lambda: _marks(settings) == ends, process)
    finally:
        process.terminate()
        process.join(60)
    batches = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for batch in batches:
        if batch["events"]:
            steps = ", ".join(f"{step} {ms / 1000:.1f} s" for step, ms in batch["ms"].items())
            say(f"  {batch['events']:,} events: {steps}")
    return batches[-1]["at_ms"] / 1000 - started, sent_s


def _until(check: Callable[[], bool], process: Any) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not check():
        if time.monotonic() > deadline or not process.is_alive():
            raise RuntimeError("the stream did not get there; its log is in the folder of the run")
        time.sleep(0.1)


def _places(settings: Settings, topic: str) -> list[tuple[str, int]]:
    return [(topic, partition) for partition in range(settings.journal.partitions)]


def _ends(settings: Settings) -> dict[tuple[str, int], int]:
    places = _places(settings, settings.journal.topics.journal("files"))
    return {place: high for place, (_, high) in watermarks(settings, places).items()}


def _marks(settings: Settings) -> dict[tuple[str, int], int]:
    lake = Lake(settings.lake.path)
    if not lake.journal.exists():
        return {}
    places = _places(settings, settings.journal.topics.journal("files"))
    return {place: offset_of(lake.journal.mark(place)) for place in places}


def _count(settings: Settings, files: int) -> None:
    """Each file gave an entity, rows, a change and a state. Raises: RuntimeError: it did not."""
    names = settings.journal.topics
    counts = {"entities": Lake(settings.lake.path).tables["entities"].delta.count()}
    for topic in (names.changes("files"), names.state("files")):
        counts[topic] = sum(high - low for low, high in watermarks(settings, _places(settings, topic)).values())
    if set(counts.values()) != {files}:
        raise RuntimeError(f"{files:,} files gave {counts}")


if __name__ == "__main__":
    run(print, files=int(sys.argv[1]) if len(sys.argv) > 1 else FILES,
        wide_events=int(sys.argv[2]) if len(sys.argv) > 2 else None)  # fmt: skip
