"""Puts an archived installation into fresh services: topics, lake and index as they were.

Every record gets the partition, offset and timestamp that it had. The broker gives offsets in the order of arrival, so
what transactions took is taken by transactions again; it stamps records of a journal topic itself, so these are written
while their topic takes the writer's time, which is set back afterwards. The one thing that cannot be the same is a
topic's id: the records of the epochs topic get the new ones. Topics that expired a week after they were written keep
their records here (`retention.ms`, which is the operator's to set).

What stands under the archive's names before is deleted, so an archive may be restored again and again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from elasticsearch import Elasticsearch

from metajournal.indexer.connection import make_client
from metajournal.indexer.mapping import POSITIONS_ID
from metajournal.producers.kafka import MESSAGE_BYTES, ErrorLog, make_consumer
from metajournal.schemas.settings import Settings
from tests.new_topics import make_topics, remake_topics
from tests.topics import offsets
from tests.upgrades.archive import Archive, Index, Partition, Record, Topic
from tests.wait import eventually

_TIME: Final = "message.timestamp.type"
_WRITERS: Final = "CreateTime"
_KEPT: Final = {"retention.ms": "-1"}
Place = tuple[str, int]
Stretch = tuple[list[Record], int]


def restore(archive: Archive, settings: Settings) -> None:
    """Put all of an archive in place.

    Args:
        settings: with the archive's names (`settings_for`) and a lake's path at which nothing is.
    """
    restore_topics(archive, settings)
    archive.unpack_lake(Path(settings.lake.path))
    restore_index(archive.index(), settings)


def restore_topics(archive: Archive, settings: Settings, holds: Callable[[str], bool] = lambda topic: True) -> None:
    """Make the topics of an archive, and fill those that `holds` names; the others stay empty."""
    topics = archive.topics()
    servers = {"bootstrap.servers": settings.kafka["bootstrap.servers"]}
    admin = AdminClient({**servers, "log_level": 0})
    _make(admin, topics)
    epochs = settings.journal.topics.epochs
    full = [_with_new_ids(admin, one) if one.name == epochs else one for one in topics if holds(one.name)]
    _Filling(settings).fill({(one.name, number): some for one in full for number, some in enumerate(one.partitions)})
    for topic, restored in zip(full, capture(settings, {one.name: one.config for one in full}), strict=True):
        assert restored == topic, f"{topic.name} is not as it was"
    _set_back(admin, topics)


def _make(admin: AdminClient, topics: Sequence[Topic]) -> None:
    there = admin.list_topics(timeout=10).topics
    new = [
        NewTopic(one.name, len(one.partitions), 1, config={**one.config, _TIME: _WRITERS, **_retention(one)})
        for one in topics
    ]
    remade = [one for one in new if one.topic in there]
    if remade:
        remake_topics(admin, remade)
    make_topics(admin, [one for one in new if one.topic not in there])


def _retention(topic: Topic) -> Mapping[str, str]:
    return _KEPT if "retention.ms" in topic.config else {}


def _with_new_ids(admin: AdminClient, topic: Topic) -> Topic:
    """The epochs topic with the ids that the topics have now."""

    def renewed(record: Record) -> Record:
        said = json.loads(record.value or b"null")
        if not (isinstance(said, dict) and "topic_id" in said):
            return record
        said["topic_id"] = _id_of(admin, said["topic"])
        return record._replace(value=json.dumps(said).encode())

    partitions = (Partition(tuple(map(renewed, one.records)), one.end) for one in topic.partitions)
    return topic._replace(partitions=tuple(partitions))


def _id_of(admin: AdminClient, topic: str) -> str:
    return str(admin.describe_topics(TopicCollection([topic]))[topic].result().topic_id)


def _set_back(admin: AdminClient, topics: Sequence[Topic]) -> None:
    """From now on the broker's clock again, where it was."""
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            one.name,
            incremental_configs=[ConfigEntry(_TIME, one.config[_TIME], incremental_operation=AlterConfigOpType.SET)],
        )
        for one in topics
        if one.config[_TIME] != _WRITERS
    ]
    for future in admin.incremental_alter_configs(resources).values():
        future.result()

    def as_it_was() -> bool:
        found = admin.describe_configs([ConfigResource(ResourceType.TOPIC, one.name) for one in topics])
        config = {resource.name: future.result() for resource, future in found.items()}
        return all(config[one.name][_TIME].value == one.config[_TIME] for one in topics)

    eventually(as_it_was, 20, "the topics' configuration")


class _Filling:
    """Fills topics, all partitions side by side: each transaction takes a while, and may hold many."""

    def __init__(self, settings: Settings) -> None:
        servers = {
            "bootstrap.servers": settings.kafka["bootstrap.servers"],
            "message.max.bytes": MESSAGE_BYTES,
            "linger.ms": 0,
            "log_level": 0,
        }
        self._plain = Producer({**servers, "enable.idempotence": True})
        self._transactional = Producer({**servers, "transactional.id": f"restore-{uuid.uuid4()}"})
        self._transactional.init_transactions(30)
        self._ends = make_consumer(settings, ErrorLog(), role="tests", **{"isolation.level": "read_uncommitted"})

    def fill(self, partitions: Mapping[Place, Partition]) -> None:
        ahead = {place: list(stretches(one)) for place, one in partitions.items()}
        try:
            for number in range(max(map(len, ahead.values()), default=0)):
                self._round({place: some[number] for place, some in ahead.items() if number < len(some)})
        finally:
            self._ends.close()

    def _round(self, some: Mapping[Place, Stretch]) -> None:
        """Write a stretch of each partition, with what stands behind it.

        The marker that ends a transaction takes one offset; records of an aborted one take the others.
        """
        self._write(self._plain, {place: one[:-1] if gap == 1 else one for place, (one, gap) in some.items()})
        last = {place: one[-1:] for place, (one, gap) in some.items() if gap == 1}
        self._transact(last, self._transactional.commit_transaction)
        nothing = {place: _fillers(one, gap - 1) for place, (one, gap) in some.items() if gap > 1}
        self._transact(nothing, self._transactional.abort_transaction)

    def _write(self, producer: Producer, records: Mapping[Place, Sequence[Record]]) -> None:
        written: dict[Place, list[int | None]] = {place: [] for place in records}

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            written[message.topic() or "", message.partition() or 0].append(message.offset())

        for (topic, partition), some in records.items():
            for one in some:
                headers: Any = list(one.headers)
                producer.produce(
                    topic, one.value, one.key, partition, delivered, timestamp=one.time_ms, headers=headers
                )
        assert producer.flush(30) == 0
        wanted = {place: [one.offset for one in some] for place, some in records.items()}
        assert written == wanted, "others write to these topics too"

    def _transact(self, records: Mapping[Place, Sequence[Record]], end: Callable[[float], None]) -> None:
        if not records:
            return
        self._transactional.begin_transaction()
        self._write(self._transactional, records)
        end(30)
        for place, some in records.items():
            eventually(partial(self._ends_at, place, some[-1].offset + 2), 20, f"the marker in {place}")

    def _ends_at(self, place: Place, end: int) -> bool:
        _, high = self._ends.get_watermark_offsets(TopicPartition(*place), timeout=10)
        return bool(high == end)


def _fillers(before: Sequence[Record], count: int) -> list[Record]:
    """Records that nobody will read."""
    start = before[-1].offset + 1 if before else 0
    return [Record(start + number, 1, b"filler", b"", ()) for number in range(count)]


def stretches(partition: Partition) -> Iterator[Stretch]:
    """Records that stand side by side, and how many offsets behind them hold none."""
    stretch: list[Record] = []
    free = 0
    for offset, record in [*((one.offset, one) for one in partition.records), (partition.end, None)]:
        if offset > free:
            yield stretch, offset - free
            stretch = []
        free = offset + 1
        stretch += [] if record is None else [record]
    if stretch:
        yield stretch, 0


def capture(settings: Settings, configs: Mapping[str, Mapping[str, str]]) -> list[Topic]:
    """Topics as the broker holds them: all their committed records.

    Args:
        configs: the topics' configurations by their names.
    """
    ends = _ends(settings, configs)
    records: dict[Place, list[Record]] = {place: [] for place in ends}
    for message in _read(settings, ends):
        records[message.topic() or "", message.partition() or 0].append(_record(message))
    partitions: dict[str, list[Partition]] = {name: [] for name in configs}
    for (name, number), end in sorted(ends.items()):
        partitions[name].append(Partition(tuple(records[name, number]), end))
    return [Topic(name, config, tuple(partitions[name])) for name, config in configs.items()]


def _ends(settings: Settings, names: Iterable[str]) -> dict[Place, int]:
    """The end offset of each partition, open transactions included."""
    consumer = make_consumer(settings, ErrorLog(), role="tests", **{"isolation.level": "read_uncommitted"})
    try:
        known = consumer.list_topics(timeout=10).topics
        places = [(name, number) for name in names for number in known[name].partitions]
        found = {place: offsets(consumer, *place) for place in places}
    finally:
        consumer.close()
    assert all(low == 0 for low, _ in found.values()), "topics have lost records"
    return {place: high for place, (_, high) in found.items()}


def _read(settings: Settings, ends: Mapping[Place, int]) -> Iterator[Message]:
    """Committed records up to the ends; behind the last one of a partition may stand markers of transactions."""
    waiting = {place: end for place, end in ends.items() if end}
    consumer = make_consumer(settings, ErrorLog(), role="tests", **{"enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(*place, 0) for place in waiting])
        while waiting:
            message = consumer.poll(40)
            assert message is not None, f"the ends of {waiting} are not reached"
            error = message.error()
            if error is None:
                yield message
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                place = (message.topic() or "", message.partition() or 0)
                if (message.offset() or 0) >= waiting.get(place, 0):
                    waiting.pop(place, None)
    finally:
        consumer.close()


def _record(message: Message) -> Record:
    headers: Any = message.headers() or []
    return Record(message.offset() or 0, message.timestamp()[1], message.key(), message.value(), tuple(headers))


def restore_index(index: Index, settings: Settings) -> None:
    """Make an archived index, with its documents under their versions."""
    client = make_client(settings)
    try:
        for stale in client.indices.get(index=f"{settings.elasticsearch.index}-*").body:
            client.indices.delete(index=stale)
        client.indices.create(
            index=index.name,
            aliases=dict(index.aliases),
            settings={"index": dict(index.settings)},
            mappings=dict(index.mappings),
        )
        operations: list[Any] = []
        for name, version, document in index.documents:
            operations += [{"index": {"_id": name, "version": version, "version_type": "external"}}, document]
        _sent(client, index.name, operations)
        client.index(index=index.name, id=POSITIONS_ID, document=index.positions)
        client.indices.refresh(index=index.name)
    finally:
        client.close()


def _sent(client: Elasticsearch, name: str, operations: Sequence[Any]) -> None:
    if operations:
        answer = client.bulk(index=name, operations=operations)
        assert not answer["errors"], answer
