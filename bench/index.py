"""How fast state records become searchable, held against Elasticsearch's own speed with the same documents.

The real indexer, in a process of its own, from the first state record that is published to the position vector that
shows the last one. Raw hands the request bodies that the indexer would build, built before, to `_bulk` of an index of
the same mapping, at the best of three settings, and refreshes it once. Both sides in turns, on the same Elasticsearch.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import statistics
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from confluent_kafka import Producer
from elasticsearch import ApiError, Elasticsearch

from bench.entities import PARTITIONS, states
from metajournal.indexer.connection import make_client
from metajournal.indexer.fill.bulk import item_of
from metajournal.indexer.fill.process import run_indexer
from metajournal.indexer.mapping import concrete_name, index_body
from metajournal.indexer.shown import read_shown
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.hashing import canonical_json
from metajournal.schemas.positions import offset_of, position
from metajournal.schemas.settings import Settings

ENTITIES: Final = 20_000
ROUNDS: Final = 3
LEAST_RATIO: Final = 0.7
RAW_SETTINGS: Final = ((1000, 1), (1000, 2), (2000, 3))
"""Documents in a request, and requests at once."""
_PATIENCE_S: Final = 300.0
_HEADERS: Final = {"accept": "application/json", "content-type": "application/x-ndjson"}


def run(
    settings: Settings, *, entities: int = ENTITIES, rounds: int = ROUNDS, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure; one figure: the indexer's documents a second as `value`, raw's as `limit`."""
    say(f"making {entities:,} entities")
    documents = list(states(entities))
    records = [(f"{state['tenant']}/{state['urn']}", canonical_json(state), state["partition"]) for state in documents]
    bodies = [item_of(state).lines for state in documents]
    del documents
    gc.collect()
    gc.freeze()
    client = make_client(settings, timeout_s=120)
    raw_rate(client, bodies[: entities // 4], *RAW_SETTINGS[0])  # both ways once before: broker and server get warm
    indexer_rate(settings, records[: entities // 4])
    settled = {setting: raw_rate(client, bodies, *setting) for setting in RAW_SETTINGS}
    for (size, at_once), rate in settled.items():
        say(f"raw _bulk, {size} documents a request, {at_once} at once: {rate:,.0f}/s")
    fastest = max(settled, key=lambda setting: settled[setting])
    raw, indexed = [settled[fastest]], []
    for _ in range(rounds):
        indexed.append(indexer_rate(settings, records))
        raw.append(raw_rate(client, bodies, *fastest))
        say(f"indexer {indexed[-1]:,.0f}/s, raw {raw[-1]:,.0f}/s")
    client.close()
    gc.unfreeze()  # or libraries complain at the end that they are not cleaned up
    value, limit = statistics.median(indexed), statistics.median(raw)
    average_bytes = round(sum(map(len, bodies)) / len(bodies))
    name = f"state record to searchable, {entities:,} documents of {average_bytes:,} bytes, over raw _bulk"
    figure = {"name": name, "value": value, "limit": limit, "ratio": value / limit, "unit": "documents/s"}
    rates = {"indexer": [round(rate) for rate in indexed], "raw": [round(rate) for rate in raw]}
    return [
        {
            **figure,
            "rounds": rates,
            "raw_settings": {f"{n} x {at_once}": round(r) for (n, at_once), r in settled.items()},
        }
    ]


def raw_rate(client: Elasticsearch, bodies: list[bytes], size: int, at_once: int) -> float:
    """Documents a second of `_bulk` alone, the one refresh at the end included."""
    name = "bench-raw"
    client.options(ignore_status=404).indices.delete(index=name)
    client.indices.create(index=name, **index_body())
    requests = [b"".join(bodies[start : start + size]) for start in range(0, len(bodies), size)]
    target = f"/{name}/_bulk?filter_path=items.*.status,items.*.error"

    def send(body: bytes) -> None:
        try:
            answer = client.perform_request("POST", target, headers=_HEADERS, body=body).body
        except ApiError as error:
            if error.status_code != 429:
                raise
            time.sleep(0.05)  # its memory is full of garbage; any client has to come again
            return send(body)
        if any(item["index"]["status"] != 201 for item in answer["items"]):
            raise RuntimeError("raw _bulk was refused")
        return None

    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(send, requests))
    client.indices.refresh(index=name)
    took_s = time.perf_counter() - began
    client.indices.delete(index=name)
    return len(bodies) / took_s


def indexer_rate(settings: Settings, records: list[tuple[str, bytes, int]]) -> float:
    """Documents a second of the real indexer: from the first record published to the vector that shows the last."""
    names = f"bench-{uuid.uuid4().hex[:8]}"
    own = replace(
        settings,
        journal=replace(settings.journal, prefix=names),
        elasticsearch=replace(settings.elasticsearch, index=names),
        stack=replace(settings.stack, home=None),
    )
    topics = own.journal.topics
    state, outcomes, journal = topics.state("catalog"), topics.outcomes("catalog"), topics.journal("catalog")
    ensure_topics(replace(own, journal=replace(own.journal, partitions=PARTITIONS)))
    _fill(own, journal, 1 + max(offset_of(json.loads(value)["logical_timestamp"]) for _, value, _ in records))
    client = make_client(own)
    running = multiprocessing.get_context("spawn").Process(target=run_indexer, args=(own,), daemon=True)
    running.start()
    try:
        _await(lambda: bool(client.indices.exists_alias(name=names)), "the indexer")
        _publish_outcomes(own, outcomes, state, journal, {}, 1)
        _await(lambda: len(read_shown(client, names).vector) == PARTITIONS, "the indexer's first vector")
        producer = Producer(
            {**own.kafka, "enable.idempotence": True, "log_level": 3, "linger.ms": 5, "batch.size": 1_000_000}
        )
        producer.list_topics(state)  # connected before the clock starts
        began = time.perf_counter()
        ends = _publish_states(producer, state, records)
        _publish_outcomes(own, outcomes, state, journal, ends, 2)
        wanted = {(journal, partition): position(1, 2) for partition in range(PARTITIONS)}
        _await(lambda: read_shown(client, names).vector == wanted, "the vector that shows the last record")
        took_s = time.perf_counter() - began
    finally:
        running.terminate()
        running.join(60)
        client.options(ignore_status=404).indices.delete(index=concrete_name(names))
        client.close()
    return len(records) / took_s


def _fill(settings: Settings, journal: str, count: int) -> None:
    """Have the journal hold what the states speak of: the indexer passes over what claims more."""
    producer = Producer({**settings.kafka, "log_level": 3, "linger.ms": 5})
    for partition in range(PARTITIONS):
        for _ in range(count):
            producer.produce(journal, b"", partition=partition)
            producer.poll(0)
        producer.flush()


def _publish_states(producer: Producer, topic: str, records: list[tuple[str, bytes, int]]) -> dict[int, int]:
    """Publish as the stream does; end offsets."""
    ends = dict.fromkeys(range(PARTITIONS), 0)
    left = iter(records)
    while some := list(islice(left, 5000)):
        for key, value, partition in some:
            producer.produce(topic, value, key, partition)
            ends[partition] += 1
        producer.flush()
    return ends


def _publish_outcomes(settings: Settings, topic: str, state: str, journal: str, ends: dict[int, int], to: int) -> None:
    producer = Producer({**settings.kafka, "enable.idempotence": True})
    for partition in range(PARTITIONS):
        record = {
            "topic": journal,
            "partition": partition,
            "from": position(1, 0),
            "to": position(1, to),
            "verdicts": [],
            "ends": {state: {str(partition): ends.get(partition, 0)}},
            "system_time": round(time.time() * 1000),
            "written": round(time.time() * 1000),
        }
        producer.produce(topic, canonical_json(record), f"{journal}/{partition}", partition)
    producer.flush()


def _await(check: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + _PATIENCE_S

    def holds() -> bool:
        try:
            return check()
        except ApiError as error:
            if error.status_code != 429:  # its memory is full of garbage; the next try asks again
                raise
            return False

    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not come within {_PATIENCE_S:g} s")
        time.sleep(0.1)  # asking costs the server as well
