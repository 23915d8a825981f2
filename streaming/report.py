"""What a batch did and how long each of its steps took."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .plan import Part


@dataclass(frozen=True, slots=True)
class Report:
    """What a batch did, for the status file and the logs.

    Attributes:
        verdicts: number of events by outcome.
        oldest_ms: append time of its oldest record, milliseconds UTC; None for an empty batch.
        size_bytes: of its records, as Arrow has them.
        seconds: time of each step, by name; "task ..." are sums over the wide way's tasks, of processor time.
    """

    events: int
    verdicts: Mapping[str, int]
    rows: int
    published: int
    oldest_ms: int | None
    size_bytes: int
    seconds: Mapping[str, float]

    @property
    def took_s(self) -> float:
        """Seconds of the whole batch."""
        return sum(seconds for step, seconds in self.seconds.items() if not step.startswith("task "))


def joined(reports: Sequence[Report]) -> Report:
    """The reports of a batch's pieces as one."""
    verdicts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for report in reports:
        verdicts.update(report.verdicts)
        seconds.update(report.seconds)
    oldest = min((report.oldest_ms for report in reports if report.oldest_ms is not None), default=None)
    events, rows, published, size_bytes = (
        sum(getattr(report, name) for report in reports) for name in ("events", "rows", "published", "size_bytes")
    )
    return Report(events, verdicts, rows, published, oldest, size_bytes, seconds)


def report_of(parts: Sequence[Part], published: int, seconds: Mapping[str, float]) -> Report:
    """The report of a batch from what became of each partition's share."""
    verdicts = sum((part.verdicts for part in parts), Counter[str]())
    oldest = min((part.oldest_ms for part in parts if part.oldest_ms is not None), default=None)
    rows = sum(part.rows for part in parts)
    steps = sorted({step for part in parts for step in part.seconds})
    within = {f"task {step}": sum(part.seconds.get(step, 0.0) for part in parts) for step in steps}
    size_bytes = sum(part.size_bytes for part in parts)
    return Report(verdicts.total(), verdicts, rows, published, oldest, size_bytes, {**seconds, **within})


class Laps:
    """Seconds between named moments."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now
