"""The rules of lineage: facts, which stand whatever the order they come in.

A fact that does not stand against what is there already changes nothing and gives no row; one that does gives the
whole of what stands. So the newest row of each key is the same after any order of the same facts. Nothing is looked up
outside of the run, its accesses and its program's relations: apps, programs and data need not be registered.
A run exists from its first fact; one that was deleted is not revived by later facts, but these count all the same.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...rules.admission import refusal
from ...rules.entity import At, EntityRow, FactKey, Reads, RowReader
from ...rules.outcome import UNCHANGED, Accepted, Outcome, Rejected
from ...rules.plain import origin
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
from .rows import (
    AccessKey,
    AccessRow,
    ExternalWriteKey,
    ExternalWriteRow,
    RelationKey,
    RelationRow,
    RunKey,
    RunRow,
)


def _rule(judge: Callable[[Header, Any, At, RowReader], Outcome]) -> Callable[[Header, Any, At, RowReader], Outcome]:
    """The rule of a fact: UNCHANGED where it does not stand.

    Its form comes first, and that it has no precondition: the same facts in another order would then give something
    else.
    """

    def judged(header: Header, event: Any, at: At, rows: RowReader) -> Outcome:
        refused = refusal(header, event) or _conditional(header)
        return judge(header, event, at, rows) if refused is None else refused

    return judged


def _conditional(header: Header) -> Rejected | None:
    if header.expected is None:
        return None
    return Rejected("invalid", [{"field": "header.expected", "message": "a fact has no precondition"}])


def _external_key(event: ExternalWrite) -> ExternalWriteKey:
    return ExternalWriteKey(event.stream, event.source, utc_day(event.at))


def _access_key(run: str, access: Access) -> AccessKey:
    return AccessKey(run, access.data, access.access, access.component or "")


def _reads_of_write(_: Header, event: ExternalWrite) -> Reads:
    return Reads((_external_key(event),))


def _reads_of_run(_: Header, event: RunFact) -> Reads:
    return Reads((RunKey(event.entity),))


def _reads_of_accesses(_: Header, event: AccessesRecorded) -> Reads:
    run, program = event.entity, program_of(event.entity)
    keys: list[FactKey] = [RunKey(run)]
    for access in event.accesses:
        keys += _access_key(run, access), RelationKey(access.data, program)
    return Reads(tuple(keys))


def _external_write(header: Header, event: ExternalWrite, at: At, rows: RowReader) -> Outcome:
    """The first write of a source to a stream on a day."""
    key = _external_key(event)
    event_id = id_text(header.event_id)
    held = rows.fact(key)
    if held is not None and (held.happened_at, held.event_id) <= (event.at, event_id):
        return UNCHANGED
    return Accepted((), (ExternalWriteRow._make((header.tenant, *key, *origin(header, at), event.at)),))


def _accessed(header: Header, event: AccessesRecorded, at: At, rows: RowReader) -> Outcome:
    run = _Run(header, event, at, rows)
    return run.outcome(run.accessed(min(access.at for access in event.accesses)), run.accesses(event))


def _started(header: Header, event: RunStarted, at: At, rows: RowReader) -> Outcome:
    run = _Run(header, event, at, rows)
    return run.outcome(run.started(event.at))


def _stopped(header: Header, event: RunStopped, at: At, rows: RowReader) -> Outcome:
    run = _Run(header, event, at, rows)
    return run.outcome(run.stopped(event))


class _Run:
    """One fact about a run, against what stands of the run."""

    def __init__(self, header: Header, event: RunFact, at: At, rows: RowReader) -> None:
        self._header = header
        self._at = at
        self._rows = rows
        self._run = event.entity
        self._program = program_of(self._run)
        self._event_id = id_text(header.event_id)
        self._before: RunRow | None = rows.fact(RunKey(self._run))

    def outcome(self, after: RunRow, facts: Sequence[Any] = ()) -> Outcome:
        """What the fact gives.

        Args:
            after: what stands of the run with it.
            facts: the other rows that it makes.
        """
        made = tuple(facts) if after is self._before else (after, *facts)
        entity = self._entity(after)
        return Accepted(() if entity is None else (entity,), made) if made or entity is not None else UNCHANGED

    def accessed(self, at_ms: int) -> RunRow:
        before = self._before
        if before is not None and before.first_access is not None and before.first_access <= at_ms:
            return before
        return self._row(first_access=at_ms)

    def started(self, at_ms: int) -> RunRow:
        before = self._before
        if before is not None and before.start is not None and before.start <= at_ms:
            return before
        return self._row(start=at_ms)

    def stopped(self, event: RunStopped) -> RunRow:
        before = self._before
        if before is not None and before.stop is not None:
            stands: tuple[Any, Any] = (before.stop, before.status)
            if stands >= (event.at, event.status):
                return before
        return self._row(stop=event.at, status=event.status)

    def _row(self, **stated: Any) -> RunRow:
        """What stands of the run with what this event says."""
        before, where = self._before, origin(self._header, self._at)
        stands = (None,) * 4 if before is None else (before.start, before.first_access, before.stop, before.status)
        return RunRow._make((self._header.tenant, self._run, *where, self._program, *stands))._replace(**stated)

    def accesses(self, event: AccessesRecorded) -> list[Any]:
        """Rows of the accesses that stand, and of the relations that they are the first of."""
        rows: list[Any] = []
        new: dict[str, None] = {}
        for key, access in self._by_key(event).items():
            held = self._rows.fact(key)
            if held is None or (access.at, self._event_id) < (held.happened_at, held.event_id):
                recorded = None if access.metadata is None else _recorded(access.metadata)
                values = (*origin(self._header, self._at, seq=len(rows)), self._program, access.at, recorded)
                rows.append(AccessRow._make((self._header.tenant, *key, *values)))
                new[access.data] = None
        unmet = [data for data in new if self._rows.fact(RelationKey(data, self._program)) is None]
        for seq, data in enumerate(unmet):
            where = origin(self._header, self._at, seq=seq)
            rows.append(RelationRow._make((self._header.tenant, data, self._program, *where)))
        return rows

    def _by_key(self, event: AccessesRecorded) -> dict[AccessKey, Access]:
        """The event's accesses by key; of several with one key the earliest, then the first."""
        accesses: dict[AccessKey, Access] = {}
        for access in event.accesses:
            key = _access_key(self._run, access)
            if key not in accesses or access.at < accesses[key].at:
                accesses[key] = access
        return accesses

    def _entity(self, run: RunRow) -> EntityRow | None:
        """The run's own row, where what it says of the run changes."""
        record = {"start": run.started, "stop": -1 if run.stop is None else run.stop, "status": run.status}
        held = self._rows.entity(self._run)
        if held is not None and (held.deleted or held.record == record):
            return None
        header, run_urn = self._header, self._run
        where = origin(header, self._at)
        if held is None:
            system = _made(header, self._at)
            named = (header.tenant, run_urn, run_urn.kind, run_urn.namespace, run_urn.name)
            return EntityRow._make((*named, *where, record, {}, (), system, ()))
        return EntityRow(
            held.tenant, held.urn, held.kind, held.namespace, held.name, *where, record,
            held.user_properties, held.user_tags, held.system_properties, held.system_tags,
        )  # fmt: skip


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


RULES: Final = {
    AccessesRecorded.TYPE: _rule(_accessed),
    RunStarted.TYPE: _rule(_started),
    RunStopped.TYPE: _rule(_stopped),
    ExternalWrite.TYPE: _rule(_external_write),
}
"""What judges the events of each type."""

READS: Final[Mapping[str, Callable[[Header, Any], Reads]]] = {
    AccessesRecorded.TYPE: _reads_of_accesses,
    RunStarted.TYPE: _reads_of_run,
    RunStopped.TYPE: _reads_of_run,
    ExternalWrite.TYPE: _reads_of_write,
}
"""What events of a type may ask for besides their entities."""
