"""One number for what a table holds, whatever files it stands in and in whatever order.

The digest of a table is the sum of the digests of its rows, so it depends on every column of every row and on nothing
else: not on files, compactions, row groups or the order of a map's entries. It serves to show that a rebuild gives the
same table; it is no protection against somebody who forges rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pyarrow as pa
from deltalake import DeltaTable

from . import scan

PartitionKey = tuple[str, int]


def table_digest(table: DeltaTable, below_marks: Mapping[PartitionKey, int]) -> str:
    """The digest of a table's rows that stand below the marks.

    Args:
        table: a handle (`Table.delta`); its version is the one that is read.
        below_marks: next position per (journal topic, partition), as the journal table has them; rows of a partition
            that is not named do not count.
    Returns:
        64 hexadecimal digits; equal for equal rows, also of tables with differing files. A row that is there twice
        counts twice.
    """
    schema = pa.schema(table.schema().to_arrow())
    paths = scan.live_files(table)["path"].to_pylist()
    count = lower = upper = 0
    if paths and below_marks:
        row = ", ".join(_text(f'"{field.name}"', field.type) for field in schema)
        with scan.cursor() as cursor:
            rows = scan.source(cursor, table, paths)
            sums = cursor.execute(
                f"""
                with hashed as (select md5(concat({row})) as hash from {rows} where {below(schema, below_marks)})
                select
                    count(*),
                    coalesce(sum(('0x' || substr(hash, 1, 16))::ubigint::hugeint), 0),
                    coalesce(sum(('0x' || substr(hash, 17, 16))::ubigint::hugeint), 0)
                from hashed
                """
            ).fetchone()
            count, upper, lower = map(int, sums)
    return hashlib.blake2b(f"{count}:{upper}:{lower}".encode(), digest_size=32).hexdigest()


def below(schema: pa.Schema, marks: Mapping[PartitionKey, int]) -> str:
    """SQL for the condition of a row below the marks. History tables name the domain, the last part of the topic."""
    parts = []
    for (topic, partition), mark in marks.items():
        column, value = ("topic", topic) if "topic" in schema.names else ("domain", topic.rpartition(".journal.")[2])
        text = value.replace("'", "''")
        parts.append(f"({column} = '{text}' and journal_partition = {partition} and logical_timestamp < {mark})")
    return f"({' or '.join(parts)})"


def _text(value: str, kind: pa.DataType) -> str:
    """SQL for a text of a value that no other value has: lengths in front, '-' for null."""
    if pa.types.is_map(kind):
        value = f"to_json({_in_order(value)})"  # of texts alone; half the price of a lambda
    elif pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        value = f"to_json({value})"
    elif pa.types.is_list(kind):
        items = f"list_transform({value}, lambda item: {_text('item', kind.value_type)})"
        return f"coalesce(len({value}) || '[' || array_to_string({items}, ''), '-')"
    if pa.types.is_struct(kind):
        inner = " || ".join(_text(f"({value}).{field.name}", field.type) for field in kind)
        return f"case when {value} is null then '-' else '(' || {inner} end"
    if pa.types.is_timestamp(kind):
        value = f"epoch_us({value})"
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        value = f"md5({value})"  # not hex: payloads may be large
    return f"coalesce(strlen({value}::varchar) || ':' || {value}::varchar, '-')"


def _in_order(value: str) -> str:
    """SQL for a map whose keys ascend; they do where metajournal wrote it, and to see that costs less than to sort."""
    keys = f"map_keys({value})"
    return (
        f"case when list_sort({keys}) = {keys} then {value} else map_from_entries(list_sort(map_entries({value}))) end"
    )
