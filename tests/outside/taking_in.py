"""Domains from outside that a test's own process serves for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metajournal.schemas import registry, urn
from metajournal.schemas.domain import Domain
from metajournal.schemas.kinds import KINDS


@contextmanager
def taken_in(domain: Domain) -> Iterator[None]:
    """Serve a domain whose package is not installed: its kinds are known, and nothing else of it."""
    assert not domain.package
    registry.take_in(domain)
    try:
        yield
    finally:
        del registry._outside[domain.name]
        for kind in domain.kinds:
            del KINDS[kind.name]
        urn._cached.cache_clear()
