"""Names of other systems become URNs by one rule, so that a scan and lineage name one entity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.domains.catalog.naming import data, file_database, namespace_of, server, table_name
from metajournal.domains.lineage.openlineage import facts_of
from metajournal.sources.lakehouse.source import Lakehouse


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("postgres://db.acme:5432", "postgres://db.acme:5432"),
        ("postgresql://DB.Acme", "postgres://db.acme:5432"),
        ("postgres://reader:secret@db.acme:6543", "postgres://db.acme:6543"),
        ("postgres://", "postgres://localhost:5432"),
        ("mysql://[::1]", "mysql://[::1]:3306"),
        ("mariadb://h:1", "mysql://h:1"),
        ("kafka://broker", "kafka://broker:9092"),
        ("s3a://Bucket", "s3://Bucket"),
        ("snowflake://org-Account", "snowflake://org-Account"),
        ("duckdb:///data/shop.duckdb", "duckdb:///data/shop.duckdb"),
        ("bigquery", "bigquery"),
        ("file", "file"),
        ("anything at all", "anything at all"),
        ("postgres://db:notaport", "postgres://db:notaport"),
        ("mongodb://reader:secret@db/shop", "mongodb://db/shop"),
        ("postgres://reader:se@cret@db:5432/shop", "postgres://db:5432/shop"),
        ("snowflake://reader:secret@org-Account", "snowflake://org-Account"),
        ("abfss://container@account:443", "abfss://container@account:443"),
    ],
)
def test_a_namespace_has_one_spelling(text: str, namespace: str) -> None:
    assert namespace_of(text) == namespace


@given(st.text(max_size=40) | st.from_regex(r"(postgres|mysql|kafka|s3|x)://[a-zA-Z0-9.:@\[\]-]{0,20}", fullmatch=True))
def test_spelled_twice_it_stays_as_it_is(text: str) -> None:
    assert namespace_of(namespace_of(text)) == namespace_of(text)


def test_a_server_and_a_file_are_named_by_what_is_known_of_them() -> None:
    assert server("postgresql", None) == "postgres://localhost:5432"
    assert server("postgresql", "::1", 5433) == "postgres://[::1]:5433"
    assert server("unheard", "Host") == "unheard://host"
    assert file_database("sqlite", "/data/shop.db") == "sqlite:///data/shop.db"
    assert table_name(None, "public", "orders") == "public.orders"


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/data/orders", "file", "/data/orders"),
        ("s3a://acme-lake/silver/orders/", "s3a://acme-lake", "silver/orders"),
        ("gs://acme-lake/orders", "gs://acme-lake", "orders"),
        ("abfss://silver@acme.dfs.core.windows.net/orders", "abfss://silver@acme.dfs.core.windows.net", "orders"),
    ],
)
def test_a_table_of_files_has_the_name_that_lineage_of_spark_has(path: str, namespace: str, name: str) -> None:
    event = {
        "eventType": "COMPLETE", "eventTime": "2026-01-31T01:00:00Z", "run": {"runId": "r"},
        "job": {"namespace": "nightly", "name": "load"}, "outputs": [{"namespace": namespace, "name": name}],
    }  # fmt: skip
    (access,) = facts_of(event)[-1].accesses
    assert Lakehouse(path).systems == (access.data,)


def test_what_lineage_names_is_what_a_scan_registers() -> None:
    event = {
        "eventType": "COMPLETE", "eventTime": "2026-01-31T01:00:00Z", "run": {"runId": "r"},
        "job": {"namespace": "nightly", "name": "load"},
        "inputs": [{"namespace": "postgresql://DB.acme", "name": "shop.public.orders"}],
    }  # fmt: skip
    (access,) = facts_of(event)[-1].accesses
    assert access.data == data("postgres://db.acme:5432", "shop.public.orders")
    assert access.data == "dataset:postgres%3A%2F%2Fdb.acme%3A5432/shop.public.orders"


@pytest.mark.parametrize("text", ["a://" + ":" * 1_000_000, "a" * 1_000_000, "postgres://h:" + "1" * 5_000])
def test_a_namespace_of_any_length_is_read_in_one_go(text: str) -> None:
    """Of so many colons a look-back from each to the next would take hours."""
    assert namespace_of(text) == text
