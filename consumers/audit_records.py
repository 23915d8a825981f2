"""What `<prefix>.audit` holds, read backwards: the newest records first, a page at a time.

The topic has one partition, so an offset says where a page ends and the next one begins. Left to others: who may see
which record (its reader's `wanted`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ..producers.kafka import SHORT_READS, ErrorLog, asked_again, make_consumer
from ..schemas.errors import KafkaUnavailableError
from ..schemas.settings import Settings

Record = Mapping[str, Any]
_CHUNK: Final = 1_000
_MOST_READ: Final = 50_000
_TIMEOUT_S: Final = 5.0
_READ: Final = {**SHORT_READS, "auto.offset.reset": "earliest"}
"""Records that expire while they are read are passed over."""


class AuditPage(NamedTuple):
    """Some records of the audit.

    Attributes:
        records: the newest first.
        before: where older ones are; None: there are none.
    """

    records: tuple[Record, ...]
    before: int | None


def audit_page(
    settings: Settings, wanted: Callable[[Record], bool], *, before: int | None = None, most: int = 50
) -> AuditPage:
    """The newest records that are wanted; fewer than `most`, and where to go on, where few of many are.

    Args:
        wanted: whether a record is.
        before: an earlier page's; None: the newest.
        most: records of a page.
    Raises:
        KafkaUnavailableError: the topic could not be read.
    """
    topic, errors, until = settings.journal.topics.audit, ErrorLog(), time.monotonic() + _TIMEOUT_S
    consumer = make_consumer(settings, errors, role="audit", **_READ)
    try:
        place = TopicPartition(topic, 0)
        ask = partial(consumer.get_watermark_offsets, place, timeout=_TIMEOUT_S)
        low, high = asked_again(consumer, ask, until, stopping=lambda: errors.hopeless is not None)
        end = high if before is None else max(low, min(before, high))
        found: list[Record] = []
        lowest = max(low, end - _MOST_READ)
        while end > lowest:
            begin = max(lowest, end - _CHUNK)
            for offset, record in reversed(_between(consumer, topic, begin, end, until)):
                if wanted(record):
                    found.append(record)
                    if len(found) == most:
                        return AuditPage(tuple(found), offset if offset > low else None)
            end = begin
        return AuditPage(tuple(found), end if end > low else None)
    except KafkaException as error:
        raise KafkaUnavailableError(f"{topic} could not be read: {error.args[0].str()}.", topic=topic) from error
    finally:
        consumer.close()


def _between(consumer: Consumer, topic: str, begin: int, end: int, until: float) -> list[tuple[int, Record]]:
    """The records from one offset to another, in their order. Raises: KafkaUnavailableError: not in time."""
    consumer.assign([TopicPartition(topic, 0, begin)])
    found: list[tuple[int, Record]] = []
    while (left := until - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is None:
            continue
        error, offset = message.error(), message.offset() or 0
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return found
            if not error.retriable():
                raise KafkaException(error)
            continue
        if offset < end:
            found += _read(offset, message.value())
        if offset >= end - 1:
            return found
    raise KafkaUnavailableError(f"{topic} could not be read within {_TIMEOUT_S:g} s.", topic=topic)


def _read(offset: int, value: bytes | None) -> list[tuple[int, Record]]:
    """A record; nothing where it is not one of the gateway's."""
    try:
        record = json.loads(value or b"")
    except ValueError:
        return []
    return [(offset, record)] if isinstance(record, dict) and {"what", "status", "time"} <= set(record) else []
