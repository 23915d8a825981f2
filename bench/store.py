"""A lake in an object store over one on disk: from emit until the lake shows it, at a steady load, in turns.

Two streams of one broker run side by side, each with its own journal; in each turn one of them has the load and the
probes. The store is S3Proxy on the same machine, so that what is measured is our requests, not somebody's network.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench import latency
from metajournal.client import Journal
from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet, TagsAdded
from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import JournalSettings, LakeSettings, Settings, StackSettings
from metajournal.stack.jars import ensure_parts, spark_jars
from metajournal.stack.kafka import start_kafka
from metajournal.stack.s3proxy import BUCKET, start_s3proxy
from metajournal.streaming.runner import run_stream

MOST_RATIO: Final = 3.0
EVENTS_PER_S: Final = 100
ENTITIES: Final = 1_000
TURNS: Final = 12
TURN_S: Final = 15.0
_POLL_S: Final = 0.01
_START_S: Final = 120.0


def run(
    say: Callable[[str], None], *, turns: int = TURNS, turn_s: float = TURN_S, events_per_s: int = EVENTS_PER_S
) -> list[dict[str, Any]]:
    """Measure; the limit is three times the p50 on disk."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        home = Path(folder)
        parts = ensure_parts(("kafka", "s3proxy"))
        broker, store = start_kafka(parts, home / "kafka"), start_s3proxy(parts, home / "store")
        try:
            store.make_bucket()
            places = [LakeSettings(path=str(home / "lake")), LakeSettings(f"s3://{BUCKET}/lake", store.options)]
            settings = [
                Settings(
                    journal=JournalSettings(prefix=f"bench-{number}", actor="bench"),
                    kafka={"bootstrap.servers": broker.endpoint},
                    lake=place,
                    stack=StackSettings(home=str(home / f"home-{number}")),
                )
                for number, place in enumerate(places)
            ]
            return [_figure(_in_turns(settings, turns, turn_s, events_per_s, say), events_per_s, say)]
        finally:
            store.server.stop()
            broker.stop()


def _figure(delays: list[list[float]], events_per_s: int, say: Callable[[str], None]) -> dict[str, Any]:
    on_disk, in_store = (statistics.median(measured) for measured in delays)
    for name, measured in zip(("disk", "store"), delays, strict=True):
        spread = ", ".join(f"p{share} {latency._percentile(measured, share):.0f}" for share in (25, 50, 75, 99))
        say(f"{name}: {len(measured)} probes, {spread} ms")
    return {
        "name": f"emit to the lake at {events_per_s} events/s, p50 in a store over on disk",
        "value": in_store,
        "limit": on_disk * MOST_RATIO,
        "ratio": in_store / on_disk,
        "most": MOST_RATIO,
        "unit": "ms",
        "probes": sum(map(len, delays)),
    }


def _in_turns(
    settings: list[Settings], turns: int, turn_s: float, events_per_s: int, say: Callable[[str], None]
) -> list[list[float]]:
    """Milliseconds from emit to the lake's mark by place, the places in turns."""
    context = multiprocessing.get_context("spawn")
    jars = spark_jars()
    delays: list[list[float]] = [[] for _ in settings]
    streams = [context.Process(target=run_stream, args=(one, jars)) for one in settings]
    journals = []
    try:
        for one, stream in zip(settings, streams, strict=True):
            ensure_topics(one)
            stream.start()
            journals.append(Journal.connect(replace(one, client=replace(one.client, linger_ms=5.0))))
        lakes = [Lake(one.lake.path, one.lake.storage_options) for one in settings]
        for journal in journals:
            receipts = [journal.emit(EntityRegistered(latency._entity(number))) for number in range(ENTITIES)]
            receipts[-1].outcome(_START_S)
        say(f"{turns} turns of {turn_s:.0f} s")
        for turn in range(turns):
            place = turn % len(settings)
            measured = _turn(journals[place], lakes[place], turn_s, events_per_s)
            delays[place] += measured[1:]  # the first meets a stream that was idle
    finally:
        for journal in journals:
            journal.close()
        for stream in streams:
            stream.terminate()
            stream.join(60)
    return delays


def _turn(journal: Journal, lake: Lake, turn_s: float, events_per_s: int) -> list[float]:
    ended = threading.Event()
    load = threading.Thread(target=_load, args=(journal, events_per_s, ended))
    load.start()
    try:
        delays: list[float] = []
        until = time.monotonic() + turn_s
        while time.monotonic() < until:
            delays.append(_probe(journal, lake, len(delays)))
            time.sleep(0.1 * (1 + len(delays) * 0.61 % 1))
        return delays
    finally:
        ended.set()
        load.join()


def _load(journal: Journal, events_per_s: int, ended: threading.Event) -> None:
    started, sent = time.monotonic(), 0
    while not ended.wait(0.01):
        while sent < (time.monotonic() - started) * events_per_s:
            journal.emit(PropertiesSet(latency._entity(sent * 7 % ENTITIES), {"n": str(sent)}), block_s=30)
            sent += 1


def _probe(journal: Journal, lake: Lake, number: int) -> float:
    began = time.perf_counter()
    position = journal.emit(TagsAdded(latency._entity(number % ENTITIES), [f"t{began}"])).position
    lake.journal.refresh()
    while lake.journal.mark((position.topic, position.partition)) <= position.value:
        time.sleep(_POLL_S)
        lake.journal.refresh()
    return (time.perf_counter() - began) * 1000
