"""Addresses of databases: the server's name in lineage, how it is opened, and errors in plain words.

Invariant: a password is in the address only: no error, property, name or `repr` shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote, unquote

from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ...domains.catalog.naming import SCHEMES, TWO_PARTS, file_database, namespace_of, server
from ...schemas.errors import InputError
from ...schemas.masking import MASK, scrubbed
from ..source import SourceError, SourceUnavailableError
from . import postgres_catalog
from .inspecting import connected, schemas_of, tables_of
from .queries import database_of, secrets_of, server_of
from .reflected import Table, Unread

FILES: Final = frozenset({"sqlite", "duckdb"})
"""Databases in a single file."""
_REFUSED: Final = (
    "password",
    "authentication",
    "access denied",
    "login failed",
    "logon denied",
    "permission denied",
    'role "',
)
"""Words in drivers' messages that mean access was denied: each driver has its own codes."""
_DRIVERS: Final = {
    "postgresql": "psycopg[binary]", "mysql": "pymysql", "mariadb": "pymysql", "mssql": "pyodbc", "oracle": "oracledb",
    "duckdb": "duckdb", "snowflake": "snowflake-sqlalchemy", "trino": "trino[sqlalchemy]",
    "clickhouse": "clickhouse-connect",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reader:
    """An opened database.

    Attributes:
        database: its own name.
        default_schema: the schema of names without one.
        schemas: users' schemas.
        tables: reads the tables of a schema whose names are selected.
    """

    database: str
    default_schema: str | None
    schemas: list[str]
    tables: Callable[[str, Callable[[str], bool]], Iterator[Table | Unread]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is.

    Attributes:
        namespace: the server's or file's name in lineage.
        named: the database's name, as far as the address contains it.
        dialect: SQLAlchemy's name for the kind of database.
    """

    namespace: str
    named: str
    dialect: str
    _url: URL = field(repr=False)

    @property
    def _path(self) -> str:
        """The file of a database that is one."""
        return self._url.database or ""

    @classmethod
    def of(cls, text: str, namespace: str | None = None) -> Address:
        """Read an address of SQLAlchemy.

        Raises:
            InputError: it is not valid, or does not say which server it is, and no namespace is given.
        """
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            raise _no_address() from None
        dialect = url.get_backend_name()
        dialect = "postgresql" if dialect == "postgres" else dialect
        if url.drivername == "postgres":
            url = url.set(drivername="postgresql")
        if dialect == "postgresql" and url.drivername == "postgresql":
            url = url.set(drivername=_driver_of_postgres())
        if dialect in FILES:
            return cls._file(url, dialect, namespace)
        scheme = SCHEMES.get(dialect, dialect)
        whole = namespace_of(namespace) if namespace else server(scheme, *server_of(url))
        return cls(whole, database_of(url) or url.username or "default", dialect, url)

    @classmethod
    def _file(cls, url: Any, dialect: str, namespace: str | None) -> Address:
        name = url.database or ""
        if not name or name == ":memory:" or name.startswith(("file:", "md:")):
            raise InputError(
                "A database in memory has no name, so its tables could not be recognized again.",
                code="bad-source-address",
                hint=f"Give the path of a file: {dialect}:////data/shop.db is absolute, {dialect}:///shop.db is not.",
            )
        path = Path(name).expanduser().absolute()
        whole = namespace_of(namespace) if namespace else file_database(dialect, path.as_posix())
        return cls(whole, path.stem if dialect == "duckdb" else "main", dialect, url.set(database=str(path)))

    @property
    def has_schemas(self) -> bool:
        """Whether a table's name has three parts, the database first."""
        return self.dialect not in TWO_PARTS

    @property
    def only_schema(self) -> str | None:
        """The database that is named on a server whose databases are schemas, the only one read; None: all are."""
        return None if self.has_schemas or self.dialect == "sqlite" else database_of(self._url)

    @contextmanager
    def opened(self) -> Iterator[Reader]:
        """The database, opened read-only.

        Raises:
            SourceError: the driver is not installed, or the database refuses the user.
            SourceUnavailableError: it does not answer, or the connection broke in the block.
        """
        if self.dialect in FILES and not Path(self._path).is_file():
            raise SourceError(
                f"There is no file {self._path}.",
                hint="Check the path; an absolute one begins with four slashes (sqlite:////data/shop.db).",
                code="source-not-found",
            )
        with self._duckdb() if self.dialect == "duckdb" else self._inspected() as reader:
            yield reader

    @contextmanager
    def _inspected(self) -> Iterator[Reader]:
        try:
            engine = create_engine(self._to_open(), poolclass=NullPool)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise self._without_driver() from error
        except SQLAlchemyError as error:
            raise _no_address() from error
        try:
            with connected(engine) as connection:
                default = inspect(connection).default_schema_name
                schemas = schemas_of(connection)
                if (only := self.only_schema) is not None:
                    schemas = [name for name in schemas if name == only]
                of = tables_of
                if self.dialect == "postgresql":
                    default, of = "public", postgres_catalog.tables_of
                yield Reader(self.named, default, schemas, partial(of, connection))
        except (DBAPIError, SQLAlchemyError) as error:
            self._fail(error)
        finally:
            engine.dispose()

    @contextmanager
    def _duckdb(self) -> Iterator[Reader]:
        import duckdb

        from . import duckdb_catalog

        try:
            with duckdb.connect(self._path, read_only=True) as connection:
                schemas = duckdb_catalog.schemas_of(connection)
                tables = partial(duckdb_catalog.tables_of, connection)
                yield Reader(duckdb_catalog.database_of(connection), "main", schemas, tables)
        except duckdb.Error as error:
            self._fail(error)

    def _to_open(self) -> Any:
        if self.dialect != "sqlite":
            return self._url
        # Read-only, or SQLite would make a file that is not there, and lock one that is.
        return self._url.set(database=f"file:{quote(self._path)}", query={"mode": "ro", "uri": "true"})

    def _fail(self, error: Exception) -> NoReturn:
        """Raises: SourceError, SourceUnavailableError: the driver's message, without secrets."""
        said = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        shown = self.scrubbed(said)
        if any(word in said.lower() for word in _REFUSED):
            raise SourceError(
                f"The database at {self.namespace} refuses this user: {shown}",
                code="not-authenticated",
                hint="Check user, password and read permissions; nothing was changed.",
            ) from None
        if "file is not a database" in said or "not a valid DuckDB" in said:
            raise SourceError(f"{self.namespace} cannot be read: {shown}", code="source-unreadable") from None
        raise SourceUnavailableError(f"The database at {self.namespace} cannot be read completely: {shown}") from None

    def scrubbed(self, text: str) -> str:
        """A driver's text without the passwords, encoded or not."""
        secrets = sorted(secrets_of(self._url), key=len, reverse=True)  # one may be the beginning of another
        return scrubbed(text, [way for each in secrets for way in (each, quote(each), quote(each, safe=""))])

    def _without_driver(self) -> SourceError:
        package = _DRIVERS.get(self.dialect, f"a SQLAlchemy dialect for {self.dialect}")
        return SourceError(
            f"No driver for {self.dialect} is installed here ({self._url.drivername}).",
            code="missing-driver",
            hint=f"pip install '{package}'" if self.dialect in _DRIVERS else f"Install {package}.",
        )


def shown_url(text: str) -> str:
    """An address that can be shown: without password and query."""
    before, found, behind = text.partition("://")
    user, at, rest = behind.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{before}{found}{name}{f':{MASK}' if colon else ''}{at}{unquote(rest.partition('?')[0])}"


def _driver_of_postgres() -> str:
    """The driver that is installed: psycopg 3, else psycopg2."""
    from importlib.util import find_spec

    return "postgresql+psycopg" if find_spec("psycopg") else "postgresql"


def _no_address() -> InputError:
    """The error does not show the URL, which may contain a password."""
    return InputError(
        "This is not a valid database URL.",
        code="bad-source-address",
        hint="Write it like postgresql://user:password@host:5432/shop, sqlite:////data/shop.db or duckdb:////data/shop.duckdb.",
    )
