"""Receipts: what a caller holds of an emitted event, from the queue to its verdict.

A receipt costs little because most are never asked: it is filled in by the delivery report and needs no lock, since
whoever waits serves the delivery reports himself. Left to others: sending (emitter), finding verdicts (outcomes).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import KafkaError

from ..schemas.arguments import check_number
from ..schemas.errors import KafkaUnavailableError, MetajournalError, OutcomeUnknownError
from ..schemas.ids import id_text
from ..schemas.positions import EPOCH_SHIFT, Position
from .verdicts import Outcome
from .waiting.futures import AwaitableFuture, called_back, fail, follow_on, resolve

if TYPE_CHECKING:
    from confluent_kafka import Message

_GRACE_S: Final = 5.0
"""Seconds beyond the delivery time-out for the delivery report itself to arrive."""

_SERVE_S: Final = 0.01
"""Seconds of one turn of serving; another thread may have served this receipt's report meanwhile."""

REFUSED: Final = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)
"""Answers that say the broker did not write the event. Every other failure leaves it open: the Python client does not
hand on librdkafka's message status, so a message that timed out may have been written."""


class Journaled(Protocol):
    """The journal topic that a receipt's event went to, and what stands behind it."""

    name: str
    epoch: int

    def wait_s(self) -> float:
        """Seconds until a delivery report must have come."""

    def serve(self, timeout_s: float) -> None:
        """Take delivery reports in, waiting for one if there is none."""

    def failed(self, receipt: Receipt) -> None:
        """Told once for each event that was not acknowledged."""

    def outcome(self, position: Position, system_time: int, timeout_s: float | None) -> Outcome:
        """The verdict of a position, waited for."""

    def outcome_future(self, position: Position, system_time: int, timeout_s: float | None) -> AwaitableFuture[Outcome]:
        """The verdict of a position, when it comes."""

    def watch(self, receipt: Receipt, limit_s: float, callback: Callable[[Receipt], object]) -> None:
        """Call back once a receipt is acknowledged or has failed, or after so many seconds."""


class Receipt:
    """The receipt of one emitted event."""

    __slots__ = ("_error", "_id", "_journal", "_offset", "_outcome", "_partition", "_time")

    _id: bytes
    _journal: Journaled
    _offset: int | None
    """None: no report yet; -1: the event is not acknowledged, see `_error`."""
    _partition: int
    _time: int
    _error: KafkaError | None
    _outcome: Outcome

    def __init__(self, event_id: bytes, journal: Journaled) -> None:
        # The other slots are set by the delivery report: nobody may read them before `_offset` is set.
        self._id = event_id
        self._journal = journal
        self._offset = None

    @property
    def event_id(self) -> str:
        """The event's id (UUIDv7), known at once."""
        return id_text(self._id)

    @property
    def topic(self) -> str:
        """The journal topic that the event goes to."""
        return self._journal.name

    @property
    def acknowledged(self) -> bool:
        """Whether the broker has stored the event, without waiting."""
        return self._offset is not None and self._error is None

    @property
    def pending(self) -> bool:
        """Whether it is still unknown whether the broker has stored the event or failed."""
        return self._offset is None

    @property
    def position(self) -> Position:
        """The event's position in the journal; waits for the acknowledgement.

        Raises:
            OutcomeUnknownError: no acknowledgement within the delivery time-out; the event may or may not be in the
                log.
            KafkaUnavailableError: the broker refused to write it.
        """
        offset = self._acknowledgement()
        if offset < 0:
            raise OutcomeUnknownError(
                f"The event {self.event_id} is in the log, but the broker did not return its position.",
                hint=f"Do not send it again; `metajournal why {self.event_id}` shows what became of it.",
                event_id=self.event_id,
            )
        return Position(self._journal.name, self._partition, (self._journal.epoch << EPOCH_SHIFT) + offset)

    @property
    def system_time(self) -> int:
        """The broker's append time, milliseconds; waits and raises as `position` does."""
        self._acknowledgement()
        return self._time

    def outcome(self, timeout_s: float | None = None) -> Outcome:
        """The outcome of the event; waits for the stream to reach it.

        Args:
            timeout_s: seconds to wait; `client.outcome_timeout_s` if None.
        Raises:
            NotYetVisibleError: the stream has not reached the event in time; `behind` says how far it is.
            OutcomeUnknownError, KafkaUnavailableError: as `position` does.
            PositionExpired: the verdict is no longer in the outcomes topic.
        """
        try:
            return self._outcome
        except AttributeError:
            self._outcome = self._journal.outcome(self.position, self._time, timeout_s)
            return self._outcome

    def add_done_callback(self, callback: Callable[[Receipt], object]) -> None:
        """Call a function with this receipt once the broker has stored the event, or the failure is known.

        It is called in a background thread of the journal, or at once if that is already known; it must not block. Its
        exceptions are logged. `failure()` says whether the event failed.
        """
        if self._offset is None:
            self._journal.watch(self, self._limit_s(), callback)
        else:
            called_back(callback, self)

    def position_future(self) -> AwaitableFuture[Position]:
        """`position` as a future: the same errors, without blocking a thread. `await receipt` awaits it."""
        future: AwaitableFuture[Position] = AwaitableFuture()
        self.add_done_callback(lambda _: self._place(future))
        return future

    def outcome_future(self, timeout_s: float | None = None) -> AwaitableFuture[Outcome]:
        """`outcome` as a future: the same errors, without blocking a thread.

            outcome = await receipt.outcome_future()
            receipt.outcome_future().add_done_callback(lambda future: print(future.result()))

        Args:
            timeout_s: seconds from the acknowledgement on; `client.outcome_timeout_s` if None.
        Raises:
            InputError: the time-out is not valid, or the event's unit is not committed; other errors come with the
                future.
        """
        check_number("timeout_s", timeout_s)
        future: AwaitableFuture[Outcome] = AwaitableFuture()
        self.add_done_callback(lambda _: self._ask(future, timeout_s))
        return future

    def __await__(self) -> Generator[Any, None, Position]:
        return self.position_future().__await__()

    def _place(self, future: AwaitableFuture[Position]) -> None:
        try:
            resolve(future, self._known_position())
        except Exception as error:
            fail(future, error)

    def _ask(self, future: AwaitableFuture[Outcome], timeout_s: float | None) -> None:
        try:
            known = getattr(self, "_outcome", None)
            if known is not None:
                resolve(future, known)
            else:
                asked = self._journal.outcome_future(self._known_position(), self._time, timeout_s)
                follow_on(future, asked, self._keep)
        except Exception as error:
            fail(future, error)

    def _keep(self, outcome: Outcome) -> Outcome:
        self._outcome = outcome
        return outcome

    def _known_position(self) -> Position:
        """`position` without waiting: what is not known by now never will be."""
        if self._offset is None:
            raise self._unknown(f"no acknowledgement within {self._limit_s():g} s")
        return self.position

    def _limit_s(self) -> float:
        return self._journal.wait_s() + _GRACE_S

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """The delivery report, called once by whichever thread serves them."""
        try:
            self._take(error, message)
        except SystemError:  # not of this report: `flush` goes on behind a fatal error (kafka.take_in)
            if self._offset is None:
                self._take(error, message)
            raise

    def _take(self, error: KafkaError | None, message: Message) -> None:
        """Fill the receipt in; `_offset` last, others look at it."""
        self._error = error
        if error is None:
            self._partition = message.partition()  # type: ignore[assignment]  # set in every report of a success
            self._time = message.timestamp()[1]
            offset = message.offset()  # None where the broker only said that it had the event already
            self._offset = -1 if offset is None else offset
        else:
            self._offset = -1
            self._journal.failed(self)

    def cut_off(self) -> None:
        """Its delivery report is over and was not taken in, for a signal came meanwhile: nobody knows its fate."""
        self._error = KafkaError(KafkaError._INTR)
        self._offset = -1
        self._journal.failed(self)

    def failure(self) -> MetajournalError | None:
        """The error of an event that was not acknowledged, or None."""
        if self._offset is None or self._error is None:
            return None
        error = self._error
        if error.code() in REFUSED:
            return KafkaUnavailableError(
                f"The broker did not accept the event {self.event_id}: {error.str()}; it is not in the log.",
                event_id=self.event_id,
            )
        return self._unknown(error.str())

    def _acknowledgement(self) -> int:
        if self._offset is None:
            self._wait(self._limit_s())
        failure = self.failure()
        if failure is not None:
            raise failure
        assert self._offset is not None
        return self._offset

    def _wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self._offset is None:
            if time.monotonic() > deadline:
                raise self._unknown(f"no acknowledgement within {timeout_s:g} s")
            self._journal.serve(_SERVE_S)

    def _unknown(self, why: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"Whether the event {self.event_id} is in the log is not known ({why}).",
            hint=f"Send it again: journal.emit(event, event_id={self.event_id!r}, repeat=True); if it is already "
            "there, the second one counts as a duplicate.",
            event_id=self.event_id,
        )

    def __repr__(self) -> str:
        state = "pending" if self._offset is None else "acknowledged" if self._error is None else "failed"
        return f"<Receipt {self.event_id} {state}>"
