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
from elasticsearch import Elasticsearch

from metajournal.domains.catalog.urns import dataset
from metajournal.indexer.connection import make_client
from metajournal.indexer.errors import AliasReplacedError, IndexerError, MappingMismatchError
from metajournal.indexer.fill.runner import Indexer
from metajournal.indexer.mapping import index_body
from metajournal.indexer.search.searching import Search
from metajournal.indexer.shown import read_shown
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import NotYetVisibleError
from metajournal.schemas.positions import Position, position
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from tests.indexer.corpus import State, state
from tests.journals import Filled
from tests.wait import eventually

pytestmark = pytest.mark.services
PARTITIONS = 2


class Stream:
    """Writes state and outcome records as the stream does."""

    def __init__(self, settings: Settings) -> None:
        self._settings, topics = settings, settings.journal.topics
        self.journal, self.state, self.outcomes = (
            topics.journal("catalog"),
            topics.state("catalog"),
            topics.outcomes("catalog"),
        )
        ensure_topics(replace(settings, journal=replace(settings.journal, partitions=PARTITIONS)))
        self._filled = Filled(settings)
        self._producer = Producer({**settings.kafka, "linger.ms": 0})
        self.ends = dict.fromkeys(range(PARTITIONS), 0)

    def states(self, *states: State) -> None:
        for document in states:
            self._filled.up_to(self.journal, document["partition"], document["logical_timestamp"] + 1)
            self.raw(
                json.dumps(document).encode(), f"{document['tenant']}/{document['urn']}".encode(), document["partition"]
            )

    def raw(self, value: bytes | None, key: bytes, partition: int) -> None:
        self._producer.produce(self.state, value, key, partition)
        self._producer.flush(10)
        self.ends[partition] += 1

    @contextmanager
    def unseen(self, *states: State) -> Iterator[None]:
        """States that stand in their topic, and are shown to its readers only when the block ends."""
        producer = Producer({**self._settings.kafka, "transactional.id": self.state})
        producer.init_transactions(30)
        producer.begin_transaction()
        for document in states:
            self._filled.up_to(self.journal, document["partition"], document["logical_timestamp"] + 1)
            key = f"{document['tenant']}/{document['urn']}"
            producer.produce(self.state, json.dumps(document), key, document["partition"])
            self.ends[document["partition"]] += 1
        assert producer.flush(10) == 0
        yield
        producer.commit_transaction(30)

    def say(self, value: bytes, key: str, partition: int = 0) -> None:
        """Any record of the outcomes topic."""
        self._producer.produce(self.outcomes, value, key, partition)
        self._producer.flush(10)

    def outcome(self, partition: int, to: int, end: int | None = None, system_time: int | None = None) -> Position:
        """An outcome record up to an offset of the journal; the position of the last event it covers."""
        self._filled.up_to(self.journal, partition, position(1, to))
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
        self.say(json.dumps(record).encode(), f"{self.journal}/{partition}", partition)
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


def things(*numbers: int, offset: int = 0, **more: Any) -> list[State]:
    return [
        state(
            dataset("default", f"d{number}"),
            user={"n": f"v{offset}"},
            offset=offset,
            partition=number % PARTITIONS,
            **more,
        )
        for number in numbers
    ]


def values_by_name(settings: Settings, query: str = "*", **options: Any) -> dict[str, str]:
    with Search(settings) as search:
        hits = search.search(query, limit=100, **options).hits
    return {hit.name: hit.document["user"]["properties"]["n"] for hit in hits}


def status(settings: Settings) -> dict[str, Any]:
    assert settings.stack.home is not None
    path = Path(settings.stack.home) / "indexer.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def test_states_become_searchable_and_the_vector_follows_their_outcomes(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        stream.states(*things(0, 1, 2, offset=1))
        first = stream.outcome(0, to=2)
        shown_now = values_by_name(settings, at_least=first)
        assert (shown_now["d0"], shown_now["d2"]) == ("v1", "v1")
        stream.states(*things(0, offset=5), *things(2, offset=6, deleted=True), *things(0, offset=3))
        second = stream.outcome(0, to=7)
        assert values_by_name(settings, at_least=second)["d0"] == "v5"
        assert values_by_name(settings, "d2") == {}
        assert values_by_name(settings, "n:v1", at_least=stream.outcome(1, to=9)) == {"d1": "v1"}
        vector = {f"{stream.journal}/0": position(1, 7), f"{stream.journal}/1": position(1, 9)}
        eventually(lambda: status(settings).get("shows") == vector, what="the vector in the status file")
        eventually(lambda: status(settings).get("documents") == 2, what="the count in the status file")
        assert status(settings)["state"] == "running"
        assert indexer.freshness_s() == 0
    assert status(settings)["state"] == "stopped"


def test_an_outcome_is_shown_only_once_its_states_are(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        an_hour_ago = round(time.time() * 1000) - 3_600_000
        with stream.unseen(*things(0, offset=1)):
            wanted = stream.outcome(0, to=2, system_time=an_hour_ago)
            eventually(lambda: indexer.freshness_s() > 3000, what="the freshness of an outcome that waits")
            with Search(settings) as search, pytest.raises(NotYetVisibleError):
                search.search("*", at_least=wanted, timeout_s=2)
        assert values_by_name(settings, at_least=wanted) == {"d0": "v1"}
        assert indexer.freshness_s() == 0


def test_nothing_new_means_no_refresh(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        stream.states(*things(0, offset=1))
        values_by_name(settings, at_least=stream.outcome(0, to=2))
        before = indexer.status()["refreshes"]
        for to in (3, 4, 5):
            values_by_name(settings, at_least=stream.outcome(0, to=to))
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
        stream.states(*things(0, offset=1))
        assert values_by_name(settings, at_least=stream.outcome(0, to=2)) == {"d0": "v1"}
        assert indexer.status()["unreadable"] == 5


def deep(levels: int) -> bytes:
    return b'{"record":' * levels + b"1" + b"}" * levels


def forged(stream: Stream) -> dict[str, bytes]:
    """Outcome records of partition 0 that the stream cannot have written."""
    plain = {"topic": stream.journal, "partition": 0, "from": position(1, 0), "to": position(1, 1), "verdicts": []}
    true = {**plain, "ends": {stream.state: {"0": 0}}, "system_time": 1, "written": 1}
    lies: dict[str, dict[str, Any]] = {
        "the end of the journal": {"to": position(1, 10**6)},
        "another epoch": {"to": position(2, 0) + 1},
        "beyond all numbers": {"to": 1 << 70},
        "before all numbers": {"to": -1},
        "no number": {"to": 1.0},
        "the end of the state topic": {"ends": {stream.state: {"0": 10**6}}},
        "a partition that is not there": {"ends": {stream.state: {"-1": 1}}},
        "a partition behind the last one": {"ends": {stream.state: {"99": 1}}},
        "a partition beyond all of Kafka's": {"ends": {stream.state: {str(1 << 32): 1}}},
        "another topic": {"topic": "other"},
        "another key": {"partition": 1},
        "a time beyond all times": {"system_time": 10**400},
    }
    return {
        "too deep": deep(50_000),
        "not text": b"\xff\xfe{}",
        "not a number": json.dumps({**true, "system_time": float("nan")}).encode(),
        **{name: json.dumps({**true, **lie}).encode() for name, lie in lies.items()},
    }


def test_forged_outcomes_are_counted_and_the_indexer_goes_on(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        stream.states(*things(0, offset=1))
        assert values_by_name(settings, at_least=stream.outcome(0, to=2)) == {"d0": "v1"}
        records = forged(stream)
        for value in records.values():
            stream.say(value, f"{stream.journal}/0")
        stream.states(*things(0, offset=2))
        assert values_by_name(settings, at_least=stream.outcome(0, to=3)) == {"d0": "v2"}
        report = indexer.status()
        assert report["unreadable"] + report["forged"] == len(records)
        assert report["forged"] == 5
        assert report["shows"] == {f"{stream.journal}/0": position(1, 3)}
        assert "5 beyond the end of the journal" in report["message"]
        assert indexer.freshness_s() == 0


def test_a_state_from_beyond_the_journals_end_holds_no_document(settings: Settings, stream: Stream) -> None:
    with indexing(settings) as indexer:
        stream.states(*things(0, offset=1))
        [lie] = things(0, offset=10**6)
        key = f"{lie['tenant']}/{lie['urn']}".encode()
        for wrong in (lie, {**lie, "logical_timestamp": position(7, 0)}, {**lie, "logical_timestamp": 1 << 62}):
            stream.raw(json.dumps(wrong).encode(), key, 0)
        stream.raw(json.dumps({**lie, "partition": 99}).encode(), key, 0)
        stream.raw(json.dumps({**lie, "logical_timestamp": 1 << 70}).encode(), key, 0)
        stream.raw(json.dumps(things(2, offset=1)[0]).encode(), key, 0)
        for record in (b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": "\\ud800"}', deep(50_000)):
            stream.raw(json.dumps(lie).encode()[:-1] + b', "record": ' + record + b"}", key, 0)
        stream.states(*things(0, offset=2))
        assert values_by_name(settings, at_least=stream.outcome(0, to=3)) == {"d0": "v2"}
        assert (indexer.status()["forged"], indexer.status()["unreadable"]) == (4, 6)


def test_states_that_elasticsearch_refuses_are_counted_and_passed_over(
    settings: Settings, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    with indexing(settings) as indexer:
        [true] = things(0, offset=1)
        stream.states(true)
        values_by_name(settings, at_least=stream.outcome(0, to=2))
        [lie] = things(2, offset=1)
        for kind in ("k" * 40_000, "l" * 100_000):  # no term of Lucene is so long
            urn = f"{kind}:a"
            stream.raw(json.dumps({**lie, "kind": kind, "urn": urn}).encode(), f"default/{urn}".encode(), 0)
        stream.states(*things(4, offset=2))
        assert values_by_name(settings, at_least=stream.outcome(0, to=3)) == {"d0": "v1", "d4": "v2"}
        assert indexer.status()["refused"] == 2
        assert "2 refused by Elasticsearch" in indexer.status()["message"]
    assert any("refused in every form" in record.getMessage() for record in caplog.records)


def test_an_index_that_takes_no_documents_ends_the_indexer_and_skips_none(settings: Settings, stream: Stream) -> None:
    """Its default pipeline is gone: each document is refused, as a forged one is."""
    client = make_client(settings)
    name = f"{settings.elasticsearch.index}-000001"
    with indexing(settings):
        stream.states(*things(0, offset=1))
        values_by_name(settings, at_least=stream.outcome(0, to=2))
    client.indices.put_settings(index=name, settings={"index.default_pipeline": "not-there"})
    stream.states(*things(2, offset=2))
    wanted = stream.outcome(0, to=3)
    with pytest.raises(IndexerError, match="refuses the document of"):
        Indexer(settings).run(threading.Event())
    client.indices.put_settings(index=name, settings={"index.default_pipeline": "_none"})
    with indexing(settings) as indexer:
        assert values_by_name(settings, at_least=wanted) == {"d0": "v1", "d2": "v2"}
        assert indexer.status()["refused"] == 0
    client.close()


def test_a_lost_index_is_made_and_filled_again(settings: Settings, stream: Stream) -> None:
    client = make_client(settings)
    with indexing(settings):
        stream.states(*things(0, 1, offset=1))
        values_by_name(settings, at_least=stream.outcome(0, to=2))
        client.indices.delete(index=f"{settings.elasticsearch.index}-000001")
        stream.states(*things(2, offset=3))
        wanted = stream.outcome(0, to=4)
        eventually(lambda: _shows(settings, wanted), 30, "the new index")
        all_three = {"d0": "v1", "d1": "v1", "d2": "v3"}  # no outcome speaks of d1's partition, so it may come later
        assert eventually(lambda: values_by_name(settings) == all_three, 30, "all entities in the new index")
    client.close()


def test_an_index_that_is_lost_while_nothing_happens_is_filled_again_too(settings: Settings, stream: Stream) -> None:
    client = make_client(settings)
    with indexing(settings):
        stream.states(*things(0, offset=1))
        wanted = stream.outcome(0, to=2)
        values_by_name(settings, at_least=wanted)
        client.indices.delete(index=f"{settings.elasticsearch.index}-000001")
        eventually(lambda: _shows(settings, wanted), 30, "the new index")
        assert values_by_name(settings) == {"d0": "v1"}
    client.close()


def test_an_index_of_another_version_is_deleted_by_hand_and_filled_anew_by_the_next_start(
    settings: Settings, stream: Stream
) -> None:
    """What the error's hint tells an operator to do."""
    stream.states(*things(0, 1, offset=1))
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
        both = {"d0": "v1", "d1": "v1"}  # no outcome speaks of d1's partition, so it may come later
        assert eventually(lambda: values_by_name(settings) == both, 30, "all entities in the new index")


@pytest.mark.parametrize("lost", [True, False])
def test_an_index_in_the_aliass_place_ends_the_indexer_with_what_to_do_and_doing_it_mends_it(
    settings: Settings, stream: Stream, lost: bool
) -> None:
    """The alias was deleted, with its index or without it, and another program's write made an index of that name."""
    client, alias = make_client(settings), settings.elasticsearch.index
    stream.states(*things(0, offset=1))
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
    for refused in (lambda: Indexer(settings).run(threading.Event()), lambda: values_by_name(settings)):
        with pytest.raises(AliasReplacedError):
            refused()
    subprocess.run(mend, shell=True, check=True, capture_output=True)
    with indexing(settings):
        eventually(lambda: _shows(settings, wanted), 30, "the index behind its alias again")
        assert values_by_name(settings) == {"d0": "v1"}
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
        stream.states(*things(0, offset=1))
        wanted = stream.outcome(0, to=2)
        eventually(lambda: _shows(settings, wanted), 30, "the vector")


_PROGRAM = """
import json, sys
from metajournal.indexer.fill.process import run_indexer
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
                (thing,) = things(offset % 7, offset=offset)
                stream.states(thing, *things(offset % 7, offset=max(1, offset - 7)))
                expected[thing["name"]] = f"v{offset}"
            wanted = stream.outcome(0, to=offset + 1)
            if round_number != 1:
                eventually(lambda wanted=wanted: _shows(settings, wanted), 30, "the vector")  # type: ignore[misc]
        stream.states(*things(0, offset=1))
    with process(settings, signal.SIGTERM):
        for partition in range(PARTITIONS):
            wanted = stream.outcome(partition, to=offset + 2)
            eventually(lambda wanted=wanted: _shows(settings, wanted), 30, "the vector")  # type: ignore[misc]
        assert values_by_name(settings) == expected
    assert status(settings)["state"] == "stopped"


def test_two_indexers_at_once_do_no_harm(settings: Settings, stream: Stream) -> None:
    with indexing(settings), indexing(replace(settings, stack=replace(settings.stack, home=None))):
        for offset in range(1, 30):
            stream.states(*things(offset % 3, offset=offset))
            stream.outcome(0, to=offset + 1)
        wanted = [stream.outcome(partition, to=31) for partition in range(PARTITIONS)]
        for cut in wanted:
            eventually(lambda cut=cut: _shows(settings, cut), 30, "the vector")  # type: ignore[misc]
        assert values_by_name(settings) == {"d0": "v27", "d1": "v28", "d2": "v29"}
