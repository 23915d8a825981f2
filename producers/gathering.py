"""The events of a unit before it is sent: checked one by one, kept with every fault, made into records together.

Left to others: when they are sent and what a user is told of it (units).
Invariants: `records` gives all of them or raises, so half a unit is never sent; what can no longer be sent takes no
more memory; a unit belongs to one tenant, and no two of its events have the same identity.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..schemas.encoding.codec import encode
from ..schemas.errors import (
    EventTooLargeError,
    Fault,
    InputError,
    InvalidEventError,
    InvalidUnitError,
    MetajournalError,
    UnknownKindError,
)
from ..schemas.events.base import Event
from ..schemas.hashing import DIGEST_BYTES, DIGEST_HEADER
from ..schemas.header import Header
from ..schemas.header import Unit as Membership
from ..schemas.ids import id_text
from ..schemas.limits import MAX_UNIT_BYTES, MAX_UNIT_EVENTS
from ..schemas.positions import Position
from ..schemas.urn import Urn
from .options import Options, read_options
from .receipts import Journaled, Receipt
from .recorded.late import late_faults
from .transactions import Outgoing
from .verdicts import Outcome
from .waiting.futures import AwaitableFuture

if TYPE_CHECKING:
    from confluent_kafka import Message


class Sending(Protocol):
    """What a unit needs of its emitter."""

    def new_id(self, now_ms: int) -> bytes:
        """An id for an event or a unit."""

    def place(self, tenant: str, aggregate: Urn) -> tuple[bytes, int]:
        """Key and partition of an aggregate's records."""

    def journal_of(self, aggregate: Urn) -> Journaled:
        """Journal topic of an aggregate. Raises: UnservedDomainError, UnknownKindError."""

    def commit(self, event_types: Iterable[str], records: list[Outgoing], *, block_s: float) -> list[Message]:
        """Write all records in one transaction, behind what was emitted before.

        Raises:
            NotCommitted, CommitUnknown: as `Transactions.commit`.
            QueueFullError, KafkaUnavailableError, InputError: nothing was sent.
        """


class Gathered(NamedTuple):
    """One event of a unit; its header lacks the unit."""

    number: int
    event: Event
    header: Header
    topic: str
    receipt: Receipt


class Gathering:
    """Takes the events of one unit.

    Args:
        defaults: tenant and actor where neither the unit nor the event says one.
        failure: why a receipt of this unit has no position.
        unit_options: options of the unit, which its events have where they do not say otherwise.
    """

    def __init__(
        self,
        sending: Sending,
        *,
        defaults: tuple[str, str | None],
        failure: Callable[[], MetajournalError],
        unit_id: str | None,
        repeat: bool,
        **unit_options: Any,
    ) -> None:
        options, faults = read_options(expected=None, event_id=unit_id, repeat=repeat, **unit_options)
        self.tenant = options.tenant or defaults[0]
        self.unit_id = options.event_id or sending.new_id(now_ms())
        self.events: list[Gathered] = []
        self.count = 0
        self._sending = sending
        self._failure = failure
        self._said = options._replace(actor=options.actor or defaults[1])
        self._repeat = repeat is True
        self._faults = [_of_unit(fault) for fault in faults]
        self._ids: set[tuple[Urn, bytes]] = set()

    def add(self, event: Event, *, repeat: bool, tenant: str | None, **event_options: Any) -> Receipt:
        """Check an event and keep it, or keep what is wrong with it."""
        number, self.count = self.count, self.count + 1
        if number >= MAX_UNIT_EVENTS:  # only counted: a unit that cannot be sent takes no more memory
            return self._hopeless()
        options, faults = read_options(tenant=tenant, repeat=repeat or self._repeat, **event_options)
        faults = _faults_of(event) + faults
        if tenant is not None and tenant != self.tenant:
            faults.append(Fault("tenant", f"a unit has one tenant, here {self.tenant}"))
        gathered = None if faults else self._gathered(number, event, options, repeat or self._repeat, faults)
        self._faults += [Fault(f"events[{number}].{fault.field}", fault.message) for fault in faults]
        if gathered is None:
            return self._hopeless()
        self.events.append(gathered)
        return gathered.receipt

    def records(self, *, doubtful: bool) -> list[Outgoing]:
        """The records of all events.

        Args:
            doubtful: they may be in the journal already.
        Raises:
            InvalidUnitError: at least one of them cannot be sent; lists every fault of every event.
        """
        faults = list(self._faults)
        if self.count > MAX_UNIT_EVENTS:
            faults.append(Fault("events", f"are {self.count:,}, a unit has at most {MAX_UNIT_EVENTS:,}"))
        records = [self._record(index, gathered, doubtful, faults) for index, gathered in enumerate(self.events)]
        size = sum(len(record.value) for record in records)
        if size > MAX_UNIT_BYTES:
            faults.append(Fault("events", f"take {size:,} bytes together, the limit is {MAX_UNIT_BYTES:,}"))
        if faults:
            raise InvalidUnitError(faults, unit_id=id_text(self.unit_id))
        return records

    def _hopeless(self) -> Receipt:
        """The receipt of an event that keeps the unit from being sent."""
        return Receipt(self._sending.new_id(now_ms()), Uncommitted(self._failure, None))

    def _gathered(
        self, number: int, event: Event, options: Options, repeat: bool, faults: list[Fault]
    ) -> Gathered | None:
        """The event with its header; None and a further fault where it does not fit into the unit."""
        entities, defaults, now = event.entities, self._said, now_ms()
        aggregate = entities[0].aggregate
        event_id = options.event_id or self._sending.new_id(now)
        try:
            journal = self._sending.journal_of(aggregate)
        except UnknownKindError as error:
            faults.append(Fault("entity", f"{error.message} {error.hint}"))
            return None
        except InputError as unserved:
            faults.append(Fault("entity", unserved.message))
            return None
        late = late_faults(event)
        if late:
            faults += late
            return None
        if (aggregate, event_id) in self._ids:
            faults.append(Fault("event_id", "another event of the unit has it"))
            return None
        self._ids.add((aggregate, event_id))
        when = next((time_ms for time_ms in (options.event_time, defaults.event_time) if time_ms is not None), now)
        header = Header(
            event_id, self.tenant, event.TYPE, aggregate, entities, options.actor or defaults.actor, when,
            options.expected, None, options.cause or defaults.cause, repeat,
        )  # fmt: skip
        receipt = Receipt(event_id, Uncommitted(self._failure, journal))
        return Gathered(number, event, header, journal.name, receipt)

    def _record(self, index: int, gathered: Gathered, doubtful: bool, faults: list[Fault]) -> Outgoing:
        unit = Membership(self.unit_id, index, len(self.events))
        header = gathered.header._replace(unit=unit, repeat=gathered.header.repeat or doubtful)
        value = _value(gathered.event, header, f"events[{gathered.number}]", faults)
        key, partition = self._sending.place(self.tenant, gathered.event.entities[0].aggregate)
        return Outgoing(
            gathered.topic, partition, key, value, [(DIGEST_HEADER, blake2b(value, digest_size=DIGEST_BYTES).digest())]
        )


class Uncommitted:
    """A unit's journal topic as its receipts see it (receipts.Journaled): before the commit they know nothing."""

    __slots__ = ("_failure", "_journal", "epoch", "name")

    def __init__(self, failure: Callable[[], MetajournalError], journal: Journaled | None) -> None:
        self._failure = failure
        self._journal = journal
        self.name = "" if journal is None else journal.name
        self.epoch = 0 if journal is None else journal.epoch

    def wait_s(self) -> float:
        raise self._failure()

    def serve(self, timeout_s: float) -> None:
        """Nothing to take in: a report comes only with the commit."""

    def failed(self, receipt: Receipt) -> None:
        """The unit's own error tells it."""

    def outcome(self, position: Position, system_time: int, timeout_s: float | None) -> Outcome:
        assert self._journal is not None  # only an event with a journal has a position
        return self._journal.outcome(position, system_time, timeout_s)

    def outcome_future(self, position: Position, system_time: int, timeout_s: float | None) -> AwaitableFuture[Outcome]:
        assert self._journal is not None
        return self._journal.outcome_future(position, system_time, timeout_s)

    def watch(self, receipt: Receipt, limit_s: float, callback: Callable[[Receipt], object]) -> None:
        """Only a commit fills a unit's receipts in, all at once. Raises: why there is none yet."""
        raise self._failure()


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _of_unit(fault: Fault) -> Fault:
    """A fault of an option as one of the unit's: its id stands where an event's does."""
    if fault.field == "event_id":
        return Fault("unit_id", fault.message.replace("an event id as receipts give it", "the id of a unit"))
    if fault.message.startswith("needs the event_id"):
        return Fault("repeat", "needs the unit_id of the unit that is sent again")
    return fault


def _faults_of(event: Any) -> list[Fault]:
    if isinstance(event, type):
        return [Fault("event", f"must be an event, not the class {event.__name__}")]
    validate: Callable[[], list[Fault]] | None = getattr(event, "validate", None)
    return [Fault("event", f"must be an event, not {type(event).__name__}")] if validate is None else validate()


def _value(event: Event, header: Header, where: str, faults: list[Fault]) -> bytes:
    """The encoded event; empty where it cannot be sent, with its faults added."""
    try:
        return encode(event, header)
    except EventTooLargeError as error:
        text = f"the event takes {error.size_bytes:,} bytes, the limit is {error.limit_bytes:,}"
        faults.append(Fault(f"{where}.{error.field}", text))
    except InvalidEventError as error:
        faults += [Fault(f"{where}.{fault.field}", fault.message) for fault in error.faults]
    return b""
