"""Who did what to whom, for those who must answer for it: a record in `<prefix>.audit`, and a line of the log beside.

Recorded are refusals, logins, changes of rights and, if asked, reads; of requests without a valid key, which anybody
can send in any number, and of those that a key sends too fast, only so many, and a record of each minute counts the
rest. A record never bears a secret, a body, or any text of a request but the URN that it names. Refusals wait for
nothing: where Kafka is away or full, their record is in the log alone, and counted. A read that must be recorded is
answered once Kafka has the record, else with 503.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Message

from ..producers.audit_topic import ensure_audit_topic
from ..producers.kafka import ErrorLog, make_producer, take_in
from ..schemas.errors import ForbiddenError, MetajournalError, UnavailableError
from ..schemas.pages import Page
from ..schemas.settings import Settings
from ..schemas.times import time_shown
from ..schemas.urn import Urn
from .figures import AUDIT_LEFT_OUT, AUDIT_LOST, GatewayFigures
from .limits import Buckets
from .principals import Principal
from .replies import encoded
from .routing import Row

_log = logging.getLogger("metajournal.audit")
READS: Final = "reads"
"""The setting that has reads recorded too."""
REFUSED: Final = "refused"
READ: Final = "read"
_STORED_S: Final = 5.0
"""Seconds within which Kafka must have a record."""
_POLL_S: Final = 0.1
_AGAIN_S: Final = 30.0
_KEY_TEXT: Final = re.compile(r"(mjk_[0-9a-fA-F]+)_[0-9a-fA-F]+")
_PRODUCER: Final = {
    "client.id": "metajournal-audit",
    "delivery.timeout.ms": round(_STORED_S * 1000),
    "linger.ms": 2,
    "queue.buffering.max.messages": 10_000,
    "queue.buffering.max.kbytes": 16_384,
}


_REFUSALS: Final = frozenset({401, 403, 429})
_TOO_MANY: Final = 429
_OF_ONE: Final = (0.2, 20)
"""Records a second, and at once, of what one sender or one key is refused without a limit of its own."""
_OF_ALL: Final = (2.0, 200)
"""The same of all together."""
_OF_EVENTS: Final = (5.0, 1_000)
"""The same of the events of one key that are refused within requests of several."""
_TOLD_EACH_S: Final = 60.0
"""Seconds until a record counts those that were left out."""


def without_keys(text: str) -> str:
    """A text without the secret of a key that somebody has put into a path or a name: that is for no log."""
    return _KEY_TEXT.sub(r"\1_…", text)


class Exchange(Protocol):
    """What is known of a request."""

    @property
    def request_id(self) -> str: ...
    @property
    def row(self) -> Row | None: ...
    @property
    def urn(self) -> Urn | None: ...
    @property
    def error(self) -> Exception | None: ...
    @property
    def principal(self) -> Principal | None: ...
    @property
    def sender(self) -> str: ...


class UnauditedError(UnavailableError):
    """A read that must be recorded could not be, so it is not answered."""

    CODE = "not-audited"
    HINT = "Try again in a second; the operator of this gateway sees in its log why Kafka did not take the record."


class Record(NamedTuple):
    """What is recorded of a request.

    Attributes:
        what: `REFUSED`, `READ`, or what the request's endpoint is called: "rights", "login".
        endpoint: the row of the table: a template, so nothing that a caller wrote.
        action: what was asked for.
        urn: the entity; None: it named none.
        status: of the answer.
        request_id: as in the log.
        principal: who asked; None where nobody knows.
        time_ms: when, milliseconds UTC.
        left_out: it stands for so many requests that have no record of their own; 0: it is one request's.
    """

    what: str
    endpoint: str
    action: str
    urn: str | None
    status: int
    request_id: str
    principal: Principal | None
    time_ms: int
    left_out: int = 0

    @property
    def value(self) -> dict[str, Any]:
        """As it is written."""
        who = self.principal
        return {
            "time": time_shown(self.time_ms),
            "what": self.what,
            "request_id": self.request_id,
            "key_id": who.key_id or None if who is not None else None,
            "principal": who.actor if who is not None else None,
            "tenant": who.tenant if who is not None else None,
            "endpoint": self.endpoint,
            "action": self.action,
            "urn": self.urn,
            "status": self.status,
            **({"left_out": self.left_out} if self.left_out else {}),
        }


class Audit:
    """The audit of one process; made on the event loop that its callers run on.

    Args:
        settings: how to reach Kafka.
        asked: the setting `gateway.audit`.
        figures: what is counted.
    """

    def __init__(self, settings: Settings, asked: str, figures: GatewayFigures) -> None:
        self._settings = settings
        self._figures = figures
        self._topic = settings.journal.topics.audit
        self._reads = asked == READS
        self._loop = asyncio.get_running_loop()
        self._connect()
        self._closing = threading.Event()
        self._is_losing = False
        self._of_one, self._of_all, self._of_events = Buckets(*_OF_ONE), Buckets(*_OF_ALL), Buckets(*_OF_EVENTS)
        self._left_out = 0
        self._thread = threading.Thread(target=self._run, name="metajournal-audit", daemon=True)
        self._thread.start()

    async def take(self, exchange: Exchange, status: int) -> None:
        """Record a request that is about to be answered, where such requests are recorded.

        Args:
            exchange: what is known of it.
            status: of its answer.
        Raises:
            UnauditedError: it is a read whose record Kafka does not have in time.
        """
        row, is_refused = exchange.row, status in _REFUSALS
        is_read = row is not None and not row.audited and self._reads and _is_read(row)
        if not (is_refused or is_read or (row is not None and row.audited)):
            return
        if not self._has_room(exchange, status):
            self._leave_out()
        elif is_refused or row is None or row.audited:
            self.note(self._record(exchange, REFUSED if is_refused or row is None else row.audited, status))
        else:
            await self.stored(self._record(exchange, READ, status))

    def _has_room(self, exchange: Exchange, status: int) -> bool:
        """Whether one more is recorded; of what has a limit of its own always."""
        who = exchange.principal
        if who is not None and status != _TOO_MANY:
            return True
        sender = f"from {exchange.sender}" if who is None else who.key_id
        return not self._of_one.lacks(sender) and not self._of_all.lacks("")

    def _leave_out(self) -> None:
        if self._left_out == 0:
            self._loop.call_later(_TOLD_EACH_S, self._tell_left_out)
        self._left_out += 1
        self._figures.figures.add(AUDIT_LEFT_OUT, 1)

    def _tell_left_out(self) -> None:
        """Record how many have no record of their own."""
        count, self._left_out = self._left_out, 0
        if count:
            self.note(Record(REFUSED, "none", "", None, 401, "none", None, int(time.time() * 1000), count))

    def refused(self, exchange: Exchange, error: ForbiddenError) -> None:
        """Record one of several events of a request that is refused; of very many they are counted."""
        if exchange.principal is not None and self._of_events.lacks(exchange.principal.key_id):
            self._leave_out()
        else:
            self.note(self._record(exchange, REFUSED, 403, error))

    def _record(self, exchange: Exchange, what: str, status: int, error: Exception | None = None) -> Record:
        row, refusal = exchange.row, error or exchange.error
        told = refusal.data if isinstance(refusal, ForbiddenError) else {}
        urn = told.get("urn", exchange.urn)
        return Record(
            what, "none" if row is None else row.name, told.get("action", "" if row is None else row.action),
            None if urn is None else without_keys(str(urn)), status, exchange.request_id, exchange.principal,
            int(time.time() * 1000),
        )  # fmt: skip

    def note(self, record: Record) -> None:
        """Record something without waiting for it."""
        self._say(record)
        self._send(record, self._noted)

    async def stored(self, record: Record) -> None:
        """Record something, and return once Kafka has it.

        Raises:
            UnauditedError: it does not have it in time.
        """
        self._say(record)
        stored: asyncio.Future[str | None] = self._loop.create_future()

        def done(problem: str | None) -> None:
            self._loop.call_soon_threadsafe(_settle, stored, problem)

        self._send(record, done)
        try:
            problem = await asyncio.wait_for(stored, 2 * _STORED_S)
        except TimeoutError:
            problem = "no answer in time"
        if problem is not None:
            self._lose(problem)
            raise UnauditedError("Reads are recorded here, and this one could not be.")

    async def close(self) -> None:
        """Wait a moment for what is on its way, and leave Kafka."""
        self._tell_left_out()
        await asyncio.to_thread(self._close)

    def _say(self, record: Record) -> None:
        _log.info("%s %s %d", record.what, record.endpoint, record.status, extra={"data": record.value})

    def _send(self, record: Record, done: Callable[[str | None], None]) -> None:
        """Hand a record to the client, which never waits; `done` is called once, in whatever thread."""

        def delivered(error: KafkaError | None, _: Message) -> None:
            done(None if error is None else error.str())

        key = record.principal.tenant.encode() if record.principal is not None else None
        try:
            self._producer.produce(self._topic, encoded(record.value), key, on_delivery=delivered)
        except BufferError:
            done("the client's queue is full")
        except KafkaException as error:
            done(error.args[0].str())

    def _noted(self, problem: str | None) -> None:
        if problem is None:
            self._is_losing = False
        else:
            self._lose(problem)

    def _lose(self, problem: str) -> None:
        self._figures.figures.add(AUDIT_LOST, 1)
        if not self._is_losing:
            self._is_losing = True
            _log.warning("%s does not get what is recorded: %s.", self._topic, problem)

    # In its own thread

    def _run(self) -> None:
        made_at, next_try = False, 0.0
        while not self._closing.is_set():
            if not made_at and time.monotonic() >= next_try:
                made_at, next_try = self._make_topic(), time.monotonic() + _AGAIN_S
            take_in(self._producer.poll, self._errors, _POLL_S)
            if self._errors.fatal is not None:  # what it had is reported as lost; what comes goes to another one
                former, errors = self._producer, self._errors
                self._connect()
                take_in(former.flush, errors, _STORED_S)

    def _connect(self) -> None:
        self._errors = ErrorLog()
        self._producer = make_producer(self._settings, self._errors, **_PRODUCER)

    def _make_topic(self) -> bool:
        try:
            ensure_audit_topic(self._settings)
        except (MetajournalError, KafkaException) as error:
            _log.warning("%s could not be made: %s", self._topic, error)
            return False
        return True

    def _close(self) -> None:
        self._closing.set()
        self._thread.join()
        take_in(self._producer.flush, self._errors, _STORED_S)


def _settle(stored: asyncio.Future[str | None], problem: str | None) -> None:
    if not stored.done():
        stored.set_result(problem)


def _is_read(row: Row) -> bool:
    """Whether a request to a row reads what somebody needs a right for."""
    if row.is_public:
        return False
    if isinstance(row, Page):
        return row.form is None
    return row.event is None and not row.lines and row.sends is None
