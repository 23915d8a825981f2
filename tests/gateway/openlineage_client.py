"""OpenLineage's real client before a server of the tests, and plain events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from openlineage.client import OpenLineageClient
from openlineage.client.serde import Serde
from openlineage.client.transport.async_http import AsyncHttpConfig, AsyncHttpTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport

from metajournal.schemas.urn import Urn
from tests.gateway.serving import ADMIN, Served

LINEAGE, BATCH = "/api/v1/lineage", "/api/v1/lineage/batch"


@contextmanager
def client(server: Served, *, asynchronous: bool, key: str = ADMIN, **more: Any) -> Iterator[OpenLineageClient]:
    """The real client with key and gzip; afterwards everything that it sent was answered."""
    config = {
        "url": f"http://{server.address}", "auth": {"type": "api_key", "apiKey": key}, "compression": "gzip", **more,
    }  # fmt: skip
    transport: Any = (
        AsyncHttpTransport(AsyncHttpConfig.from_dict(config)) if asynchronous
        else HttpTransport(HttpConfig.from_dict(config))
    )  # fmt: skip
    made = OpenLineageClient(transport=transport)
    try:
        yield made
    finally:
        assert made.close(timeout=120)
    if asynchronous:
        assert transport.get_stats()["failed"] == 0


def plain(event: Any) -> dict[str, Any]:
    """An event of the client as JSON has it."""
    value: dict[str, Any] = json.loads(Serde.to_json(event))
    return value


def entity(server: Served, urn: Urn) -> dict[str, Any] | None:
    """An entity, as every acknowledged event makes it; None: it is not there."""
    found = server.get(f"/api/v1/entities?urn={quote(str(urn), safe='')}")
    assert found.status in (200, 404), found.body
    value: dict[str, Any] | None = found.json if found.status == 200 else None
    return value


def event(output: str = "orders", hour: int = 12, run_id: str = "r1", **more: Any) -> dict[str, Any]:
    """A run event that writes data with a description, which names the hour."""
    facets = more.pop("facets", {"documentation": {"description": f"at {hour}"}})
    whole = {
        "eventType": "COMPLETE", "eventTime": f"2026-01-01T{hour:02}:00:00Z", "run": {"runId": run_id},
        "job": {"namespace": "jobs", "name": "load"},
        "outputs": [{"namespace": "s3://shop", "name": output, "facets": facets}],
    }  # fmt: skip
    return {**whole, **more}
