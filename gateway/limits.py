"""How much one key may ask: a bucket of tokens each, filled at a steady rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from .problems import HttpError

_KEPT: Final = 10_000
"""Most keys whose buckets are kept; a forgotten one is full again."""


class Buckets:
    """The buckets of all keys; of one thread.

    Args:
        rate: requests a second that a key may ask for in the long run; 0: as many as it likes.
        burst: requests that it may ask for at once.
        clock: seconds, monotonic.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(max(1, burst))
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key_id: str) -> None:
        """Take one token. Raises: HttpError: 429: there is none."""
        if not self._rate:
            return
        now = self._clock()
        tokens, since = self._buckets.pop(key_id, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        self._buckets[key_id] = (max(0.0, tokens - 1), now) if tokens >= 1 else (tokens, now)
        if len(self._buckets) > _KEPT:
            self._buckets.popitem(last=False)
        if tokens < 1:
            after_s = max(1, round((1 - tokens) / self._rate))
            raise HttpError(
                429, f"This key asks for more than {self._rate:g} requests a second.", code="too-many-requests",
                hint=f"Wait {after_s} s.", headers={"Retry-After": str(after_s)},
            )  # fmt: skip
