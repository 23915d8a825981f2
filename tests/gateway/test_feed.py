"""The feed over real servers, a real broker and a stream that publishes: nothing is lost or doubled, and nothing shown
that may not be read.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from hypothesis import HealthCheck, given
from hypothesis import settings as properties
from hypothesis import strategies as st

from metajournal import EntityRegistered, Journal, PropertiesSet, TagsAdded, dataset, stream
from metajournal.domains.access.rights import Rights
from metajournal.gateway.feed import feeds, past, reader
from metajournal.producers.answers import Administrator
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from tests.gateway.feeding import BEGINNING, Event, Listener, published, publisher
from tests.gateway.serving import ADMIN, OTHER, READER, TEAM_A, Served, running, served
from tests.properties import examples
from tests.streaming.harness import Crash, EndsAt
from tests.wait import eventually

pytestmark = pytest.mark.services
SMALL = 12
"""Changes that the ring of the second server keeps."""


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A server whose stream publishes to the broker."""
    ensure_topics(gateway_settings)
    with served(gateway_settings, topics=publisher(gateway_settings)) as found:
        yield found


@contextmanager
def another(server: Served, settings: Settings, *, kept: int | None = None) -> Iterator[str]:
    """The address of another process before the same journal.

    Args:
        kept: changes that its ring keeps, where fewer.
    """
    with pytest.MonkeyPatch.context() as patched, Journal.connect(settings) as journal:
        if kept is not None:
            patched.setattr(feeds, "CHANGES", kept)
        with running(journal, server.principals, settings) as address:
            yield address


def tag(server: Served, urn: Urn, *tags: str, tenant: str = "default") -> None:
    """One change of an entity, which is registered where it is not; that alone is no change."""
    server.journal.emit(EntityRegistered(urn), tenant=tenant)
    server.journal.emit(TagsAdded(urn, list(tags)), tenant=tenant)


def publish(server: Served, names: Sequence[str], rounds: int, namespace: str = "feed") -> None:
    """Changes of several entities, folded and published."""
    marker = f"{time.monotonic_ns():x}"
    for number in range(rounds):
        for name in names:
            tag(server, dataset(namespace, name), f"{marker}-{number}")
    server.journal.flush()
    server.fold()


def crash_and_publish_again(server: Served, point: str) -> None:
    """The stream ends in the middle of a batch, and its next start publishes the batch again."""
    server.stream.engine._crash = EndsAt(point)
    with pytest.raises(Crash):
        server.fold()
    server.stream.start()
    server.fold()


def has(count: int, listener: Listener) -> bool:
    """Whether so many changes came."""
    return len(listener.told) >= count


def by_entity(events: Sequence[Event]) -> dict[str, list[tuple[int, int]]]:
    """The place of each change in its entity's own order, by entity and scope."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        place = int(event.data["position"].rpartition("/")[2]), int(event.data["seq"])
        found[f"{event.data['domain']} {event.data['scope']} {event.data['urn']}"].append(place)
    return found


def assert_in_order(events: Sequence[Event]) -> None:
    for places in by_entity(events).values():
        assert places == sorted(set(places))


def test_changes_come_each_once_and_in_the_order_of_their_entity(server: Served) -> None:
    with Listener(server.address) as listener:
        assert (listener.status, listener.headers["content-type"][:17]) == (200, "text/event-stream")
        publish(server, ["a", "b", "c"], 10)
        listener.until(lambda one: len(one.told) >= 30)
    assert len(listener.told) == len(set(listener.told)) == 30
    assert_in_order(listener.changes)
    first = listener.changes[0].data
    assert first["tenant"] == "default"
    assert first["record"]["changes"]["additions"]["tags"]
    assert {event.data["domain"] for event in listener.changes} == {"catalog"}


def test_a_feed_without_an_id_begins_now(server: Served) -> None:
    with Listener(server.address) as earlier:
        publish(server, ["before"], 3)
        earlier.until(lambda one: len(one.told) >= 3)  # what this process has not read yet is new to it
    with Listener(server.address) as listener:
        publish(server, ["after"], 3)
        listener.until(lambda one: len(one.told) >= 3)
    assert {event.data["urn"] for event in listener.changes} == {"dataset:feed/after"}


@pytest.fixture(scope="module")
def story(server: Served, gateway_settings: Settings) -> Iterator[tuple[dict[str, str], list[str]]]:
    """What the topics have after batches of which the stream published some twice, and two processes before it: one
    whose ring has all of it, and one whose ring has the last few changes."""
    for number in range(4):
        publish(server, ["s1", "s2", "s3", "s4"], 3)
        for name in ("s1", "s3"):
            server.journal.emit(PropertiesSet(dataset("feed", name), {"k": str(number)}, scope="SYSTEM"))
            tag(server, dataset("feed", name), f"crashed-{number}")
        server.journal.flush()
        crash_and_publish_again(server, "after-publish" if number % 2 else "after-outcomes")
    with another(server, gateway_settings) as whole, another(server, gateway_settings, kept=SMALL) as small:
        yield published(server.journal), [whole, small]


def test_an_id_of_before_everything_gives_everything(story: tuple[dict[str, str], list[str]]) -> None:
    known, addresses = story
    for address in addresses:
        with Listener(address, last=BEGINNING) as listener:
            listener.until(lambda one: len(one.told) >= len(known))
        assert sorted(listener.told) == sorted(known)
        assert_in_order(listener.changes)


@given(data=st.data())
@properties(
    max_examples=examples(24), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
def test_a_feed_resumes_anywhere_in_any_process(story: tuple[dict[str, str], list[str]], data: st.DataObject) -> None:
    """Cut at random and gone on with in a random process, whether its ring has what comes next or Kafka alone."""
    known, addresses = story
    cuts = data.draw(st.lists(st.integers(1, len(known)), max_size=4), "changes after which it is cut")
    had: list[Event] = []
    last = BEGINNING
    for cut in sorted(set(cuts)):
        with Listener(data.draw(st.sampled_from(addresses), "process"), last=last) as listener:
            listener.until(partial(has, cut - len(had)))
        had += listener.changes[: cut - len(had)]
        last = had[-1].id
    with Listener(data.draw(st.sampled_from(addresses), "process"), last=last) as listener:
        listener.until(lambda one: len(had) + len(one.told) >= len(known))
    had += listener.changes
    assert sorted(event.change for event in had) == sorted(known)
    assert_in_order(had)


def test_changes_that_come_while_the_past_is_read_follow_on_it(
    server: Served, story: tuple[dict[str, str], list[str]]
) -> None:
    _, (_, small) = story
    with Listener(small, last=BEGINNING, namespace="feed") as listener:
        for _ in range(5):
            publish(server, ["s1", "during"], 4)
        known = {change for change, urn in published(server.journal).items() if urn.startswith("dataset:feed/")}
        listener.until(lambda one: len(one.told) >= len(known))
    assert sorted(listener.told) == sorted(known)
    assert_in_order(listener.changes)


def test_a_burst_that_is_more_than_the_ring_keeps_is_no_fault_of_the_reader(
    server: Served, gateway_settings: Settings
) -> None:
    with another(server, gateway_settings, kept=SMALL) as small, Listener(small, namespace="burst") as listener:
        listener.until(lambda one: one.last_id)
        for number in range(3):
            publish(server, [f"b{number}", f"c{number}"], 20, "burst")
        listener.until(partial(has, 120))
        assert not listener.ended.is_set()
    assert len(set(listener.told)) == len(listener.told) == 120
    assert_in_order(listener.changes)


def test_a_beat_moves_the_id_on_where_nothing_is_asked_for(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BEAT_S", 0.1)
    with Listener(server.address, kind="app") as listener:
        listener.until(lambda one: one.last_id)
        before = listener.last_id
        publish(server, ["beaten"], 3)
        listener.until(lambda one: one.last_id != before and one.beats > 2)
    assert listener.events == []
    with Listener(server.address, last=listener.last_id) as resumed:
        publish(server, ["beaten"], 1)
        resumed.until(lambda one: one.told)
    assert len(resumed.told) == 1


def test_what_expired_is_said_and_the_rest_follows(server: Served, gateway_settings: Settings) -> None:
    with another(server, gateway_settings, kept=SMALL) as small:
        with Listener(server.address, namespace="gone") as listener:
            publish(server, ["g1", "g2", "g3"], 8, "gone")
            listener.until(lambda one: len(one.told) >= 24)
        first = listener.changes[0].id
        topic = gateway_settings.journal.topics.changes("catalog")
        ends = _offsets(listener.changes[17].id)
        admin = Administrator(gateway_settings).connect(10)
        admin.answers(
            lambda client, limit: client.delete_records(
                [TopicPartition(topic, number, end) for number, end in enumerate(ends)], request_timeout=limit
            ),
            "Deleting", 30,
        )  # fmt: skip
        with Listener(small, last=first, namespace="gone") as resumed:
            resumed.until(lambda one: len(one.told) >= 6)
        assert resumed.events[0].name == "gap"
        assert resumed.events[0].data["code"] == "position-expired"
        assert sorted(resumed.told) == sorted(event.change for event in listener.changes[18:])
        assert_in_order(resumed.changes)
        with Listener(small, last=resumed.events[0].id, namespace="gone") as again:
            again.until(lambda one: len(one.told) >= 6)
        assert [event.name for event in again.events] == ["change"] * 6


def _offsets(event_id: str) -> list[int]:
    """The next offsets of the catalog's topic."""
    part = next(part for part in event_id.split("~") if part.startswith("catalog:"))
    return [int(offset, 36) for offset in part.split(".")[1:]]


def test_an_id_of_topics_that_were_made_anew_is_a_gap(server: Served) -> None:
    with Listener(server.address) as listener:
        listener.until(lambda one: one.last_id)
    label, _, rest = listener.last_id.partition(":")
    other = f"{int(rest[:4], 16) ^ 1:04x}"
    with Listener(server.address, last=f"{label}:{other}{rest[4:]}") as resumed:
        resumed.until(lambda one: one.events)
    assert resumed.events[0].name == "gap"


def test_an_id_of_what_was_never_there_is_a_gap(server: Served) -> None:
    with Listener(server.address) as listener:
        listener.until(lambda one: one.last_id)
    label, _, offsets = listener.last_id.rpartition(":")
    mark, *_ = offsets.split(".")
    beyond = ".".join([mark, *["zzzz"] * (len(offsets.split(".")) - 1)])
    with Listener(server.address, last=f"{label}:{beyond}", namespace="never") as resumed:
        resumed.until(lambda one: one.events)
        assert resumed.events[0].name == "gap"
        publish(server, ["x", "y", "z"], 2, "never")
        resumed.until(lambda one: len(one.told) >= 6)


def test_only_what_its_reader_may_read_is_in_a_feed(server: Served) -> None:
    with ExitStack() as stack:
        listeners = {key: stack.enter_context(Listener(server.address, key=key)) for key in (TEAM_A, OTHER, READER)}
        for urn in (dataset("team-a", "x"), dataset("team-ab", "x"), dataset("team-b", "x"), stream("team-a", "x")):
            tag(server, urn, "secret")
        tag(server, dataset("team-a", "theirs"), "secret", tenant="another")
        tag(server, dataset("team-a", "last"), "end")
        tag(server, dataset("team-a", "last"), "end", tenant="another")
        server.journal.flush()
        server.fold()
        for listener in listeners.values():
            listener.until(lambda one: any(event.data["urn"] == "dataset:team-a/last" for event in one.changes))
        listeners[READER].until(lambda one: len(one.told) >= 5)
    seen = {key: {event.data["urn"] for event in listener.changes} for key, listener in listeners.items()}
    assert seen[TEAM_A] == {"dataset:team-a/x", "dataset:team-a/last"}
    assert seen[OTHER] == {"dataset:team-a/theirs", "dataset:team-a/last"}
    assert len(seen[READER]) == 5
    assert {event.data["tenant"] for event in listeners[OTHER].changes} == {"another"}


def test_filters_choose_by_kind_namespace_urn_domain_and_scope(server: Served) -> None:
    chosen: dict[str, dict[str, Any]] = {
        "kind": {"kind": "stream"}, "namespace": {"namespace": "f2"}, "urn": {"urn": "dataset:f1/a,stream:f2/*"},
        "domain": {"domain": "lineage,files"}, "scope": {"scope": "SYSTEM"}, "all": {},
    }  # fmt: skip
    with ExitStack() as stack:
        listeners = {name: stack.enter_context(Listener(server.address, **query)) for name, query in chosen.items()}
        for urn in (dataset("f1", "a"), dataset("f1", "b"), dataset("f2", "a"), stream("f2", "s")):
            tag(server, urn, "t")
        server.journal.emit(PropertiesSet(dataset("f1", "b"), {"k": "v"}, scope="SYSTEM"))
        server.journal.flush()
        server.fold()
        listeners["all"].until(lambda one: len(one.told) >= 5)
        for name, count in {"kind": 1, "namespace": 2, "urn": 2, "scope": 1}.items():
            listeners[name].until(partial(has, count))
    seen = {name: sorted(event.data["urn"] for event in one.changes) for name, one in listeners.items()}
    assert seen["kind"] == ["stream:f2/s"]
    assert seen["namespace"] == ["dataset:f2/a", "stream:f2/s"]
    assert seen["urn"] == ["dataset:f1/a", "stream:f2/s"]
    assert seen["domain"] == []
    assert seen["scope"] == ["dataset:f1/b"]


def connected(address: str) -> socket.socket:
    host, _, port = address.partition(":")
    return socket.create_connection((host, int(port)), 60)


def test_a_feed_of_http_1_0_has_no_chunks_and_lasts_until_it_is_closed(server: Served) -> None:
    """HTTP/1.0 has none (RFC 9112, 6.1), so their sizes would stand between the events."""
    with connected(server.address) as connection:
        ask = f"GET /api/v1/changes HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n\r\n"
        connection.sendall(ask.encode())
        answer = connection.makefile("rb")
        head = list(iter(answer.readline, b"\r\n"))
        assert head[0].startswith(b"HTTP/1.1 200 ")
        assert not any(line.lower().startswith((b"transfer-encoding", b"content-length")) for line in head)
        assert b"connection: close\r\n" in head
        publish(server, ["old"], 2)
        lines: list[bytes] = []
        while sum(line.startswith(b"data:") for line in lines) < 2:
            lines.append(answer.readline())
    assert all(line == b"\n" or line.partition(b":")[0] in (b"", b"id", b"event", b"data", b"retry") for line in lines)


@contextmanager
def key_of(server: Served, name: str, *grants: tuple[str, str]) -> Iterator[str]:
    """A key of a principal of its own."""
    known = server.principals.by_key
    known[name] = known[ADMIN]._replace(actor=name, key_id=name, rights=Rights(list(grants), {}))
    try:
        yield name
    finally:
        known.pop(name, None)


def test_a_revoked_key_ends_its_feeds_within_half_a_second(server: Served) -> None:
    """The least of three: what else the machine does is not the gateway's."""
    took = []
    for number in range(3):
        with key_of(server, f"revoked-{number}", ("admin", "*")) as key, Listener(server.address, key=key) as listener:
            listener.until(lambda one: one.last_id)
            began = time.monotonic()
            del server.principals.by_key[key]
            assert listener.ended.wait(20)
            took.append(time.monotonic() - began)
    assert min(took) < 0.5


def test_nothing_is_sent_behind_a_revocation_even_where_it_comes_at_once(server: Served) -> None:
    with key_of(server, "gone", ("admin", "*")) as key, Listener(server.address, key=key) as listener:
        listener.until(lambda one: one.last_id)
        tag(server, dataset("revoked", "x"), "secret")
        server.journal.flush()
        del server.principals.by_key[key]
        server.fold()
        assert listener.ended.wait(20)
    assert listener.told == []


def test_rights_that_shrink_count_from_the_next_change_on(server: Served) -> None:
    grants, known = [("analyst", "dataset:s1/*"), ("analyst", "dataset:s2/*")], server.principals.by_key
    with key_of(server, "shrinks", *grants) as key, Listener(server.address, key=key) as listener:
        publish(server, ["x"], 1, "s1")
        listener.until(lambda one: len(one.told) == 1)
        known[key] = known[key]._replace(rights=Rights(grants[1:], {}))
        publish(server, ["x"], 1, "s1")
        publish(server, ["x"], 1, "s2")
        listener.until(lambda one: len(one.told) >= 2)
    assert [event.data["urn"] for event in listener.changes] == ["dataset:s1/x", "dataset:s2/x"]


def test_a_reader_that_stops_is_cut_off_and_holds_nobody_up(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reader, "STALLED_S", 0.5)
    caplog.set_level(logging.INFO, "metajournal.gateway")
    request = f"GET /api/v1/changes HTTP/1.1\r\nHost: {server.address}\r\nX-Request-Id: stalled\r\n"
    with connected(server.address) as stalled, Listener(server.address, resumes=True, namespace="large") as listener:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.sendall(f"{request}Authorization: Bearer {ADMIN}\r\n\r\n".encode())
        assert stalled.recv(1024).startswith(b"HTTP/1.1 200")
        for number in range(20):
            server.journal.emit(EntityRegistered(dataset("large", f"d{number}")))
            server.journal.emit(PropertiesSet(dataset("large", f"d{number}"), {"k": f"{number}" + "x" * 250_000}))
        server.journal.flush()
        server.fold()
        listener.until(partial(has, 20), 30)
        eventually(lambda: ended(caplog, "stalled") == ["A feed ended: the reader takes nothing."])
    assert len(set(listener.told)) == len(listener.told) == 20


def ended(caplog: pytest.LogCaptureFixture, request_id: str) -> list[str]:
    """What the log says of the end of a request's feed."""
    lines = [one for one in caplog.records if getattr(one, "data", {}).get("request_id") == request_id]
    return [one.getMessage() for one in lines if one.getMessage().startswith("A feed ended")]


def test_a_server_that_ends_ends_its_feeds_and_another_goes_on(server: Served, gateway_settings: Settings) -> None:
    with another(server, gateway_settings) as address:
        listener = Listener(address, namespace="restart")
        publish(server, ["a", "b"], 3, "restart")
        listener.until(lambda one: len(one.told) >= 6)
    assert listener.ended.wait(20)
    listener.close()
    publish(server, ["a", "b"], 2, "restart")
    last = listener.last_id
    with another(server, gateway_settings) as address, Listener(address, last=last, namespace="restart") as resumed:
        publish(server, ["a", "b"], 1, "restart")
        resumed.until(lambda one: len(one.told) >= 6)
    told = listener.told + resumed.told
    assert len(told) == len(set(told)) == 12
    assert_in_order([*listener.changes, *resumed.changes])


def test_a_slow_reader_of_the_past_leaves_its_place_to_others(
    server: Served, gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One place alone is there to read from Kafka; who takes nothing loses it, whoever comes behind has everything.

    The other may lose it too where the machine is busy, and comes again.
    """
    monkeypatch.setattr(feeds, "FROM_KAFKA", 1)
    monkeypatch.setattr(reader, "TAKEN_S", 0.5)
    for number in range(20):
        server.journal.emit(EntityRegistered(dataset("past", f"d{number}")))
        server.journal.emit(PropertiesSet(dataset("past", f"d{number}"), {"k": f"{number}" + "x" * 250_000}))
    server.journal.flush()
    server.fold()
    with another(server, gateway_settings, kept=SMALL) as address, connected(address) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = f"GET /api/v1/changes?namespace=past HTTP/1.1\r\nHost: {address}\r\nLast-Event-ID: {BEGINNING}\r\n"
        slow.sendall(f"{request}Authorization: Bearer {ADMIN}\r\n\r\n".encode())
        assert slow.recv(1024).startswith(b"HTTP/1.1 200")
        with Listener(address, last=BEGINNING, resumes=True, namespace="past") as listener:
            listener.until(partial(has, 20), 15)
    assert len(set(listener.told)) == len(listener.told) == 20


def test_a_turn_however_short_gives_something(
    server: Served, gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where opening takes longer than a turn, as on a busy machine, what is there is read all the same."""
    monkeypatch.setattr(reader, "TURN_S", 0.0)
    monkeypatch.setattr(past, "_MOST", 10)
    publish(server, ["t1", "t2"], 20, "turns")
    with (
        another(server, gateway_settings, kept=SMALL) as address,
        Listener(address, last=BEGINNING, namespace="turns") as listener,
    ):
        listener.until(lambda one: len(one.told) >= 40 or one.ended.is_set(), 30)
    assert len(set(listener.told)) == len(listener.told) == 40


def test_one_who_reads_has_some_of_the_feeds(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "OF_ONE", 2)
    with key_of(server, "many", ("admin", "*")) as key, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(Listener(server.address, key=key)).until(lambda one: one.last_id)
        refused = server.get("/api/v1/changes", key=key)
        assert (refused.status, refused.json["code"]) == (503, "too-many-feeds")
        assert server.ask("HEAD", "/api/v1/changes", key=READER).status == 200


def test_two_hundred_feeds_need_no_thread_each(server: Served) -> None:
    request = (
        f"GET /api/v1/changes?namespace=many HTTP/1.1\r\nHost: {server.address}\r\n"
        f"Authorization: Bearer {ADMIN}\r\n\r\n"
    ).encode()
    threads = threading.active_count()
    with ExitStack() as stack:
        sockets = [stack.enter_context(connected(server.address)) for _ in range(200)]
        came = [b""] * len(sockets)
        for one in sockets:
            one.sendall(request)
        for number, one in enumerate(sockets):
            while b"beat" not in came[number]:
                came[number] += one.recv(65_536)
        publish(server, ["x", "y"], 5, "many")
        for number, one in enumerate(sockets):
            while came[number].count(b"event: change") < 10:
                came[number] += one.recv(65_536)
        assert threading.active_count() <= threads + 8  # readers of the lake alone
    assert {text.count(b"event: change") for text in came} == {10}


def test_what_http_asks_of_a_feed(server: Served) -> None:
    at = "/api/v1/changes"
    assert server.ask("HEAD", at).status == 200
    assert server.ask("HEAD", at).headers["content-type"].startswith("text/event-stream")
    refused = server.ask("POST", at)
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
    assert server.get(at, Accept="application/json").status == 406
    assert server.get("/api/v1/search?query=x", Accept="text/event-stream").status == 406
    assert server.get(at, key=None).status == 401
    for query in ("kind=No", "scope=both", "urn=a*b", "urn=", "after=x", "other=1"):
        assert server.get(f"{at}?{query}").status == 400, query
    assert server.get(at, Last_Event_ID="no id").json["code"] == "bad-event-id"
    with key_of(server, "nothing") as key:
        assert server.get(at, key=key).status == 403
    described = server.get("/openapi.json", key=None).json["paths"][at]["get"]
    assert "text/event-stream" in described["responses"]["200"]["content"]
