"""Fixtures of a process that writes to repositories and stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metajournal import Journal
from metajournal.domains.repositories.client import Repository
from metajournal.schemas.settings import Settings
from tests.connecting import connected
from tests.consumers.stream import BrokerStream
from tests.repositories.staying import created


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    """A journal whose topics have one partition each."""
    with connected(settings, partitions=1) as journal:
        yield journal


@pytest.fixture
def stream(journal: Journal) -> BrokerStream:
    """A stream that has made its lake, with a repository of somebody else, and folds when it is told to."""
    stream = BrokerStream(journal.settings)
    created(journal, "others")
    stream.fold()
    return stream


@pytest.fixture
def repo(journal: Journal, stream: BrokerStream) -> Repository:
    """A repository that the stream has not seen."""
    return created(journal, "lake")
