"""The orders in which files are given: that of pages, and newest first; and the first rows of many in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

Order = Sequence[tuple[str, str]]


class PageKey(NamedTuple):
    """Place of a file in the order of pages."""

    start_ms: int
    file_where: str
    file_what: str
    file_id: str


BY_START: Final = (
    ("start_ms", "ascending"), ("file_where", "ascending"), ("file_what", "ascending"), ("file_id", "ascending"),
    ("logical_timestamp", "descending"),
)  # fmt: skip
"""Of one key the newest first."""
NEWEST_FIRST: Final = (
    ("start_ms", "descending"), ("created_ms", "descending"), ("file_id", "descending"),
    ("logical_timestamp", "descending"),
)  # fmt: skip


def behind(rows: pa.Table, after: PageKey) -> pa.Array:
    """Which rows come behind a key."""
    is_behind = pa.repeat(pa.scalar(False), rows.num_rows)
    for column, value in zip(reversed(PageKey._fields), reversed(after), strict=True):
        is_behind = pc.or_(pc.greater(rows[column], value), pc.and_(pc.equal(rows[column], value), is_behind))
    return is_behind


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
