"""How the names of other systems become URNs, by the naming rules of OpenLineage: `dataset:<namespace>/<name>`.

The namespace says which system (`postgres://db.acme:5432`), the name what in it (`shop.public.orders`); the URN builder
percent-encodes each. Whoever names data of another system does it here, so that what a scan registers and what lineage
names are one entity. Pure: no name is looked up, and no alias of a host is known.

Invariant: a namespace that is spelled by these rules already stays as it is, so to spell one twice changes nothing.
Source: OpenLineage, spec/Naming.md; docs/naming.md says what is decided here where that is silent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...schemas.urn import Urn
from .urns import dataset

SCHEMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "postgresql": "postgres",
        "mariadb": "mysql",
        "sqlserver": "mssql",
        "s3a": "s3",
        "s3n": "s3",
        "abfs": "abfss",
        "wasb": "wasbs",
    }
)
"""Synonyms of a scheme, and the one that is used: drivers and file systems have several for one system."""

PORTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "postgres": 5432,
        "mysql": 3306,
        "mssql": 1433,
        "oracle": 1521,
        "redshift": 5439,
        "trino": 8080,
        "clickhouse": 8123,
        "cockroachdb": 26257,
        "teradata": 1025,
        "kafka": 9092,
    }
)
"""Default ports; for other systems a missing port is omitted."""

TWO_PARTS: Final = frozenset({"sqlite", "mysql", "mariadb", "clickhouse", "hive", "teradata"})
"""Systems in which a schema is the database, so that a table's name has two parts."""

LOCALHOST: Final = "localhost"
"""The host of an address without one: a server behind a Unix socket."""

_AUTHORITY: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"((?:[a-z][a-z0-9+.-]*:)+)//([^/]*)(.*)", re.IGNORECASE | re.DOTALL)
"""An address, also one of JDBC: its schemes, what stands before the path, the path."""
_PARAMETERS: Final = re.compile(r"[?;]")
_HOST_AND_PORT: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(\d{1,18}))?")
_SYSTEMS: Final = frozenset(PORTS)
"""Schemes whose authority is a host and a port; of every other one (`s3://bucket`) nothing but the scheme is known."""


def data(namespace: str, name: str) -> Urn:
    """The URN of data of another system.

    Args:
        namespace: the system, in any spelling that `namespace_of` takes.
        name: what the system calls it, whole: `shop.public.orders`, `/data/orders.csv`, a topic.
    Raises:
        InvalidUrnError: the name is empty, holds a lone surrogate, or the URN is too long.
    """
    return dataset(namespace_of(namespace), name)


def namespace_of(text: str) -> str:
    """A namespace in its one spelling: canonical scheme, host in lower case, always the port, no password.

    What is not an address, or one of a system that is not known, stays as it is, but `without_credentials`.
    """
    text = without_credentials(text)
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return text
    scheme, authority = _canonical(found[1]), found[2]
    if scheme not in _SYSTEMS:
        return f"{scheme}://{authority}"
    parts = _HOST_AND_PORT.fullmatch(authority.rpartition("@")[2])
    return f"{scheme}://{authority}" if parts is None else server(scheme, parts[1], int(parts[2]) if parts[2] else None)


def without_credentials(address: str) -> str:
    """An address without password, query (`?…`) and parameters (`;…`): the journal would keep them for good.

    What is not an address stays as it is, and so does a path alone, `sqlite:///data/a;b.db`: it names a file.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return address
    schemes, authority, path = found.groups()
    if not authority and _canonical(schemes.rpartition(":")[0].rpartition(":")[2]) not in _SYSTEMS:
        return address
    if "@" in authority and not _HOST_AND_PORT.fullmatch(_PARAMETERS.split(authority, maxsplit=1)[0]):
        authority = authority.rpartition("@")[2]  # in front of it is `user:password`, of any characters
    kept, *cut = _PARAMETERS.split(authority, maxsplit=1)
    return f"{schemes}//{kept}" + ("" if cut else _PARAMETERS.split(path, maxsplit=1)[0])


def _canonical(scheme: str) -> str:
    return SCHEMES.get(scheme.lower(), scheme.lower())


def server(scheme: str, host: str | None, port: int | None = None) -> str:
    """The namespace of a system behind a host and a port.

    Args:
        scheme: `postgres`, or another word for it (`postgresql`).
        host: a name or an address; None or empty: this machine.
        port: the system's usual one where None.
    """
    scheme = _canonical(scheme)
    number = PORTS.get(scheme) if port is None else port
    name = (host or LOCALHOST).lower()
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"
    return f"{scheme}://{name}" if number is None else f"{scheme}://{name}:{number}"


def file_database(scheme: str, path: str) -> str:
    """The namespace of a database in one file, `sqlite:///data/shop.db`.

    Args:
        path: absolute, separated by `/`.
    """
    return f"{scheme.lower()}://{path}"


def table_name(*parts: str | None) -> str:
    """A name from its parts, outermost first, `shop.public.orders`; missing parts are omitted."""
    return ".".join(part for part in parts if part)
