"""Kafka transactions: records of several partitions that are all in the journal, or none of them.

Job: a small pool of transactional producers, each with a transactional id that no other process has; one attempt after
the other until the records are committed or the time is over. Left to others: what the records are and what a user is
told (units).
Invariants: `NotCommitted` is raised only where no reader can ever see one of the records: the commit was never asked
for, or the broker's time-out had ended the transaction before. Everything else is `CommitUnknown`. After any error the
producer is thrown away: librdkafka lacks the second part of KIP-890, so what it may still have on the wire must meet
the next one's higher epoch. That next one has the same transactional id, and its `init_transactions` ends what the
former one left open, so that readers are not held up until the time-out.

Source: KIP-98 (transactions), KIP-360 (epochs), KIP-890 (hanging transactions).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, RLock
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ..schemas.settings import Settings
from .kafka import ErrorLog, make_transactional
from .receipts import REFUSED

POOL: Final = 4
"""Most transactions at once. Measured on one broker with 2 cores, best of three: 240 units of three events a second
with one, 380 with two, 530 with four, 620 with eight; each is a connection and some threads of librdkafka."""
_ABORT_S: Final = 1.0
_PAUSE_S: Final = 0.1
"""Seconds between two attempts."""
_LEAST_S: Final = 0.1
"""Least seconds given to a step, however late it is."""
_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})


class NotCommitted(Exception):  # noqa: N818  (a verdict)
    """Nothing of the transaction is in the journal, or ever will be; `again`: another attempt may succeed."""

    def __init__(self, why: str, *, again: bool = True) -> None:
        super().__init__(why)
        self.again = again


class CommitUnknown(Exception):  # noqa: N818
    """The commit was asked for and not answered: all of the transaction is in the journal, or nothing."""


class Outgoing(NamedTuple):
    """A journal record to be."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    headers: list[tuple[str, str | bytes | None]]


class Transactions:
    """Transactional producers of one emitter, made when they are needed; shared between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._name = f"{settings.journal.prefix}.unit.{uuid.uuid4().hex}"
        self._lock = RLock()  # not the condition itself: see `AskedEnds`
        self._changed = Condition(self._lock)
        self._free: list[_Sender] = []
        self._made = 0
        self._closed = False

    def commit(self, records: Sequence[Outgoing], deadline: float) -> list[Message]:
        """Write all records in one transaction and return when it is committed.

        Args:
            records: each aggregate's in their order.
            deadline: monotonic time after which nothing is tried again.
        Returns:
            The delivery report of each record, in their order.
        Raises:
            NotCommitted: none of them is in the journal.
            CommitUnknown: all are or none is.
        """
        sender = self._taken(deadline)
        try:
            while True:
                try:
                    return sender.commit(records, deadline)
                except NotCommitted as failed:
                    if not failed.again or time.monotonic() + _PAUSE_S >= deadline:
                        raise
                time.sleep(_PAUSE_S)
        finally:
            self._give_back(sender)

    def serve(self) -> None:
        """Take in what the idle producers log and tell, which would pile up while a broker is away."""
        with self._lock:
            for sender in self._free:
                sender.serve()

    def close(self) -> None:
        """Let go of the connections; a commit that is under way ends first, in its own thread."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for sender in free:
            sender.forget()

    def _taken(self, deadline: float) -> _Sender:
        with self._lock:
            while not self._free:
                if self._made < POOL:
                    self._made += 1
                    return _Sender(self._settings, f"{self._name}.{self._made}")
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and not self._free:
                    raise NotCommitted(f"{POOL} other units are being committed", again=False)
            return self._free.pop()

    def _give_back(self, sender: _Sender) -> None:
        with self._lock:
            if not self._closed:
                self._free.append(sender)
                self._changed.notify_all()
                return
        sender.forget()


class _Sender:
    """One transactional id, used by one thread at a time; its producer is made anew after every error."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._errors = ErrorLog()
        self._producer: Producer | None = None

    def commit(self, records: Sequence[Outgoing], deadline: float) -> list[Message]:
        """One attempt. Raises: NotCommitted, CommitUnknown."""
        try:
            producer = self._ready(deadline)
            reports = self._written(producer, records, deadline)
            self._committed(producer, deadline)
        except BaseException:
            self.forget()
            raise
        return reports

    def serve(self) -> None:
        """Take in what is told; after a fatal error the next transaction needs another producer."""
        try:
            if self._producer is not None:
                self._producer.poll(0)
        except KafkaException:
            self.forget()

    def forget(self) -> None:
        """Throw the producer away, with what it has not sent."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):  # a fatal error is told once more
                producer.purge()
                producer.poll(0)

    def _ready(self, deadline: float) -> Producer:
        if self._producer is None:
            self._errors = ErrorLog()
            self._producer = producer = make_transactional(self._settings, self._errors, self._name)
            self._until(deadline, producer.init_transactions)
        return self._producer

    def _until(self, deadline: float, step: Callable[[float], None]) -> None:
        """Take a step that comes before the commit; librdkafka goes on with it where it is called again."""
        while True:
            try:
                return step(max(_LEAST_S, min(1.0, deadline - time.monotonic())))
            except KafkaException as error:
                if not error.args[0].retriable() or self._errors.hopeless or time.monotonic() >= deadline:
                    raise self._failed(error) from error

    def _written(self, producer: Producer, records: Sequence[Outgoing], deadline: float) -> list[Message]:
        """Begin a transaction and hand everything to the brokers; they have it, but no reader sees it yet."""
        reports: list[tuple[KafkaError | None, Message] | None] = [None] * len(records)

        def noting(index: int) -> Callable[[KafkaError | None, Message], None]:
            def note(error: KafkaError | None, message: Message) -> None:
                reports[index] = error, message

            return note

        try:
            producer.begin_transaction()
            for index, (topic, partition, key, value, headers) in enumerate(records):
                producer.produce(topic, value, key, partition, noting(index), None, 0, headers)
            self._served(producer, max(_LEAST_S, deadline - time.monotonic()))
            return [_delivered(report) for report in reports]
        except (KafkaException, NotCommitted) as error:
            self._abort(producer)
            raise (error if isinstance(error, NotCommitted) else self._failed(error)) from error

    @staticmethod
    def _served(producer: Producer, timeout_s: float) -> None:
        """Wait until everything is delivered or refused; nothing lingers here.

        By `poll`, which ends with a fatal error and raises it. `flush` goes on behind it to the next line for the log,
        where the interpreter finds an error that nobody has taken.
        """
        until = time.monotonic() + timeout_s
        while len(producer) and (left_s := until - time.monotonic()) > 0:
            producer.poll(left_s)

    def _committed(self, producer: Producer, deadline: float) -> None:
        while True:
            try:
                return producer.commit_transaction(max(_LEAST_S, deadline - time.monotonic()))
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.code() in _FENCED:
                    # Nobody else has this id, so the broker's time-out came first. It cannot come after a commit that
                    # was taken: a transaction that is being committed, or is, does not time out.
                    raise NotCommitted(f"the broker ended it after {error.str()}") from failure
                if not error.retriable() or time.monotonic() >= deadline:
                    raise CommitUnknown(error.str()) from failure

    def _abort(self, producer: Producer) -> None:
        """End the transaction at once if the broker answers; otherwise the next attempt or its time-out does."""
        with suppress(KafkaException):
            producer.abort_transaction(_ABORT_S)

    def _failed(self, failure: KafkaException) -> NotCommitted:
        hopeless, error = self._errors.hopeless, failure.args[0]
        fenced = error.code() in _FENCED
        text = hopeless.text if hopeless else error.str()
        return NotCommitted(text, again=fenced or (hopeless is None and not error.fatal()))


def _delivered(report: tuple[KafkaError | None, Message] | None) -> Message:
    if report is None:
        raise NotCommitted("the broker did not answer in time")
    error, message = report
    if error is not None:
        raise NotCommitted(error.str(), again=error.code() not in REFUSED)
    return message
