"""How a unit's records leave an emitter: within the bound of its queue, behind the single events, in one transaction.

Job: the order of these steps; what a unit is made of is units', the transaction itself transactions'.
Invariants: single and unit events that wait for their acknowledgement are never more than `client.queue_events`
together; nobody's single emit waits for a unit: no lock of this module is ever asked for by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from ..schemas.errors import InputError, MetajournalError, QueueFullError
from ..schemas.settings import Settings
from ..schemas.urn import Urn
from .kafka import ErrorLog, take_in
from .pending import LatestEmits
from .receipts import Journaled
from .transactions import NotCommitted, Outgoing, Transactions

if TYPE_CHECKING:
    from confluent_kafka import Message

_TURN_S: Final = 0.01


class Committing:
    """An emitter as its units see it (gathering.Sending); shared between threads.

    Args:
        producer: that of the single events.
        errors: what it told.
        latest: what was emitted singly, by key.
        journals: the journal topics by domain.
        new_id, place, publish: the emitter's own.
        not_served: the error of an event of a domain that is none of these.
        check_kind: refuses an aggregate of an unknown kind.
    """

    def __init__(
        self,
        settings: Settings,
        producer: Producer,
        errors: ErrorLog,
        latest: LatestEmits,
        journals: Mapping[str, Journaled],
        *,
        new_id: Callable[[int], bytes],
        place: Callable[[str, Urn], tuple[bytes, int]],
        publish: Callable[[str], None],
        not_served: Callable[[str, str], MetajournalError],
        check_kind: Callable[[Urn], None],
    ) -> None:
        self.new_id = new_id
        self.place = place
        self._client = settings.client
        self._producer = producer
        self._poll = partial(take_in, producer.poll, errors)
        self._flush = partial(take_in, producer.flush, errors)
        self._latest = latest
        self._journals = journals
        self._publish = publish
        self._not_served = not_served
        self._check_kind = check_kind
        self._transactions = Transactions(settings)
        self._lock = Lock()
        self._waiting = 0
        self._closed = False
        self._refusal: Callable[[], MetajournalError] | None = None

    def refuse(self, why: Callable[[], MetajournalError]) -> None:
        """Commit nothing any more, since the client's threads are not in this process."""
        self._refusal = why

    def journal_of(self, aggregate: Urn) -> Journaled:
        """Journal topic of an aggregate. Raises: UnservedDomainError, UnknownKindError."""
        self._check_kind(aggregate)
        journal = self._journals.get(aggregate.domain)
        if journal is None:
            raise self._not_served(aggregate.domain, aggregate)
        return journal

    def commit(self, event_types: Iterable[str], records: list[Outgoing], *, block_s: float) -> list[Message]:
        """Write all records in one transaction. See `gathering.Sending.commit`."""
        if self._refusal is not None:
            raise self._refusal()
        if self._closed:
            raise InputError("The journal is closed; nothing was sent.", hint="Connect again: Journal.connect().")
        for event_type in event_types:
            self._publish(event_type)
        with self._room(len(records), block_s):
            deadline = time.monotonic() + self._client.delivery_timeout_s
            # `flush` and not `poll`: it sends what only lingers.
            if not self._latest.settled(
                {record.key for record in records}, self._flush, deadline, self._producer.__len__
            ):
                raise NotCommitted("events emitted before it have not been acknowledged", again=False)
            return self._transactions.commit(records, deadline)

    def serve(self) -> None:
        """Called now and then, so that idle connections do not pile up what they tell."""
        self._transactions.serve()

    def close(self) -> None:
        """Let go of the connections."""
        self._closed = True
        self._transactions.close()

    @contextmanager
    def _room(self, count: int, block_s: float) -> Iterator[None]:
        """Places in the queue. Raises: QueueFullError: there are not so many in time."""
        deadline = time.monotonic() + block_s
        while not self._reserved(count):
            if count > self._client.queue_events or time.monotonic() >= deadline:
                raise self._full(count)
            self._poll(_TURN_S)
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= count

    def _reserved(self, count: int) -> bool:
        with self._lock:
            if len(self._producer) + self._waiting + count > self._client.queue_events:
                return False
            self._waiting += count
            return True

    def _full(self, count: int) -> QueueFullError:
        pending, limit = len(self._producer) + self._waiting, self._client.queue_events
        return QueueFullError(
            f"{pending:,} events are waiting for their acknowledgement, the limit is {limit:,}; the unit of "
            f"{count:,} events was not accepted.",
            hint="Wait for earlier receipts (journal.flush()), start the unit with block_s, or raise"
            " client.queue_events.",
            pending=pending,
            limit=limit,
        )
