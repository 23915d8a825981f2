"""In a backlog the indexer refreshes beside its requests, and shows only what was indexed before the refresh began."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

from metajournal.indexer.fill.bulk import BulkWriter
from metajournal.indexer.fill.flights import Flights
from metajournal.indexer.fill.intake import Taken
from metajournal.indexer.fill.patience import Patience
from metajournal.indexer.fill.progress import Outcome, Progress
from metajournal.indexer.fill.runner import Indexer
from metajournal.schemas.settings import Settings
from tests.wait import eventually

STATE, OUTCOMES, JOURNAL = ("state", 0), ("outcomes", 0), ("journal", 0)


class Slow:
    """An Elasticsearch whose refreshes end when they are let go, well or not."""

    def __init__(self) -> None:
        self.indices = SimpleNamespace(refresh=self.refresh)
        self.gates: list[threading.Event] = []
        self.failing = False

    def refresh(self, *, index: str) -> None:
        gate = threading.Event()
        self.gates.append(gate)
        assert gate.wait(60)
        if self.failing:
            raise ConnectionError("gone")

    def close(self) -> None:
        pass


class Backlog:
    """An indexer in the middle of a backlog."""

    def __init__(self) -> None:
        self.server = cast(Any, Slow())
        self.indexer = Indexer(Settings())
        self.indexer._client.close()
        self.indexer._client, self.indexer._backlog = self.server, True
        self.patience = Patience(threading.Event(), lambda _: None)
        self.progress = Progress({}, {}, frozenset({"state"}))
        self.flights = Flights(BulkWriter(self.server, "index", self.patience, 1, 10**7))

    def indexed(self, end: int) -> None:
        self.progress.reached(STATE, end)
        self.progress.changed()
        self.progress.heard(Outcome(OUTCOMES, end, JOURNAL, end, {STATE: end}, 0))

    def step(self) -> int:
        """How far the vector is after a step."""
        self.indexer._refresh_when_due(self.patience, self.progress, self.flights)
        self.progress.settle()
        return self.progress.vector.get(JOURNAL, 0)

    def let_go(self) -> None:
        eventually(lambda: self.server.gates, what="a refresh")
        refresh = self.indexer._refreshing
        self.server.gates[-1].set()
        eventually(lambda: refresh is None or refresh.done(), what="its end")


def test_a_backlogs_refresh_is_not_waited_for_and_shows_what_was_indexed_before_it() -> None:
    backlog = Backlog()
    backlog.indexed(5)
    assert backlog.step() == 0
    backlog.indexed(9)
    assert backlog.step() == 0
    backlog.let_go()
    assert backlog.step() == 5
    assert backlog.progress.unshown
    assert len(backlog.server.gates) == 1  # the next one is not due yet
    backlog.flights.close()


def test_a_refresh_that_failed_shows_nothing_and_the_next_one_does() -> None:
    backlog = Backlog()
    backlog.server.failing = True
    backlog.indexed(5)
    backlog.step()
    backlog.let_go()
    assert backlog.step() == 0
    backlog.server.failing = False
    backlog.indexer._refreshed_s = 0.0
    assert backlog.step() == 0
    eventually(lambda: len(backlog.server.gates) == 2, what="the next refresh")
    backlog.let_go()
    assert backlog.step() == 5
    assert not backlog.progress.unshown
    backlog.flights.close()


def test_documents_of_a_backlog_wait_for_others_however_long_ago_the_last_refresh_was() -> None:
    backlog = Backlog()
    backlog.indexer._indexed(Taken({("default", "dataset:a/b"): {}}, [], {STATE: 5}), backlog.progress)
    backlog.step()
    assert STATE not in backlog.progress.offsets()
    assert not backlog.server.gates
    backlog.indexer._unshown_s = 0.0
    backlog.step()
    backlog.let_go()
    backlog.step()
    assert backlog.progress.offsets()[STATE] == 5
    backlog.flights.close()


def test_more_at_hand_than_one_request_holds_is_a_backlog_and_a_batch_that_its_outcome_ends_is_none() -> None:
    backlog = Backlog()
    outcome, backlogs = Outcome(OUTCOMES, 1, JOURNAL, 1, {}, 0), []
    for full in (False, True):
        backlog.indexer._take(Taken(outcomes=[outcome], full=full), backlog.progress, backlog.flights)
        backlogs.append(backlog.indexer._backlog)
    assert backlogs == [False, True]
    backlog.flights.close()
