"""What this process knows to stand of facets, so that those that say it again are not looked up nor sent.

Bounded; what it has forgotten is looked up again. It holds digests, never texts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from ...schemas.urn import Urn
from .kept import Facet, Stood, latest

MOST: Final = 100_000
"""Most facets that are remembered."""


class Remembered:
    """The facets of late.

    Args:
        most: how many.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._stood: OrderedDict[bytes, Stood] = OrderedDict()

    def news(self, tenant: str, entity: Urn, facets: Iterable[Facet]) -> list[Facet]:
        """Those facets of an entity that may change it; of the others the latest time is remembered."""
        return [facet for facet in latest(facets) if self._is_news(_key(tenant, entity, facet.name), facet)]

    def hold(self, tenant: str, entity: Urn, stood: Mapping[str, Stood]) -> None:
        """Remember what stands of facets, by name; a later one that was heard of meanwhile stays."""
        for name, one in stood.items():
            key = _key(tenant, entity, name)
            known = self._stood.pop(key, one)
            self._stood[key] = one._replace(standing=max(known.standing, one.standing))
            if len(self._stood) > self._most:
                self._stood.popitem(last=False)

    def _is_news(self, key: bytes, facet: Facet) -> bool:
        known = self._stood.get(key)
        if known is None or not known.has(facet):
            return True
        self._stood[key] = known._replace(standing=max(known.standing, facet.standing))
        self._stood.move_to_end(key)
        return False


def _key(tenant: str, entity: Urn, name: str) -> bytes:
    text = f"{tenant}\n{entity}\n{name}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
