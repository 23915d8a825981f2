"""A database as a source: its tables become entities, under the same names as in lineage.

The database, its schemas, tables and views are datasets. A table has its columns as schema; comments and keys are
SYSTEM properties, so that search finds them by their words and by their column. What a view reads is lineage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from ...domains.catalog.naming import data, table_name
from ...schemas.errors import InvalidUrnError
from ...schemas.urn import Urn
from ..found import Found, Problem, Progress
from ..plan import RUN
from ..source import Identity, SourceError, Tell, checked_id, id_of
from .addresses import Address
from .reflected import TABLE, Table, Unread
from .views import MadeOf, made_of

KIND: Final = "databases"
PREFIX: Final = "database."
_TELL_EVERY: Final = 500
_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "primary_key": ("primary_key",),
    "foreign_keys": ("foreign_key.*",),
    "comment": ("description",),
    "definition": ("sql", "upstream.*", RUN),
}
"""By field of a table that could not be read what stays as it was."""


class Databases:
    """One database behind an address.

    Args:
        url: of SQLAlchemy, `postgresql+psycopg://user:password@host/shop`, `sqlite:///shop.db`; never shown or stored.
        schemas: patterns of schemas to read, all if empty; `*` matches anything.
        exclude: patterns of what to omit: `schema`, `schema.table`.
        id: the source's; None: one derived from the address.
        namespace: the server's name in lineage, if it is reached by another name.
    Raises:
        InputError: the address or the id is not valid.
    """

    def __init__(
        self, url: str, *, schemas: Sequence[str] = (), exclude: Sequence[str] = (), id: str | None = None,  # noqa: A002
        namespace: str | None = None,
    ) -> None:  # fmt: skip
        self._address = Address.of(url, namespace)
        self._schemas = tuple(schemas)
        self._exclude = tuple(exclude)
        own = id_of(f"{self._address.namespace.replace('://', '-')}-{self._address.named}") if id is None else id
        self.identity = Identity(KIND, checked_id(own), PREFIX)
        self._names: _Names | None = None
        """Of the latest read."""

    @property
    def systems(self) -> tuple[Urn, ...]:
        """The database."""
        return (data(self._address.namespace, self._address.named),)

    lists_all: Final = True

    def selects(self, entity: Urn, properties: Mapping[str, str]) -> bool:
        """As `Source.selects`: of this database, in a schema that is read, and not left out."""
        if self._names is None:
            return True
        name = self._names.within(entity)
        if not name:  # the database itself, or nothing of it
            return name is not None
        if properties.get(f"{PREFIX}type") == "schema":
            return self._is_read(name)
        known = properties.get(f"{PREFIX}schema")
        schema = self._names.schema_in(name) if known is None else self._names.own(known)
        return self._is_read(schema) and not self._is_left_out(schema, name.removeprefix(f"{schema}."))

    def read(self, tell: Tell) -> Iterator[Found | Problem]:
        """As `Source.read`."""
        tables: dict[tuple[str, str], Table] = {}
        with self._address.opened() as reader:
            names = self._names = _Names(self._address, reader.database)
            yield Found(names.urn(), properties={"type": "database"})
            for schema in self._wanted(reader.schemas):
                if names.urn(schema) != names.urn():
                    yield Found(names.urn(schema), properties={"type": "schema"})
                for table in reader.tables(schema, lambda name, schema=schema: not self._is_left_out(schema, name)):  # type: ignore[misc]
                    if isinstance(table, Unread):
                        yield Problem(table.name[:200], self._address.scrubbed(table.why))
                        continue
                    tables[schema, table.name] = table
                    if len(tables) % _TELL_EVERY == 0:
                        tell(Progress("read tables", len(tables)))
                tell(Progress("read tables", len(tables)))
        describing = _Describing(names, self._address.dialect, reader.default_schema, tables)
        views, done = sum(table.kind != TABLE for table in tables.values()), 0
        for table in tables.values():
            if table.kind != TABLE:
                if done % _TELL_EVERY == 0:
                    tell(Progress("analyze views", done, views))
                done += 1
            try:
                yield describing.found(table)
            except InvalidUrnError as error:
                yield Problem(f"{table.schema}.{table.name}"[:200], error.message)
        if views:
            tell(Progress("analyze views", done, views))

    def _wanted(self, schemas: Sequence[str]) -> list[str]:
        """The schemas to read. Raises: SourceError: there is none, which would look as if all tables were gone."""
        wanted = [schema for schema in schemas if self._is_wanted(schema)]
        if not wanted:
            raise SourceError(
                f"No schema of {self._address.namespace} is selected.",
                code="no-such-schema",
                hint=f"It has {', '.join(schemas[:20]) or 'none that this user can see'}; see --schema and --exclude.",
            )
        return wanted

    def _is_read(self, schema: str) -> bool:
        """Whether the address and the options select a schema."""
        return self._address.only_schema in (None, schema) and self._is_wanted(schema)

    def _is_wanted(self, schema: str) -> bool:
        if any(fnmatchcase(schema, pattern) for pattern in self._exclude):
            return False
        return not self._schemas or any(fnmatchcase(schema, pattern) for pattern in self._schemas)

    def _is_left_out(self, schema: str, name: str) -> bool:
        return any(fnmatchcase(f"{schema}.{name}", pattern) for pattern in self._exclude)


class _Names:
    """URNs of the database's own names."""

    def __init__(self, address: Address, database: str) -> None:
        self._namespace = address.namespace
        self._database = database if address.has_schemas else None
        self._only_schema = address.only_schema
        self._whole = database

    def of(self, *name: str) -> str:
        """A name as used in lineage; of three parts the first is another database."""
        return table_name(*name) if len(name) > 2 else table_name(self._database, *name)

    def urn(self, *name: str) -> Urn:
        """The URN of a name; of none that of the database."""
        return data(self._namespace, self.of(*name) or self._whole)

    def within(self, entity: Urn) -> str | None:
        """An entity's name without the database's; empty if it is the database, None if it is of another one."""
        if entity.parts[0] != self.urn().parts[0]:
            return None
        if entity == self.urn():
            return ""
        if self._database is None:
            is_other = self._only_schema is not None and not entity.name.startswith(f"{self._only_schema}.")
            return None if is_other else entity.name
        return self.own(entity.name) if entity.name.startswith(f"{self._database}.") else None

    def schema_in(self, name: str) -> str:
        """The schema of a name without the database's, as far as that alone says it."""
        return self._only_schema or name.partition(".")[0]

    def own(self, name: str) -> str:
        """A name without the database's."""
        return name if self._database is None else name.removeprefix(f"{self._database}.")


class _Describing:
    """Turns each table into a `Found`, views with their lineage."""

    def __init__(
        self, names: _Names, dialect: str, default: str | None, tables: Mapping[tuple[str, str], Table]
    ) -> None:
        self._names = names
        self._dialect = dialect
        self._default = default
        self._tables = tables
        self._folded = {(schema.casefold(), name.casefold()): (schema, name) for schema, name in tables}

    def found(self, table: Table) -> Found:
        """Raises: InvalidUrnError: its name does not fit into a URN."""
        schema = table.schema or ""
        made = self._made_of(table)
        return Found(
            self._names.urn(schema, table.name),
            table.comment,
            tuple((column.name, column.type or "unknown") for column in table.columns),
            dict(self._properties(table)),
            upstreams=None if made is None else self._upstreams(table, made),
            columns={} if made is None else {
                name: tuple(sorted(f"{self._names.of(*of)}.{column}" for of, column in sources))
                for name, sources in made.columns.items()
            },
            keeps=frozenset(key for field in table.unread for key in _KEPT[field]),
        )  # fmt: skip

    def _properties(self, table: Table) -> Iterator[tuple[str, str]]:
        yield "type", table.kind
        if table.schema:
            yield "schema", self._names.of(table.schema)
        if table.primary_key:
            yield "primary_key", ", ".join(table.primary_key)
        for key in table.foreign_keys:
            referred = self._names.of(*(part for part in (key.schema, key.table) if part))
            yield f"foreign_key.{', '.join(key.columns)}", ", ".join(f"{referred}.{name}" for name in key.referred)
        for column in table.columns:
            if column.comment:
                yield f"comment.{column.name}", column.comment
        if table.definition:
            yield "sql", table.definition.strip()

    def _made_of(self, table: Table) -> MadeOf | None:
        if table.kind == TABLE or not table.definition:
            return None
        columns = [column.name for column in table.columns]
        resolve: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda name: self._resolved(name, table.schema)  # noqa: E731
        return made_of(table.definition, self._dialect, columns, resolve, self._columns_of)

    def _columns_of(self, name: tuple[str, ...]) -> dict[str, str]:
        table = self._tables.get((name[0], name[1])) if len(name) == 2 else None
        return {} if table is None else {column.name: column.type for column in table.columns}

    def _resolved(self, name: tuple[str, ...], schema: str | None) -> tuple[str, ...]:
        """The schema and name of a table that a view of some schema names; its database too, where that is another."""
        if len(name) > 2:
            own = self._names.of(*name[1:]) == table_name(*name)
            return self._spelled(name[1:]) if own else name
        if len(name) == 2:
            return self._spelled(name)
        where = [one for one in (self._default, schema) if one]
        for one in where:
            if (one.casefold(), name[0].casefold()) in self._folded:
                return self._spelled((one, name[0]))
        return ((where or [""])[0], name[0])

    def _spelled(self, name: tuple[str, ...]) -> tuple[str, ...]:
        if (name[0], name[1]) in self._tables:
            return name
        return self._folded.get((name[0].casefold(), name[1].casefold()), name)

    def _upstreams(self, table: Table, made: MadeOf) -> tuple[Urn, ...]:
        """The data that a view reads; names that do not fit into a URN are omitted."""
        urns = set()
        for name in made.tables:
            try:
                urns.add(self._names.urn(*name))
            except InvalidUrnError:
                continue
        return tuple(sorted(urns - {self._names.urn(table.schema or "", table.name)}))
