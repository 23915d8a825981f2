"""`metajournal rebuild index` as it is typed: what it prints, and how it ends."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metajournal.cli import main
from metajournal.schemas.settings import Settings
from tests.index import index_holds
from tests.indexer.feed import Feed

pytestmark = pytest.mark.services


def typed(settings: Settings, *words: str) -> Result:
    given = {
        "journal.prefix": settings.journal.prefix,
        "kafka.bootstrap.servers": settings.kafka["bootstrap.servers"],
        "lake.path": settings.lake.path,
        "elasticsearch.url": settings.elasticsearch.url,
        "elasticsearch.index": settings.elasticsearch.index,
    }
    options = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    return CliRunner().invoke(main, [*options, "rebuild", "index", *words])


def test_it_tells_how_far_it_is_and_what_it_did(settings: Settings) -> None:
    feed = Feed(settings, random.Random(5))
    feed.batch(feed.rows(100))
    index = settings.elasticsearch.index
    first = typed(settings)
    assert (first.exit_code, index_holds(settings)) == (0, feed.expected()), first.output
    count = len(feed.model)
    assert f"Searches use {index}-000001: {count} entities of the lake, each compared" in first.stdout
    assert f"index the lake's entities: {count} of about" in first.stderr
    assert "compare with the lake" in first.stderr
    second = typed(settings, "--json", "--keep-old")
    said = json.loads(second.stdout)
    assert (said["ok"], said["index"], said["old"], said["kept"]) == (True, f"{index}-000002", f"{index}-000001", True)
    assert (said["documents"], said["compared"], said["resumed"]) == (count, count, False)


def test_without_a_lake_or_a_server_it_exits_with_3(settings: Settings, tmp_path: Path) -> None:
    lacking = typed(settings, "--json")
    assert (lacking.exit_code, json.loads(lacking.stdout)["error"]["code"]) == (3, "no-lake")
    Feed(settings, random.Random(5))
    search = replace(settings.elasticsearch, url="http://127.0.0.1:9")
    away = typed(replace(settings, elasticsearch=search))
    assert away.exit_code == 3
    assert "error[search-unavailable]" in away.stderr
