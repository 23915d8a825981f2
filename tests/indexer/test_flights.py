"""Requests under way: how many, whose answers count when, and what failing ones leave. (A scripted server.)"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from elastic_transport import ConnectionError as NoConnection

from metajournal.domains.catalog.urns import dataset
from metajournal.indexer.fill.bulk import BulkWriter
from metajournal.indexer.fill.flights import AT_ONCE, Flights
from metajournal.indexer.fill.patience import Patience, StartOver
from tests.indexer.corpus import State, state
from tests.wait import eventually


class HeldServer:
    """An Elasticsearch that answers each request when it is let go, in any order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.gates: list[threading.Event] = []
        self.answers: dict[int, Any] = {}

    def perform_request(self, method: str, target: str, *, headers: Any, body: bytes) -> Any:
        with self.lock:
            number, gate = len(self.gates), threading.Event()
            self.gates.append(gate)
        assert gate.wait(10)
        answer = self.answers.get(number, 201)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(body={"items": [{"index": {"status": answer}}] * (body.count(b"\n") // 2)})


def states(count: int) -> list[State]:
    return [state(dataset("default", f"d{number}"), offset=number) for number in range(count)]


def flights(server: HeldServer, size: int = 1) -> Flights:
    patience = Patience(threading.Event(), lambda _: None)
    return Flights(BulkWriter(server, "index", patience, size, 10**7))  # type: ignore[arg-type]


def test_what_follows_some_documents_happens_only_when_they_and_all_before_them_are_indexed() -> None:
    server, happened = HeldServer(), list[str]()
    flying = flights(server)
    flying.send(states(1))
    flying.then(lambda: happened.append("first"))
    flying.send(states(1))
    flying.then(lambda: happened.append("second"))
    eventually(lambda: len(server.gates) == AT_ONCE, what="both requests")
    server.gates[1].set()
    flying.land(AT_ONCE)
    assert happened == []
    server.gates[0].set()
    flying.land(1)
    assert happened == ["first"]
    flying.land()
    assert happened == ["first", "second"]
    flying.close()
    assert flying.writer.counts.indexed == 2


def test_no_more_requests_than_allowed_are_under_way() -> None:
    server = HeldServer()
    flying = flights(server)
    sender = threading.Thread(target=flying.send, args=(states(AT_ONCE + 1),))
    sender.start()
    eventually(lambda: len(server.gates) == AT_ONCE, what="the first requests")
    sender.join(0.2)
    assert sender.is_alive()
    assert len(server.gates) == AT_ONCE
    server.gates[0].set()
    eventually(lambda: len(server.gates) == AT_ONCE + 1, what="the next request")
    for gate in server.gates:
        gate.set()
    sender.join(10)
    flying.land()
    flying.close()


def test_a_slow_answer_keeps_no_other_place_empty_and_still_comes_first() -> None:
    server, happened = HeldServer(), list[str]()
    flying = flights(server)
    sender = threading.Thread(target=flying.send, args=(states(AT_ONCE + 1),))
    sender.start()
    eventually(lambda: len(server.gates) == AT_ONCE, what="the first requests")
    server.gates[1].set()
    eventually(lambda: len(server.gates) == AT_ONCE + 1, what="the next request, while the first has no answer")
    sender.join(10)
    server.gates[2].set()
    flying.then(lambda: happened.append("indexed"))
    flying.land_answered()
    assert happened == []
    assert flying.writer.counts.indexed == 0
    server.gates[0].set()
    flying.land()
    flying.close()
    assert happened == ["indexed"]
    assert flying.writer.counts.indexed == 3


def test_a_request_without_an_answer_is_sent_again_before_anything_counts() -> None:
    server, happened = HeldServer(), list[str]()
    server.answers[0] = NoConnection("gone")
    flying = flights(server)
    flying.send(states(1))
    flying.then(lambda: happened.append("indexed"))
    eventually(lambda: len(server.gates) == 1, what="the request")
    server.gates[0].set()
    lander = threading.Thread(target=flying.land)
    lander.start()
    eventually(lambda: len(server.gates) == 2, what="the same request again")
    assert happened == []
    server.gates[1].set()
    lander.join(10)
    flying.close()
    assert happened == ["indexed"]


def test_after_a_lost_index_nothing_of_before_counts() -> None:
    server, happened = HeldServer(), list[str]()
    server.answers[0] = 404
    flying = flights(server)
    flying.send(states(2))
    flying.then(lambda: happened.append("indexed"))
    eventually(lambda: len(server.gates) == 2, what="the requests")
    for gate in server.gates:
        gate.set()
    with pytest.raises(StartOver):
        flying.land()
    flying.forget()
    flying.land()
    flying.close()
    assert happened == []
