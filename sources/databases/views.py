"""What a view reads, from its SQL: the tables, and for each column the columns that it comes from.

With sqlglot's parser. What it cannot parse is missing: first the columns, then the tables; it is never an error.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlglot import exp, parse_one
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope, traverse_scope

DIALECTS: Final[Mapping[str, str]] = {
    "postgresql": "postgres",
    "mssql": "tsql",
    "mariadb": "mysql",
    "cockroachdb": "postgres",
}
"""sqlglot's names for dialects, where SQLAlchemy's differ."""
MOST_SQL: Final = 200_000
MOST_COLUMNS: Final = 300
"""Characters of a definition and columns of a view beyond which the columns are not followed: it would take seconds."""
_PLAIN: Final = re.compile(r"\w+(\.\w+)*")

Name = tuple[str, ...]
"""A table's name in SQL, outermost part first: ("public", "orders")."""
Resolve = Callable[[Name], Name]
"""The whole name of a table that SQL names: its schema and its own name, and before them its database if another."""


class MadeOf(NamedTuple):
    """What a view reads, by full names.

    Attributes:
        columns: of the view's columns those that each comes from, with their tables.
    """

    tables: frozenset[Name] = frozenset()
    columns: Mapping[str, frozenset[tuple[Name, str]]] = {}


def made_of(
    sql: str, dialect: str, names: Sequence[str], resolve: Resolve, columns_of: Callable[[Name], Mapping[str, str]]
) -> MadeOf | None:
    """What a view reads; None if its SQL cannot be parsed.

    Args:
        sql: its definition, `create view` or the query alone.
        dialect: SQLAlchemy's name.
        names: of its columns, in their order.
        columns_of: columns with types of a table; none of one that is not known.
    """
    if len(sql) > MOST_SQL:
        return None
    log = logging.getLogger("sqlglot")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what it cannot read is no news to users
    try:
        dialect = DIALECTS.get(dialect, dialect)
        parsed = parse_one(sql, dialect=dialect)
        query = parsed.expression if isinstance(parsed, exp.Create) else parsed
        if not isinstance(query, exp.Query):
            return None
        tables = _tables(query, resolve)
        return MadeOf(tables, _columns(query, dialect, names, tables, columns_of))
    except Exception:  # any: a parser of strangers' SQL, and nothing depends on it
        return None
    finally:
        log.setLevel(level)


def _tables(query: exp.Query, resolve: Resolve) -> frozenset[Name]:
    """The tables of a query, which are written with their whole names from now on."""
    found = set()
    for scope in traverse_scope(query):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and (name := _name(source)):
                whole = resolve(name)
                found.add(whole)
                for part, text in zip(("this", "db", "catalog"), reversed(whole), strict=False):
                    source.set(part, exp.to_identifier(text, quoted=True))
    return frozenset(found)


def _columns(
    query: exp.Query, dialect: str, names: Sequence[str], tables: Iterable[Name],
    columns_of: Callable[[Name], Mapping[str, str]],
) -> Mapping[str, frozenset[tuple[Name, str]]]:  # fmt: skip
    if len(names) > MOST_COLUMNS:
        return {}
    try:
        schema: dict[str, dict[str, Mapping[str, str]]] = {}
        for name in tables:
            if len(name) == 2 and (columns := columns_of(name)):
                schema.setdefault(name[0], {})[name[1]] = columns
        whole = qualify(query, schema=schema, dialect=dialect, validate_qualify_columns=False, identify=False)  # type: ignore[arg-type]
        scope = build_scope(whole)
        if scope is None or len(whole.selects) != len(names):
            return {}
        # Untrimmed: a trimmed node carries a copy of its whole query, which took two thirds of the time.
        nodes = lineage(None, whole, {}, dialect=dialect, scope=scope, trim_selects=False, copy=False)
        by_folded = {_folded(name): name for name in tables}
        made: dict[str, frozenset[tuple[Name, str]]] = {}
        for column, select in zip(names, whole.selects, strict=True):
            node = nodes.get(select.alias_or_name) if isinstance(nodes, dict) else None
            sources = _sources(node, by_folded, columns_of) if node is not None else frozenset()
            if sources:
                made[column] = sources
        return made
    except Exception:  # as above: then the tables alone are known
        return {}


def _sources(
    node: Node, by_folded: Mapping[Name, Name], columns_of: Callable[[Name], Mapping[str, str]]
) -> frozenset[tuple[Name, str]]:
    """The columns at the ends of a column's lineage, spelled as the database does: sqlglot may change their case."""
    found = set()
    for leaf in node.walk():
        if isinstance(leaf.expression, exp.Table) and not leaf.downstream:
            table = by_folded.get(_folded(_name(leaf.expression)))
            column = _column_name(leaf.name)
            if table is not None and column != "*":
                spelled = {name.casefold(): name for name in columns_of(table)}
                found.add((table, spelled.get(column.casefold(), column)))
    return frozenset(found)


def _column_name(text: str) -> str:
    """The column of `table.column` as SQL writes it; only what is quoted needs a parser."""
    return text.rpartition(".")[2] if _PLAIN.fullmatch(text) else str(exp.to_column(text).name)


def _folded(name: Name) -> Name:
    return tuple(part.casefold() for part in name)


def _name(table: exp.Table) -> Name:
    """The parts of a table's name; none of a function in a table's place."""
    if not isinstance(table.this, exp.Identifier):
        return ()
    return tuple(part for part in (table.catalog, table.db, table.name) if part)
