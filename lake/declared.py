"""Every table of the lake by name: the layers' own, then each domain's, from the file `tables` of its folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from ..rules.entity import EntityRow
from ..schemas.domain import Domain
from ..schemas.registry import for_each_domain, role
from .columns import ENTITIES, ENTITIES_TABLE, JOURNAL, JOURNAL_TABLE, OF_HISTORIES, FromDict, TableSpec
from .entities import row_from_dict, rows_to_arrow

SPECS: Final[dict[str, TableSpec]] = {
    JOURNAL_TABLE: TableSpec(
        JOURNAL_TABLE,
        JOURNAL,
        sorted_by=("topic", "journal_partition", "logical_timestamp"),
        statistics=("topic", "journal_partition", "logical_timestamp", "system_time", "event_id"),
        repeating=frozenset({"topic", "journal_partition", "outcome", "reason", "tenant", "event_type", "actor"}),
    ),
    ENTITIES_TABLE: TableSpec(
        ENTITIES_TABLE,
        ENTITIES,
        sorted_by=("tenant", "urn", "logical_timestamp", "seq"),
        statistics=("tenant", "urn", "aggregate", "journal_partition", "logical_timestamp", "system_time"),
        row=EntityRow,
        to_arrow=rows_to_arrow,
        from_dict=row_from_dict,
        repeating=OF_HISTORIES | {"kind", "namespace"},
    ),
}
"""What each table is declared as; the journal table first."""


def _take(domain: Domain) -> None:
    module = role(domain.name, "tables") if domain.served else None
    if module is not None:
        SPECS.update({spec.name: spec for spec in module.TABLES})


for_each_domain(_take)


def history_tables() -> tuple[str, ...]:
    """Names of the history tables that the fold makes, `entities` first."""
    return tuple(name for name, spec in SPECS.items() if name != JOURNAL_TABLE and not spec.version)


def derived_tables() -> tuple[str, ...]:
    """Names of the tables that are derived from those of the fold."""
    return tuple(name for name, spec in SPECS.items() if spec.version)


def made_arrow(name: str, rows: Iterable[tuple[Any, str, int]]) -> pa.Table:
    """Rows of a history table as (row, domain, journal partition), as the table has them."""
    make = SPECS[name].to_arrow
    assert make is not None  # a history table's
    return make(rows)


def made_row(name: str) -> FromDict:
    """What makes the row of one table row of a history table."""
    make = SPECS[name].from_dict
    assert make is not None  # a history table's
    return make
