"""What is read of real databases: SQLite, DuckDB and PostgreSQL say the same of the same shop."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine.reflection import Inspector

from metajournal.domains.catalog.naming import data
from metajournal.schemas.errors import InputError
from metajournal.sources.databases import inspecting, postgres_catalog
from metajournal.sources.databases.addresses import Address, Reader, shown_url
from metajournal.sources.databases.reflected import TABLE, Column, Table
from metajournal.sources.databases.source import Databases
from metajournal.sources.found import Found, Problem
from metajournal.sources.plan import Change, Plan, plan
from metajournal.sources.recipes import source_of, sources_of
from metajournal.sources.source import SourceError, SourceUnavailableError
from tests.builders import NOON
from tests.rules.harness import Catalog
from tests.sources.databases import SHOP, Database, in_duckdb, postgres, sqlite
from tests.sources.test_plan import held_of, judged


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as database:
        yield database


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """The shop in each database; in PostgreSQL a new one each time."""
    if request.param == "postgres":
        database: Database = request.getfixturevalue("server")
        database.execute(["drop schema public cascade", "create schema public", "drop schema if exists more cascade"])
    else:
        database = sqlite(tmp_path / "a shop.db") if request.param == "sqlite" else in_duckdb(tmp_path / "shop.duckdb")
    database.execute(SHOP)
    return database


def found_in(database: Database, **how: object) -> dict[str, Found]:
    """What is found, by its last name."""
    found = list(Databases(database.url, **how).read(lambda _: None))  # type: ignore[arg-type]
    assert all(isinstance(one, Found) for one in found), found
    return {one.entity.name.rpartition(".")[2]: one for one in found if isinstance(one, Found)}


@pytest.mark.thorough
def test_tables_have_columns_and_keys(shop: Database) -> None:
    found = found_in(shop)
    assert [name for name, _ in found["orders"].schema or ()] == ["id", "customer", "amount"]
    assert dict(found["orders"].schema or ())["amount"].replace(" ", "").endswith("(10,2)")
    properties = found["orders"].properties
    assert (properties["type"], properties["primary_key"]) == ("table", "id")
    assert properties["foreign_key.customer"] == f"{found['customers'].entity.name}.id"
    assert properties["schema"] == found["orders"].entity.name.rpartition(".")[0]


@pytest.mark.thorough
def test_a_view_is_made_of_its_tables_column_by_column(shop: Database) -> None:
    found = found_in(shop)
    orders, customers = found["orders"].entity, found["customers"].entity
    assert found["totals"].upstreams == tuple(sorted([orders, customers]))
    assert found["totals"].columns == {"name": (f"{customers.name}.name",), "total": (f"{orders.name}.amount",)}
    assert found["totals"].properties["type"] == "view"
    assert found["orders"].upstreams is None


def test_what_is_left_out_is_not_read(shop: Database) -> None:
    shop.execute(["create table tmp_1(id integer)"])
    assert "tmp_1" in found_in(shop)
    assert "tmp_1" not in found_in(shop, exclude=["*.tmp_*"])
    with pytest.raises(SourceError, match="No schema") as refused:
        found_in(shop, schemas=["nowhere"])
    assert refused.value.code == "no-such-schema"


@pytest.mark.thorough
def test_what_a_read_is_not_about_may_still_exist(shop: Database) -> None:
    """A schema or table that is left out, and another database or server, is not gone."""
    every = {one.entity: {f"database.{key}": text for key, text in one.properties.items()}
             for one in found_in(shop).values()}  # fmt: skip
    (orders,) = (entity for entity in every if entity.name.endswith("orders"))
    inside = {entity for entity, said in every.items() if said["database.type"] != "database"}

    def left(url: str = shop.url, **how: object) -> set[str]:
        source = Databases(url, **how)  # type: ignore[arg-type]
        list(source.read(lambda _: None))
        assert [source.selects(entity, {}) for entity in every if entity in inside] == [
            source.selects(entity, said) for entity, said in every.items() if entity in inside
        ]  # a killed run has registered them, and no more
        return {entity for entity, said in every.items() if not source.selects(entity, said)}

    assert left() == set()
    assert left(exclude=["*.orders"]) == {orders}
    assert left(schemas=["*"]) == set()
    assert left(namespace="postgres://elsewhere:5432") == {*every}
    shop.execute(["create schema more"] if "postgresql" in shop.url or "duckdb" in shop.url else [])
    if "sqlite" not in shop.url:
        assert left(schemas=["more"]) == inside


def run(catalog: Catalog, source: Databases) -> tuple[Plan, list[Problem]]:
    """One run, as `ingest` does it."""
    every = list(source.read(lambda _: None))
    found = [one for one in every if isinstance(one, Found)]
    problems = [one for one in every if isinstance(one, Problem)]
    whole = not problems
    made = plan(source.identity, found, held_of(catalog), whole=whole, at_ms=NOON, selects=source.selects)
    for step in made.steps:
        for event in (*step.notes, *step.facts, *step.events):
            judged(catalog, event, source.identity.actor)
    return made, problems


def a_server_of(patch: pytest.MonkeyPatch, databases: Mapping[str, Sequence[str]]) -> None:
    """Every server has these databases, which are its schemas, with these tables."""

    @contextmanager
    def opened(address: Address) -> Iterator[Reader]:
        schemas = [name for name in databases if address.only_schema in (None, name)]
        columns = (Column("id", "int"),)
        yield Reader(
            address.named, None, schemas,
            lambda schema, wanted: (Table(schema, name, TABLE, columns) for name in databases[schema] if wanted(name)),
        )  # fmt: skip

    patch.setattr(Address, "opened", opened)


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "clickhouse"])
def test_of_a_server_whose_schemas_are_databases_one_takes_nothing_from_the_others(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {"crm": ["people"], "shop": ["orders", "customers"], "shop.old": ["orders"]}
    a_server_of(monkeypatch, server)
    catalog = Catalog()
    whole, _ = run(catalog, Databases(f"{scheme}://reader@h/", id="m"))
    assert len(whole.of(Change.REGISTER)) == 8  # and the server itself, which has its user's name
    server["shop"] = ["orders"]
    for name, gone, others in (("shop", ["shop.customers"], 5), ("crm", [], 5)):
        made, _ = run(catalog, Databases(f"{scheme}://reader@h/{name}", id="m"))
        assert ([urn.name for urn in made.of(Change.DELETE)], made.unselected) == (gone, others)
    again, _ = run(catalog, Databases(f"{scheme}://reader@h/", id="m"))
    assert (again.of(Change.DELETE), again.of(Change.REGISTER)) == ([], [])


def test_names_of_any_characters_come_through(shop: Database) -> None:
    shop.execute(['create table "Größe / a.b"("Zwei Wörter" integer, "select" integer)'])
    found = [one for one in found_in(shop).values() if "Größe" in one.entity.name]
    assert [[name for name, _ in one.schema or ()] for one in found] == [["Zwei Wörter", "select"]]


def test_comments_are_descriptions_and_properties(tmp_path: Path, server: Database) -> None:
    for database in (in_duckdb(tmp_path / "commented.duckdb"), server):
        database.execute([
            "drop table if exists commented", "create table commented(id integer)",
            "comment on table commented is 'Who buys'", "comment on column commented.id is 'the key'",
        ])  # fmt: skip
        found = found_in(database)["commented"]
        assert (found.description, found.properties["comment.id"]) == ("Who buys", "the key")


def test_postgres_has_schemas_materialized_views_and_types_of_its_own(server: Database) -> None:
    server.execute([
        "drop schema if exists more cascade", "create schema more", "create type more.mood as enum ('good', 'bad')",
        "create table more.people(id bigint primary key, mood more.mood, at timestamptz)",
        "create materialized view more.happy as select * from more.people where mood = 'good'",
        "create view more.happier as with h as (select id from more.happy) select h.id as one from h",
    ])  # fmt: skip
    found = found_in(server, schemas=["more"])
    assert found["people"].schema == (("id", "bigint"), ("mood", "more.mood"), ("at", "timestamp with time zone"))
    assert found["happy"].properties["type"] == "materialized view"
    assert found["happy"].upstreams == (found["people"].entity,)
    assert found["happier"].columns == {"one": (f"{found['happy'].entity.name}.id",)}
    assert found["more"].properties["type"] == "schema"
    assert found["people"].entity == data("postgres://localhost:5432", "postgres.more.people")


def test_a_server_that_is_reached_by_another_name_is_named_as_lineage_names_it(server: Database) -> None:
    source = Databases(server.url, namespace="postgresql://DB.acme")
    assert source.systems == (data("postgres://db.acme:5432", "postgres"),)


def test_a_view_that_cannot_be_read_is_a_view_without_upstreams(tmp_path: Path) -> None:
    database = in_duckdb(tmp_path / "odd.duckdb")
    database.execute(["create view odd as select * from range(3)", "create view v as from odd select count(*) as n"])
    assert found_in(database)["odd"].upstreams == ()
    assert found_in(database)["v"].upstreams in (None, (found_in(database)["odd"].entity,))


def test_a_connection_that_breaks_in_the_middle_ends_the_reading(server: Database) -> None:
    server.execute(["drop schema if exists a1 cascade", "create schema a1", "create table a1.t(id int)"])
    reading = Databases(server.url).read(lambda _: None)
    next(reading)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    with pytest.raises(SourceUnavailableError):
        list(reading)


QUESTIONS = (
    "get_materialized_view_names", "get_multi_pk_constraint", "get_multi_foreign_keys", "get_multi_table_comment",
    "get_view_definition",
)  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_a_database_refuses_to_say_is_told_and_stays_as_it_was(
    question: str, server: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of dialects without a reader of their own, for which PostgreSQL stands in; only what none has is missing."""
    server.execute([
        "drop schema if exists more cascade", "drop schema public cascade", "create schema public", *SHOP,
        "comment on table orders is 'What was bought'", "create materialized view happy as select id from orders",
    ])  # fmt: skip
    monkeypatch.setattr(postgres_catalog, "tables_of", inspecting.tables_of)
    source, catalog = Databases(server.url, schemas=["public"]), Catalog()
    _, problems = run(catalog, source)
    assert problems == []
    before = held_of(catalog)

    def refuse(inspector: Any, *_: object, **__: object) -> None:
        inspector.bind.execute(text("select 1 / 0"))

    monkeypatch.setattr(Inspector, question, refuse)
    made, problems = run(catalog, source)
    assert [problem.why.partition(": ")[2] for problem in problems][:1] == ["division by zero"]
    assert (made.steps, held_of(catalog)) == ([], before)
    assert made.kept == (question == "get_materialized_view_names")

    def is_not_provided(*_: object, **__: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(Inspector, question, is_not_provided)
    made, problems = run(catalog, source)
    assert (len(made.steps) > 0, problems) == (True, [])


def test_a_refused_user_is_told_so_without_the_password(server: Database) -> None:
    server.execute(["drop role if exists nobody_at_all"])
    with pytest.raises((SourceError, SourceUnavailableError)) as refused:
        list(Databases(server.url.replace("postgres:@", "nobody_at_all:geheim@")).read(lambda _: None))
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "kind", "code"),
    [
        ("sqlite:////nowhere/shop.db", SourceError, "source-not-found"),
        ("postgresql://u:geheim@localhost:1/shop", SourceUnavailableError, "source-unavailable"),
        ("oracle://u:geheim@localhost/shop", SourceError, "missing-driver"),
        ("nonsense", InputError, "bad-source-address"),
        ("sqlite://", InputError, "bad-source-address"),
        ("geheim@://", InputError, "bad-source-address"),
    ],
)
def test_each_failure_has_a_code_and_a_hint_and_shows_no_password(url: str, kind: type[Exception], code: str) -> None:
    with pytest.raises(kind) as failed:
        list(Databases(url).read(lambda _: None))
    error = failed.value
    assert (error.code, bool(error.hint)) == (code, True)  # type: ignore[attr-defined]
    assert "geheim" not in f"{error}{error.__notes__}{error.__dict__}"


def test_a_file_that_is_no_database_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    for name, scheme in (("a.db", "sqlite"), ("a.duckdb", "duckdb")):
        (tmp_path / name).write_text("no database, but long enough to be looked at as one" * 100)
        with pytest.raises((SourceError, SourceUnavailableError)):
            list(Databases(f"{scheme}:///{tmp_path / name}").read(lambda _: None))


def test_reading_a_file_leaves_it_as_it_was(tmp_path: Path) -> None:
    database = sqlite(tmp_path / "shop.db")
    database.execute(SHOP)
    before = (tmp_path / "shop.db").read_bytes(), sorted(tmp_path.iterdir())
    found_in(database)
    assert ((tmp_path / "shop.db").read_bytes(), sorted(tmp_path.iterdir())) == before


def test_a_view_of_a_table_that_is_gone_and_a_type_of_odd_arguments_keep_nothing_else_out(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(
            "create table gone (id int); create view dangling as select id from gone; drop table gone;"
            "create table odd (a varchar(10, 2), b int); create table fine (id int)"
        )
    seen = list(Databases(f"sqlite:///{file}").read(lambda _: None))
    tables = [one for one in seen if isinstance(one, Found) and one.properties["type"] == "table"]
    columns = {one.entity.name.rpartition(".")[2]: [name for name, _ in one.schema or ()] for one in tables}
    assert columns == {"odd": ["a", "b"], "fine": ["id"]}
    assert [one for one in seen if not isinstance(one, Found) and "dangling" in str(one)]


def test_an_address_is_shown_without_its_password() -> None:
    assert shown_url("postgresql://u:p%40ss@h/shop?password=x") == "postgresql://u:********@h/shop"
    assert "geheim" not in repr(Databases("postgresql://u:geheim@h/shop")._address)


ODBC = "mssql+pyodbc:///?odbc_connect=DRIVER%3D%7BSQL%7D%3BSERVER%3Ddb1%3BDATABASE%3Dshop%3BPWD%3D%7Bgeh%7D%7Deim%7D"


@pytest.mark.parametrize(
    ("url", "namespace", "named"),
    [
        ("postgresql://u@/shop?host=db1&port=5433", "postgres://db1:5433", "shop"),
        ("postgresql://u@/shop?host=db1:5433", "postgres://db1:5433", "shop"),
        ("postgresql://u@/shop?host=[::1]:5433", "postgres://[::1]:5433", "shop"),
        ("postgresql://u@/shop?host=::1", "postgres://[::1]:5432", "shop"),
        ("postgresql://u@db1/shop?host=db2&dbname=crm", "postgres://db2:5432", "crm"),
        ("postgresql://u@/shop?host=/run/postgresql&port=5433", "postgres://localhost:5433", "shop"),
        ("postgresql:///shop", "postgres://localhost:5432", "shop"),
        ("mysql://u@db1/?database=crm", "mysql://db1:3306", "crm"),
        ("oracle://u@db1/?service_name=crm", "oracle://db1:1521", "crm"),
    ],
)
def test_an_address_may_name_server_and_database_in_its_query(url: str, namespace: str, named: str) -> None:
    assert Databases(url).systems == (data(namespace, named),)


@pytest.mark.parametrize(
    "url",
    [
        ODBC, "mssql+pyodbc://db1/shop?odbc_connect=SERVER%3Ddb2", "postgresql:///shop?service=geheim",
        "postgresql://u@/shop?host=db1&host=db2", "postgresql://u@/shop?host=db1,db2",
        "postgresql://u@/shop?host=db1&port=5432,5433", "postgresql://u@/shop?host=db1&port=geheim",
        "mysql:///shop?read_default_file=geheim",
    ],
)  # fmt: skip
def test_an_address_that_does_not_say_which_server_it_is_needs_a_namespace(url: str) -> None:
    """Or it would be this machine, and its tables those of any other such server."""
    with pytest.raises(InputError) as refused:
        Databases(url)
    assert (refused.value.code, "--namespace" in refused.value.hint) == ("bad-source-address", True)
    assert "geheim" not in f"{refused.value}{refused.value.__dict__}"
    assert Databases(url, namespace="mssql://DB1").systems[0].parts[0] == "mssql://db1:1433"


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("postgresql://u:geh@h/shop?password=geheim&sslpassword=ge%2Fheim", ("geh", "geheim", "ge/heim", "ge%2Fheim")),
        (ODBC, ("geh}eim",)),
    ],
)
def test_passwords_in_the_query_are_masked(url: str, secrets: tuple[str, ...]) -> None:
    address = Address.of(url, "mssql://db1:1433")
    assert (address.named, "geh" in repr(address)) == ("shop", False)
    for secret in secrets:
        assert address.scrubbed(f"login with {secret} failed") == "login with ******** failed"


def test_a_recipe_names_sources_with_variables_of_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "sources.toml"
    file.write_text('[shop]\nsource = "databases"\nurl = "postgresql://u:${PASSWORD}@h/shop"\nexclude = ["tmp"]\n')
    (shop,) = sources_of(file, {"PASSWORD": "geheim"})
    assert shop.identity.id == "shop"
    assert shop.systems == (data("postgres://h:5432", "shop"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no source"),
        ("[shop]\nurl = 'sqlite:///x'", "does not say which kind of source"),
        ("[shop]\nsource = 'database'\nurl = 'x'", "no kind of source 'database'"),
        ("[shop]\nsource = 'databases'", "needs the option 'url'"),
        ("[shop]\nsource = 'databases'\nurl = 'sqlite:///x'\nschema = 'a'", "no option 'schema'"),
        ("[shop]\nsource = 'databases'\nurl = 1", "must be a string"),
        ("[shop]\nsource = 'databases'\nurl = '${NOT_SET}'", "environment variable NOT_SET is not set"),
        ("[SHOP!]\nsource = 'databases'", "not valid TOML"),
        ("['A b']\nsource = 'databases'\nurl = 'sqlite:///x'", "not a valid source id"),
        ("password = 'geheim", "not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_said(tmp_path: Path, text: str, words: str) -> None:
    (file := tmp_path / "sources.toml").write_text(text)
    with pytest.raises(InputError, match=words) as wrong:
        sources_of(file, {})
    assert "geheim" not in str(wrong.value)


def test_the_id_follows_from_the_address_and_not_from_user_or_password() -> None:
    ids = {source_of("databases", {"url": f"postgresql://{who}@db/shop"}, {}).identity.id for who in ("a:b", "c:d")}
    assert ids == {"postgres-db-5432-shop"}
