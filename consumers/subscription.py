"""A subscription: records of a domain's change or state topics, each once, in order, from where one asked.

    with journal.subscribe("catalog", group="mailer") as changes:
        for change in changes:
            send(change)            # asking for the next one says that this one is done

Alone, it reads every partition and keeps nothing. In a group, the members share the partitions, and what is done is
committed with the (position, seq) reached of each journal partition, so that whoever goes on knows what the stream
repeats.

When is a record done? When the next one is asked for, when `ack()` returns, or when the `with` block ends without an
exception; not when the loop is left otherwise. Commits follow within `commit_interval_s`, and at once when partitions
move or the subscription is closed. So what comes twice is at most what a member that was killed has done since its
last commit; it has the same `id` as before. SIGTERM ends a subscriber as Ctrl-C does (ending).

A record that cannot be read, or contradicts the journal, is not the stream's: it is counted (`passed_over`), said in
the log and passed over, and counts for nothing in what was reached.

One thread at a time uses a subscription; `close` may be called by any. Left to others: Kafka (intake), where to begin
(starts), what to drop (ledger), what a record is (records).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar
from unicodedata import category

from confluent_kafka import KafkaException, Message

from ..producers.topics import Epochs
from ..schemas.errors import DecodeError, InputError, InvalidUrnError, KafkaUnavailableError, MetajournalError
from ..schemas.positions import positions_of
from ..schemas.registry import change_domains, is_joining, owner_of_undeclared
from ..schemas.settings import Settings
from .ending import closed, opened
from .filters import Filter
from .intake import Intake
from .reading import Reading
from .records import Change, Identity, Scope, State, change_of, identity, state_of
from .starts import Since, told_by

T = TypeVar("T")
COMMIT_INTERVAL_S: Final = 1.0
_POLL_S: Final = 0.2
_LEAST_POLL_S: Final = 0.01
_BACKLOG_S: Final = 5.0
"""How much longer than a time-out what stood in the topics at the beginning is waited for."""
_TOP_UP_S: Final = 0.25
"""A slow caller lets librdkafka see to its group so often."""
_COMMIT_S: Final = 10.0
_CLOSING_S: Final = 3.0
_MOST_SEQ: Final = (1 << 31) - 1


def changes(settings: Settings, epochs: Epochs, domain: str | None = None, **asked: Any) -> Subscription[Change]:
    """A subscription to the change records of a domain, of annotations where None; else as `Subscription`."""
    names, domain = settings.journal.topics, domain or owner_of_undeclared()
    wanted: Filter = asked.get("wanted") or Filter()
    topics = [names.changes(domain)] if wanted.scopes != {"SYSTEM"} else []
    if domain == owner_of_undeclared() and wanted.scopes != {"USER"}:
        topics.append(names.annotations_system)

    def made(message: Message, identity: Identity) -> Change | None:
        scope: Scope = "SYSTEM" if message.topic() == names.annotations_system else "USER"
        change = change_of(message, identity, scope, domain)
        return change if not wanted.reads_records or wanted.wants_change(change.record) else None

    return Subscription(settings, epochs, domain, topics, made, **asked)


def states(settings: Settings, epochs: Epochs, domain: str | None = None, **asked: Any) -> Subscription[State]:
    """A subscription to the current states of a domain's entities, as `changes`."""
    domain = domain or owner_of_undeclared()
    wanted: Filter = asked.get("wanted") or Filter()

    def made(message: Message, identity: Identity) -> State | None:
        state = state_of(message, identity)
        return state if not wanted.reads_records or wanted.wants_state(state.document) else None

    topics = [settings.journal.topics.state(domain)]
    return Subscription(settings, epochs, domain, topics, made, compacted=True, **asked)


class _ForgedError(Exception):
    """A record contradicts the journal."""


class _UnansweredError(Exception):
    """Kafka does not say now where the journal ends."""


class Subscription(Generic[T]):
    """An iterator over changes or states.

    Args:
        settings: how to reach Kafka, topic names.
        epochs: the journal topics as `check_topics` found them.
        domain: a served domain; of several ones: whose changes each topic has, all of them served.
        topics: what to read.
        made: a change or state of a message; None where its record is not asked for.
        compacted: they are state topics.
        since: where to start, for partitions without a commit of the group: after a Position, or an object that has one
            (a receipt, a change), or several of these (the other partitions at the earliest append time of the last of
            each); at a cut of next positions {(journal topic, partition): position} (the others with all that is left);
            at a time (milliseconds UTC, an aware datetime, text of ISO 8601); "earliest" (all that is left), "latest"
            (from this call on). Default: "latest" for changes, "earliest" for states.
        group: members of one group share the partitions and resume where they stopped.
        wanted: conditions; what is left out counts as read.
        timeout_s: the iteration ends after this many seconds without a change; what was in the topics at the start is
            read in any case. None: never.
        limit: the iteration ends after this many; None: never.
        commit_interval_s: seconds between two commits of what is done; 0: after each.
    Raises:
        InputError: the domain is not served, or `since` is not a point of its journal.
        TopicMismatchError: the domain is refused: one of its topics is missing, or is not the recorded one.
        PositionExpired: some of the requested changes are no longer in the topics; `earliest` is the first position
            left.
        NotYetVisibleError: `since` is an event behind somebody's unit that was not committed within 10 s.
        KafkaUnavailableError: no broker answers, or it refuses this client.
    """

    def __init__(
        self,
        settings: Settings,
        epochs: Epochs,
        domain: str | Mapping[str, str],
        topics: list[str],
        made: Callable[[Message, Identity], T | None],
        *,
        compacted: bool = False,
        since: Since | None = None,
        group: str | None = None,
        wanted: Filter | None = None,
        timeout_s: float | None = None,
        limit: int | None = None,
        commit_interval_s: float = COMMIT_INTERVAL_S,
    ) -> None:
        self._intake: Intake | None = None
        self._resumed = self._undone = False
        if isinstance(domain, str):
            _check_served(epochs, domain, compacted=compacted)
        domains = [domain] if isinstance(domain, str) else sorted(set(domain.values()))
        if group is not None and not _is_name(group):
            raise InputError(
                f"{group!r:.60} is not a valid group name.",
                hint="Give a text of 1 to 255 characters, without surrounding spaces or control characters.",
            )
        self._made = made
        self._compacted = compacted
        self._wanted = wanted or Filter()
        self._timeout_s = timeout_s
        self._limit = limit
        self._group = group
        self._lock = threading.RLock()
        self._given = 0
        self._stopped = False
        self._hand: tuple[Reading, Identity] | None = None
        self._quiet_since = 0.0
        begin: Since = since if since is not None else "earliest" if compacted else "latest"
        named = positions_of(begin)  # type: ignore[arg-type]  # anything may be asked
        begin = begin if named is None else named  # asked again wherever partitions move
        try:
            self._intake = Intake(
                settings, epochs, domain, topics,
                compacted=compacted, since=begin, group=group, interval_s=commit_interval_s,
            )  # fmt: skip
        except KafkaException as error:
            text = f"Changes of {', '.join(domains)} cannot be read: {error.args[0].str()}."
            raise KafkaUnavailableError(text) from error
        self._resumed, self._passed_over = self._intake.resumed, self._intake.passed_over
        opened(self)
        self._names = settings.journal.topics
        self._domains = domains
        self._journals = self._tellers(epochs)

    @property
    def resumed(self) -> bool:
        """Whether its group has read before and resumes where it stopped, so that `since` only applies to new
        partitions."""
        return self._resumed

    @property
    def passed_over(self) -> int:
        """How many records it has skipped so far, because the stream cannot have written them.

        They cannot be read, or contradict the journal; the log (`metajournal.subscription`) names them.
        """
        return self._passed_over.total

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._lock:
            intake = self._intake
            if intake is None:
                raise StopIteration
            self._settle()
            try:
                record = self._next(intake)
            except KafkaException as error:
                raise KafkaUnavailableError(f"Changes cannot be read: {error.args[0].str()}.") from error
            if record is None:
                self.close()
                raise StopIteration
            self._given += 1
            return record

    def _settle(self) -> None:
        """What is at hand is done."""
        if self._hand is not None:
            reading, identity = self._hand
            self._hand = None
            _take(reading, identity)
            self._quiet_since = time.monotonic()

    def _next(self, intake: Intake) -> T | None:
        """The next record to deliver; None where there will be none."""
        if self._limit is not None and self._given >= self._limit:
            return None
        intake.keep_if_due()
        if intake.buffer and time.monotonic() - intake.polled_at > _TOP_UP_S:
            intake.fetch(0.0)
        while not intake.closing.is_set() and not self._stopped:
            while intake.buffer:
                try:
                    record = self._read(intake, intake.buffer.popleft())
                except _UnansweredError:
                    break
                if record is not None:
                    return record
            if self._over(intake):
                return None
            intake.fetch(self._pause(intake))
            intake.keep_if_due()
        return None

    def _pause(self, intake: Intake) -> float:
        left = _POLL_S if self._timeout_s is None else self._timeout_s - self._quiet_s(intake)
        return max(_LEAST_POLL_S, min(_POLL_S, left))

    def _quiet_s(self, intake: Intake) -> float:
        """Seconds since the last change, or since there could be one."""
        return time.monotonic() - max(self._quiet_since, intake.begun_at or 0.0)

    def _over(self, intake: Intake) -> bool:
        """Whether the caller's time-out has passed without a change."""
        if self._timeout_s is None:
            return False
        if intake.begun_at is None:  # nothing can come before the group has shared out its partitions
            self._quiet_since = self._quiet_since or time.monotonic()
        if self._quiet_s(intake) < self._timeout_s + (_BACKLOG_S if intake.behind else 0.0):
            return False
        text = intake.errors.since(max(intake.well_at, self._quiet_since))
        if text is not None:
            raise KafkaUnavailableError(f"Changes cannot be read: {text}.")
        return intake.begun_at is not None

    def _read(self, intake: Intake, message: Message) -> T | None:
        """What a message holds for the caller; None where it was delivered before, or was not asked for."""
        problem = message.error()
        if problem is not None:
            intake.problem(message, problem)
            return None
        offset = message.offset() or 0
        reading = intake.readings.get((message.topic() or "", message.partition() or 0))
        if reading is None or offset < reading.next:
            return None
        if self._compacted and message.value() is None:
            reading.next = offset + 1  # an operator has erased this entity
            return None
        record: T | None = None
        try:
            own = identity(message)
            if reading.ledger.is_new(own.source, own.place, own.key, own.offset):
                self._check_claim(intake, reading, own, message)
                record = self._asked_for(reading, own, message)
        except (DecodeError, InvalidUrnError) as error:
            intake.passed_over.damaged(reading.partition, offset, error)
            reading.pass_over(offset)
        except _ForgedError as error:
            intake.passed_over.claims(reading.partition, offset, str(error))
            reading.pass_over(offset)
        else:
            if record is not None:
                self._hand = reading, own
                return record
            _take(reading, own)
        if offset < reading.backlog_end:
            self._quiet_since = time.monotonic()
        return None

    def _check_claim(self, intake: Intake, reading: Reading, identity: Identity, message: Message) -> None:
        """Whether the journal holds what a record speaks of.

        Raises:
            _ForgedError: it does not.
            _UnansweredError: Kafka does not say; the message is to be read again.
        """
        (topic, partition), (position, seq) = identity.source, identity.place
        count = intake.targets[reading.partition[0]]
        try:
            in_journal = intake.ends.holds(identity.source, position, intake.arrived_s)
        except MetajournalError as error:
            intake.buffer.appendleft(message)
            if error.code == KafkaUnavailableError.CODE:
                raise _UnansweredError from error
            raise
        if (
            not in_journal
            or not self._is_told_by(topic, intake)
            or partition % count != reading.partition[1]
            or seq > _MOST_SEQ
        ):
            raise _ForgedError(f"position {position}, row {seq} of {topic}/{partition}")

    def _is_told_by(self, topic: str, intake: Intake) -> bool:
        """Whether a journal topic tells of what is read; that of a domain that has joined since it was opened, too."""
        if topic not in self._journals and intake.ends.epochs is not None:
            self._journals |= self._tellers(intake.ends.epochs)
        return topic in self._journals

    def _tellers(self, epochs: Epochs) -> frozenset[str]:
        """The journal topics that tell of what is read."""
        return frozenset(
            self._names.journal(teller)
            for name in self._domains
            for teller in told_by(name, epochs.domains, compacted=self._compacted)
        )

    def _asked_for(self, reading: Reading, identity: Identity, message: Message) -> T | None:
        if identity.offset < reading.silent_until or message.timestamp()[1] < reading.since_ms:
            return None
        if not self._wanted.wants(identity.urn, identity.tenant, identity.type):
            return None
        return self._made(message, identity)

    def ack(self) -> None:
        """Mark everything delivered so far as done, and wait until the broker has stored that.

        Raises:
            KafkaUnavailableError: the broker does not confirm it in time, or has already reassigned a partition; what
                is not confirmed may be delivered again.
            InputError: the subscription was closed before its last change was done.
        """
        with self._lock:
            if self._intake is None:
                self._check_done()
                return
            self._settle()
            if not self._intake.keep(_COMMIT_S):
                raise KafkaUnavailableError(
                    f"The group {self._group} has not kept all that is done: Kafka did not confirm it within "
                    f"{_COMMIT_S:g} s, or has already reassigned a partition.",
                    hint="Continue: the next commit includes what this member still has. Changes that are not "
                    "committed are delivered again, with the same id.",
                )

    def _check_done(self) -> None:
        if self._undone:
            raise InputError(
                "The subscription was closed while its last change was being handled: that one is not done, and is "
                "delivered again.",
                code="closed",
                hint="Call ack() before close(), or leave the `with` block normally.",
            )

    def stop(self) -> None:
        """End the iteration at the next step, and commit what is done; may be called in a signal handler."""
        self._stopped = True

    def close(self) -> None:
        """Commit what is done, leave the group, stop the threads. The change being handled is not done."""
        intake = self._intake
        if intake is None:
            return
        intake.closing.set()
        with self._lock:
            if self._intake is None:
                return
            self._undone = self._group is not None and self._hand is not None
            self._hand = None
            self._intake = None
            try:
                intake.close(_CLOSING_S)
            finally:
                closed(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            with self._lock:
                self._settle()
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_intake", None) is not None:
            self.close()


def _check_served(epochs: Epochs, domain: str, *, compacted: bool) -> None:
    """Refuse a domain whose changes or states nobody publishes. Raises: as `Subscription`."""
    others = tuple(served.name for served in epochs.outside if served.has_changes)
    served = epochs.domains if compacted else tuple(dict.fromkeys(change_domains() + others))
    if domain in epochs.refusals or (is_joining(domain) and domain not in epochs.domains):
        raise epochs.not_served(domain, f"A subscription to {domain}")
    if domain not in served:
        raise InputError(f"There is no domain {domain!r} with changes.", hint=f"Served: {', '.join(served)}.")


def _take(reading: Reading, identity: Identity) -> None:
    reading.ledger.take(identity.source, identity.place, identity.key, identity.offset)
    reading.next = identity.offset + 1


def _is_name(group: object) -> bool:
    """Whether librdkafka takes a group's name as it is.

    It cuts at a NUL, strips blanks, and ends the process where none or a lone surrogate is left.
    """
    if not isinstance(group, str) or not 0 < len(group) <= 255 or group != group.strip():
        return False
    return not any(category(character)[0] == "C" for character in group)
