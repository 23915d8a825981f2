"""The newest row of many keys at once, in any process that knows where the table is.

Files that cannot hold a key are left out by the statistics in the table's log, row groups by those in the files; what
is left is read in columns, first the keys alone and then the whole of the rows that were found. So few keys cost a
few row groups and very many one pass over the table. Cutting at a mark is the caller's: it gives the position.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import scan
from .views.table import Readable, frozen

PARTITION, BELOW = "key_partition", "key_below"
"""Columns of looked-up keys: the journal partition, and where its rows are cut."""
_FEW_KEYS = 5_000
_FEW_FILES = 256


def newest_rows_below(table: Readable, keys: pa.Table) -> pa.Table:
    """The newest row of each key, of those below a position of its journal partition: one pass for all.

    Args:
        table: a view of it, or a handle, whose version is the one that is read.
        keys: one column for each key column of the table (`entities`: tenant, urn; both text), then PARTITION (int32),
            the number of the journal partition that the key's aggregate belongs to, and BELOW (int64): rows at this
            logical_timestamp and above are not seen. Repeated keys count once; those two are the same in each.
    Returns:
        The table's columns in their order and types, at most one row a key, in no order. Keys without a row are
        not in it; a deleted entity's newest row is (its `deleted` is true).
    """
    table = frozen(table)
    schema = table.schema
    if not table.files.num_rows:
        return schema.empty_table()
    names = [name for name in keys.column_names if name not in (PARTITION, BELOW)]
    partitions, below = pc.unique(keys[PARTITION]).to_pylist(), pc.max(keys[BELOW]).as_py()
    only = partitions[0] if len(partitions) == 1 else None
    paths = _paths(table, keys.select(names), only, below) if partitions else []
    if not paths:
        return schema.empty_table()
    same = " and ".join(f"lake_rows.{name} = newest.{name}" for name in names)
    with scan.cursor() as cursor:
        cursor.register("lake_keys", keys)
        rows = scan.source(cursor, table, paths)
        statement = f"""
            with lake_rows as not materialized (select * from {rows}),
            newest as (
                select {", ".join(names)}, max((logical_timestamp, seq)) as place
                from lake_rows join (select distinct * from lake_keys) using ({", ".join(names)})
                where journal_partition = {PARTITION} and logical_timestamp < {BELOW}
                group by all
            )
            select {", ".join(f"lake_rows.{name}" for name in schema.names)} from lake_rows semi join newest
            on {same} and lake_rows.logical_timestamp = newest.place[1] and lake_rows.seq = newest.place[2]
        """
        return cursor.sql(statement).to_arrow_table().cast(schema)


def keys_with_rows(table: Readable, keys: pa.Table, partition: int, below: int) -> pa.Table:
    """Those of some keys that have a row: as `newest_rows_below` would find one, without reading any."""
    table = frozen(table)
    paths = _paths(table, keys, partition, below) if keys.num_rows else []
    if not paths:
        return keys.slice(0, 0)
    with scan.cursor() as cursor:
        cursor.register("lake_keys", keys)
        named = ", ".join(keys.column_names)
        statement = f"""
            select distinct {named} from {scan.source(cursor, table, paths)} semi join lake_keys using ({named})
            where journal_partition = {partition:d} and logical_timestamp < {below:d}
        """
        return cursor.sql(statement).to_arrow_table().cast(keys.schema)


def rows_of_key(
    table: Readable, key: Mapping[str, Any], rest: str, *, columns: Sequence[str] | None = None
) -> pa.Table:
    """All rows of one key, or those of them that `rest` asks for.

    Args:
        table: a view of it, or a handle, whose version is the one that is read.
        key: a value for each key column, or for others that name the rows: those with statistics leave files out.
        rest: what comes behind the key's own condition, as SQL: `and …`, `order by …`, `limit …`. Callers put only
            numbers into it.
        columns: what is read of the rows; None: all.
    Returns:
        The columns in their order and types.
    """
    table = frozen(table)
    schema = table.schema if columns is None else pa.schema([table.schema.field(name) for name in columns])
    paths = possible_files(table, {name: [value] for name, value in key.items()})
    if not paths:
        return schema.empty_table()
    names = ", ".join(schema.names)
    with scan.cursor() as cursor:
        rows = scan.source(cursor, table, paths)
        condition = " and ".join(f"{name} = ${name}" for name in key)
        result = cursor.sql(f"select {names} from {rows} where {condition} {rest}", params=dict(key))
        return result.to_arrow_table().cast(schema)


def _paths(table: Readable, keys: pa.Table, partition: int | None, below: int | None) -> list[str]:
    """The files that can hold a key, relative to the table's folder and in URL form."""
    view = frozen(table)
    if view.files.num_rows <= _FEW_FILES:  # not in Arrow, whose calls give the interpreter away each time
        listed = [file for file in view.listed if _can_hold(file, partition, below)]
    else:
        listed = view.files.filter(_possible(view.files, partition, below)).to_pylist()
    if keys.num_rows > _FEW_KEYS:
        return [file["path"] for file in listed]
    *outer, last = keys.column_names
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for *group, key in zip(*(keys[name].to_pylist() for name in keys.column_names), strict=True):
        groups.setdefault(tuple(group), []).append(key)
    ordered = {group: sorted(members) for group, members in groups.items()}
    return [
        file["path"]
        for file in listed
        if any(
            _spans(file, outer, group) and _between(members, file.get(f"min.{last}"), file.get(f"max.{last}"))
            for group, members in ordered.items()
        )
    ]


def possible_files(table: Readable, key: Mapping[str, Sequence[Any]]) -> list[str]:
    """The files that can hold rows with one of the values in each column of a key.

    Args:
        key: values by column; a column without statistics leaves nothing out.
    Returns:
        Paths relative to the table's folder and in URL form.
    """
    members = {name: sorted(values) for name, values in key.items()}
    return [
        file["path"]
        for file in frozen(table).listed
        if all(_between(some, file.get(f"min.{name}"), file.get(f"max.{name}")) for name, some in members.items())
    ]


def _can_hold(file: Mapping[str, Any], partition: int | None, below: int | None) -> bool:
    """As `_possible`, of one file."""
    first = file.get("min.logical_timestamp")
    if below is not None and first is not None and first >= below:
        return False
    least, greatest = file.get("min.journal_partition"), file.get("max.journal_partition")
    return partition is None or _between([partition], least, greatest)


def _possible(files: pa.Table, partition: int | None, below: int | None) -> pa.Array:
    """Which files can hold rows of a partition below a position; those that do not say so can."""
    mask = pa.array([True] * files.num_rows, pa.bool_())
    for name, holds, value in (
        ("min.journal_partition", pc.less_equal, partition),
        ("max.journal_partition", pc.greater_equal, partition),
        ("min.logical_timestamp", pc.less, below),
    ):
        if value is not None and name in files.column_names:
            mask = pc.and_(mask, pc.fill_null(holds(files[name], value), True))
    return mask


def _spans(file: Mapping[str, Any], names: list[str], values: tuple[Any, ...]) -> bool:
    """Whether each value lies between the least and the greatest of its column in a file."""
    return all(
        _between([value], file.get(f"min.{name}"), file.get(f"max.{name}"))
        for name, value in zip(names, values, strict=True)
    )


def _between(members: list[Any], least: Any, greatest: Any) -> bool:
    """Whether any member of a sorted list lies in a range; a missing end is open."""
    start = 0 if least is None else bisect_left(members, least)
    return start < len(members) and (greatest is None or members[start] <= greatest)
