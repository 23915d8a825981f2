"""Columns with nested ones, as every format has them, and what a `Found` says of them.

A nested column is named by its path, `address.city`; of a list the part is `element`, of a map `key` and `value`, as
in Parquet and Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from .found import Schema

ELEMENT: Final = "element"
KEY: Final = "key"
VALUE: Final = "value"
MAX_DEPTH: Final = 32
"""Maximum depth of nested columns; deeper ones are left out."""


class Column(NamedTuple):
    """A column.

    Attributes:
        type: in its format's words; that of a nested one names its kind alone, `struct`.
        comment: what its system says of it; None: nothing.
        children: the columns nested in it.
    """

    name: str
    type: str
    comment: str | None = None
    children: tuple[Column, ...] = ()


def schema_of(columns: Iterable[Column]) -> Schema:
    """(name, type) of each column and of those nested in it, which follow it."""
    return tuple((name, column.type or "unknown") for name, column in _walked(columns, "", 0))


def comments_of(columns: Iterable[Column]) -> dict[str, str]:
    """A property for each comment, `comment.<name of the column>`."""
    return {f"comment.{name}": column.comment for name, column in _walked(columns, "", 0) if column.comment}


def _walked(columns: Iterable[Column], path: str, depth: int) -> Iterator[tuple[str, Column]]:
    for column in columns:
        name = f"{path}{column.name}"
        yield name, column
        if depth < MAX_DEPTH:
            yield from _walked(column.children, f"{name}.", depth + 1)
