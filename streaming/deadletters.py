"""Shelved records to the dead-letter topic, verbatim, with the header names that Kafka Connect's tools know.

The original headers are kept before them. A record that leaves no room for them is copied without what is too much;
its headers say so, and the journal table holds it whole. Source: KIP-298, "Headers".
"""

from __future__ import annotations

from typing import Any

from ..fold.documents import Outgoing
from ..fold.folded import Judged
from ..fold.records import Headers, Place
from ..producers.kafka import MESSAGE_BYTES
from ..schemas.positions import offset_of

_MOST_BYTES = MESSAGE_BYTES - 16 * 1024  # the rest is for what stands in the headers, and the batch around it

_READER = "metajournal.streaming.records"
"""Who found it, as the records say since 0.1.0: it stays, wherever that module stands."""


def dead_letter(place: Place, judged: Judged, topic: str) -> Outgoing:
    """The dead-letter record of a shelved record.

    Args:
        place: the journal partition that it stands in.
        judged: the record with its verdict.
        topic: the dead-letter topic.
    """
    record, verdict = judged.record, judged.verdict
    about = {
        "topic": place.topic,
        "partition": str(place.partition),
        "offset": str(offset_of(record.position)),
        "connector.name": "metajournal-stream",
        "task.id": str(place.partition),
        "stage": "VALUE_CONVERTER",
        "class.name": _READER,
        "exception.class.name": f"metajournal.Shelved.{verdict.reason}",
        "exception.message": str(verdict.detail),
        "exception.stacktrace": "",
    }
    key, value, kept = record.key, record.value, list(record.headers)
    left_out = []
    if _size(key, value, kept) > _MOST_BYTES:
        value, left_out = None, ["value"]
    if _size(key, value, kept) > _MOST_BYTES:
        key, kept, left_out = None, [], ["key", "headers", "value"]
    if left_out:
        about["exception.message"] += (
            f" (too large to copy: {', '.join(left_out)}; the journal table contains it in full)"
        )
    headers: list[tuple[str, Any]] = list(kept)
    headers += [(f"__connect.errors.{name}", text.encode()) for name, text in about.items()]
    return Outgoing(topic, place.partition, key, value, headers, judged.system_time)


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes of a record, each length counted with its longest prefix."""
    parts = [key, value, *(part for name, content in headers for part in (name.encode(), content))]
    return sum(len(part or b"") + 5 for part in parts)
