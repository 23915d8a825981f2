"""States straight into an index, as the indexer would put them there, for figures of searches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from threading import Event
from typing import Any

from metajournal.indexer.connection import make_client
from metajournal.indexer.fill.bulk import BulkWriter
from metajournal.indexer.fill.flights import Flights
from metajournal.indexer.fill.patience import Patience
from metajournal.indexer.mapping import ensure_index
from metajournal.indexer.shown import read_shown, write_shown
from metajournal.schemas.settings import Settings


def index_states(settings: Settings, states: Iterable[dict[str, Any]]) -> None:
    """Index some states and show them."""
    index = settings.elasticsearch.index
    client = make_client(settings, timeout_s=120)
    ensure_index(client, index)
    flights = Flights(BulkWriter(client, index, Patience(Event(), lambda _: None), 1000, 8 * 1024 * 1024))
    for batch in _batches(states):
        flights.send(batch)
    flights.land()
    flights.close()
    client.indices.refresh(index=index)
    write_shown(client, index, {("bench", 0): 1}, {}, read_shown(client, index))
    client.close()


def _batches(states: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    coming = iter(states)
    while batch := list(islice(coming, 1000)):
        yield batch
