"""The stream's status file: how far the lake is behind, at any moment."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from metajournal.lake.columns import TIMESTAMP
from metajournal.streaming import status
from metajournal.streaming.report import Report
from metajournal.streaming.runner import _oldest_ms
from metajournal.streaming.status import StatusFile

BEGIN_S = 1_800_000_000.0
MARKS = {("metajournal.journal.catalog", 0): 7}


class Clock:
    """Passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = BEGIN_S

    def time(self) -> float:
        return self.now_s

    monotonic = time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(status, "time", clock)
    return clock


def freshness(home: Path) -> float | None:
    told: float | None = json.loads((home / "stream.json").read_text())["freshness_s"]
    return told


def report(oldest_s: float) -> Report:
    return Report(1, {"accepted": 1}, 1, 3, int(oldest_s * 1000), 400, {})


def test_the_lake_is_behind_by_the_batch_in_hand_and_not_by_the_quiet_before_it(tmp_path: Path, clock: Clock) -> None:
    file = StatusFile(str(tmp_path), "stream")
    file.begins(MARKS, MARKS)
    file.say("running", "")
    file.batch(MARKS, report(clock.now_s - 1), 0.1)
    clock.now_s += 111
    file.beat()
    assert freshness(tmp_path) == 0
    file.folding()
    clock.now_s += 12
    file.beat()
    assert freshness(tmp_path) == 12
    file.folding(oldest_ms=(clock.now_s - 13) * 1000)
    clock.now_s += 2
    file.beat()
    assert freshness(tmp_path) == 15
    file.batch(MARKS, report(clock.now_s - 15), 0.1)
    clock.now_s += 2
    file.beat()
    assert freshness(tmp_path) == 0


def test_a_batch_that_cannot_end_is_still_behind_while_the_stream_waits(tmp_path: Path, clock: Clock) -> None:
    file = StatusFile(str(tmp_path), "stream")
    file.begins(MARKS, MARKS)
    file.say("running", "")
    file.folding()
    clock.now_s += 5
    file.say("waiting", "Kafka does not answer")
    clock.now_s += 5
    file.beat()
    assert freshness(tmp_path) == 10


def test_a_stream_that_begins_behind_the_journals_end_does_not_know_how_far_until_it_has_been_there(
    tmp_path: Path, clock: Clock
) -> None:
    file, end = StatusFile(str(tmp_path), "stream"), {place: mark + 2 for place, mark in MARKS.items()}
    file.begins(MARKS, end)
    file.say("running", "")
    for _ in range(3):
        assert freshness(tmp_path) is None
        clock.now_s += 2
        file.beat()
    file.folding()
    clock.now_s += 2
    file.beat()
    assert freshness(tmp_path) is None, "how old its records are is not told yet"
    file.batch({place: mark + 1 for place, mark in MARKS.items()}, report(clock.now_s - 40), 0.1)
    assert freshness(tmp_path) is None, "written at most once a second"
    clock.now_s += 1
    file.beat()
    assert freshness(tmp_path) == 40
    clock.now_s += 2
    file.beat()
    assert freshness(tmp_path) is None, "one of two is folded"
    file.batch(end, report(clock.now_s - 43), 0.1)
    clock.now_s += 2
    file.beat()
    assert freshness(tmp_path) == 0


def test_a_stream_that_waits_without_a_batch_in_hand_does_not_know_how_far_behind_it_is(
    tmp_path: Path, clock: Clock
) -> None:
    file = StatusFile(str(tmp_path), "stream")
    file.begins(MARKS, MARKS)
    file.say("running", "")
    assert freshness(tmp_path) == 0
    file.say("waiting", "Spark lost Kafka")
    assert freshness(tmp_path) is None


def test_the_oldest_record_of_a_batch_is_known_to_the_millisecond() -> None:
    times = pa.array([1_760_000_000_500_000, 1_760_000_000_250_000], TIMESTAMP)
    assert _oldest_ms(pa.table({"timestamp": times})) == 1_760_000_000_250
    assert _oldest_ms(pa.table({"timestamp": times[:0]})) is None
