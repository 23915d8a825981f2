"""Shelving one position by an operator: a record in `<prefix>.epochs`, which the stream and every rebuild obey.

For a record of a schema that no version knows: it stops the stream, because to judge later events without it gives
another history. Reading these records back is `topics.read_epochs`.
"""

from __future__ import annotations

import json
import time
from functools import partial

from confluent_kafka import KafkaException, TopicPartition

from ..schemas.errors import InputError, KafkaUnavailableError
from ..schemas.positions import Position
from ..schemas.settings import Settings
from .compacted import write_all
from .kafka import ErrorLog, asked_again, make_consumer
from .topics import SHELVE, check_topics


def shelve(settings: Settings, place: Position, *, timeout_s: float = 10.0) -> None:
    """Record that the stream passes over one record for good; it takes effect when the stream starts.

    Idempotent. Whether the stream has judged that record already is for the caller to look up first: what it has
    judged must not change.

    Raises:
        InputError: there is no such record in the present epoch of a journal topic.
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: the topics are not as they must be.
    """
    epochs = check_topics(settings, timeout_s=timeout_s)
    if place.topic not in epochs:
        raise InputError(
            f"{place.topic} is not a journal topic; the journal topics are {', '.join(sorted(epochs))}.",
            code="no-such-topic",
        )
    known = epochs[place.topic]
    if not 0 <= place.partition < known.partitions:
        raise InputError(f"{place.topic} has {known.partitions} partitions, numbered from 0.", code="no-such-partition")
    end = known.position(place.partition, _end_of(settings, place, timeout_s))
    if not known.holds(place.partition, place.value) or place.value >= end:
        raise InputError(
            f"{place.topic}/{place.partition} has no position {place.value}; the next one to be written is {end}.",
            code="no-such-position",
            hint="Take topic, partition and position from the message of the stopped stream.",
        )
    record = json.dumps({"topic": place.topic, "partition": place.partition, "position": place.value}).encode()
    write_all(settings, settings.journal.topics.epochs, {f"{SHELVE}{place}": record}, timeout_s=timeout_s)


def _end_of(settings: Settings, place: Position, timeout_s: float) -> int:
    """End offset of a partition."""
    consumer = make_consumer(settings, ErrorLog(), role="shelving")
    try:
        ask = partial(consumer.get_watermark_offsets, TopicPartition(place.topic, place.partition), timeout=timeout_s)
        _, end = asked_again(consumer, ask, time.monotonic() + timeout_s)
        return int(end)
    except KafkaException as error:
        raise KafkaUnavailableError(f"Kafka did not return the end of {place.topic}: {error.args[0].str()}.") from error
    finally:
        consumer.close()
