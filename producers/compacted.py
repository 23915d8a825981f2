"""The small compacted topics (`epochs`, `schemas`): read one whole, write a few records and wait for them.

Both have one partition and hold a handful of records, so whoever needs one reads it from its beginning.
Left to others: what the records mean (topics, published).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ..schemas.errors import KafkaUnavailableError
from ..schemas.settings import Settings
from .kafka import SHORT_READS, ErrorLog, make_consumer, make_producer

_WHOLE: Final = {
    **SHORT_READS,
    # Offset 0 is asked for, or the first one behind it: asking the broker for the first offset takes half a second,
    # for which a client waits that has just been made and has no connection yet.
    "auto.offset.reset": "earliest",
}


def read_all(settings: Settings, topic: str, *, timeout_s: float = 10.0) -> dict[str, bytes]:
    """The newest value of every key, tombstones left out.

    Raises:
        KafkaUnavailableError: the topic's end was not reached in time.
    """
    errors = ErrorLog()
    consumer = make_consumer(settings, errors, role="compacted", **_WHOLE)
    newest: dict[str, bytes | None] = {}
    deadline = time.monotonic() + timeout_s
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while time.monotonic() < deadline:
            message = consumer.poll(min(0.2, timeout_s))
            if message is None:
                continue
            error = message.error()
            if error is None:
                newest[(message.key() or b"").decode(errors="backslashreplace")] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                return {key: value for key, value in newest.items() if value is not None}
            elif not error.retriable():
                raise KafkaUnavailableError(f"Reading {topic} failed: {error.str()}.", topic=topic)
    except KafkaException as error:
        raise KafkaUnavailableError(f"Reading {topic} failed: {error}.", topic=topic) from error
    finally:
        consumer.close()
    text = errors.latest.text if errors.latest else "no answer"
    raise KafkaUnavailableError(f"{topic} could not be read within {timeout_s:g} s ({text}).", topic=topic)


def write_all(
    settings: Settings,
    topic: str,
    records: Mapping[str, bytes] | Mapping[str, bytes | None],
    *,
    timeout_s: float = 10.0,
) -> None:
    """Write the records, in order, and return when the broker has every one of them; None removes a key's record.

    Raises:
        KafkaUnavailableError: one was not acknowledged in time; writing it again is harmless.
    """
    errors = ErrorLog()
    failed: list[str] = []
    # Without idempotence, whose handshake takes half a second: a record written twice is compacted to one.
    own = {"enable.idempotence": "false", "linger.ms": 0, "queue.buffering.max.messages": 100_000}
    producer = make_producer(settings, errors, **own)

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error.str())

    for key, value in records.items():
        producer.produce(topic, value, key.encode(), on_delivery=delivered)
    left = producer.flush(timeout_s)
    if left or failed:
        text = failed[0] if failed else (errors.latest.text if errors.latest else "no answer")
        raise KafkaUnavailableError(f"Writing to {topic} was not acknowledged ({text}).", topic=topic)
