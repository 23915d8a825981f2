"""Events of lineage: which run touched which data, when runs began and ended, who else wrote to a stream.

All of them are facts: they have no precondition, and what they mean together is the same in whatever order they come.
Here spellings become the log's own, before anything is sent: "in" and "out" (and capitals, as in "READ") are read and
write, a `datetime` or text is milliseconds. Each class is kept in step with its contract in `contracts/lineage/`.

Source: docs/concepts.md; the source text's sections Lineage Table, UseDataset and Stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, NamedTuple

from ...schemas.errors import Fault, InvalidEventError
from ...schemas.events.base import as_dict, as_tuple, as_urn, text_fault
from ...schemas.events.checks import (
    count_faults,
    empty_faults,
    keys_faults,
    plain_keys,
    plain_properties,
    properties_faults,
    urn_faults,
)
from ...schemas.kinds import a_kind
from ...schemas.limits import MAX_ENTRIES, MAX_KEY_BYTES, MAX_URN_BYTES
from ...schemas.times import time_ms
from ...schemas.urn import Urn

READ: Final = "read"
WRITE: Final = "write"
UNKNOWN: Final = "unknown"
ACCESSES: Final = (READ, WRITE, UNKNOWN)
LATEST_AT_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z. Facts begin at 1970: -1 is how the source writes that a run has not stopped."""
DEFINITION: Final = "definition-"
"""How the number of a run begins that stands for a definition (a view, a model, a job event): it says what reads and
writes what for as long as it is defined so, and not that anything was written at a time."""
NO_DATA: Final = frozenset({"app", "program", "run"})
"""Kinds that do things and are no data: with one of them in its place, an access has its two ends swapped."""

_LONGEST_RUN_PATH: Final = MAX_URN_BYTES - len("program:") + len("run:/")
"""Characters of a run's URN in front of its last part: its program's URN is four longer, without the slash."""
_SPELLINGS: Final = {"in": READ, "out": WRITE}
_LAST_DAY: Final = 2_932_896
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_set = object.__setattr__


class Annotations(NamedTuple):
    """What an entity carried in one scope."""

    properties: Mapping[str, str] = {}
    tags: tuple[str, ...] = ()


class Recorded(NamedTuple):
    """Metadata as it was at an access, by scope."""

    user: Annotations = Annotations()
    system: Annotations = Annotations()


class Access(NamedTuple):
    """One touch of one piece of data.

    Attributes:
        data: URN of any kind but app, program and run; nothing checks that it exists.
        access: read, write or unknown.
        at: milliseconds UTC.
        component: the part of the program that did it.
        metadata: what was known of it then, `{"user": {"properties": …, "tags": …}, "system": …}`.
    """

    data: Any
    access: Any
    at: Any
    component: str | None = None
    metadata: Any = None


@dataclass(frozen=True, slots=True, init=False)
class RunFact:
    """What the facts about a run share."""

    TYPE: ClassVar[str] = ""
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"run"})

    run: Urn

    @property
    def entity(self) -> Urn:
        """The run. Raises: InvalidEventError: it is no run's URN."""
        if type(self.run) is not Urn or _run_faults(self.run):
            raise InvalidEventError(_run_faults(self.run))
        return self.run

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The run. Raises: InvalidEventError: it is no run's URN."""
        return (self.entity,)

    @property
    def aggregate(self) -> Urn:
        """The run's app. Raises: InvalidEventError: the run is no run's URN."""
        return self.entity.aggregate

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field (`accesses[2].at`); empty for a valid one."""
        return _run_faults(self.run)


@dataclass(frozen=True, slots=True, init=False)
class AccessesRecorded(RunFact):
    """A run touched data, 1 to 1,000 times."""

    TYPE: ClassVar[str] = "lineage.AccessesRecorded.1"
    NESTED: ClassVar[Mapping[str, type[Any]]] = {
        "metajournal.lineage.v1.Access": Access,
        "metajournal.lineage.v1.Recorded": Recorded,
        "metajournal.lineage.v1.Annotations": Annotations,
    }

    accesses: tuple[Access, ...]

    def __init__(self, run: Urn | str, accesses: Iterable[Access | Mapping[str, Any] | tuple[Any, ...]]) -> None:
        _set(self, "run", as_urn(run))
        given = as_tuple(accesses)
        _set(self, "accesses", tuple(map(as_access, given)) if isinstance(given, tuple) else given)

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The run, and its program, whose relations to data the accesses add to. Raises: as `entity`."""
        return (self.entity, program_of(self.entity))

    def validate(self) -> list[Fault]:
        faults = _run_faults(self.run)
        accesses: Any = self.accesses
        if not isinstance(accesses, tuple):
            return [*faults, Fault("accesses", f"must be a list of accesses, not {type(accesses).__name__}")]
        faults += count_faults("accesses", len(accesses)) + empty_faults("accesses", accesses)
        for index, access in enumerate(accesses[:MAX_ENTRIES]):
            if not _plain(access):
                faults += _access_faults(f"accesses[{index}]", access)
        return faults


@dataclass(frozen=True, slots=True, init=False)
class RunStarted(RunFact):
    """A run began; of several starts the least one is the start."""

    TYPE: ClassVar[str] = "lineage.RunStarted.1"

    at: int

    def __init__(self, run: Urn | str, at: int | datetime | str) -> None:
        _set(self, "run", as_urn(run))
        _set(self, "at", as_millis(at))

    def validate(self) -> list[Fault]:
        return _run_faults(self.run) + _time_faults("at", self.at)


@dataclass(frozen=True, slots=True, init=False)
class RunStopped(RunFact):
    """A run ended; of several stops the greatest one is the stop, of those the greatest status."""

    TYPE: ClassVar[str] = "lineage.RunStopped.1"

    at: int
    status: str

    def __init__(self, run: Urn | str, at: int | datetime | str, status: str) -> None:
        _set(self, "run", as_urn(run))
        _set(self, "at", as_millis(at))
        _set(self, "status", status)

    def validate(self) -> list[Fault]:
        return _run_faults(self.run) + _time_faults("at", self.at) + _name_faults("status", self.status)


@dataclass(frozen=True, slots=True, init=False)
class ExternalWrite:
    """Something outside of every program wrote to a stream; of one day (UTC) and source, the least time stands."""

    TYPE: ClassVar[str] = "lineage.ExternalWrite.1"
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"stream"})

    stream: Urn
    source: str
    at: int

    def __init__(self, stream: Urn | str, source: str, at: int | datetime | str) -> None:
        _set(self, "stream", as_urn(stream))
        _set(self, "source", source)
        _set(self, "at", as_millis(at))

    @property
    def entity(self) -> Urn:
        """The stream. Raises: InvalidEventError: it is no stream's URN."""
        if type(self.stream) is not Urn or self.stream.kind != "stream":
            raise InvalidEventError(_kind_faults("stream", self.stream, "stream"))
        return self.stream

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The stream. Raises: InvalidEventError: it is no stream's URN."""
        return (self.entity,)

    @property
    def aggregate(self) -> Urn:
        """The stream. Raises: InvalidEventError: it is no stream's URN."""
        return self.entity

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field; empty for a valid one."""
        faults = _kind_faults("stream", self.stream, "stream") + _name_faults("source", self.source)
        return faults + _time_faults("at", self.at)


EVENTS: Final[tuple[type[Any], ...]] = (AccessesRecorded, RunStarted, RunStopped, ExternalWrite)


def program_of(run: Urn) -> Urn:
    """The program that a run is one of."""
    return Urn.parse(f"program:{run.path.rpartition('/')[0]}")


def is_definition(run: str) -> bool:
    """Whether a run stands for a definition (see `DEFINITION`)."""
    return run.rpartition("/")[2].startswith(DEFINITION)


def utc_day(time_ms: int) -> str:
    """The UTC day of a time in milliseconds, as `2026-01-31`; a time outside of its range counts as its end."""
    days = min(max(time_ms // 86_400_000, 0), _LAST_DAY)
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def as_millis(value: Any) -> Any:
    """Milliseconds of a `datetime` or text, as `times.time_ms` reads it; else it stays for `validate` to judge."""
    if not isinstance(value, str | datetime):
        return value
    try:
        return time_ms(value)
    except ValueError:
        return value


def as_access(value: Any) -> Any:
    """An access with the log's spellings, from one, from its fields in order or by name; else as it is."""
    if isinstance(value, Mapping):
        if not value.keys() <= set(Access._fields):
            return value
        given: tuple[Any, ...] = tuple(value.get(name) for name in Access._fields)
    elif isinstance(value, tuple | list) and 3 <= len(value) <= 5:
        given = (*value, None, None)[:5]
    else:
        return value
    data, access, at, component, metadata = given
    return Access(as_urn(data), access_type(access), as_millis(at), component, _as_recorded(metadata))


def access_type(value: Any) -> Any:
    """A kind of access as the log writes it; what is none stays as it is."""
    if not isinstance(value, str):
        return value
    lower = value.lower()
    return _SPELLINGS.get(lower, lower if lower in ACCESSES else value)


def _as_recorded(value: Any) -> Any:
    if type(value) is Recorded:
        return Recorded(_as_annotations(value.user), _as_annotations(value.system))
    if not isinstance(value, Mapping) or not value.keys() <= {"user", "system"}:
        return value
    return Recorded(_as_annotations(value.get("user")), _as_annotations(value.get("system")))


def _as_annotations(value: Any) -> Any:
    if value is None:
        return Annotations()
    if type(value) is Annotations:
        return Annotations(as_dict(value.properties), as_tuple(value.tags))
    if not isinstance(value, Mapping) or not value.keys() <= {"properties", "tags"}:
        return value
    return Annotations(as_dict(value.get("properties") or {}), as_tuple(value.get("tags") or ()))


# Faults


def _kind_faults(field: str, value: Any, kind: str) -> list[Fault]:
    faults = urn_faults(field, value)
    if not faults and as_urn(value).kind != kind:
        return [Fault(field, f"must be the URN of {a_kind(kind)}, not {as_urn(value)}")]
    return faults


def _run_faults(value: Any) -> list[Fault]:
    faults = _kind_faults("run", value, "run")
    if not faults and len(value) - len(value.rpartition("/")[2]) > _LONGEST_RUN_PATH:
        return [Fault("run", f"the URN of its program would be longer than {MAX_URN_BYTES} bytes")]
    return faults


def _time_faults(field: str, value: Any) -> list[Fault]:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LATEST_AT_MS:
        return []
    if isinstance(value, str | datetime):  # `as_millis` could not read it
        try:
            time_ms(value)
        except ValueError as error:
            return [Fault(field, str(error))]
    return [Fault(field, f"must be milliseconds since 1970 (UTC), 0 to {LATEST_AT_MS}, not {_short(value)}")]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _name_faults(field: str, value: Any) -> list[Fault]:
    why = text_fault(value, empty=False, limit_bytes=MAX_KEY_BYTES)
    return [] if why is None else [Fault(field, why)]


def _plain(access: Any) -> bool:
    """The happy case of an access."""
    return (
        type(access) is Access
        and type(access.data) is Urn
        and access.data.kind not in NO_DATA
        and access.access in ACCESSES
        and type(access.at) is int
        and 0 <= access.at <= LATEST_AT_MS
        and (access.component is None or plain_keys((access.component,)))
        and (access.metadata is None or (type(access.metadata) is Recorded and all(map(_plain_scope, access.metadata))))
    )


def _plain_scope(scope: Any) -> bool:
    return type(scope) is Annotations and plain_properties(scope.properties) and plain_keys(scope.tags)


def _access_faults(at: str, access: Any) -> list[Fault]:
    if type(access) is not Access:
        fields = ", ".join(Access._fields)
        return [Fault(at, f"must be an access with {fields} (the last two may be left away) and nothing else")]
    faults = urn_faults(f"{at}.data", access.data)
    if type(access.data) is Urn and access.data.kind in NO_DATA:
        faults += [Fault(f"{at}.data", f"must be data, which the kind {access.data.kind} is not")]
    if access.access not in ACCESSES:
        faults += [Fault(f"{at}.access", f"must be read, write or unknown (or in, out), not {_short(access.access)}")]
    faults += _time_faults(f"{at}.at", access.at)
    if access.component is not None:
        faults += _name_faults(f"{at}.component", access.component)
    return faults + _recorded_faults(f"{at}.metadata", access.metadata)


def _recorded_faults(at: str, metadata: Any) -> list[Fault]:
    if metadata is None:
        return []
    if type(metadata) is not Recorded:
        return [Fault(at, "must have the scopes user and system and nothing else")]
    faults = []
    for scope, held in zip(Recorded._fields, metadata, strict=True):
        if type(held) is not Annotations:
            faults += [Fault(f"{at}.{scope}", "must have properties and tags and nothing else")]
            continue
        faults += properties_faults(f"{at}.{scope}.properties", held.properties)
        faults += keys_faults(f"{at}.{scope}.tags", held.tags)
    return faults
