"""What a feed asks for and the ring no longer has, read from Kafka in a thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ...client import Journal
from ...consumers.every_change import ChangeTopic, EveryChange
from ...consumers.filters import Filter
from ...consumers.records import Partition
from ...consumers.starts import Offsets
from ...schemas.settings import Settings
from .ring import Entry
from .source import entry_of

_MOST: Final = 200
_MOST_BYTES: Final = 1024 * 1024
_SLICE_S: Final = 0.25
_SMALL: Final[Mapping[str, Any]] = {"queued.max.messages.kbytes": 4_096, "fetch.max.bytes": 2_097_152}
"""What a consumer holds in advance: some of them are open at once, each for a reader who may be slow."""
_QUIET_S: Final = 0.05
"""Without a change for so long, what was there at the beginning is read."""


class Past:
    """Changes from an offset of each partition up to those of now; for one thread at a time.

    Args:
        journal: whose.
        topics: what is read.
        offsets: where to begin.
        tenant: whose changes.
    Attributes:
        reached: the next offset of each partition, once it is read.
    Raises:
        PositionExpired: some of them are gone.
        KafkaUnavailableError: no broker answers.
    """

    def __init__(
        self, journal: Journal, topics: tuple[ChangeTopic, ...], offsets: Mapping[Partition, int], tenant: str
    ) -> None:
        self.reached: Mapping[Partition, int] = offsets
        self._changes = EveryChange(
            _with_little_ahead(journal.settings), journal.epochs, topics, Offsets(offsets), reached=self._note,
            wanted=Filter(tenants=frozenset({tenant})), timeout_s=_QUIET_S,
        )  # fmt: skip

    def _note(self, offsets: Mapping[Partition, int]) -> None:
        self.reached = offsets

    def some(self) -> list[Entry]:
        """The next changes, a few at once; none: it is read. Raises: as the constructor."""
        entries: list[Entry] = []
        size_bytes, until = 0, time.monotonic() + _SLICE_S
        for published in self._changes:
            entries.append(entry_of(published))
            size_bytes += len(entries[-1].frame)
            if len(entries) >= _MOST or size_bytes >= _MOST_BYTES or time.monotonic() > until:
                break
        return entries

    def close(self) -> None:
        """Leave Kafka; called by any thread."""
        self._changes.close()


def _with_little_ahead(settings: Settings) -> Settings:
    """Settings of a consumer that holds little in advance, but for what the installation says itself."""
    return replace(settings, kafka={**_SMALL, **settings.kafka})
