"""The orders in which files are given: that of pages, and newest first; and the first rows of many in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Key = tuple[int, str, str, str]
"""Place in the order of pages: start in milliseconds, where, what, id."""
Order = Sequence[tuple[str, str]]

BY_START: Final = (
    ("start_ms", "ascending"), ("file_where", "ascending"), ("file_what", "ascending"), ("file_id", "ascending"),
    ("logical_timestamp", "descending"),
)  # fmt: skip
"""Of one key the newest first."""
NEWEST_FIRST: Final = (
    ("start_ms", "descending"), ("created_ms", "descending"), ("file_id", "descending"),
    ("logical_timestamp", "descending"),
)  # fmt: skip


def behind(rows: pa.Table, after: Key) -> pa.Array:
    """Which rows come behind a key."""
    found = pa.repeat(pa.scalar(False), rows.num_rows)
    for column, value in zip(("file_id", "file_what", "file_where", "start_ms"), reversed(after), strict=True):
        found = pc.or_(pc.greater(rows[column], value), pc.and_(pc.equal(rows[column], value), found))
    return found


def first_of(tables: Sequence[pa.Table], order: Order, count: int) -> pa.Table:
    """The first rows of some tables in an order that begins with the start."""
    rows = pa.concat_tables(tables)
    if rows.num_rows > count:  # all that begin no later than the last of these: fewer rows to sort
        (column, way), *_ = order
        starts = rows[column].take(pc.select_k_unstable(rows, count, [(column, way)]))
        near, last = (pc.less_equal, pc.max(starts)) if way == "ascending" else (pc.greater_equal, pc.min(starts))
        rows = rows.filter(near(rows[column], last))
    return rows.take(pc.sort_indices(rows, list(order))[:count])


def tuples_of(rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    """The rows of a table, each as a tuple."""
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)
