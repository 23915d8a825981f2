"""Subscriptions over a client of Kafka that is none: its records are at hand, and what it does is what a test says."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition

from metajournal.consumers import intake
from metajournal.consumers.intake import Intake
from metajournal.consumers.ledger import Ledger
from metajournal.consumers.reading import Reading
from metajournal.consumers.starts import Start
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.settings import Settings
from tests.consumers.wire import BEGAN_MS, START, Event, change

SETTINGS = Settings()
NAMES = SETTINGS.journal.topics
EPOCHS = Epochs({NAMES.journal("catalog"): TopicEpoch(NAMES.journal("catalog"), 1, "id", 1)})
URN = "dataset:default/a"


class Record(NamedTuple):
    """A change record of the catalog's change topic, as the stream publishes it."""

    at: int
    place: int
    """The number of its event in a journal partition."""
    domain: str = "catalog"
    epoch: int = 1

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return NAMES.changes("catalog")

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, BEGAN_MS

    def key(self) -> bytes:
        return f"default/{URN}".encode()

    def value(self) -> bytes:
        return json.dumps(change(Event(0, self.place))).encode()

    def headers(self) -> list[tuple[str, bytes]]:
        identity = f"{NAMES.journal(self.domain)}/0/{self.epoch * START + self.place}/0"
        return [("ce_id", identity.encode()), ("ce_type", b"t"), ("ce_subject", URN.encode())]


class Client:
    """A consumer whose records have all arrived.

    Attributes:
        on_poll: called once, in the next poll, as librdkafka calls back.
        answers: whether a broker answers commits.
        committed: what was committed, last.
    """

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records = deque(records)
        self.on_poll: Callable[[], None] | None = None
        self.on_commit: Callable[[Any, list[TopicPartition]], None] = lambda *_: None
        self.answers = True
        self.committed: int | None = None
        self.is_paused = False
        self._sent: list[TopicPartition] = []

    def assign(self, partitions: list[TopicPartition]) -> None: ...

    def pause(self, partitions: list[TopicPartition]) -> None:
        assert partitions
        self.is_paused = True

    def resume(self, partitions: list[TopicPartition]) -> None:
        assert partitions
        self.is_paused = False

    def poll(self, pause_s: float) -> Record | None:
        call, self.on_poll = self.on_poll, None
        if call is not None:
            call()
        sent, self._sent = self._sent, []
        if sent and self.answers:
            self.on_commit(None, sent)
        return next(iter(self.consume(1, pause_s)), None)

    def consume(self, most: int, pause_s: float) -> list[Record]:
        count = 0 if self.is_paused else min(most, len(self.records))
        return [self.records.popleft() for _ in range(count)]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        self.committed = offsets[0].offset
        if asynchronous:
            self._sent = offsets
        return None if asynchronous else offsets

    def list_topics(self, topic: str, timeout: float) -> None: ...

    def close(self) -> None: ...


def over(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    """Have subscriptions read partition 0 of their first topic from its beginning, by a client."""

    def made(settings: Settings, errors: object, **options: Any) -> Client:
        client.on_commit = options["on_commit"]
        return client

    def opened(reader: Intake) -> None:
        reader.targets = dict.fromkeys(reader.targets, 1)
        reader._begin(readings(len(client.records)))

    monkeypatch.setattr(intake, "make_consumer", made)
    monkeypatch.setattr(Intake, "_open", opened)


def readings(end: int) -> dict[tuple[str, int], Reading]:
    """What a member is given."""
    place = NAMES.changes("catalog"), 0
    reading = Reading(place, Start(0), Ledger(), end)
    reading.sent = reading.kept = 0
    return {place: reading}
