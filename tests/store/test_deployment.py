"""The lake in a real object store, end to end: killed, slowed, refused, away for a while, rebuilt and verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metajournal.cli import main
from metajournal.client import Journal
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset, run
from metajournal.domains.lineage.events import AccessesRecorded
from metajournal.lake.derived import wait_for_derived
from metajournal.lake.storage.store import read_object, replace_object, store_files
from metajournal.lake.tables import Lake
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.stack.jars import ensure_parts
from metajournal.stack.s3proxy import ObjectStore, start_s3proxy
from metajournal.streaming.rebuild import InProcess, rebuild_lake
from metajournal.streaming.verify import verify_lake
from tests.index import shows_the_lake
from tests.processes import running_indexer, running_stream, stream
from tests.store.conftest import BUCKET
from tests.store.proxy import Trouble, troubled
from tests.streaming.test_stream_kills import assert_all_equal, generated, with_stream
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]
DATA = dataset("shop", "orders")


def in_store(settings: Settings, place: str, store: ObjectStore, url: str | None = None) -> Settings:
    options = {**store.options, "AWS_ENDPOINT_URL": url or store.server.endpoint}
    return replace(settings, lake=replace(settings.lake, path=place, storage_options=options))


def typed(settings: Settings, *words: str) -> Result:
    """A command with these settings."""
    given = {
        "journal.prefix": settings.journal.prefix,
        "kafka.bootstrap.servers": settings.kafka["bootstrap.servers"],
        "elasticsearch.url": settings.elasticsearch.url,
        "elasticsearch.index": settings.elasticsearch.index,
        "lake.path": settings.lake.path,
        **{f"lake.storage_options.{name}": value for name, value in settings.lake.storage_options.items()},
        "lake.storage_options.max_retries": "1",
    }
    options = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    return CliRunner().invoke(main, [*options, *words])


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[list[ObjectStore]]:
    """A store of this test's own, which it may end; the last of the list is the running one."""
    stores = [start_s3proxy(ensure_parts(("s3proxy",)), tmp_path / "store")]
    stores[0].make_bucket(BUCKET)
    yield stores
    stores[-1].server.stop()


def test_nothing_is_lost_or_doubled_in_a_store_that_refuses_forgets_and_goes_away_under_a_stream_that_is_killed(
    settings: Settings, place: str, own_store: list[ObjectStore], tmp_path: Path
) -> None:
    """Some requests are refused with 503, answers are lost, all are late; at a kill the lease ends by itself."""
    records = generated(90)
    trouble = Trouble(seed=5, refused=0.05, lost=0.02, latency_s=0.002)
    with troubled(own_store[0].server.endpoint, trouble) as url, ExitStack() as until:
        settings = in_store(settings, place, own_store[0], url)
        ensure_topics(settings)
        write(settings, records[:30])
        asked = with_stream(settings, crash_at="after-history:2", max_events_per_batch=7)
        killed = stream(asked, tmp_path / "killed.log")
        assert killed.ended(120) == -9, killed.tail()
        write(settings, records[30:60])
        wide = with_stream(settings, wide_events=1, max_events_per_batch=23)
        last = until.enter_context(running_stream(wide, tmp_path / "last.log"))
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold after the kill ({last.log})")
        assert trouble.harmed, "the proxy harmed nothing"
        own_store[-1].server.stop()
        write(settings, records[60:])
        eventually(lambda: "Retrying in" in last.log.read_text("utf-8"), 90, f"the stream to wait ({last.log})")
        (port,) = own_store[-1].server.ports
        own_store.append(start_s3proxy(ensure_parts(("s3proxy",)), tmp_path / "store", port=port))
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({last.log})")
        trouble.set()
        assert last.stop() == 0, last.tail()
        with running_indexer(settings, tmp_path / "indexer.log") as indexer:
            eventually(lambda: shows_the_lake(settings), 60, f"the index at the lake's marks ({indexer.log})")
        assert_all_equal(settings)


def test_a_lake_in_a_store_is_asked_rebuilt_verified_and_vacuumed_as_any_other(
    settings: Settings, place: str, store: ObjectStore, tmp_path: Path
) -> None:
    settings = in_store(settings, place, store)
    ensure_topics(settings)
    lake = Lake(place, settings.lake.storage_options)
    with (
        running_stream(settings, tmp_path / "stream.log") as process,
        running_indexer(settings, tmp_path / "indexer.log"),
        Journal.connect(settings) as journal,
    ):
        journal.emit(EntityRegistered(DATA, properties={"owner": "alice"}))
        tagged = journal.emit(TagsAdded(DATA, ["pii"])).position
        for number in range(30):
            journal.emit(AccessesRecorded(run("shop", "app", "spark", "job", f"r{number}"), [(DATA, "write", number)]))
        journal.flush()
        assert [hit.urn for hit in journal.search("tags:pii", at_least=tagged, timeout_s=120).hits] == [DATA]
        eventually(lambda: folded_to_the_end(settings), 60, f"the fold ({process.log})")
        assert journal.show(DATA).user_tags == ("pii",)
        assert len(list(journal.history(DATA))) == 2

        keys = [(settings.journal.topics.journal("catalog"), number) for number in range(4)]
        lake.refresh()
        wait_for_derived(lake, ["writes"], {key: lake.journal.mark(key) for key in keys}, timeout_s=60)
        assert (journal.lineage.latest_write(DATA) or {})["at"] == 29

        epochs = check_topics(settings)
        assert rebuild_lake(settings, epochs, InProcess(), offline=False).equal
        journal.emit(TagsAdded(DATA, ["gold"]))
        eventually(lambda: journal.show(DATA).user_tags == ("gold", "pii"), 60, f"a tag after the swap ({process.log})")
        checks = verify_lake(settings, epochs, Lake(place, settings.lake.storage_options), InProcess())
        assert all(check.ok for check in checks), checks
        rebuilt = typed(settings, "rebuild", "index")
        assert rebuilt.exit_code == 0, rebuilt.output
        assert [hit.urn for hit in journal.search("tags:gold", timeout_s=60).hits] == [DATA]
        refused = stream(settings, tmp_path / "second.log")
        assert refused.ended(60) != 0
        assert "Another stream of the lake" in refused.tail()
        assert process.stop() == 0, process.tail()
    lake.refresh()
    assert lake.generation == 1
    entities = lake.tables["entities"]
    assert entities.uri.endswith("gen-1/entities")
    before = entities.query("count(*) as rows", "true")
    files = store_files(entities.uri, store.options)
    replace_object(files, "part-of-an-unfinished-write.zstd.parquet", b"PAR1")
    assert entities.vacuum(0) == 1
    assert read_object(files, "part-of-an-unfinished-write.zstd.parquet") is None
    assert entities.query("count(*) as rows", "true") == before


def test_a_command_says_what_is_wrong_with_a_store_and_shows_no_secret(
    settings: Settings, place: str, store: ObjectStore
) -> None:
    away = in_store(settings, place, store, "http://127.0.0.1:1")
    ensure_topics(settings)
    shown = typed(away, "show", str(DATA))
    assert shown.exit_code == 3, shown.output
    assert "error[lake-unavailable]" in shown.stderr
    assert "lake.storage_options" in shown.stderr
    config = typed(away, "config", "show")
    assert store.server.endpoint not in config.output
    assert away.lake.storage_options["AWS_SECRET_ACCESS_KEY"] not in shown.output + config.output
