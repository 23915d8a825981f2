"""Every error that metajournal raises, sorted by who must act.

    InputError          the caller: fix what was handed in; nothing was sent
    RejectedError       the caller: the event is in the log, the rules refused it
    UnavailableError    nobody yet: a service is away, a retry may help
    OutcomeUnknownError the caller: the event may or may not be in the log; send again with repeat=True
    OperatorError       the operator: configuration, topics, versions

Each error has a stable `code`, one sentence, a `hint` (the next thing to try) and its data as attributes.
Adapters translate their library's exceptions into these with `from`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple


class Fault(NamedTuple):
    """One thing wrong with an event: the field's path (`tags[2]`, `properties['k']`) and a sentence."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class MetajournalError(Exception):
    """Root of all errors.

    Args:
        message: one sentence for people.
        code: stable identifier for programs; the class's own by default.
        hint: the next thing to try; the class's own by default.
        data: facts about the case; each becomes an attribute.
    """

    CODE: ClassVar[str] = "error"
    HINT: ClassVar[str] = "Run the command again as `metajournal -v COMMAND` and read the log."

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.CODE
        self.hint = hint or self.HINT
        self.data = data
        self.__dict__.update(data)
        self.add_note(f"  next: {self.hint}")  # a program's stack trace ends with what to do

    def advise(self, hint: str) -> None:
        """Replace the next thing to try."""
        self.hint = hint
        self.__notes__ = [f"  next: {hint}"]

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(kind: type[MetajournalError], args: tuple[Any, ...], state: dict[str, Any]) -> MetajournalError:
    """Unpickle without the subclass's own signature (errors cross process borders in Spark)."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InputError(MetajournalError):
    """An argument or input is not valid; nothing was sent or changed."""

    CODE = "bad-input"
    HINT = "Correct the value and try again."


class RenamedError(InputError, AttributeError):
    """A part of the Python API has been renamed; the message says how."""

    CODE = "renamed"
    HINT = "Use the new name; docs/reference/python.md describes its arguments."

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"{old} has been renamed to {new}.", old=old, new=new)


MOST_FAULTS: Final = 100
"""Faults of an event that a message tells."""


class InvalidEventError(InputError):
    """An event breaks its own rules; `faults` lists every one of them, its message the first hundred."""

    CODE = "invalid-event"
    HINT = "Correct the listed fields; nothing was sent."
    NAMED: ClassVar[str] = "event"
    faults: tuple[Fault, ...]

    def __init__(self, faults: Sequence[Fault], **data: Any) -> None:
        kept = tuple(faults)
        listed = "; ".join(str(fault).removesuffix(".") for fault in kept[:MOST_FAULTS])
        more = f"; and {len(kept) - MOST_FAULTS:,} more" if len(kept) > MOST_FAULTS else ""
        super().__init__(f"The {self.NAMED} is not valid: {listed}{more}.", faults=kept, **data)


class InvalidUnitError(InvalidEventError):
    """A unit cannot be sent: `faults` lists every fault of every event, as `events[2].tags[1]`."""

    CODE = "invalid-unit"
    HINT = "Correct the listed fields; nothing of the unit was sent."
    NAMED = "unit"


class EventTooLargeError(InputError):
    """An encoded event exceeds the limit; `field` is its largest one."""

    CODE = "event-too-large"
    HINT = "Split the event, or shorten the named field."
    size_bytes: int
    limit_bytes: int
    field: str

    def __init__(self, size_bytes: int, limit_bytes: int, field: str) -> None:
        super().__init__(
            f"The event takes {size_bytes:,} bytes, the limit is {limit_bytes:,}; its largest field is {field}.",
            size_bytes=size_bytes,
            limit_bytes=limit_bytes,
            field=field,
        )


class InvalidUrnError(InputError):
    """A text is not a valid canonical URN, or its parts do not fit its kind."""

    CODE = "invalid-urn"
    HINT = (
        "A URN looks like dataset:default/orders, stream:default/clicks, app:default/shop or"
        " program:default/shop/spark/load. Other characters in names are percent-encoded: größe is gr%C3%B6%C3%9Fe. In"
        " Python, dataset(), stream(), app(), program(), run() and urn() do that."
    )
    text: str
    reason: str

    def __init__(self, text: str, reason: str) -> None:
        shown = text if len(text) <= 80 else text[:77] + "..."
        super().__init__(f"{shown!r} is not a valid URN: {reason}.", text=text, reason=reason)


class InvalidPositionError(InputError):
    """A text is not a valid position or cut."""

    CODE = "invalid-position"
    HINT = "A position has the form <topic>/<partition>/<value>, as receipts and change records print it."


class UnservedDomainError(InputError):
    """The entity's kind belongs to a domain that this version does not serve."""

    CODE = "unserved-domain"
    HINT = "Use an entity of a served domain, or a version of metajournal that serves this one."
    domain: str
    urn: str

    def __init__(self, domain: str, urn: str, **data: Any) -> None:
        said = f"{urn} belongs to the domain {domain!r}, which is not served yet."
        super().__init__(said, domain=domain, urn=urn, **data)


class UnknownKindError(InputError):
    """No domain declares the entity's kind, and it is not in `journal.custom_kinds`; nothing was sent."""

    CODE = "unknown-kind"
    HINT = "Correct the kind, or add it to the setting journal.custom_kinds."
    kind: str
    urn: str
    nearest: str | None

    def __init__(self, kind: str, urn: str, nearest: str | None) -> None:
        meant = f"; did you mean {nearest!r}?" if nearest else "."
        super().__init__(
            f"{kind!r} is not a known kind of entity{meant}",
            hint=f'Correct {urn}. For a kind of your own, set journal.custom_kinds = ["{kind}"] in metajournal.toml '
            f"or METAJOURNAL__JOURNAL__CUSTOM_KINDS={kind} (several separated by commas).",
            kind=kind,
            urn=urn,
            nearest=nearest,
        )


class UnknownEntityError(InputError):
    """The entity was never registered, or has been deleted."""

    CODE = "unknown-entity"
    HINT = "Register it first, or check the spelling of its URN."
    urn: str

    def __init__(self, urn: str, message: str | None = None, **data: Any) -> None:
        super().__init__(message or f"There is no entity {urn}.", urn=urn, **data)


class UnknownEventError(InputError):
    """No event with that id is in the journal."""

    CODE = "unknown-event"
    event_id: str


class FilesQueryError(InputError):
    """A query over files is not valid; `code` says why."""

    CODE = "bad-files-query"
    HINT = "Give a work_id, or both start and end; where and what narrow the query."


class UnauthenticatedError(InputError):
    """A request over HTTP has no key, or one that is not valid."""

    CODE = "unauthenticated"
    HINT = "Send a key: `Authorization: Bearer mjk_…`."


class ForbiddenError(InputError):
    """The principal of a request over HTTP does not have the right to do that."""

    CODE = "forbidden"
    HINT = "Use another key, or have the right granted: `metajournal access grant PRINCIPAL ROLE --on PATTERN`."


class QueueFullError(MetajournalError):
    """The client's bounded queue is full; the event was not taken."""

    CODE = "queue-full"
    HINT = "Wait for earlier receipts (or flush) and emit again, or raise client.queue_events."


class RejectedError(MetajournalError):
    """The event is in the log and the rules refused it."""

    CODE = "rejected"
    HINT = "Read the reason; sending the same event again gives the same verdict unless the entity changes."
    reason: str
    detail: str
    position: Any

    def __init__(self, reason: str, detail: Any, position: Any) -> None:
        super().__init__(
            f"The event was rejected ({reason}): {_told(detail)}", reason=reason, detail=detail, position=position
        )


def _told(detail: Any) -> str:
    """What a verdict says besides its reason, in words."""
    if not isinstance(detail, Mapping):
        return str(detail)
    return ", ".join(f"{name} {value}" for name, value in detail.items())


class UnavailableError(MetajournalError):
    """A service does not answer; trying again may help."""

    CODE = "unavailable"
    HINT = "Check that the service runs (`metajournal status`) and try again."


class KafkaUnavailableError(UnavailableError):
    """No Kafka broker answers."""

    CODE = "kafka-unavailable"


class SearchUnavailableError(UnavailableError):
    """Elasticsearch does not answer, or has no index yet."""

    CODE = "search-unavailable"
    HINT = "Start it (`metajournal up`) or correct elasticsearch.url; `metajournal status` shows what runs."


class LakeWriteError(UnavailableError):
    """The lake cannot be written: its disk is full, or its store refuses writes. The batch waits until it can."""

    CODE = "lake-write-failed"
    HINT = "Check the lake's disk or store and its permissions; the stream retries by itself and resumes at its marks."


class StaleReadError(UnavailableError):
    """An old version of a table was read whose files have been deleted since; repeating the query succeeds."""

    CODE = "stale-read"
    HINT = "Repeat the query: every query reads the tables' current version."
    table: str
    file: str

    def __init__(self, table: str, file: str) -> None:
        super().__init__(
            f"The table {table!r} has changed since the version that was read: {file} is no longer part of it.",
            table=table,
            file=file,
        )


class OutcomeUnknownError(MetajournalError):
    """No acknowledgement or verdict in time: the event may or may not be in the log."""

    CODE = "outcome-unknown"
    HINT = "Wait longer, or emit the same event again with its event_id and repeat=True."


class NotYetVisibleError(UnavailableError):
    """The index or table has not reached the requested position; `behind` says how far, by topic and partition."""

    CODE = "not-yet-visible"
    HINT = "Try again shortly, or ask without at_least; `metajournal status` shows each stage's delay."
    behind: Any

    def __init__(self, behind: Any, message: str = "The requested position is not visible yet.") -> None:
        super().__init__(message, behind=behind)


class NotFinalError(UnavailableError):
    """Events before the requested time may still arrive; an answer now could change."""

    CODE = "not-final"
    HINT = "Ask again later, or for an earlier time."


class PositionExpired(InputError):  # noqa: N818  (the architecture's name)
    """The requested position is no longer in the topic; `earliest` is the first one left."""

    CODE = "position-expired"
    HINT = "Start from the earliest position left, or from the state topic."


class OperatorError(MetajournalError):
    """Only the operator of the installation can fix this."""

    CODE = "operator"
    HINT = "Run `metajournal doctor`."


class ConfigError(OperatorError):
    """A setting is unknown or has a wrong value."""

    CODE = "config"
    HINT = "`metajournal config show --origin` says where each value comes from."


class MissingExtraError(OperatorError):
    """A package that an extra brings is not installed."""

    CODE = "missing-extra"
    extra: str

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the extra {extra!r}.", hint=f"pip install 'metajournal[{extra}]'", extra=extra
        )


class TopicMismatchError(OperatorError):
    """A topic is not the one recorded in the epochs topic, or its configuration is wrong."""

    CODE = "topic-mismatch"
    HINT = (
        "Do not continue. Correct journal.prefix or kafka.bootstrap.servers. If topics were lost: `metajournal restore "
        "topics`."
    )


class OtherRulesError(OperatorError):
    """The lake was written under other rules of a domain, so this process cannot predict the stream's verdicts."""

    CODE = "rules-differ"
    HINT = (
        "Wait for the outcome instead: receipt.outcome(). To get verdicts ahead of the stream, install its "
        "version here."
    )
    domain: str
    theirs: str
    ours: str

    def __init__(self, domain: str, theirs: str, ours: str) -> None:
        super().__init__(
            f"The lake's newest batch was evaluated by the rules {theirs[:12]} of the domain {domain!r}, this "
            "process has "
            f"{ours[:12]}.",
            domain=domain,
            theirs=theirs,
            ours=ours,
        )


class DomainError(OperatorError):
    """An external domain is missing, broken, or its declaration differs from what the journal serves."""

    CODE = "domain"
    HINT = "`metajournal domains` lists the domains that are installed and those that are served."


class UnknownSchemaError(OperatorError):
    """A valid record was written with a schema that this version does not know; the stream stops before it."""

    CODE = "unknown-schema"
    HINT = "Upgrade metajournal, or skip that one record: `metajournal shelve TOPIC PARTITION POSITION`."
    topic: str
    partition: int
    position: int
    fingerprint: int

    def __init__(self, topic: str, partition: int, position: int, fingerprint: int) -> None:
        super().__init__(
            f"The record at {topic}/{partition}/{position} has the unknown schema {fingerprint:016x}.",
            hint="Upgrade metajournal. If no version knows that schema, make the stream skip this one record "
            "permanently:"
            f" `metajournal shelve {topic} {partition} {position}`, then start the stream again.",
            topic=topic,
            partition=partition,
            position=position,
            fingerprint=fingerprint,
        )


class StreamError(OperatorError):
    """The stream cannot continue without losing or reordering records."""

    CODE = "stream"


class DamagedTableError(OperatorError):
    """A file of a lake table is missing, truncated or unreadable; `table`, `uri` and `file` say which one."""

    CODE = "table-damaged"
    HINT = "Run `metajournal rebuild lake`; it also works beside the running stream."
    table: str
    uri: str
    file: str
    problem: str
    cause: str

    def __init__(
        self, table: str, uri: str, file: str, problem: str, *, cause: str = "", hint: str | None = None
    ) -> None:
        super().__init__(
            f"The table {table!r} is damaged: its file {file} in {uri} is {problem}.",
            hint=hint,
            table=table,
            uri=uri,
            file=file,
            problem=problem,
            cause=cause,
        )


class DecodeError(MetajournalError):
    """The bytes of a record are not a valid event of this journal."""

    CODE = "undecodable"
    HINT = "The stream shelves such a record; its copy in the dead-letter topic (<prefix>.dlq) says why in its headers."


class NotSingleObject(DecodeError):  # noqa: N818  (the interface's name)
    """The bytes do not begin with Avro's single-object header."""

    CODE = "not-single-object"

    def __init__(self, message: str = "The value has no Avro single-object header (C3 01).") -> None:
        super().__init__(message)


class UnknownFingerprint(DecodeError):  # noqa: N818
    """The single-object header names a schema that this package does not know."""

    CODE = "unknown-fingerprint"
    HINT = "Upgrade metajournal: a newer version wrote this record."
    fingerprint: int

    def __init__(self, fingerprint: int) -> None:
        super().__init__(f"No known schema has the fingerprint {fingerprint:016x}.", fingerprint=fingerprint)


class Undecodable(DecodeError):  # noqa: N818
    """The body does not follow its schema, or exceeds a limit; `why` says what."""

    why: str

    def __init__(self, why: str) -> None:
        super().__init__(f"The value cannot be decoded: {why}.", why=why)
