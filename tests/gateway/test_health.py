"""What a server's own port says of a client of Kafka's that sends nothing more."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from metajournal.gateway.figures import GatewayFigures
from metajournal.gateway.health import Operator, Readiness
from tests.producers.mocked import fail_for_good, mocked_emitter
from tests.wait import eventually


def asked(operator: Operator, path: str) -> tuple[int, bytes]:
    """Status and body."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    asyncio.run(operator(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def test_where_only_a_restart_helps_the_server_says_so() -> None:
    emitter = mocked_emitter()
    try:
        served = SimpleNamespace(emitter=emitter)
        operator = Operator(Readiness(cast(Any, served), cast(Any, None)), GatewayFigures().figures)
        assert asked(operator, "/healthz") == (200, b"ok\n")
        fail_for_good(emitter._producer)
        eventually(lambda: emitter.ended, what="the error")
        status, body = asked(operator, "/healthz")
        assert status == 503
        assert b"this is the end" in body
        assert b"restart" in body
    finally:
        emitter.close(5)
