"""The Elasticsearch client, and its exceptions as metajournal's errors."""

from __future__ import annotations

import logging
from typing import Any, Final

from elastic_transport import ConnectionError as NoConnection
from elastic_transport import ConnectionTimeout, TlsError, TransportError
from elasticsearch import ApiError, Elasticsearch
from elasticsearch.serializer import JsonSerializer

from ..schemas.errors import ConfigError
from ..schemas.setting_keys import hidden_texts, scrubbed, url_shown
from ..schemas.settings import Settings
from .spelling import read

logging.getLogger("elastic_transport").addHandler(logging.NullHandler())  # its warnings are ours to tell

AWAY_STATUS: Final = frozenset({408, 429, 502, 503, 504})
"""Answers that waiting may mend."""

REFUSED_STATUS: Final = frozenset({401, 403})
"""Answers that only another key mends."""


class _Json(JsonSerializer):
    """Answers hold whole documents, and requests many terms: JSON is read and written as fast as possible."""

    def json_loads(self, data: bytes) -> Any:
        return read(data)


def make_client(settings: Settings, *, timeout_s: float = 30.0) -> Elasticsearch:
    """A client that never retries by itself: who calls knows how long to wait and says so.

    Raises:
        ConfigError: url, certificate or key cannot be used.
    """
    wanted = settings.elasticsearch
    options: dict[str, Any] = {"serializers": {_Json.mimetype: _Json()}}
    if wanted.ca:
        options["ca_certs"] = wanted.ca
    if wanted.api_key:
        options["api_key"] = wanted.api_key
    try:
        return Elasticsearch(
            wanted.url, request_timeout=timeout_s, max_retries=0, retry_on_timeout=False, http_compress=False, **options
        )
    except (ValueError, TypeError, OSError) as error:
        why = scrubbed(str(error).replace(wanted.url, url_shown(wanted.url)), hidden_texts(settings))
        raise ConfigError(f"elasticsearch.url {url_shown(wanted.url)!r} cannot be used: {why}.") from error


def url_of(client: Elasticsearch) -> str:
    """Where a client asks, without credentials."""
    return next(iter(client.transport.node_pool.all())).base_url


def is_away(error: Exception) -> bool:
    """Whether an exception of the client means that the server does not answer now, so that waiting may help."""
    if isinstance(error, ApiError):
        return error.status_code in AWAY_STATUS or error.error == "cluster_block_exception"
    return isinstance(error, TransportError)


def is_failed_search(error: Exception) -> bool:
    """Whether a search failed on every shard. Of a point in time that means as much as that it cannot be read."""
    return isinstance(error, ApiError) and error.error == "search_phase_execution_exception"


def is_no_connection(error: Exception) -> bool:
    """Whether nobody took the connection: nothing was asked, and nothing runs there."""
    return isinstance(error, NoConnection) and not isinstance(error, TlsError | ConnectionTimeout)


def is_refused(error: Exception) -> bool:
    """Whether the server refuses this client for good."""
    return isinstance(error, ApiError) and error.status_code in REFUSED_STATUS and not is_away(error)


def cause_of(error: ApiError) -> str:
    """Elasticsearch's own words for what is wrong, from the innermost cause that it names."""
    cause: Any = error.body
    cause = cause.get("error") if isinstance(cause, dict) else None
    while isinstance(cause, dict) and isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    reason = cause.get("reason") if isinstance(cause, dict) else None
    return str(reason or error.error)[:200].rstrip(".")


def reason_of(error: Exception) -> str:
    """One line that says what happened."""
    if isinstance(error, ApiError):
        return f"{error.status_code} {error.error}"
    if isinstance(error, NoConnection):
        return "no connection"
    return type(error).__name__
