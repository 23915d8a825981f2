"""What `<prefix>.epochs` records of the journal topics, as values, and which of their domains are refused.

A domain is refused alone where one of its topics is not what is recorded, or not as the journal needs it: nobody emits
to it, folds or follows it, since positions and the order within an aggregate would silently change. All others go on.
Left to others: reading the records (topics), and what is recorded of a domain that joined (served).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...schemas.domain import Domain
from ...schemas.errors import MetajournalError, TopicMismatchError
from ...schemas.positions import epoch_of, offset_of, position
from ...schemas.registry import joining, served_domains
from .differences import mismatch, refusal
from .served import Served, moved_from, unserved

if TYPE_CHECKING:
    from confluent_kafka.admin import TopicDescription


@dataclass(frozen=True, slots=True)
class TopicEpoch:
    """What `<prefix>.epochs` records of one journal topic."""

    topic: str
    epoch: int
    topic_id: str
    partitions: int
    served: Served | None = None
    """The domain, where it is one that joined the journal."""
    earlier: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Epochs whose records were restored into this topic, oldest first, each with its end offset in every partition.

    Offsets go on through the epochs: what stands below such an end has the position that it had in the lost topic.
    """

    def position(self, partition: int, offset: int) -> int:
        """The position of what stands at an offset."""
        for epoch, ends in self.earlier:
            if offset < ends[partition]:
                return position(epoch, offset)
        return position(self.epoch, offset)

    def start(self, partition: int) -> int:
        """The first position of the present epoch: whatever is appended stands at or above it."""
        return position(self.epoch, self.earlier[-1][1][partition] if self.earlier else 0)

    def first(self, partition: int) -> int:
        """The first position that the topic holds."""
        return self.position(partition, 0)

    def holds(self, partition: int, value: int) -> bool:
        """Whether a position is one of this topic, be it reached or not."""
        offset = offset_of(value)
        return self.position(partition, offset) == value

    def reached(self, partition: int, mark: int) -> int:
        """Where to go on that has read up to a mark: at the end of an epoch, that is the next epoch's first position.

        Args:
            mark: the next position of a table; 0 where it never heard of the partition.
        Raises:
            TopicMismatchError: the mark is of a later epoch, or beyond what of its epoch was restored.
        """
        if epoch_of(mark) > self.epoch:
            raise mismatch([f"the lake holds {self.topic} in epoch {epoch_of(mark)}, recorded is {self.epoch}"])
        if epoch_of(mark) == self.epoch:
            return mark
        if not self.earlier:
            return position(self.epoch, 0)
        after = self.position(partition, offset_of(mark))
        ends = dict(self.earlier)
        if mark and offset_of(mark) > ends.get(epoch_of(mark), (0,) * self.partitions)[partition]:
            raise mismatch(
                [
                    f"the lake holds {self.topic}/{partition} up to offset {offset_of(mark)} of epoch "
                    f"{epoch_of(mark)}, and the topic was restored from one that held less"
                ]
            )
        return after


@dataclass(frozen=True, slots=True)
class Epochs(Mapping[str, TopicEpoch]):
    """The recorded journal topics by name, without those that are refused, and the positions that were shelved."""

    topics: Mapping[str, TopicEpoch]
    shelved: frozenset[tuple[str, int, int]] = frozenset()
    """(topic, partition, position): records that the stream passes over, as every rebuild does."""
    refused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of journal topics whose domain is refused alone, what differs; they are recorded, and no part of the mapping."""

    @property
    def outside(self) -> tuple[Served, ...]:
        """The domains that joined this journal, from outside or of our own, by name."""
        return tuple(epoch.served for _, epoch in sorted(self.topics.items()) if epoch.served is not None)

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the domains that this journal serves and that are not refused, those of every journal first."""
        refused = {domain_of(topic) for topic in self.refused}
        return tuple(name for name in self._recorded if name not in refused)

    @property
    def waiting(self) -> tuple[Domain, ...]:
        """Our own domains that have not joined this journal yet: the stream of this version has them join."""
        return tuple(domain for domain in joining() if domain.name not in self._recorded)

    @property
    def whole(self) -> Epochs:
        """The same with the refused topics: of what the lake holds of them nothing is refused."""
        return Epochs(self.topics, self.shelved)

    @property
    def _recorded(self) -> tuple[str, ...]:
        return served_domains() + tuple(served.name for served in self.outside)

    @property
    def refusals(self) -> dict[str, TopicMismatchError]:
        """Why domains are refused, by their names."""
        return {domain_of(topic): refusal(domain_of(topic), texts) for topic, texts in sorted(self.refused.items())}

    def not_served(self, domain: str, what: str) -> MetajournalError:
        """The error of who asks for a domain that is none of `domains`: it is refused, or not served yet."""
        return self.refusals.get(domain) or unserved(domain, what)

    def moved(self, topic: str, partition: int) -> tuple[tuple[str, int], ...]:
        """Kinds that were undeclared in a journal partition below a position."""
        return moved_from(self.outside, topic, partition)

    def first(self, topic: str) -> int:
        """Rows of its entities below it are another topic's."""
        served = self.topics[topic].served
        return 0 if served is None else position(served.first_epoch, 0)

    def __getitem__(self, topic: str) -> TopicEpoch:
        """Raises: TopicMismatchError: its domain is refused."""
        if topic in self.refused:
            raise refusal(domain_of(topic), self.refused[topic])
        return self.topics[topic]

    def __contains__(self, topic: object) -> bool:
        return topic in self.topics and topic not in self.refused

    def __iter__(self) -> Iterator[str]:
        return (topic for topic in self.topics if topic not in self.refused)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def domain_of(topic: str) -> str:
    """The domain of a journal topic that is recorded."""
    return topic.rpartition(".")[2]


def epoch_differences(epochs: Epochs, topic: str, descriptions: Mapping[str, TopicDescription]) -> list[str]:
    """What differs between a journal topic and its record.

    Args:
        epochs: what is recorded.
        topic: its name.
        descriptions: the topics that exist.
    """
    record, there = epochs.topics.get(topic), descriptions.get(topic)
    if there is None:
        return [f"{topic} is missing"]
    if record is None:
        return [f"{topic} has no record in the epochs topic"]
    differences = []
    if record.topic_id != str(there.topic_id):
        differences.append(f"{topic} was recreated (its id is {there.topic_id}, recorded is {record.topic_id})")
    if record.partitions != len(there.partitions):
        differences.append(f"{topic} has {len(there.partitions)} partitions, recorded are {record.partitions}")
    return differences
