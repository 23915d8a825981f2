"""Reads a DuckDB file by its own catalog functions: SQLAlchemy's inspector needs catalogs that DuckDB lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .inspecting import Wanted
from .reflected import TABLE, VIEW, Column, ForeignKey, Table

_OWN = "database_name = current_database() and not internal"


def schemas_of(connection: Any) -> list[str]:
    """The schemas of users, sorted; `main` always exists."""
    rows = connection.execute(
        "select schema_name from duckdb_schemas() where database_name = current_database()"
        " and (not internal or schema_name = 'main') order by 1"
    ).fetchall()
    return [name for (name,) in rows if name not in ("information_schema", "pg_catalog")]


def database_of(connection: Any) -> str:
    """DuckDB's name of the file."""
    return str(connection.execute("select current_database()").fetchone()[0])


def tables_of(connection: Any, schema: str, wanted: Wanted) -> Iterator[Table]:
    """The tables and views of a schema, as `inspecting.tables_of` gives them."""
    said = {}
    for name, comment in _rows(connection, "table_name, comment", "duckdb_tables()", schema):
        said[name] = TABLE, comment, None
    for name, comment, sql in _rows(connection, "view_name, comment, sql", "duckdb_views()", schema):
        said[name] = VIEW, comment, sql
    columns = defaultdict(list)
    of_column = "table_name, column_name, data_type, comment"
    for name, column, kind, comment in _rows(connection, of_column, "duckdb_columns()", schema, "column_index"):
        columns[name].append(Column(column, str(kind).lower(), comment or None))
    primary: dict[str, tuple[str, ...]] = {}
    foreign = defaultdict(list)
    of_key = "table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names"
    own = "database_name = current_database()"
    for name, kind, own_columns, table, referred in _rows(
        connection, of_key, "duckdb_constraints()", schema, where=own
    ):
        if kind == "PRIMARY KEY":
            primary[name] = tuple(own_columns)
        elif kind == "FOREIGN KEY":
            foreign[name].append(ForeignKey(tuple(own_columns), schema, table, tuple(referred)))
    for name in sorted(filter(wanted, said)):
        kind, comment, sql = said[name]
        keys = tuple(sorted(foreign[name]))
        yield Table(schema, name, kind, tuple(columns[name]), comment or None, primary.get(name, ()), keys, sql)


def _rows(connection: Any, what: str, source: str, schema: str, order: str = "", where: str = _OWN) -> list[Any]:
    by = f" order by {order}" if order else ""
    rows: list[Any] = connection.execute(
        f"select {what} from {source} where {where} and schema_name = ?{by}", [schema]
    ).fetchall()
    return rows
