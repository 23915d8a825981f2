"""OpenLineage over a real server: its real client, stories in any order, hostile events, overload, a broker away."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal import EntityDeleted, EntityRegistered, Journal, dataset
from metajournal.domains.access.rights import Rights
from metajournal.domains.catalog.naming import data
from metajournal.domains.catalog.urns import program, run
from metajournal.domains.lineage import receiving
from metajournal.domains.lineage.receiving import RECEIVING, _is_large
from metajournal.gateway import bodies
from metajournal.gateway.principals import Principal
from metajournal.schemas.endpoints import Request
from metajournal.schemas.errors import MetajournalError
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from tests.gateway.openlineage_client import BATCH, LINEAGE, client, entity, event, plain
from tests.gateway.outcome import apart, assert_became, entities, system
from tests.gateway.serving import READER, TEAM_A, Served, running
from tests.gateway.story import Night
from tests.properties import examples

pytestmark = pytest.mark.services


@pytest.fixture(params=[False, True], ids=["synchronous", "asynchronous"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_night_becomes_lineage_schemas_and_facets(server: Served, asynchronous: bool) -> None:
    night = Night(f"night-{asynchronous}".lower())
    with client(server, asynchronous=asynchronous) as sender:
        for one in night.events():
            sender.emit(one)
    assert_became(server, night)


_nights = count(100)


@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_order_gives_the_same_and_sent_again_nothing_changes(server: Served, drawn: st.DataObject) -> None:
    expected = _first(server)
    night = Night(f"night-{next(_nights)}")
    events = [plain(one) for one in night.events()]
    for one in drawn.draw(st.permutations(events)):
        assert server.post(LINEAGE, one).json == {"ok": True, "omitted": []}
    found = entities(server, night)
    assert apart(found, night) == expected
    assert server.post(BATCH, drawn.draw(st.permutations(events))).json["status"] == "success"
    assert entities(server, night) == found


_known: dict[str, str] = {}


def _first(server: Served) -> str:
    """What a night becomes that is told in its order."""
    if server.address not in _known:
        night = Night("night-000")
        for one in night.events():
            assert server.post(LINEAGE, plain(one)).status == 200
        _known[server.address] = apart(entities(server, night), night)
    return _known[server.address]


def test_a_process_that_remembers_nothing_changes_nothing_either(server: Served, gateway_settings: Settings) -> None:
    night = Night("night-remembered")
    events = [plain(one) for one in night.events()]
    assert server.post(BATCH, events).json["status"] == "success"
    before = entities(server, night)
    with Journal.connect(gateway_settings) as journal, running(journal, server.principals, gateway_settings) as other:
        assert server.post(BATCH, events[::-1], address=other).json["status"] == "success"
    assert entities(server, night) == before


def test_the_latest_stands_where_two_processes_write_at_once(server: Served, gateway_settings: Settings) -> None:
    with Journal.connect(gateway_settings) as journal, running(journal, server.principals, gateway_settings) as other:

        def send(hour: int) -> int:
            address = other if hour % 2 else server.address
            for _ in range(5):
                status = server.post(LINEAGE, event("contended", hour), address=address).status
                if status != 503:
                    return status
            return 503

        with ThreadPoolExecutor(12) as pool:
            assert set(pool.map(send, [*range(0, 24, 2), *range(23, 0, -2)])) == {200}
    assert system(server, data("s3://shop", "contended")) == {"description": "at 23"}


HOSTILE: dict[str, tuple[Any, int, str]] = {
    "no event": ({}, 400, "no-run-event"),
    "a list": ([], 400, "invalid-event"),
    "null": (b"null", 400, "invalid-event"),
    "no body": (None, 400, "no-body"),
    "half a body": (b'{"eventType": "START"', 400, "not-json"),
    "not UTF-8": (b'{"a": "\xff"}', 400, "not-utf-8"),
    "depth": (b'{"run":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "not-json"),
    "a name twice": (b'{"eventTime": "2026-01-01T12:00:00Z", "eventTime": "2026-01-02T12:00:00Z"}', 400, "not-json"),
    "no eventTime": (event(eventTime=None), 400, "no-run-event"),
    "eventTime is a date": (event(eventTime="2026-01-01"), 400, "no-run-event"),
    "eventTime is a number as text": (event(eventTime="1767268800000"), 400, "no-run-event"),
    "eventTime is a number": (event(eventTime=1767268800000), 400, "no-run-event"),
    "no runId": (event(run={}), 400, "no-run-event"),
    "the run is text": (event(run="r1"), 400, "no-run-event"),
    "the run is null": (event(run=None), 400, "no-run-event"),
    "the job is a list": (event(job=["jobs", "load"]), 400, "no-run-event"),
    "outputs are an object": (event(outputs={"namespace": "a", "name": "b"}), 400, "no-run-event"),
    "an output is null": (event(outputs=[None]), 400, "no-run-event"),
    "an output without a name": (event(outputs=[{"namespace": "a"}]), 400, "no-run-event"),
    "a surrogate in a name": (event("\ud800"), 400, "not-json"),
    "a job's name that is too long": (event(job={"namespace": "jobs", "name": "x" * 600}), 400, "no-run-event"),
    "a job without a name": (event(job={"namespace": "jobs", "name": ""}), 400, "no-run-event"),
    "a dataset event without a name": (
        {"eventTime": "2026-01-01T12:00:00Z", "dataset": {"namespace": "s3://shop", "name": ""}}, 400, "no-run-event"),
    "a word that is no eventType": (event(eventType="BEGUN"), 400, "no-run-event"),
    "eventType is a list": (event(eventType=["COMPLETE"]), 400, "no-run-event"),
    "eventType is an object": (event(eventType={}), 400, "no-run-event"),
    "the dataset is text": ({"eventTime": "2026-01-01T12:00:00Z", "dataset": "a"}, 400, "no-run-event"),
    "our own facet names no run": (
        event(run={"runId": "r", "facets": {"metajournal_run": {"run": "dataset:a/b"}}}), 400, "no-run-event"),
    "our own facet names no run, and nothing happened": (
        event(eventType="RUNNING", run={"runId": "r", "facets": {"metajournal_run": {"run": "repo:a"}, "x": {"a": 1}}}),
        400, "no-run-event"),
    "accesses that are none": (
        event(run={"runId": "r", "facets": {"metajournal_run": {"run": "run:a/b/workflow/c/d", "accesses": [{}] * 9}}}),
        400, "no-run-event"),
    "our own facet is odd": (
        event(run={"runId": "r", "facets": {"metajournal_run": {"run": "run:a/b/workflow/c/d", "accesses": [1]}}}),
        400, "no-run-event"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_event_is_refused_and_said_why(server: Served, name: str) -> None:
    body, status, code = HOSTILE[name]
    answer = server.post(LINEAGE, body)
    assert (answer.status, answer.json["code"]) == (status, code), answer.body


def test_data_without_a_usable_name_are_left_out_and_the_run_ends_all_the_same(server: Served) -> None:
    """The root of a bucket has an empty name, as Airflow's operator of Athena and the Java client send it."""
    of = run("jobs", "load", "workflow", "load", "r-root")
    odd = [{"namespace": "s3://shop", "name": name} for name in ("", "x" * 2000)]
    whole = event("beside", run_id="r-root", inputs=odd, eventTime="2026-01-01T12:00:00")  # without a zone, as UTC
    answer = server.post(LINEAGE, whole)
    assert (answer.status, [one["reason"] for one in answer.json["omitted"]]) == (200, ["not-a-name"] * 2)
    assert [one["entity"][:10] for one in answer.json["omitted"]] == ["s3://shop", "s3://shop "]
    assert system(server, data("s3://shop", "beside")) == {"description": "at 12"}
    server.fold()
    assert accessed(server, of) == {str(data("s3://shop", "beside"))}
    told = server.journal.lineage.run(of)
    assert (told["stop"], told["status"]) == (1_767_268_800_000, "COMPLETED")


@pytest.mark.parametrize("odd", [None, 1, "text", [], [1], {"a": None}, {"schema": 7, "documentation": ["x"]},
                                 {"schema": {"fields": {"id": 1}}}, {"schema": {"fields": [1, {"name": 2}]}},
                                 {"documentation": {"description": 5}}])  # fmt: skip
def test_facets_of_another_shape_say_nothing(server: Served, odd: Any) -> None:
    answer = server.post(LINEAGE, event("odd", facets=odd))
    assert (answer.status, answer.json) == (200, {"ok": True, "omitted": []})
    assert entity(server, data("s3://shop", "odd")) is None


def test_huge_facets_are_left_out_and_the_others_kept(server: Served) -> None:
    urn = data("s3://shop", "huge")
    facets = {"small": {"a": 1}, "huge": {"a": "x" * 70_000}, "times": {"small": 0}}
    answer = server.post(LINEAGE, event("huge", facets=facets)).json
    assert {(one["facet"], one["reason"]) for one in answer["omitted"]} == {
        ("huge", "too-large"), ("times", "not-a-name")}  # fmt: skip
    assert {one["entity"] for one in answer["omitted"]} == {str(urn)}
    assert system(server, urn) == {"openlineage.small": '{"a":1}'}


def test_facets_beyond_what_an_entity_holds_are_left_out(server: Served) -> None:
    urn = data("s3://shop", "full")
    facets = {f"f{number:02}": {"a": "x" * (30_000 + number)} for number in range(30)} | {"small": {"a": 1}}
    answer = server.post(LINEAGE, event("full", facets=facets)).json
    left_out = {one["facet"] for one in answer["omitted"]}
    assert {one["reason"] for one in answer["omitted"]} == {"too-large"}
    assert set(system(server, urn)) == {f"openlineage.{name}" for name in facets.keys() - left_out}
    assert "openlineage.small" in system(server, urn)
    assert len(left_out) < 30
    again = server.post(LINEAGE, event("full", facets=facets)).json
    assert sorted(map(str, again["omitted"])) == sorted(map(str, answer["omitted"])), "sent again, it is told again"


def test_an_error_tells_a_few_of_many_faults(server: Served) -> None:
    facet = {"run": "run:a/b/workflow/c/d", "accesses": [{}] * 50_000}
    answer = server.post(LINEAGE, event(run={"runId": "r", "facets": {"metajournal_run": facet}}))
    assert (answer.status, answer.json["code"]) == (400, "no-run-event")
    assert len(answer.body) < 10_000
    assert answer.json["detail"].endswith("; and more")


def test_data_that_an_event_names_several_times_keeps_as_many_facets_as_it_may_hold(server: Served) -> None:
    urn = data("s3://shop", "often")
    outputs = [
        {"namespace": "s3://shop", "name": "often", "facets": {f"f{half}{number:03}": {} for number in range(400)}}
        for half in "ab"
    ]
    answer = server.post(LINEAGE, event(outputs=outputs, inputs=[])).json
    assert [(one["entity"], one["reason"]) for one in answer["omitted"]] == [(str(urn), "too-many")] * 300
    kept = {f"openlineage.{name}" for name in [*outputs[0]["facets"], *outputs[1]["facets"]][:500]}
    assert set(system(server, urn)) == kept


def test_facets_of_data_of_another_kind_are_told_as_left_out(server: Served) -> None:
    stream = {"namespace": "metajournal://stream", "name": "shop/clicks", "facets": {"storage": {"a": 1}, "odd": 1}}
    answer = server.post(LINEAGE, event(run_id="r-other", outputs=[stream], inputs=[])).json
    assert answer == {
        "ok": True, "omitted": [{"entity": "stream:shop/clicks", "facet": "storage", "reason": "no-dataset"}],
    }  # fmt: skip


def test_deleted_data_stay_deleted(server: Served) -> None:
    urn = data("s3://shop", "deleted")
    server.journal.emit(EntityRegistered(urn))
    server.journal.emit(EntityDeleted(urn))
    server.journal.flush()
    for hour in (12, 12, 13):
        answer = server.post(LINEAGE, event("deleted", hour))
        assert (answer.status, [one["reason"] for one in answer.json["omitted"]]) == (200, ["deleted"])
    assert entity(server, urn) is None
    server.fold()
    assert str(urn) in accessed(server, RUN)


def test_data_that_were_deleted_and_registered_again_are_described_again(server: Served) -> None:
    urn = data("s3://shop", "back")
    kept = {"storage": {"a": 1}, "documentation": {"description": "at 12"}}
    assert server.post(LINEAGE, event("back", facets=kept)).json["omitted"] == []
    server.journal.emit(EntityDeleted(urn))
    server.journal.flush()
    changed = event(
        "back", facets={**kept, "documentation": {"description": "changed"}}, eventTime="2026-01-01T12:30:00Z"
    )
    left_out = server.post(LINEAGE, changed).json["omitted"]
    assert {(one["facet"], one["reason"]) for one in left_out} == {("storage", "deleted"), ("documentation", "deleted")}
    server.journal.emit(EntityRegistered(urn))
    server.journal.flush()
    assert server.post(LINEAGE, changed).json["omitted"] == []
    assert system(server, urn) == {"openlineage.storage": '{"a":1}', "description": "changed"}


def accessed(server: Served, of: Urn) -> set[str]:
    """What a run is known to have accessed."""
    return {access["data"] for access in server.journal.lineage.accesses(of)[0]}


RUN = run("jobs", "load", "workflow", "load", "r1")


def test_data_that_exist_get_what_writers_say_and_of_readers_what_they_lack(server: Served) -> None:
    bare, described = data("s3://shop", "bare"), data("s3://shop", "described")
    server.journal.emit(EntityRegistered(bare))
    server.journal.emit(EntityRegistered(described, "by hand", [("a", "int")]))
    server.journal.flush()
    said = {"schema": {"fields": [{"name": "b", "type": "int"}]}}
    inputs = [{"namespace": "s3://shop", "name": name, "facets": said} for name in ("bare", "described", "new")]
    assert server.post(LINEAGE, event(inputs=inputs, outputs=[])).status == 200
    assert system(server, bare) == {"schema": '[["b","int"]]'}
    assert system(server, described) == {"description": "by hand", "schema": '[["a","int"]]'}
    assert system(server, data("s3://shop", "new")) == {"schema": '[["b","int"]]'}
    assert server.post(LINEAGE, event("described", facets=said)).status == 200
    assert system(server, described) == {"description": "by hand", "schema": '[["b","int"]]'}


def test_a_job_that_no_facet_describes_is_known_by_its_lineage_alone(server: Served) -> None:
    of = program("jobs", "plain", "workflow", "plain")
    job = {"namespace": "jobs", "name": "plain"}
    server.post(LINEAGE, event("plain", run_id="r-plain", job=job))
    server.fold()
    assert entity(server, of) is None
    assert [one["id"] for one in server.get(f"/api/v1/runs/{of}").json["runs"]] == ["r-plain"]
    described = {**job, "facets": {"documentation": {"description": "Loads."}}}
    server.post(LINEAGE, event("plain", 13, run_id="r-plain", job=described))
    assert system(server, of) == {"openlineage.documentation": '{"description":"Loads."}'}


@pytest.mark.parametrize("at", [LINEAGE, BATCH])
def test_the_answer_says_what_questions_must_include_to_show_the_event(server: Served, at: str) -> None:
    """Of each partition the last position: the lake that has all of these has the event."""
    of = data("s3://shop", f"placed-{at.rpartition('/')[2]}")
    one = event(of.name, run_id=f"r-{of.name}")
    sent = server.post(at, [one] if at == BATCH else one)
    assert sent.status == 200
    positions = [Position.parse(text) for text in sent.headers["metajournal-position"].split(",")]
    assert len({(each.topic, each.partition) for each in positions}) == len(positions)
    question = f"/api/v1/lineage/{of}"
    behind = server.get(question, Metajournal_At_Least=sent.headers["metajournal-position"])
    assert (behind.status, behind.json["code"]) == (503, "not-yet-visible"), "what does not have it says so"
    server.fold()
    shown = server.get(question, Metajournal_At_Least=sent.headers["metajournal-position"])
    assert [one["runs"] for one in shown.json["relations"] if one["data"].endswith(of.name)] == [[f"r-{of.name}"]]
    assert max(row.logical_timestamp for row in server.journal.history(of)) in {each.value for each in positions}


def test_a_facet_that_is_no_more_is_removed(server: Served) -> None:
    urn = data("s3://shop", "removed")
    both = {"documentation": {"description": "a"}, "storage": {"storageLayer": "iceberg"}}
    server.post(LINEAGE, event("removed", 12, facets=both))
    server.post(LINEAGE, event("removed", 14, facets={name: {"_deleted": True} for name in both}))
    server.post(LINEAGE, event("removed", 13, facets=both))
    assert system(server, urn) == {}


def lineage_alone(server: Served) -> str:
    """The key of somebody who may say what runs did, and nothing else."""
    rights = Rights([("lineage", "*")], {"lineage": frozenset({"WriteLineage"})})
    server.principals.by_key["lineage"] = Principal("default", "lineage", "lineage", rights)
    return "lineage"


def test_who_may_not_write_data_registers_none(server: Served) -> None:
    key = lineage_alone(server)
    answer = server.post(LINEAGE, event("unwritten", run_id="r-lineage"), key=key)
    assert (answer.status, [one["reason"] for one in answer.json["omitted"]]) == (200, ["no-right"])
    assert entity(server, data("s3://shop", "unwritten")) is None
    static = {"eventTime": "2026-01-01T12:00:00Z", "dataset": event("unwritten")["outputs"][0]}
    assert server.post(LINEAGE, static, key=key).status == 403
    assert entity(server, data("s3://shop", "unwritten")) is None
    server.fold()
    of = run("jobs", "load", "workflow", "load", "r-lineage")
    assert accessed(server, of) == {str(data("s3://shop", "unwritten"))}


@pytest.mark.parametrize("key", [READER, TEAM_A])
def test_a_run_of_somebody_else_is_refused_whole(server: Served, key: str) -> None:
    own = {"namespace": "team-a", "name": "own", "facets": {"documentation": {"description": "x"}}}
    answer = server.post(LINEAGE, event(run_id=f"r-{key}", outputs=[own]), key=key)
    assert (answer.status, answer.json["code"]) == (403, "forbidden")
    assert entity(server, dataset("team-a", "own")) is None
    assert entity(server, run("jobs", "load", "workflow", "load", f"r-{key}")) is None
    assert server.post(LINEAGE, event(), key=None).status == 401


def test_a_batch_tells_which_events_failed(server: Served) -> None:
    key = lineage_alone(server)
    static = {"eventTime": "2026-01-01T12:00:00Z", "dataset": event("b")["outputs"][0]}
    events = [event("a"), {}, event("c"), static, event(eventTime="soon"), 7]
    answer = server.post(BATCH, gzip.compress(json.dumps(events).encode()), key=key, Content_Encoding="gzip")
    assert answer.status == 200
    assert {name: answer.json[name] for name in ("status", "summary")} == {
        "status": "partial_success",
        "summary": {"received": 6, "successful": 2, "failed": 4, "retriable": 0, "non_retriable": 4},
    }
    failed = answer.json["failed_events"]
    assert [(one["index"], one["retriable"]) for one in failed] == [(1, False), (3, False), (4, False), (5, False)]
    assert [one["reason"].partition(":")[0] for one in failed] == [
        "no-run-event", "forbidden", "no-run-event", "no-run-event"]  # fmt: skip
    odd = server.post(BATCH, [event("d"), event(eventType=["COMPLETE"])])
    assert (odd.status, odd.json["summary"]["successful"]) == (200, 1)
    assert server.post(BATCH, []).json["status"] == "success"
    assert server.post(BATCH, [{}]).json["status"] == "failure"
    assert server.post(BATCH, [{}] * 10_001).json["code"] == "too-many"
    assert server.post(BATCH, {}).status == 400


async def _batch_beside_another_task(events: list[Any]) -> int:
    """How often another task of the loop gets its turn while a batch is taken in that says nothing new."""
    sends: Any = SilentSends()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.ensure_future(other())
    rights = Rights([("admin", "*")], {})
    asked = Request({}, {}, events, "default", "somebody", 0, rights=rights)
    batch: Any = next(one for one in RECEIVING if one.path.endswith("batch"))
    answer = await batch.sends(sends, asked)
    beside.cancel()
    assert answer.value["status"] == "success"
    return turns


class SilentSends:
    """Sends nothing, as nothing is new."""

    left_s = 60.0
    positions = ()

    def __init__(self) -> None:
        self._receiver: Any = None

    def kept(self, make: Any) -> Any:
        if self._receiver is None:
            self._receiver = make()
            self._receiver.keeper.has_news = lambda *_: False
        return self._receiver

    async def send_all(self, facts: Any, *, event_time: int) -> None: ...


def test_a_batch_that_says_nothing_new_lets_others_have_their_turn() -> None:
    static = {"eventTime": "2026-01-01T12:00:00Z", "dataset": event("b")["outputs"][0]}
    assert asyncio.run(_batch_beside_another_task([static] * 640)) >= 10


def test_a_batch_keeps_no_error_of_its_failures() -> None:
    """Each holds all that it passed through: those of ten thousand took the collector half a second, on the loop."""

    def errors() -> int:
        return sum(isinstance(one, MetajournalError) for one in gc.get_objects())

    asked = Request({}, {}, [{}] * 500, "default", "somebody", 0, rights=Rights([("admin", "*")], {}))
    batch: Any = next(one for one in RECEIVING if one.path.endswith("batch"))
    gc.collect()
    gc.disable()
    try:
        before = errors()
        answer = asyncio.run(batch.sends(SilentSends(), asked))
        assert errors() - before < 10
    finally:
        gc.enable()
    assert answer.value["summary"]["failed"] == 500


def test_overload_is_503_and_never_429(server: Served, gateway_settings: Settings) -> None:
    slow = replace(gateway_settings, gateway=replace(gateway_settings.gateway, requests_per_s=0.01, burst=2))
    with Journal.connect(slow) as journal, running(journal, server.principals, slow) as address:
        assert [server.post(LINEAGE, event(), address=address).status for _ in range(2)] == [200, 200]
        for path, body in ((LINEAGE, event()), (BATCH, [event()])):
            answer = server.post(path, body, address=address)
            assert (answer.status, answer.json["code"]) == (503, "too-many-requests")
            assert int(answer.headers["retry-after"]) >= 1


def test_what_takes_long_to_read_is_read_beside_the_loop(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, list[str]] = {"value_of": [], "read": []}

    def watched(module: Any, name: str) -> None:
        function = getattr(module, name)

        def read(*given: Any, **more: Any) -> Any:
            threads[name].append(threading.current_thread().name)
            return function(*given, **more)

        monkeypatch.setattr(module, name, read)

    watched(bodies, "value_of")
    watched(receiving, "read")
    usual = json.loads(json.dumps(event()))
    large = {**usual, "run": {**usual["run"], "facets": {"many": {f"{number:x}": {} for number in range(10_000)}}}}
    for one in (usual, large):
        assert server.post("/api/v1/lineage", one).status == 200
    [loop, body], [at, beside] = threads["value_of"], threads["read"]
    assert (loop, body.startswith("metajournal-bodies")) == (at, True)
    assert beside not in (loop, body)


def test_what_takes_long_to_read_is_told_by_its_facets_too() -> None:
    usual = json.loads(json.dumps(event()))
    many: dict[str, Any] = {f"{number:x}": {} for number in range(10_000)}
    assert not _is_large(usual, None)
    for facet in (many, {"text": "x" * 1_000_000}, {"list": [[1]] * 6_000}):
        assert _is_large({**usual, "run": {**usual["run"], "facets": {"one": facet}}}, None)
    assert _is_large({**usual, "inputs": [{"namespace": "a", "name": str(number)} for number in range(301)]}, 5_000)
