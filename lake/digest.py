"""One number for what a table holds, whatever files it stands in and in whatever order.

The digest of a table is the sum of the digests of its rows, so it depends on every column of every row and on nothing
else: not on files, compactions, row groups or the order of a map's entries. It serves to show that a rebuild gives the
same table; it is no protection against somebody who forges rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

import pyarrow as pa

from . import scan
from .views.table import Readable, frozen

PartitionKey = tuple[str, int]
_HALF: Final = 0xFFFF_FFFF_FFFF_FFFF
_SWAPS: Final = ((8, 0x00FF_00FF_00FF_00FF), (16, 0x0000_FFFF_0000_FFFF), (32, 0xFFFF_FFFF))
"""By how many bits neighbours change places, and the right ones of them."""


def table_digest(
    table: Readable,
    below_marks: Mapping[PartitionKey, int],
    engine: Callable[[], AbstractContextManager[scan.Cursor]] = scan.cursor,
) -> str:
    """The digest of a table's rows that stand below the marks.

    Args:
        table: a view of it, or a handle (`Table.delta`), whose version is the one that is read.
        below_marks: next position per (journal topic, partition), as the journal table has them; rows of a partition
            that is not named do not count.
        engine: what computes it.
    Returns:
        64 hexadecimal digits; equal for equal rows, also of tables with differing files. A row that is there twice
        counts twice.
    """
    table = frozen(table)
    schema = table.schema
    paths = scan.live_files(table)["path"].to_pylist()
    count = lower = upper = 0
    if paths and below_marks:
        row = ", ".join(part for field in schema for part in _parts(f'"{field.name}"', field.type))
        swapped, halves = _swapped("halves", "upper", "lower")
        with engine() as cursor:
            rows = scan.source(cursor, table, paths)
            sums = cursor.execute(
                f"""
                with hashed as (
                    select md5_number(concat({row})) as hash from {rows} where {below(schema, below_marks)}
                ),
                halves as (
                    select (hash & {_HALF}::uhugeint)::ubigint as upper, (hash >> 64::uhugeint)::ubigint as lower
                    from hashed
                ),
                {swapped}
                select count(*), coalesce(sum(upper::hugeint), 0), coalesce(sum(lower::hugeint), 0) from {halves}
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


def _swapped(source: str, *columns: str) -> tuple[str, str]:
    """SQL that turns numbers of 64 bits round byte by byte, and its name: duckdb gives a hash as if its first byte were
    the least, and to ask for it in hexadecimal digits costs four times more."""
    steps = []
    for bits, mask in _SWAPS:
        turned = ", ".join(
            f"(({one} & {mask}::ubigint) << {bits}) | (({one} >> {bits}) & {mask}::ubigint) as {one}" for one in columns
        )
        steps.append(f"by_{bits} as (select {turned} from {source})")
        source = f"by_{bits}"
    return ", ".join(steps), source


def _text(value: str, kind: pa.DataType) -> str:
    """SQL for a text of a value that no other value has: lengths in front, '-' for null."""
    return f"concat({', '.join(_parts(value, kind))})"


def _parts(value: str, kind: pa.DataType) -> tuple[str, ...]:
    """SQL for texts that are that text one behind the other, of which some may be null: a row is put together once."""
    if pa.types.is_map(kind):
        value = f"to_json({_in_order(value)})"  # of texts alone; half the price of a lambda
    elif pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        value = f"to_json({value})"
    elif pa.types.is_list(kind):
        items = f"list_transform({value}, lambda item: {_text('item', kind.value_type)})"
        return (f"coalesce(len({value}) || '[' || array_to_string({items}, ''), '-')",)
    if pa.types.is_struct(kind):
        inner = " || ".join(_text(f"({value}).{field.name}", field.type) for field in kind)
        return (f"case when {value} is null then '-' else '(' || {inner} end",)
    if pa.types.is_timestamp(kind):
        value = f"epoch_us({value})"
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        value = f"md5({value})"  # not hex: payloads may be large
    return f"coalesce(strlen({value}::varchar) || ':', '-')", f"{value}::varchar"


def _in_order(value: str) -> str:
    """SQL for a map whose keys ascend; they do where metajournal wrote it, and to see that costs less than to sort."""
    keys = f"map_keys({value})"
    return (
        f"case when list_sort({keys}) = {keys} then {value} else map_from_entries(list_sort(map_entries({value}))) end"
    )
