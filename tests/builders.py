"""Builders with defaults: headers for events, and journal records as a producer would have written them."""

from __future__ import annotations

from typing import Any

from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import digest, record_key
from metajournal.schemas.header import Header
from metajournal.schemas.positions import position
from tests.model import JournalRecord

NOON = 1_441_310_400_000
"""A moment in milliseconds UTC, for tests that need any."""

NO_DIGEST = bytes(16)
"""A record's digest, for tests that judge events of no record."""


def header_for(event: Any, number: int = 1, **fields: Any) -> Header:
    """A header that agrees with its event.

    Args:
        number: makes the event id.
        fields: header fields to have otherwise.
    """
    agreeing: dict[str, Any] = {
        "event_id": number.to_bytes(16, "big"),
        "tenant": "default",
        "type": event.TYPE,
        "aggregate": str(event.aggregate),
        "entities": tuple(map(str, event.entities)),
        "actor": "alice",
        "event_time": NOON + number,
    }
    return Header(**{**agreeing, **fields})


def record_of(
    event: Any, offset: int, *, header: Header | None = None, partition: int = 0, **fields: Any
) -> JournalRecord:
    """A journal record of an event, in order unless `fields` of the record say otherwise.

    Args:
        offset: Kafka offset in epoch 1; it also makes the event id where no header is given.
    """
    header = header or header_for(event, offset)
    value = codec.encode(event, header)
    return raw_record(
        value, offset, partition=partition, **{"key": record_key(header.tenant, header.aggregate), **fields}
    )


def raw_record(value: bytes | None, offset: int, *, partition: int = 0, **fields: Any) -> JournalRecord:
    """A journal record of any bytes, with the digest of these bytes."""
    whole: dict[str, Any] = {
        "partition": partition,
        "position": position(1, offset),
        "append_time": NOON + 1000 * offset,
        "key": b"default/dataset:default/any",
        "value": value,
        "digest": digest(value or b""),
    }
    return JournalRecord(**{**whole, **fields})
