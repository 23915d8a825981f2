"""The stream on a real broker without Spark: its engine folds what stands in the journal topics into a real lake."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from metajournal.fold.records import SOURCE
from metajournal.lake.tables import Lake
from metajournal.producers.kafka import SHORT_READS, ErrorLog, make_consumer
from metajournal.producers.topics import Epochs, read_epochs
from metajournal.producers.verdicts import Outcome, OutcomeRecord, outcome_of
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.streaming.engine import Engine
from tests.streaming.harness import MemoryTopics


class BrokerStream:
    """Folds committed records when it is told to.

    Args:
        topics: what it publishes to; topics in memory where None.
    """

    def __init__(self, settings: Settings, topics: Any = None) -> None:
        self._settings = settings
        self.topics: Any = MemoryTopics() if topics is None else topics
        self.start()

    def start(self) -> None:
        """A new process: epochs and shelved positions are read anew."""
        self.epochs: Epochs = read_epochs(self._settings)
        self.lake = Lake(self._settings.lake.path)
        self.lake.include(self.epochs.domains)
        self.lake.create()
        self.engine = Engine(self._settings, self.epochs, self.lake, self.topics)

    def fold(self, most: int | None = None) -> int:
        """Fold what is committed now, at most so many records of each partition; gives their number."""
        consumer = make_consumer(self._settings, ErrorLog(), role="tests", **SHORT_READS)
        try:
            found, ends = _read(consumer, self.engine.starting_offsets(), most)
        finally:
            consumer.close()
        rows = [source_row(message) for key in found for message in found[key]]
        self.engine.run(pa.Table.from_pylist(rows, schema=SOURCE), ends)
        return len(rows)

    def outcomes(self) -> dict[Position, Outcome]:
        """What it said of each record of the journal table, as a receipt tells it."""
        spoken: dict[Position, list[Any]] = {}
        for (topic, _), records in self.topics.records.items():
            for one in records if ".outcomes." in topic else []:
                said = OutcomeRecord.parse(one.value or b"")
                spoken |= {Position(said.topic, said.partition, at): wire for at, wire in said.verdicts.items()}
        places = Lake(self._settings.lake.path).journal.query("topic, journal_partition, logical_timestamp", "true")
        judged = [Position(row["topic"], row["journal_partition"], row["logical_timestamp"]) for row in places]
        return {one: outcome_of(one, spoken.get(one)) for one in judged}


def _read(
    consumer: Consumer, offsets: dict[tuple[str, int], int], most: int | None
) -> tuple[dict[tuple[str, int], list[Message]], dict[tuple[str, int], int]]:
    """Records of each partition from an offset on, and the offset behind them."""
    found: dict[tuple[str, int], list[Message]] = {key: [] for key in offsets}
    ends, left = dict(offsets), set(offsets)
    consumer.assign([TopicPartition(*key, offset) for key, offset in offsets.items()])
    while left and most != 0:
        message = consumer.poll(40)
        assert message is not None
        error, key = message.error(), (str(message.topic()), int(message.partition() or 0))
        if key not in left:
            continue
        if error is None:
            found[key].append(message)
            ends[key] = (message.offset() or 0) + 1
            left -= {key} if len(found[key]) == most else set()
            continue
        assert error.code() == KafkaError._PARTITION_EOF, error
        ends[key] = max(ends[key], message.offset() or 0)
        left.remove(key)
    return found, ends


def source_row(message: Message) -> dict[str, Any]:
    """A record as Spark's Kafka source gives it."""
    headers: Any = message.headers() or []
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1] * 1000,
        "key": message.key(),
        "value": message.value(),
        "headers": [{"key": name, "value": value} for name, value in headers],
    }
