"""Reads a database with SQLAlchemy's inspector, schema by schema and in bulk: one query for all columns, one for keys.

What the dialect does not provide (comments, keys) is missing, without an error. What it provides and cannot be read is
told, and the table says which of its fields are not known. A broken connection ends the read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.engine.reflection import Inspector, ObjectKind, ObjectScope
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from .reflected import MATERIALIZED_VIEW, TABLE, VIEW, Column, ForeignKey, Table, Unread

_NO_COLUMNS: Final = "its columns cannot be read"

OWN: Final = frozenset({"information_schema", "pg_catalog", "performance_schema", "mysql", "sys"})
"""Schemas in which databases describe themselves."""
_POSTGRES: Final = "postgresql"
Wanted = Callable[[str], bool]
_IN_WORDS: Final = {
    "primary_key": "its primary keys", "foreign_keys": "its foreign keys", "comment": "the comments of its tables",
}  # fmt: skip
"""Fields of `Table` that are asked for a whole schema, for people."""
_REASON_CHARS: Final = 200


class _Answer(NamedTuple):
    """What the database says of something; why it does not, if that is a failure."""

    value: Any
    why: str | None = None


def connected(engine: Engine) -> Connection:
    """A connection that reads one snapshot of the database, if the dialect can do that."""
    connection = engine.connect()
    if engine.dialect.name == _POSTGRES:
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        connection = connection.execution_options(**options)
        # So that the text of a view names the schema of each table in it.
        connection.execute(text("set search_path to ''"))
        connection.commit()  # or a rollback would take it back; the snapshot is that of the next question
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
    listed = _optional(connection, partial(inspector.get_materialized_view_names, schema), [])
    if listed.why is not None:
        yield Unread(schema, f"its materialized views cannot be listed: {listed.why}")
    kinds |= dict.fromkeys(listed.value, MATERIALIZED_VIEW)
    if dialect == "sqlite":
        kinds = {name: kind for name, kind in kinds.items() if not name.startswith("sqlite_")}
    names = sorted(filter(wanted, kinds))
    if not names:
        return
    # A list of names makes the question longer; it is left out where all are asked for.
    asked: dict[str, Any] = {"schema": schema, "kind": ObjectKind.ANY, "scope": ObjectScope.DEFAULT}
    if len(names) < len(kinds):
        asked["filter_names"] = names
    if listed.why is not None:
        asked["kind"] = ObjectKind.TABLE | ObjectKind.VIEW  # or each question would list what cannot be listed
    read = _columns(connection, inspector, schema, names, asked)
    columns = {name: read[name] for name in names if name in read}
    if not columns:
        yield from (Unread(f"{schema}.{name}", _NO_COLUMNS) for name in names)
        return
    if len(columns) < len(names):  # what is broken is not asked for anything else
        asked["filter_names"] = [*columns]
    answers = _of_schema(connection, inspector, asked)
    yield from (
        Unread(schema, f"{_IN_WORDS[field]} cannot be read: {answer.why}")
        for field, answer in answers.items()
        if answer.why is not None
    )
    primary, foreign, comments = (_of_names(answer.value) for answer in answers.values())
    missing = {field for field, answer in answers.items() if answer.why is not None}
    definitions = _definitions(connection, inspector, schema, [name for name in columns if kinds[name] != TABLE])
    yield from (
        Unread(f"{schema}.{name}", f"its definition cannot be read: {answer.why}")
        for name, answer in sorted(definitions.items())
        if answer.why is not None
    )
    typed = _Types(connection.dialect)
    for name in names:
        if name not in columns:
            yield Unread(f"{schema}.{name}", _NO_COLUMNS)
            continue
        definition = definitions.get(name, _Answer(None))
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
            definition.value,
            frozenset({*missing, *(["definition"] if definition.why is not None else [])}),
        )  # fmt: skip


def _columns(
    connection: Connection, inspector: Inspector, schema: str, names: Sequence[str], asked: Mapping[str, Any]
) -> dict[str, Any]:
    """The columns of tables and views by name, without those of what cannot be read: a view of a table that is gone.

    Raises:
        sqlalchemy.exc.DBAPIError: the connection broke.
    """
    try:
        return _of_names(inspector.get_multi_columns(**asked))
    except DBAPIError as error:
        _go_on_after(connection, error)
    found = {}
    for name in names:
        try:
            found[name] = inspector.get_columns(name, schema)
        except DBAPIError as error:
            _go_on_after(connection, error)
        except SQLAlchemyError:
            continue
    return found


def _of_schema(connection: Connection, inspector: Inspector, asked: Mapping[str, Any]) -> dict[str, _Answer]:
    """What is asked for a whole schema at once, by field of `Table`; each answer by table."""
    questions = {
        "primary_key": inspector.get_multi_pk_constraint,
        "foreign_keys": inspector.get_multi_foreign_keys,
        "comment": inspector.get_multi_table_comment,
    }
    return {field: _optional(connection, partial(ask, **asked), {}) for field, ask in questions.items()}


def _definitions(
    connection: Connection, inspector: Inspector, schema: str, views: Collection[str]
) -> dict[str, _Answer]:
    found = {}
    for name in views:
        answer = _optional(connection, partial(inspector.get_view_definition, name, schema), None)
        found[name] = answer._replace(value=str(answer.value) if answer.value else None)
    return found


def _optional(connection: Connection, ask: Callable[[], Any], otherwise: Any) -> _Answer:
    """A result that not every database provides.

    Only what the dialect says it does not provide is absent. Any other error leaves open what there is: a refused user,
    a time-out, and of some dialects a question that the database does not know.

    Raises:
        sqlalchemy.exc.DBAPIError: the connection broke.
    """
    try:
        return _Answer(ask())
    except NotImplementedError:
        return _Answer(otherwise)
    except DBAPIError as error:
        if connection.dialect.name == "sqlite":
            raise  # it knows all that is asked, so the file itself cannot be read
        _go_on_after(connection, error)
        return _Answer(otherwise, _reason(error))
    except SQLAlchemyError as error:
        return _Answer(otherwise, _reason(error))


def _go_on_after(connection: Connection, error: DBAPIError) -> None:
    """Make further questions possible: some databases refuse them until a failed transaction is over.

    Raises:
        sqlalchemy.exc.DBAPIError: the connection broke.
    """
    if error.connection_invalidated:
        raise error
    connection.rollback()


def _reason(error: Exception) -> str:
    words = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    return words[:_REASON_CHARS] or type(error).__name__


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
