"""Every table of the lake by name: the layers' own, then each domain's, from the file `tables` of its folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import pyarrow as pa

from ..rules.entity import EntityRow
from ..schemas.domain import Domain
from ..schemas.errors import DomainError
from ..schemas.registry import domains_in, for_each_domain, is_joining, role, taken_in
from .columns import ENTITIES, ENTITIES_TABLE, JOURNAL, JOURNAL_TABLE, OF_HISTORIES, FromDict, TableSpec
from .entities import row_from_dict, rows_to_arrow


class TablesFile(Protocol):
    """The file `tables` of a domain."""

    @property
    def TABLES(self) -> Sequence[TableSpec]:  # noqa: N802  (a constant of the module)
        """What each of its history tables is declared as."""


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
        original=True,
    ),
}
"""What each table is declared as; the journal table first."""


_DOMAIN_OF: Final[dict[str, str]] = {}
"""The domain of each table that a domain declares."""

FROM_OUTSIDE: Final[dict[str, str]] = {}
"""The domain of each table of a domain that joins journals: a lake has those of the domains that its journal serves."""


def _take(domain: Domain) -> None:
    module = role(domain.name, "tables") if domain.served else None
    if module is None:
        return
    named = {spec.name: spec for spec in cast(TablesFile, module).TABLES}
    if domain in taken_in() or is_joining(domain.name):
        check_names(domain, named)
        FROM_OUTSIDE.update(dict.fromkeys(named, domain.name))
    _DOMAIN_OF.update(dict.fromkeys(named, domain.name))
    SPECS.update(named)


def check_names(domain: Domain, named: Mapping[str, TableSpec]) -> None:
    """Hold the tables of a domain from outside against all others.

    Raises:
        DomainError: another domain has one of that name.
    """
    taken = sorted(name for name in named if name in SPECS and FROM_OUTSIDE.get(name) != domain.name)
    if taken:
        raise DomainError(
            f"The domain {domain.name} ({domain.package}) has a table {taken[0]!r}, which another domain has too.",
            code="declared-twice",
            hint=f"Give it another name in {domain.package}/tables.py: {domain.name}_{taken[0]}.",
        )


for_each_domain(_take)


def history_tables() -> tuple[str, ...]:
    """Names of the history tables that the fold makes of our own domains, `entities` first."""
    return tuple(
        name for name, spec in SPECS.items() if not (name == JOURNAL_TABLE or spec.version or name in FROM_OUTSIDE)
    )


def histories_in(topic_domain: str) -> tuple[str, ...]:
    """Names of the history tables that the fold makes of the events in a domain's journal topic, `entities` first."""
    names = {domain.name for domain in domains_in(topic_domain)}
    own = [name for name, domain in _DOMAIN_OF.items() if domain in names and not SPECS[name].version]
    return (ENTITIES_TABLE, *own)


def derived_tables() -> tuple[str, ...]:
    """Names of the tables of our own domains that are derived from those of the fold."""
    return tuple(name for name, spec in SPECS.items() if spec.version and name not in FROM_OUTSIDE)


def tables_of(outside: Collection[str]) -> set[str]:
    """Names of the tables of some domains from outside."""
    return {name for name, domain in FROM_OUTSIDE.items() if domain in outside}


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
