"""What this process knows to stand of facets, or not to be kept, so that those that say it again are not looked up nor
sent.

Bounded; what it has forgotten is looked up again, and so is, once a minute, the latest of each facet: its entity may
have been deleted and registered again, or the property removed. It holds digests, never texts.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from ...schemas.urn import Urn
from .kept import Facet, Omitted, Stood, latest

MOST: Final = 100_000
"""Most facets that are remembered."""
GOOD_S: Final = 60.0
"""Seconds for which a facet that was found in place counts as being there."""


class Compared(NamedTuple):
    """Facets of an entity beside what is remembered of them.

    Attributes:
        news: those that may change it.
        omitted: those of the others that are known not to be kept.
    """

    news: list[Facet]
    omitted: list[Omitted]


class Remembered:
    """The facets of late.

    Args:
        most: how many.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._seen_s: dict[bytes, float] = {}
        self._stood: OrderedDict[bytes, Stood] = OrderedDict()
        self._refused: dict[bytes, str] = {}

    def compared(self, tenant: str, entity: Urn, facets: Iterable[Facet]) -> Compared:
        """Which facets of an entity may change it; of the others the latest time is remembered."""
        compared = Compared([], [])
        for facet in latest(facets):
            key = _key(tenant, entity, facet.name)
            if self._is_news(key, facet):
                compared.news.append(facet)
            elif key in self._refused:
                compared.omitted.append(Omitted(facet.name, self._refused[key]))
        return compared

    def hold(self, tenant: str, entity: Urn, stood: Mapping[str, Stood], refused: str | None = None) -> None:
        """Remember what stands of facets, by name; a later one that was heard of meanwhile stays.

        Args:
            refused: why they are not kept; None: they are.
        """
        for name, one in stood.items():
            key = _key(tenant, entity, name)
            known = self._stood.pop(key, one)
            self._stood[key] = Stood(max(known.standing, one.standing), one.at_ms)
            if refused is None:
                self._refused.pop(key, None)
                self._seen_s[key] = self._clock()
            else:
                self._refused[key] = refused
                self._seen_s.pop(key, None)
            if len(self._stood) > self._most:
                self._forget(next(iter(self._stood)))

    def forget(self, tenant: str, entity: Urn, facets: Iterable[Facet]) -> None:
        """Know nothing of facets any more."""
        for facet in facets:
            self._forget(_key(tenant, entity, facet.name))

    def _forget(self, key: bytes) -> None:
        self._stood.pop(key, None)
        self._refused.pop(key, None)
        self._seen_s.pop(key, None)

    def _is_news(self, key: bytes, facet: Facet) -> bool:
        known, now = self._stood.get(key), facet.standing
        if known is None or not known.has(facet, now):
            return True
        seen_s = self._seen_s.get(key)
        is_old = seen_s is not None and self._clock() - seen_s >= GOOD_S
        if is_old and now >= known.standing:  # an earlier one would stand before what was said again
            return True
        if now > known.standing:
            self._stood[key] = Stood(now, known.at_ms)
        self._stood.move_to_end(key)
        return False


def _key(tenant: str, entity: Urn, name: str) -> bytes:
    text = f"{tenant}\n{entity}\n{name}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
