"""Positions of another journal: refused at once, since no indexer will ever show them.

The names of the journal's topics are known from the settings, and a partition that the index shows is one of the
journal's. Only for one that it does not show, and for a topic of a domain from outside, is Kafka asked what there is;
where it does not answer, nothing is refused that begins like the journal's topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...schemas.errors import InvalidPositionError, MetajournalError
from ...schemas.positions import Cut
from ...schemas.registry import joining, served_domains
from ...schemas.settings import Settings

_ASKED_S: Final = 2.0

Key = tuple[str, int]


class JournalPartitions:
    """Which partitions a journal has.

    Args:
        settings: the journal's prefix, and how to reach Kafka.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        own = (*served_domains(), *(domain.name for domain in joining()))
        self._topics = [settings.journal.topics.journal(domain) for domain in own]
        self._counts: dict[str, int] = {}

    def refuse_foreign(self, wanted: Iterable[Key]) -> None:
        """Refuse what is in no topic of this journal. Raises: InvalidPositionError."""
        keys = list(wanted)
        foreign = self._foreign_of({topic for topic, _ in keys if topic not in self._topics})
        for key in keys:
            if key[1] < 0 or key[0] in foreign:
                raise _foreign(key)

    def _foreign_of(self, topics: set[str]) -> set[str]:
        """Those of some topics that no domain has; which ones from outside are served, the journal alone knows."""
        alike = {topic for topic in topics if topic.startswith(self._settings.journal.topics.journal(""))}
        if alike and not self._counts:
            self._counts = self._partition_counts(_ASKED_S)
        return topics - (self._counts.keys() or alike)

    def refuse_missing(self, lacking: Iterable[Key], shown: Cut, *, timeout_s: float) -> None:
        """Refuse partitions that the journal does not have.

        Args:
            lacking: what the index does not show.
            shown: what it shows.
            timeout_s: seconds that there are to ask.
        Raises:
            InvalidPositionError: there is no such partition.
        """
        doubtful = [key for key in lacking if key not in shown]
        if doubtful and not self._counts:
            self._counts = self._partition_counts(min(timeout_s, _ASKED_S))
        for key in doubtful:
            if key[1] >= self._counts.get(key[0], key[1] + 1):
                raise _foreign(key)

    def _partition_counts(self, timeout_s: float) -> dict[str, int]:
        from ...producers.topics import read_epochs  # most searches never need Kafka's client

        try:
            return {
                topic: epoch.partitions for topic, epoch in read_epochs(self._settings, timeout_s=timeout_s).items()
            }
        except MetajournalError:
            return {}


def _foreign(key: Key) -> InvalidPositionError:
    text = f"{key[0]}/{key[1]}"
    return InvalidPositionError(f"This journal has no {text}.", text=text)
