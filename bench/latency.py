"""From emit to a search hit, at a steady load, as a user has it: own process, own connection, the real stack.

One process emits updates of registered entities at a fixed rate; another one emits a tag that nobody has and searches
for it until it is found, over and over. Beside it stands the floor of the same machine under the same load: what the
acknowledgement, one document's indexing and its refresh take when nothing lies in between.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from metajournal.client import Journal
from metajournal.config import load
from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.schemas.settings import Settings
from metajournal.stack.home import SETTINGS_FILE
from metajournal.stack.supervisor import down, up

EVENTS_PER_S: Final = 100
ENTITIES: Final = 10_000
SECONDS: Final = 120
P50_LIMIT_MS: Final = 600
P99_LIMIT_MS: Final = 1_500
PROBES_AT_ONCE: Final = 4
_PAUSE_S: Final = 0.7
_WARM_UP_S: Final = 15


def run(
    *, entities: int = ENTITIES, events_per_s: int = EVENTS_PER_S, seconds: int = SECONDS, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure; gives p50 and p99 in milliseconds with their limits, and the floor's."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        home = Path(folder)
        up(home, Settings())
        try:
            settings = load(str(home / SETTINGS_FILE)).settings
            return _measured(settings, entities, events_per_s, seconds, say)
        finally:
            down(home)


def _measured(
    settings: Settings, entities: int, events_per_s: int, seconds: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    bulk = replace(settings, client=replace(settings.client, linger_ms=5.0))
    with Journal.connect(bulk) as journal:
        say(f"registering {entities:,} entities")
        receipts = [
            journal.emit(EntityRegistered(_entity(number), properties={"n": "0"})) for number in range(entities)
        ]
        journal.flush()
        last = {receipt.position.partition: receipt.position for receipt in receipts}
        for position in last.values():
            journal.search("", at_least=position, timeout_s=300, limit=1)
    context = multiprocessing.get_context("spawn")
    ready, results = context.Event(), context.Queue()
    total_s = seconds + _WARM_UP_S
    load = context.Process(target=_load, args=(settings, entities, events_per_s, total_s, ready), daemon=True)
    probes = context.Process(target=_probe, args=(settings, entities, seconds, _WARM_UP_S, ready, results), daemon=True)
    say(f"{events_per_s} events/s for {seconds} s, after {_WARM_UP_S} s to warm up")
    load.start()
    probes.start()
    latencies, floor = results.get(timeout=total_s + 120)
    probes.join(30)
    load.join(30)
    return _figures(latencies, floor, events_per_s, entities)


def _figures(latencies: list[float], floor: list[float], events_per_s: int, entities: int) -> list[dict[str, Any]]:
    name = f"emit to searchable, {events_per_s} events/s, {entities:,} entities"
    p50, p99 = _percentile(latencies, 50), _percentile(latencies, 99)
    least = _percentile(floor, 50)
    more = {"unit": "ms", "probes": len(latencies), "floor_p50": least}
    return [
        {"name": f"{name}, p50", "value": p50, "limit": P50_LIMIT_MS, "ratio": p50 / P50_LIMIT_MS, **more},
        {"name": f"{name}, p99", "value": p99, "limit": P99_LIMIT_MS, "ratio": p99 / P99_LIMIT_MS, **more},
    ]


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _entity(number: int) -> Any:
    return dataset("bench", f"table_{number:06}")


def _load(settings: Settings, entities: int, events_per_s: int, seconds: int, ready: Any) -> None:
    """Updates at a steady rate, spread over all entities."""
    with Journal.connect(settings) as journal:
        ready.wait()
        start = time.perf_counter()
        for number in range(events_per_s * seconds):
            ahead_s = start + number / events_per_s - time.perf_counter()
            if ahead_s > 0:
                time.sleep(ahead_s)
            journal.emit(PropertiesSet(_entity(number * 7919 % entities), {"n": str(number)}))


def _probe(settings: Settings, entities: int, seconds: int, warm_up_s: int, ready: Any, results: Any) -> None:
    """Milliseconds from the call of emit to the hit, probe by probe; the same for the floor."""
    latencies: list[float] = []
    floor: list[float] = []
    with Journal.connect(settings) as journal:
        journal.search("warm", limit=1)
        ready.set()
        begin = time.perf_counter() + warm_up_s

        def probe(turn: int) -> None:
            while time.perf_counter() < begin + seconds:
                time.sleep(_PAUSE_S * (0.5 + (turn * 0.37 + len(latencies) * 0.61) % 1))
                started = time.perf_counter()
                _search_probe(journal, entities, len(latencies))
                if started >= begin:
                    latencies.append((time.perf_counter() - started) * 1000)

        threads = [threading.Thread(target=probe, args=(turn,)) for turn in range(PROBES_AT_ONCE)]
        threads.append(threading.Thread(target=_floor, args=(settings, begin, seconds, floor)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    results.put((latencies, floor))


def _search_probe(journal: Journal, entities: int, number: int) -> None:
    tag = f"probe{uuid.uuid4().hex}"
    entity = _entity(number * 104_729 % entities)
    receipt = journal.emit(TagsAdded(entity, [tag]))
    results = journal.search(f"tags:{tag}", at_least=receipt.position, timeout_s=60, limit=1, paging=False)
    if [hit.urn for hit in results.hits] != [entity]:
        raise RuntimeError(f"the index shows {receipt.position}, but {tag} finds {results.hits}")


def _floor(settings: Settings, begin: float, seconds: int, floor: list[float]) -> None:
    """Acknowledgement, one document, one refresh: what no design on these parts can go below."""
    from confluent_kafka import Producer

    from metajournal.indexer.connection import make_client

    producer = Producer({"bootstrap.servers": settings.kafka["bootstrap.servers"], "acks": "all"})
    client = make_client(settings)
    index = f"{settings.elasticsearch.index}-floor"
    client.indices.create(index=index)
    while time.perf_counter() < begin + seconds:
        time.sleep(2)
        started = time.perf_counter()
        producer.produce(settings.journal.topics.dlq, b"floor")
        producer.flush()
        client.index(index=index, document={"text": "floor"}, refresh=True)
        floor.append((time.perf_counter() - started) * 1000)
    client.indices.delete(index=index)
