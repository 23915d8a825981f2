"""Shelved records to the dead-letter topic, verbatim, with the header names that Kafka Connect's tools know.

Source: KIP-298, "Headers"; the original headers are kept before them.
"""

from __future__ import annotations

from typing import Any

from ..schemas.positions import offset_of
from .fold import Judged
from .publish import Outgoing
from .records import Place


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
        "class.name": "metajournal.streaming.records",
        "exception.class.name": f"metajournal.Shelved.{verdict.reason}",
        "exception.message": str(verdict.detail),
        "exception.stacktrace": "",
    }
    headers: list[tuple[str, Any]] = list(record.headers)
    headers += [(f"__connect.errors.{name}", text.encode()) for name, text in about.items()]
    return Outgoing(topic, place.partition, record.key, record.value, headers, judged.system_time)
