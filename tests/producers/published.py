"""What the stream publishes, written by hand: outcome and change records in their wire form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from metajournal.producers.kafka import ErrorLog, make_producer
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.journals import Filled

Headers = list[tuple[str, str | bytes | None]]


def publish_outcome(
    settings: Settings, first: Position, to: int, system_time: int, verdicts: Sequence[Any] = ()
) -> None:
    """One outcome record of the range from `first` up to (not including) the position `to`."""
    value = {
        "topic": first.topic,
        "partition": first.partition,
        "from": first.value,
        "to": to,
        "verdicts": list(verdicts),
        "ends": {},
        "system_time": system_time,
        "written": system_time + 5,
    }
    Filled(settings).up_to(first.topic, first.partition, to)
    key = f"{first.topic}/{first.partition}"
    _write(settings, settings.journal.topics.outcomes("catalog"), first.partition, key, value, system_time, [])


def publish_changes(settings: Settings, changes: Iterable[tuple[Position, int, int, str]], scope: str = "USER") -> None:
    """One change record for each (position, seq, system_time, urn)."""
    names = settings.journal.topics
    topic = names.changes("catalog") if scope == "USER" else names.annotations_system
    filled = Filled(settings)
    for position, seq, system_time, urn in changes:
        filled.up_to(position.topic, position.partition, position.value + 1)
        headers: Headers = [
            ("ce_specversion", b"1.0"),
            ("ce_source", f"/{position.topic}/{position.partition}".encode()),
            ("ce_id", f"{position}/{seq}".encode()),
            ("ce_type", b"metajournal.catalog.MetadataChangeRecord"),
            ("ce_subject", urn.encode()),
            ("ce_time", b"2015-09-03T20:00:00.000Z"),
            ("content-type", b"application/json"),
        ]
        _write(settings, topic, position.partition, f"default/{urn}", {"updater": str(position)}, system_time, headers)


def _write(
    settings: Settings, topic: str, partition: int, key: str, value: Any, time_ms: int, headers: Headers
) -> None:
    producer = make_producer(settings, ErrorLog(), **{"enable.idempotence": "false"})
    producer.produce(topic, json.dumps(value).encode(), key.encode(), partition, None, None, time_ms, headers)
    assert producer.flush(10) == 0
