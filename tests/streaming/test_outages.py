"""Servers that go away under a running stream: nothing is lost or doubled, and everything catches up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import ElasticsearchSettings, JournalSettings, LakeSettings, Settings, StackSettings
from metajournal.stack.elasticsearch import start_elasticsearch
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import start_kafka
from metajournal.stack.parts import Parts
from metajournal.stack.server import Server
from metajournal.stack.supervisor import read_told
from tests.index import shows_the_lake
from tests.processes import Running, running_indexer, running_stream
from tests.streaming.test_stream_kills import assert_all_equal, generated
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]


@pytest.fixture
def parts() -> Parts:
    return ensure_parts(("kafka", "elasticsearch"))


@pytest.fixture
def broker(parts: Parts, tmp_path: Path) -> Iterator[list[Server]]:
    """A broker of this test's own, which it may end; the last of the list is the running one."""
    servers = [start_kafka(parts, tmp_path / "kafka")]
    yield servers
    servers[-1].stop()


@pytest.fixture
def search(parts: Parts, tmp_path: Path) -> Iterator[list[Server]]:
    """The same of Elasticsearch."""
    servers = [start_elasticsearch(parts, tmp_path / "elasticsearch")]
    yield servers
    servers[-1].stop()


def own_settings(tmp_path: Path, bootstrap_servers: str, url: str) -> Settings:
    return Settings(
        journal=JournalSettings(prefix="outage", actor="tests"),
        kafka={"bootstrap.servers": bootstrap_servers},
        lake=LakeSettings(path=str(tmp_path / "lake")),
        elasticsearch=ElasticsearchSettings(url=url, index="outage"),
        stack=StackSettings(home=str(tmp_path / "home")),
    )


def kill(server: Server) -> None:
    """End a server as a crash would."""
    pid = server.kept.server_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: server.kept.exit_code is not None, what=f"the end of {server.name}")
    server.stop()


def state_of(settings: Settings, name: str) -> str:
    """What a component says of itself."""
    return str(read_told(Path(settings.stack.home or "") / f"{name}.json").get("state"))


def assert_runs(process: Running) -> None:
    assert process.process.poll() is None, process.tail()


def test_a_stream_outlives_its_broker(broker: list[Server], elasticsearch: str, parts: Parts, tmp_path: Path) -> None:
    settings = own_settings(tmp_path, broker[0].endpoint, elasticsearch)
    small = replace(settings, stream=replace(settings.stream, max_events_per_batch=7))
    ensure_topics(settings)
    records = generated(240)
    write(settings, records[:200])
    with (
        running_stream(small, tmp_path / "stream.log") as process,
        running_indexer(settings, tmp_path / "indexer.log") as indexer,
    ):
        for _ in range(2):
            eventually(lambda: state_of(settings, "stream") == "running", 90, f"a running stream ({process.log})")
            kill(broker[-1])
            eventually(lambda: state_of(settings, "stream") == "waiting", 60, "a stream that says that it waits")
            assert_runs(process)
            broker.append(start_kafka(parts, tmp_path / "kafka", ports=broker[0].ports))
            assert broker[-1].ports == broker[0].ports
        write(settings, records[200:])
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({process.log})")
        eventually(lambda: shows_the_lake(settings), 60, f"the index at the lake's marks ({indexer.log})")
        eventually(lambda: state_of(settings, "stream") == "running", what="a stream that says that it goes on")
        assert_runs(indexer)
    assert_all_equal(settings)


def test_what_is_folded_while_elasticsearch_is_away_is_searchable_afterwards(
    kafka: str, search: list[Server], parts: Parts, tmp_path: Path
) -> None:
    settings = own_settings(tmp_path, kafka, search[0].endpoint)
    ensure_topics(settings)
    records = generated(160)
    write(settings, records[:60])
    with (
        running_stream(settings, tmp_path / "stream.log") as process,
        running_indexer(settings, tmp_path / "indexer.log") as indexer,
    ):
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold of the first part ({process.log})")
        eventually(lambda: shows_the_lake(settings), 60, f"the index at the lake's marks ({indexer.log})")
        kill(search[-1])
        write(settings, records[60:])
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold of the second part ({process.log})")
        eventually(lambda: state_of(settings, "indexer") == "waiting", 30, "an indexer that says that it waits")
        assert_runs(indexer)
        search.append(start_elasticsearch(parts, tmp_path / "elasticsearch", ports=search[0].ports))
        assert search[-1].ports == search[0].ports
        eventually(lambda: shows_the_lake(settings), 90, f"the index at the lake's marks ({indexer.log})")
        assert_runs(indexer)
    assert_all_equal(settings)


def test_a_signal_that_ends_spark_too_is_an_orderly_end(settings: Settings, tmp_path: Path) -> None:
    """Service managers and `timeout` send SIGTERM to the whole group, and the JVM is the first to go."""
    ensure_topics(settings)
    write(settings, generated(20))
    with running_stream(settings, tmp_path / "stream.log") as process:
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold to the journal's end ({process.log})")
        for pid in (*java_of(process.process.pid), process.process.pid):
            os.kill(pid, signal.SIGTERM)
        assert process.ended(60) == 0, process.tail()
    assert state_of(settings, "stream") == "stopped"


def java_of(parent: int) -> list[int]:
    """The processes that this one has started."""
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
