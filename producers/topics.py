"""The topics of an installation: made with the right configuration, and held against the record of their epochs.

Job: `ensure_topics` creates what is missing, `check_topics` says whether what is there is what the journal was written
to. Left to others: names (schemas/topics), what the broker says of them (topic_admin), what a record tells of a domain
that joined (served), having one join (adding), the schemas topic's content (published).
Invariant: nobody writes to a journal topic that was made anew or got another number of partitions, because positions
and the order within an aggregate would silently change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka.admin import TopicDescription

from ..schemas.domain import Domain
from ..schemas.errors import TopicMismatchError
from ..schemas.outside import OWN_PACKAGE
from ..schemas.positions import position
from ..schemas.registry import changes_of, domain_named, joining, owner_of_undeclared, served_domains
from ..schemas.settings import Settings
from .answers import Administrator
from .compacted import read_all, write_all
from .kafka import MESSAGE_BYTES
from .recorded.served import Served, joined, kind_fields, moved_from, obey, served_of
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
_MEANS: Final = "going on could break the order of an aggregate or lose what is already written"


@dataclass(frozen=True, slots=True)
class TopicEpoch:
    """What `<prefix>.epochs` records of one journal topic."""

    topic: str
    epoch: int
    topic_id: str
    partitions: int
    served: Served | None = None
    """The domain, where it is one that joined the journal."""


@dataclass(frozen=True, slots=True)
class Epochs(Mapping[str, TopicEpoch]):
    """The recorded journal topics by name, and the positions that an operator shelved."""

    topics: Mapping[str, TopicEpoch]
    shelved: frozenset[tuple[str, int, int]] = frozenset()
    """(topic, partition, position): records that the stream passes over, as every rebuild does."""

    @property
    def outside(self) -> tuple[Served, ...]:
        """The domains that joined this journal, from outside or of our own, by name."""
        return tuple(epoch.served for _, epoch in sorted(self.topics.items()) if epoch.served is not None)

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of all domains that this journal serves, those that every journal serves first."""
        return served_domains() + tuple(served.name for served in self.outside)

    @property
    def waiting(self) -> tuple[Domain, ...]:
        """Our own domains that have not joined this journal yet: the stream of this version has them join."""
        return tuple(domain for domain in joining() if domain.name not in self.domains)

    def moved(self, topic: str, partition: int) -> tuple[tuple[str, int], ...]:
        """Kinds that were undeclared in a journal partition below a position."""
        return moved_from(self.outside, topic, partition)

    def first(self, topic: str) -> int:
        """Rows of its entities below it are another topic's."""
        served = self.topics[topic].served
        return 0 if served is None else position(served.first_epoch, 0)

    def __getitem__(self, topic: str) -> TopicEpoch:
        return self.topics[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics)

    def __len__(self) -> int:
        return len(self.topics)


def wanted_topics(
    settings: Settings, partitions: Mapping[str, int] | None = None, outside: Iterable[str] = ()
) -> list[Wanted]:
    """Every topic of the served domains.

    Args:
        settings: prefix, name of the change topic, partitions of a new journal topic.
        partitions: number of partitions by domain, where a journal topic exists already.
        outside: names of the domains that joined the journal.
    """
    names = settings.journal.topics
    wanted = [
        Wanted(names.schemas, 1, {**_COMPACT, **_WRITER_TIME, **_SIZE}),
        Wanted(names.epochs, 1, {**_COMPACT, **_WRITER_TIME, **_SIZE}),
        Wanted(names.dlq, 1, {**_MONTH, **_WRITER_TIME, **_SIZE}),
    ]
    owner = owner_of_undeclared()
    for domain in (*served_domains(), *outside):
        count = (partitions or {}).get(domain, settings.journal.partitions)
        # The topics of annotations are everybody's; they are counted with the domain that owns them.
        changes = [names.changes(name) for name in changes_of(domain) if name != owner or domain == owner]
        changes += [names.annotations_system] if domain == owner else []
        wanted += topics_of(settings, domain, count, changes)
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
    names = settings.journal.topics
    outside = [served.name for served in recorded.outside]
    _require([topic for topic in map(names.journal, outside) if topic not in descriptions])
    new = recorded.waiting if names.journal(owner_of_undeclared()) not in recorded else ()
    outside += [domain.name for domain in new]
    descriptions |= _more(settings, admin, outside, descriptions, timeout_s)
    # Topics of a domain follow its journal topic's partitions, whatever the settings say by now.
    journals = {domain: names.journal(domain) for domain in (*served_domains(), *outside)}
    partitions = {
        domain: len(descriptions[topic].partitions) for domain, topic in journals.items() if topic in descriptions
    }
    wanted = wanted_topics(settings, partitions, outside)
    create(admin, [topic for topic in wanted if topic.topic not in descriptions], timeout_s)
    descriptions = await_topics(admin, [topic.topic for topic in wanted], timeout_s)
    joined_topics = {names.journal(domain.name): domain for domain in new}
    # In this order, within one partition: whoever sees a topic recorded that every journal has sees those of further
    # domains too, and does not take the journal for an earlier version's.
    journal_topics = [descriptions[topic] for topic in (*joined_topics, *map(names.journal, served_domains()))]
    _record_epochs(settings, admin, journal_topics, joined_topics, timeout_s)
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

    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: a topic is missing, was made anew, has another number of partitions, takes records that
            are too small for the journal, or keeps the wrong time; `differences` lists all of them.
    """
    admin = Administrator(settings).connect(connect_timeout_s)
    descriptions, recorded = _there(settings, admin, timeout_s)
    return _check(settings, admin, descriptions, [served.name for served in recorded.outside], timeout_s)


def check_journal(settings: Settings, *, timeout_s: float = 10.0, connect_timeout_s: float = 5.0) -> Epochs:
    """Hold the journal topics alone against what `<prefix>.epochs` records; errors as `check_topics`."""
    admin = Administrator(settings).connect(connect_timeout_s)
    ours = [settings.journal.topics.journal(domain) for domain in served_domains()]
    descriptions = described(admin, ours, timeout_s)
    _require([name for name in ours if name not in descriptions])
    epochs = read_epochs(settings, timeout_s=timeout_s)
    others = [settings.journal.topics.journal(served.name) for served in epochs.outside]
    descriptions |= described(admin, others, timeout_s) if others else {}
    _require([name for name in others if name not in descriptions])
    names = ours + others
    differences = [text for name in names for text in _epoch_differences(epochs, descriptions[name])]
    if differences:
        raise _mismatch(differences)
    return epochs


def check_epoch(settings: Settings, epochs: Epochs, topic: str, *, timeout_s: float = 10.0) -> None:
    """Hold one journal topic against its record: whoever goes on reading it asks again now and then.

    Raises:
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: the topic is missing, was made anew or has another number of partitions.
    """
    descriptions = described(Administrator(settings), [topic], timeout_s)
    differences = _epoch_differences(epochs, descriptions[topic]) if topic in descriptions else [f"{topic} is missing"]
    if differences:
        raise _mismatch(differences)


def read_epochs(settings: Settings, *, timeout_s: float = 10.0) -> Epochs:
    """What `<prefix>.epochs` says, held against nothing; the domains that joined are taken in.

    Raises:
        TopicMismatchError: a record is damaged.
        DomainError: the package of a served domain is broken.
    """
    topics: dict[str, TopicEpoch] = {}
    shelved: set[tuple[str, int, int]] = set()
    for key, value in read_all(settings, settings.journal.topics.epochs, timeout_s=timeout_s).items():
        try:
            if key.startswith(SHELVE):
                topic, partition, position = key.removeprefix(SHELVE).rsplit("/", 2)
                shelved.add((topic, int(partition), int(position)))
            else:
                topics[key] = _epoch_of(key, json.loads(value))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _unreadable(settings.journal.topics.epochs, key) from error
    epochs = Epochs(topics, frozenset(shelved))
    for served in epochs.outside:
        obey(served)
    return epochs


def _epoch_of(topic: str, record: Mapping[str, Any]) -> TopicEpoch:
    epoch, topic_id, partitions = int(record["epoch"]), str(record["topic_id"]), int(record["partitions"])
    return TopicEpoch(topic, epoch, topic_id, partitions, served_of(record))


def _unreadable(topic: str, key: str) -> TopicMismatchError:
    return TopicMismatchError(
        f"{topic} holds a record that is neither an epoch nor a shelved position: {key[:80]!r}.",
        hint="Somebody else wrote into it. Look who may; a tombstone under that key mends it.",
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
            raise _mismatch([f"{topic} holds events, but no epoch is recorded of it" for topic in lost])
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
    _require([topic.topic for topic in wanted_topics(settings, None, outside) if topic.topic not in descriptions])
    epochs = read_epochs(settings, timeout_s=timeout_s)
    names, domains = settings.journal.topics, (*served_domains(), *outside)
    differences = [
        text for domain in domains for text in _epoch_differences(epochs, descriptions[names.journal(domain)])
    ]
    partitions = {domain: len(descriptions[names.journal(domain)].partitions) for domain in domains}
    wanted = wanted_topics(settings, partitions, outside)
    found_configs = configs(admin, [topic.topic for topic in wanted], timeout_s)
    for topic in wanted:
        differences += _differences(topic, len(descriptions[topic.topic].partitions), found_configs[topic.topic])
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


def _mismatch(differences: list[str]) -> TopicMismatchError:
    return TopicMismatchError(
        f"{'; '.join(differences)}: {_MEANS}.",
        hint="Look whether journal.prefix and kafka.bootstrap.servers are the right ones. A wrong configuration is"
        " mended with kafka-configs; a topic that was made anew, or has other partitions, needs another prefix.",
        differences=tuple(differences),
    )
