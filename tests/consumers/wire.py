"""What the stream publishes, as the stream publishes it: in batches, at least once, outcomes last.

A `Wire` is a stream without rules: it is given events and publishes their change and state records with the package's
own `Publisher`, and may crash in the middle of a batch, after which the batch, cut otherwise, is published again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from metajournal.fold.documents import Outgoing
from metajournal.producers.topics import wanted_topics
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.streaming.publish import Publisher
from tests.journals import Filled

START = 1 << 40
BEGAN_MS = int(time.time() * 1000) - 3_600_000
"""An hour ago: what is older than a week would be deleted by age."""


@dataclass(frozen=True)
class Event:
    """One journal event and the rows that it changes; its time follows from its offset."""

    partition: int
    offset: int
    urns: tuple[str, ...] = ("dataset:default/a",)
    scopes: tuple[str, ...] = ("USER", "SYSTEM")
    tenant: str = "default"
    tags: tuple[str, ...] = ()
    time_ms: int | None = None

    @property
    def value(self) -> int:
        return START + self.offset

    @property
    def system_time(self) -> int:
        return BEGAN_MS + self.offset if self.time_ms is None else self.time_ms


class Wire:
    """Publishes to the topics of an installation.

    Args:
        targets: number of partitions of the change and state topics, where they are not the journal's.
    """

    def __init__(self, settings: Settings, targets: int | None = None) -> None:
        self.names = settings.journal.topics
        self.journal = self.names.journal("catalog")
        counts = {one.topic: one.partitions for one in wanted_topics(settings)}
        for topic in (self.names.changes("catalog"), self.names.annotations_system, self.names.state("catalog")):
            counts[topic] = targets or counts[topic]
        self._publisher = Publisher(settings, counts, {}, lambda: False, lambda said: None)
        self._written = 0
        self._filled = Filled(settings)

    def records(self, event: Event) -> list[Outgoing]:
        found = []
        for seq, urn in enumerate(event.urns):
            for scope in event.scopes:
                topic = self.names.changes("catalog") if scope == "USER" else self.names.annotations_system
                found.append(self._record(topic, event, seq, urn, change(event)))
            found.append(self._record(self.names.state("catalog"), event, seq, urn, state(event, urn)))
        return found

    def _record(self, topic: str, event: Event, seq: int, urn: str, value: Any) -> Outgoing:
        headers: list[tuple[str, Any]] = [
            ("ce_specversion", b"1.0"),
            ("ce_source", f"/{self.journal}/{event.partition}".encode()),
            ("ce_id", f"{self.journal}/{event.partition}/{event.value}/{seq}".encode()),
            ("ce_type", b"metajournal.catalog.MetadataChangeRecord"),
            ("ce_subject", urn.encode()),
            ("ce_time", b"2015-09-03T20:00:00.000Z"),
            ("content-type", b"application/json"),
        ]
        key = f"{event.tenant}/{urn}".encode()
        return Outgoing(topic, event.partition, key, json.dumps(value).encode(), headers, event.system_time)

    def publish(self, events: Sequence[Event], *, only: int | None = None) -> None:
        """The records of some events; a stream that crashes gets no further than the first `only` of them."""
        for event in events:
            self._filled.up_to(self.journal, event.partition, event.value + 1)
        self._publisher.publish([one for event in events for one in self.records(event)][:only])

    def outcome(
        self, partition: int, start: int, end: int, verdicts: Sequence[Any] = (), *, written: int | None = None
    ) -> None:
        """The outcome record of [start, end), given as offsets."""
        self._written += 1
        self._filled.up_to(self.journal, partition, START + end)
        topics = (self.names.changes("catalog"), self.names.annotations_system, self.names.state("catalog"))
        ends = {topic: self._publisher.ends(topic, partition) for topic in topics}
        value = {
            "topic": self.journal,
            "partition": partition,
            "from": START + start,
            "to": START + end,
            "verdicts": [[START + offset, *rest] for offset, *rest in verdicts],
            "ends": {topic: {str(at): end} for topic, (at, end) in ends.items()},
            "system_time": BEGAN_MS + end - 1,
            "written": self._written if written is None else written,
        }
        key = f"{self.journal}/{partition}".encode()
        topic = self.names.outcomes("catalog")
        self._publisher.publish([Outgoing(topic, partition, key, json.dumps(value).encode(), [], BEGAN_MS + end)])

    def batch(self, events: Sequence[Event]) -> None:
        """A whole batch of consecutive events of any partitions, and its outcomes."""
        self.publish(events)
        for partition in sorted({one.partition for one in events}):
            offsets = [one.offset for one in events if one.partition == partition]
            self.outcome(partition, min(offsets), max(offsets) + 1)

    def position(self, event: Event) -> Position:
        return Position(self.journal, event.partition, event.value)


def change(event: Event) -> dict[str, Any]:
    """A change record that adds the event's tags."""
    nothing: dict[str, Any] = {"properties": {}, "tags": []}
    added = {"properties": {}, "tags": sorted(event.tags)}
    return {
        "previous": nothing,
        "updated": added,
        "changes": {"additions": added, "deletions": nothing},
        "targetId": {"type": "dataset", "namespace": "default", "id": "a"},
        "updateTime": event.system_time,
        "updater": "tests",
    }


def state(event: Event, urn: str) -> dict[str, Any]:
    """A state document with the event's tags."""
    return {
        "tenant": event.tenant,
        "urn": urn,
        "logical_timestamp": event.value,
        "deleted": False,
        "actor": "tests",
        "user": {"properties": {}, "tags": sorted(event.tags)},
        "system": {"properties": {}, "tags": []},
    }


def identities(events: Sequence[Event], scope: str) -> list[tuple[int, int, int]]:
    """(partition, offset, seq) of all records of a scope ("STATE": state records), in order per partition."""
    return [
        (one.partition, one.offset, seq)
        for one in events
        if scope == "STATE" or scope in one.scopes
        for seq in range(len(one.urns))
    ]
