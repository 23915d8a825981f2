"""Lineage facts through `rules.apply` one after another: what stands, by table, with a reader that is as strict as the
fold's (it gives no row but those that `reads` has announced and the entities that the header names)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from metajournal.domains.lineage.events import AccessesRecorded
from metajournal.rules import Accepted, At, EntityRow, FactKey, ForeignRowError, Outcome, Reads, apply, reads
from metajournal.rules.tables import KEYS, TABLE_OF
from metajournal.rules.tables import key_of as fact_key_of
from metajournal.schemas.header import Header
from metajournal.schemas.positions import position
from tests.builders import NO_DIGEST, NOON, header_for

Key = tuple[str, ...]


def key_of(row: Any) -> Key:
    """Tenant and key values of a row of a table besides `entities`."""
    return (str(row.tenant), *map(str, fact_key_of(row)))


@dataclass
class Reader:
    """The rows of one event's tenant."""

    held: Facts
    header: Header
    announced: Reads

    def entity(self, urn: str) -> EntityRow | None:
        if urn not in self.header.entities:
            raise ForeignRowError(urn)
        return self.held.entities.get((self.header.tenant, str(urn)))

    def fact(self, key: FactKey) -> Any:
        announced = [one for one in self.announced.facts if one.TABLE == key.TABLE]
        if key not in announced or not {*key} & {*self.header.entities}:
            raise ForeignRowError(f"{key.TABLE} {key}")
        return self.held.tables[key.TABLE].get((self.header.tenant, *map(str, key)))

    def members(self, aggregate: str, kinds: Collection[str]) -> list[EntityRow]:
        if aggregate != self.header.aggregate or not {*kinds} <= {*self.announced.members}:
            raise ForeignRowError(f"{kinds} of {aggregate}")
        return [row for row in self.held.entities.values() if row.aggregate == aggregate and row.kind in kinds]


@dataclass
class Facts:
    """Newest rows by table and key, and every row ever made."""

    entities: dict[Key, EntityRow] = field(default_factory=dict)
    tables: dict[str, dict[Key, Any]] = field(default_factory=lambda: {name: {} for name in KEYS})
    history: list[Any] = field(default_factory=list)
    records: int = 0

    def judge(self, event: Any, *, number: int | None = None, **fields: Any) -> Outcome:
        """The outcome of the next event.

        Args:
            number: makes the event's id; the place in the log where None.
            fields: header fields to have otherwise.
        """
        self.records += 1
        header = header_for(event, self.records if number is None else number, **fields)
        at = At(position(1, self.records), NOON + 1000 * self.records, NO_DIGEST)
        outcome = apply(header, event, at, Reader(self, header, reads(header, event)))
        if isinstance(outcome, Accepted):
            self._take(outcome)
        return outcome

    def _take(self, outcome: Accepted) -> None:
        assert outcome.rows or outcome.facts
        for row in outcome.rows:
            self.entities[row.tenant, str(row.urn)] = row
        for table in KEYS:
            assert [row.seq for row in outcome.facts if TABLE_OF[type(row)] == table] == list(
                range(sum(TABLE_OF[type(row)] == table for row in outcome.facts))
            )
        for row in outcome.facts:
            self.tables[TABLE_OF[type(row)]][key_of(row)] = row
        self.history += [*outcome.rows, *outcome.facts]

    def values(self, table: str) -> dict[Key, tuple[Any, ...]]:
        """What stands by key, without where it comes from."""
        return {key: row[len(key) + 8 :] for key, row in self.tables[table].items()}

    def only(self, table: str) -> Any:
        (row,) = self.tables[table].values()
        return row


def accessed(run: str, *accesses: Any) -> AccessesRecorded:
    """A shorter way to write the event."""
    return AccessesRecorded(run, accesses)
