"""One server and one installation for each file: real broker and lake, and a stream that folds when it is told."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import (
    ElasticsearchSettings,
    GatewaySettings,
    JournalSettings,
    LakeSettings,
    Settings,
)
from tests.gateway.serving import Served, served
from tests.leaving import leave
from tests.services import Services


@pytest.fixture(scope="module")
def gateway_settings(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of an installation that the tests of a file share."""
    name = f"t{uuid.uuid4().hex[:10]}"
    folder: Path = tmp_path_factory.mktemp("gateway")
    own = Settings(
        journal=JournalSettings(prefix=name, actor="tests", partitions=2),
        kafka={"bootstrap.servers": services.bootstrap_servers},
        lake=LakeSettings(path=str(folder / "lake")),
        elasticsearch=ElasticsearchSettings(url=services.elasticsearch_url, index=name),
        gateway=GatewaySettings(port=0, operator="127.0.0.1:0", drain_s=0, requests_per_s=0),
    )
    yield own
    leave(own)


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A running server over a journal whose lake is there."""
    ensure_topics(gateway_settings)
    with served(gateway_settings) as running:
        yield running
