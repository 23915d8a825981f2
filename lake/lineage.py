"""The lineage tables: rows of the rules to Arrow and back.

The two directions are each other's inverse; what a row means stands in `rules/lineage_rows.py`, the columns of each
table in `columns`. Invariant: a row comes back equal to what went in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import orjson
import pyarrow as pa

from ..rules.lineage_rows import AccessRow, ExternalWriteRow, RelationRow, RunRow
from ..rules.tables import TABLE_OF
from .columns import SCHEMAS
from .entities import microseconds, milliseconds, records

_TIMES: Final = frozenset({"system_time", "event_time", "start", "first_access", "stop", "happened_at"})
"""Columns that hold milliseconds in a row and a time in a table."""
_JSON: Final = "metadata"

ToArrow = Callable[[Iterable[tuple[Any, str, int]]], pa.Table]
FromDict = Callable[[Mapping[str, Any]], Any]


def to_arrow(kind: type[Any]) -> ToArrow:
    """What makes rows of one class a table, column by column."""
    schema = SCHEMAS[TABLE_OF[kind]]

    def rows_to_arrow(rows: Iterable[tuple[Any, str, int]]) -> pa.Table:
        given = list(rows)
        if not given:
            return schema.empty_table()
        made, domains, partitions = zip(*given, strict=True)
        held: dict[str, Any] = dict(zip(kind._fields, zip(*made, strict=True), strict=True))
        held |= {"domain": domains, "journal_partition": partitions}
        return pa.table([_column(field, held[field.name]) for field in schema], schema=schema)

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


HISTORIES: Final[Mapping[str, tuple[ToArrow, FromDict]]] = {
    TABLE_OF[kind]: (to_arrow(kind), from_dict(kind)) for kind in (RunRow, AccessRow, RelationRow, ExternalWriteRow)
}
"""The two directions of each lineage table."""
