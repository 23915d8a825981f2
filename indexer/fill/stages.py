"""What a rebuild of the index tells meanwhile: its phase, how far it is, how fast, how long it still takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """What a rebuild tells of itself.

    Args:
        phase: `load`, `catch-up`, `compare` or `swap`.
        done: entities so far; of about `total`.
        rate: entities a second in this phase, 0 where none are counted.
        left_s: seconds left in this phase, None where unknown.
    """

    phase: str
    done: int = 0
    total: int = 0
    rate: float = 0.0
    left_s: float | None = None


class Pace:
    """Turns counts into rate and time left, and tells them a few times a second."""

    def __init__(self, phase: str, done: int, total: int, tell: Callable[[Stage], None]) -> None:
        self._phase, self._from, self._total, self._tell = phase, done, total, tell
        self._began_s = time.monotonic()

    def reached(self, done: int, total: int | None = None) -> None:
        """So many are done."""
        whole = max(self._total if total is None else total, done)
        rate = (done - self._from) / max(time.monotonic() - self._began_s, 1e-6)
        self._tell(Stage(self._phase, done, whole, round(rate, 1), round((whole - done) / rate, 1) if rate else None))
