"""Reading change topics, the simple form: one consumer, no group, each change once.

Job: find where to start, drop what the stream published twice, and hand out changes. Left to others: groups that keep
their position between runs, filters (the subscriptions); what a record means (rules/documents).
Invariant: within a journal partition changes come in (position, seq) order and none comes twice; a start that is no
longer in the topic is an error, never a silent later start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from ..producers.kafka import ErrorLog, make_admin, make_consumer
from ..producers.topics import Epochs
from ..schemas.errors import DecodeError, InputError, KafkaUnavailableError, PositionExpired
from ..schemas.kinds import SERVED_DOMAINS
from ..schemas.positions import Position
from ..schemas.settings import Settings
from ..schemas.topics import TopicNames

_POLL_S: Final = 0.2
_LOOK_UP_S: Final = 10.0
Scope = Literal["USER", "SYSTEM"]


@dataclass(frozen=True, slots=True)
class Change:
    """One change record.

    Attributes:
        urn: the entity that changed.
        position: the event that changed it.
        seq: number of the row among those that the event changed.
        scope: whose metadata changed, USER or SYSTEM.
        type: CloudEvents type of the record.
        time: system_time of the event, milliseconds UTC.
        record: the change record itself.
        partition: partition of the change topic that it was read from.
    """

    urn: str
    position: Position
    seq: int
    scope: Scope
    type: str
    time: int
    record: dict[str, Any]
    partition: int


def read_changes(
    settings: Settings,
    epochs: Epochs,
    domain: str = "catalog",
    *,
    since: Position | None = None,
    timeout_s: float | None = None,
    limit: int | None = None,
) -> Iterator[Change]:
    """Changes of a domain; the start is fixed by this call, not by the first iteration.

    Args:
        settings: how to reach Kafka, topic names.
        epochs: the journal topics as `check_topics` found them.
        domain: a served domain.
        since: begin after this event; the other partitions begin at its append time. None: what comes from now on.
        timeout_s: the iteration ends when no change came for so many seconds; None: never.
        limit: the iteration ends after so many changes; None: never.
    Raises:
        InputError: the domain is not served, or `since` is no position of its journal.
        PositionExpired: changes since then are no longer in the topic.
        KafkaUnavailableError: no broker answers.
    """
    if domain not in SERVED_DOMAINS:
        raise InputError(f"There are no changes of {domain!r}.", hint=f"Served: {', '.join(SERVED_DOMAINS)}.")
    names = settings.journal.topics
    journal = names.journal(domain)
    if since is not None and (since.topic != journal or not 0 <= since.partition < epochs[journal].partitions):
        raise InputError(f"{since} is no position of {journal}.", hint="Give a position as its receipt prints it.")
    errors = ErrorLog()
    try:
        consumer = make_consumer(settings, errors, role="changes", **{"enable.partition.eof": True})
        targets = [(topic, one) for topic in _topics(names, domain) for one in range(epochs[journal].partitions)]
        consumer.assign(_starts(settings, consumer, targets, _append_time(consumer, epochs, since)))
    except KafkaException as error:
        raise KafkaUnavailableError(f"Changes of {domain} cannot be read: {error.args[0].str()}.") from error
    return _Reader(consumer, errors, names, since).changes(timeout_s, limit)


def _topics(names: TopicNames, domain: str) -> list[str]:
    return [names.changes(domain), *([names.changes_system] if domain == "catalog" else [])]


def _append_time(consumer: Consumer, epochs: Epochs, since: Position | None) -> int | None:
    """Append time of a position's record, ms; None: begin at the end."""
    if since is None:
        return None
    place = TopicPartition(since.topic, since.partition, since.offset)
    low, high = consumer.get_watermark_offsets(place, timeout=_LOOK_UP_S)
    if since.epoch != epochs[since.topic].epoch or since.offset < low:
        raise PositionExpired(f"The event at {since} is no longer in the journal topic.", earliest=low)
    if since.offset >= high:
        raise InputError(f"There is no event at {since} yet.", hint="Give a position as its receipt prints it.")
    consumer.assign([place])
    deadline = time.monotonic() + _LOOK_UP_S
    while time.monotonic() < deadline:
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            return int(message.timestamp()[1])
    raise KafkaUnavailableError(f"The event at {since} could not be read within {_LOOK_UP_S:g} s.")


def _starts(
    settings: Settings, consumer: Consumer, targets: list[tuple[str, int]], time_ms: int | None
) -> list[TopicPartition]:
    asked = [TopicPartition(topic, partition, time_ms or 0) for topic, partition in targets]
    ends = {target: consumer.get_watermark_offsets(TopicPartition(*target), timeout=_LOOK_UP_S) for target in targets}
    if time_ms is None:
        return [TopicPartition(topic, partition, ends[topic, partition][1]) for topic, partition in targets]
    found = consumer.offsets_for_times(asked, timeout=_LOOK_UP_S)
    starts = []
    for one in found:
        low, high = ends[one.topic, one.partition]
        offset = one.offset if one.offset >= 0 else high
        # What was before `low` is gone. It matters only if it may have been written after the asked time, which
        # deletion by age excludes for times within the retention.
        if 0 < low == offset and time_ms < time.time() * 1000 - _retention_ms(settings, one.topic):
            raise PositionExpired(
                f"Changes since then are no longer in {one.topic}, partition {one.partition}.", earliest=low
            )
        starts.append(TopicPartition(one.topic, one.partition, offset))
    return starts


def _retention_ms(settings: Settings, topic: str) -> float:
    admin: AdminClient = make_admin(settings, ErrorLog())
    resource = ConfigResource(ResourceType.TOPIC, topic)
    [future] = admin.describe_configs([resource], request_timeout=_LOOK_UP_S).values()
    kept = int(future.result()["retention.ms"].value)
    return float("inf") if kept < 0 else float(kept)


class _Reader:
    """One pass over the change topics."""

    def __init__(self, consumer: Consumer, errors: ErrorLog, names: TopicNames, since: Position | None) -> None:
        self._consumer = consumer
        self._errors = errors
        self._names = names
        self._since = since
        self._reached: dict[tuple[str, str, int], tuple[int, int]] = {}
        """(position, seq) reached, by change topic, journal topic and partition."""

    def changes(self, timeout_s: float | None, limit: int | None) -> Iterator[Change]:
        given, quiet_since = 0, time.monotonic()
        try:
            while limit is None or given < limit:
                message = self._consumer.poll(_POLL_S if timeout_s is None else min(_POLL_S, timeout_s))
                change = None if message is None else self._change(message)
                if change is not None:
                    given += 1
                    yield change
                    quiet_since = time.monotonic()
                elif timeout_s is not None and time.monotonic() - quiet_since >= timeout_s:
                    self._raise_if_away(quiet_since)
                    return
        finally:
            self._consumer.close()

    def _raise_if_away(self, since: float) -> None:
        said = self._errors.since(since)
        if said is not None:
            raise KafkaUnavailableError(f"Changes cannot be read: {said}.")

    def _change(self, message: Message) -> Change | None:
        """The change in a message; None where it was handed out before, or is no record."""
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF or error.retriable():
                return None
            raise KafkaUnavailableError(f"Changes cannot be read: {error.str()}.")
        change = self._parsed(message)
        position = change.position
        key = (message.topic() or "", position.topic, position.partition)
        if (position.value, change.seq) <= self._reached.get(key, self._before(position)):
            return None
        self._reached[key] = (position.value, change.seq)
        return change

    def _before(self, position: Position) -> tuple[int, int]:
        """What counts as reached before anything was read of a journal partition: all of `since` and below."""
        since = self._since
        if since is None or (since.topic, since.partition) != (position.topic, position.partition):
            return (-1, -1)
        return (since.value, 1 << 62)

    def _parsed(self, message: Message) -> Change:
        found: dict[str, Any] = dict(message.headers() or ())
        headers = {key: value.decode() for key, value in found.items() if isinstance(value, bytes)}
        try:
            topic, partition, value, seq = headers["ce_id"].rsplit("/", 3)
            return Change(
                urn=headers["ce_subject"],
                position=Position(topic, int(partition), int(value)),
                seq=int(seq),
                scope="SYSTEM" if message.topic() == self._names.changes_system else "USER",
                type=headers["ce_type"],
                time=message.timestamp()[1],
                record=json.loads(message.value() or b""),
                partition=message.partition() or 0,
            )
        except (KeyError, ValueError) as error:  # also a text that is not UTF-8
            place = f"{message.topic()}/{message.partition()} offset {message.offset()}"
            raise DecodeError(f"The record at {place} is no change record: {error!r}.") from error
