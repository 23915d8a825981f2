"""Units: events of several aggregates, in the journal all or not at all.

Job: what a user holds of a unit, from its first event to its outcome, and what is told when it fails. Left to others:
checking the events (gathering), the way into the journal (committing, transactions), verdicts (outcomes).
Invariants: nothing is sent before every event is known to be right; the events stand in the journal in the order of
their `emit` for each aggregate, behind every event that was emitted singly before; a unit whose outcome is unknown is
sent again only with every event marked `repeat`.

Whether an event is accepted stays each aggregate's own matter: a unit is about what is in the journal.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from ..schemas.errors import InputError, KafkaUnavailableError, MetajournalError, OutcomeUnknownError
from ..schemas.events.base import Event
from ..schemas.ids import id_text
from ..schemas.positions import Position
from .gathering import Gathering, Sending
from .receipts import Receipt
from .transactions import CommitUnknown, NotCommitted, Outgoing
from .verdicts import Outcome, UnitOutcome
from .waiting.futures import AwaitableFuture, all_of, follow_on

if TYPE_CHECKING:
    from confluent_kafka import Message

UnitEvent: TypeAlias = "Event | tuple[Event, Mapping[str, Any]]"
"""An event, or one with what is said about it: the arguments of `Unit.emit`."""


class Unit:
    """Gathers events and commits them all or not at all; for one thread. Created by `Journal.unit`.

    Used as a context manager it commits at the end of the block; an exception in the block sends nothing. Afterwards
    it is the receipt: `positions`, `receipts`, and `outcome()` with each aggregate's verdict.
    """

    def __init__(self, sending: Sending, *, block_s: float = 0.0, **said: Any) -> None:
        self._sending = sending
        self._block_s = block_s
        self._gathering = Gathering(sending, failure=self._why, **said)
        self._committed = False
        self._failure: MetajournalError | None = None
        self._doubt: OutcomeUnknownError | None = None
        """An attempt that was not answered; whatever comes after it, its events may be in the journal."""

    @property
    def id(self) -> str:
        """The unit's id, known at once; every event's header carries it."""
        return id_text(self._gathering.unit_id)

    @property
    def tenant(self) -> str:
        """The tenant of all events."""
        return self._gathering.tenant

    @property
    def committed(self) -> bool:
        """Whether all events are in the journal."""
        return self._committed

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipt of each event, in order."""
        return tuple(gathered.receipt for gathered in self._gathering.events)

    @property
    def event_ids(self) -> tuple[str, ...]:
        """The id of each event, in order."""
        return tuple(receipt.event_id for receipt in self.receipts)

    @property
    def positions(self) -> tuple[Position, ...]:
        """The position of each event in the journal. Raises: as `Receipt.position`, if the unit is not committed."""
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
        """Add an event to the unit; it is checked now, and `commit` reports every fault.

        Args:
            event: an event of a served domain.
            actor, event_time, cause: as those of `Journal.emit`; the unit's if None.
            expected, event_id, repeat: as those of `Journal.emit`.
            tenant: only the unit's own.
        Returns:
            Its receipt, which knows the position once the unit is committed.
        Raises:
            InputError: the unit has already been committed.
        """
        self._must_be_open()
        return self._gathering.add(
            event, repeat=repeat, tenant=tenant, actor=actor, event_time=event_time, expected=expected, cause=cause,
            event_id=event_id,
        )  # fmt: skip

    def commit(self) -> None:
        """Send all events in one transaction and wait until it is committed. A unit without events sends nothing.

        It may be called again after an error; events that may already be in the journal are then marked `repeat`, so
        that they count once.

        Raises:
            InvalidUnitError: something is wrong with an event, an option or the size; lists every fault of every
                event. Nothing was sent.
            QueueFullError: too many events wait for their acknowledgement. Nothing was sent.
            KafkaUnavailableError: nothing of the unit is in the journal, or ever will be from this attempt.
            OutcomeUnknownError: all of it is in the journal, or nothing; `unit_id` and `event_ids` name it.
            InputError: the unit has already been committed, or the journal is closed.
        """
        self._must_be_open()
        try:
            records = self._gathering.records(doubtful=self._doubt is not None)
            reports = self._sent(records) if records else []
        except MetajournalError as failure:
            self._failure = failure
            raise
        except BaseException:
            self._unknown("it was interrupted")
            raise
        for receipt, report in zip(self.receipts, reports, strict=True):
            receipt.delivered(None, report)
        self._committed = True

    def outcome(self, timeout_s: float | None = None) -> UnitOutcome:
        """The outcome of each event; waits for the stream to reach all of them.

        Args:
            timeout_s: seconds to wait for all together; `client.outcome_timeout_s` for each if None.
        Raises:
            As `Receipt.outcome`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        outcomes: list[tuple[str, Outcome]] = []
        for gathered in self._gathering.events:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            outcomes.append((str(gathered.header.aggregate), gathered.receipt.outcome(left)))
        return UnitOutcome(tuple(outcomes))

    def outcome_future(self, timeout_s: float | None = None) -> AwaitableFuture[UnitOutcome]:
        """`outcome` as a future, resolved when all verdicts are known: the same errors, without blocking a thread.

        Raises: InputError: the unit is not committed; other errors come with the future.
        """
        aggregates = [str(gathered.header.aggregate) for gathered in self._gathering.events]
        future: AwaitableFuture[UnitOutcome] = AwaitableFuture()
        outcomes = all_of([receipt.outcome_future(timeout_s) for receipt in self.receipts])
        follow_on(future, outcomes, lambda verdicts: UnitOutcome(tuple(zip(aggregates, verdicts, strict=True))))
        return future

    def __enter__(self) -> Unit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    def _must_be_open(self) -> None:
        if self._committed:
            raise InputError(f"The unit {self.id} has already been committed; start another one.", unit_id=self.id)

    def _why(self) -> MetajournalError:
        """Why a receipt of this unit has no position."""
        failure = self._doubt or self._failure
        if failure is not None:
            return failure
        return InputError(
            f"The unit {self.id} is not committed.", hint="Ask its receipts after the with block.", unit_id=self.id
        )

    def _sent(self, records: list[Outgoing]) -> list[Message]:
        types = {gathered.header.type for gathered in self._gathering.events}
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
                hint="Commit the unit again (unit.commit()), or emit its events again.",
                unit_id=self.id,
                event_ids=self.event_ids,
            ) from failed

    def _unknown(self, why: str) -> OutcomeUnknownError:
        self._doubt = OutcomeUnknownError(
            f"Whether the unit {self.id} is in the journal is not known ({why}): all of its events are, or none.",
            hint="Commit it again (unit.commit()), or start journal.unit(unit_id=..., repeat=True) and emit the same "
            "events with their event_id; events that are already there count once.",
            unit_id=self.id,
            event_ids=self.event_ids,
        )
        return self._doubt

    def __repr__(self) -> str:
        failure = self._doubt or self._failure
        state = "committed" if self._committed else "open" if failure is None else failure.code
        return f"<Unit {self.id} of {self._gathering.count} events, {state}>"
