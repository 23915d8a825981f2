"""An index that an earlier version made is searched as it is, and rebuilt by the indexer's first start."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from elasticsearch import Elasticsearch

from metajournal.indexer.connection import make_client
from metajournal.indexer.errors import MappingMismatchError
from metajournal.indexer.fill.rebuild import rebuild_index
from metajournal.indexer.fill.takeover import take_over
from metajournal.indexer.mapping import (
    MAPPING_VERSION,
    POSITIONS_ID,
    SEARCHED_DIGESTS,
    check_mapping,
    concrete_of,
    own_alias,
)
from metajournal.indexer.search.searching import Search
from metajournal.indexer.shown import read_shown, write_shown
from metajournal.schemas.positions import position
from metajournal.schemas.settings import LakeSettings, Settings
from tests.index import index_holds
from tests.indexer.feed import Feed
from tests.new_topics import delete_topics
from tests.wait import eventually

pytestmark = pytest.mark.services

BEFORE = max(SEARCHED_DIGESTS)


@pytest.fixture
def feed(settings: Settings) -> Feed:
    filled = Feed(settings, random.Random(4))
    for _ in range(3):
        filled.batch(filled.rows(100))
    return filled


@pytest.fixture
def client(settings: Settings) -> Iterator[Elasticsearch]:
    client = make_client(settings)
    yield client
    client.close()


def label(settings: Settings, client: Elasticsearch, version: int, digest: str = BEFORE) -> str:
    """Fill an index, and let its mapping and positions say which version made it; the index's name."""
    name = rebuild_index(settings).index
    client.indices.put_mapping(index=name, meta={"metajournal": {"version": version, "digest": digest}})
    kept = client.get(index=name, id=POSITIONS_ID).body["_source"]
    kept["positions"]["mapping"] = digest
    client.index(index=name, id=POSITIONS_ID, document=kept, refresh=True)
    return name


def test_an_index_of_the_version_before_is_searched_and_then_rebuilt_by_one_start(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    name = label(settings, client, MAPPING_VERSION - 1)
    told = list[str]()
    with Search(settings) as search:
        before = search.search("*", limit=0).total
        take_over(settings, threading.Event(), told.append)
        assert search.search("*", limit=0).total == before > 0
    assert check_mapping(client, settings.elasticsearch.index) != name
    assert not client.indices.exists(index=name)
    assert index_holds(settings) == feed.expected()
    assert any(f"mapping version {MAPPING_VERSION - 1}" in text and "from the lake" in text for text in told)
    told.clear()
    take_over(settings, threading.Event(), told.append)
    assert told == []


def test_a_takeover_that_is_stopped_leaves_the_old_index_in_use_and_the_next_start_goes_on(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    name, stop = label(settings, client, MAPPING_VERSION - 1), threading.Event()
    take_over(settings, stop, lambda message: stop.set())
    assert concrete_of(client, settings.elasticsearch.index) == name
    take_over(settings, threading.Event(), lambda message: None)
    check_mapping(client, settings.elasticsearch.index)
    assert index_holds(settings) == feed.expected()
    eventually(lambda: len(client.indices.get(index=f"{settings.elasticsearch.index}-*").body) == 1, 10, "one index")


def test_a_domain_that_is_refused_alone_holds_up_no_takeover(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    name = label(settings, client, MAPPING_VERSION - 1)
    shown, place = read_shown(client, name), feed.other_domain("files", 0, position(1, 9))
    write_shown(client, own_alias(name), {**shown.vector, place: position(1, 7)}, shown.offsets, shown)
    delete_topics(AdminClient(dict(settings.kafka)), [place[0]])
    take_over(settings, threading.Event(), lambda message: None)
    assert check_mapping(client, settings.elasticsearch.index) != name
    assert read_shown(client, settings.elasticsearch.index).vector[place] == position(1, 7)
    assert index_holds(settings) == feed.expected()


def test_an_index_of_a_later_version_is_never_touched(settings: Settings, feed: Feed, client: Elasticsearch) -> None:
    name = label(settings, client, MAPPING_VERSION + 1, "later")
    with pytest.raises(MappingMismatchError, match=f"version {MAPPING_VERSION + 1}"):
        take_over(settings, threading.Event(), lambda message: None)
    assert concrete_of(client, settings.elasticsearch.index) == name
    with Search(settings) as search, pytest.raises(MappingMismatchError):
        search.search("*")


def test_where_there_is_no_lake_the_operator_is_told_what_to_do(
    settings: Settings, feed: Feed, client: Elasticsearch, tmp_path: Path
) -> None:
    name = label(settings, client, MAPPING_VERSION - 1)
    elsewhere = replace(settings, lake=LakeSettings(path=str(tmp_path / "nothing")))
    with pytest.raises(MappingMismatchError, match=f"version {MAPPING_VERSION - 1}") as refused:
        take_over(elsewhere, threading.Event(), lambda message: None)
    assert "metajournal rebuild index" in refused.value.hint
    assert concrete_of(client, settings.elasticsearch.index) == name
