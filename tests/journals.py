"""A journal topic that holds as much as tests say it does, for tests that publish what the stream would."""

from __future__ import annotations

from confluent_kafka import Producer

from metajournal.producers.kafka import ErrorLog, make_consumer
from metajournal.schemas.positions import offset_of
from metajournal.schemas.settings import Settings
from tests.topics import offsets


class Filled:
    """Journal topics whose partitions are filled, with records that nobody reads, up to given positions."""

    def __init__(self, settings: Settings) -> None:
        self._producer = Producer({**settings.kafka, "linger.ms": 0, "log_level": 0})
        self._consumer = make_consumer(settings, ErrorLog(), role="tests")
        for client in (self._producer, self._consumer):  # connected before a test counts seconds
            client.list_topics(timeout=10)
        self._ends: dict[tuple[str, int], int] = {}

    def up_to(self, topic: str, partition: int, position: int) -> None:
        """Have a partition end at a position, or behind it where it does already."""
        place, end = (topic, partition), offset_of(position)
        if self._ends.get(place, 0) >= end:
            return
        missing = end - offsets(self._consumer, *place)[1]
        for _ in range(missing):
            self._producer.produce(topic, b"", partition=partition)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0
        self._ends[place] = end
