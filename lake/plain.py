"""A table as most domains declare theirs: from the class of its rows, the class of their keys, and the columns' types.

A row's field of a time is milliseconds UTC in the row and a time in the table; every other field is what its column's
type says. Columns that need more (JSON, lists, maps) make a domain write its own `to_arrow` and `from_dict`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa

from .columns import OF_HISTORIES, TIMESTAMP, FromDict, TableSpec, ToArrow, history
from .entities import microseconds, milliseconds, records


def plain_table(
    row: type[Any], key: type[Any], columns: Mapping[str, pa.DataType], *, few: Collection[str] = ()
) -> TableSpec:
    """The declaration of a history table.

    Args:
        row: a NamedTuple of `tenant`, the key's fields, the fields of `rules.tables.COMMON`, then its own.
        key: a NamedTuple of the key's fields, with the table's name as `TABLE`.
        columns: the type of each key field and of each of the row's own; a key column is never null.
        few: columns that have few different values.
    Raises:
        TypeError: the fields of the row are not those.
    """
    names = [*key._fields, *(name for name in columns if name not in key._fields)]
    own = [pa.field(name, columns[name], nullable=name not in key._fields) for name in names]
    schema = history(own[: len(key._fields)], own[len(key._fields) :])
    wanted = [name for name in schema.names if name not in ("domain", "journal_partition")]
    if list(row._fields) != wanted:
        raise TypeError(f"The fields of {row.__name__} must be {', '.join(wanted)}; they are {', '.join(row._fields)}.")
    return TableSpec(
        key.TABLE,
        schema,
        sorted_by=("tenant", *key._fields, "logical_timestamp", "seq"),
        statistics=("tenant", *key._fields, "journal_partition", "logical_timestamp", "system_time"),
        row=row,
        to_arrow=to_arrow(row, schema),
        from_dict=from_dict(row),
        repeating=OF_HISTORIES | frozenset(few),
    )


def to_arrow(kind: type[Any], schema: pa.Schema, *, json: Collection[str] = ()) -> ToArrow:
    """What makes rows of one class a table, column by column; the other way is `from_dict`.

    Args:
        json: columns whose values are JSON values in a row and their text in the table.
    """

    def rows_to_arrow(rows: Iterable[tuple[Any, str, int]]) -> pa.Table:
        given = list(rows)
        if not given:
            return schema.empty_table()
        made, domains, partitions = zip(*given, strict=True)
        columns: dict[str, Any] = dict(zip(kind._fields, zip(*made, strict=True), strict=True))
        columns |= {"domain": domains, "journal_partition": partitions}
        return pa.table([_column(field, columns[field.name], json) for field in schema], schema=schema)

    return rows_to_arrow


def _column(field: pa.Field, values: Any, json: Collection[str]) -> pa.Array:
    if field.type == TIMESTAMP:
        return microseconds(values)
    return records(values) if field.name in json else pa.array(values, field.type)


def from_dict(kind: type[Any], *, json: Collection[str] = ()) -> FromDict:
    """What makes a table row (as `Table.query` gives it) a row of one class.

    Args:
        json: as of `to_arrow`.
    """

    def row_from_dict(row: Mapping[str, Any]) -> Any:
        return kind._make(_value(name, row[name], json) for name in kind._fields)

    return row_from_dict


def _value(name: str, value: Any, json: Collection[str]) -> Any:
    if isinstance(value, datetime):
        return milliseconds(value)
    return orjson.loads(value) if name in json and value is not None else value
