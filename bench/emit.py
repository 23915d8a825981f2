"""How fast typed events are emitted, held against librdkafka's own speed with the same bytes.

Both sides run in the same process, one after the other in turns, and count an event only when the broker has
acknowledged it. Emit makes, validates, encodes and sends single events and keeps every receipt; raw hands the bytes
that emit made to `Producer.produce()` with a delivery callback, at the fastest of three batch settings.
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from metajournal.client import Journal
from metajournal.domains.catalog.events import PropertiesSet, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.headers import headers_of
from metajournal.producers.kafka import ErrorLog, make_consumer, make_producer
from metajournal.producers.receipts import Receipt
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn

EVENTS: Final = 20_000
ENTITIES: Final = 10_000
ROUNDS: Final = 12
LEAST_RATIO: Final = 0.2
RAW_SETTINGS: Final = (
    {"linger.ms": 0},
    {"linger.ms": 5, "batch.size": 131_072},
    {"linger.ms": 20, "batch.size": 1_000_000},
)
EMIT_LINGER_MS: Final = 5.0
"""As a program sets `client.linger_ms` that sends much; the default of 0 is for the least delay."""
Record = tuple[bytes, bytes, list[tuple[str, str | bytes | None]]]


def run(settings: Settings) -> list[dict[str, Any]]:
    """Measure; returns one figure: emit's rate as `value`, raw's as `limit`, and their ratio."""
    bulk = replace(settings, client=replace(settings.client, linger_ms=EMIT_LINGER_MS, queue_events=4 * EVENTS))
    entities = [dataset("bench", f"table_{number:05}") for number in range(ENTITIES)]
    with Journal.connect(bulk, create_topics=True) as journal:
        emit_rate(journal, entities, EVENTS // 4)
        records = captured(journal, EVENTS // 6)
        fastest = max(RAW_SETTINGS, key=lambda more: raw_rate(bulk, records, EVENTS // 2, more))
        raw, emitted = [], []
        for _ in range(ROUNDS):
            raw.append(raw_rate(bulk, records, EVENTS, fastest))
            emitted.append(emit_rate(journal, entities, EVENTS))
    best, limit = max(emitted), max(raw)
    ratios = sorted(ours / theirs for ours, theirs in zip(emitted, raw, strict=True))
    figure = {"name": "emit, acknowledged", "value": best, "limit": limit, "ratio": best / limit, "unit": "events/s"}
    return [{**figure, "ratio_by_round": [round(ratio, 3) for ratio in ratios]}]


def emit_rate(journal: Journal, entities: list[Urn], count: int) -> float:
    """Events a second through `emit`, from the first call to the last acknowledgement."""
    journal.emit(TagsAdded(entities[0], ["warm"])).position  # noqa: B018  (waits: connection and schemas are there)
    receipts: list[Receipt] = []
    gc.collect()
    start = time.perf_counter()
    for number in range(count // 2):
        entity = entities[number % ENTITIES]
        receipts.append(journal.emit(TagsAdded(entity, ["pii", f"batch-{number % 100}"])))
        receipts.append(journal.emit(PropertiesSet(entity, {"owner": "alice", "rows": str(number)})))
    journal.flush()
    seconds = time.perf_counter() - start
    if not all(receipt.acknowledged for receipt in receipts):
        raise RuntimeError("an event was not acknowledged")
    return len(receipts) / seconds


def raw_rate(settings: Settings, records: list[Record], count: int, more: dict[str, Any]) -> float:
    """Records a second through librdkafka alone, the same bytes, each with a delivery callback.

    The loop is the one of confluent_kafka's documentation: `poll(0)`, then `produce` with keyword arguments.
    """
    producer = make_producer(settings, ErrorLog(), **more)
    topic = settings.journal.topics.journal("catalog")
    acknowledged = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer.produce(topic, *records[0][:2], -1, delivered)
    producer.flush()
    acknowledged = 0
    turns = [records] * (count // len(records))
    gc.collect()
    start = time.perf_counter()
    for turn in turns:
        for value, key, headers in turn:
            producer.poll(0)
            producer.produce(topic, value=value, key=key, headers=headers, on_delivery=delivered)
    producer.flush()
    seconds = time.perf_counter() - start
    if acknowledged != len(turns) * len(records):
        raise RuntimeError("a record was not acknowledged")
    return acknowledged / seconds


def captured(journal: Journal, count: int) -> list[Record]:
    """Records as emit wrote them, from the journal topic."""
    consumer = make_consumer(journal.settings, ErrorLog(), role="bench")
    topic = journal.settings.journal.topics.journal("catalog")
    partitions = range(journal.epochs[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    records: list[Record] = []
    while len(records) < count:
        for message in consumer.consume(count - len(records), 5):
            headers: list[tuple[str, str | bytes | None]] = [*dict(headers_of(message)).items()]
            records.append((message.value() or b"", message.key() or b"", headers))
    consumer.close()
    return records
