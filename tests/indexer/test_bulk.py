"""Bulk requests that fail in part: each item gets what its own answer asks for. (The server is scripted.)"""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from elastic_transport import ApiResponseMeta, ConnectionTimeout, HttpHeaders, NodeConfig
from elasticsearch import ApiError

from metajournal.domains.catalog.urns import dataset
from metajournal.indexer.errors import IndexerError
from metajournal.indexer.fill.bulk import BulkWriter
from metajournal.indexer.fill.patience import Patience, StartOver, Stopped
from tests.indexer.corpus import state

STATES = [state(dataset("default", f"d{number}"), user={"n": str(number)}, offset=number) for number in range(4)]
_META = ApiResponseMeta(413, "1.1", HttpHeaders(), 0.0, NodeConfig("http", "h", 1))


class Script:
    """An Elasticsearch that answers by a script: an exception, or a status for each item."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[list[str]] = []

    def perform_request(self, method: str, target: str, *, headers: Any, body: bytes) -> Any:
        lines = body.decode().splitlines()
        documents = [json.loads(line) for line in lines[1::2]]
        self.sent.append([document["urn"][-2:] + ("!" if document.get("unindexed") else "") for document in documents])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        statuses = answer if isinstance(answer, list) else [answer] * len(documents)
        items = [{"index": {"status": status, "error": {"type": "t", "reason": "r"}}} for status in statuses]
        return SimpleNamespace(body={"items": items})


class Clock(threading.Event):
    """Nobody waits for real: notes for how long."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_s.append(timeout or 0.0)
        return self.is_set()


def failure(status: int) -> ApiError:
    """The server's answer to a request as a whole."""
    return ApiError("bad", ApiResponseMeta(status, "1.1", HttpHeaders(), 0.0, NodeConfig("http", "h", 1)), {})


def writer(
    script: Script, messages: list[str] | None = None, stop: threading.Event | None = None, **bounds: int
) -> BulkWriter:
    sink = messages if messages is not None else []
    patience = Patience(stop or threading.Event(), sink.append)
    bounds = {"max_documents": 100, "max_bytes": 10**7, **bounds}
    return BulkWriter(script, "index", patience, **bounds)  # type: ignore[arg-type]


def test_only_items_that_the_server_could_not_take_are_sent_again() -> None:
    script = Script([201, 429, 409, 503], [429, 200], 200)
    messages: list[str] = []
    bulk = writer(script, messages)
    bulk.write(STATES)
    assert script.sent == [["d0", "d1", "d2", "d3"], ["d1", "d3"], ["d1"]]
    assert (bulk.counts.indexed, bulk.counts.superseded, bulk.counts.reduced) == (3, 1, 0)
    assert any("cannot take documents" in text for text in messages)
    assert messages[-1] == ""


def test_a_request_that_got_no_answer_is_sent_again() -> None:
    script = Script(ConnectionTimeout("slow"), ConnectionTimeout("slow"), 200)
    writer(script).write(STATES)
    assert len(script.sent) == 3


def test_a_refused_document_goes_in_reduced() -> None:
    script = Script([200, 400, 200, 200], 200)
    bulk = writer(script)
    bulk.write(STATES)
    assert script.sent[1] == ["d1!"]
    assert bulk.counts.reduced == 1


def test_a_document_that_is_refused_twice_is_passed_over_where_another_one_is_taken() -> None:
    script = Script([200, 400, 200, 413], [400, 400], 409)
    bulk = writer(script)
    bulk.write(STATES)
    assert script.sent == [["d0", "d1", "d2", "d3"], ["d1!", "d3!"], ["in"]]
    assert (bulk.counts.indexed, bulk.counts.refused) == (2, 2)


def test_an_index_that_refuses_every_document_stops_the_indexer() -> None:
    for answer in (400, 403, failure(400)):
        with pytest.raises(IndexerError, match="d1"):
            writer(Script([200, 400, 200, 200], 400, answer)).write(STATES)


def test_a_refusal_that_is_no_documents_own_fault_stops_the_indexer() -> None:
    with pytest.raises(IndexerError, match="d1, reduced too: 403"):
        writer(Script([200, 400, 200, 200], 403)).write(STATES)
    for refusal in ([200, 403, 200, 200], failure(405)):
        with pytest.raises(IndexerError, match=r"d\d: 40[35]"):
            writer(script := Script(refusal)).write(STATES)
        assert len(script.sent) == 1


@pytest.mark.parametrize("status", [500, 503, 507])
def test_a_document_that_the_server_fails_at_is_sent_again_as_it_is(status: int) -> None:
    """It went into the index in its reduced form, for good, since the whole one has the same version."""
    bulk = writer(script := Script([200, status, 200, 200], [status], failure(status), 200), stop=Clock())
    bulk.write(STATES)
    assert script.sent[1:] == [["d1"]] * 3
    assert (bulk.counts.indexed, bulk.counts.reduced) == (4, 0)


def test_a_request_that_the_server_fails_at_is_sent_again_as_it_is() -> None:
    bulk = writer(script := Script(failure(500), failure(500), 200), stop=Clock())
    bulk.write(STATES)
    assert script.sent == [["d0", "d1", "d2", "d3"]] * 3
    assert bulk.counts.reduced == 0


def test_what_the_server_cannot_take_is_sent_again_ever_later_and_told_once() -> None:
    """Each answer ended the outage, so it was sent again ten times a second, with two lines of the log each time."""
    messages: list[str] = []
    bulk = writer(Script([200, 429, 200, 500], *[429] * 7, [429, 200], 200, 429, 200), messages, clock := Clock())
    bulk.write(STATES)
    bulk.write(STATES[:1])
    growing = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert clock.waited_s == pytest.approx([*growing, 0.1])
    assert [bool(text) for text in messages] == [*[True] * len(growing), False, True, False]


def test_a_server_that_is_busy_is_waited_for_before_a_document_is_passed_over() -> None:
    script = Script([200, 400, 200, 200], 400, 429, 500, failure(500), 409)
    bulk = writer(script, stop=(clock := Clock()))
    bulk.write(STATES)
    assert script.sent[2:] == [["in"]] * 4
    assert clock.waited_s == pytest.approx([0.1, 0.2, 0.4])
    assert bulk.counts.refused == 1


def test_an_index_that_is_gone_meanwhile_starts_the_indexer_over() -> None:
    with pytest.raises(StartOver):
        writer(Script([200, 400, 200, 200], 400, 404)).write(STATES)


def test_a_state_that_no_document_can_be_made_of_is_passed_over() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"deeper": deep}
    bulk = writer(script := Script(200))
    bulk.write([STATES[0], {**STATES[1], "record": deep}, STATES[2]])
    assert script.sent == [["d0", "d2"]]
    assert bulk.counts.refused == 1


def test_a_request_refused_as_a_whole_is_taken_apart() -> None:
    refusal = ApiError("too large", _META, {})
    script = Script(refusal, 200, refusal, 200, 200, 200)
    bulk = writer(script)
    bulk.write(STATES)
    assert script.sent[1:] == [["d0"], ["d1"], ["d1!"], ["d2"], ["d3"]]
    assert bulk.counts.reduced == 1


def test_requests_keep_to_the_bounds() -> None:
    script = Script(200, 200)
    writer(script, max_documents=3).write(STATES)
    assert [len(sent) for sent in script.sent] == [3, 1]
    script = Script(200, 200, 200, 200)
    writer(script, max_bytes=10).write(STATES)
    assert [len(sent) for sent in script.sent] == [1, 1, 1, 1]


def test_an_index_that_is_gone_starts_the_indexer_over() -> None:
    with pytest.raises(StartOver):
        writer(Script([404, 404, 404, 404])).write(STATES)


def test_waiting_ends_when_the_owner_says_stop() -> None:
    stop = threading.Event()
    stop.set()
    bulk = BulkWriter(Script(429), "index", Patience(stop, lambda _: None), 10, 10**6)  # type: ignore[arg-type]
    with pytest.raises(Stopped):
        bulk.write(STATES)
