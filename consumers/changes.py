"""Reading change topics, the short form: one call, each change once."""

from __future__ import annotations

from collections.abc import Iterator

from ..producers.topics import Epochs
from ..schemas.settings import Settings
from .records import Change
from .starts import Since
from .subscription import changes

__all__ = ["Change", "read_changes"]


def read_changes(
    settings: Settings,
    epochs: Epochs,
    domain: str | None = None,
    *,
    since: Since | None = None,
    timeout_s: float | None = None,
    limit: int | None = None,
) -> Iterator[Change]:
    """Changes of a domain, each once; the start is fixed by this call. Arguments and errors as `Subscription`."""
    return changes(settings, epochs, domain, since=since, timeout_s=timeout_s, limit=limit)
