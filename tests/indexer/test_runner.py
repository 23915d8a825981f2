"""The indexer between a real Kafka and a real Elasticsearch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from elasticsearch import Elasticsearch

from metajournal.indexer.connection import make_client
from metajournal.indexer.errors import AliasReplacedError, MappingMismatchError
from metajournal.indexer.fill.runner import Indexer
from metajournal.indexer.mapping import index_body
from metajournal.indexer.search.searching import Search
from metajournal.indexer.shown import read_shown
from metajournal.schemas.errors import NotYetVisibleError
from metajournal.schemas.positions import Position, position
from metajournal.schemas.registry import served_domains
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from metajournal.schemas.urn import dataset
from tests.indexer.corpus import State, state
from tests.new_topics import make_topics
from tests.wait import eventually

pytestmark = pytest.mark.services
PARTITIONS = 2


class Stream:
    """Writes state and outcome records as the stream does."""

    def __init__(self, settings: Settings) -> None:
        topics = settings.journal.topics
        self.journal, self.state, self.outcomes = (
            topics.journal("catalog"),
            topics.state("catalog"),
            topics.outcomes("catalog"),
        )
        admin = AdminClient(dict(settings.kafka))
        names = [name for domain in served_domains() for name in (topics.state(domain), topics.outcomes(domain))]
        make_topics(admin, [NewTopic(name, PARTITIONS) for name in names])
        self._producer = Producer({**settings.kafka, "linger.ms": 0})
        self.ends = dict.fromkeys(range(PARTITIONS), 0)

    def states(self, *states: State) -> None:
        for one in states:
            self.raw(json.dumps(one).encode(), f"{one['tenant']}/{one['urn']}".encode(), one["partition"])

    def raw(self, value: bytes | None, key: bytes, partition: int) -> None:
        self._producer.produce(self.state, value, key, partition)
        self._producer.flush(10)
        self.ends[partition] += 1

    def outcome(self, partition: int, to: int, end: int | None = None, system_time: int | None = None) -> Position:
        """An outcome record up to an offset of the journal; the position of the last event it covers."""
        ends = {str(partition): self.ends[partition] if end is None else end}
        record = {
            "topic": self.journal,
            "partition": partition,
            "from": position(1, 0),
            "to": position(1, to),
            "verdicts": [],
            "ends": {self.state: ends},
            "system_time": system_time or round(time.time() * 1000),
            "written": 0,
        }
        self._producer.produce(self.outcomes, json.dumps(record), f"{self.journal}/{partition}", partition)
        self._producer.flush(10)
        return Position(self.journal, partition, position(1, to - 1))


@contextmanager
def indexing(settings: Settings) -> Iterator[Indexer]:
    """An indexer in a thread; an error in it fails the test."""
    indexer, stop, failed = Indexer(settings), threading.Event(), []

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


@pytest.fixture
def stream(settings: Settings) -> Stream:
    return Stream(settings)


def things(*numbers: int, at: int = 0, **more: Any) -> list[State]:
    return [
        state(dataset("default", f"d{number}"), user={"n": f"v{at}"}, offset=at, partition=number % PARTITIONS, **more)
        for number in numbers
    ]


def found(settings: Settings, query: str = "*", **options: Any) -> dict[str, str]:
    with Search(settings) as search:
        hits = search.search(query, limit=100, **options).hits
    return {hit.name: hit.document["user"]["properties"]["n"] for hit in hits}


def status(settings: Settings) -> dict[str, Any]:
    assert settings.stack.home is not None
    path = Path(settings.stack.home) / "indexer.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def test_states_become_searchable_and_the_vector_follows_their_outcomes(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        stream.states(*things(0, 1, 2, at=1))
        first = stream.outcome(0, to=2)
        shown_now = found(settings, at_least=first)
        assert (shown_now["d0"], shown_now["d2"]) == ("v1", "v1")
        stream.states(*things(0, at=5), *things(2, at=6, deleted=True), *things(0, at=3))
        second = stream.outcome(0, to=7)
        assert found(settings, at_least=second)["d0"] == "v5"
        assert found(settings, "d2") == {}
        assert found(settings, "n:v1", at_least=stream.outcome(1, to=9)) == {"d1": "v1"}
        vector = {f"{stream.journal}/0": position(1, 7), f"{stream.journal}/1": position(1, 9)}
        eventually(lambda: status(settings).get("shows") == vector, what="the vector in the status file")
        eventually(lambda: status(settings).get("documents") == 2, what="the count in the status file")
        assert status(settings)["state"] == "running"
        assert indexer.freshness_s() == 0
    assert status(settings)["state"] == "stopped"


def test_an_outcome_is_shown_only_once_its_states_are(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        an_hour_ago = round(time.time() * 1000) - 3_600_000
        wanted = stream.outcome(0, to=2, end=1, system_time=an_hour_ago)
        eventually(lambda: indexer.freshness_s() > 3000, what="the freshness of an outcome that waits")
        with Search(settings) as search, pytest.raises(NotYetVisibleError):
            search.search("*", at_least=wanted, timeout_s=2)
        stream.states(*things(0, at=1))
        assert found(settings, at_least=wanted) == {"d0": "v1"}
        assert indexer.freshness_s() == 0


def test_nothing_new_means_no_refresh(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        stream.states(*things(0, at=1))
        found(settings, at_least=stream.outcome(0, to=2))
        before = indexer.status()["refreshes"]
        for to in (3, 4, 5):
            found(settings, at_least=stream.outcome(0, to=to))
        assert indexer.status()["refreshes"] == before


def test_what_cannot_be_read_is_counted_and_the_rest_goes_on(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        for bad in (
            b"no json",
            b"[]",
            b'{"tenant": "default"}',
            None,
            json.dumps({**things(0)[0], "user": 3}).encode(),
        ):
            stream.raw(bad, b"key", 0)
        stream.states(*things(0, at=1))
        assert found(settings, at_least=stream.outcome(0, to=2)) == {"d0": "v1"}
        assert indexer.status()["unreadable"] == 5


def test_a_lost_index_is_made_and_filled_again(settings: Settings, stream: Stream) -> None:
    client = make_client(settings)
    with indexing(settings):
        stream.states(*things(0, 1, at=1))
        found(settings, at_least=stream.outcome(0, to=2))
        client.indices.delete(index=f"{settings.elasticsearch.index}-000001")
        stream.states(*things(2, at=3))
        wanted = stream.outcome(0, to=4)
        eventually(lambda: _shows(settings, wanted), 30, "the new index")
        all_three = {"d0": "v1", "d1": "v1", "d2": "v3"}  # no outcome speaks of d1's partition, so it may come later
        assert eventually(lambda: found(settings) == all_three, 30, "all entities in the new index")
    client.close()


def test_an_index_that_is_lost_while_nothing_happens_is_filled_again_too(settings: Settings, stream: Stream) -> None:
    client = make_client(settings)
    with indexing(settings):
        stream.states(*things(0, at=1))
        wanted = stream.outcome(0, to=2)
        found(settings, at_least=wanted)
        client.indices.delete(index=f"{settings.elasticsearch.index}-000001")
        eventually(lambda: _shows(settings, wanted), 30, "the new index")
        assert found(settings) == {"d0": "v1"}
    client.close()


def test_an_index_of_another_version_is_deleted_by_hand_and_filled_anew_by_the_next_start(
    settings: Settings, stream: Stream
) -> None:
    """What the error's hint tells an operator to do."""
    stream.states(*things(0, 1, at=1))
    wanted = stream.outcome(0, to=2)
    name, body = f"{settings.elasticsearch.index}-000001", index_body()
    body["mappings"]["_meta"]["metajournal"] = {"version": 0, "digest": "other"}
    client = make_client(settings)
    client.indices.create(index=name, aliases={settings.elasticsearch.index: {}}, **body)
    with pytest.raises(MappingMismatchError, match="version 0") as caught:
        Indexer(settings).run(threading.Event())
    assert "delete that index" in caught.value.hint
    client.indices.delete(index=name)
    client.close()
    with indexing(settings):
        eventually(lambda: _shows(settings, wanted), 30, "the new index")
        assert found(settings) == {"d0": "v1", "d1": "v1"}


@pytest.mark.parametrize("lost", [True, False])
def test_an_index_in_the_aliass_place_ends_the_indexer_with_what_to_do_and_doing_it_mends_it(
    settings: Settings, stream: Stream, lost: bool
) -> None:
    """The alias was deleted, with its index or without it, and another program's write made an index of that name."""
    client, alias = make_client(settings), settings.elasticsearch.index
    stream.states(*things(0, at=1))
    wanted = stream.outcome(0, to=2)
    with failing(settings) as errors:
        eventually(lambda: _shows(settings, wanted), 30, "the index")
        eventually(lambda: _replaced(client, alias, lost), 30, "an index in the alias's place")
        eventually(lambda: errors, 30, "the indexer's end")
    (error,) = errors
    assert isinstance(error, AliasReplacedError)
    mend = f"curl -X DELETE '{settings.elasticsearch.url}/{alias}'"
    assert mend in error.hint
    assert status(settings)["state"] == "failed"
    assert status(settings)["message"].startswith(f"alias-replaced: {alias!r} is an index, and not metajournal's alias")
    assert status(settings)["mend"] == error.hint
    for refused in (lambda: Indexer(settings).run(threading.Event()), lambda: found(settings)):
        with pytest.raises(AliasReplacedError):
            refused()
    subprocess.run(mend, shell=True, check=True, capture_output=True)
    with indexing(settings):
        eventually(lambda: _shows(settings, wanted), 30, "the index behind its alias again")
        assert found(settings) == {"d0": "v1"}
    client.close()


def _replaced(client: Elasticsearch, alias: str, lost: bool) -> bool:
    """Whether an index took the alias's place; the indexer may have been faster, and have set the alias again."""
    name, away = f"{alias}-000001", client.options(ignore_status=404)
    away.indices.delete(index=name) if lost else away.indices.delete_alias(index=name, name=alias)
    client.options(ignore_status=400).index(index=alias, document={"whose": "somebody else's"})
    return alias in client.indices.get_alias(index=alias).body


@contextmanager
def failing(settings: Settings) -> Iterator[list[BaseException]]:
    """An indexer in a thread; the list gets what it fails of."""
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            Indexer(settings).run(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failed
    finally:
        stop.set()
        thread.join(30)


def _shows(settings: Settings, wanted: Position) -> bool:
    client = make_client(settings)
    try:
        vector = read_shown(client, settings.elasticsearch.index).vector
        return vector.get((wanted.topic, wanted.partition), 0) > wanted.value
    except Exception as error:
        raise AssertionError(str(error)) from error
    finally:
        client.close()


def test_an_elasticsearch_that_is_away_is_waited_for_and_said(settings: Settings, stream: Stream) -> None:
    away = replace(settings, elasticsearch=ElasticsearchSettings(url="http://127.0.0.1:9", index="none"))
    with indexing(away):
        eventually(lambda: status(away).get("state") == "waiting", what="the status waiting")
        assert "Elasticsearch does not answer" in status(away)["message"]
    assert status(away)["state"] == "stopped"


def test_topics_that_are_not_there_yet_are_waited_for(settings: Settings) -> None:
    with indexing(settings):
        eventually(lambda: status(settings).get("state") == "waiting", 20, "the status waiting")
        assert "does not show the topic" in status(settings)["message"]
        stream = Stream(settings)
        stream.states(*things(0, at=1))
        wanted = stream.outcome(0, to=2)
        eventually(lambda: _shows(settings, wanted), 30, "the vector")


_PROGRAM = """
import json, sys
from metajournal.indexer.fill.runner import run_indexer
from metajournal.schemas.settings import *
given = json.loads(sys.argv[1])
run_indexer(Settings(
    journal=JournalSettings(**given["journal"]), kafka=given["kafka"],
    elasticsearch=ElasticsearchSettings(**given["elasticsearch"]), stack=StackSettings(**given["stack"]),
))
"""


@contextmanager
def process(settings: Settings, end: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    """The indexer in a process of its own, ended by a signal."""
    given = {key: value for key, value in asdict(settings).items() if key in ("journal", "elasticsearch", "stack")}
    given["kafka"] = dict(settings.kafka)
    running = subprocess.Popen([sys.executable, "-c", _PROGRAM, json.dumps(given)], env=dict(os.environ))
    try:
        yield running
    finally:
        running.send_signal(end)
        code = running.wait(30)
    assert code == (0 if end == signal.SIGTERM else -signal.SIGKILL)


def test_a_killed_indexer_goes_on_where_the_index_stands(settings: Settings, stream: Stream) -> None:
    """Killed again and again between and inside its steps; in the end the index is what the newest states say."""
    expected: dict[str, str] = {}
    offset = 0
    for round_number in range(3):
        with process(settings, signal.SIGKILL):
            for _ in range(40):
                offset += 1
                (one,) = things(offset % 7, at=offset)
                stream.states(one, *things(offset % 7, at=max(1, offset - 7)))
                expected[one["name"]] = f"v{offset}"
            wanted = stream.outcome(0, to=offset + 1)
            if round_number != 1:
                eventually(lambda wanted=wanted: _shows(settings, wanted), 30, "the vector")  # type: ignore[misc]
        stream.states(*things(0, at=1))
    with process(settings, signal.SIGTERM):
        for partition in range(PARTITIONS):
            wanted = stream.outcome(partition, to=offset + 2)
            eventually(lambda wanted=wanted: _shows(settings, wanted), 30, "the vector")  # type: ignore[misc]
        assert found(settings) == expected
    assert status(settings)["state"] == "stopped"


def test_two_indexers_at_once_do_no_harm(settings: Settings, stream: Stream) -> None:
    with indexing(settings), indexing(replace(settings, stack=replace(settings.stack, home=None))):
        for offset in range(1, 30):
            stream.states(*things(offset % 3, at=offset))
            stream.outcome(0, to=offset + 1)
        wanted = [stream.outcome(partition, to=31) for partition in range(PARTITIONS)]
        for one in wanted:
            eventually(lambda one=one: _shows(settings, one), 30, "the vector")  # type: ignore[misc]
        assert found(settings) == {"d0": "v27", "d1": "v28", "d2": "v29"}
