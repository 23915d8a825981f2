"""Reads a database with SQLAlchemy's inspector, schema by schema and in bulk: one query for all columns, one for keys.

What the dialect does not provide (comments, keys) is missing, without an error. A broken connection ends the read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.engine.reflection import Inspector, ObjectKind, ObjectScope
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from .reflected import MATERIALIZED_VIEW, TABLE, VIEW, Column, ForeignKey, Table, Unread

_NO_COLUMNS: Final = "its columns cannot be read"

OWN: Final = frozenset({"information_schema", "pg_catalog", "performance_schema", "mysql", "sys"})
"""Schemas in which databases describe themselves."""
_POSTGRES: Final = "postgresql"
Wanted = Callable[[str], bool]


def connected(engine: Engine) -> Connection:
    """A connection that reads one snapshot of the database, if the dialect can do that."""
    connection = engine.connect()
    if engine.dialect.name == _POSTGRES:
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        connection = connection.execution_options(**options)
        # So that the text of a view names the schema of each table in it.
        connection.execute(text("set search_path to ''"))
    return connection


def schemas_of(connection: Connection) -> list[str]:
    """The schemas of users, sorted."""
    return sorted(set(inspect(connection).get_schema_names()) - OWN)


def tables_of(connection: Connection, schema: str, wanted: Wanted) -> Iterator[Table | Unread]:
    """The tables and views of a schema.

    Args:
        wanted: whether to read a table, by its name.
    Raises:
        sqlalchemy.exc.DBAPIError: the connection broke.
    """
    inspector = inspect(connection)
    dialect = connection.dialect.name
    kinds = dict.fromkeys(inspector.get_table_names(schema), TABLE)
    kinds |= dict.fromkeys(inspector.get_view_names(schema), VIEW)
    kinds |= dict.fromkeys(
        _optional(connection, partial(inspector.get_materialized_view_names, schema), []), MATERIALIZED_VIEW
    )
    if dialect == "sqlite":
        kinds = {name: kind for name, kind in kinds.items() if not name.startswith("sqlite_")}
    names = sorted(filter(wanted, kinds))
    if not names:
        return
    # A list of names makes the question longer; it is left out where all are asked for.
    asked: dict[str, Any] = {"schema": schema, "kind": ObjectKind.ANY, "scope": ObjectScope.DEFAULT}
    if len(names) < len(kinds):
        asked["filter_names"] = names
    columns = _columns(inspector, schema, names, asked)
    if not columns:
        yield from (Unread(f"{schema}.{name}", _NO_COLUMNS) for name in names)
        return
    if len(columns) < len(names):  # what is broken is not asked for anything else
        asked["filter_names"] = [*columns]
    primary = _of_names(_optional(connection, partial(inspector.get_multi_pk_constraint, **asked), {}))
    foreign = _of_names(_optional(connection, partial(inspector.get_multi_foreign_keys, **asked), {}))
    comments = _of_names(_optional(connection, partial(inspector.get_multi_table_comment, **asked), {}))
    views = {name for name in names if kinds[name] != TABLE}
    definitions = _definitions(connection, inspector, schema, views) if views else {}
    typed = _Types(connection.dialect)
    for name in names:
        if name not in columns:
            yield Unread(f"{schema}.{name}", _NO_COLUMNS)
            continue
        yield Table(
            schema,
            name,
            kinds[name],
            tuple(Column(one["name"], typed(one["type"]), one.get("comment") or None) for one in columns[name]),
            (comments.get(name) or {}).get("text") or None,
            tuple((primary.get(name) or {}).get("constrained_columns") or ()),
            tuple(
                ForeignKey(
                    tuple(key["constrained_columns"]), key.get("referred_schema") or schema, key["referred_table"],
                    tuple(key.get("referred_columns") or ()),
                )
                for key in foreign.get(name) or ()
            ),
            definitions.get(name),
        )  # fmt: skip


def _columns(inspector: Inspector, schema: str, names: Sequence[str], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of tables and views by name, without those of what cannot be read: a view of a table that is gone.

    Raises:
        sqlalchemy.exc.DBAPIError: the connection broke.
    """
    try:
        return _of_names(inspector.get_multi_columns(**asked))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
    found = {}
    for name in names:
        try:
            found[name] = inspector.get_columns(name, schema)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
        except SQLAlchemyError:
            continue
    return found


def _definitions(connection: Connection, inspector: Inspector, schema: str, views: Collection[str]) -> dict[str, str]:
    found = {}
    for name in views:
        sql = _optional(connection, partial(inspector.get_view_definition, name, schema), None)
        if sql:
            found[name] = str(sql)
    return found


def _optional(connection: Connection, ask: Callable[[], Any], otherwise: Any) -> Any:
    """A result that not every database provides. Raises: sqlalchemy.exc.DBAPIError: the connection broke."""
    try:
        return ask()
    except NotImplementedError:
        return otherwise
    except DBAPIError as error:
        if error.connection_invalidated or connection.dialect.name == "sqlite":
            raise  # it knows all that is asked, so that is a failure and not an answer
        return otherwise
    except SQLAlchemyError:
        return otherwise


def _of_names(multi: Mapping[Any, Any]) -> dict[str, Any]:
    """Results for many tables of one schema, by their names."""
    return {name: said for (_, name), said in multi.items()}


class _Types:
    """Types as the database writes them; each distinct one is rendered once."""

    def __init__(self, dialect: Any) -> None:
        self._dialect = dialect
        self._spelled: dict[tuple[type, str], str] = {}

    def __call__(self, kind: Any) -> str:
        key = type(kind), str(kind.__dict__)
        found = self._spelled.get(key)
        if found is None:
            found = self._spelled[key] = self._spell(kind)
        return found

    def _spell(self, kind: Any) -> str:
        try:
            return str(kind.compile(dialect=self._dialect)).lower()
        except Exception:  # also what a type makes of arguments that it does not have: VARCHAR(10, 2)
            name = type(kind).__name__
            return "unknown" if name == "NullType" else name.lower()
