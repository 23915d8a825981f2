"""Units: events of several aggregates, in the journal all or not at all.

Job: gather a unit's events, check them, and commit them in one transaction once the emits before them are
acknowledged. Left to others: the transaction itself (transactions), single events (emitter), verdicts (outcomes).
Invariants: nothing is sent before every event is known to be right; the events stand in the journal in the order of
their `emit` for each aggregate, behind every event that was emitted singly before; a unit whose outcome is unknown is
sent again only with every event marked `repeat`.

Whether an event is accepted stays each aggregate's own matter: a unit is about what is in the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from ..schemas.codec import encode
from ..schemas.errors import (
    EventTooLargeError,
    Fault,
    InputError,
    InvalidEventError,
    InvalidUnitError,
    KafkaUnavailableError,
    MetajournalError,
    OutcomeUnknownError,
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
from .transactions import CommitUnknown, NotCommitted, Outgoing
from .verdicts import Outcome, UnitOutcome

if TYPE_CHECKING:
    from confluent_kafka import Message

UnitEvent: TypeAlias = "Event | tuple[Event, Mapping[str, Any]]"
"""An event, or one with what is said about it: the arguments of `Unit.emit`."""

_AGAIN: Final = "Commit the unit again (unit.commit()), or emit its events anew."


class Sending(Protocol):
    """What a unit needs of its emitter."""

    def new_id(self, now_ms: int) -> bytes:
        """An id for an event or a unit."""

    def key(self, tenant: str, aggregate: str) -> bytes:
        """Key of an aggregate's records."""

    def journal_of(self, aggregate: Urn) -> Journaled:
        """Journal topic of an aggregate. Raises: UnservedDomainError."""

    def commit(self, event_types: Iterable[str], records: list[Outgoing], *, block_s: float) -> list[Message]:
        """Write all records in one transaction, behind what was emitted before.

        Raises:
            NotCommitted, CommitUnknown: as `Transactions.commit`.
            QueueFullError, KafkaUnavailableError, InputError: nothing was sent.
        """


class _Gathered(NamedTuple):
    """One event of a unit; its header lacks the unit."""

    number: int
    event: Event
    header: Header
    topic: str
    receipt: Receipt


class Unit:
    """Gathers events and commits them all or not at all; for one thread. Made by `Journal.unit`.

    Used as a context manager it commits at the end of the block; an exception in the block sends nothing. Afterwards
    it is the receipt: `positions`, `receipts`, and `outcome()` with each aggregate's verdict.
    """

    def __init__(
        self,
        sending: Sending,
        *,
        actor: str | None = None,
        event_time: Any = None,
        cause: str | None = None,
        tenant: str | None = None,
        unit_id: str | None = None,
        repeat: bool = False,
        block_s: float = 0.0,
        defaults: tuple[str, str | None],
    ) -> None:
        said, faults = read_options(
            tenant=tenant, actor=actor, event_time=event_time, expected=None, cause=cause, event_id=unit_id,
            repeat=repeat,
        )  # fmt: skip
        self._sending = sending
        self._said = said
        self._tenant = said.tenant or defaults[0]
        self._actor = said.actor or defaults[1]
        self._id = said.event_id or sending.new_id(_now_ms())
        self._repeat = repeat is True
        self._block_s = block_s
        self._faults = [_of_unit(fault) for fault in faults]
        self._gathered: list[_Gathered] = []
        self._ids: set[tuple[Urn, bytes]] = set()
        self._count = 0
        self._committed = False
        self._failure: MetajournalError | None = None
        self._doubt: OutcomeUnknownError | None = None
        """An attempt that was not answered; whatever comes after it, its events may be in the journal."""

    @property
    def id(self) -> str:
        """The unit's id, known at once; every event's header carries it."""
        return id_text(self._id)

    @property
    def tenant(self) -> str:
        """The tenant of all events."""
        return self._tenant

    @property
    def committed(self) -> bool:
        """Whether all events are in the journal."""
        return self._committed

    @property
    def event_ids(self) -> tuple[str, ...]:
        """The id of each event, in order."""
        return tuple(one.receipt.event_id for one in self._gathered)

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipt of each event, in order."""
        return tuple(one.receipt for one in self._gathered)

    @property
    def positions(self) -> tuple[Position, ...]:
        """Where each event stands in the journal. Raises: as `Receipt.position`, where the unit is not committed."""
        return tuple(receipt.position for receipt in self.receipts)

    def emit(
        self,
        event: Event,
        *,
        actor: str | None = None,
        event_time: Any = None,
        expected: int | Position | None = None,
        cause: str | None = None,
        event_id: str | None = None,
        repeat: bool = False,
        tenant: str | None = None,
    ) -> Receipt:
        """Put an event into the unit; it is checked now, and `commit` tells what is wrong with any of them.

        Args:
            event: an event of a served domain.
            actor, event_time, cause: as those of `Journal.emit`; the unit's where None.
            expected, event_id, repeat: as those of `Journal.emit`.
            tenant: nothing but the unit's own.
        Returns:
            Its receipt, which knows the position once the unit is committed.
        Raises:
            InputError: the unit is committed already.
        """
        if self._committed:
            raise InputError(f"The unit {self.id} is committed; begin another one.", unit_id=self.id)
        self._count += 1
        if self._count > MAX_UNIT_EVENTS:  # only counted: a unit that cannot be sent takes no more memory
            return self._hopeless()
        options, faults = read_options(
            tenant=tenant, actor=actor, event_time=event_time, expected=expected, cause=cause, event_id=event_id,
            repeat=repeat or self._repeat,
        )  # fmt: skip
        faults = _faults_of(event) + faults
        if tenant is not None and tenant != self._tenant:
            faults.append(Fault("tenant", f"a unit has one tenant, here {self._tenant}"))
        gathered = None if faults else self._headed(event, options, repeat or self._repeat, faults)
        self._faults += [Fault(f"events[{self._count - 1}].{fault.field}", fault.message) for fault in faults]
        if gathered is None:
            return self._hopeless()
        self._gathered.append(gathered)
        return gathered.receipt

    def commit(self) -> None:
        """Send all events in one transaction and wait until it is committed. A unit without events sends nothing.

        It may be called again after an error; what may be in the journal already is then marked `repeat`, so that it
        counts once.
        Raises:
            InvalidUnitError: something is wrong with an event, an option or the size; lists every fault of every
                event. Nothing was sent.
            QueueFullError: too many events wait for their acknowledgement. Nothing was sent.
            KafkaUnavailableError: nothing of the unit is in the journal, or ever will be from this attempt.
            OutcomeUnknownError: all of it is in the journal, or nothing; `unit_id` and `event_ids` name it.
            InputError: the unit is committed already, or the journal is closed.
        """
        if self._committed:
            raise InputError(f"The unit {self.id} is committed already.", unit_id=self.id)
        try:
            records = self._encoded()
            reports = self._sent(records) if records else []
        except MetajournalError as failure:
            self._failure = failure
            raise
        except BaseException:
            self._unknown("it was interrupted")
            raise
        for one, report in zip(self._gathered, reports, strict=True):
            one.receipt.delivered(None, report)
        self._committed = True

    def outcome(self, timeout_s: float | None = None) -> UnitOutcome:
        """What the rules decided about each event; waits for the stream to reach all of them.

        Args:
            timeout_s: seconds to wait for all together; `client.outcome_timeout_s` for each where None.
        Raises:
            As `Receipt.outcome`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        outcomes: list[tuple[str, Outcome]] = []
        for one in self._gathered:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            outcomes.append((str(one.header.aggregate), one.receipt.outcome(left)))
        return UnitOutcome(tuple(outcomes))

    def failure(self) -> MetajournalError:
        """Why a receipt of this unit has no position."""
        failure = self._doubt or self._failure
        if failure is not None:
            return failure
        return InputError(
            f"The unit {self.id} is not committed.", hint="Ask its receipts after the with block.", unit_id=self.id
        )

    def __enter__(self) -> Unit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    def _hopeless(self) -> Receipt:
        """The receipt of an event that keeps the unit from being sent."""
        return Receipt(self._sending.new_id(_now_ms()), _Uncommitted(self, None))

    def _headed(self, event: Event, options: Options, repeat: bool, faults: list[Fault]) -> _Gathered | None:
        """The event with its header, or another fault."""
        entities = event.entities
        aggregate = entities[0].aggregate
        now_ms = _now_ms()
        event_id = options.event_id or self._sending.new_id(now_ms)
        try:
            journal = self._sending.journal_of(aggregate)
        except InputError as unserved:
            faults.append(Fault("entity", unserved.message))
            return None
        if (aggregate, event_id) in self._ids:
            faults.append(Fault("event_id", "another event of the unit has it"))
            return None
        self._ids.add((aggregate, event_id))
        when = next((one for one in (options.event_time, self._said.event_time) if one is not None), now_ms)
        header = Header(
            event_id, self._tenant, event.TYPE, aggregate, entities, options.actor or self._actor, when,
            options.expected, None, options.cause or self._said.cause, repeat,
        )  # fmt: skip
        return _Gathered(self._count - 1, event, header, journal.name, Receipt(event_id, _Uncommitted(self, journal)))

    def _encoded(self) -> list[Outgoing]:
        """The records, all of them right. Raises: InvalidUnitError."""
        faults = list(self._faults)
        if self._count > MAX_UNIT_EVENTS:
            faults.append(Fault("events", f"are {self._count:,}, a unit has at most {MAX_UNIT_EVENTS:,}"))
        count = len(self._gathered)
        records = []
        for index, one in enumerate(self._gathered):
            header = one.header._replace(
                unit=Membership(self._id, index, count), repeat=one.header.repeat or self._doubt is not None
            )
            value = _value(one.event, header, f"events[{one.number}]", faults)
            headers: list[tuple[str, str | bytes | None]] = [
                (DIGEST_HEADER, blake2b(value, digest_size=DIGEST_BYTES).digest())
            ]
            key = self._sending.key(self._tenant, str(one.header.aggregate))
            records.append(Outgoing(one.topic, key, value, headers))
        size = sum(len(record.value) for record in records)
        if size > MAX_UNIT_BYTES:
            faults.append(Fault("events", f"take {size:,} bytes together, the limit is {MAX_UNIT_BYTES:,}"))
        if faults:
            raise InvalidUnitError(faults, unit_id=self.id)
        return records

    def _sent(self, records: list[Outgoing]) -> list[Message]:
        types = {one.header.type for one in self._gathered}
        try:
            return self._sending.commit(types, records, block_s=self._block_s)
        except CommitUnknown as failed:
            raise self._unknown(str(failed)) from failed
        except NotCommitted as failed:
            if self._doubt is not None:  # this attempt failed; what became of the earlier one is not known
                raise self._unknown(f"sending it again failed: {failed}") from failed
            raise KafkaUnavailableError(
                f"The unit {self.id} was not committed: {failed}. None of its {len(records):,} events is in the"
                " journal.",
                hint=_AGAIN,
                unit_id=self.id,
                event_ids=self.event_ids,
            ) from failed

    def _unknown(self, why: str) -> OutcomeUnknownError:
        self._doubt = OutcomeUnknownError(
            f"Whether the unit {self.id} is in the journal is not known ({why}): all of its events are, or none.",
            hint="Commit it again (unit.commit()), or begin journal.unit(unit_id=..., repeat=True) and emit the same"
            " events with their event_id; what is there already counts once.",
            unit_id=self.id,
            event_ids=self.event_ids,
        )
        return self._doubt

    def __repr__(self) -> str:
        failure = self._doubt or self._failure
        state = "committed" if self._committed else "open" if failure is None else failure.code
        return f"<Unit {self.id} of {self._count} events, {state}>"


class _Uncommitted:
    """A unit's journal topic as its receipts see it (receipts.Journaled): before the commit they know nothing."""

    __slots__ = ("_journal", "_unit", "epoch", "name")

    def __init__(self, unit: Unit, journal: Journaled | None) -> None:
        self._unit = unit
        self._journal = journal
        self.name = "" if journal is None else journal.name
        self.epoch = 0 if journal is None else journal.epoch

    def wait_s(self) -> float:
        raise self._unit.failure()

    def serve(self, timeout_s: float) -> None:
        """Nothing to take in: a report comes only with the commit."""

    def failed(self, receipt: Receipt) -> None:
        """The unit's own error tells it."""

    def outcome(self, position: Position, system_time: int, timeout_s: float | None) -> Outcome:
        assert self._journal is not None  # only an event with a journal has a position
        return self._journal.outcome(position, system_time, timeout_s)


def _of_unit(fault: Fault) -> Fault:
    """A fault of an option as one of the unit's: its id stands where an event's does."""
    if fault.field == "event_id":
        return Fault("unit_id", fault.message.replace("an event id as receipts give it", "the id of a unit"))
    if fault.message.startswith("needs the event_id"):
        return Fault("repeat", "needs the unit_id of the unit that is sent again")
    return fault


def _faults_of(event: Any) -> list[Fault]:
    validate: Callable[[], list[Fault]] | None = getattr(event, "validate", None)
    return [Fault("event", f"must be an event, not {type(event).__name__}")] if validate is None else validate()


def _value(event: Event, header: Header, where: str, faults: list[Fault]) -> bytes:
    """The encoded event; empty where it cannot be sent, with its faults added."""
    try:
        return encode(event, header)
    except EventTooLargeError as error:
        said = f"the event takes {error.size_bytes:,} bytes, the limit is {error.limit_bytes:,}"
        faults.append(Fault(f"{where}.{error.field}", said))
    except InvalidEventError as error:
        faults += [Fault(f"{where}.{fault.field}", fault.message) for fault in error.faults]
    return b""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
