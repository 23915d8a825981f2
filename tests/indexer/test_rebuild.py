"""`rebuild index`: a new index from the lake, beside the live one and then in its place."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from elasticsearch import Elasticsearch

from metajournal.indexer.connection import make_client
from metajournal.indexer.documents import document_id
from metajournal.indexer.errors import AliasReplacedError, IndexerError, MappingMismatchError
from metajournal.indexer.fill.compare import Comparison, compare_index
from metajournal.indexer.fill.lake_states import LakeStates
from metajournal.indexer.fill.lease import Begun, Lease, RebuildRunningError
from metajournal.indexer.fill.rebuild import RebuildDiffersError, rebuild_index
from metajournal.indexer.fill.runner import Indexer
from metajournal.indexer.fill.serving import domains_of
from metajournal.indexer.fill.stages import Stage
from metajournal.indexer.fill.swap import Swap
from metajournal.indexer.mapping import concrete_of, ensure_index, index_body, own_alias
from metajournal.indexer.search.searching import Search
from metajournal.indexer.shown import hand_over, read_shown, write_shown
from metajournal.schemas.errors import KafkaUnavailableError, SearchUnavailableError, UnavailableError
from metajournal.schemas.positions import behind, position
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from metajournal.stack.supervisor import read_told
from tests.index import index_holds
from tests.indexer.feed import PARTITIONS, Feed
from tests.new_topics import delete_topics, remake_topics
from tests.wait import eventually

pytestmark = pytest.mark.services


@pytest.fixture
def feed(settings: Settings) -> Feed:
    return Feed(settings, random.Random(4))


@pytest.fixture
def client(settings: Settings) -> Iterator[Elasticsearch]:
    client = make_client(settings)
    yield client
    client.close()


@contextmanager
def indexing(settings: Settings) -> Iterator[Indexer]:
    indexer, stop, failed = Indexer(settings), threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            indexer.run(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield indexer
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
    assert not failed, failed


def names(client: Elasticsearch, settings: Settings) -> set[str]:
    return set(client.indices.get(index=f"{settings.elasticsearch.index}-*").body)


def test_an_index_from_the_lake_alone_is_what_the_lake_says(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    for _ in range(4):
        feed.batch(feed.rows(300))
    stages: list[Stage] = []
    done = rebuild_index(settings, tell=stages.append)
    assert index_holds(settings) == feed.expected()
    assert done.documents == done.compared == len(feed.model)
    assert (done.old, done.resumed, done.index) == (None, False, f"{settings.elasticsearch.index}-000001")
    assert not feed.lacking()
    assert next(stage.phase for stage in stages) == "load"
    assert max(stage.done for stage in stages) == len(feed.model)


def test_a_rebuild_takes_the_place_of_a_live_index_that_goes_on_meanwhile(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    """Batches, searches and the vector go on all the time; nobody ever sees less than before."""
    for _ in range(3):
        feed.batch(feed.rows(200))
    stop, problems, seen = threading.Event(), list[str](), 0

    def look() -> None:
        nonlocal seen
        before: dict[tuple[str, int], int] = {}
        with Search(settings) as search:
            while not stop.is_set():
                results = search.search("", limit=1, paging=False)
                if lost := behind(results.position_vector, before):
                    problems.append(f"the vector went back by {lost}")
                before, seen = dict(results.position_vector), seen + 1

    def feeding() -> None:
        while not stop.is_set():
            feed.batch(feed.rows(20))

    with indexing(settings):
        eventually(feed.shown, 30, "the first batches")
        threads = [threading.Thread(target=target) for target in (look, feeding)]
        for thread in threads:
            thread.start()
        try:
            done = [rebuild_index(settings, keep_old=keep_old) for keep_old in (True, False)]
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
        feed.batch(feed.rows(20))
        eventually(feed.shown, 30, "everything in the new index")
        assert index_holds(settings) == feed.expected()
    assert problems == []
    assert seen > 10
    assert [rebuilt.old for rebuilt in done] == [f"{settings.elasticsearch.index}-00000{number}" for number in (1, 2)]
    assert names(client, settings) == {done[0].old, done[1].index}
    assert compare_index(settings).count == 0


def test_what_an_unfinished_batch_has_published_is_in_the_new_index(settings: Settings, feed: Feed) -> None:
    """The stream died between publishing and the journal's commit: the marks do not speak of rows that are out."""
    feed.batch(feed.rows(100))
    feed.batch(feed.rows(50), steps=3)
    rebuild_index(settings)
    assert index_holds(settings) == feed.expected()
    with indexing(settings):  # from the new index's own positions, which stand a little before those outcomes
        eventually(feed.shown, 30, "what the unfinished batch has published")


def test_pages_give_each_entity_once_and_newest_whatever_their_size(settings: Settings, feed: Feed) -> None:
    for _ in range(5):
        feed.batch(feed.rows(60, entities=40))
    for size in (3, 1000):
        pages = list(LakeStates(settings, page_rows=size).pages())
        states = [state for _, page in pages for state in page]
        assert len(states) == len(feed.model)
        assert {(state["tenant"], state["urn"]): state for state in states} == feed.model
        resumed = [state for _, page in LakeStates(settings, page_rows=size).pages(pages[0][0]) for state in page]
        assert resumed == states[len(pages[0][1]) :]


def test_the_comparison_finds_each_kind_of_difference(settings: Settings, feed: Feed, client: Elasticsearch) -> None:
    feed.batch(feed.rows(300))
    rebuild_index(settings)
    assert compare_index(settings).count == 0
    index = settings.elasticsearch.index
    first, second, third = list(feed.model.items())[:3]

    def put(key: str, version: int, state: Mapping[str, Any]) -> None:
        document = {"tenant": state["tenant"], "urn": state["urn"], "deleted": True, "entity": state}
        client.index(index=index, id=key, document=document, version=version, version_type="external_gte")

    client.delete(index=index, id=document_id(*first[0]))
    put(document_id(*second[0]), second[1]["logical_timestamp"], {**second[1], "actor": "nobody"})
    put("f" * 32, 1, {**third[1], "urn": "dataset:a/b", "logical_timestamp": 1})
    fourth, state = list(feed.model.items())[3]
    put("e" * 32, 1, state)
    comparison = compare_index(settings)
    assert {(difference.urn, difference.fault) for difference in comparison.differences} == {
        (first[0][1], "missing"),
        (second[0][1], "differs"),
        ("dataset:a/b", "unknown"),
        (fourth[1], "unknown"),
    }
    assert comparison.count == 4


def test_an_index_behind_the_lake_is_not_called_equal(settings: Settings, feed: Feed) -> None:
    """No indexer runs: what the lake has got since is not in the index, and the comparison says how much that is."""
    feed.batch(feed.rows(50))
    rebuild_index(settings)
    assert compare_index(settings).behind == {}
    feed.batch(feed.rows(20))
    begun = time.monotonic()
    comparison = compare_index(settings, wait_s=0.5)
    assert time.monotonic() - begun >= 0.5
    assert (comparison.behind, comparison.count) == (feed.lacking(), 0)
    assert comparison.behind
    with indexing(settings):
        assert compare_index(settings, wait_s=30).behind == {}


def test_a_new_index_that_differs_is_not_put_in_place(
    settings: Settings, feed: Feed, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.batch(feed.rows(100))
    first = rebuild_index(settings).index
    lost = next(iter(feed.model))

    def damaged(given: Settings, *, index: str, **more: object) -> object:
        client.delete(index=index, id=document_id(*lost))
        return compare_index(given, index=index, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("metajournal.indexer.fill.rebuild.compare_index", damaged)
    with pytest.raises(RebuildDiffersError, match="1 document") as caught:
        rebuild_index(settings)
    assert caught.value.data["differences"][0]["fault"] == "missing"
    assert concrete_of(client, settings.elasticsearch.index) == first
    monkeypatch.undo()
    done = rebuild_index(settings)
    assert len(done.thrown_away) == 1
    assert index_holds(settings) == feed.expected()


def test_an_indexer_that_starts_during_the_first_rebuild_makes_an_index_of_its_own(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    feed.batch(feed.rows(60))
    made = list[str]()

    def start(stage: Stage) -> None:
        if not made:
            made.append(ensure_index(client, settings.elasticsearch.index))

    done = rebuild_index(settings, tell=start)
    assert made == [f"{settings.elasticsearch.index}-000002"]
    assert (done.index, done.old) == (f"{settings.elasticsearch.index}-000001", made[0])
    assert names(client, settings) == {done.index}
    assert index_holds(settings) == feed.expected()


def test_an_indexer_that_makes_an_index_in_the_moment_of_the_swap_is_swapped_out(
    settings: Settings, feed: Feed, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.batch(feed.rows(60))
    made, pointed = list[str](), Swap._pointed

    def late(self: Swap, old: str | None) -> bool:
        if not made:
            made.append(ensure_index(client, settings.elasticsearch.index))
        return pointed(self, old)

    monkeypatch.setattr(Swap, "_pointed", late)
    done = rebuild_index(settings)
    assert (done.old, names(client, settings)) == (made[0], {done.index})
    assert index_holds(settings) == feed.expected()


def test_an_index_that_an_indexer_took_while_it_was_filled_is_not_deleted_when_it_is_full(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    """As an indexer of an earlier version does."""
    feed.batch(feed.rows(60))

    def take(stage: Stage) -> None:
        name = f"{settings.elasticsearch.index}-000001"
        client.indices.put_alias(index=name, name=settings.elasticsearch.index, is_write_index=True)

    done = rebuild_index(settings, tell=take)
    assert (done.index, done.old, done.kept) == (f"{settings.elasticsearch.index}-000001", None, False)
    assert names(client, settings) == {done.index}
    assert index_holds(settings) == feed.expected()
    assert rebuild_index(settings).old == done.index


@pytest.mark.parametrize("phase", ["load", "failed"])
def test_what_a_killed_rebuild_had_filled_by_half_is_not_called_rebuilt(
    settings: Settings, feed: Feed, client: Elasticsearch, phase: str
) -> None:
    feed.batch(feed.rows(60))
    name = f"{settings.elasticsearch.index}-000001"
    body = index_body()
    body["mappings"]["_meta"]["metajournal"]["rebuild"] = True
    client.indices.create(index=name, aliases={own_alias(name): {}}, **body)
    Lease(client, name, Begun(phase), None).end()
    assert ensure_index(client, settings.elasticsearch.index) != name
    client.indices.delete(index=f"{settings.elasticsearch.index}-000002")
    client.indices.put_alias(index=name, name=settings.elasticsearch.index, is_write_index=True)
    done = rebuild_index(settings)
    assert (done.old, done.resumed, names(client, settings)) == (name, False, {done.index})
    assert index_holds(settings) == feed.expected()


def test_an_index_that_a_rebuild_put_into_use_is_taken_again_where_its_alias_is_lost(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    feed.batch(feed.rows(60))
    name = rebuild_index(settings).index
    client.indices.delete_alias(index=name, name=settings.elasticsearch.index)
    assert ensure_index(client, settings.elasticsearch.index) == name


def test_a_domain_that_is_refused_alone_keeps_nobody_from_rebuilding(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    """What searches see of it stays; it is neither read nor waited for, and the comparison says what it said before."""
    feed.batch(feed.rows(60))
    first, topics = rebuild_index(settings).index, settings.journal.topics
    shown = read_shown(client, first)
    place = feed.other_domain("files", 0, position(1, 9))
    write_shown(client, own_alias(first), {**shown.vector, place: position(1, 7)}, shown.offsets, shown)
    delete_topics(AdminClient(dict(settings.kafka)), [topics.journal("files")])
    assert "files" not in domains_of(settings)
    before = compare_index(settings)
    done = rebuild_index(settings)
    assert (done.old, names(client, settings)) == (first, {done.index})
    assert read_shown(client, done.index).vector == {**shown.vector, place: position(1, 7)}
    assert compare_index(settings) == before == Comparison(compared=len(feed.model))
    assert index_holds(settings) == feed.expected()


def test_a_rebuild_from_before_a_domain_was_refused_goes_on_only_where_it_holds_all_that_is_seen_of_it(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    feed.batch(feed.rows(60))
    first, topics = rebuild_index(settings).index, settings.journal.topics
    shown = read_shown(client, first)
    seen = {**shown.vector, feed.other_domain("files", 0, position(1, 9)): position(1, 7)}
    write_shown(client, own_alias(first), seen, shown.offsets, shown)
    delete_topics(AdminClient(dict(settings.kafka)), [topics.journal("files")])
    body = index_body()
    body["mappings"]["_meta"]["metajournal"]["rebuild"] = True
    for number, vector in ((2, shown.vector), (4, seen)):
        name = f"{settings.elasticsearch.index}-00000{number}"
        client.indices.create(index=name, aliases={own_alias(name): {}}, **body)
        Lease(client, name, Begun("load", dict(vector), dict(shown.offsets)), None).end()
        done = rebuild_index(settings)
        lacks = vector != seen
        assert (done.resumed, done.thrown_away) == ((False, (name,)) if lacks else (True, ()))
        assert read_shown(client, done.index).vector == seen
        assert index_holds(settings) == feed.expected()


def test_a_lost_state_topic_that_is_made_anew_ends_the_indexer_until_the_index_is_rebuilt(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    """What it held and the index never got would be claimed by the next outcome's positions."""
    feed.batch(feed.rows(200))
    with indexing(settings):
        eventually(feed.shown, 30, "the first batch")
    before = read_shown(client, settings.elasticsearch.index)
    feed.batch(feed.rows(60))
    config = {"cleanup.policy": "compact", "max.message.bytes": str(16 << 20)}
    remake_topics(AdminClient(dict(settings.kafka)), [NewTopic(feed.state, PARTITIONS, config=config)])
    feed.starts_over()
    feed.batch(feed.rows(4))
    stop = threading.Event()
    timer = threading.Timer(20, stop.set)
    timer.start()
    with pytest.raises(IndexerError, match=f"{feed.state} is not the one that the index was filled from") as ended:
        Indexer(settings).run(stop)
    timer.cancel()
    assert "`metajournal rebuild index`" in ended.value.hint
    told = read_told(Path(settings.stack.home or "") / "indexer.json")
    assert (told["state"], told["mend"]) == ("failed", ended.value.hint)
    assert read_shown(client, settings.elasticsearch.index).vector == before.vector
    rebuild_index(settings)
    with indexing(settings):
        feed.batch(feed.rows(20))
        eventually(feed.shown, 30, "what came since")
    assert index_holds(settings) == feed.expected()


def test_two_rebuilds_at_once_are_refused(settings: Settings, feed: Feed, client: Elasticsearch) -> None:
    feed.batch(feed.rows(50))
    name = f"{settings.elasticsearch.index}-000007"
    body = index_body()
    body["mappings"]["_meta"]["metajournal"]["rebuild"] = True
    client.indices.create(index=name, aliases={own_alias(name): {}}, **body)
    lease = Lease(client, name, Begun(), None)
    try:
        with pytest.raises(RebuildRunningError, match="000007"):
            rebuild_index(settings)
    finally:
        lease.end()
    done = rebuild_index(settings)
    assert (done.index, done.resumed) == (name, True)
    assert index_holds(settings) == feed.expected()


def test_a_rebuild_that_was_overtaken_ends(settings: Settings, feed: Feed, client: Elasticsearch) -> None:
    name = f"{settings.elasticsearch.index}-000001"
    client.indices.create(index=name, aliases={own_alias(name): {}}, **index_body())
    first = Lease(client, name, Begun(), None)
    first.end()
    second = Lease(client, name, Begun(), first._token)
    with pytest.raises(RebuildRunningError):
        first.tell()
    second.remove()
    assert index_holds(replace_index(settings, name)) == {}


def replace_index(settings: Settings, name: str) -> Settings:
    return replace(settings, elasticsearch=replace(settings.elasticsearch, index=name))


def test_an_old_index_can_be_kept_and_one_of_another_version_is_replaced(
    settings: Settings, feed: Feed, client: Elasticsearch
) -> None:
    feed.batch(feed.rows(80))
    old, body = f"{settings.elasticsearch.index}-000003", index_body()
    body["mappings"]["_meta"]["metajournal"] = {"version": 0, "digest": "other"}
    client.indices.create(index=old, aliases={settings.elasticsearch.index: {}}, **body)
    done = rebuild_index(settings, keep_old=True)
    assert (done.old, done.kept) == (old, True)
    assert names(client, settings) == {old, done.index}
    assert index_holds(settings) == feed.expected()
    assert rebuild_index(settings).thrown_away == ()
    assert old in names(client, settings)


def test_an_indexer_stands_back_only_while_a_rebuild_is_at_work(
    settings: Settings, feed: Feed, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild that was killed in the middle of the swap does not hold the index up for ever."""
    monkeypatch.setattr("metajournal.indexer.fill.runner.HANDOVER_S", 3.0)
    feed.batch(feed.rows(30))
    with indexing(settings):
        eventually(feed.shown, 30, "the first batch")
        target = own_alias(concrete_of(client, settings.elasticsearch.index))

        def marked() -> bool:
            try:
                hand_over(client, target, read_shown(client, target), "nobody-000002")
            except Exception as error:
                raise AssertionError(str(error)) from error
            return True

        eventually(marked, 10, "the mark")
        frozen = read_shown(client, target)
        feed.batch(feed.rows(30))
        assert read_shown(client, target).vector == frozen.vector
        eventually(feed.shown, 30, "the indexer goes on")
        assert read_shown(client, target).handover == ""


def test_what_cannot_be_done_is_said(
    settings: Settings, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metajournal.indexer.fill.rebuild._ANSWER_S", 0.5)
    with pytest.raises(UnavailableError, match="no lake"):
        rebuild_index(settings)
    Feed(settings, random.Random(1))
    away = replace(settings, elasticsearch=ElasticsearchSettings(url="http://127.0.0.1:9", index="none"))
    with pytest.raises(SearchUnavailableError):
        rebuild_index(away)
    with pytest.raises(KafkaUnavailableError):
        rebuild_index(replace(settings, kafka={"bootstrap.servers": "127.0.0.1:9"}))
    name = settings.elasticsearch.index
    client.indices.create(index=name)
    with pytest.raises(AliasReplacedError, match="is an index, and not metajournal's alias") as caught:
        rebuild_index(settings)
    assert f"curl -X DELETE '{settings.elasticsearch.url}/{name}'" in caught.value.hint
    client.indices.delete(index=name)
    client.indices.create(index=f"{name}-000001", aliases={name: {}})
    with pytest.raises(MappingMismatchError, match="not metajournal's"):
        rebuild_index(settings)
    client.indices.delete(index=f"{name}-000001")
