"""States straight into an index, as the indexer would put them there."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from metajournal.indexer.connection import make_client
from metajournal.indexer.fill.bulk import BulkWriter
from metajournal.indexer.fill.patience import Patience
from metajournal.indexer.mapping import ensure_index
from metajournal.indexer.shown import read_shown, write_shown
from metajournal.schemas.positions import Cut
from metajournal.schemas.settings import Settings
from tests.indexer.corpus import State


def load(settings: Settings, states: Iterable[State], vector: Cut | None = None) -> BulkWriter:
    """Index some states, show them, and store a position vector."""
    client = make_client(settings)
    index = settings.elasticsearch.index
    ensure_index(client, index)
    writer = BulkWriter(client, index, Patience(threading.Event(), lambda _: None), 1000, 8 * 1024 * 1024)
    writer.write(states)
    client.indices.refresh(index=index)
    shown = read_shown(client, index)
    write_shown(client, index, {**shown.vector, **(vector or {})}, {}, shown)
    client.close()
    return writer
