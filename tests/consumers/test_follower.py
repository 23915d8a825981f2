"""Verdicts and rows ahead of the stream: the same as the stream's, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metajournal import EntityRegistered, Journal, PropertiesSet, TagsAdded, dataset
from metajournal.producers.topics import ensure_topics
from metajournal.producers.verdicts import Accepted, Duplicate, Rejected, Unchanged
from metajournal.schemas.settings import Settings
from tests.consumers.stream import BrokerStream

ORDERS = dataset("follower", "orders")


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    ensure_topics(settings)
    with Journal.connect(settings) as journal:
        yield journal


@pytest.fixture
def stream(journal: Journal) -> BrokerStream:
    """A stream that has made its lake: with one event of somebody else."""
    stream = BrokerStream(journal.settings)
    journal.emit(EntityRegistered(dataset("follower", "first")))
    journal.flush()
    stream.fold()
    return stream


def test_verdicts_and_rows_come_before_the_stream_has_seen_the_events(journal: Journal, stream: BrokerStream) -> None:
    with journal.follow(ORDERS) as follow:
        registered = journal.emit(EntityRegistered(ORDERS, description="What was bought"), actor="alice")
        assert follow.verdict(registered.position) == Accepted(registered.position)
        tagged = journal.emit(TagsAdded(ORDERS, ["pii"]))
        twice = journal.emit(TagsAdded(ORDERS, ["pii"]))
        again = journal.emit(TagsAdded(ORDERS, ["pii"]), event_id=tagged.event_id, repeat=True)
        stale = journal.emit(TagsAdded(ORDERS, ["hot"]), expected=registered.position)
        told = {one.position: follow.verdict(one.position) for one in (registered, tagged, twice, again, stale)}
        assert told[tagged.position] == Accepted(tagged.position)
        assert told[twice.position] == Unchanged(twice.position)
        assert told[again.position] == Duplicate(again.position, tagged.position, Accepted(tagged.position))
        assert isinstance(told[stale.position], Rejected)
        row = follow.row()
        assert row is not None
        assert (row.user_tags, row.logical_timestamp) == (("pii",), tagged.position.value)
        assert journal.show(ORDERS, at_least=stale.position, timeout_s=5) == row
        stream.fold()
        said = stream.outcomes()
        assert {at: said[at] for at in told} == told
        assert journal.show(ORDERS) == row
