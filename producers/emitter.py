"""The emitter: typed events in, records in the journal topics, a receipt for each.

Job: validate, encode, key, hand to librdkafka, and tell apart what can go wrong: refused before sending
(InvalidEventError, EventTooLargeError, UnservedDomainError, QueueFullError), not reachable (KafkaUnavailableError), and
not acknowledged (OutcomeUnknownError, from the receipt). What the rules decide is `Receipt.outcome`'s to tell.
Invariants: nothing invalid is sent; a schema is in the schemas topic before its first event; at most
`client.queue_events` events wait for their acknowledgement; per aggregate the order of the emits of a thread is kept.

`emit` is the hot path (some 10 us): it does no work twice and makes no object that it can share.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import cycle
from time import time_ns
from typing import Any, Final, NoReturn, TypeAlias

from confluent_kafka import KafkaException

from ..schemas.encoding.codec import encode
from ..schemas.errors import (
    Fault,
    InputError,
    InvalidEventError,
    KafkaUnavailableError,
    OutcomeUnknownError,
    QueueFullError,
)
from ..schemas.events.base import Event
from ..schemas.hashing import DIGEST_BYTES, DIGEST_HEADER, partition_of, record_key
from ..schemas.header import Header
from ..schemas.positions import Position
from ..schemas.registry import domain_named, served
from ..schemas.settings import Settings
from ..schemas.urn import Urn
from .actor import actor_of
from .committing import Committing
from .counting import ClientMetrics
from .ids import EventIds
from .kafka import ErrorLog, make_producer, servers_of, take_in, wait_for_broker
from .known_kinds import KnownKinds
from .options import read_options
from .outcomes import OutcomeReader
from .pending import LatestEmits
from .published import SchemaPublisher
from .receipts import Receipt
from .recorded.late import late_faults
from .recorded.served import missing_package
from .topics import Epochs, TopicEpoch
from .units import Unit
from .verdicts import Outcome
from .waiting.acknowledged import Acknowledgements
from .waiting.futures import AwaitableFuture

_CACHED_KEYS: Final = 16_384
_SERVE_EVERY: Final = 64
"""Emits between two turns of serving delivery reports. The emitting thread does it: each report takes Python's lock
anew, so a thread beside it would wait for that lock at every single one."""
_AWAITED_S: Final = 0.005
"""Seconds of one turn of the background thread while somebody waits for an acknowledgement without a thread."""
_EMPTYING_S: Final = 0.01
"""Seconds of one turn of waiting for an empty queue."""
_IDLE_S: Final = 0.05
"""Seconds without a turn of an emitting thread after which the background thread serves the reports."""
_Headers: TypeAlias = list[tuple[str, str | bytes | None]]
_new_tuple: Final = tuple.__new__
_KEPT_FAILURES: Final = 1000
_IN_OTHERS: Final = frozenset(domain.name for domain in served() if domain.journal is not None)
"""Our own domains whose events stand in another one's topic."""


class _Journal:
    """The journal topic of one domain, as its receipts see it (receipts.Journaled)."""

    __slots__ = ("_emitter", "epoch", "is_outside", "name", "partitions")

    def __init__(self, recorded: TopicEpoch, emitter: Emitter) -> None:
        self.name = recorded.topic
        self.epoch = recorded.epoch
        self.partitions = recorded.partitions
        self.is_outside = recorded.served is not None
        self._emitter = emitter

    def wait_s(self) -> float:
        return self._emitter.settings.client.delivery_timeout_s

    def serve(self, timeout_s: float) -> None:
        self._emitter.serve(timeout_s)

    def failed(self, receipt: Receipt) -> None:
        self._emitter.note_failure(receipt)

    def outcome(self, position: Position, system_time: int, timeout_s: float | None) -> Outcome:
        counter, outcomes = self._emitter.counter, self._emitter.outcomes
        if counter is None:
            return outcomes.outcome(position, system_time, timeout_s)
        verdict: Outcome = counter.outcome(lambda: outcomes.outcome(position, system_time, timeout_s))
        return verdict

    def outcome_future(self, position: Position, system_time: int, timeout_s: float | None) -> AwaitableFuture[Outcome]:
        future = self._emitter.outcomes.outcome_future(position, system_time, timeout_s)
        if self._emitter.counter is not None:
            self._emitter.counter.outcome_future(future)
        return future

    def watch(self, receipt: Receipt, limit_s: float, callback: Callable[[Receipt], object]) -> None:
        self._emitter.watch(receipt, limit_s, callback)


class Emitter:
    """Emits events of one installation; shared between threads, closed once.

    Args:
        settings: everything that can be set.
        epochs: the journal topics as `check_topics` found them.
        connect_timeout_s: seconds to wait for a broker.
        beside: another emitter of the process, whose counts this one's are among.
    Raises:
        KafkaUnavailableError: no broker answers in time.
        ConfigError: the `[kafka]` table is wrong.
    """

    def __init__(
        self, settings: Settings, epochs: Epochs, *, connect_timeout_s: float = 5.0, beside: Emitter | None = None
    ) -> None:  # fmt: skip
        self.settings = settings
        self._epochs = epochs
        self.errors = ErrorLog()
        self.outcomes = OutcomeReader(settings, epochs)
        names = settings.journal.topics
        self._journals = {domain: _Journal(epochs[names.journal(domain)], self) for domain in epochs.domains}
        self._producer = make_producer(settings, self.errors)
        wait_for_broker(self._producer, self.errors, servers=servers_of(settings), timeout_s=connect_timeout_s)
        self._produce: Callable[..., None] = self._producer.produce
        self._poll = partial(take_in, self._producer.poll, self.errors)
        self._flush = partial(take_in, self._producer.flush, self.errors)
        self._tenant = settings.journal.tenant
        self._actor = actor_of(settings)
        self._new_id = EventIds()
        self._check_kind = KnownKinds(settings).check
        self._place: Callable[[str, Urn], tuple[bytes, int]] = (
            lru_cache(maxsize=_CACHED_KEYS)(self._placed) if beside is None else beside._place
        )
        self._schemas = SchemaPublisher(settings)
        self._published: set[str] = set()
        self._failures: deque[Receipt] = deque(maxlen=_KEPT_FAILURES)
        self._latest = LatestEmits()
        self._own_latest = self._latest.own
        self._committing = Committing(
            settings, self._producer, self.errors, self._latest, self._journals, new_id=self._new_id,
            place=self._place, publish=self._publish, not_served=epochs.not_served, check_kind=self._check_kind,
        )  # fmt: skip
        self._turn_is_due = cycle([False] * (_SERVE_EVERY - 1) + [True]).__next__
        self._turned = False
        self._acknowledgements = Acknowledgements()
        self._closing = threading.Event()
        port = settings.client.metrics_port
        self._beside = beside
        self.counter: ClientMetrics | None = ClientMetrics(port) if port is not None and beside is None else None
        if beside is not None:
            self.counter = beside.counter
        if self.counter is not None:
            self.counter.waiting[self] = self._producer.__len__
            vars(self)["emit"] = self.counter.emitting(self.emit)
        _open.add(self)
        self._idler = threading.Thread(target=self._serve_idle, name="metajournal-emitter", daemon=True)
        self._idler.start()

    def emit(
        self,
        event: Event,
        *,
        actor: str | None = None,
        event_time: Any = None,
        expected: int | Position | None = None,
        cause: str | None = None,
        tenant: str | None = None,
        event_id: str | None = None,
        repeat: bool = False,
        block_s: float = 0.0,
    ) -> Receipt:
        """Send one event; returns at once, the receipt tells the rest.

        Args:
            event: an event of a served domain.
            actor: who does it; `journal.actor` of the settings where None, by default the operating system's user.
            event_time: when it happened, a time as `schemas.times.time_ms` reads it; now where None.
            expected: logical timestamp that the entity's newest history row must have; 0: it must not exist.
            cause: id of the event that led to this one.
            tenant: `journal.tenant` of the settings if None.
            event_id: id of an event that is sent again, with `repeat`; a new one where None.
            repeat: the event may stand in the log already (sent again after an unknown outcome).
            block_s: seconds to wait for a place in the queue when it is full.
        Raises:
            InvalidEventError: the event or an option is wrong; lists every fault with its field. Nothing was sent.
            EventTooLargeError: the encoded event exceeds the limit. Nothing was sent.
            UnservedDomainError: the entity's domain is not served, by this version or yet. Nothing was sent.
            TopicMismatchError: its domain is refused: a topic of it is missing or another one. Nothing was sent.
            QueueFullError: too many events wait for their acknowledgement. Nothing was sent.
            KafkaUnavailableError: the event's schema could not be published, or Kafka's client takes no event any more.
                Nothing was sent.
        """
        try:
            faults = event.validate()
        except (AttributeError, TypeError):
            if hasattr(event, "validate") and not isinstance(event, type):
                raise
            given = f"the class {event.__name__}" if isinstance(event, type) else type(event).__name__
            raise InvalidEventError([Fault("event", f"must be an event, not {given}")]) from None
        now_ms = time_ns() // 1_000_000
        if actor is cause is tenant is event_id is event_time is expected is None and repeat is False:
            new_id, whose, who, when = self._new_id(now_ms), self._tenant, self._actor, now_ms
            wanted = because = None
        else:
            new_id, whose, who, when, wanted, because = self._options_of(
                now_ms, faults, tenant=tenant, actor=actor, event_time=event_time, expected=expected, cause=cause,
                event_id=event_id, repeat=repeat,
            )  # fmt: skip
        if faults:
            raise InvalidEventError(faults)
        entities = event.entities
        aggregate = entities[0].aggregate
        self._check_kind(aggregate)
        journal = self._journals.get(aggregate.domain)
        if journal is None:
            raise self._epochs.not_served(aggregate.domain, aggregate)
        if journal.is_outside and (faults := late_faults(event)):
            raise InvalidEventError(faults)
        event_type = event.TYPE
        if event_type not in self._published:
            self._publish(event_type)
        # `tuple.__new__` makes the same Header in half the time of its own constructor.
        header = _new_tuple(
            Header, (new_id, whose, event_type, aggregate, entities, who, when, wanted, None, because, repeat)
        )
        value = encode(event, header)
        receipt = Receipt(new_id, journal)
        key, partition = self._place(whose, aggregate)
        headers: _Headers = [(DIGEST_HEADER, blake2b(value, digest_size=DIGEST_BYTES).digest())]
        try:
            self._produce(journal.name, value, key, partition, receipt.delivered, None, 0, headers)
        except BufferError:
            self._produce_later(receipt, value, key, partition, headers, block_s)
        except KafkaException as error:
            raise self._refused(error) from error
        self._own_latest.by_key[key] = receipt
        if self._turn_is_due():
            self._turn()
        return receipt

    def unit(self, **unit_options: Any) -> Unit:
        """A unit, to be filled and committed. Its arguments: those of `Journal.unit`."""
        return Unit(self._committing, defaults=(self._tenant, self._actor), **unit_options)

    @property
    def pending(self) -> int:
        """Events that wait for their acknowledgement."""
        return len(self._producer)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every event emitted so far, by whichever thread, is acknowledged.

        Args:
            timeout_s: seconds to wait; the delivery time-out where None.
        Raises:
            OutcomeUnknownError: some are not acknowledged in time, or failed since the last flush; `event_ids` names
                those that failed (at most 1,000), `pending` counts those that still wait.
        """
        limit = self._limit_s(timeout_s)
        left = self.settle(limit)
        self._tell(left, self._taken_failures(), limit)

    def settle(self, timeout_s: float) -> int:
        """Wait until every event emitted so far is acknowledged or has failed, whoever emits more meanwhile.

        Args:
            timeout_s: seconds to wait.
        Returns:
            How many events still wait then; 0 where it is done.
        """
        deadline = time.monotonic() + timeout_s
        if self._latest.settled(None, self._flush, deadline, self._producer.__len__):
            return 0
        return len(self._producer)

    def close(self, timeout_s: float | None = None) -> None:
        """Wait for the acknowledgements, then let go of the connections; further calls do nothing.

        From then on `emit` is an InputError. What another thread is in the middle of emitting is waited for too.

        Args:
            timeout_s: as of `flush`.
        Raises:
            OutcomeUnknownError: as `flush`; `event_ids` names those that were given up, too.
        """
        if self._closing.is_set():
            return
        self._produce = _refuse_closed
        limit = self._limit_s(timeout_s)
        try:
            left = self._emptied(limit)
            failed = self._taken_failures()
        finally:
            self._let_go()
        given_up = self._taken_failures()
        self._tell(max(left, len(given_up)), failed, limit, given_up)

    def forked(self) -> None:
        """This is the copy of the emitter in a forked process: the client's threads did not come along."""
        self._produce = _refuse_forked
        self._committing.refuse(_forked_error)

    def serve(self, timeout_s: float) -> None:
        """Take delivery reports in, waiting for one if there is none."""
        self._poll(timeout_s)

    def publish_schemas(self, event_type: str) -> None:
        """Have the schemas of an event type's domain in the schemas topic, so that no later emit waits for it.

        Raises:
            KafkaUnavailableError: they could not be published.
        """
        self._publish(event_type)

    @property
    def ended(self) -> str | None:
        """Why Kafka's client sends nothing more, until this emitter is made anew; None while it works."""
        fatal = self.errors.fatal
        return fatal.text if fatal is not None else None

    def check_broker(self, timeout_s: float) -> None:
        """Ask a broker for anything. Raises: KafkaUnavailableError: none answers in time, or the client has ended."""
        if (ended := self.ended) is not None:
            raise KafkaUnavailableError(
                f"Kafka's client has failed and sends nothing more ({ended}).",
                hint="Connect again: Journal.connect(). A server is to be restarted.",
            )
        wait_for_broker(self._producer, self.errors, servers=servers_of(self.settings), timeout_s=timeout_s)

    def watch(self, receipt: Receipt, limit_s: float, callback: Callable[[Receipt], object]) -> None:
        """Call back once a receipt is acknowledged or has failed, or after so many seconds."""
        self._acknowledgements.add(receipt, limit_s, callback)
        if self._closing.is_set():  # nobody looks at them any more
            self._acknowledgements.settle(every=True)

    def note_failure(self, receipt: Receipt) -> None:
        """Keep an event that was not acknowledged, for the next flush to tell."""
        self._failures.append(receipt)
        if self.counter is not None:
            self.counter.unacknowledged()

    def _limit_s(self, timeout_s: float | None) -> float:
        return self.settings.client.delivery_timeout_s + 1 if timeout_s is None else timeout_s

    def _taken_failures(self) -> list[Receipt]:
        """The events that failed since this was asked last."""
        return [self._failures.popleft() for _ in range(len(self._failures))]

    def _tell(self, left: int, failed: list[Receipt], limit: float, given_up: Sequence[Receipt] = ()) -> None:
        """Raises: OutcomeUnknownError: there is something to tell."""
        if not left and not failed:
            return
        first = failed[0].failure() if failed else None
        text = first.message if first is not None else (self.errors.latest.text if self.errors.latest else "no answer")
        counts = [f"{left:,} events were not acknowledged within {limit:g} s"] if left else []
        counts += [f"{len(failed):,} events failed"] if failed else []
        raise OutcomeUnknownError(
            f"{' and '.join(counts)}. {'The first: ' if first is not None else ''}{text}",
            hint="Check each receipt; send events whose outcome is unknown again, with their event_id and repeat=True.",
            pending=left,
            event_ids=tuple(receipt.event_id for receipt in [*failed, *given_up]),
        )

    def _emptied(self, timeout_s: float) -> int:
        """Wait until the queue is empty, as nothing is added to it any more; how many events still wait then."""
        deadline = time.monotonic() + timeout_s
        while (left := len(self._producer)) and time.monotonic() < deadline:
            self._flush(_EMPTYING_S)
        return left

    def _let_go(self) -> None:
        self._closing.set()
        self._acknowledgements.wake()
        self._committing.close()
        # What is left is given up now, so that nobody waits for a receipt that can never be filled in.
        self._producer.purge()
        self._flush(1)
        if threading.current_thread() is not self._idler:  # a callback that closes the journal runs there
            self._idler.join()
        self._acknowledgements.settle(every=True)
        self.outcomes.close()
        if self.counter is not None:
            self.counter.waiting.pop(self, None)
            if self._beside is None:
                self.counter.close()

    def _options_of(
        self, now_ms: int, faults: list[Fault], *, event_id: str | None, **emit_options: Any
    ) -> tuple[bytes, str, str | None, int, int | None, bytes | None]:
        """Id, tenant, actor, time, condition and cause of an event about which something is said; adds the faults."""
        options, more = read_options(event_id=event_id, **emit_options)
        faults += more
        return (
            options.event_id or self._new_id(now_ms),
            options.tenant or self._tenant,
            options.actor or self._actor,
            now_ms if options.event_time is None else options.event_time,
            options.expected,
            options.cause,
        )

    def _publish(self, event_type: str) -> None:
        if event_type not in self._published:
            self._check_served(event_type)
            self._schemas.publish(event_type)
            self._published.add(event_type)

    def _check_served(self, event_type: str) -> None:
        """Refuse an event of a domain that this journal does not serve, or whose package is not here."""
        name = event_type.partition(".")[0]
        if name not in self._journals and name not in _IN_OTHERS:
            raise self._epochs.not_served(name, event_type)
        declared = domain_named(name)
        if declared is not None and not declared.package:
            served = next(outside for outside in self._epochs.outside if outside.name == name)
            raise missing_package(name, served.package)

    def _placed(self, tenant: str, aggregate: Urn) -> tuple[bytes, int]:
        """Key and partition of an aggregate's records.

        The partition is the one of the recorded number of partitions: Kafka's client would go by the number that there
        is now, and move aggregates as soon as somebody adds a partition.
        """
        key = record_key(tenant, aggregate)
        return key, partition_of(key, self._journals[aggregate.domain].partitions)

    def _refused(self, error: KafkaException) -> KafkaUnavailableError:
        """What is told of an event that Kafka's client does not take, now or ever."""
        why = self.ended or error.args[0].str()
        return KafkaUnavailableError(
            f"Kafka's client does not take the event ({why}); nothing was sent.",
            hint="Connect again: Journal.connect().",
        )

    def _produce_later(
        self, receipt: Receipt, value: bytes, key: bytes, partition: int, headers: _Headers, block_s: float
    ) -> None:
        deadline = time.monotonic() + block_s
        while (remaining := deadline - time.monotonic()) > 0:
            self._poll(min(remaining, 0.01))
            try:
                self._produce(receipt.topic, value, key, partition, receipt.delivered, None, 0, headers)
            except BufferError:
                continue
            except KafkaException as error:
                raise self._refused(error) from error
            return
        limit = self.settings.client.queue_events
        raise QueueFullError(
            f"{self.pending:,} events are waiting for their acknowledgement, the limit is {limit:,}; the event was "
            "not accepted.",
            hint="Wait for earlier receipts (journal.flush()), emit with block_s, or raise client.queue_events.",
            pending=self.pending,
            limit=limit,
        )

    def _turn(self) -> None:
        """What an emitting thread does now and then."""
        self._turned = True
        self._poll(0)
        self._latest.tidy()

    def _serve_idle(self) -> None:
        while not self._closing.is_set():
            wait_s = 0.0
            if not self._acknowledgements:
                self._acknowledgements.wait(_IDLE_S)
            elif self._turned:
                self._closing.wait(_AWAITED_S)  # the emitting thread serves the reports
            else:
                wait_s = _AWAITED_S
            if not self._turned:
                self._poll(wait_s)
                self._committing.serve()
            self._turned = False
            self._acknowledgements.settle()


_open: Final[weakref.WeakSet[Emitter]] = weakref.WeakSet()


def _forked() -> None:
    for emitter in list(_open):
        emitter.forked()


os.register_at_fork(after_in_child=_forked)


def _refuse_forked(*_: object) -> NoReturn:
    """In the place of `produce` in a forked process: nothing would ever be sent."""
    raise _forked_error()


def _forked_error() -> InputError:
    return InputError(
        "This journal was connected in another process, before a fork; nothing was sent.",
        code="forked",
        hint="Connect in the process that emits: Journal.connect().",
    )


def _refuse_closed(*_: object) -> NoReturn:
    """In the place of `produce` once the emitter is closed: nobody would serve the event's report any more."""
    raise InputError("The journal is closed; nothing was sent.", hint="Connect again: Journal.connect().")
