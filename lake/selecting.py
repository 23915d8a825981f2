"""Statements over the rows of a table that have some values in its key columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import scan
from .lookup import possible_files
from .table import quoted
from .views.views import View


def select_rows(view: View, name: str, key: Mapping[str, str | Sequence[str]], statement: str) -> list[Any]:
    """Rows of a statement over those of a table that have one of the values in each column of a key.

    Args:
        key: a value or several by column, those that the table is sorted by first; it finds the files to read.
        statement: SQL over `rows`.
    """
    several = {column: [values] if isinstance(values, str) else list(values) for column, values in key.items()}
    table = view.tables[name]
    paths = possible_files(table, several)
    if not paths:
        return []
    with scan.cursor() as cursor:
        source = scan.source(cursor, table, paths)
        where = " and ".join(f"{column} in ({', '.join(map(quoted, some))})" for column, some in several.items())
        selected: list[Any] = cursor.sql(
            f"with rows as not materialized (select * from {source} where {where}) {_joinable(statement)}"
        ).fetchall()
        return selected


def _joinable(statement: str) -> str:
    """A statement behind another `with`."""
    stripped = statement.strip()
    return f", {stripped.removeprefix('with ')}" if stripped.startswith("with ") else stripped
