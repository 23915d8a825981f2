"""The changes of every served domain, read by one client: each once, with the offset that it stands at.

For a process that hands changes on to many readers. As any subscription it drops what the stream repeats and passes
over what the stream cannot have written. Where one is, is told in offsets of the change topics themselves: they go on
also where a topic is quiet, and another process resumes from them with nothing lost or doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

from confluent_kafka import Message

from ..producers.answers import Administrator
from ..producers.recorded.topic_admin import described
from ..producers.topics import Epochs
from ..schemas.registry import change_domains, is_joining, owner_of_undeclared, role
from ..schemas.settings import Settings
from ..schemas.topics import TopicNames
from ..schemas.untrusted import UNREADABLE
from ..schemas.urn import Urn
from .filters import Filter
from .intake import Intake
from .records import Change, Identity, Partition, Scope, change_of, unreadable
from .starts import Newest, Offsets
from .subscription import Subscription
from .watermarks import LookUp

_ANSWER_S: Final = 10.0


class NamedFile(Protocol):
    """The file `named` of a domain: which entities a change record of its own speaks of."""

    def entities_of(self, subject: Urn, record: Mapping[str, Any]) -> Sequence[Urn]:
        """All of them, the record's subject included."""


class Published(NamedTuple):
    """A change and where it stands in its topic.

    Attributes:
        change: what changed.
        entities: all entities that it speaks of.
        topic: the change topic.
        offset: its offset there, in the change's partition.
    """

    change: Change
    entities: tuple[Urn, ...]
    topic: str
    offset: int

    @property
    def partition(self) -> Partition:
        """The topic's partition that it stands in."""
        return self.topic, self.change.partition


class ChangeTopic(NamedTuple):
    """A change topic.

    Attributes:
        name: of the topic.
        label: what tells it from the others, without the installation's prefix.
        domain: whose changes it has.
        scope: of which metadata.
    """

    name: str
    label: str
    domain: str
    scope: Scope


def change_topics(names: TopicNames, epochs: Epochs) -> list[ChangeTopic]:
    """The change topics of every served domain, by label."""
    outside = [served.name for served in epochs.outside if served.has_changes]
    domains = dict.fromkeys([*change_domains(), *outside])
    owner = owner_of_undeclared()
    served = [name for name in domains if name not in epochs.refusals]
    served = [name for name in served if not is_joining(name) or name in epochs.domains]
    topics = [ChangeTopic(names.changes(name), name, name, "USER") for name in served]
    if owner in served:
        topics.append(ChangeTopic(names.annotations_system, f"{owner}.system", owner, "SYSTEM"))
    return sorted(topics, key=lambda topic: topic.label)


class EveryChange(Subscription[Published]):
    """A subscription to several change topics. Arguments and errors, besides those below: as `Subscription`.

    Args:
        topics: which.
        since: where to begin.
        reached: called, in the thread that iterates, whenever nothing more has arrived and what stood in the topics at
            the beginning was delivered; gets the next offset of each partition.
        wanted: conditions on what is delivered; all tenants' where None.
        timeout_s: as of `Subscription`.
    """

    def __init__(
        self,
        settings: Settings,
        epochs: Epochs,
        topics: Sequence[ChangeTopic],
        since: Offsets | Newest,
        *,
        reached: Callable[[Mapping[Partition, int]], None] = lambda _: None,
        wanted: Filter | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self._reached = reached
        domains = {topic.name: topic.domain for topic in topics}
        super().__init__(
            settings, epochs, domains, list(domains), self._published, since=since, wanted=wanted, timeout_s=timeout_s
        )

    def _published(self, message: Message, identity: Identity) -> Published:
        topic = self._by_name[message.topic() or ""]
        change = change_of(message, identity, topic.scope, topic.domain)
        try:
            return Published(change, entities_of(change), topic.name, identity.offset)
        except UNREADABLE as error:
            raise unreadable(message, error) from error

    @property
    def place(self) -> dict[Partition, int]:
        """The next offset of each partition, where the last change that was delivered is done; nothing once closed."""
        readings = {} if self._intake is None else self._intake.readings
        return {partition: reading.offset for partition, reading in readings.items()}

    def _over(self, intake: Intake) -> bool:
        if not intake.behind:
            self._reached(self.place)
        return super()._over(intake)


def entities_of(change: Change) -> tuple[Urn, ...]:
    """All entities that a change speaks of: its subject, and what else its domain says.

    Raises:
        InvalidUrnError: one of them is not a valid URN.
    """
    subject = Urn.parse(change.urn)
    named = cast("NamedFile | None", role(change.domain, "named"))
    return (subject,) if named is None else tuple(named.entities_of(subject, change.record))


def first_offsets(settings: Settings, topics: Sequence[ChangeTopic]) -> dict[Partition, int]:
    """The first offset that is left in each partition of some topics. Raises: KafkaUnavailableError."""
    with LookUp(settings) as look_up:
        places = [(topic.name, number) for topic in topics for number in range(look_up.partitions(topic.name))]
        return {place: look_up.range(place)[0] for place in places}


def last_offsets(settings: Settings, places: Iterable[Partition]) -> dict[Partition, int]:
    """The offset behind the last one of some partitions. Raises: KafkaUnavailableError."""
    with LookUp(settings) as look_up:
        return {place: look_up.range(place)[1] for place in places}


def identities(settings: Settings, topics: Sequence[ChangeTopic]) -> dict[str, tuple[str, int]]:
    """Kafka's id of each topic, which one that is made anew does not keep, and its number of partitions.

    Raises:
        KafkaUnavailableError: no broker answers in time.
    """
    admin = Administrator(settings).connect(_ANSWER_S)
    found = described(admin, [topic.name for topic in topics], _ANSWER_S)
    return {name: (str(topic.topic_id), len(topic.partitions)) for name, topic in found.items()}
