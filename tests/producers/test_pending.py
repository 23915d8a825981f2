"""What a unit waits for: the latest event of each of its keys, and nothing that is acknowledged already."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from metajournal.producers import pending
from metajournal.producers.pending import LatestEmits
from metajournal.producers.receipts import Receipt
from metajournal.schemas.errors import OutcomeUnknownError


class Report:
    """A delivery report as librdkafka hands it out."""

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 1

    def timestamp(self) -> tuple[int, int]:
        return 2, 3


def some() -> int:
    """Events without a delivery report."""
    return 1


def receipt(*, acknowledged: bool = False) -> Receipt:
    journal: Any = None
    made = Receipt(bytes(16), journal)
    if acknowledged:
        acknowledge(made)
    return made


def acknowledge(one: Receipt) -> None:
    report: Any = Report()
    one.delivered(None, report)


def in_thread(call: Callable[[], None]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def noted(latest: LatestEmits) -> list[tuple[bytes, Receipt]]:
    """All entries, of every thread."""
    return [entry for one in latest._noted for entry in one.by_key.items()]


def test_memory_follows_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "_LEAST", 10)
    latest = LatestEmits()
    latest._limit = 10
    waiting = set(range(0, 1000, 100))

    def emit(numbers: range) -> None:
        for number in numbers:
            latest.own.by_key[str(number).encode()] = receipt(acknowledged=number not in waiting)
            latest.tidy()
            assert len(noted(latest)) <= 2 * len(waiting) + 1

    emit(range(500))
    in_thread(lambda: emit(range(500, 1000)))
    assert {int(key) for key, one in noted(latest) if one.pending} == waiting


def test_threads_that_have_ended_leave_only_what_waits() -> None:
    latest = LatestEmits()
    waiting = [receipt() for _ in range(20)]

    def emit(number: int) -> None:
        waits = number % 100 == 0
        latest.own.by_key[b"a"] = waiting[number // 100] if waits else receipt(acknowledged=True)

    for number in range(2000):
        in_thread(partial(emit, number))
        assert len(latest._noted) <= pending._LEAST_THREADS
    assert [one for _, one in noted(latest) if one.pending] == waiting


def test_threads_that_emit_under_one_key_are_all_waited_for() -> None:
    """The one that noted its event last is not always the one whose event is in the queue last."""
    latest, mine, others = LatestEmits(), receipt(acknowledged=True), receipt()
    in_thread(lambda: latest.own.by_key.update({b"a": others}))
    latest.own.by_key[b"a"] = mine
    assert not latest.settled([b"a"], lambda _: None, time.monotonic(), some)
    assert not latest.settled(None, lambda _: None, time.monotonic(), some)
    acknowledge(others)
    assert latest.settled([b"a"], lambda _: None, time.monotonic(), some)
    assert latest.settled(None, lambda _: None, time.monotonic(), some)


def test_an_event_emitted_while_others_are_dropped_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at an entry and its removal another thread emits under the same key."""

    class Racing(dict[bytes, Receipt]):
        def pop(self, key: bytes, default: Any = None) -> Any:
            self[key] = newer
            return super().pop(key, default)

    newer = receipt()
    by_key = Racing({b"a": receipt(acknowledged=True)})
    assert pending._drop_acknowledged(by_key)
    assert by_key == {b"a": newer}


def test_only_the_asked_keys_are_waited_for_and_in_time() -> None:
    latest = LatestEmits()
    latest.own.by_key.update({b"done": receipt(acknowledged=True), b"slow": receipt(), b"other": receipt()})
    served: list[float] = []

    def serve(timeout_s: float) -> None:
        served.append(timeout_s)
        if len(served) == 3:
            acknowledge(latest.own.by_key[b"slow"])

    assert latest.settled([b"done", b"never emitted"], serve, time.monotonic() + 5, some)
    assert served == []
    assert latest.settled([b"slow", b"done"], serve, time.monotonic() + 5, some)
    assert len(served) == 3
    assert not latest.settled([b"other"], serve, time.monotonic(), some)


def test_who_has_lost_its_report_is_not_waited_for() -> None:
    latest, failed = LatestEmits(), list[Receipt]()
    journal: Any = SimpleNamespace(failed=failed.append)
    latest.own.by_key[b"a"] = lost = Receipt(bytes(16), journal)
    assert latest.settled(None, lambda _: pytest.fail("nothing is left"), time.monotonic() + 5, lambda: 0)
    assert failed == [lost]
    assert isinstance(lost.failure(), OutcomeUnknownError)
