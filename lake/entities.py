"""The `entities` table: rows of the rules to Arrow and back.

The two directions are each other's inverse; what a row means stands in `rules/entity.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from ..rules.entity import EntityRow
from .columns import ENTITIES

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
COLUMNS = ", ".join(name for name in ENTITIES.names if name not in ("domain", "journal_partition"))
"""What a look-up selects: all that `row_from_dict` needs."""


def rows_to_arrow(rows: Iterable[tuple[EntityRow, str, int]]) -> pa.Table:
    """Rows of the `entities` table.

    Args:
        rows: (row, domain, journal partition), in position order per partition.
    Returns:
        A table of schema ENTITIES.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ENTITIES.names}
    for row, domain, partition in rows:
        columns["tenant"].append(row.tenant)
        columns["urn"].append(row.urn)
        columns["aggregate"].append(row.aggregate)
        columns["domain"].append(domain)
        columns["journal_partition"].append(partition)
        columns["logical_timestamp"].append(row.logical_timestamp)
        columns["seq"].append(row.seq)
        columns["system_time"].append(row.system_time * 1000)
        columns["event_time"].append(row.event_time * 1000)
        columns["event_id"].append(row.event_id)
        columns["actor"].append(row.actor)
        columns["deleted"].append(row.deleted)
        columns["kind"].append(row.kind)
        columns["namespace"].append(row.namespace)
        columns["name"].append(row.name)
        columns["user_properties"].append(sorted(row.user_properties.items()))
        columns["user_tags"].append(row.user_tags)
        columns["system_properties"].append(sorted(row.system_properties.items()))
        columns["system_tags"].append(row.system_tags)
    return pa.table([pa.array(columns[field.name], field.type) for field in ENTITIES], schema=ENTITIES)


def row_from_dict(row: Mapping[str, Any]) -> EntityRow:
    """The rules' row of one table row (as `Table.query` gives it)."""
    return EntityRow(
        tenant=row["tenant"],
        urn=row["urn"],
        kind=row["kind"],
        namespace=row["namespace"],
        name=row["name"],
        aggregate=row["aggregate"],
        logical_timestamp=row["logical_timestamp"],
        seq=row["seq"],
        system_time=milliseconds(row["system_time"]),
        event_time=milliseconds(row["event_time"]),
        event_id=row["event_id"],
        actor=row["actor"],
        deleted=row["deleted"],
        user_properties=row["user_properties"] or {},
        user_tags=tuple(row["user_tags"] or ()),
        system_properties=row["system_properties"] or {},
        system_tags=tuple(row["system_tags"] or ()),
    )


def milliseconds(moment: datetime) -> int:
    """Milliseconds UTC of a time in a table, exactly."""
    return (moment - _EPOCH) // _MILLISECOND
