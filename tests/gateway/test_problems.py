"""What errors say over HTTP: nothing of servers, folders and settings to those who may be on other machines."""

from __future__ import annotations

import json

import pytest

from metajournal.domains.access.directory import RightsNotHeardError
from metajournal.gateway.problems import problem_of
from metajournal.indexer.errors import IndexMissingError
from metajournal.schemas.errors import (
    KafkaUnavailableError,
    LakeWriteError,
    NotFinalError,
    NotYetVisibleError,
    SearchUnavailableError,
    UnavailableError,
)

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
