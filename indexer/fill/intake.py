"""Reading the state and outcomes topics: all partitions, from the offsets that the index itself holds.

No consumer group. A stored offset that a topic no longer has is corrected and said: below the first one left, reading
starts there (a compacted state topic keeps each entity's newest record, outcome records repeat). Beyond the end, the
topic is not the one that was indexed: an outcomes topic is read from its beginning; a state topic may have lost what
the index never got, and only the lake has that, so the indexer ends before it shows more than there is. A record that
cannot be read, or contradicts the journal, is counted, said and passed over: a state from beyond the journal's end
would hold its entity's document for ever, since it has the greater version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ...producers.journal_ends import JournalEnds
from ...producers.kafka import ErrorLog, make_consumer
from ...producers.passed_over import PassedOver
from ...schemas.errors import KafkaUnavailableError
from ...schemas.kinds import domain_of_kind, kinds_from_outside
from ...schemas.registry import owner_of_undeclared, served_domains
from ...schemas.settings import Settings
from ...schemas.untrusted import UNREADABLE, whole
from ..errors import IndexerError
from ..spelling import read_record
from .patience import Patience, StartOver
from .progress import Outcome, Partition, outcome_of

_log = logging.getLogger("metajournal.indexer")
_ANSWER_S: Final = 5.0
_QUICK_S: Final = 0.5
_ASK_AGAIN_S: Final = 1.0
_MOST_READ: Final = 4
"""Records that are read at once, for each state that is wanted: many may be of the same few entities."""
_OUTCOMES_BEFORE: Final = 1_000
_EXPIRED: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_GONE: Final = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART})


@dataclass(slots=True)
class Taken:
    """What one poll brought: the newest state of each entity, outcomes, and the offsets that are now read.

    Attributes:
        full: it ended with as much as was wanted; more may be at hand.
    """

    states: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    reached: dict[Partition, int] = field(default_factory=dict)
    full: bool = False


class Intake:
    """A consumer over the topics of all served domains.

    Args:
        settings: how to reach Kafka.
        patience: waits while it is away.
        most: states that one poll gives at most.
        passed_over: counts what is passed over.
        domains: the domains that the journal serves; our own where None.
    """

    def __init__(
        self,
        settings: Settings,
        patience: Patience,
        most: int,
        passed_over: PassedOver | None = None,
        domains: Sequence[str] | None = None,
    ) -> None:
        topics, domains = settings.journal.topics, domains or served_domains()
        self.state_topics = frozenset(topics.state(domain) for domain in domains)
        self._outcomes = {topics.outcomes(domain): topics.state(domain) for domain in domains}
        self._domains = {topics.state(domain): domain for domain in domains}
        self._journals = {
            name(domain): topics.journal(domain) for domain in domains for name in (topics.state, topics.outcomes)
        }
        self.passed_over = passed_over or PassedOver(_log)
        self._ends = JournalEnds(settings)
        self._errors = ErrorLog()
        self._patience = patience
        self._most = most
        self._consumer: Consumer = make_consumer(
            settings, self._errors, role="indexer", **{"enable.partition.eof": True}
        )
        self.ends_at_start: dict[Partition, int] = {}
        """The end of each partition when reading began."""
        self._problem = ""
        self._well_s = 0.0
        self._asked_s = 0.0

    def close(self) -> None:
        """End the consumers' threads."""
        self._consumer.close()
        self._ends.close()

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """Wait until the topics are there and read on from the given offsets.

        Raises:
            IndexerError: a state topic is not the one that was read up to them.
        """
        partitions = self._partitions()
        self._consumer.assign(
            [TopicPartition(*partition, self._first(partition, offsets.get(partition))) for partition in partitions]
        )

    def ends(self) -> dict[Partition, int]:
        """Where a rebuild goes on that reads the lake after this call.

        State topics at their ends: the lake holds what is published. Outcomes a little before, since those of a batch
        that the lake has not finished speak of more than its marks say; a repeated one changes nothing.
        """
        ends: dict[Partition, int] = {}
        for partition in self._partitions():
            low, high = self._watermarks(partition)
            ends[partition] = high if partition[0] in self.state_topics else max(low, high - _OUTCOMES_BEFORE)
        return ends

    def _partitions(self) -> list[Partition]:
        partitions: list[Partition] = []
        for name in (*sorted(self.state_topics), *sorted(self._outcomes)):
            while (count := self._partition_count(name)) == 0:
                latest = self._errors.latest
                self._patience.wait(
                    f"Kafka does not show the topic {name} yet" + (f" ({latest.text})" if latest else "")
                )
            partitions.extend((name, partition) for partition in range(count))
        self._patience.over()
        return partitions

    def _partition_count(self, name: str) -> int:
        try:
            return len(self._consumer.list_topics(name, timeout=_ANSWER_S).topics[name].partitions)
        except KafkaException:
            return 0

    def _watermarks(self, partition: Partition) -> tuple[int, int]:
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_ANSWER_S)
                break
            except KafkaException as error:
                self._patience.wait(f"Kafka does not answer ({error.args[0].str()})")
        self._patience.over()
        return int(low), int(high)

    def _first(self, partition: Partition, stored: int | None) -> int:
        low, high = self._watermarks(partition)
        self.ends_at_start[partition] = high
        if stored is not None and low <= stored <= high:
            return stored
        if stored is not None and stored > high and partition[0] in self.state_topics:
            raise _replaced(partition, high, stored)
        if stored is not None:
            _log.warning(
                "%s/%d holds [%d, %d), not the stored offset %d; reading from %d.", *partition, low, high, stored, low
            )
        return low

    def take(self, timeout_s: float, gather_s: float, most: int | None = None) -> Taken:
        """What has arrived.

        Args:
            timeout_s: how long to wait for a first record.
            gather_s: how long to gather more; nothing that comes within it could be shown sooner. An outcome ends the
                waiting; what is at hand behind it already, of which a backlog has plenty, is taken along.
            most: that many states end it too; as many as fit into a request unless given.

        Raises:
            StartOver: the topics are not as they were at the start.
        """
        taken, pause_s, most = Taken(), timeout_s, most or self._most
        until, read = time.monotonic() + gather_s, 0
        while (first := self._consumer.poll(pause_s)) is not None:
            some = [first, *self._consumer.consume(max(0, most - len(taken.states) - 1), 0)]
            arrived_s = time.monotonic()
            for message in some:
                self._sort(message, taken, arrived_s)
            read += len(some)
            taken.full = len(taken.states) >= most or read >= _MOST_READ * most
            pause_s = 0.0 if taken.outcomes else until - time.monotonic()
            if taken.full or pause_s < 0:
                break
        return taken

    def problem(self) -> str:
        """What is wrong with Kafka, "" when it answers; asked once a second while something is."""
        now = time.monotonic()
        latest = self._errors.latest
        if latest is None or latest.time_s < self._well_s or now - self._asked_s < _ASK_AGAIN_S:
            return self._problem
        self._asked_s = now
        try:
            self._consumer.list_topics(min(self.state_topics), timeout=_QUICK_S)
            self._well_s, self._problem = now, ""
        except KafkaException:
            self._problem = f"Kafka does not answer ({latest.text})"
        return self._problem

    def _sort(self, message: Message, taken: Taken, arrived_s: float) -> None:
        partition, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
        problem = message.error()
        if problem is not None:
            if problem.code() == KafkaError._PARTITION_EOF:
                taken.reached[partition] = max(offset, taken.reached.get(partition, 0))
            elif problem.code() in _EXPIRED or problem.code() in _GONE:
                raise StartOver(f"Kafka says {problem.str()}")
            return
        try:
            if partition[0] in self._outcomes:
                self._take_outcome(message, partition, offset, taken, arrived_s)
            else:
                self._take_state(message, partition, offset, taken, arrived_s)
        except UNREADABLE as error:
            self.passed_over.damaged(partition, offset, error)
        taken.reached[partition] = offset + 1

    def _take_outcome(
        self, message: Message, partition: Partition, offset: int, taken: Taken, arrived_s: float
    ) -> None:
        outcome = outcome_of(read_record(message.value()), partition, offset, self._outcomes[partition[0]])
        journal = outcome.journal
        if journal[0] != self._journals[partition[0]] or message.key() != f"{journal[0]}/{journal[1]}".encode():
            raise ValueError("its key or its topic names another journal partition")
        if not self._confirmed(partial(self._ends.holds, journal, outcome.to - 1, arrived_s)):
            self.passed_over.claims(partition, offset, f"to {outcome.to} of {journal[0]}/{journal[1]}")
            return
        for place, end in outcome.ends.items():
            if not self._confirmed(partial(self._ends.reaches, place, end, arrived_s)):
                self.passed_over.claims(partition, offset, f"the end {end} of {place[0]}/{place[1]}")
                return
        taken.outcomes.append(outcome)

    def _take_state(self, message: Message, partition: Partition, offset: int, taken: Taken, arrived_s: float) -> None:
        data = read_record(message.value())
        check_state(data, message.key(), self._domains[partition[0]])
        source, position = (self._journals[partition[0]], data["partition"]), data["logical_timestamp"]
        if not self._confirmed(partial(self._ends.holds, source, position, arrived_s)):
            self.passed_over.claims(partition, offset, f"position {position} of {source[0]}/{source[1]}")
            return
        key = data["tenant"], data["urn"]
        known = taken.states.get(key)
        if known is None or known["logical_timestamp"] <= position:
            taken.states[key] = data

    def _confirmed(self, ask: Callable[[], bool]) -> bool:
        """What is known of an end; a Kafka that does not say is waited for.

        Raises:
            KafkaUnavailableError: it refuses this client.
        """
        waited = False
        while True:
            try:
                answer = ask()
            except KafkaUnavailableError as error:
                if error.code != KafkaUnavailableError.CODE:
                    raise
                waited = True
                self._patience.wait(error.message.rstrip("."))
            else:
                if waited:
                    self._patience.over()
                return answer


def _replaced(partition: Partition, high: int, stored: int) -> IndexerError:
    topic, number = partition
    return IndexerError(
        f"The topic {topic} is not the one that the index was filled from: its partition {number} ends at {high:,}, "
        f"and the index has read it up to {stored:,}. What was lost with the old topic may be missing from the index, "
        "so nothing more is indexed.",
        hint="`metajournal rebuild index` rebuilds the index from the lake while searches continue. Then start the "
        "indexer again (`metajournal index`; `metajournal up` does it by itself).",
        topic=topic,
        partition=number,
    )


def check_state(data: Mapping[str, Any], key: bytes | None, domain: str) -> None:
    """Whether a record has the shape of a state document, and the key of its entity.

    Args:
        data: its value.
        key: its key.
        domain: whose topic it stands in.
    Raises:
        one of UNREADABLE: it has not.
    """
    user, system = data["user"], data["system"]
    properties, more = user["properties"], system["properties"]
    "".join((data["tenant"], data["urn"], data["kind"], data["name"], data["namespace"] or ""))  # texts or TypeError
    "".join([*properties, *properties.values(), *user["tags"], *more, *more.values(), *system["tags"]])
    if key != f"{data['tenant']}/{data['urn']}".encode():
        raise ValueError("its key is another entity's")
    kind, took = data["kind"], domain == owner_of_undeclared() and data["kind"] in kinds_from_outside()
    if data["urn"].partition(":")[0] != kind or not (took or domain_of_kind(kind) == domain):
        raise ValueError(f"its kind is not one of {domain}")
    if not isinstance(data.get("record"), dict | None):
        raise TypeError("the record is not an object")
    if not isinstance(data["deleted"], bool):
        raise TypeError("deleted has the wrong type")
    whole(data["logical_timestamp"]), whole(data["partition"])
