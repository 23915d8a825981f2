"""One version of a table, asked as an open table is (`lake.table`): for who looks rows up and writes none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from .. import scan
from ..lookup import possible_files
from .table import MarkedView
from .views import View


class ViewedTable:
    """A version of a table.

    Args:
        view: of it.
    """

    def __init__(self, view: MarkedView) -> None:
        self.readable = view
        self.name = view.name
        self.schema = view.schema

    def sql(self, statement: str, among: Mapping[str, Sequence[Any]] | None = None) -> pa.Table:
        """Run one SQL statement over this table, under its own name.

        Args:
            among: values by column that the rows which are asked for have: files that cannot hold any are left out.
        Returns:
            Columns of the table in its types, others as they come.
        Raises:
            DamagedTableError, StaleReadError: a file of it cannot be read.
        """
        paths = possible_files(self.readable, among or {})
        with scan.cursor() as cursor:
            rows: Any = scan.source(cursor, self.readable, paths) if paths else "lake_nothing"
            if not paths:
                cursor.register(rows, self.schema.empty_table())
            table = cursor.sql(f"with {self.name} as (select * from {rows}) {statement}").to_arrow_table()
        typed = [
            self.schema.field(field.name) if field.name in self.schema.names else field for field in table.schema
        ]  # fmt: skip
        return table.cast(pa.schema(typed))

    def query(self, select: str, where: str, among: Mapping[str, Sequence[Any]] | None = None) -> list[dict[str, Any]]:
        """Rows of this table, as dicts.

        Args:
            select: columns, as SQL.
            where: condition, as SQL; callers put only values of restricted alphabets or `quoted` ones into it.
            among: as of `sql`.
        """
        rows: list[dict[str, Any]] = self.sql(f"select {select} from {self.name} where {where}", among).to_pylist(
            maps_as_pydicts="strict"
        )
        return rows


def viewed(view: View) -> dict[str, ViewedTable]:
    """The tables of a view by name."""
    return {name: ViewedTable(table) for name, table in view.tables.items()}
