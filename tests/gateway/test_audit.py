"""What the audit records and what it never does, over real servers and a real broker."""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from metajournal import Journal, dataset
from metajournal.gateway.audit import REFUSED, Audit, Record, UnauditedError
from metajournal.gateway.figures import AUDIT_LOST, GatewayFigures
from metajournal.producers.answers import Administrator
from metajournal.producers.audit_topic import KEPT_MS, ensure_audit_topic
from metajournal.producers.recorded.topic_admin import await_topics, configs, configure
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import JournalSettings, Settings
from tests.gateway.conftest import RECORDED
from tests.gateway.serving import ADMIN, READER, TEAM_A, Served, running, served
from tests.gateway.test_access import key_of
from tests.producers.mocked import fail_for_good
from tests.topics import read
from tests.wait import eventually

TAGS = "/v3/namespaces/team-b/datasets/d/metadata/tags"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings) as found:
        yield found


@contextmanager
def reading(server: Served, settings: Settings) -> Iterator[str]:
    """The address of a process that records reads."""
    asked = replace(settings, gateway=replace(settings.gateway, audit="reads"))
    with Journal.connect(asked) as journal, running(journal, server.principals, asked) as address:
        yield address


def recorded(settings: Settings) -> list[dict[str, Any]]:
    return [json.loads(message.value() or b"") for message in read(settings, settings.journal.topics.audit)]


def of_request(settings: Settings, request_id: str) -> list[dict[str, Any]]:
    """The records of a request, once there are any."""
    return eventually(lambda: [one for one in recorded(settings) if one["request_id"] == request_id])


@pytest.mark.services
def test_the_topic_is_made_at_the_first_start_and_kept_ninety_days(server: Served, gateway_settings: Settings) -> None:
    topic, admin = gateway_settings.journal.topics.audit, Administrator(gateway_settings).connect(10)
    await_topics(admin, [topic], 30)
    made = configs(admin, [topic], 10)[topic]
    assert (made["retention.ms"], made["cleanup.policy"]) == (str(KEPT_MS), "delete")
    configure(admin, [topic], {"retention.ms": "1000000"}, 10)
    ensure_audit_topic(gateway_settings)
    assert eventually(lambda: configs(admin, [topic], 10)[topic]["retention.ms"] == "1000000")


@pytest.mark.services
def test_each_refused_event_is_recorded_once(server: Served, gateway_settings: Settings) -> None:
    """A line that tries to change rights too; an event alone, or a unit, is its request."""
    tags: dict[str, Any] = {"type": "TagsAdded", "entity": "dataset:team-b/d", "tags": ["x"]}
    rights: dict[str, Any] = {"type": "RolesGranted", "principal": "access-principal:m", "grants": [["admin", "*"]]}
    own = {**tags, "entity": "dataset:team-a/d"}
    lines = {
        "lines": ("/api/v1/events", [tags, rights, own]), "alone": ("/api/v1/events", [rights]),
        "unit": ("/api/v1/events?unit", [own, tags]),
    }  # fmt: skip
    for name, (path, events) in lines.items():
        kind = "application/json" if len(events) == 1 else "application/x-ndjson"
        body = "\n".join(map(json.dumps, events)).encode()
        server.post(path, body, key=TEAM_A, Content_Type=kind, X_Request_Id=f"each-{name}")
    assert server.post(TAGS, ["x"], key=TEAM_A, X_Request_Id="each-last").status == 403
    of_request(gateway_settings, "each-last")
    counted = Counter(one["request_id"] for one in recorded(gateway_settings))
    assert {name: counted[f"each-{name}"] for name in lines} == {"lines": 2, "alone": 1, "unit": 1}


@pytest.mark.services
def test_a_refusal_says_who_what_and_on_what(server: Served, gateway_settings: Settings) -> None:
    before = int(time.time())
    refusal = server.post(TAGS, ["x"], key=TEAM_A, X_Request_Id="refused-1")
    assert refusal.status == 403
    assert "does not have the right WriteEntity on dataset:team-b/d." in refusal.json["detail"]
    (record,) = of_request(gateway_settings, "refused-1")
    assert record.pop("time")[:10] == time.strftime("%Y-%m-%d", time.gmtime(before))
    assert record == {
        "what": "refused", "request_id": "refused-1", "key_id": TEAM_A, "principal": TEAM_A, "tenant": "default",
        "endpoint": "POST /v3/namespaces/{ns}/datasets/{d}/metadata/tags", "action": "WriteEntity",
        "urn": "dataset:team-b/d", "status": 403,
    }  # fmt: skip


@pytest.mark.services
def test_a_request_without_a_valid_key_is_recorded_without_a_name(server: Served, gateway_settings: Settings) -> None:
    assert server.get(TAGS, key="no-key-of-anybody", X_Request_Id="refused-2").status == 401
    (record,) = of_request(gateway_settings, "refused-2")
    assert (record["status"], record["principal"], record["tenant"], record["key_id"]) == (401, None, None, None)


@pytest.mark.services
def test_who_has_no_key_does_not_fill_the_topic_and_the_rest_is_counted(
    server: Served, gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who have one are recorded each, meanwhile too."""
    monkeypatch.setattr("metajournal.gateway.audit._TOLD_EACH_S", 0.2)
    monkeypatch.setattr("metajournal.gateway.audit._OF_ONE", RECORDED[0])
    monkeypatch.setattr("metajournal.gateway.audit._OF_ALL", RECORDED[1])
    asked = 150
    with Journal.connect(gateway_settings) as journal, running(journal, server.principals, gateway_settings) as address:
        for number in range(asked):
            more = {"key": None, "address": address, "X_Request_Id": f"flood-{number}"}
            sent = server.post("/login", b"", **more) if number % 3 else server.get(TAGS, **more)
            assert sent.status >= 400
            if number % 50 == 0:
                own = server.post(TAGS, ["x"], key=TEAM_A, address=address, X_Request_Id=f"own-{number}")
                assert own.status == 403

    def told() -> tuple[int, int, int]:
        records = recorded(gateway_settings)
        of_own = sum(one["request_id"].startswith("own-") for one in records)
        alone = sum(one["request_id"].startswith("flood-") for one in records)
        return of_own, alone, sum(one.get("left_out", 0) for one in records)

    eventually(lambda: sum(told()[1:]) == asked)
    of_own, alone, _ = told()
    assert (of_own, 5 <= alone <= 40) == (3, True)


@pytest.mark.services
def test_each_refused_line_is_recorded_and_no_other(server: Served, gateway_settings: Settings) -> None:
    lines = [
        {"type": "EntityRegistered", "entity": f"dataset:{namespace}/lines"}
        for namespace in ("team-a", "team-b", "team-c")
    ]
    body = "\n".join(map(json.dumps, lines)).encode()
    answer = server.post(
        "/api/v1/events", body, key=TEAM_A, X_Request_Id="lines-1", Content_Type="application/x-ndjson"
    )
    assert [one["ok"] for one in answer.json["results"]] == [True, False, False]
    urns = eventually(lambda: found if len(found := of_request(gateway_settings, "lines-1")) == 2 else None)
    assert [one["urn"] for one in urns] == ["dataset:team-b/lines", "dataset:team-c/lines"]


@pytest.mark.services
def test_of_very_many_refused_lines_most_are_counted(
    server: Served, gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metajournal.gateway.audit._TOLD_EACH_S", 0.2)
    monkeypatch.setattr("metajournal.gateway.audit._OF_EVENTS", (0.001, 5))
    lines = [{"type": "EntityRegistered", "entity": f"dataset:team-b/many{number}"} for number in range(40)]
    body = "\n".join(map(json.dumps, lines)).encode()
    before = sum(one.get("left_out", 0) for one in recorded(gateway_settings))
    with Journal.connect(gateway_settings) as journal, running(journal, server.principals, gateway_settings) as address:
        answer = server.post(
            "/api/v1/events", body, key=TEAM_A, address=address, X_Request_Id="many-lines",
            Content_Type="application/x-ndjson",
        )  # fmt: skip
        assert [one["ok"] for one in answer.json["results"]] == [False] * 40
        eventually(lambda: sum(one.get("left_out", 0) for one in recorded(gateway_settings)) == before + 35)
    assert len(of_request(gateway_settings, "many-lines")) == 5


@pytest.mark.services
def test_refused_events_of_openlineage_are_recorded(server: Served, gateway_settings: Settings) -> None:
    one = {"eventType": "COMPLETE", "eventTime": "2026-01-01T00:00:00Z", "run": {"runId": "r"},
           "job": {"namespace": "theirs", "name": "j"}}  # fmt: skip
    server.post("/api/v1/lineage", one, key=TEAM_A, X_Request_Id="lineage-1")
    server.post("/api/v1/lineage/batch", [one, one], key=TEAM_A, X_Request_Id="lineage-2")
    for request_id, count in (("lineage-1", 1), ("lineage-2", 2)):
        eventually(partial(recorded_so_often, gateway_settings, request_id, count))
        assert {(one["status"], one["urn"]) for one in of_request(gateway_settings, request_id)} == {
            (403, "run:theirs/j/workflow/j/r")
        }


def recorded_so_often(settings: Settings, request_id: str, count: int) -> bool:
    """Whether a request has so many records."""
    return len(of_request(settings, request_id)) == count


@pytest.mark.services
def test_reads_and_writes_of_others_are_not_recorded_unless_asked(server: Served, gateway_settings: Settings) -> None:
    for request_id in ("plain-1", "plain-2"):
        server.get(TAGS, key=READER, X_Request_Id=request_id)
        server.post(TAGS, ["x"], key=ADMIN, X_Request_Id=request_id)
    server.get(TAGS, key=None, X_Request_Id="plain-end")
    of_request(gateway_settings, "plain-end")
    assert not [
        one for one in recorded(gateway_settings) if one["request_id"].startswith("plain-") and one["status"] != 401
    ]


@pytest.mark.services
def test_every_read_is_recorded_before_it_is_answered_where_that_is_asked(
    server: Served, gateway_settings: Settings
) -> None:
    with reading(server, gateway_settings) as address:
        asked = {
            "read-1": (TAGS, 404), "read-2": ("/v3/namespaces/lake/datasets/d1/metadata/tags", 200),
            "read-3": (f"/api/v1/history/{dataset('lake', 'd1')}", 200), "read-4": ("/openapi.json", 200),
        }  # fmt: skip
        for request_id, (path, status) in asked.items():
            assert server.get(path, key=READER, address=address, X_Request_Id=request_id).status == status
            found = [one["status"] for one in recorded(gateway_settings) if one["request_id"] == request_id]
            assert found == ([status] if path != "/openapi.json" else [])
        head = server.ask("HEAD", asked["read-2"][0], key=READER, address=address, X_Request_Id="read-5")
        assert head.status == 200
        (record,) = of_request(gateway_settings, "read-5")
    assert (record["what"], record["principal"], record["urn"]) == ("read", READER, "dataset:lake/d1")


@pytest.mark.services
def test_a_read_that_cannot_be_recorded_is_503_and_refusals_are_as_ever(
    server: Served, gateway_settings: Settings
) -> None:
    path = "/v3/namespaces/lake/datasets/d1/metadata/tags"
    topic, admin = gateway_settings.journal.topics.audit, Administrator(gateway_settings).connect(10)
    with reading(server, gateway_settings) as address:
        assert server.get(path, address=address).status == 200
        configure(admin, [topic], {"max.message.bytes": "10"}, 10)
        try:
            refused = eventually(lambda: found if (found := server.get(path, address=address)).status == 503 else None)
            assert (refused.json["code"], refused.headers["retry-after"]) == ("not-audited", "1")
            assert server.get(path, key=None, address=address).status == 401
            assert server.post(TAGS, ["x"], key=TEAM_A, address=address).status == 403
            assert server.post(path, ["written"], address=address).status == 200
        finally:
            configure(admin, [topic], {"max.message.bytes": "1048588"}, 10)
        assert eventually(lambda: server.get(path, address=address).status == 200)


@pytest.mark.services
def test_changes_of_rights_are_recorded_and_no_key_is_anywhere(
    gateway_settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "metajournal")
    name = f"{gateway_settings.journal.prefix}r"
    settings = replace(
        gateway_settings,
        journal=JournalSettings(prefix=name, actor="tests", partitions=1),
        lake=replace(gateway_settings.lake, path=f"{gateway_settings.lake.path}-rights"),
    )
    ensure_topics(settings)
    with served(settings, real=True) as server:
        access = server.journal.access
        access.register("root")
        access.grant("root", ("admin", "*"))
        root = access.issue_key("root")[0].text
        key_of(server, root)
        at = "/api/v1/access/principals/bob"
        assert server.post(at, key=root, X_Request_Id="rights-1").status == 201
        issued = server.post(f"{at}/keys", {"label": "hidden-label"}, key=root, X_Request_Id="rights-2")
        assert issued.status == 201
        assert server.delete(f"{at}/keys/unknown", key=root, X_Request_Id="rights-3").status >= 400
        bob = key_of(server, issued.json["key"])
        grants = {"grants": [{"role": "admin", "pattern": "*"}]}
        assert server.post(f"{at}/grants", grants, key=bob, X_Request_Id="rights-4").status == 403
        server.get("/api/v1/access/me", key=f"{root}x", X_Request_Id="rights-5")
        records = [of_request(settings, f"rights-{number}")[0] for number in range(1, 6)]
        text = b"".join(message.value() or b"" for message in read(settings, settings.journal.topics.audit)).decode()
    told = [(one["what"], one["principal"], one["status"] // 100) for one in records]
    assert told == [
        ("rights", "root", 2), ("rights", "root", 2), ("rights", "root", 4), ("refused", "bob", 4),
        ("refused", None, 4),
    ]  # fmt: skip
    assert records[0]["urn"] == "access-principal:bob"
    logged = "\n".join(f"{one.getMessage()} {getattr(one, 'data', '')}" for one in caplog.records)
    assert '"rights-2"' in text
    assert "rights-2" in logged
    for secret in (root, bob, root.split("_")[2], bob.split("_")[2], "hidden-label"):
        assert secret not in text
        assert secret not in logged


def record(number: int) -> Record:
    return Record(REFUSED, "GET /x", "Read", None, 401, f"r{number}", None, 0)


@pytest.mark.thorough
def test_without_kafka_refusals_wait_for_nothing_and_reads_are_refused() -> None:
    """More than the client's queue holds, to a broker that is not there."""
    figures = GatewayFigures()

    async def ask() -> list[float]:
        settings = Settings(kafka={"bootstrap.servers": "127.0.0.1:1"})
        audit = Audit(settings, "reads", figures)
        took = []
        for number in range(12_000):
            began = time.perf_counter()
            audit.note(record(number))
            took.append(time.perf_counter() - began)
        with pytest.raises(UnauditedError):
            await audit.stored(record(-1))
        await audit.close()
        return took

    took = asyncio.run(ask())
    # One call may be interrupted by a busy machine; waiting is what those past a full queue would have in common.
    assert statistics.median(took[10_000:]) < 0.01
    assert max(took) < 5
    lost = figures.figures.snapshot()[0][AUDIT_LOST]
    assert sum(lost.values()) >= 2_001


def test_after_a_fatal_error_of_the_client_what_comes_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "metajournal.gateway.audit.ensure_audit_topic", lambda _: None
    )  # each client has its own broker
    figures = GatewayFigures()

    async def ask() -> None:
        audit = Audit(Settings(kafka={"test.mock.num.brokers": "1"}), "reads", figures)
        await audit.stored(record(0))
        former = audit._producer
        fail_for_good(former)
        await asyncio.to_thread(eventually, lambda: audit._producer is not former, what="another client")
        await audit.stored(record(1))
        await audit.close()

    asyncio.run(ask())
