"""Where the partitions of a topic end, asked once by whoever reads it no further."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from ..producers.asked_ends import leave_ends, shared_ends
from ..producers.kafka import ErrorLog, asked_again, make_consumer
from ..producers.topics import Epochs
from ..schemas.errors import KafkaUnavailableError
from ..schemas.positions import Cut, offset_of, position
from ..schemas.settings import Settings

_ANSWER_S: Final = 5.0
_LEAST_S: Final = 0.1
"""Seconds that a broker is given in any case: less than that says nothing of it."""


def committed_ends(
    settings: Settings, epochs: Epochs, topic: str, partitions: Iterable[int] | None = None, *,
    timeout_s: float = 2 * _ANSWER_S,
) -> Cut:  # fmt: skip
    """The next position of partitions of a journal topic, as it is now: what is committed.

    Args:
        topic: a journal topic.
        partitions: numbers of those that are asked for; None: all.
        timeout_s: seconds for all of them.
    Raises:
        KafkaUnavailableError: Kafka does not answer.
    """
    known = epochs[topic]
    numbers = range(known.partitions) if partitions is None else partitions
    consumer = make_consumer(settings, errors := ErrorLog(), role="ends", **{"isolation.level": "read_committed"})
    until = time.monotonic() + timeout_s
    try:
        ends: dict[tuple[str, int], int] = {}
        for partition in numbers:
            _, high = asked_again(
                consumer,
                partial(
                    consumer.get_watermark_offsets,
                    TopicPartition(topic, partition),
                    timeout=max(_LEAST_S, min(_ANSWER_S, until - time.monotonic())),
                ),
                until,
                stopping=lambda: errors.hopeless is not None,
            )
            ends[topic, partition] = position(known.epoch, int(high))
        return ends
    except KafkaException as error:
        raise KafkaUnavailableError(f"The end of {topic} could not be read: {error.args[0].str()}.") from error
    finally:
        consumer.close()


def stored_ends(settings: Settings, places: Iterable[tuple[str, int]], timeout_s: float) -> dict[tuple[str, int], int]:
    """The offset behind the last record of some partitions, as it is now: committed, or behind a unit that is open.

    Args:
        places: topics and partitions.
        timeout_s: seconds for all of them.
    Raises:
        KafkaUnavailableError: Kafka does not answer.
    """
    until = time.monotonic() + timeout_s
    asked = shared_ends(settings)
    try:
        ends = {place: asked.end(*place, committed=False) for place in places}
        return {place: end.result(max(_LEAST_S, until - time.monotonic())) for place, end in ends.items()}
    except TimeoutError as error:
        raise KafkaUnavailableError(f"The ends of the journal were not returned within {timeout_s:g} s.") from error
    finally:
        leave_ends(asked)


def appended_ms(
    settings: Settings, places: Mapping[tuple[str, int], int], timeout_s: float
) -> dict[tuple[str, int], int]:
    """When the first record at or behind each position was stored, milliseconds UTC; none if not read in time.

    Args:
        places: positions by journal topic and partition; 0: its beginning.
        timeout_s: seconds for all of them.
    Raises:
        KafkaUnavailableError: Kafka does not answer.
    """
    found: dict[tuple[str, int], int] = {}
    if not places:
        return found
    # From 0 or the first offset behind it: a client just made waits half a second for an answer which one that is.
    consumer = make_consumer(settings, ErrorLog(), role="ends", **{"auto.offset.reset": "earliest"})
    until = time.monotonic() + timeout_s
    try:
        consumer.assign([TopicPartition(*place, offset_of(at)) for place, at in places.items()])
        while len(found) < len(places) and (left := until - time.monotonic()) > 0:
            message = consumer.poll(left)
            if message is None or message.error() is not None:
                continue
            place = str(message.topic()), int(message.partition() or 0)
            if (message.offset() or 0) >= offset_of(places[place]):
                found.setdefault(place, message.timestamp()[1])
        return found
    except KafkaException as error:
        raise KafkaUnavailableError(f"The journal could not be read: {error.args[0].str()}.") from error
    finally:
        consumer.close()
