"""An entity as of a time: its accepted events, folded again in the order of their own times.

The history rows of an entity name every position at which the journal accepted something of it, so nothing but those
events is read, and no table is scanned. Facts of a run go by the time that they speak of, everything else by its event
time; of events of one time the journal's order decides.

What the journal accepted stays accepted, also where the other order finds the entity missing: an annotation whose time
is before its entity's waits for it. `docs/decisions/` says why, and what is bad about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ..rules import Accepted, At, EntityRow, Rejected, apply
from ..rules.tables import KEYS, TABLE_OF
from ..schemas.codec import decode
from ..schemas.errors import OperatorError
from ..schemas.events.catalog import (
    EntityDeleted,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)
from ..schemas.events.lineage import AccessesRecorded, RunStarted, RunStopped
from ..schemas.header import Header
from ..schemas.urn import Urn
from . import scan
from .lineage_relations import select_rows
from .lookup import possible_files
from .tables import Lake, PartitionKey

_NO_BEGIN: Final = (EntityDeleted, MetadataCleared, PropertiesRemoved, PropertiesSet, TagsAdded, TagsRemoved)
"""Events that no entity begins with."""


class Told(NamedTuple):
    """An accepted event.

    Attributes:
        happened_at: the time that orders it, milliseconds UTC.
        at: its place in the journal.
    """

    happened_at: int
    at: At
    header: Header
    event: Any

    @property
    def order(self) -> tuple[int, int]:
        return self.happened_at, self.at.position


def rows_as_of(
    lake: Lake, place: PartitionKey, tenant: str, urn: Urn, seen: str, as_of_ms: int
) -> list[EntityRow]:  # fmt: skip
    """The rows of an entity's events up to a time, in the order of that time.

    Args:
        lake: where the tables are, refreshed by the caller.
        place: the journal topic and partition of the entity.
        seen: which rows of the history tables are seen, as SQL: below the marks, or as at an earlier point.
        as_of_ms: events of later times are left out, milliseconds UTC.
    Returns:
        The last one is what stood then. A row is in the place where it took effect, and bears its event's own times:
        the row of an annotation that waited for its entity comes behind the entity's first.
    Raises:
        OperatorError: the journal table lacks an event that a history table has a row of.
        UnknownFingerprint: a newer version wrote one of the events.
    """
    told = _without_lesser_stops(list(_told(lake, place, _positions(lake, tenant, urn, seen))))
    return refolded(urn, [one for one in told if one.happened_at <= as_of_ms])


def refolded(urn: Urn, told: Iterable[Told]) -> list[EntityRow]:
    """The rows that events give an entity in the order of their times; they may come in any order."""
    fold = _Refold()
    for one in sorted(told, key=lambda one: one.order):
        fold.take(one)
    return [row for row in fold.made if row.urn == urn]


class _Refold:
    """Applies events one after the other; it is also what the rules read, the rows so far."""

    def __init__(self) -> None:
        self.made: list[EntityRow] = []
        self._newest: dict[str, EntityRow] = {}
        self._facts: dict[tuple[str, ...], Any] = {}
        self._waiting: list[Told] = []

    def entity(self, urn: str) -> EntityRow | None:
        return self._newest.get(urn)

    def programs(self, app: str) -> list[EntityRow]:
        return [row for row in self._newest.values() if row.kind == "program" and row.aggregate == app]

    def fact(self, table: str, *key: str) -> Any:
        return self._facts.get((table, *key))

    def take(self, told: Told) -> None:
        # What `expected` asked for was so in the journal's order, and is meaningless in another one.
        outcome = apply(told.header._replace(expected=None), told.event, told.at, self)
        if isinstance(outcome, Accepted):
            self._keep(outcome)
        elif isinstance(outcome, Rejected) and outcome.reason == "unknown-entity":
            self._waiting.append(told)
        if not isinstance(told.event, _NO_BEGIN):
            self._wake(told)

    def _keep(self, outcome: Accepted) -> None:
        self.made += outcome.rows
        self._newest.update((row.urn, row) for row in outcome.rows)
        for fact in outcome.facts:
            table = TABLE_OF[type(fact)]
            self._facts[table, *fact[1 : 1 + len(KEYS[table])]] = fact

    def _wake(self, beginning: Told) -> None:
        """Apply what waited for an entity that begins: what came behind the beginning in the journal.

        What came before it there belongs to an earlier life of the entity, and ended with that.
        """
        woken = [
            one
            for one in self._waiting
            if one.event.entity in beginning.header.entities and one.at.position > beginning.at.position
        ]
        if woken:
            self._waiting = [one for one in self._waiting if one not in woken]
            for one in woken:
                self.take(one)


def _positions(lake: Lake, tenant: str, urn: Urn, seen: str) -> list[int]:
    """Where the journal accepted something that can touch an entity, ascending."""
    keys = [("entities", {"tenant": tenant, "urn": str(urn)})]
    if urn.kind == "program":  # it ends with its app
        keys.append(("entities", {"tenant": tenant, "urn": str(urn.aggregate)}))
    if urn.kind == "run":
        keys.append(("runs", {"tenant": tenant, "run": str(urn)}))
    statement = f"select distinct logical_timestamp from rows where {seen}"
    return sorted({position for name, key in keys for (position,) in select_rows(lake, name, key, statement)})


def _told(lake: Lake, place: PartitionKey, positions: list[int]) -> Iterator[Told]:
    """The events at some positions of a journal partition."""
    rows = _journal_rows(lake, place, positions) if positions else []
    if len(rows) != len(positions):
        raise OperatorError(
            f"The journal table lacks {len(positions) - len(rows):,} events of {place[0]}/{place[1]} whose rows stand"
            " in the history tables, so nothing can be said as of a time.",
            hint="Compare them with `metajournal verify`; the journal topic still has what is lacking.",
        )
    for position, system_time, value in rows:
        header, event, _ = decode(value)
        yield Told(_happened_at(header, event), At(position, system_time), header, event)


def _journal_rows(lake: Lake, place: PartitionKey, positions: list[int]) -> list[tuple[int, int, bytes]]:
    """Position, system_time in milliseconds and value of each of some records."""
    topic, partition = place
    table = lake.journal.delta
    among: Mapping[str, list[Any]] = {
        "topic": [topic], "journal_partition": [partition], "logical_timestamp": positions
    }  # fmt: skip
    paths = possible_files(table, among)
    if not paths:
        return []
    with scan.cursor() as cursor:
        cursor.register("wanted", pa.table({"logical_timestamp": positions}))
        found: list[tuple[int, int, bytes]] = cursor.sql(
            f"""select logical_timestamp, epoch_ms(system_time), event_payload
            from {scan.source(cursor, table, paths)} semi join wanted using (logical_timestamp)
            where topic = $topic and journal_partition = $partition
            and logical_timestamp between {positions[0]} and {positions[-1]}""",
            params={"topic": topic, "partition": partition},
        ).fetchall()
        return found


def _happened_at(header: Header, event: Any) -> int:
    """The time that an event speaks of: a fact its own, anything else when its emitter says that it was."""
    if isinstance(event, RunStarted | RunStopped):
        return int(event.at)
    if isinstance(event, AccessesRecorded):
        return int(min(access.at for access in event.accesses))
    return header.event_time


def _without_lesser_stops(told: list[Told]) -> list[Told]:
    """The same without the stops that do not stand: a run stops once, at its greatest (as `Times.of` has it)."""
    stops = [one for one in told if isinstance(one.event, RunStopped)]
    standing = max(stops, key=lambda one: (one.event.at, one.event.status), default=None)
    return [one for one in told if one is standing or not isinstance(one.event, RunStopped)]
