"""Lineage exchanged as OpenLineage run events: in as facts, out as the events of each run.

Pure: JSON values in, events out, and the reverse. What an event says is kept where the two languages share it (which
run of which job, when it began and ended, what it read and wrote); the rest of ours travels in a run facet of our own,
`metajournal_run`, so that what goes out comes back as it was: each access with its time, component and metadata.
Invariant: a run's name follows from the required fields alone (or from our facet), never from what only some events of
a run carry, so that all events of a run are told of one run. Source: OpenLineage specification 2-0-2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from ...schemas.errors import InvalidUrnError, MetajournalError
from ...schemas.limits import MAX_ENTRIES, MAX_URN_BYTES
from ...schemas.times import time_ms
from ...schemas.urn import Urn
from ...values import bounded, is_text, json_value
from ..catalog import naming
from ..catalog.urns import program, run
from .events import DEFINITION, READ, WRITE, Access, AccessesRecorded, RunStarted, RunStopped

SCHEMA_URL: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
PRODUCER: Final = "urn:metajournal:openlineage"
FACET: Final = "metajournal_run"
_FACET_URL: Final = "urn:metajournal:openlineage:RunFacet:1"
OTHER_KINDS: Final = "metajournal://"
"""Namespace prefix of data that is not a dataset: `metajournal://stream`, and its name is the URN's path."""
WORKFLOW: Final = "workflow"
"""Program type of an OpenLineage job: the workflow of the app of the same name."""
_STATUS_OF: Final = {"COMPLETE": "COMPLETED", "FAIL": "FAILED", "ABORT": "KILLED"}
_TYPE_OF: Final = {status: event_type for event_type, status in _STATUS_OF.items()}
_TYPES: Final = frozenset({*_STATUS_OF, "START", "RUNNING", "OTHER"})
_UUID_DIGITS: Final = "-".join(rf"[0-9a-f]{{{count}}}" for count in (8, 4, 4, 4, 12))
_UUID: Final = re.compile(rf"(?:urn:uuid:)?{_UUID_DIGITS}|\{{{_UUID_DIGITS}\}}", re.ASCII | re.IGNORECASE)
"""The ways to write a UUID: bare, as a URN, in braces. Its digits alone may be any other id."""
_NAMES: Final = 8_192
_MOST_FAULTS: Final = 20
"""Faults of an event that an error tells."""
_RUN_KIND: Final = "run"
_BLANKS: Final = re.compile(r"\s*")
_TIME_WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?", re.ASCII)
_SURELY_FITS: Final = 300
"""Characters of ASCII of namespace and name that make no URN too long, three for each."""
_MOST_SHOWN: Final = 200
"""Characters of a name that is told."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Read(NamedTuple):
    """One run event: its number from 1, its facts, and why it has none (None: it was understood)."""

    number: int
    facts: list[Any]
    fault: str | None


class NoRunEventError(MetajournalError):
    """A JSON value is not an OpenLineage run event that can be imported as facts."""

    CODE = "no-run-event"
    HINT = "Each line is one OpenLineage RunEvent: eventTime, run.runId, job.namespace and job.name are required."


# In


def read_events(lines: Iterable[str]) -> Iterator[Read]:
    """The facts of run events: one JSON object a line, objects over several lines, or one JSON array of them.

    Args:
        lines: of a file; empty ones are passed over.
    """
    for number, value, fault in read_values(lines):
        if fault is not None:
            yield Read(number, [], fault)
            continue
        try:
            yield Read(number, facts_of(value), None)
        except MetajournalError as error:
            yield Read(number, [], error.message)


def read_values(lines: Iterable[str]) -> Iterator[tuple[int, Any, str | None]]:
    """The JSON values of a file as `read_events` takes it: number from 1, value, and why it is none (None: it is).

    An event that names data by unusable names comes without these, and its number again with what was left out.
    """
    for number, text in enumerate(_texts(lines), 1):
        try:
            value, left_out = without_unusable(json_value(text) if isinstance(text, str) else text)
        except ValueError as error:
            yield number, None, f"it is not JSON: {error}"
            continue
        yield number, value, None
        for name in left_out:
            yield number, None, f"the data {name!r} were left out: such a namespace and name make no valid URN"


def _texts(lines: Iterable[str]) -> Iterator[Any]:
    rest = (line for line in bounded(lines) if line.strip())
    first = next(rest, None)
    if first is None:
        return
    array = first.lstrip().startswith("[")
    if not array and not _goes_on(first):
        yield first
        yield from rest
        return
    every = [first, *rest]
    try:
        values = list(_values("".join(every)))
    except (ValueError, RecursionError):
        yield from ["".join(every)] if array else every
        return
    yield from values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _goes_on(line: str) -> bool:
    """Whether the JSON value of a line is not at its end there."""
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return error.pos >= len(line.rstrip())
    except (ValueError, RecursionError):
        return False
    return False


def _values(text: str) -> Iterator[Any]:
    """The JSON values that stand one behind the other. Raises: ValueError, RecursionError: something is none."""
    if not is_text(text):
        raise ValueError("it is not UTF-8")
    decoder, offset = json.JSONDecoder(), 0
    while (offset := _BLANKS.match(text, offset).end()) < len(text):  # type: ignore[union-attr]  # it matches everywhere
        value, offset = decoder.raw_decode(text, offset)
        yield value


def facts_of(event: Any) -> list[Any]:
    """The facts that a run event tells: a start or a stop, and what it read and wrote by then.

    Raises:
        NoRunEventError: a required field is missing or not of its type, or a name makes no URN or no valid fact.
    """
    if isinstance(event, Mapping) and "run" not in event and ("dataset" in event or "job" in event):
        raise NoRunEventError(
            f"Only run events can be imported, and this is a {'dataset' if 'dataset' in event else 'job'} event."
        )
    at_ms = event_time_ms(event)
    facet = _facet(event)
    try:
        return _checked(_facts(_run_of(event, facet), at_ms, event, facet))
    except InvalidUrnError as error:
        raise NoRunEventError(error.message) from error


def facts_of_job(event: Mapping[str, Any]) -> list[Any]:
    """The facts of a job event: what the job reads and writes by its definition, as a run without an end.

    A changed definition is another run; the earlier one is not ended, as its end is not known.

    Raises:
        NoRunEventError: as `facts_of`.
    """
    at_ms = event_time_ms(event)
    job, name = _text(event, "job", "namespace"), _text(event, "job", "name")
    try:
        accesses = _accesses(event, at_ms)
        content = sorted(f"{access.access} {access.data}" for access in accesses)
        of = run(job, name, WORKFLOW, name, f"{DEFINITION}{uuid5(NAMESPACE_URL, chr(10).join(content))}")
        return _checked(_told(of, accesses))
    except InvalidUrnError as error:
        raise NoRunEventError(error.message) from error


def facts_of_any(event: Any) -> list[Any]:
    """The facts of a run or job event; a dataset event has none.

    Raises:
        NoRunEventError: as `facts_of`.
    """
    if isinstance(event, Mapping) and "run" not in event:
        if "dataset" in event:
            for name in ("namespace", "name"):
                _text(event, "dataset", name)
            return []
        if "job" in event:
            return facts_of_job(event)
    return facts_of(event)


def without_unusable(event: Any) -> tuple[Any, list[str]]:
    """An event without the inputs and outputs that have namespace and name, but such as make no valid URN.

    Senders name the root of a bucket by an empty name, for one; that must not lose what else the event says.

    Returns:
        The event, and of the data that were left out namespace and name, as text that is not too long.
    """
    left_out: dict[str, None] = {}
    for side in ("inputs", "outputs"):
        listed = event.get(side) if isinstance(event, Mapping) else None
        if isinstance(listed, list) and not all(map(_is_usable, listed)):
            left_out |= {_shown(data): None for data in listed if not _is_usable(data)}
            event = {**event, side: [data for data in listed if _is_usable(data)]}
    return event, [*left_out]


def _is_usable(data: Any) -> bool:
    """Whether data have a name that makes a URN, or lack one of the two: then the event is none."""
    namespace, name = (data.get(key) if isinstance(data, Mapping) else None for key in ("namespace", "name"))
    if not (isinstance(namespace, str) and isinstance(name, str)):
        return True
    if not (namespace and name):
        return False
    text = f"{namespace}{name}"
    if len(text) <= _SURELY_FITS and text.isascii() and not namespace.startswith(OTHER_KINDS):
        return True
    try:
        _named(namespace, name)
    except InvalidUrnError:
        return False
    return True


def _shown(data: Mapping[str, Any]) -> str:
    text = f"{naming.without_credentials(data['namespace'])} {data['name']}".strip()
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def data_count(event: Any) -> int:
    """How much an event has to be read for: the data that it names, each time that it names them."""
    lists = [value.get(name) for value, name in ((event, "inputs"), (event, "outputs"), (_facet(event), "accesses"))
             if isinstance(value, Mapping)]  # fmt: skip
    return sum(len(listed) for listed in lists if isinstance(listed, list))


def run_of(event: Mapping[str, Any]) -> Urn:
    """The run that a run event is about.

    Raises:
        NoRunEventError: a name is missing.
        InvalidUrnError: a name makes no URN.
    """
    return _run_of(event, _facet(event))


def event_time_ms(event: Any) -> int:
    """When an event happened; a time without a zone, as earlier senders write it, is UTC.

    Raises:
        NoRunEventError: its eventTime is missing or invalid.
    """
    text = _text(event, "eventTime")
    upper = text.upper()  # RFC 3339 takes `t` and `z`, too
    try:
        return time_ms(f"{upper}Z" if _TIME_WITHOUT_ZONE.fullmatch(upper) else upper, zone_required=True)
    except ValueError:
        raise NoRunEventError(f"eventTime is not a date and time of ISO 8601: {text[:80]!r}.") from None


def _checked(facts: list[Any]) -> list[Any]:
    """Raises: NoRunEventError: a fact is not valid; the faults of the first that is not, at most `_MOST_FAULTS`."""
    for fact in facts:
        if faults := fact.validate():
            told = [str(fault) for fault in faults[:_MOST_FAULTS]]
            told += ["and more"] if len(faults) > _MOST_FAULTS else []
            raise NoRunEventError("; ".join(told))
    return facts


def _facts(of: Urn, at_ms: int, event: Mapping[str, Any], facet: Mapping[str, Any]) -> list[Any]:
    kind = event.get("eventType")
    if kind is not None and not (isinstance(kind, str) and kind in _TYPES):
        raise NoRunEventError(f"eventType is none of {', '.join(sorted(_TYPES))}: {kind!r:.80}.")
    facts: list[Any] = [RunStarted(of, at_ms)] if kind == "START" else []
    status = facet.get("status") if isinstance(facet.get("status"), str) else _STATUS_OF.get(str(kind))
    if status and kind not in (None, "START", "RUNNING"):
        facts.append(RunStopped(of, at_ms, status))
    accesses = _own_accesses(facet) if "run" in facet else _accesses(event, at_ms)
    return facts + _told(of, accesses)


def _told(of: Urn, accesses: Sequence[Access]) -> list[Any]:
    return [
        AccessesRecorded(of, accesses[start : start + MAX_ENTRIES]) for start in range(0, len(accesses), MAX_ENTRIES)
    ]


def _own_accesses(facet: Mapping[str, Any]) -> list[Access]:
    """Those of our own facet; all events of a run but its first have none."""
    accesses = []
    for fields in _listed(facet, "accesses"):
        if not isinstance(fields, Mapping):
            raise NoRunEventError(f"An access is not an object: {fields!r:.80}.")
        accesses.append(Access(*[fields.get(name) for name in Access._fields]))
    return accesses


def _accesses(event: Mapping[str, Any], at_ms: int) -> list[Access]:
    touched = [(data, READ) for data in _data(event, "inputs")] + [(data, WRITE) for data in _data(event, "outputs")]
    return [Access(data, access, at_ms) for data, access in dict.fromkeys(touched)]


def _run_of(event: Mapping[str, Any], facet: Mapping[str, Any]) -> Urn:
    """The run: the one that our own facet names; else of a workflow that is named as the job is, app and all."""
    named = facet.get("run")
    if isinstance(named, str):
        found = Urn.parse(named)
        if found.kind != _RUN_KIND:
            raise NoRunEventError(f"Our own facet names {found}, which is not the URN of a run.")
        return found
    job, name = _text(event, "job", "namespace"), _text(event, "job", "name")
    return run(job, name, WORKFLOW, name, _canonical(_text(event, "run", "runId")))


def _canonical(run_id: str) -> str:
    """A UUID in its one form, lower case and nothing around it (RFC 9562, section 4); any other id as it is."""
    match = _UUID.fullmatch(run_id)
    return run_id if match is None else str(UUID(run_id.lower()))


def data_of(namespace: str, name: str) -> Urn:
    """The URN of a dataset; events name the same ones again and again. Raises: InvalidUrnError."""
    is_remembered = len(namespace) <= MAX_URN_BYTES  # a longer one may be short without its query
    return _known_data(namespace, name) if is_remembered else naming.data(namespace, name)


@lru_cache(maxsize=_NAMES)
def _known_data(namespace: str, name: str) -> Urn:
    return naming.data(namespace, name)


@lru_cache(maxsize=_NAMES)
def job_of(namespace: str, name: str) -> Urn:
    """The URN of a job's program. Raises: InvalidUrnError."""
    return program(namespace, name, WORKFLOW, name)


def is_own(event: Any) -> bool:
    """Whether a run event was exported by metajournal: its job is a program of another name."""
    return "run" in _facet(event)


def _facet(event: Any) -> Mapping[str, Any]:
    value = event
    for name in ("run", "facets", FACET):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _data(event: Mapping[str, Any], side: str) -> Iterator[Urn]:
    for dataset_fields in _listed(event, side):
        namespace, name = _text(dataset_fields, "namespace"), _text(dataset_fields, "name")
        yield _named(namespace, name)


def _named(namespace: str, name: str) -> Urn:
    """The URN of data. Raises: InvalidUrnError."""
    kind = namespace.removeprefix(OTHER_KINDS)
    return data_of(namespace, name) if kind == namespace else Urn.parse(f"{kind}:{name}")


def _listed(value: Mapping[str, Any], name: str) -> Sequence[Any]:
    listed = value.get(name)
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise NoRunEventError(f"{name} is not a list.")
    return listed


def _text(value: Any, *path: str) -> str:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, str) or not value:
        raise NoRunEventError(f"{'.'.join(path)} is missing or not text.")
    return value


# Out


def run_events(run: Mapping[str, Any], accesses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A run as OpenLineage run events: one of its start, and one of its end where it has one.

    Args:
        run: as `lake.lineage_queries.LineageReader.run` tells it.
        accesses: as its `accesses` tells them, all of the run.
    """
    kinds = [] if run["start"] is None else [("START", run["start"])]
    kinds += [] if run["stop"] == -1 else [(_TYPE_OF.get(run["status"], "OTHER"), run["stop"])]
    return [_event(kind, at_ms, run, accesses, first=not number) for number, (kind, at_ms) in enumerate(kinds)]


def _event(
    kind: str, at_ms: int, run: Mapping[str, Any], accesses: Sequence[Mapping[str, Any]], *, first: bool
) -> dict[str, Any]:
    program = Urn.parse(run["program"])
    namespace, application, program_type, name = program.parts
    facet = {"_producer": PRODUCER, "_schemaURL": _FACET_URL, "run": run["run"]}
    facet |= {} if kind == "START" else {"status": run["status"]}
    facet |= {"accesses": [_present(access) for access in accesses]} if first else {}
    return {
        "eventType": kind,
        "eventTime": _time(at_ms),
        "run": {"runId": _run_id(run), "facets": {FACET: facet}},
        "job": {"namespace": namespace, "name": _job_name(application, program_type, name)},
        "inputs": [_dataset(Urn.parse(urn)) for urn in _each(accesses, READ)],
        "outputs": [_dataset(Urn.parse(urn)) for urn in _each(accesses, WRITE)],
        "producer": PRODUCER,
        "schemaURL": SCHEMA_URL,
    }


def _job_name(application: str, program_type: str, name: str) -> str:
    """The job's own name if it came from OpenLineage; else one that identifies the program."""
    if program_type == WORKFLOW and application == name:
        return name
    return f"{application}.{program_type}.{name}"


def _present(access: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in access.items() if value is not None}


def _each(accesses: Sequence[Mapping[str, Any]], access: str) -> list[str]:
    return sorted({recorded["data"] for recorded in accesses if recorded["access"] == access})


def _run_id(run: Mapping[str, Any]) -> str:
    """The run's own id where that is a UUID, as the specification wants one; else one that follows from its URN."""
    try:
        return str(UUID(run["id"])) if len(run["id"]) == 36 else str(uuid5(NAMESPACE_URL, run["run"]))
    except ValueError:
        return str(uuid5(NAMESPACE_URL, run["run"]))


def _dataset(data: Urn) -> dict[str, str]:
    if data.kind == "dataset" and not data.parts[0].startswith(OTHER_KINDS):
        return {"namespace": data.parts[0], "name": data.parts[1]}
    return {"namespace": f"{OTHER_KINDS}{data.kind}", "name": data.path}


def _time(at_ms: int) -> str:
    text = (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
