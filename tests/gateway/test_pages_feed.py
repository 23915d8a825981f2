"""The feed that pages read by their session: the same changes as a key's, and nothing without a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metajournal import EntityRegistered, TagsAdded, dataset
from metajournal.gateway.feed import reader as feed_reader
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, logged_in, member
from tests.gateway.feeding import BEGINNING, Listener, publisher
from tests.gateway.serving import Served, served
from tests.wait import eventually

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True, topics=publisher(gateway_settings)) as running:
        for namespace in ("seen", "unseen"):
            for name in ("a", "b"):
                running.journal.emit(EntityRegistered(dataset(namespace, name)))
                running.journal.emit(TagsAdded(dataset(namespace, name), ["t"]))
        running.journal.flush()
        running.fold()
        yield running


@pytest.fixture(scope="module")
def key(server: Served) -> str:
    """The key of somebody who may read one namespace."""
    return member(server.journal, "reader", ("analyst", "*:seen/*"))


@pytest.fixture(scope="module")
def reader(server: Served, key: str) -> Browser:
    return logged_in(server, key)


def urns(listener: Listener) -> list[str]:
    return sorted(event.data["urn"] for event in listener.changes)


def test_a_session_reads_what_its_key_reads(server: Served, reader: Browser, key: str) -> None:
    with Listener(server.address, cookie=reader.cookie, last=BEGINNING) as pages:
        with Listener(server.address, key=key, last=BEGINNING) as keys:
            pages.until(lambda feed: len(feed.changes) == 2)
            keys.until(lambda feed: len(feed.changes) == 2)
            assert pages.told == keys.told
        assert urns(pages) == ["dataset:seen/a", "dataset:seen/b"]
        assert pages.headers["content-type"].startswith("text/event-stream")


def test_a_page_reads_changes_of_what_it_is_about(server: Served, reader: Browser) -> None:
    with Listener(server.address, cookie=reader.cookie, last=BEGINNING, urn="dataset:seen/b") as feed:
        feed.until(lambda feed: len(feed.changes) == 1)
        assert urns(feed) == ["dataset:seen/b"]
    with Listener(server.address, cookie=reader.cookie, last=BEGINNING, urn="dataset:unseen/a,dataset:seen/*") as feed:
        feed.until(lambda feed: len(feed.changes) == 2)
        assert urns(feed) == ["dataset:seen/a", "dataset:seen/b"]


def test_a_page_learns_how_far_its_feed_is_where_nothing_is_shown(
    server: Served, reader: Browser, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script knows the ids of events alone; a key's feed has beats that make none, as it is documented."""
    monkeypatch.setattr(feed_reader, "BEAT_S", 0.1)
    with Listener(server.address, cookie=reader.cookie) as pages, Listener(server.address, key=key) as keys:
        pages.until(lambda feed: feed.place)
        keys.until(lambda feed: feed.last_id)
        before = pages.place
        server.journal.emit(TagsAdded(dataset("unseen", "a"), ["beaten"]))
        server.journal.flush()
        server.fold()
        pages.until(lambda feed: feed.place != before)
        keys.until(lambda feed: feed.last_id == pages.last_id)
        assert (pages.events, keys.events, keys.place) == ([], [], "")


def test_a_session_that_ends_ends_its_feed(server: Served) -> None:
    browser = logged_in(server, member(server.journal, "leaver", ("analyst", "*")))
    with Listener(server.address, cookie=browser.cookie) as feed:
        assert feed.status == 200
        server.journal.access.disable("leaver").position  # noqa: B018  (acknowledged)
        eventually(feed.ended.is_set)


def test_without_a_session_nothing_is_read_and_nobody_led_to_the_login(
    server: Served, reader: Browser, key: str
) -> None:
    for path in ("/feed", "/states/dataset:seen/a", "/graph/dataset:seen/a"):
        assert Browser(server).get(path).status == 401, path
        assert server.get(path, key=key).status == 401, path
    assert reader.get("/states/dataset:unseen/a").status == 403
    assert reader.get("/graph/dataset:unseen/a").status == 403
    assert reader.get("/feed?x=1").status == 400
