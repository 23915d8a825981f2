"""One server and one installation for each file: real broker and lake, and a stream that folds when it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metajournal.gateway import audit
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.serving import Served, served, settings_of_server
from tests.leaving import leave
from tests.services import Services

RECORDED = audit._OF_ONE, audit._OF_ALL
"""What the audit records of one sender without a key, and of all."""


@pytest.fixture(autouse=True, scope="module")
def every_refusal_is_recorded() -> Iterator[None]:
    """However often a test asks with a key of which a server has not heard yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "_OF_ONE", (0.0, 0))
        patch.setattr(audit, "_OF_ALL", (0.0, 0))
        yield


@pytest.fixture(scope="module")
def gateway_settings(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of an installation that the tests of a file share."""
    own = settings_of_server(services, tmp_path_factory.mktemp("gateway"))
    yield own
    leave(own)


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A running server over a journal whose lake is there."""
    ensure_topics(gateway_settings)
    with served(gateway_settings) as running:
        yield running
