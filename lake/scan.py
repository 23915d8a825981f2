"""Reading a table's files with duckdb: where they are, and one engine a process.

Local files are read as they are, by the paths that the table's log names, so nothing but the pinned version decides
what is seen; a store is read through delta-rs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from .storage.damage import local_folder, reading_all
from .storage.log_damage import files_below
from .views.table import Readable, TableView, frozen

_MEMORY = "1GB"
_SPILLING_MEMORY = "512MB"
_SPILLING_THREADS = min(4, os.cpu_count() or 1)
_CONFIG: dict[str, Any] = {
    "async_threads": "1",  # eight where nobody says otherwise, which files on this machine have no use for
    "autoinstall_known_extensions": "false",
    "memory_limit": _MEMORY,
    "preserve_insertion_order": "false",
}
_MEANINGFUL = frozenset("*?[=")
"""Characters of a folder that duckdb would take for a pattern, or for the value of a column (`topic=a`)."""
_SQL_TYPES = {"date32[day]": "DATE", "string": "VARCHAR"}


class Cursor:
    """A duckdb cursor that knows which files its statements read."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self.read: list[tuple[Readable, list[str] | None]] = []

    def register(self, name: str, rows: Any) -> None:
        self._cursor.register(name, rows)

    def sql(self, statement: str, **given: Any) -> Any:
        return self._cursor.sql(statement, **given)

    def execute(self, statement: str) -> Any:
        return self._cursor.execute(statement)

    @contextmanager
    def beside(self) -> Iterator[Cursor]:
        """Another cursor of its engine, so that the rows of one are read while the other is asked."""
        with self._cursor.cursor() as opened:
            made = Cursor(opened)
            made.read = self.read
            yield made


@contextmanager
def cursor() -> Iterator[Cursor]:
    """A duckdb cursor of this process.

    Raises:
        DamagedTableError, StaleReadError: of what is read in the block (see `damage.reading`).
    """
    with _connection(os.getpid()).cursor() as opened:
        made = Cursor(opened)
        with reading_all(made.read):
            try:
                yield made
            except (duckdb.FatalException, duckdb.InternalException):
                _connection.cache_clear()  # such an engine answers nothing any more
                raise


@contextmanager
def spilling() -> Iterator[Cursor]:
    """A cursor of an engine of its own, for statements over whole tables: what exceeds its memory goes to files.

    Its memory is enough for one statement that groups, sorts or joins at a time; between two of them rows stand in its
    tables. It takes none from those who ask little, and its files and tables are gone at the end of the block.

    Raises:
        DamagedTableError, StaleReadError: as `cursor`.
    """
    with tempfile.TemporaryDirectory(prefix="metajournal-") as folder:
        config = {**_CONFIG, "memory_limit": _SPILLING_MEMORY, "temp_directory": folder, "threads": _SPILLING_THREADS}
        with duckdb.connect(f"{folder}/work.duckdb", config=config) as connection:
            made = Cursor(connection)
            with reading_all(made.read):
                yield made


@contextmanager
def single() -> Iterator[Cursor]:
    """A cursor of an engine of its own that computes in the thread that asks, and in no other one.

    Raises:
        DamagedTableError, StaleReadError: as `cursor`.
    """
    with duckdb.connect(config={**_CONFIG, "memory_limit": _SPILLING_MEMORY, "threads": 1}) as connection:
        made = Cursor(connection)
        with reading_all(made.read):
            yield made


@lru_cache(maxsize=1)
def _connection(_process: int) -> duckdb.DuckDBPyConnection:
    """One engine a process: it costs 20 ms to make, and none outlives a fork."""
    connection = duckdb.connect(config={**_CONFIG, "temp_directory": tempfile.gettempdir()})
    connection.execute("set parquet_metadata_cache = true")  # files of a table never change: 5 ms for 20 of them
    return connection


def source(cursor: Cursor, table: Readable, paths: list[str], name: str = "lake_dataset") -> str:
    """What to select from, as SQL: these files of a table, with all columns of its schema.

    Args:
        paths: relative to the table's folder and in URL form, at least one.
        name: what a table in a store is registered as; one of its own for each table of a statement.
    """
    cursor.read.append((table, paths))
    folder = local_folder(table)
    if folder is None or _MEANINGFUL & set(folder):
        cursor.register(name, _dataset(frozen(table), paths))
        return name
    names = ", ".join("'" + f"{folder}/{unquote(path)}".replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{names}], {_partitioning(table)})"


def live_files(table: Readable) -> pa.Table:
    """The files that a table's version consists of: path, size, statistics."""
    return frozen(table).files


def _dataset(table: TableView, paths: list[str]) -> pads.Dataset:
    """Files of a table, read through delta-rs."""
    columns = pa.schema([table.schema.field(name) for name in table.partition_columns])
    return pads.dataset(
        [unquote(path) for path in paths],
        schema=table.schema,
        format="parquet",
        filesystem=files_below(table.uri, table.storage_options),
        partitioning=pads.partitioning(columns, flavor="hive") if table.partition_columns else None,
    )


def _partitioning(table: Readable) -> str:
    columns = table.partition_columns if isinstance(table, TableView) else table.metadata().partition_columns
    if not columns:
        return "hive_partitioning = false"
    schema = frozen(table).schema
    types = ", ".join(f"'{name}': {_SQL_TYPES[str(schema.field(name).type)]}" for name in columns)
    return f"hive_partitioning = true, hive_types = {{{types}}}"
