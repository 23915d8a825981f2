"""The Kafka side of a subscription: which partitions it has, what has arrived of them, and how Kafka is doing.

Alone, it has every partition from the start on. In a group, librdkafka calls back when partitions come and go: what is
done is committed before they go, what had arrived of them is forgotten, and whoever gets them resumes from the commit.
A broker that is away is waited out, and said once. Left to others: what is delivered (subscription), how a partition
begins (reading).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ..producers.journal_ends import JournalEnds
from ..producers.kafka import NOT_ALLOWED, ErrorLog, make_consumer
from ..producers.passed_over import PassedOver
from ..producers.topics import Epochs
from ..schemas.errors import KafkaUnavailableError, MetajournalError
from ..schemas.settings import Settings
from .commits import Commits
from .ledger import Reached, Source
from .reading import Opener, Reading
from .records import Partition
from .starts import Since, Start, Starts
from .watermarks import LookUp

MOST: Final = 2000
"""Records that are kept before they are delivered; no more are asked for until half of them are."""
_HEARTBEAT_MS: Final = 1000
"""How soon a member learns that another one has left; librdkafka's default is 3 s."""
_PAUSE_S: Final = 0.5
_ASK_AGAIN_S: Final = 1.0
_ANSWER_S: Final = 1.0
_STUCK_S: Final = 60.0
"""How long a member whose session Kafka has ended waits for partitions before it joins anew by another client.

librdkafka joins again by itself, in seconds. But a client that also lost the group's coordinator in that moment was
seen to wait for ever (2.16, on a machine that stood still for 10 s), while Kafka answered everybody else.
"""
_EXPIRED: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_GONE: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_log = logging.getLogger("metajournal.subscription")


class Intake:
    """Reads the partitions of some topics.

    Args:
        settings: how to reach Kafka.
        epochs: the journal topics.
        domain: whose topics these are; of several domains: whose each topic is.
        topics: the change topics, or the state topic.
        compacted: it is the state topic.
        since: where partitions without a commit begin.
        group: the group to share the partitions with; None: all partitions, no commits.
        interval_s: seconds between two commits.
    Raises:
        InputError, PositionExpired, KafkaUnavailableError: as `Starts.find`.
    """

    def __init__(
        self,
        settings: Settings,
        epochs: Epochs,
        domain: str | Mapping[str, str],
        topics: list[str],
        *,
        compacted: bool,
        since: Since,
        group: str | None,
        interval_s: float,
    ) -> None:
        self._settings = settings
        self._epochs = epochs
        self._domain = domain
        self._compacted = compacted
        self._since = since
        self._group = group
        self.targets = dict.fromkeys(topics, 0)
        self._starts: dict[Partition, Start] = {}
        self._had: dict[Partition, dict[Source, Reached]] = {}
        """What was reached of partitions that were given back: not even a commit that failed brings it again."""
        self._failure: KafkaException | MetajournalError | None = None
        self._said = self._ending = False
        self._lost_at: float | None = None
        """When Kafka ended this member's session, seconds, monotonic; None while it has what it was given."""
        self._asked = 0.0
        self.resumed = False
        """Whether the group has a commit of some partition, where `since` does not count."""
        self.closing = threading.Event()
        self.passed_over = PassedOver(_log)
        self.ends = JournalEnds(settings, epochs, stopping=self.closing.is_set)
        self.arrived_s = 0.0
        """When the last record arrived, seconds, monotonic."""
        self.readings: dict[Partition, Reading] = {}
        self.buffer: deque[Message] = deque()
        self._is_paused = False
        self.errors = ErrorLog()
        self.begun_at: float | None = None
        """When it got its first partitions, or learned that there are none for it; seconds, monotonic."""
        self.well_at = self.polled_at = 0.0
        self.commits = Commits(lambda: self.readings if group is not None else {}, interval_s, self._listen)
        more: dict[str, Any] = {"on_commit": self.commits.answered}
        self._options = more
        if group is not None:
            # Eager, so that a partition has one member at any time; range, so that one member has both scopes of it.
            more |= {"group.id": group, "partition.assignment.strategy": "range"}
            more |= {"heartbeat.interval.ms": settings.kafka.get("heartbeat.interval.ms", _HEARTBEAT_MS)}
        self._consumer = self._made()
        try:
            self._open()
        except BaseException:
            self._consumer.close()
            self.ends.close()
            raise

    def _made(self) -> Consumer:
        return make_consumer(self._settings, self.errors, role="subscription", **self._options)

    def _open(self) -> None:
        """Fix the start: opening decides what "from now on" means, not the first record that is asked for."""
        with self._look_up() as look_up:
            self.targets = {topic: look_up.partitions(topic) for topic in self.targets}
            every = [(topic, number) for topic, count in self.targets.items() for number in range(count)]
            opener = self._opener(look_up)
            known = opener.commits(self._consumer, every) if self._group is not None else {}
            self.resumed = bool(known)
            self._starts = opener.starts_of(self._since, [partition for partition in every if partition not in known])
            begun = {partition: opener.begun(partition, start) for partition, start in self._starts.items()}
        if self._group is None:
            self._begin(begun)
        else:
            self.commits.at_first(self._consumer, begun.values())
            self._join()

    def _look_up(self) -> LookUp:
        return LookUp(self._settings, self.ends, self.targets, stopping=self.closing.is_set)

    def _opener(self, look_up: LookUp) -> Opener:
        names = self._settings.journal.topics
        starts = Starts(look_up, names, self._epochs, self._domain, compacted=self._compacted)
        return Opener(starts, look_up, self.targets, compacted=self._compacted)

    def _begin(self, readings: dict[Partition, Reading]) -> None:
        self.readings = readings
        self._consumer.assign([TopicPartition(*partition, reading.next) for partition, reading in readings.items()])
        self.begun_at = self.well_at = time.monotonic()
        self._lost_at = None

    # Partitions that come and go

    def _join(self) -> None:
        self._consumer.subscribe(
            list(self.targets), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Take partitions over. What goes wrong is kept for the caller: nothing may be raised through librdkafka."""
        if consumer is not self._consumer:
            return  # one that was given up
        try:
            with self._look_up() as look_up:
                opener = self._opener(look_up)
                wanted = [(partition.topic, partition.partition) for partition in partitions]
                commits = opener.commits(consumer, wanted)
                new = [partition for partition in wanted if partition not in commits and partition not in self._starts]
                self._starts |= opener.starts_of(self._since, new)
                readings = {
                    partition: opener.resumed(partition, commits[partition])
                    if partition in commits
                    else opener.begun(partition, self._starts[partition])
                    for partition in wanted
                }
            for partition, reading in readings.items():
                reading.ledger.merge(self._had.get(partition, {}))
            self._begin(readings)
            _log.info("The group %s has assigned %d partitions to this member.", self._group, len(partitions))
        except (KafkaException, MetajournalError) as error:
            self._failure = error
            consumer.assign([])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Give partitions back. All that was delivered is done: the caller has asked for more."""
        if consumer is not self._consumer:
            return
        if not self._ending:
            self.commits.before_leaving(consumer)
        self._forget()

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self._consumer:
            return
        self._lost_at = time.monotonic()
        _log.warning(
            "The group %s has reassigned this member's partitions, because it did not ask for changes for too long. "
            "Changes that it has not committed are delivered again to other members.",
            self._group,
        )
        self.commits.lost()
        self._forget()

    def _join_anew(self) -> None:
        """Give up a client that does not get back into its group while Kafka answers another one."""
        former, other = self._consumer, self._made()
        try:
            other.list_topics(next(iter(self.targets)), timeout=_ANSWER_S)
        except KafkaException:
            self._lost_at = time.monotonic()  # nobody gets an answer: the former one may be in order
            _closed(other)
            return
        _log.warning(
            "This member of the group %s was not given partitions for %d s after its session ended; it joins anew.",
            self._group,
            _STUCK_S,
        )
        self._consumer, self._lost_at = other, time.monotonic()
        _closed(former)
        self._join()

    def _forget(self) -> None:
        self._had |= {partition: reading.ledger.reached for partition, reading in self.readings.items()}
        self.readings = {}
        self.buffer.clear()

    # Arrivals

    def fetch(self, pause_s: float) -> bool:
        """Wait for records and take what has arrived into the buffer; false when nothing came.

        Raises:
            PositionExpired, KafkaUnavailableError, ...: what went wrong meanwhile and does not pass.
        """
        came = self._listen(pause_s)
        self.polled_at = time.monotonic()
        if came:
            if self.buffer[-1].error() is None:
                self.well()
            if len(self.buffer) < MOST:
                self.buffer.extend(self._consumer.consume(MOST - len(self.buffer), 0))
            self.arrived_s = time.monotonic()
        else:
            self._watch()
        self._raise_failure()
        return came

    def _listen(self, pause_s: float) -> bool:
        self._pause_or_resume()
        message = self._consumer.poll(pause_s)
        if message is not None:
            self.buffer.append(message)  # at once: a rebalance in the next call clears what is no longer ours
            self.arrived_s = time.monotonic()
        return message is not None

    def _pause_or_resume(self) -> None:
        """Ask for nothing more while the buffer is full: each poll, which the group needs, would bring a record."""
        if not self.readings:
            return  # those that come next begin with an empty buffer, and are resumed
        is_full = len(self.buffer) >= (MOST // 2 if self._is_paused else MOST)
        if is_full != self._is_paused:
            partitions = [TopicPartition(*partition) for partition in self.readings]
            (self._consumer.pause if is_full else self._consumer.resume)(partitions)
            self._is_paused = is_full

    def problem(self, message: Message, error: KafkaError) -> None:
        """Act on an error among the records.

        Raises:
            PositionExpired: the broker has deleted what would come next.
            KafkaUnavailableError: it refuses this client, or a topic is gone.
        """
        code = error.code()
        if code in _EXPIRED and message.topic():
            self._expired((str(message.topic()), message.partition() or 0))
        if code in NOT_ALLOWED:
            raise KafkaUnavailableError(f"Kafka refuses this client: {error.str()}.", code="not-allowed")
        if code in _GONE or error.fatal():
            raise KafkaUnavailableError(f"Changes cannot be read: {error.str()}.")
        _log.info("%s", error.str())  # it passes: librdkafka tries again

    def _expired(self, partition: Partition) -> NoReturn:
        with self._look_up() as look_up:
            names = self._settings.journal.topics
            starts = Starts(look_up, names, self._epochs, self._domain, compacted=self._compacted)
            starts.expired(partition, look_up.range(partition)[0], self.targets[partition[0]])

    def _raise_failure(self) -> None:
        """What went wrong while partitions were taken over; where it passes, they are asked for again."""
        failure, self._failure = self._failure, None
        if failure is None:
            return
        if isinstance(failure, MetajournalError) and failure.code != KafkaUnavailableError.CODE:
            raise failure
        _log.warning("The group %s could not reassign partitions (%s); trying again.", self._group, failure)
        self.closing.wait(_PAUSE_S)
        self._consumer.unsubscribe()
        self._join()

    # How Kafka is doing

    def _watch(self) -> None:
        """Say once that Kafka is away, and once that it is back."""
        if self.errors.hopeless is not None:
            raise KafkaUnavailableError(f"Kafka refuses this client: {self.errors.hopeless.text}.", code="not-allowed")
        latest, now = self.errors.latest, time.monotonic()
        if self._lost_at is not None and now - self._lost_at > _STUCK_S:
            self._join_anew()
        if latest is None or latest.time_s <= self.well_at or now - self._asked < _ASK_AGAIN_S:
            return
        self._asked = now
        if self._answers():
            self.well()
        elif not self._said:
            self._said = True
            _log.warning("Kafka does not answer (%s); waiting for it.", latest.text)

    def well(self) -> None:
        """Kafka has answered."""
        self.well_at = time.monotonic()
        if self._said:
            self._said = False
            _log.warning("Kafka answers again.")

    @property
    def behind(self) -> bool:
        """Whether records that stood in the topics at the beginning are still to come."""
        return any(reading.next < reading.backlog_end for reading in self.readings.values())

    # Commits and the end

    def keep_if_due(self) -> None:
        """Commit what is done, now and then; not while Kafka is away, since closing would wait for the answer."""
        if self._group is not None and self.errors.since(self.well_at) is None:
            self.commits.if_due(self._consumer)

    def keep(self, timeout_s: float) -> bool:
        """Commit what is done and wait for the answer; false when none came."""
        return self._group is None or self.commits.wait(self._consumer, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Keep what is done, leave the group and end the threads.

        Args:
            timeout_s: how long to wait for the commit, and again for the consumer. One whose commit is still under way
                when Kafka goes away takes up to 45 s to end, which it then does by itself.
        """
        self.closing.set()
        if self.commits.due and not (self._answers() and self.keep(timeout_s)):
            _log.warning(
                "Kafka has not confirmed the last commit of group %s: its changes are delivered again.", self._group
            )
        self._ending = True  # a rebalance until here has kept what is done by itself
        _closed(self._consumer).join(timeout_s)
        self.ends.close()

    def _answers(self) -> bool:
        try:
            self._consumer.list_topics(next(iter(self.targets)), timeout=_ANSWER_S)
        except KafkaException:
            return False
        return True


def _closed(consumer: Consumer) -> threading.Thread:
    """Close a client aside: one that gets no answers takes up to a minute for it."""
    closing = threading.Thread(target=consumer.close, name="metajournal-subscription-end", daemon=True)
    closing.start()
    return closing
