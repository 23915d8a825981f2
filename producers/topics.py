"""The topics of an installation: made with the right configuration, and held against the record of their epochs.

Job: `ensure_topics` creates what is missing, `check_topics` says whether what is there is what the journal was written
to. Left to others: names (schemas/topics), the schemas topic's content (published).
Invariant: nobody writes to a journal topic that was made anew or got another number of partitions, because positions
and the order within an aggregate would silently change.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from ..schemas.errors import KafkaUnavailableError, TopicMismatchError
from ..schemas.registry import changes_of, owner_of_undeclared, served_domains
from ..schemas.settings import Settings
from .answers import Administrator
from .compacted import read_all, write_all
from .kafka import MESSAGE_BYTES

_DAY_MS: Final = 24 * 60 * 60 * 1000
_KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_WEEK: Final = {"cleanup.policy": "delete", "retention.ms": str(7 * _DAY_MS)}
_MONTH: Final = {"cleanup.policy": "delete", "retention.ms": str(30 * _DAY_MS)}
_COMPACT: Final = {"cleanup.policy": "compact"}
_BROKER_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
_WRITER_TIME: Final = {"message.timestamp.type": "CreateTime"}
_SIZE: Final = {"max.message.bytes": str(MESSAGE_BYTES)}
_STATE: Final = {"min.cleanable.dirty.ratio": "0.5"}
SHELVE: Final = "shelve/"
"""Before the position, in the key of a record that shelves it."""
_PAUSE_S: Final = 0.02
_MEANS: Final = "going on could break the order of an aggregate or lose what is already written"


@dataclass(frozen=True, slots=True)
class TopicEpoch:
    """What `<prefix>.epochs` records of one journal topic."""

    topic: str
    epoch: int
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Epochs(Mapping[str, TopicEpoch]):
    """The recorded journal topics by name, and the positions that an operator shelved."""

    topics: Mapping[str, TopicEpoch]
    shelved: frozenset[tuple[str, int, int]] = frozenset()
    """(topic, partition, position): records that the stream passes over, as every rebuild does."""

    def __getitem__(self, topic: str) -> TopicEpoch:
        return self.topics[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics)

    def __len__(self) -> int:
        return len(self.topics)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How one topic must be: partitions and configuration."""

    topic: str
    partitions: int
    config: Mapping[str, str]
    checked: tuple[str, ...] = ("cleanup.policy", "message.timestamp.type", "max.message.bytes")
    """Keys that must be as wanted; the rest (retention) is the operator's to change."""


def wanted_topics(settings: Settings, partitions: Mapping[str, int] | None = None) -> list[Wanted]:
    """Every topic of the served domains.

    Args:
        settings: prefix, name of the change topic, partitions of a new journal topic.
        partitions: number of partitions by domain, where a journal topic exists already.
    """
    names = settings.journal.topics
    wanted = [
        Wanted(names.schemas, 1, {**_COMPACT, **_WRITER_TIME, **_SIZE}),
        Wanted(names.epochs, 1, {**_COMPACT, **_WRITER_TIME, **_SIZE}),
        Wanted(names.dlq, 1, {**_MONTH, **_WRITER_TIME, **_SIZE}),
    ]
    for domain in served_domains():
        count = (partitions or {}).get(domain, settings.journal.partitions)
        wanted.append(Wanted(names.journal(domain), count, {**_KEPT, **_BROKER_TIME, **_SIZE}))
        # The topics of annotations are everybody's; they are counted with the domain that owns them.
        owner = owner_of_undeclared()
        published = [names.outcomes(domain)]
        published += [names.changes(name) for name in changes_of(domain) if name != owner or domain == owner]
        published += [names.annotations_system] if domain == owner else []
        wanted += [Wanted(topic, count, {**_WEEK, **_WRITER_TIME, **_SIZE}) for topic in published]
        wanted.append(Wanted(names.state(domain), count, {**_COMPACT, **_STATE, **_WRITER_TIME, **_SIZE}))
    return wanted


def ensure_topics(settings: Settings, *, timeout_s: float = 30.0, connect_timeout_s: float = 5.0) -> Epochs:
    """Create the topics that are missing, record the journal topics' epochs, and check all.

    Idempotent, and safe when several processes do it at once: a topic that another one made is taken as it is, and
    both record the same.

    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: what is there already is not as it must be.
    """
    admin = Administrator(settings).connect(connect_timeout_s)
    found = _described(admin, [one.topic for one in wanted_topics(settings)], timeout_s)
    # Topics of a domain follow its journal topic's partitions, whatever the settings say by now.
    names = settings.journal.topics
    journals = {domain: names.journal(domain) for domain in served_domains()}
    partitions = {domain: len(found[topic].partitions) for domain, topic in journals.items() if topic in found}
    _create(admin, [one for one in wanted_topics(settings, partitions) if one.topic not in found], timeout_s)
    found = _await_topics(admin, [one.topic for one in wanted_topics(settings)], timeout_s)
    _record_epochs(settings, admin, [found[topic] for topic in journals.values()], timeout_s)
    return _check(settings, admin, found, timeout_s)


def check_topics(settings: Settings, *, timeout_s: float = 10.0, connect_timeout_s: float = 5.0) -> Epochs:
    """Hold the topics against what `<prefix>.epochs` records and what the journal needs.

    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: a topic is missing, was made anew, has another number of partitions, takes records that
            are too small for the journal, or keeps the wrong time; `differences` lists all of them.
    """
    admin = Administrator(settings).connect(connect_timeout_s)
    found = _described(admin, [one.topic for one in wanted_topics(settings)], timeout_s)
    return _check(settings, admin, found, timeout_s)


def check_journal(settings: Settings, *, timeout_s: float = 10.0, connect_timeout_s: float = 5.0) -> Epochs:
    """Hold the journal topics alone against what `<prefix>.epochs` records; errors as `check_topics`."""
    admin = Administrator(settings).connect(connect_timeout_s)
    names = [settings.journal.topics.journal(domain) for domain in served_domains()]
    found = _described(admin, names, timeout_s)
    _require([name for name in names if name not in found])
    epochs = read_epochs(settings, timeout_s=timeout_s)
    differences = [text for name in names for text in _epoch_differences(epochs, found[name])]
    if differences:
        raise _mismatch(differences)
    return epochs


def check_epoch(settings: Settings, epochs: Epochs, topic: str, *, timeout_s: float = 10.0) -> None:
    """Hold one journal topic against its record: whoever goes on reading it asks again now and then.

    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: the topic is missing, was made anew or has another number of partitions.
    """
    found = _described(Administrator(settings), [topic], timeout_s)
    differences = _epoch_differences(epochs, found[topic]) if topic in found else [f"{topic} is missing"]
    if differences:
        raise _mismatch(differences)


def read_epochs(settings: Settings, *, timeout_s: float = 10.0) -> Epochs:
    """What `<prefix>.epochs` says, held against nothing."""
    topics: dict[str, TopicEpoch] = {}
    shelved: set[tuple[str, int, int]] = set()
    for key, value in read_all(settings, settings.journal.topics.epochs, timeout_s=timeout_s).items():
        try:
            if key.startswith(SHELVE):
                topic, partition, position = key.removeprefix(SHELVE).rsplit("/", 2)
                shelved.add((topic, int(partition), int(position)))
            else:
                said = json.loads(value)
                topics[key] = TopicEpoch(key, int(said["epoch"]), str(said["topic_id"]), int(said["partitions"]))
        except (ValueError, TypeError, KeyError) as error:
            raise _unreadable(settings.journal.topics.epochs, key) from error
    return Epochs(topics, frozenset(shelved))


def _unreadable(topic: str, key: str) -> TopicMismatchError:
    return TopicMismatchError(
        f"{topic} holds a record that is neither an epoch nor a shelved position: {key[:80]!r}.",
        hint="Somebody else wrote into it. Look who may; a tombstone under that key mends it.",
        differences=(f"{topic} has the record {key[:80]!r}",),
    )


def _described(admin: Administrator, topics: list[str], timeout_s: float) -> dict[str, TopicDescription]:
    """The topics that exist."""
    return admin.answers(
        lambda client, limit: client.describe_topics(TopicCollection(topics), request_timeout=limit),
        "Describing",
        timeout_s,
        fine=KafkaError.UNKNOWN_TOPIC_OR_PART,
    )


def _create(admin: Administrator, wanted: list[Wanted], timeout_s: float) -> None:
    if not wanted:
        return
    # Replication -1: the broker's own default.
    new = [NewTopic(one.topic, one.partitions, -1, config=dict(one.config)) for one in wanted]
    admin.answers(
        lambda client, limit: client.create_topics(new, operation_timeout=limit, request_timeout=limit),
        "Creating",
        timeout_s,
        fine=KafkaError.TOPIC_ALREADY_EXISTS,
    )


def _await_topics(admin: Administrator, topics: list[str], timeout_s: float) -> dict[str, TopicDescription]:
    """Wait until the broker's metadata show the topics with a leader for each partition (creation is asynchronous)."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = _described(admin, topics, timeout_s)
        led = {name for name, one in found.items() if all(at.leader is not None for at in one.partitions)}
        if len(led) == len(topics):
            return found
        if time.monotonic() > deadline:
            missing = ", ".join(sorted(set(topics) - led))
            raise KafkaUnavailableError(f"Created topics do not appear within {timeout_s:g} s: {missing}.")
        time.sleep(_PAUSE_S)


def _record_epochs(
    settings: Settings, admin: Administrator, journals: list[TopicDescription], timeout_s: float
) -> None:
    """Record each journal topic that has no record yet; one that already holds events is not taken for a new one."""
    unknown = [one for one in journals if one.name not in read_epochs(settings, timeout_s=timeout_s)]
    if not unknown:
        return
    filled = [one for one in unknown if _has_records(admin, one, timeout_s)]
    if filled:
        # Another process may have recorded it and emitted since we looked; only a second look can tell.
        again = read_epochs(settings, timeout_s=timeout_s)
        lost = [one.name for one in filled if one.name not in again]
        if lost:
            raise _mismatch([f"{topic} holds events, but no epoch is recorded of it" for topic in lost])
    records = {
        one.name: {"topic": one.name, "epoch": 1, "topic_id": str(one.topic_id), "partitions": len(one.partitions)}
        for one in unknown
        if one not in filled
    }
    encoded = {key: json.dumps(value).encode() for key, value in records.items()}
    write_all(settings, settings.journal.topics.epochs, encoded, timeout_s=timeout_s)


def _has_records(admin: Administrator, topic: TopicDescription, timeout_s: float) -> bool:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(topic.name, one.id): latest for one in topic.partitions}
    found = admin.answers(
        lambda client, limit: client.list_offsets(asked, request_timeout=limit), "Asking the end of", timeout_s
    )
    return any(one.offset > 0 for one in found.values())


def _check(settings: Settings, admin: Administrator, found: Mapping[str, TopicDescription], timeout_s: float) -> Epochs:
    _require([one.topic for one in wanted_topics(settings) if one.topic not in found])
    epochs = read_epochs(settings, timeout_s=timeout_s)
    names = settings.journal.topics
    differences = [
        text for domain in served_domains() for text in _epoch_differences(epochs, found[names.journal(domain)])
    ]
    partitions = {domain: len(found[names.journal(domain)].partitions) for domain in served_domains()}
    wanted = wanted_topics(settings, partitions)
    configs = _configs(admin, [one.topic for one in wanted], timeout_s)
    for one in wanted:
        differences += _differences(one, len(found[one.topic].partitions), configs[one.topic])
    if differences:
        raise _mismatch(differences)
    return epochs


def _require(missing: list[str]) -> None:
    if missing:
        raise TopicMismatchError(
            f"Topics are missing: {', '.join(missing)}.",
            hint="Create them: `metajournal up` on one machine, or Journal.connect(create_topics=True) once.",
            differences=tuple(f"{topic} is missing" for topic in missing),
        )


def _epoch_differences(epochs: Epochs, topic: TopicDescription) -> list[str]:
    record = epochs.topics.get(topic.name)
    if record is None:
        return [f"{topic.name} has no record in the epochs topic"]
    differences = []
    if record.topic_id != str(topic.topic_id):
        differences.append(f"{topic.name} was made anew (its id is {topic.topic_id}, recorded is {record.topic_id})")
    if record.partitions != len(topic.partitions):
        differences.append(f"{topic.name} has {len(topic.partitions)} partitions, recorded are {record.partitions}")
    return differences


def _differences(wanted: Wanted, partitions: int, config: Mapping[str, Any]) -> list[str]:
    differences = []
    if partitions != wanted.partitions:
        differences.append(f"{wanted.topic} has {partitions} partitions, needed are {wanted.partitions}")
    for key in wanted.checked:
        has, needs = config[key], wanted.config[key]
        fine = int(has) >= int(needs) if key == "max.message.bytes" else has == needs
        if not fine:
            least = "at least " if key == "max.message.bytes" else ""
            differences.append(f"{wanted.topic} has {key}={has}, needed is {least}{needs}")
    return differences


def _configs(admin: Administrator, topics: list[str], timeout_s: float) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    found = admin.answers(
        lambda client, limit: client.describe_configs(resources, request_timeout=limit),
        "Reading the configuration of",
        timeout_s,
    )
    return {one.name: {key: str(entry.value) for key, entry in held.items()} for one, held in found.items()}


def _mismatch(differences: list[str]) -> TopicMismatchError:
    return TopicMismatchError(
        f"{'; '.join(differences)}: {_MEANS}.",
        hint="Look whether journal.prefix and kafka.bootstrap.servers are the right ones. A wrong configuration is"
        " mended with kafka-configs; a topic that was made anew, or has other partitions, needs another prefix.",
        differences=tuple(differences),
    )
