"""What each session has written of late, so that what it opens next includes that, or says that it does not."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from ..schemas.errors import NotYetVisibleError
from ..schemas.positions import Position
from ..schemas.urn import Urn

OWN_S: Final = 2.0
"""Seconds to wait for a write of the session's own; then the page says that it is not there yet."""
_MOST: Final = 4_096
"""Sessions of which that is kept."""
_KEPT_S: Final = 60.0
"""Seconds after which lake and index have a write, or say themselves that they stand."""
_EACH: Final = 256
"""Entities of each."""
T = TypeVar("T")


class _Written(NamedTuple):
    until: float
    positions: dict[str, Position]
    """By the entity that was written."""


class OwnWrites:
    """The positions of the last writes of sessions, by the ids of their keys; of one loop."""

    def __init__(self) -> None:
        self._written: OrderedDict[str, _Written] = OrderedDict()

    def add(self, key_id: str, urn: Urn, position: Position) -> None:
        """A session has written an entity."""
        kept = self._written.pop(key_id, None)
        now = time.monotonic()
        positions = kept.positions if kept is not None and kept.until > now else {}
        positions.pop(str(urn), None)
        positions[str(urn)] = position
        if len(positions) > _EACH:
            del positions[next(iter(positions))]
        self._written[key_id] = _Written(now + _KEPT_S, positions)
        while len(self._written) > _MOST:
            self._written.popitem(last=False)

    def of(self, key_id: str, urn: Urn | None) -> tuple[Position, ...]:
        """What a session has written of late, of one entity or of all, and has to find."""
        kept = self._written.get(key_id)
        if kept is None or kept.until <= time.monotonic():
            return ()
        return tuple(at for entity, at in kept.positions.items() if urn is None or entity == str(urn))


def with_own(ask: Callable[..., T], own: Sequence[Position]) -> tuple[T, bool]:
    """What the index answers, and whether that is without what the session has written: it did not come in time.

    Args:
        ask: a question to it, with `at_least` and `timeout_s`.
        own: what has to be found; nothing: the question is asked as it is.
    Raises:
        MetajournalError: as the question.
    """
    if not own:
        return ask(), False
    try:
        return ask(at_least=own, timeout_s=OWN_S), False
    except NotYetVisibleError:
        return ask(), True
