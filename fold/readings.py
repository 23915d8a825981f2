"""The records of one partition, read in order, and what must be known from before to judge them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from ..rules import reads, reads_more
from ..schemas.encoding.codec import Decoded
from ..schemas.errors import InvalidEventError
from ..schemas.header import TENANT_PATTERN, Header
from .folded import IdKey, KeyOfFact, MembersKey, RowKey
from .records import Place, Reading, Record, Shelved, UnknownSchema, read, read_side_by_side, records_of


@dataclass(frozen=True, slots=True)
class Needs:
    """What a partition's records need to know from before.

    Attributes:
        rows: entities that events name.
        members: entities of one kind of an aggregate.
        originals: identities of events that are marked `repeat`.
        facts: rows of other tables.
    """

    rows: frozenset[RowKey]
    members: frozenset[MembersKey]
    originals: frozenset[IdKey]
    facts: frozenset[KeyOfFact] = frozenset()


@dataclass(frozen=True)
class Readings:
    """A partition's records, read: up to the first unknown schema, which stops it.

    Attributes:
        columns: the table that the items were read from, a row for each; None where they came one by one.
    """

    place: Place
    start: int
    end: int
    items: list[tuple[Record, Decoded | Shelved]]
    stopped_by: UnknownSchema | None
    columns: pa.Table | None = None

    def needs(self) -> Needs:
        """What must be known from before; found once."""
        return self._needs

    @cached_property
    def _needs(self) -> Needs:
        rows: set[RowKey] = set()
        members: set[MembersKey] = set()
        originals: set[IdKey] = set()
        facts: set[KeyOfFact] = set()
        for _, reading in self.items:
            if isinstance(reading, Shelved):
                continue
            header, event, _ = reading
            tenant, aggregate = header.tenant, header.aggregate
            if header.repeat:
                originals.add((tenant, aggregate, header.event_id))
            more = reads_more(event.TYPE)
            if not more and len(header.entities) == 1 and (tenant, header.entities[0]) in rows:
                continue  # it asks for no more, whatever it is
            if not _is_judged_by_rows(header, event):
                continue  # the rules refuse it before they read any row
            for urn in header.entities:
                rows.add((tenant, urn))
            if more:
                asked = reads(header, event)
                facts.update((key.TABLE, tenant, key) for key in asked.facts)
                members.update((tenant, aggregate, kind) for kind in asked.members)
        return Needs(frozenset(rows), frozenset(members), frozenset(originals), frozenset(facts))


def _is_judged_by_rows(header: Header, event: Any) -> bool:
    """Whether an event names none but rows of its own aggregate.

    A row of another aggregate would be looked for in the wrong partition, and its absence be remembered.
    """
    if not _is_tenant(header.tenant):
        return False
    try:
        entities = event.entities
    except InvalidEventError:
        return False
    if len(entities) == 1:  # nearly every event
        return bool(header.entities == entities and entities[0].aggregate == header.aggregate)
    return bool(header.entities == entities and {entity.aggregate for entity in entities} == {header.aggregate})


@lru_cache(maxsize=4096)
def _is_tenant(text: str) -> bool:
    return TENANT_PATTERN.fullmatch(text) is not None


def read_all(records: Iterable[Record], place: Place, start: int, end: int) -> Readings:
    """Read records in position order.

    Args:
        start: the mark: next position to judge.
        end: the position that the batch was planned to reach; lowered to an unknown schema's position if there is one.
    """
    items: list[tuple[Record, Decoded | Shelved]] = []
    for record in records:
        reading: Reading = read(record, place)
        if isinstance(reading, UnknownSchema):
            return Readings(place, start, record.position, items, reading)
        items.append((record, reading))
    return Readings(place, start, end, items, None)


def read_table(table: pa.Table, place: Place, epoch: int, start: int, end: int) -> Readings:
    """The same as `read_all` over `records_of`, several times as fast, and the journal's rows keep the columns.

    Args:
        table: records of one partition in offset order, as `records_of` takes them.
        epoch: the topic's epoch.
        start: the mark: next position to judge.
        end: the position that the batch was planned to reach; lowered as in `read_all`.
    """
    records = list(records_of(table, epoch))
    readings = read_side_by_side(records, place)
    stopped_by = readings[-1] if readings and isinstance(readings[-1], UnknownSchema) else None
    if stopped_by is not None:
        readings.pop()
        end = records[len(readings)].position
    items: Any = list(zip(records, readings, strict=False))
    return Readings(place, start, end, items, stopped_by, table.slice(0, len(items)))
