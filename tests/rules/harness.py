"""A catalog to try rules on: events go through `rules.apply` one after another, without codec, topic or table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metajournal.domains.catalog.documents import change_records
from metajournal.rules import Accepted, At, EntityRow, FactKey, Outcome, Rejected, apply, reads
from metajournal.rules.tables import TABLE_OF, key_of
from metajournal.schemas.header import Header
from metajournal.schemas.limits import RESERVED_PROPERTIES
from metajournal.schemas.positions import position
from tests.builders import NO_DIGEST, NOON, header_for
from tests.model import ModelRows


@dataclass
class Catalog:
    """Newest rows by (tenant, URN), and how far the log has come (one second a record)."""

    newest: dict[tuple[str, str], EntityRow] = field(default_factory=dict)
    records: int = 0
    facts: dict[tuple[str, str, FactKey], Any] = field(default_factory=dict)

    @property
    def at(self) -> At:
        """The place of the last event."""
        return At(position(1, self.records), NOON + 1000 * self.records, NO_DIGEST)

    def judge(self, event: Any, header: Header | None = None, **fields: Any) -> Outcome:
        """The outcome of the next event; `fields` are header fields to have otherwise."""
        self.records += 1
        header = header or header_for(event, self.records, **fields)
        rows = ModelRows(self.newest, header.tenant, header.aggregate, reads(header, event), self.facts)
        outcome = apply(header, event, self.at, rows)
        if isinstance(outcome, Accepted):
            self.newest |= {(row.tenant, row.urn): row for row in outcome.rows}
            for fact in outcome.facts:
                self.facts[TABLE_OF[type(fact)], fact.tenant, key_of(fact)] = fact
        return outcome

    def rows(self, event: Any, **fields: Any) -> tuple[EntityRow, ...]:
        """The rows of an event that must be accepted."""
        outcome = self.judge(event, **fields)
        assert isinstance(outcome, Accepted), outcome
        return outcome.rows

    def row(self, event: Any, **fields: Any) -> EntityRow:
        """The only row of an event that must be accepted."""
        (row,) = self.rows(event, **fields)
        return row

    def rejected(self, event: Any, **fields: Any) -> tuple[str, Any]:
        """Reason and detail of an event that must be rejected, and must change nothing."""
        before = dict(self.newest)
        outcome = self.judge(event, **fields)
        assert isinstance(outcome, Rejected), outcome
        assert self.newest == before
        return outcome.reason, outcome.detail

    def changes(self, event: Any, **fields: Any) -> dict[str, dict[str, Any]]:
        """Change records by scope of an event that must be accepted with one row."""
        before = dict(self.newest)
        row = self.row(event, **fields)
        return dict(change_records(before.get((row.tenant, row.urn)), row))


def given(properties: Mapping[str, str]) -> dict[str, str]:
    """SYSTEM properties without those that the fold keeps."""
    return {name: value for name, value in properties.items() if name not in RESERVED_PROPERTIES}


def kept(properties: Mapping[str, str]) -> dict[str, str]:
    """Those that the fold keeps."""
    return {name: value for name, value in properties.items() if name in RESERVED_PROPERTIES}
