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
        lacking = self.lacks(key_id)
        if lacking:
            after_s = max(1, round(lacking / self._rate))
            raise HttpError(
                429, f"This key asks for more than {self._rate:g} requests a second.", code="too-many-requests",
                hint=f"Wait {after_s} s.", headers={"Retry-After": str(after_s)},
            )  # fmt: skip

    def lacks(self, key_id: str) -> float:
        """Take one token; 0.0, or how much of one is lacking, so that none is taken."""
        if not self._rate:
            return 0.0
        now = self._clock()
        tokens, since = self._buckets.pop(key_id, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        self._buckets[key_id] = (max(0.0, tokens - 1), now) if tokens >= 1 else (tokens, now)
        if len(self._buckets) > _KEPT:
            self._buckets.popitem(last=False)
        return max(0.0, 1 - tokens)


class Failures:
    """How often an address may fail; of one thread.

    Args:
        most: failures at once.
        every_s: seconds after which one is forgotten.
        clock: seconds, monotonic.
    """

    def __init__(self, most: int, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._every_s = every_s
        self._clock = clock
        self._failed: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Refuse an address that has failed too often. Raises: HttpError: 429."""
        failed = self._now(address)
        if failed > self._most - 1:
            after_s = max(1, round((failed - self._most + 1) * self._every_s))
            raise HttpError(
                429, "Too many logins from this address failed.", code="too-many-failures",
                hint=f"Wait {after_s} s.", headers={"Retry-After": str(after_s)},
            )  # fmt: skip

    def add(self, address: str) -> None:
        """Count a failure."""
        self._failed[address] = (self._now(address) + 1, self._clock())
        self._failed.move_to_end(address)
        if len(self._failed) > _KEPT:
            self._failed.popitem(last=False)

    def _now(self, address: str) -> float:
        failed, since = self._failed.get(address, (0.0, 0.0))
        return max(0.0, failed - (self._clock() - since) / self._every_s)
