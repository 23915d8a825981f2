"""A process that serves access, whether it has a journal or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metajournal.domains.access.domain import DOMAIN
from metajournal.schemas import registry, urn
from metajournal.schemas.kinds import KINDS


@pytest.fixture(autouse=True, scope="module")
def served() -> Iterator[None]:
    """What connecting to a journal does that serves it; taken back, where nobody had done it before."""
    known = {domain.name for domain in registry.taken_in()}
    registry.take_in(DOMAIN)
    yield
    if DOMAIN.name not in known:
        del registry._outside[DOMAIN.name]
        for kind in DOMAIN.kinds:
            del KINDS[kind.name]
        urn._cached.cache_clear()
