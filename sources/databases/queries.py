"""What the query of a database's URL says: the server and the database where the rest does not, and secrets. Pure.

Drivers take connection settings from the query too, and these count before the rest of the URL. A server that is not
named where it can be read would have the name of this machine, and two such servers one name: that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sqlalchemy.engine import URL

from ...schemas.errors import InputError

_DATABASE: Final = ("dbname", "database", "db", "service_name")
"""Keys of a query that name the database, whichever driver it is."""
_ODBC: Final = "odbc_connect"
"""A whole connection string of ODBC, which counts instead of the rest of the URL."""
_ELSEWHERE: Final = ("dsn", "hostaddr", "read_default_file", "service", "servicefile")
"""Keys of a query that name a server by settings outside of the URL, or by an address that is no name."""
_SECRET: Final = re.compile(r"pass|pwd|secret|token|private_?key", re.IGNORECASE)
_HOST_AND_PORT: Final = re.compile(r"(\[[^\]]*\]|[^:,]*):(\d{1,5})")
_ODBC_PAIR: Final = re.compile(r"([^=;]+)=\s*(\{(?:[^}]|\}\})*\}|[^;]*)")


def server_of(url: URL) -> tuple[str | None, int | None]:
    """Host and port of an address; None, None: this machine, behind a socket.

    Raises:
        InputError: the address names several servers, or one in a way that cannot be read here.
    """
    if _ODBC in url.query:
        raise _unknown_server(_ODBC)
    hosts, ports = ([each for text in _texts(url, key) for each in text.split(",")] for key in ("host", "port"))
    if len(hosts) > 1 or len(ports) > 1:
        raise _unknown_server("host" if len(hosts) > 1 else "port")
    if ports and not ports[0].isdecimal():
        raise _unknown_server("port")
    host = hosts[0] if hosts else url.host
    if not host and (key := next((key for key in _ELSEWHERE if key in url.query), None)) is not None:
        raise _unknown_server(key)
    port = int(ports[0]) if ports else url.port
    if hosts and (both := _HOST_AND_PORT.fullmatch(hosts[0])) is not None:
        host, port = both[1], int(ports[0] if ports else both[2])
    is_socket = host is not None and host.startswith(("/", "@"))
    return None if is_socket else host or None, port


def database_of(url: URL) -> str | None:
    """The database that an address names."""
    if _ODBC in url.query:
        return next((value for key, value in _odbc_pairs(url) if key == "database"), None) or None
    named = next((text for key in _DATABASE for text in _texts(url, key) if text), None)
    return named or url.database or None


def secrets_of(url: URL) -> set[str]:
    """What of an address nobody shall see."""
    own = {str(url.password)} if url.password else set[str]()
    own |= {text for key in url.query if _SECRET.search(key) for text in _texts(url, key)}
    return (own | {value for key, value in _odbc_pairs(url) if _SECRET.search(key)}) - {""}


def _texts(url: URL, key: str) -> tuple[str, ...]:
    """The values of a key in the query: none, one or several."""
    value = url.query.get(key, ())
    return (value,) if isinstance(value, str) else tuple(value)


def _odbc_pairs(url: URL) -> Iterator[tuple[str, str]]:
    """The settings of a connection string of ODBC, by their keys in lower case."""
    for text in _texts(url, _ODBC):
        for key, value in _ODBC_PAIR.findall(text):
            plain = value.strip()
            yield key.strip().lower(), plain[1:-1].replace("}}", "}") if plain.startswith("{") else plain


def _unknown_server(key: str) -> InputError:
    """The error does not show the URL, which may contain a password."""
    return InputError(
        f"The URL does not say by one name which server this is (see {key!r} in its query), so what it holds could be "
        "taken for what another server holds.",
        code="bad-source-address",
        hint="Give --namespace, the server's name in lineage, like postgres://db.acme:5432 (docs/naming.md).",
    )
