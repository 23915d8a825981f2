"""The indexer and the rebuild under faults: killed with -9 at any moment, behind a network that harms their requests.

After each fault the position vector claims nothing that a search does not find; in the end the index equals the lake
and an in-memory model, document by document.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from elasticsearch import ApiError

from metajournal.indexer.connection import is_away, make_client
from metajournal.indexer.errors import IndexMissingError
from metajournal.indexer.fill.compare import compare_index
from metajournal.indexer.fill.rebuild import rebuild_index
from metajournal.indexer.fill.runner import Indexer
from metajournal.schemas.settings import Settings
from tests.faults.proxy import FAULTS, Harm, harming
from tests.faults.scale import seeded, times
from tests.index import index_holds
from tests.indexer.feed import Feed
from tests.processes import Running, running_indexer
from tests.wait import eventually

pytestmark = pytest.mark.services

_INDEXER = """
import pickle, sys
settings, *_ = pickle.load(sys.stdin.buffer)
from metajournal.indexer.fill.process import run_indexer
run_indexer(settings)
"""
_REBUILD = """
import pickle, sys
settings, *_ = pickle.load(sys.stdin.buffer)
from metajournal.indexer.fill.rebuild import rebuild_index
rebuild_index(settings)
"""


@contextmanager
def fed(feed: Feed, rows: int = 40) -> Iterator[None]:
    """Batches all the time, until the block ends."""
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not stop.is_set():
                feed.batch(feed.rows(rows))
                stop.wait(0.05)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
    assert not failed, failed


@contextmanager
def indexing(settings: Settings) -> Iterator[None]:
    indexer, stop, failed = Indexer(settings), threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            indexer.run(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
    assert not failed, failed


def in_small_requests(settings: Settings) -> Settings:
    """Many requests for few documents, so that many moments lie between them."""
    return replace(settings, indexer=replace(settings.indexer, bulk_documents=25, refresh_interval_ms=50))


def killed_at(process: Running, moment_s: float) -> bool:
    """Kill a process some seconds from now; whether it still ran then."""
    with suppress(subprocess.TimeoutExpired):
        process.process.wait(moment_s)
        return False
    process.kill()
    return True


def assert_equal(settings: Settings, feed: Feed) -> None:
    """The index is what the model says and what the lake says."""
    assert index_holds(settings) == feed.expected()
    found = compare_index(settings)
    assert (found.count, found.compared) == (0, len(feed.model)), found.differences[:5]


def test_an_indexer_killed_at_any_moment_loses_nothing_and_claims_nothing(settings: Settings, tmp_path: Path) -> None:
    chance = seeded("indexer kills")
    feed = Feed(settings, random.Random(chance.random()))
    small, kills, looks = in_small_requests(settings), 0, 0
    with fed(feed):
        while kills < times(4, 50) or looks < 3:
            assert kills < times(20, 70), "an indexer that ran longer and longer made no index"
            process = Running(_INDEXER, small, tmp_path / "killed.log")
            longest_s = 4.0 if looks >= 3 else 3.0 + kills / 2
            kills += killed_at(process, chance.uniform(0.2, longest_s))
            assert process.process.returncode == -9, process.tail()
            looks += looked(feed)  # the first may be killed before it made an index
    with running_indexer(small, tmp_path / "last.log") as last:
        eventually(feed.shown, 60, f"everything in the index ({last.log})")
    assert_equal(settings, feed)


def test_cut_delayed_and_refused_bulk_requests_lose_nothing_and_the_vector_stays_behind_them(
    settings: Settings,
) -> None:
    chance = seeded("proxy")
    harm = Harm(random.Random(chance.random()), share=0.3)
    feed, looks = Feed(settings, random.Random(chance.random())), 0
    with harming(settings.elasticsearch.url, harm) as url:
        through = replace(settings, elasticsearch=replace(settings.elasticsearch, url=url))
        with indexing(in_small_requests(through)):
            with fed(feed):
                for _ in range(times(1, 10)):
                    looks += until_each_came(harm, feed)
            harm.share = 0.0
            eventually(feed.shown, 60, "everything in the index")
    assert_equal(settings, feed)
    assert looks > 0


def until_each_came(harm: Harm, feed: Feed) -> int:
    """Look at the vector until each fault has come once more; how often there was an index to look at."""
    wanted = {fault: harm.done[fault] + 1 for fault in FAULTS}
    looks, until_s = 0, time.monotonic() + 120
    while any(harm.done[fault] < count for fault, count in wanted.items()):
        assert time.monotonic() < until_s, dict(harm.done)
        looks += looked(feed)
    return looks


def looked(feed: Feed) -> bool:
    """Hold the vector against what a search finds; False where there is no index to ask yet."""
    try:
        feed.assert_shown_is_searchable()
    except IndexMissingError:
        return False
    except ApiError as error:  # the index was made a moment ago
        if not is_away(error):
            raise
        return False
    return True


def test_a_rebuild_killed_at_any_moment_is_continued_beside_the_live_index(settings: Settings, tmp_path: Path) -> None:
    chance = seeded("rebuild kills")
    feed = Feed(settings, random.Random(chance.random()))
    small, kills, longest_s = in_small_requests(settings), 0, 4.0
    for _ in range(3):
        feed.batch(feed.rows(400, entities=900))
    with indexing(small):
        eventually(feed.shown, 60, "the first batches")
        with fed(feed, rows=10):
            while kills < times(2, 10):
                process = Running(_REBUILD, small, tmp_path / "rebuild.log")
                if killed_at(process, chance.uniform(0.5, longest_s)):
                    kills += 1
                else:
                    assert process.process.returncode == 0, process.tail()
                    longest_s = max(1.0, 0.8 * longest_s)
                feed.assert_shown_is_searchable()
            done = rebuild_index(small)
        eventually(feed.shown, 60, "everything in the new index")
        assert_equal(settings, feed)
    client = make_client(settings)
    assert list(client.indices.get(index=f"{settings.elasticsearch.index}-*").body) == [done.index]
    client.close()
