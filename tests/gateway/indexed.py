"""What the stream said, as documents of a real index: as the indexer would put them there."""

from __future__ import annotations

import json

from metajournal.schemas.settings import Settings
from tests.gateway.serving import Served
from tests.indexer.loading import load


def index(server: Served, settings: Settings) -> None:
    """Fold everything, and have the index show it."""
    server.fold()
    records = server.stream.topics.records
    states = [json.loads(one.value) for (topic, _), said in sorted(records.items()) if ".state." in topic
              for one in said if one.value is not None]  # fmt: skip
    assert states
    load(settings, states)
