"""Requests made of the gateway's own description: whatever comes, the answer is one that it declares.

Looked at are the status, the content type and the body's schema of each answer, and that nothing fails inside: of the
500s only 503 and 504 are answers. `make test` makes the same few requests in every run, `make faults` others for ten
minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from metajournal import EntityRegistered, dataset
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.faults.scale import LONG, seeded, times
from tests.gateway.browsing import member
from tests.gateway.indexed import index
from tests.gateway.serving import Served, served
from tests.wait import eventually

LONG_S: Final = 600.0
_EXAMPLES: Final = 4
_ENDLESS: Final = ("GET", "/api/v1/changes")
"""The feed: an answer that does not end cannot be looked at as a whole; `test_feed` reads it."""
_CHECKED: Final = (
    "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance",
)  # fmt: skip
_NOT_NOW: Final = (503, 504)
_TIMEOUT_S: Final = 60


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        running.journal.emit(EntityRegistered(dataset("default", "orders"), properties={"owner": "ada"}, tags=["new"]))
        running.journal.flush()
        index(running, gateway_settings)
        yield running


@pytest.fixture(scope="module")
def key(server: Served) -> str:
    found = member(server.journal, "root", ("admin", "*"))
    eventually(lambda: server.get("/api/v1/access/me", key=found).status == 200)
    return found


def operations(server: Served) -> list[Any]:
    """Every operation of the description that ends."""
    described = schemathesis.openapi.from_dict(server.get("/openapi.json", key=None).json)
    found: list[Any] = [result.ok() for result in described.get_all_operations()]  # type: ignore[union-attr]
    assert len(found) > 90
    return [one for one in found if (one.method.upper(), one.path) != _ENDLESS]


def fuzz(operation: Any, mode: GenerationMode, address: str, key: str, *, examples: int, number: int) -> None:
    """Some requests of an operation, each held against what is declared of it."""

    @seed(number)
    @settings(
        max_examples=examples, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        answer = case.call(base_url=f"http://{address}", headers={"Authorization": f"Bearer {key}"}, timeout=_TIMEOUT_S)
        assert answer.status_code < 500 or answer.status_code in _NOT_NOW, answer.text
        case.validate_response(answer, checks=[CHECKS.get_one(name) for name in _CHECKED])

    ask()


@pytest.mark.services
def test_whatever_is_asked_the_answer_is_one_that_is_declared(server: Served, key: str) -> None:
    until = time.monotonic() + times(0.0, LONG_S)
    numbers = seeded("fuzz") if LONG else Random("the same in every run")
    found = operations(server)
    failed: dict[str, str] = {}
    while True:
        number = numbers.randrange(1 << 32)
        for operation in found:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                try:
                    fuzz(operation, mode, server.address, key, examples=_EXAMPLES, number=number)
                except BaseExceptionGroup as group:
                    failed.setdefault(operation.label, str(group.exceptions[0]))
                except AssertionError as error:
                    failed.setdefault(operation.label, str(error))
                except Unsatisfiable:
                    assert mode is GenerationMode.NEGATIVE  # nothing of it can be wrong: it takes any text, or nothing
        if time.monotonic() > until:
            break
    assert not failed, "\n\n".join(f"{label}: {text}" for label, text in failed.items())
