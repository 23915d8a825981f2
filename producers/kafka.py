"""Configurations of Kafka's clients, and the clients made from them.

Job: one place for every librdkafka setting that the journal's promises rest on; what a user puts into the `[kafka]`
table goes through to every client, but the settings below cannot be weakened: a ConfigError names the key.
Left to others: what its clients log (kafka_log), what is produced (emitter), which topics there are (topics), what is
read (outcomes, consumers).
Invariant: a client made here never writes to stderr; its log goes to the logger `metajournal.kafka`, its errors
into an `ErrorLog`, so that whoever waits can say why nothing comes; both without what the configuration hides.

Source: CONFIGURATION.md of librdkafka; KIP-98 (idempotent producer).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from ..schemas.errors import ConfigError, KafkaUnavailableError
from ..schemas.setting_keys import hidden_of_kafka, scrubbed, url_shown
from ..schemas.settings import Settings
from .kafka_log import LOG, QuietLog

Config = dict[str, Any]
MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""`message.max.bytes` of producers and least `max.message.bytes` of topics."""
TRANSACTION_TIMEOUT_S: Final = 5.0
"""`transaction.timeout.ms` of units: a producer that died in the middle of one holds readers up no longer, but for the
broker's `transaction.abort.timed.out.transaction.cleanup.interval.ms`."""

PRODUCER_SAFETY: Final[Mapping[str, str]] = {
    "enable.idempotence": "true",  # no duplicate and no reordering by retries
    "acks": "all",
    "partitioner": "murmur2_random",  # Java's and Spark's partitioner; an aggregate must stay in its partition
}
CONSUMER_SAFETY: Final[Mapping[str, str]] = {
    "check.crcs": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",  # an expired position is said, never skipped
    "allow.auto.create.topics": "false",
}
SHORT_READS: Final[Mapping[str, Any]] = {"enable.partition.eof": True, "fetch.wait.max.ms": 5}
"""Of a consumer that reads a little and is then done, or asks for offsets in between: the end of a partition is told by
an answer without records, for which the broker waits that long, and other answers of its connection wait behind it."""
_OWN: Final[Mapping[str, str]] = {
    "delivery.timeout.ms": "client.delivery_timeout_s",
    "linger.ms": "client.linger_ms",
    "queue.buffering.max.messages": "client.queue_events",
}
"""librdkafka keys that a setting of metajournal already sets, with its name."""
_RESERVED: Final = frozenset({"transactional.id", "transaction.timeout.ms"})
"""Keys that units alone set: a plain producer with one of them could not send, and two processes fence each other."""
_ALIASES: Final[Mapping[str, str]] = {
    "request.required.acks": "acks",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "metadata.broker.list": "bootstrap.servers",
}
_T = TypeVar("_T")
NOT_ALLOWED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)
"""Answers that only another right mends."""
_HOPELESS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})

_PAUSE_S: Final = 0.1
_METADATA_S: Final = 1.0
_PASSING: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._NOENT,  # no leader of a partition is known
        KafkaError._RESOLVE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know yet how far its followers are
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


def is_passing(error: KafkaError) -> bool:
    """Whether asking again may help: a broker is away or slow, or a partition is moving, or was made just now."""
    return error.code() in _PASSING


def asked_again(
    client: _Client, ask: Callable[[], _T], deadline: float, *, stopping: Callable[[], bool] = lambda: False
) -> _T:
    """The broker's answer, asked for again while it fails for a reason that may pass.

    Args:
        client: who asks.
        ask: one request.
        deadline: until when, monotonic seconds.
        stopping: asked after each failure; True gives up.
    Raises:
        KafkaException: it fails for good, or until the deadline.
    """
    while True:
        try:
            return ask()
        except KafkaException as error:
            if stopping() or not is_passing(error.args[0]) or time.monotonic() > deadline:
                raise
        look_again(client)


def look_again(client: Producer | Consumer | AdminClient) -> None:
    """Wait a moment, and have a client read the cluster's metadata anew.

    Of itself it would go by what it knows for five minutes: after each change of a leader, an admin client's request is
    refused for so long.
    """
    time.sleep(_PAUSE_S)
    with suppress(KafkaException):
        client.list_topics(timeout=_METADATA_S)


_Client = TypeVar("_Client", Producer, Consumer, AdminClient)


class Noted(NamedTuple):
    """One error that librdkafka told: when (seconds, monotonic), its code and its sentence."""

    time_s: float
    code: int
    text: str


class ErrorLog:
    """The latest errors of one client (its `error_cb`), bounded."""

    def __init__(self) -> None:
        self._noted: deque[Noted] = deque(maxlen=50)
        self.fatal: Noted | None = None
        """The error after which its client sends nothing more."""
        self.hidden: tuple[str, ...] = ()
        """Texts that its client's configuration hides."""

    def __call__(self, error: KafkaError) -> None:
        text = scrubbed(error.str(), self.hidden)
        self._noted.append(noted := Noted(time.monotonic(), error.code(), text))
        if error.fatal():
            self.fatal = noted
        LOG.debug("%s: %s", error.name(), text)

    @property
    def latest(self) -> Noted | None:
        return self._noted[-1] if self._noted else None

    @property
    def hopeless(self) -> Noted | None:
        """An error that waiting does not mend (a wrong password, a wrong certificate)."""
        return next((noted for noted in self._noted if noted.code in _HOPELESS), None)

    def since(self, since_s: float) -> str | None:
        """The latest sentence that was told after a monotonic time."""
        latest = self.latest
        return latest.text if latest is not None and latest.time_s >= since_s else None


def producer_config(settings: Settings) -> Config:
    """Configuration of the emitting producer.

    Raises:
        ConfigError: the user's `[kafka]` table weakens a setting or says what another setting already says.
    """
    client = settings.client
    own = {
        "delivery.timeout.ms": round(client.delivery_timeout_s * 1000),
        "linger.ms": client.linger_ms,
        "queue.buffering.max.messages": client.queue_events,
        "queue.buffering.max.kbytes": 2_097_151,  # the bound is the number of events
        "message.max.bytes": MESSAGE_BYTES,
        "batch.size": 1_000_000,
    }
    return _config("producer", settings, own, PRODUCER_SAFETY)


def consumer_config(settings: Settings, *, role: str = "reader", group: str | None = None) -> Config:
    """Configuration of a consumer that keeps its own positions (no group is joined unless `group` is given).

    Raises:
        ConfigError: the user's `[kafka]` table weakens a setting.
    """
    own: Config = {"group.id": group or f"metajournal-{role}", "fetch.wait.max.ms": 50, "fetch.error.backoff.ms": 50}
    return _config(role, settings, own, CONSUMER_SAFETY)


def admin_config(settings: Settings) -> Config:
    """Configuration of an admin client.

    Raises:
        ConfigError: the user's `[kafka]` table weakens a setting.
    """
    return _config("admin", settings, {}, {})


def make_producer(settings: Settings, errors: ErrorLog, **more: Any) -> Producer:
    """A producer that logs quietly and tells its errors to `errors`; `more` are further librdkafka keys."""
    return _make(Producer, {**producer_config(settings), **more}, errors)


def make_transactional(settings: Settings, errors: ErrorLog, transactional_id: str) -> Producer:
    """A producer for transactions, which the broker aborts TRANSACTION_TIMEOUT_S after they began."""
    limit_ms = round(TRANSACTION_TIMEOUT_S * 1000)
    own = {"transactional.id": transactional_id, "transaction.timeout.ms": limit_ms, "delivery.timeout.ms": limit_ms}
    return make_producer(settings, errors, **{**own, "linger.ms": 0})


def make_consumer(settings: Settings, errors: ErrorLog, *, role: str = "reader", **more: Any) -> Consumer:
    """A consumer for `assign`, without a group's offsets."""
    return _make(_Reader, {**consumer_config(settings, role=role), **more}, errors)


def make_admin(settings: Settings, errors: ErrorLog) -> AdminClient:
    """An admin client."""
    return _make(AdminClient, admin_config(settings), errors)


class _Reader(Consumer):
    """A consumer that raises what a signal's handler raised while it called back."""

    def poll(self, timeout: float = -1) -> Message | None:
        """As `Consumer.poll`."""
        with _as_raised():
            return super().poll(timeout)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As `Consumer.consume`."""
        with _as_raised():
            return super().consume(num_messages, timeout)


@contextmanager
def _as_raised() -> Iterator[None]:
    try:
        yield
    except SystemError as error:
        signalled = _signalled(error)
        if signalled is None:
            raise
        raise signalled from None


def take_in(serve: Callable[[float], object], errors: ErrorLog, timeout_s: float) -> None:
    """Take in what a producer tells: delivery reports, its log, its errors.

    A fatal error is raised once, to whoever happens to serve the producer then. It goes to `errors` instead: the events
    that it ends have their reports like all others, and `produce` refuses what comes after it.

    Args:
        serve: `poll` or `flush` of the producer.
        errors: what the producer told.
        timeout_s: seconds of one turn.
    """
    try:
        serve(timeout_s)
    except (KafkaException, SystemError) as raised:
        # `flush` goes on behind the error, where the interpreter finds that nobody has taken it: a SystemError of it.
        error: BaseException | None = raised
        while error is not None and not isinstance(error, KafkaException):
            error = error.__cause__
        if error is None:
            with _as_raised():
                raise
        errors(error.args[0])


def _signalled(error: BaseException) -> BaseException | None:
    """What a signal's handler raised while the client called back, where the client made a SystemError of it.

    It hands on the value of an exception alone. Python's own handler of Ctrl-C raises a `KeyboardInterrupt` that has
    none yet, and the value of `sys.exit(2)` is a number, which cannot be raised: its code is lost.
    """
    text = str(error)
    if text.endswith("without setting an exception"):
        return KeyboardInterrupt()
    return SystemExit(1) if text.endswith("is not a BaseException subclass") else None


def wait_for_broker(client: Producer | AdminClient, errors: ErrorLog, *, servers: str, timeout_s: float) -> None:
    """Return once a broker answers.

    Raises:
        KafkaUnavailableError: none did in time, or it refuses this client for good (authentication).
    """
    deadline = time.monotonic() + timeout_s
    while True:
        remaining = deadline - time.monotonic()
        try:
            client.list_topics(timeout=max(0.1, min(0.5, remaining)))
            return
        except KafkaException as error:
            take_in(client.poll, errors, 0)
            reason = errors.hopeless or (errors.latest if remaining <= 0.5 else None)
            if errors.hopeless is not None or remaining <= 0.5:
                text = reason.text if reason else str(error.args[0])
                raise KafkaUnavailableError(
                    f"No Kafka broker answers at {servers} within {timeout_s:g} s ({text}).",
                    hint="Start one (`metajournal up`) or correct kafka.bootstrap.servers and its security keys.",
                    servers=servers,
                ) from error


def servers_of(settings: Settings) -> str:
    """Where the brokers are said to be, for people to read."""
    return url_shown(settings.kafka.get("bootstrap.servers", "(kafka.bootstrap.servers is not set)"))


def _config(role: str, settings: Settings, own: Mapping[str, Any], safety: Mapping[str, str]) -> Config:
    user = {_ALIASES.get(key, key): str(value) for key, value in settings.kafka.items()}
    for key, value in user.items():
        _refuse_weaker(key, value)
    defaults = {"client.id": f"metajournal-{role}", "reconnect.backoff.max.ms": 2000}
    return {**defaults, **own, **user, **{key: safety[key] for key in safety}}


def _refuse_weaker(key: str, value: str) -> None:
    name = f"kafka.{key}"
    if key in _OWN:
        raise ConfigError(f"{name} is set by {_OWN[key]}; change that setting instead.", key=name)
    if key in _RESERVED:
        raise ConfigError(f"{name} is set by the journal itself, for its units.", key=name, hint=_DROP)
    needed = PRODUCER_SAFETY.get(key) or CONSUMER_SAFETY.get(key)
    same = {needed, "-1"} if key == "acks" else {needed}
    if needed is not None and value.lower() not in same:
        why = "the journal's promises rest on it"
        raise ConfigError(f"{name} must stay {needed!r}, not {value!r}: {why}.", key=name, needed=needed, hint=_DROP)
    if key == "message.max.bytes" and (not value.isdigit() or int(value) < MESSAGE_BYTES):
        raise ConfigError(f"{name} must be at least {MESSAGE_BYTES}, not {value!r}.", key=name, hint=_DROP)


_DROP: Final = "Remove the key from the [kafka] table."


def _make(kind: Callable[..., _Client], config: Config, errors: ErrorLog) -> _Client:
    for key, value in config.items():
        _refuse_unreadable(key, value)
    errors.hidden = hidden_of_kafka(config)
    try:
        return kind({**config, "error_cb": errors}, logger=QuietLog(errors.hidden))
    except KafkaException as error:
        problem: KafkaError = error.args[0]
        why = scrubbed(problem.str(), errors.hidden)
        raise ConfigError(f"Kafka's client refuses its configuration: {why}.") from error


def _refuse_unreadable(key: str, value: object) -> None:
    """librdkafka cuts a text at a NUL, and ends the process where one holds a lone surrogate (a byte of no UTF-8)."""
    for text in (key, value):
        if isinstance(text, str) and any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
            raise ConfigError(f"kafka.{key!a} contains bytes that are not UTF-8, or a NUL.", key=f"kafka.{key!a}")
