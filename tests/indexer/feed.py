"""What the stream leaves behind, without Spark: rows in the lake, states and outcomes in their topics, then the marks.

The steps stand in the stream's own order, and a batch can be left unfinished after any of them, as a crash leaves it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer

from metajournal.domains.catalog.urns import dataset
from metajournal.indexer.connection import make_client
from metajournal.indexer.documents import document_id
from metajournal.indexer.shown import read_shown
from metajournal.lake.columns import JOURNAL
from metajournal.lake.entities import rows_to_arrow
from metajournal.lake.tables import Lake, Reached
from metajournal.producers.topics import ensure_topics
from metajournal.rules.documents import state_document
from metajournal.rules.entity import EntityRow
from metajournal.schemas.hashing import canonical_json, partition_of
from metajournal.schemas.positions import behind, position
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from tests.index import index_holds
from tests.journals import Filled

PARTITIONS: Final = 4
_TENANTS: Final = ("default", "other")
_EPOCH_MS: Final = 1_760_000_000_000
_WORDS: Final = ("orders", "Café", "customerOrders", "東京", "raw-events", "x/y", "it's", "a%b", "Ångström", "2024_Q1")


class Feed:
    """Writes batches of rows; `model` is what index and lake must hold."""

    def __init__(self, settings: Settings, chance: random.Random) -> None:
        names = settings.journal.topics
        self.journal, self.state, self.outcomes = (
            names.journal("catalog"),
            names.state("catalog"),
            names.outcomes("catalog"),
        )
        self._settings = settings
        self._chance = chance
        ensure_topics(settings)
        self._filled = Filled(settings)
        self._producer = Producer({**settings.kafka, "enable.idempotence": True})
        self.lake = Lake(settings.lake.path)
        self.lake.create()
        self._ends = dict.fromkeys(range(PARTITIONS), 0)
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self.model: dict[tuple[str, str], dict[str, Any]] = {}
        self._published: list[tuple[str, int, int]] = []
        self._lock = threading.Lock()

    def rows(self, count: int, entities: int = 500) -> list[EntityRow]:
        """Random new rows of random entities, some of them deletions."""
        return [self._row(self._chance.randrange(entities)) for _ in range(count)]

    def _row(self, number: int) -> EntityRow:
        named = Urn.parse(dataset(f"ns{number % 3}", f"{_WORDS[number % len(_WORDS)]} {number}"))
        tenant = _TENANTS[number % len(_TENANTS)]
        partition = partition_of(f"{tenant}/{named.aggregate}".encode(), PARTITIONS)
        place = position(1, self._next[partition])
        self._next[partition] += 1 + self._chance.randrange(2)
        gone = self._chance.random() < 0.1
        note = " ".join(self._chance.choices(_WORDS, k=self._chance.randrange(1, 9)))
        user = {} if gone else {"note": note, "n": str(place)}
        tags = () if gone else tuple(sorted({*self._chance.choices(_WORDS, k=2)}))
        head = (tenant, str(named), named.kind, named.namespace, named.name, str(named.aggregate))
        time_ms = _EPOCH_MS + number
        identity = f"01900000-0000-7000-8000-{number:012x}"
        return EntityRow(
            *head, place, 0, time_ms, time_ms, identity, None, gone, None, dict(sorted(user.items())), tags, {}, ()
        )

    def batch(self, rows: Sequence[EntityRow], *, steps: int = 4) -> None:
        """Append rows, publish states, publish outcomes, commit the journal; only the first of these steps."""
        placed = [(row, self._partition(row)) for row in rows]
        marks = {(self.journal, partition): position(1, self._next[partition]) for partition in range(PARTITIONS)}
        reached = Reached(marks, {}, {"catalog": "rules"})
        for (topic, partition), mark in marks.items():
            self._filled.up_to(topic, partition, mark)
        self.lake.tables["entities"].append(
            rows_to_arrow((row, "catalog", partition) for row, partition in placed), reached
        )
        for row, partition in placed:
            state = state_document(row, partition)
            with self._lock:
                self.model[row.tenant, row.urn] = state
                self._published.append((document_id(row.tenant, row.urn), partition, row.logical_timestamp))
            if steps > 1:
                self._producer.produce(self.state, canonical_json(state), f"{row.tenant}/{row.urn}", partition)
                self._ends[partition] += 1
        self._producer.flush()
        if steps > 2:
            self._say(marks)
        if steps > 3:
            self.lake.journal.append(_journal_rows(self.journal, placed), reached)

    def other_domain(self, name: str, partition: int, mark: int) -> tuple[str, int]:
        """Have the rows of another domain's batch, which is not finished, stand in the lake; its partition."""
        place = (self._settings.journal.topics.journal(name), partition)
        self.lake.tables["entities"].append(rows_to_arrow(()), Reached({place: mark}, {}, {name: "rules"}))
        return place

    def starts_over(self) -> None:
        """The state topic has been made anew: it is empty."""
        self._ends = dict.fromkeys(range(PARTITIONS), 0)

    @staticmethod
    def _partition(row: EntityRow) -> int:
        return partition_of(f"{row.tenant}/{row.aggregate}".encode(), PARTITIONS)

    def _say(self, marks: dict[tuple[str, int], int]) -> None:
        for (topic, partition), to in marks.items():
            ends = {self.state: {str(partition): self._ends[partition]}}
            outcome = {"topic": topic, "partition": partition, "from": 0, "to": to, "verdicts": [], "ends": ends}
            self._producer.produce(
                self.outcomes, canonical_json({**outcome, "system_time": _EPOCH_MS}), f"{topic}/{partition}", partition
            )
        self._producer.flush()

    @property
    def marks(self) -> dict[tuple[str, int], int]:
        """How far the newest batch goes."""
        reached = {(self.journal, partition): position(1, self._next[partition]) for partition in range(PARTITIONS)}
        return {key: mark for key, mark in reached.items() if mark > position(1, 0)}

    def lacking(self) -> dict[tuple[str, int], int]:
        """What searches do not see yet of all that was published."""
        client = make_client(self._settings)
        try:
            return behind(read_shown(client, self._settings.elasticsearch.index).vector, self.marks)
        finally:
            client.close()

    def assert_shown_is_searchable(self) -> None:
        """Whatever the vector says is shown, a search finds: each document at least as new as below the vector."""
        client = make_client(self._settings)
        try:
            vector = read_shown(client, self._settings.elasticsearch.index).vector
        finally:
            client.close()
        documents = index_holds(self._settings)
        with self._lock:
            published = list(self._published)
        for name, partition, version in published:
            if version < vector.get((self.journal, partition), 0):
                indexed = documents.get(name, {"version": None})["version"]
                assert indexed is not None, f"{name} is not found, the vector is beyond {version}"
                assert indexed >= version, f"{name} is found at {indexed}, the vector is beyond {version}"

    def shown(self) -> bool:
        """Whether searches see everything that was published (not: an error of Elasticsearch, which is "not yet")."""
        try:
            return not self.lacking()
        except Exception as error:
            raise AssertionError(f"the index does not answer: {error}") from error

    def expected(self) -> dict[str, dict[str, Any]]:
        """The whole index, as `index_holds` gives it."""
        return {
            document_id(tenant, urn): {"entity": state, "version": state["logical_timestamp"]}
            for (tenant, urn), state in self.model.items()
        }


def _journal_rows(topic: str, placed: Sequence[tuple[EntityRow, int]]) -> pa.Table:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "topic": topic,
            "journal_partition": partition,
            "logical_timestamp": row.logical_timestamp,
            "system_date": now.date(),
            "system_time": now,
            "append_time": now,
            "outcome": "accepted",
        }
        for row, partition in placed
    ]
    return pa.Table.from_pylist(rows, schema=JOURNAL)
