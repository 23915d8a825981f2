"""Writing the records of the journal table back into an empty topic, each at the offset that it had.

Key, value, headers and append time are those of the table. Where the lost topic had no record (a transaction's marker,
or what was aborted) stands one that only fills the offset. A partition always holds a first part of what it is to hold,
since one idempotent producer appends in order and leaves no gap: so after a kill its end says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from ...lake.tables import Lake
from ...producers.kafka import ErrorLog, make_producer
from ...producers.recorded.restored import GAP_HEADER
from ...producers.topics import TopicEpoch
from ...schemas.errors import KafkaUnavailableError
from ...schemas.positions import offset_of
from ...schemas.settings import Settings
from ..replay import journal_slices

_SLICE: Final = 20_000
_POLL_S: Final = 0.25
_SERVE_EVERY: Final = 5_000
_PRODUCER: Final = {
    "client.id": "metajournal-restore",
    "enable.gapless.guarantee": True,
    "delivery.timeout.ms": 120_000,
    "linger.ms": 20,
    "compression.type": "lz4",
}
_GAP: Final = [(GAP_HEADER, b"")]
Written = tuple[int, bytes | None, bytes | None, Any, int]
"""Offset, key, value, headers and append time (milliseconds UTC) of a record."""


def refill(
    settings: Settings,
    lake: Lake,
    target: TopicEpoch,
    ends: dict[int, int],
    say: Callable[[int], None] = lambda records: None,
) -> None:
    """Write what a topic lacks, and return when the broker has all of it.

    Args:
        lake: its journal table.
        target: what is recorded of the topic once it is restored.
        ends: the offset at which each partition ends now.
        say: told the number of offsets that were written since it was last told.
    Raises:
        KafkaUnavailableError: the broker did not acknowledge; the next call goes on.
    """
    failures: list[str] = []
    producer = make_producer(settings, ErrorLog(), **_PRODUCER)

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error.str())

    def check() -> None:
        if failures:
            raise KafkaUnavailableError(
                f"Writing to {target.topic} failed: {failures[0]}.",
                hint="Run `metajournal restore topics` again: it goes on where it stopped.",
            )

    try:
        for partition, end in ends.items():
            written = 0
            for number, (_, key, value, headers, time_ms) in enumerate(_records(lake, target, partition, end), 1):
                while True:
                    try:
                        producer.produce(
                            target.topic, value, key, partition, delivered, timestamp=time_ms, headers=headers
                        )
                        break
                    except BufferError:
                        producer.poll(_POLL_S)
                if number % _SERVE_EVERY == 0:
                    producer.poll(0)
                    check()
                    say(number - written)
                    written = number
            while producer.flush(_POLL_S):
                check()
            check()
            say(target_end(target, partition) - end - written)
    except KafkaException as error:
        check()
        raise KafkaUnavailableError(f"Writing to {target.topic} failed: {error.args[0].str()}.") from error
    finally:
        producer.purge()
        producer.flush(_POLL_S)


def target_end(target: TopicEpoch, partition: int) -> int:
    """The offset at which the restored records of a partition end."""
    return offset_of(target.start(partition))


def _records(lake: Lake, target: TopicEpoch, partition: int, offset: int) -> Iterator[Written]:
    """What stands at each offset of a partition from one on, in order."""
    key, until, time_ms = (target.topic, partition), target_end(target, partition), 0
    start, end = target.position(partition, offset), target.start(partition)
    for _, rows in journal_slices(lake.journal.delta, key, start, end, _SLICE):
        for row in rows.select(["offset", "timestamp", "key", "value", "headers"]).to_pylist():
            row_ms = round(row["timestamp"].timestamp() * 1000)
            for gap in range(offset, row["offset"]):
                yield gap, None, None, _GAP, time_ms or row_ms
            headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
            offset, time_ms = row["offset"] + 1, row_ms
            yield row["offset"], row["key"], row["value"], headers, time_ms
    for gap in range(offset, until):
        yield gap, None, None, _GAP, max(time_ms, 1)
