"""Finding one event in the journal topics: for what the lake does not hold yet.

It reads what stands above some offsets and is not older than the event's own id says, at most for as long as it is
given. An event behind a unit that is still open is in the journal, though nobody is shown it before the unit ends: it
is waited for, and never called missing. Left to others: everything that is folded already, which the lake answers
without reading the journal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ..producers.kafka import ErrorLog, asked_again, make_consumer
from ..schemas.encoding.codec import decode_header_only
from ..schemas.errors import DecodeError, KafkaUnavailableError
from ..schemas.header import Header
from ..schemas.positions import EPOCH_SHIFT, Position, offset_of
from ..schemas.settings import Settings
from .ends import stored_ends

CLOCKS_MS: Final = 10 * 60_000
"""How far the clock of an emitter may be ahead of the broker's."""
_AT_ONCE: Final = 5_000
_POLL_S: Final = 0.2


class FoundEvent(NamedTuple):
    """An event in a journal topic. `append_time`: milliseconds UTC."""

    position: Position
    append_time: int
    header: Header


class Looked(NamedTuple):
    """What a look into the topics gave; `whole` is false where the time was over before their end."""

    events: list[FoundEvent]
    whole: bool


def find_event(
    settings: Settings,
    event_id: bytes,
    marks: Mapping[tuple[str, int], int],
    epochs: Mapping[str, int],
    *,
    since_ms: int,
    timeout_s: float,
) -> Looked:
    """Look for an event at and above the marks, and not before a time.

    Args:
        event_id: its 16 bytes.
        marks: for each journal partition the first position to look at.
        epochs: each journal topic's epoch.
        since_ms: when the event was made, milliseconds UTC; 0 where that is not known.
        timeout_s: seconds to look for it.
    Raises:
        KafkaUnavailableError: no broker answers.
    """
    deadline = time.monotonic() + timeout_s
    consumer = make_consumer(settings, ErrorLog(), role="finder")
    try:
        left = _ranges(settings, consumer, marks, max(0, since_ms - CLOCKS_MS), deadline)
        events = [
            _event_of(message, epochs)
            for message in _read(consumer, left, deadline)
            if event_id in (message.value() or b"")
        ]
        return Looked([event for event in events if event and event.header.event_id == event_id], not left)
    except KafkaException as error:
        raise KafkaUnavailableError(f"The journal topics cannot be read: {error.args[0].str()}.") from error
    finally:
        consumer.close()


def find_at(settings: Settings, position: Position, *, timeout_s: float) -> FoundEvent | None:
    """The event at a position; None where no record stands there, or its header cannot be read.

    Args:
        position: a position of one of the journal's partitions.
        timeout_s: seconds to read it.
    Raises:
        KafkaUnavailableError: no broker answers.
    """
    message = _message_at(settings, position, timeout_s)
    return None if message is None else _event_of(message, {position.topic: position.epoch})


def value_at(settings: Settings, position: Position, *, timeout_s: float) -> bytes | None:
    """The bytes of the record at a position; None where none stands there. Arguments and errors as `find_at`."""
    message = _message_at(settings, position, timeout_s)
    value: Any = None if message is None else message.value()
    return None if value is None else bytes(value)


def _message_at(settings: Settings, position: Position, timeout_s: float) -> Message | None:
    deadline = time.monotonic() + timeout_s
    consumer = make_consumer(settings, ErrorLog(), role="finder")
    place = position.topic, position.partition
    try:
        low, _ = _watermarks(consumer, place, deadline)
        high = stored_ends(settings, [place], _left_s(deadline))[place]
        left = {place: (position.offset, position.offset + 1)} if low <= position.offset < high else {}
        for message in _read(consumer, left, deadline) if left else ():
            if message.offset() == position.offset:
                return message
        if left:
            raise KafkaUnavailableError(
                f"{position} was not read within {timeout_s:g} s.",
                hint="Ask again in a moment: Kafka is slow, or a unit that was begun before is not committed yet.",
            )
        return None
    except KafkaException as error:
        raise KafkaUnavailableError(f"The journal topics cannot be read: {error.args[0].str()}.") from error
    finally:
        consumer.close()


def _ranges(
    settings: Settings, consumer: Consumer, marks: Mapping[tuple[str, int], int], since_ms: int, deadline: float
) -> dict[tuple[str, int], tuple[int, int]]:
    """First offset to read and the end, of the partitions that have anything to read."""
    # First: no time is told of what stands behind an open unit, so that is read from the unit on. Asked later, the unit
    # could have ended in between, and what stood behind it would be passed over.
    committed = {place: _watermarks(consumer, place, deadline) for place in marks}
    asked = [TopicPartition(*place, since_ms) for place in marks]
    times = asked_again(consumer, lambda: consumer.offsets_for_times(asked, timeout=_left_s(deadline)), deadline)
    begun = {(start.topic, start.partition): start.offset for start in times}
    ends = stored_ends(settings, marks, _left_s(deadline))
    ranges = {}
    for place, mark in marks.items():
        low, shown = committed[place]
        start = max(low, offset_of(mark), begun[place] if begun[place] >= 0 else shown)
        if start < ends[place]:
            ranges[place] = (start, ends[place])
    return ranges


def _watermarks(consumer: Consumer, place: tuple[str, int], deadline: float) -> tuple[int, int]:
    low, high = asked_again(
        consumer, lambda: consumer.get_watermark_offsets(TopicPartition(*place), timeout=_left_s(deadline)), deadline
    )
    return int(low), int(high)


def _left_s(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _read(consumer: Consumer, left: dict[tuple[str, int], tuple[int, int]], deadline: float) -> Iterator[Message]:
    """The records of the ranges; a partition that is read to its end goes out of them."""
    consumer.assign([TopicPartition(*place, start) for place, (start, _) in left.items()])
    while left and time.monotonic() < deadline:
        for message in consumer.consume(_AT_ONCE, _POLL_S):
            if message.error() is None:
                yield message
        # Positions, not records, tell where a partition is: it may end with the marker of a transaction.
        for partition in consumer.position([TopicPartition(*place) for place in left]):
            if partition.offset >= left[partition.topic, partition.partition][1]:
                del left[partition.topic, partition.partition]


def _event_of(message: Any, epochs: Mapping[str, int]) -> FoundEvent | None:
    try:
        header = decode_header_only(message.value())
    except DecodeError:
        return None
    value = (epochs[message.topic()] << EPOCH_SHIFT) + message.offset()
    return FoundEvent(Position(message.topic(), message.partition(), value), message.timestamp()[1], header)
