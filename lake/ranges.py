"""Rows of one journal partition between two positions, in position order, of any table.

Files that hold nothing of a range are left out by the statistics in the table's log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from . import scan
from .table import quoted
from .views.table import Readable, frozen

PartitionKey = tuple[str, int]
_ORDER: Final = "order by logical_timestamp, seq"
_WEIGHED: Final = 16
"""Bytes of a row besides those of its binary columns, as they are counted."""


def rows_between(
    table: Readable,
    key: PartitionKey,
    start: int,
    end: int,
    columns: Sequence[str],
    among: Mapping[str, Sequence[Any]] | None = None,
    between: Mapping[str, tuple[Any, Any]] | None = None,
    keys: pa.Table | None = None,
) -> pa.Table:
    """Rows of one journal partition from one position to below another, by position and sequence.

    Args:
        table: a view of it, or a handle, whose version is the one that is read.
        columns: of the table.
        among: only rows with one of the values (texts or whole numbers) in each of these columns.
        between: only rows with a value between two, both included, in each of these columns.
        keys: only rows with one of these keys, in the columns of these names.
    Returns:
        The columns, in their types.
    """
    table = frozen(table)
    whole = table.schema
    schema = pa.schema([whole.field(name) for name in columns])
    paths = paths_between(table, key, start, end, among, _spans(between, keys))
    if not paths:
        return schema.empty_table()
    order = _ORDER if "seq" in whole.names else "order by logical_timestamp"
    where = _where(whole, key, start, end)
    for name, values in (among or {}).items():
        where += f" and {name} in ({', '.join(map(literal, values))})"
    for name, (low, high) in (between or {}).items():
        where += f" and {name} between {literal(low)} and {literal(high)}"
    with scan.cursor() as cursor:
        source = scan.source(cursor, table, paths)
        if keys is not None:
            cursor.register("lake_keys", keys)
            source += f" semi join lake_keys using ({', '.join(keys.column_names)})"
        rows = cursor.sql(f"select {', '.join(columns)} from {source} where {where} {order}").to_arrow_table()
    return rows.cast(schema)


def _spans(between: Mapping[str, tuple[Any, Any]] | None, keys: pa.Table | None) -> dict[str, tuple[Any, Any]]:
    """Between which values of each column all rows lie that are asked for."""
    spans = dict(between or {})
    if keys is not None and keys.num_rows:
        for name in keys.column_names:
            spans.setdefault(name, (pc.min(keys[name]).as_py(), pc.max(keys[name]).as_py()))
    return spans


def literal(value: Any) -> str:
    """A text or a whole number as SQL."""
    return str(int(value)) if isinstance(value, int) else quoted(value)


def newest_below(table: Readable, key: PartitionKey, end: int, keys: pa.Table) -> pa.Table:
    """The newest row of each of some keys among the rows of one journal partition below a position.

    Args:
        table: a view of it, or a handle, whose version is the one that is read.
        keys: key columns of the table, by their names; the first of texts finds the files.
    Returns:
        Whole rows in the table's columns and types, at most one a key, in no order.
    """
    table = frozen(table)
    schema = table.schema
    named = keys.column_names
    among = {name: pc.unique(keys[name]).to_pylist() for name in named if pa.types.is_string(keys[name].type)}
    paths = paths_between(table, key, 0, end, among) if keys.num_rows else []
    if not paths:
        return schema.empty_table()
    with scan.cursor() as cursor:
        cursor.register("lake_keys", keys)
        source = scan.source(cursor, table, paths)
        statement = f"""
            select {", ".join(schema.names)} from {source} semi join lake_keys using ({", ".join(named)})
            where {_where(schema, key, 0, end)}
            qualify row_number() over (partition by {", ".join(named)} order by logical_timestamp desc, seq desc) = 1
        """
        return cursor.sql(statement).to_arrow_table().cast(schema)


def weights(
    table: Readable,
    key: PartitionKey,
    start: int,
    end: int,
    columns: Sequence[str],
    most: int,
    texts: Collection[str] = (),
) -> pa.Table:
    """How much stands at the first positions of a range.

    Args:
        columns: those that will be read; of binary ones the bytes are counted.
        most: positions.
        texts: those of the columns whose texts may be long, so that their bytes are counted, too.
    Returns:
        `place` (int64, ascending), `rows` and `bytes` (int64) of each.
    """
    table = frozen(table)
    whole = table.schema
    paths = paths_between(table, key, start, end)
    empty = pa.schema([("place", pa.int64()), ("rows", pa.int64()), ("bytes", pa.int64())])
    if not paths:
        return empty.empty_table()
    large = [name for name in columns if pa.types.is_binary(whole.field(name).type)]
    sizes = [f"coalesce(octet_length({name}), 0)" for name in large]
    sizes += [f"coalesce(strlen({name}), 0)" for name in columns if name in texts]
    size = " + ".join([str(_WEIGHED), *sizes])
    with scan.cursor() as cursor:
        source = scan.source(cursor, table, paths)
        statement = f"""
            select logical_timestamp as place, count(*) as rows, sum({size})::bigint as bytes
            from {source} where {_where(whole, key, start, end)}
            group by logical_timestamp order by logical_timestamp limit {int(most)}
        """
        return cursor.sql(statement).to_arrow_table().cast(empty)


def _where(schema: pa.Schema, key: PartitionKey, start: int, end: int) -> str:
    topic, partition = key
    of = ("topic", topic) if "topic" in schema.names else ("domain", topic.rpartition(".journal.")[2])
    place = f"logical_timestamp >= {int(start)} and logical_timestamp < {int(end)}"
    return f"{of[0]} = {quoted(of[1])} and journal_partition = {int(partition)} and {place}"


def paths_between(
    table: Readable,
    key: PartitionKey,
    start: int,
    end: int,
    among: Mapping[str, Sequence[Any]] | None = None,
    between: Mapping[str, tuple[Any, Any]] | None = None,
) -> list[str]:
    """The files that can hold rows of a range, relative to the table's folder and in URL form.

    Args:
        among: only those that can hold one of the values in each of these columns.
        between: only those that can hold a value between two in each of these columns.
    """
    some = among or {}
    if start >= end or not all(some.values()):
        return []
    wanted = {
        "journal_partition": (key[1], key[1]),
        "logical_timestamp": (start, end - 1),
        **(between or {}),
        **{name: (min(values), max(values)) for name, values in some.items()},
    }
    return [
        file["path"]
        for file in frozen(table).listed
        if all(_within(file, name, low, high) for name, (low, high) in wanted.items())
    ]


def _within(file: Mapping[str, Any], name: str, low: Any, high: Any) -> bool:
    """Whether a column of a file can hold a value from low to high."""
    least, greatest = file.get(f"min.{name}"), file.get(f"max.{name}")
    return (least is None or least <= high) and (greatest is None or greatest >= low)
