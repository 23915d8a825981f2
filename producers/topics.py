"""The topics of an installation: made with the right configuration, and held against the record of their epochs.

Job: `ensure_topics` creates what is missing, `check_topics` says whether what is there is what the journal was written
to. Left to others: names (schemas/topics), what the broker says of them (topic_admin), what is recorded as values
(epochs, served), what differs (differences), having a domain join (adding), the schemas topic's content (published).
Invariant: nobody writes to a journal topic that was made anew or got another number of partitions, because positions
and the order within an aggregate would silently change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from confluent_kafka.admin import TopicDescription

from ..schemas.domain import Domain
from ..schemas.errors import TopicMismatchError
from ..schemas.outside import OWN_PACKAGE
from ..schemas.positions import position
from ..schemas.registry import changes_of, domain_named, owner_of_undeclared, served_domains
from ..schemas.settings import Settings
from .answers import Administrator
from .compacted import read_all, write_all
from .kafka import MESSAGE_BYTES
from .recorded.differences import config_differences, mismatch, missing
from .recorded.epochs import Epochs as Epochs
from .recorded.epochs import TopicEpoch as TopicEpoch
from .recorded.epochs import epoch_differences
from .recorded.restored import restored_of
from .recorded.served import joined, kind_fields, obey, served_of
from .recorded.topic_admin import Wanted, await_topics, configs, create, described, has_records

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


def wanted_topics(
    settings: Settings, partitions: Mapping[str, int] | None = None, outside: Iterable[str] = ()
) -> list[Wanted]:
    """Every topic of the served domains. Arguments: as `wanted_of_domains`."""
    wanted = wanted_of_domains(settings, partitions, outside)
    return [topic for domain in wanted for topic in wanted[domain]]


def wanted_of_domains(
    settings: Settings, partitions: Mapping[str, int] | None = None, outside: Iterable[str] = ()
) -> dict[str, list[Wanted]]:
    """The topics of each served domain by its name; those that are everybody's stand with the owner of annotations.

    Args:
        settings: prefix, name of the change topic, partitions of a new journal topic.
        partitions: number of partitions by domain, where a journal topic exists already.
        outside: names of the domains that joined the journal.
    """
    names = settings.journal.topics
    everybodys = [
        Wanted(names.schemas, 1, {**_COMPACT, **_WRITER_TIME, **_SIZE}),
        Wanted(names.epochs, 1, {**_COMPACT, **_WRITER_TIME, **_SIZE}),
        Wanted(names.dlq, 1, {**_MONTH, **_WRITER_TIME, **_SIZE}),
    ]
    owner = owner_of_undeclared()
    wanted = {owner: everybodys}
    for domain in (*served_domains(), *outside):
        count = (partitions or {}).get(domain, settings.journal.partitions)
        # The topics of annotations are everybody's; they are counted with the domain that owns them.
        changes = [names.changes(name) for name in changes_of(domain) if name != owner or domain == owner]
        changes += [names.annotations_system] if domain == owner else []
        wanted[domain] = [*wanted.get(domain, []), *topics_of(settings, domain, count, changes)]
    return wanted


def topics_of(settings: Settings, domain: str, partitions: int, changes: Iterable[str]) -> list[Wanted]:
    """The topics of one domain.

    Args:
        settings: names.
        domain: its name.
        partitions: number of partitions of each.
        changes: its change topics.
    """
    names = settings.journal.topics
    journal = Wanted(names.journal(domain), partitions, {**_KEPT, **_BROKER_TIME, **_SIZE})
    published = [
        Wanted(topic, partitions, {**_WEEK, **_WRITER_TIME, **_SIZE}) for topic in (names.outcomes(domain), *changes)
    ]
    return [
        journal, *published, Wanted(names.state(domain), partitions, {**_COMPACT, **_STATE, **_WRITER_TIME, **_SIZE})
    ]  # fmt: skip


def ensure_topics(settings: Settings, *, timeout_s: float = 30.0, connect_timeout_s: float = 5.0) -> Epochs:
    """Create the topics that are missing, record the journal topics' epochs, and check all.

    Idempotent, and safe when several processes do it at once: a topic that another one made is taken as it is, and
    both record the same. A journal that is made here has all of our own domains; one that is there already is joined by
    further ones when the stream starts (streaming.between.joining), since only that knows what is judged.

    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: what is there already is not as it must be.
    """
    admin = Administrator(settings).connect(connect_timeout_s)
    descriptions, recorded = _there(settings, admin, timeout_s)
    names, owner = settings.journal.topics, owner_of_undeclared()
    new = recorded.waiting if names.journal(owner) not in recorded else ()
    outside = [served.name for served in recorded.outside] + [domain.name for domain in new]
    descriptions |= _more(settings, admin, outside, descriptions, timeout_s)
    # What is recorded is never made anew: its events are gone, and another topic's would take their positions.
    lost = {names.domain_of(topic) for topic in recorded if epoch_differences(recorded, topic, descriptions)}
    if owner in lost:
        raise mismatch(epoch_differences(recorded, names.journal(owner), descriptions))
    # Topics of a domain follow its journal topic's partitions, whatever the settings say by now.
    journals = {domain: names.journal(domain) for domain in (*served_domains(), *outside) if domain not in lost}
    partitions = {
        domain: len(descriptions[topic].partitions) for domain, topic in journals.items() if topic in descriptions
    }
    of_domains = wanted_of_domains(settings, partitions, outside)
    wanted = [topic for domain in journals for topic in of_domains[domain]]
    create(admin, [topic for topic in wanted if topic.topic not in descriptions], timeout_s)
    descriptions |= await_topics(admin, [topic.topic for topic in wanted], timeout_s)
    joined_topics = {names.journal(domain.name): domain for domain in new}
    # In this order, within one partition: whoever sees a topic recorded that every journal has sees those of further
    # domains too, and does not take the journal for an earlier version's.
    first = [names.journal(domain) for domain in served_domains() if domain not in lost]
    _record_epochs(
        settings, admin, [descriptions[topic] for topic in (*joined_topics, *first)], joined_topics, timeout_s
    )
    return _check(settings, admin, descriptions, outside, timeout_s)


def _there(settings: Settings, admin: Administrator, timeout_s: float) -> tuple[dict[str, TopicDescription], Epochs]:
    """The topics that exist, and what is recorded of them."""
    descriptions = described(admin, [topic.topic for topic in wanted_topics(settings)], timeout_s)
    if settings.journal.topics.epochs not in descriptions:
        return descriptions, Epochs({})
    recorded = read_epochs(settings, timeout_s=timeout_s)
    outside = [served.name for served in recorded.outside]
    return {**descriptions, **_more(settings, admin, outside, descriptions, timeout_s)}, recorded


def _more(
    settings: Settings,
    admin: Administrator,
    outside: Iterable[str],
    known: Mapping[str, TopicDescription],
    timeout_s: float,
) -> dict[str, TopicDescription]:
    """The further topics that exist of domains that joined."""
    first = {*known, *(topic.topic for topic in wanted_topics(settings))}
    more = [topic.topic for topic in wanted_topics(settings, None, outside) if topic.topic not in first]
    return described(admin, more, timeout_s) if more else {}


def check_topics(settings: Settings, *, timeout_s: float = 10.0, connect_timeout_s: float = 5.0) -> Epochs:
    """Hold the topics against what `<prefix>.epochs` records and what the journal needs.

    Returns:
        What is recorded. A domain of which a topic is missing, was made anew, has another number of partitions, takes
        records that are too small for the journal, or keeps the wrong time, is refused alone (`Epochs.refused`).
    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: the same of the domain that owns undeclared kinds and annotations, which all others need, or
            of a topic that is everybody's; `differences` lists all of them.
    """
    admin = Administrator(settings).connect(connect_timeout_s)
    descriptions, recorded = _there(settings, admin, timeout_s)
    return _check(settings, admin, descriptions, [served.name for served in recorded.outside], timeout_s)


def check_journal(settings: Settings, topic: str, *, timeout_s: float = 10.0, connect_timeout_s: float = 5.0) -> Epochs:
    """Hold one journal topic, if it is one, against what `<prefix>.epochs` records now; errors as `check_epoch`."""
    admin = Administrator(settings).connect(connect_timeout_s)
    epochs = read_epochs(settings, timeout_s=timeout_s)
    if topic in epochs and (differences := epoch_differences(epochs, topic, described(admin, [topic], timeout_s))):
        raise mismatch(differences)
    return epochs


def check_epoch(administrator: Administrator, epochs: Epochs, topic: str, *, timeout_s: float = 10.0) -> None:
    """Hold one journal topic against its record: whoever goes on reading it asks again now and then.

    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: the topic is missing, was recreated or has another number of partitions.
    """
    differences = epoch_differences(epochs, topic, described(administrator, [topic], timeout_s))
    if differences:
        raise mismatch(differences)


def read_epochs(settings: Settings, *, timeout_s: float = 10.0) -> Epochs:
    """What `<prefix>.epochs` says, held against nothing; the domains that joined are taken in.

    Raises:
        TopicMismatchError: a record is damaged.
        DomainError: the package of a served domain is broken.
    """
    records = read_all(settings, settings.journal.topics.epochs, timeout_s=timeout_s)
    return epochs_of(settings.journal.topics.epochs, records)


def epochs_of(source: str, records: Mapping[str, bytes]) -> Epochs:
    """What records of an epochs topic say; the domains that joined are taken in. Raises as `read_epochs`.

    Args:
        source: where they stand: the topic, or its copy in the lake.
        records: values by key.
    """
    topics: dict[str, TopicEpoch] = {}
    shelved: set[tuple[str, int, int]] = set()
    for key, value in records.items():
        try:
            if key.startswith(SHELVE):
                topic, partition, position = key.removeprefix(SHELVE).rsplit("/", 2)
                shelved.add((topic, int(partition), int(position)))
            else:
                topics[key] = _epoch_of(key, json.loads(value))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _unreadable(source, key) from error
    epochs = Epochs(topics, frozenset(shelved))
    for served in epochs.outside:
        obey(served)
    return epochs


def _epoch_of(topic: str, record: Mapping[str, Any]) -> TopicEpoch:
    epoch, topic_id, partitions = int(record["epoch"]), str(record["topic_id"]), int(record["partitions"])
    return TopicEpoch(topic, epoch, topic_id, partitions, served_of(record), restored_of(record))


def _unreadable(topic: str, key: str) -> TopicMismatchError:
    return TopicMismatchError(
        f"{topic} contains a record that is neither an epoch nor a shelved position: {key[:80]!r}.",
        hint="Something else wrote to it. Check who has write access; a tombstone under that key removes the record.",
        differences=(f"{topic} has the record {key[:80]!r}",),
    )


def _record_epochs(
    settings: Settings,
    admin: Administrator,
    journals: list[TopicDescription],
    joined_topics: Mapping[str, Domain],
    timeout_s: float,
) -> None:
    """Record each journal topic that has no record yet; one that already holds events is not taken for a new one."""
    recorded = read_epochs(settings, timeout_s=timeout_s)
    unknown = [topic for topic in journals if topic.name not in recorded]
    if not unknown:
        return
    filled = [topic for topic in unknown if has_records(admin, topic, timeout_s)]
    if filled:
        # Another process may have recorded it and emitted since we looked; only a second look can tell.
        again = read_epochs(settings, timeout_s=timeout_s)
        lost = [topic.name for topic in filled if topic.name not in again]
        if lost:
            raise mismatch([f"{topic} holds events, but no epoch is recorded for it" for topic in lost])
    cuts = {
        topic.name: [position(1, 0)] * len(topic.partitions) for topic in journals if topic.name not in joined_topics
    }
    records = {}
    for topic in unknown:
        if topic not in filled:
            about, domain = (topic.name, str(topic.topic_id), len(topic.partitions)), joined_topics.get(topic.name)
            records[topic.name] = _first(settings, *about) if domain is None else _joined(domain, cuts, *about)
    encoded = {key: json.dumps(value).encode() for key, value in records.items()}
    write_all(settings, settings.journal.topics.epochs, encoded, timeout_s=timeout_s)


def _first(settings: Settings, topic: str, topic_id: str, partitions: int) -> dict[str, Any]:
    """The record of a topic that every journal has."""
    domain = domain_named(settings.journal.topics.domain_of(topic))
    kinds = [kind_fields(kind) for kind in (() if domain is None else domain.kinds)]
    return {"topic": topic, "epoch": 1, "topic_id": topic_id, "partitions": partitions, "kinds": kinds}


def _joined(
    domain: Domain, cuts: Mapping[str, list[int]], topic: str, topic_id: str, partitions: int
) -> dict[str, Any]:
    """The record of a further topic that a journal has from its beginning on."""
    return joined(domain, OWN_PACKAGE, 2, cuts).record(topic, 2, topic_id, partitions)


def _check(
    settings: Settings,
    admin: Administrator,
    descriptions: Mapping[str, TopicDescription],
    outside: Iterable[str],
    timeout_s: float,
) -> Epochs:
    names, owner, outside = settings.journal.topics, owner_of_undeclared(), list(outside)
    if any(topic.topic not in descriptions for topic in wanted_of_domains(settings)[owner]):
        raise _lacking(settings, descriptions, outside, timeout_s)
    epochs = read_epochs(settings, timeout_s=timeout_s)
    journals = {domain: names.journal(domain) for domain in (*served_domains(), *outside)}
    partitions = {
        domain: len(descriptions[topic].partitions) for domain, topic in journals.items() if topic in descriptions
    }
    wanted = wanted_of_domains(settings, partitions, outside)
    existing = [topic.topic for topics in wanted.values() for topic in topics if topic.topic in descriptions]
    found_configs = configs(admin, existing, timeout_s)
    differing: dict[str, tuple[str, ...]] = {}
    for domain, topic in journals.items():
        differences = epoch_differences(epochs, topic, descriptions)
        for one in wanted[domain]:
            if one.topic in found_configs:
                count = len(descriptions[one.topic].partitions)
                differences += config_differences(one, count, found_configs[one.topic])
            elif one.topic != topic:
                differences.append(f"{one.topic} is missing")
        if differences:
            differing[topic] = tuple(differences)
    if names.journal(owner) in differing:
        raise mismatch([text for texts in differing.values() for text in texts])
    return replace(epochs, refused=differing)


def _lacking(
    settings: Settings, descriptions: Mapping[str, TopicDescription], outside: Iterable[str], timeout_s: float
) -> TopicMismatchError:
    """The error of topics that everybody needs: they were never made, or one that was recorded is gone."""
    names = [topic.topic for topic in wanted_topics(settings, None, outside) if topic.topic not in descriptions]
    epochs_topic = settings.journal.topics.epochs
    recorded = read_epochs(settings, timeout_s=timeout_s) if epochs_topic in descriptions else Epochs({})
    gone = [f"{topic} is missing" for topic in names if topic in recorded]
    return mismatch(gone) if gone else missing(names)
