"""The rules of lineage: facts, which stand whatever the order they come in.

A fact that does not stand against what is there already changes nothing and gives no row; one that does gives the
whole of what stands. So the newest row of each key is the same after any order of the same facts. Nothing is looked up
outside of the run, its accesses and its program's relations: apps, programs and data need not be registered.
A run exists from its first fact; one that was deleted is not revived by later facts, but these count all the same.
Source: docs on the lineage domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...rules.admission import refusal
from ...rules.entity import At, EntityRow, RowReader
from ...rules.outcome import UNCHANGED, Accepted, Outcome, Rejected
from ...schemas.header import Header
from ...schemas.ids import id_text
from .events import (
    Access,
    AccessesRecorded,
    ExternalWrite,
    RunFact,
    RunStarted,
    RunStopped,
    program_of,
    utc_day,
)
from .rows import AccessRow, ExternalWriteRow, RelationRow, RunRow


def apply(header: Header, event: Any, at: At, rows: RowReader) -> Outcome:
    """Judge one fact against what stands.

    Args:
        header: the event's header, unchecked.
        event: one of the event classes of domains/lineage/events.py, unchecked.
        at: its place in the log.
        rows: what stood before the event.
    Returns:
        Accepted with new rows, UNCHANGED where the fact does not stand, or Rejected: its form, its header, or a
        precondition, which no fact may have (the same facts in another order would then give something else).
    """
    refused = refusal(header, event) or _conditional(header)
    if refused is not None:
        return refused
    if type(event) is ExternalWrite:
        return _external_write(header, event, at, rows)
    return _Run(header, event, at, rows).outcome()


def facts_read(event: Any) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Table and key of every row that the rule may ask for, besides the entities that the header names.

    Args:
        event: a valid one.
    """
    if type(event) is ExternalWrite:
        yield "external_writes", _external_key(event)
        return
    run = event.entity
    yield "runs", (run,)
    if type(event) is AccessesRecorded:
        program = program_of(run)
        for access in event.accesses:
            yield "accesses", (run, access.data, access.access, access.component or "")
            yield "relations", (access.data, program)


def _conditional(header: Header) -> Rejected | None:
    if header.expected is None:
        return None
    return Rejected("invalid", [{"field": "header.expected", "message": "a fact has no precondition"}])


def _external_key(event: ExternalWrite) -> tuple[str, str, str]:
    return event.stream, event.source, utc_day(event.at)


def _external_write(header: Header, event: ExternalWrite, at: At, rows: RowReader) -> Outcome:
    """The first write of a source to a stream on a day."""
    key = _external_key(event)
    event_id = id_text(header.event_id)
    held = rows.fact("external_writes", *key)
    if held is not None and (held.happened_at, held.event_id) <= (event.at, event_id):
        return UNCHANGED
    return Accepted((), (ExternalWriteRow._make((header.tenant, *key, *_origin(header, at, 0), event.at)),))


def _origin(header: Header, at: At, seq: int) -> tuple[str, int, int, int, int, str, str | None, bool]:
    """The columns that say where a row comes from, from `aggregate` to `deleted`."""
    return (
        header.aggregate, at.position, seq, at.system_time, header.event_time, id_text(header.event_id), header.actor,
        False,
    )  # fmt: skip


class _Run:
    """One fact about a run, against what stands of the run."""

    def __init__(self, header: Header, event: RunFact, at: At, rows: RowReader) -> None:
        self._header = header
        self._event = event
        self._at = at
        self._rows = rows
        self._run = event.entity
        self._program = program_of(self._run)
        self._event_id = id_text(header.event_id)

    def outcome(self) -> Outcome:
        event, held = self._event, self._rows.fact("runs", self._run)
        facts: list[Any] = []
        if isinstance(event, AccessesRecorded):
            after = self._accessed(held, min(access.at for access in event.accesses))
            facts += self._accesses(event)
        elif isinstance(event, RunStarted):
            after = self._started(held, event.at)
        else:
            after = self._stopped(held, cast(RunStopped, event))
        if after is not held:
            facts.insert(0, after)
        entity = self._entity(after)
        return Accepted(() if entity is None else (entity,), tuple(facts)) if facts or entity is not None else UNCHANGED

    def _accessed(self, held: RunRow | None, at_ms: int) -> RunRow:
        if held is not None and held.first_access is not None and held.first_access <= at_ms:
            return held
        return self._row(held, first_access=at_ms)

    def _started(self, held: RunRow | None, at_ms: int) -> RunRow:
        if held is not None and held.start is not None and held.start <= at_ms:
            return held
        return self._row(held, start=at_ms)

    def _stopped(self, held: RunRow | None, event: RunStopped) -> RunRow:
        if held is not None and held.stop is not None:
            stands: tuple[Any, Any] = (held.stop, held.status)
            if stands >= (event.at, event.status):
                return held
        return self._row(held, stop=event.at, status=event.status)

    def _row(self, held: RunRow | None, **said: Any) -> RunRow:
        """What stands of the run with what this event says."""
        stands = (None, None, None, None) if held is None else held[-4:]
        origin = _origin(self._header, self._at, 0)
        return RunRow._make((self._header.tenant, self._run, *origin, self._program, *stands))._replace(**said)

    def _accesses(self, event: AccessesRecorded) -> list[Any]:
        """Rows of the accesses that stand, and of the relations that they are the first of."""
        rows: list[Any] = []
        new: dict[str, None] = {}
        for key, access in self._told(event).items():
            held = self._rows.fact("accesses", *key)
            if held is None or (access.at, self._event_id) < (held.happened_at, held.event_id):
                recorded = None if access.metadata is None else _recorded(access.metadata)
                values = (*_origin(self._header, self._at, len(rows)), self._program, access.at, recorded)
                rows.append(AccessRow._make((self._header.tenant, *key, *values)))
                new[access.data] = None
        unmet = [data for data in new if self._rows.fact("relations", data, self._program) is None]
        for seq, data in enumerate(unmet):
            origin = _origin(self._header, self._at, seq)
            rows.append(RelationRow._make((self._header.tenant, data, self._program, *origin)))
        return rows

    def _told(self, event: AccessesRecorded) -> dict[tuple[str, str, str, str], Access]:
        """The event's accesses by key; of several with one key the least time, then the first."""
        told: dict[tuple[str, str, str, str], Access] = {}
        for access in event.accesses:
            key = (self._run, access.data, access.access, access.component or "")
            if key not in told or access.at < told[key].at:
                told[key] = access
        return told

    def _entity(self, run: RunRow) -> EntityRow | None:
        """The run's own row, where what it says of the run changes."""
        record = {"start": run.started, "stop": -1 if run.stop is None else run.stop, "status": run.status}
        held = self._rows.entity(self._run)
        if held is not None and (held.deleted or held.record == record):
            return None
        header, run_urn = self._header, self._run
        origin = _origin(header, self._at, 0)
        if held is None:
            system = _made(header, self._at)
            named = (header.tenant, run_urn, run_urn.kind, run_urn.namespace, run_urn.name)
            return EntityRow._make((*named, *origin, record, {}, (), system, ()))
        return EntityRow._make((*held[:5], *origin, record, *held[-4:]))


def _made(header: Header, at: At) -> dict[str, str]:
    """The SYSTEM properties that the fold keeps, of an entity that begins; sorted by key."""
    made = {"creation_time": str(at.system_time), "last_update_time": str(at.system_time)}
    if header.actor is not None:
        made |= {"created_by": header.actor, "last_updated_by": header.actor}
    return dict(sorted(made.items()))


def _recorded(metadata: Any) -> Mapping[str, Any]:
    """An access's metadata as JSON values, in one form: properties by key, tags sorted and each once."""
    return {
        scope: {"properties": dict(sorted(held.properties.items())), "tags": sorted(set(held.tags))}
        for scope, held in zip(("user", "system"), metadata, strict=True)
    }
