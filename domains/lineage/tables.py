"""The tables of lineage: their columns and order. What a row means stands in `rows`."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from ...lake.columns import OF_HISTORIES, TIMESTAMP, TableSpec, history
from ...lake.plain import from_dict, to_arrow
from .rows import AccessRow, ExternalWriteRow, RelationRow, RunRow

RUNS = history(
    [pa.field("run", pa.string(), nullable=False)],
    [
        pa.field("program", pa.string(), nullable=False),
        pa.field("start", TIMESTAMP),
        pa.field("first_access", TIMESTAMP),
        pa.field("stop", TIMESTAMP),
        pa.field("status", pa.string()),
    ],
)
"""What stands of each run: one row for each fact that changed it."""

ACCESSES = history(
    [pa.field(name, pa.string(), nullable=False) for name in ("run", "data", "access", "component")],
    [
        pa.field("program", pa.string(), nullable=False),
        pa.field("happened_at", TIMESTAMP, nullable=False),
        pa.field("metadata", pa.string()),
    ],
)
"""Which run touched which data: read, write or unknown, by component (empty where there is none). `metadata` is
canonical JSON of what was recorded with the access. A program's runs stand together, since its URN begins theirs."""

RELATIONS = history([pa.field(name, pa.string(), nullable=False) for name in ("data", "program")], [])
"""Which program has ever touched which data: one row for each pair, the way from data to `accesses`."""

WRITES = history(
    [pa.field(name, pa.string(), nullable=False) for name in ("data", "run", "component")],
    [pa.field("program", pa.string(), nullable=False), pa.field("happened_at", TIMESTAMP, nullable=False)],
)
"""The accesses that are writes, by what was written: what `latest_write` reads. Derived from `accesses`."""

EXTERNAL_WRITES = history(
    [pa.field(name, pa.string(), nullable=False) for name in ("stream", "source", "day")],
    [pa.field("happened_at", TIMESTAMP, nullable=False)],
)
"""The first write of each outside source to each stream on each day (UTC)."""

_JSON: Final = frozenset({"metadata"})
_PLACE: Final = ("journal_partition", "logical_timestamp", "system_time")
_ORDER: Final = ("logical_timestamp", "seq")


def _spec(
    name: str, row: type[Any], schema: pa.Schema, *, key: tuple[str, ...], found_by: tuple[str, ...], few: set[str]
) -> TableSpec:
    return TableSpec(
        name,
        schema,
        sorted_by=("tenant", *key, *_ORDER),
        statistics=("tenant", *found_by, *_PLACE),
        row=row,
        to_arrow=to_arrow(row, schema, json=_JSON),
        from_dict=from_dict(row, json=_JSON),
        repeating=OF_HISTORIES | few,
        original=True,
    )


TABLES: Final = (
    _spec("runs", RunRow, RUNS, key=("run",), found_by=("run", "program"), few={"program", "status"}),
    _spec(
        "accesses", AccessRow, ACCESSES, key=("run", "data", "access", "component"), found_by=("run", "program"),
        few={"access", "component", "program"},
    ),
    _spec(
        "relations", RelationRow, RELATIONS, key=("data", "program"), found_by=("data", "program"), few={"program"}
    ),
    _spec(
        "external_writes", ExternalWriteRow, EXTERNAL_WRITES, key=("stream", "source", "day"), found_by=("stream",),
        few={"source", "day"},
    ),
    TableSpec(
        "writes",
        WRITES,
        sorted_by=("tenant", "data", "run", "component", *_ORDER),
        statistics=("tenant", "data", *_PLACE),
        repeating=OF_HISTORIES | {"data", "component", "program"},
        version=1,
    ),
)  # fmt: skip
