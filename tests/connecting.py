"""Journals of topics that a test has made for itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from metajournal import Journal
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings


@contextmanager
def connected(settings: Settings, *, partitions: int) -> Iterator[Journal]:
    """A connected journal whose topics have so many partitions each; they are made first."""
    own = replace(settings, journal=replace(settings.journal, partitions=partitions))
    ensure_topics(own)
    with Journal.connect(own) as journal:
        yield journal
