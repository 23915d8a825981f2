"""What errors say over HTTP: nothing of servers, folders and settings to those who may be on other machines."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from metajournal.domains.access.directory import RightsNotHeardError
from metajournal.gateway.pages.rebuilds import said_of
from metajournal.gateway.problems import problem_of
from metajournal.indexer.errors import IndexMissingError
from metajournal.schemas.errors import (
    KafkaUnavailableError,
    LakeWriteError,
    NotFinalError,
    NotYetVisibleError,
    OutcomeUnknownError,
    SearchUnavailableError,
    UnavailableError,
)
from metajournal.schemas.settings import GatewaySettings, Settings

REMOTE = (
    GatewaySettings(host="0.0.0.0", behind_proxy=True), GatewaySettings(behind_proxy=True),
    GatewaySettings(host="10.0.0.5", certificate="c", private_key="k"),
)  # fmt: skip
"""The second one: on loopback, behind a proxy of the same machine, whose users are anywhere."""
INNARDS = "kafka-1.internal:9092"


@pytest.mark.parametrize(
    "error",
    [
        KafkaUnavailableError(f"No broker at {INNARDS} answers.", servers=INNARDS, hint=f"Correct {INNARDS}."),
        SearchUnavailableError(f"http://{INNARDS} does not answer.", url=INNARDS),
        IndexMissingError(INNARDS),
        LakeWriteError(f"{INNARDS} is full.", path=INNARDS),
        RightsNotHeardError(f"The topic cannot be followed: {INNARDS}."),
        UnavailableError(INNARDS, code="lake-unavailable", uri=INNARDS),
    ],
    ids=lambda error: str(error.code),
)
def test_a_service_that_does_not_answer_is_told_without_where_it_is(error: UnavailableError) -> None:
    told = problem_of(error, "request-1")
    assert (told.status, told.body["code"], told.headers["Retry-After"]) == (503, error.code, "1")
    assert INNARDS not in json.dumps(told.body)
    assert not set(told.body) - {"title", "status", "code", "detail", "hint", "request_id"}
    assert told.body["detail"].endswith(".")
    assert "request id" in told.body["hint"]
    assert INNARDS in json.dumps(problem_of(error, "request-1", is_local=True).body)


@pytest.mark.parametrize("error", [NotYetVisibleError({"t": 1}), NotFinalError("An event may still come.")])
def test_what_is_not_there_yet_is_told_as_it_is(error: UnavailableError) -> None:
    told = problem_of(error, "request-1")
    assert (told.body["detail"], told.body["hint"]) == (error.message, error.hint)


@pytest.mark.parametrize(
    ("data", "named"), [({"event_id": "0190d5f0-0000-7000-8000-000000000000"}, "0190d5f0-0000-7000-8000-000000000000"),
                        ({"unit_id": "u1", "event_ids": ("e1",)}, "each line with its event_id and repeat")],
)  # fmt: skip
def test_how_to_send_again_what_nobody_acknowledged_is_said_in_the_words_of_http(
    data: dict[str, Any], named: str
) -> None:
    told = problem_of(OutcomeUnknownError("It is not known.", hint="journal.emit(…, repeat=True)", **data), "request-1")
    assert (told.status, told.body["code"]) == (504, "outcome-unknown")
    assert named in told.body["hint"]
    assert "journal.emit" not in told.body["hint"]


@pytest.mark.parametrize("gateway", [GatewaySettings(), GatewaySettings(host="0.0.0.0", loopback_only=True), *REMOTE])
def test_pages_tell_where_services_are_to_this_machine_alone(gateway: GatewaySettings) -> None:
    journal: Any = SimpleNamespace(settings=Settings(gateway=gateway))
    told = said_of(journal, SearchUnavailableError(f"http://{INNARDS} does not answer.", url=INNARDS))
    assert gateway.tells_all is (gateway not in REMOTE)
    assert (INNARDS in told) is gateway.tells_all
