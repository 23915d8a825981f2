"""Hits of a search as they were at an earlier point: what did not exist then, and whether that is for good."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Sequence

import pytest

from docs.json_shapes import faults
from metajournal.commands.search_views import then_view
from metajournal.domains.catalog.urns import dataset
from metajournal.indexer.fill.rebuild import rebuild_index
from metajournal.indexer.search.results import Results
from metajournal.indexer.search.searching import Search
from metajournal.lake.reading import Answer
from metajournal.lake_client import LakeClient
from metajournal.producers.topics import check_topics
from metajournal.schemas.positions import position
from metajournal.schemas.settings import Settings
from metajournal.schemas.shapes import RESULTS
from metajournal.terminal import rendering
from metajournal.values import then_json
from tests.indexer.feed import Feed

pytestmark = pytest.mark.services


def test_what_did_not_exist_then_says_whether_an_event_to_come_may_change_that(settings: Settings) -> None:
    feed = Feed(settings, random.Random(4))
    feed.batch(feed.rows(60))
    rebuild_index(settings)
    lake = LakeClient(settings, check_topics(settings))
    with Search(settings) as search:
        results = search.search("*", limit=1)
    begin, a_second_ago = {place: position(1, 0) for place in feed.marks}, round(time.time() * 1000) - 1_000
    early, late = lake.then(results.hits, begin), lake.then(results.hits, a_second_ago)
    assert early == [None]
    assert [(one.row.deleted, one.final) for one in late if one is not None and one.row is not None] == [(False, False)]
    (unknown,) = lake.then([dataset("shop", "never")], a_second_ago)
    assert unknown is not None
    assert (str(unknown.urn), unknown.row, unknown.final) == ("dataset:shop/never", None, False)
    assert lake.then([dataset("shop", "never")], begin) == [None]
    assert then_json(results, early)["hits"][0]["then"] is None
    told = then_json(results, [unknown])
    assert told["hits"][0]["then"] == {"final": False}
    assert not faults(RESULTS, told)
    assert "did not exist then  " in drawn(results, early)
    assert "not final" not in drawn(results, early)
    assert "did not exist then (not final)" in drawn(results, [unknown])
    assert "not final: events that arrive later may change this" in drawn(results, [unknown])


def drawn(results: Results, then: Sequence[Answer | None]) -> str:
    out, screen = io.StringIO(), rendering.console()
    screen.file = out
    screen.print(then_view(results, then))
    return out.getvalue()
