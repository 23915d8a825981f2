"""What a database says about its tables and views: values, independent of the reader."""

from __future__ import annotations

from typing import NamedTuple

TABLE = "table"
VIEW = "view"
MATERIALIZED_VIEW = "materialized view"


class Column(NamedTuple):
    """A column; its type as the database writes it."""

    name: str
    type: str
    comment: str | None = None


class ForeignKey(NamedTuple):
    """Columns that reference another table's key."""

    columns: tuple[str, ...]
    schema: str | None
    table: str
    referred: tuple[str, ...]


class Table(NamedTuple):
    """A table or view.

    Attributes:
        schema: its schema; None if the database has none.
        kind: `table`, `view` or `materialized view`.
        definition: SQL of a view; None: not known.
        unread: which of the fields could not be read.
    """

    schema: str | None
    name: str
    kind: str
    columns: tuple[Column, ...]
    comment: str | None = None
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    definition: str | None = None
    unread: frozenset[str] = frozenset()


class Unread(NamedTuple):
    """A schema or table that could not be read, or not completely, and why."""

    name: str
    why: str
