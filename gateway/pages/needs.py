"""The rights that pages need which are about no single entity: what is found there is limited to what may be read."""

from __future__ import annotations

from collections.abc import Sequence

from ...schemas.endpoints import READ, Need, Request


def needs_nothing(request: Request) -> Sequence[Need]:
    """Of a page for whoever is logged in; it stands in everybody's menu."""
    return ()


def needs_reading(request: Request) -> Sequence[Need]:
    """Reading something."""
    return (Need(READ),)
