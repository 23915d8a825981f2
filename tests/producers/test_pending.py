"""What a unit waits for: the latest event of each of its keys, and nothing that is acknowledged already."""

from __future__ import annotations

import time
from typing import Any

import pytest

from metajournal.producers import pending
from metajournal.producers.pending import LatestEmits
from metajournal.producers.receipts import Receipt


class Report:
    """A delivery report as librdkafka hands it out."""

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 1

    def timestamp(self) -> tuple[int, int]:
        return 2, 3


def receipt(*, acknowledged: bool = False) -> Receipt:
    journal: Any = None
    made = Receipt(bytes(16), journal)
    if acknowledged:
        acknowledge(made)
    return made


def acknowledge(one: Receipt) -> None:
    report: Any = Report()
    one.delivered(None, report)


def test_memory_follows_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "_LEAST", 10)
    latest = LatestEmits()
    latest._limit = 10
    waiting = set(range(0, 1000, 100))
    for number in range(1000):
        latest.by_key[str(number).encode()] = receipt(acknowledged=number not in waiting)
        latest.tidy()
        assert len(latest.by_key) <= 2 * len(waiting) + 1
    assert {int(key) for key, one in latest.by_key.items() if one.pending} == waiting


def test_an_event_emitted_while_others_are_dropped_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at an entry and its removal another thread emits under the same key."""

    class Racing(dict[bytes, Receipt]):
        def pop(self, key: bytes, default: Any = None) -> Any:
            self[key] = newer
            return super().pop(key, default)

    newer = receipt()
    latest = LatestEmits()
    latest.by_key = Racing({b"a": receipt(acknowledged=True)})
    latest._limit = 0
    latest.tidy()
    assert latest.by_key == {b"a": newer}


def test_only_the_asked_keys_are_waited_for_and_in_time() -> None:
    latest = LatestEmits()
    latest.by_key |= {b"done": receipt(acknowledged=True), b"slow": receipt(), b"other": receipt()}
    served: list[float] = []

    def serve(timeout_s: float) -> None:
        served.append(timeout_s)
        if len(served) == 3:
            acknowledge(latest.by_key[b"slow"])

    assert latest.settled([b"done", b"never emitted"], serve, time.monotonic() + 5)
    assert served == []
    assert latest.settled([b"slow", b"done"], serve, time.monotonic() + 5)
    assert len(served) == 3
    assert not latest.settled([b"other"], serve, time.monotonic())
