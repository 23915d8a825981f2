"""Journal records as Spark's Kafka source gives them, for figures that need no broker."""

from __future__ import annotations

from typing import Any

from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import DIGEST_HEADER, digest, record_key
from metajournal.schemas.header import Header


def identity(number: int, time_ms: int) -> bytes:
    """A UUIDv7 of a time, told apart by its number."""
    return (time_ms << 80 | 7 << 76 | number).to_bytes(16, "big")


def record(topic: str, partition: int, offset: int, header: Header, event: Any) -> dict[str, Any]:
    """A row of `streaming.records.SOURCE`: an event, appended when its header says that it happened."""
    value = codec.encode(event, header)
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": header.event_time * 1000,
        "key": record_key(header.tenant, header.aggregate),
        "value": value,
        "headers": [{"key": DIGEST_HEADER, "value": digest(value)}],
    }
