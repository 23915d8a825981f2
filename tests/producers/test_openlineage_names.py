"""Namespaces of data lose what may be secret: they are in the URN, and the journal keeps that for good."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.domains.catalog.naming import namespace_of, without_credentials


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("postgres://db?user=u&password=geheim", "postgres://db:5432"),
        ("postgres://db:6543?password=ge@heim", "postgres://db:6543"),
        ("mysql://u:geheim@db/shop?password=geheim", "mysql://db/shop"),
        ("postgresql:///shop?password=geheim", "postgresql:///shop"),
        ("sqlserver://db:1433;user=u;password=ge:h@eim", "mssql://db:1433"),
        ("sqlserver://u:ge;heim@db:1433;user=u", "mssql://db:1433"),
        ("postgres://u:ge?heim@db", "postgres://db:5432"),
        ("jdbc:sqlserver://db;password=geheim", "jdbc:sqlserver://db"),
        ("jdbc:mysql:replication://u:geheim@db/shop", "jdbc:mysql:replication://db/shop"),
        ("databricks://host:443;httpPath=/sql/1;PWD=geheim", "databricks://host:443"),
        ("s3://bucket?token=geheim/path", "s3://bucket"),
        ("kafka://u:geheim@a:9092,b:9092", "kafka://a:9092,b:9092"),
        ("abfss://container@account?sig=geheim", "abfss://container@account"),
        ("duckdb:///data/a;b?c.duckdb", "duckdb:///data/a;b?c.duckdb"),
        ("not an address; it has ? in it", "not an address; it has ? in it"),
    ],
)
def test_a_namespace_is_kept_without_query_and_parameters(text: str, namespace: str) -> None:
    assert namespace_of(text) == namespace
    assert "geheim" not in namespace


@given(st.from_regex(r"(jdbc:)?(postgres|sqlserver|kafka|s3|x)://[a-z0-9.:@?;=/\[\]-]{0,25}", fullmatch=True))
def test_spelled_twice_it_stays_as_it_is(text: str) -> None:
    assert namespace_of(namespace_of(text)) == namespace_of(text)
    assert without_credentials(without_credentials(text)) == without_credentials(text)


@pytest.mark.parametrize("text", ["a:" * 500_000, "a://" + "@" * 1_000_000, "a://" + ":@" * 500_000 + ";"])
def test_a_namespace_of_any_length_is_read_in_one_go(text: str) -> None:
    assert len(without_credentials(text)) <= len(text)
