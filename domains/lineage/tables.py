"""The tables of lineage: their columns, and rows of the rules to Arrow and back.

The two directions are each other's inverse; what a row means stands in `rows`. Invariant: a row comes back equal to
what went in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import orjson
import pyarrow as pa

from ...lake.columns import OF_HISTORIES, TIMESTAMP, FromDict, TableSpec, ToArrow, history
from ...lake.entities import microseconds, milliseconds, records
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

_TIMES: Final = frozenset({"system_time", "event_time", "start", "first_access", "stop", "happened_at"})
"""Columns that hold milliseconds in a row and a time in a table."""
_JSON: Final = "metadata"


def to_arrow(kind: type[Any], schema: pa.Schema) -> ToArrow:
    """What makes rows of one class a table, column by column."""

    def rows_to_arrow(rows: Iterable[tuple[Any, str, int]]) -> pa.Table:
        given = list(rows)
        if not given:
            return schema.empty_table()
        made, domains, partitions = zip(*given, strict=True)
        columns: dict[str, Any] = dict(zip(kind._fields, zip(*made, strict=True), strict=True))
        columns |= {"domain": domains, "journal_partition": partitions}
        return pa.table([_column(field, columns[field.name]) for field in schema], schema=schema)

    return rows_to_arrow


def _column(field: pa.Field, values: Any) -> pa.Array:
    if field.name in _TIMES:
        return microseconds(values)
    if field.name == _JSON:
        return records(values)
    return pa.array(values, field.type)


def from_dict(kind: type[Any]) -> FromDict:
    """What makes a table row (as `Table.query` gives it) a row of one class."""

    def row_from_dict(row: Mapping[str, Any]) -> Any:
        return kind._make(_value(name, row[name]) for name in kind._fields)

    return row_from_dict


def _value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return milliseconds(value)
    return orjson.loads(value) if name == _JSON and value is not None else value


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
        to_arrow=to_arrow(row, schema),
        from_dict=from_dict(row),
        repeating=OF_HISTORIES | few,
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
