"""Lineage over a real server: the source's endpoints in its shapes, the client's questions, and what is withheld."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from metajournal import AccessesRecorded, RunStarted, RunStopped, dataset, program, run, stream
from metajournal.domains.lineage.values import accesses_json, runs_json, touched_json
from metajournal.schemas.times import time_shown
from metajournal.schemas.urn import Urn
from tests.gateway.reading import key_of, pages, refused
from tests.gateway.serving import OTHER, READER, TEAM_A, Served

HOUR_MS = 3_600_000
V3 = "/v3/namespaces/cdap"
RAW, CLEAN, SECRET = (dataset("cdap", name) for name in ("raw", "clean", "secret"))
CLICKS = stream("cdap", "clicks")
LOAD, REPORT = program("cdap", "shop", "flow", "load"), program("cdap", "shop", "mapreduce", "report")
NAMED = {RAW: "dataset.cdap.raw", CLEAN: "dataset.cdap.clean", CLICKS: "stream.cdap.clicks"}
RECORDED = {"user": {"properties": {"owner": "ada"}, "tags": []}, "system": {"properties": {"rows": "7"}, "tags": []}}


def run_of(of: Urn, number: int) -> Urn:
    namespace, app, kind, name = of.parts
    return run(namespace, app, kind, name, f"r{number}")


class Facts:
    """Clicks are loaded into raw, with a touch of something secret, and reported into clean; three runs of each."""

    def __init__(self, server: Served) -> None:
        self.now_ms = int(time.time() * 1000)
        for number in range(3):
            at = self.at(number)
            load, report = run_of(LOAD, number), run_of(REPORT, number)
            server.journal.emit(RunStarted(load, at))
            accesses: list[Any] = [(CLICKS, "read", at, "reader", RECORDED), (RAW, "write", at, "writer", None)]
            server.journal.emit(AccessesRecorded(load, [*accesses, (SECRET, "read", at, None, hidden())]))
            server.journal.emit(RunStopped(load, at + 1_000, "COMPLETED"))
            server.journal.emit(RunStarted(report, at))
            server.journal.emit(AccessesRecorded(report, [(RAW, "read", at), (CLEAN, "write", at)]))
        server.journal.flush()
        server.fold()

    def at(self, number: int) -> int:
        """When a run starts: the first one ten hours ago, each following one four hours later."""
        return self.now_ms - (10 - 4 * number) * HOUR_MS


def hidden() -> dict[str, Any]:
    return {"user": {"properties": {"password": "x"}, "tags": []}, "system": {"properties": {}, "tags": []}}


@pytest.fixture(scope="module")
def facts(server: Served) -> Facts:
    return Facts(server)


def runs_in(answer: Any, data: str = "dataset.cdap.raw") -> set[str]:
    return {one for relation in answer["relations"] if relation["data"] == data for one in relation["runs"]}


def limited(server: Served) -> str:
    """The key of somebody who may read all of the namespace but what is secret, and no run of reports."""
    readable = [f"dataset:cdap/{name}" for name in ("raw", "clean")]
    readable += ["stream:cdap/*", "program:cdap/*", "run:cdap/shop/flow/*"]
    return key_of(server, "limited", *(("analyst", pattern) for pattern in readable))


# --- the source's endpoints


def test_lineage_of_a_dataset_has_the_sources_shape(server: Served, facts: Facts) -> None:
    answer = server.get(f"{V3}/datasets/raw/lineage").json
    assert answer == server.journal.lineage.of(RAW)
    assert {one["data"] for one in answer["relations"]} == {*NAMED.values(), "dataset.cdap.secret"}
    assert answer["programs"]["flow.cdap.shop.load"]["id"] == {
        "namespace": "cdap", "application": "shop", "type": "flow", "id": "load",
    }  # fmt: skip
    assert "withheld" not in answer


@pytest.mark.parametrize("form", ["streams", "stream"])
def test_lineage_of_a_stream_goes_as_many_levels_as_it_is_told(server: Served, facts: Facts, form: str) -> None:
    answer = server.get(f"{V3}/{form}/clicks/lineage?maxLevels=1").json
    assert answer == server.journal.lineage.of(CLICKS, levels=1)
    assert [*answer["programs"]] == ["flow.cdap.shop.load"]
    assert [*server.get(f"{V3}/{form}/clicks/lineage").json["programs"]] == [
        "flow.cdap.shop.load", "mapreduce.cdap.shop.report",
    ]  # fmt: skip


def test_a_window_is_milliseconds_iso_or_relative(server: Served, facts: Facts) -> None:
    at = f"{V3}/datasets/clean/lineage"
    ends_ms = facts.at(1) + HOUR_MS
    iso = datetime.fromtimestamp(ends_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
    for end in (ends_ms, iso, "now-5h", "now-1d%2B19h"):
        assert runs_in(server.get(f"{at}?end={end}").json, "dataset.cdap.clean") == {"r0", "r1"}, end
    raw = server.get(f"{V3}/datasets/raw/lineage?start=now-3h&end=now&maxLevels=1").json
    loads = next(one for one in raw["relations"] if one["program"] == "flow.cdap.shop.load")
    assert loads["runs"] == ["r2"]
    assert server.get(f"{at}?start=then").json["code"] == "not-a-time"
    assert server.get(f"{at}?start=now-1y").status == 400
    assert server.get(f"{at}?maxLevels=0").status == 400


def test_unknown_data_have_no_relations(server: Served, facts: Facts) -> None:
    answer = server.get(f"{V3}/datasets/nobody/lineage")
    assert (answer.status, answer.json["relations"]) == (200, [])


def test_lineage_goes_on_from_where_it_ended(server: Served, facts: Facts) -> None:
    body = {"start": facts.at(2), "end": "now", "maxLevels": 1, "after": ["dataset.cdap.clean", "stream.cdap.clicks"]}
    for form in ("datasets/raw", "streams/clicks"):
        answer = server.post(f"{V3}/{form}/lineage/next", body)
        assert answer.status == 200
        assert answer.json == server.journal.lineage.of([CLEAN, CLICKS], facts.at(2), answer.json["end"], levels=1)
        assert len(answer.json["programs"]) == 2


def test_times_and_levels_of_a_body_are_read_as_those_of_a_query(server: Served, facts: Facts) -> None:
    """Numbers up to 1e11 are seconds in both, and numbers may be text in both."""
    at, after = f"{V3}/datasets/raw/lineage/next", ["dataset.cdap.raw"]
    for start, end, levels in ((1_441_310_434, 1_441_320_599, 3), ("1441310434", "1441320599", "3")):
        body = {"after": after, "start": start, "end": end, "maxLevels": levels}
        assert (server.post(at, body).json["start"], server.post(at, body).json["end"]) == (
            "1441310434000", "1441320599000",
        )  # fmt: skip
    for levels in ("0", "-1", "many", "1001", 0, 1001):
        assert server.post(at, {"after": after, "maxLevels": levels}).status == 400, levels
    assert server.get(f"{V3}/datasets/raw/lineage?&start=1441310434&&end=1441320599&").json["end"] == "1441320599000"


def test_lineage_goes_on_from_data_alone_that_may_be_read(server: Served, facts: Facts) -> None:
    at = f"{V3}/datasets/raw/lineage/next"
    codes = [server.post(at, {"after": after}).json for after in (["flow.cdap.shop.load"], ["nonsense"], [])]
    assert [one["status"] for one in codes] == [400, 400, 400]
    key = limited(server)
    assert server.post(at, {"after": ["dataset.cdap.clean"]}, key=key).status == 200
    assert server.post(at, {"after": ["dataset.cdap.clean", "dataset.cdap.secret"]}, key=key).status == 403
    assert server.post(f"{V3}/datasets/secret/lineage/next", {"after": ["dataset.cdap.clean"]}, key=key).status == 403


def test_what_may_not_be_read_is_neither_entered_nor_counted(server: Served, facts: Facts) -> None:
    answer = server.get(f"{V3}/datasets/raw/lineage", key=limited(server)).json
    assert answer["withheld"] is True
    assert {*answer["data"]} == {*NAMED.values()}
    assert "secret" not in str(answer)
    reports = [one["runs"] for one in answer["relations"] if one["program"] == "mapreduce.cdap.shop.report"]
    assert reports
    assert not any(reports)
    alone = key_of(server, "alone", ("analyst", str(RAW)))
    assert server.get(f"{V3}/datasets/raw/lineage", key=alone).json == {
        **server.get(f"{V3}/datasets/nobody/lineage").json, "withheld": True,
    }  # fmt: skip
    assert refused(server, f"{V3}/datasets/secret/lineage", limited(server)) == (403, "forbidden")
    assert refused(server, f"{V3}/datasets/raw/lineage", TEAM_A) == (403, "forbidden")
    assert refused(server, f"{V3}/datasets/nobody/lineage", TEAM_A) == (403, "forbidden")
    assert server.get(f"{V3}/datasets/raw/lineage", key=OTHER).json["relations"] == []


def test_accesses_of_a_run_are_a_list_in_pages(server: Served, facts: Facts) -> None:
    at = f"{V3}/apps/shop/Flows/load/runs/r0/metadata/accesses"
    found = [one for page in pages(server, f"{at}?limit=2") for one in page]
    assert found == server.journal.lineage.accesses(run_of(LOAD, 0)).items
    assert [one["data"] for one in found] == [RAW, SECRET, CLICKS]
    assert refused(server, at.replace("r0", "r9"), READER) == (404, "unknown-entity")
    seen = server.get(f"{at}?limit=2", key=limited(server))
    assert [one["data"] for one in seen.json] == [RAW, CLICKS]
    assert (seen.headers["metajournal-withheld"], "link" in seen.headers) == ("true", False)
    reports = f"{V3}/apps/shop/mapreduce/report/runs/r0/metadata/accesses"
    assert refused(server, reports, limited(server)) == (403, "forbidden")


def history(run_id: str = "h1", **more: Any) -> dict[str, Any]:
    of = {"namespace": "cdap", "app": "hist", "programType": "MAPREDUCE", "name": "p", "runId": run_id}
    return {"programRun": of, "data": {"namespace": "cdap", "type": "DATASET", "name": "d1"}, **more}


def test_a_runs_access_is_recorded_now_and_needs_no_registration(server: Served) -> None:
    metadata = {"user": {"key1": "value1"}, "system": {"k1": "v1"}}
    before = int(time.time() * 1000)
    sent = server.post("/v3/metadata/history", history(accessType="in", metadata=metadata))
    assert (sent.status, sent.json["outcome"]) == (200, "accepted")
    assert "etag" not in sent.headers
    server.fold()
    (access,) = server.journal.lineage.accesses(run("cdap", "hist", "mapreduce", "p", "h1")).items
    assert (access["data"], access["access"]) == ("dataset:cdap/d1", "read")
    assert before <= access["at"] <= int(time.time() * 1000)
    assert access["metadata"]["user"] == {"properties": {"key1": "value1"}, "tags": []}
    assert access["metadata"]["system"] == {"properties": {"k1": "v1"}, "tags": []}


def test_a_record_may_say_null_of_what_is_not_known(server: Served) -> None:
    said: list[dict[str, Any]] = [{"accessType": None}, {"metadata": {"user": None, "system": {"k": "v"}}}]
    for number, more in enumerate(said):
        assert server.post("/v3/metadata/history", history(f"null{number}", **more)).status == 200
    server.fold()
    (access,) = server.journal.lineage.accesses(run("cdap", "hist", "mapreduce", "p", "null0")).items
    assert access["access"] == "unknown"


def test_a_record_that_is_not_valid_or_not_allowed_is_refused(server: Served) -> None:
    at = "/v3/metadata/history"
    assert server.post(at, history(accessType="sideways")).json["faults"][0]["field"] == "accessType"
    assert server.post(at, history(data={"namespace": "cdap", "type": "APP", "name": "a"})).status == 400
    kind = {**history()["programRun"], "programType": "cron"}
    assert server.post(at, history(programRun=kind)).json["faults"][0]["field"] == "programRun.programType"
    assert server.post(at, history("h2"), key=READER).status == 403
    assert server.post(at, history("h2"), key=key_of(server, "own", ("emitter", "run:cdap/hist/*"))).status == 200


def test_a_write_from_outside_is_recorded_by_its_source_once_a_day(server: Served) -> None:
    at = f"{V3}/streams/outside"
    first = server.post(f"{at}?source=s1")
    assert (first.status, first.json["outcome"]) == (200, "accepted")
    assert "etag" not in first.headers
    again = server.post(f"{at}/batch?source=s1")
    assert (again.status, again.json["outcome"]) == (200, "unchanged")
    later = server.post(f"{at}/async?source=s2")
    assert (later.status, later.json["outcome"]) == (202, "pending")
    server.fold()
    assert server.get(later.headers["location"]).json["places"][0]["outcome"] == "accepted"
    write = server.journal.lineage.latest_write(stream("cdap", "outside"))
    assert write is not None
    assert write["source"] == "s2"


@pytest.mark.parametrize("path", ["", "/async", "/batch"])
def test_a_streams_content_is_refused_since_none_is_kept(server: Served, path: str) -> None:
    at = f"{V3}/streams/outside{path}"
    for kind in ("text/plain", "application/json", "application/octet-stream"):
        got = server.post(f"{at}?source=s1", b"\xffline", Content_Type=kind)
        assert (got.status, got.json["code"]) == (422, "no-body-here")
    assert server.post(at).json["code"] == "no-source"
    assert server.post(f"{at}?source=").status == 400
    assert server.post(f"{at}?source=s1", key=READER).status == 403


# --- the client's questions


def test_lineage_of_any_data_takes_the_clients_arguments(server: Served, facts: Facts) -> None:
    got = server.get(f"/api/v1/lineage/{RAW}?direction=upstream&levels=1&limit=2&start=now-1d").json
    assert got["partial"] is True
    whole = server.get(f"/api/v1/lineage/{RAW}?direction=downstream").json
    assert whole == server.journal.lineage.of(RAW, direction="downstream")
    assert [*whole["programs"]] == ["mapreduce.cdap.shop.report"]
    assert server.get(f"/api/v1/lineage/{RAW}?direction=sideways").status == 400
    assert server.get(f"/api/v1/lineage/{LOAD}").status == 400
    seen = server.get(f"/api/v1/lineage/{RAW}", key=limited(server)).json
    assert (seen["withheld"], "dataset.cdap.secret" in seen["data"]) == (True, False)
    assert refused(server, f"/api/v1/lineage/{SECRET}", limited(server)) == (403, "forbidden")


def test_no_window_point_or_limit_tells_when_something_hidden_was(server: Served, facts: Facts) -> None:
    """Whoever chooses them would learn by bisection at what time something was touched that may not be read."""
    first, last = (time_shown(facts.at(number) - HOUR_MS) for number in (0, 2))
    limits = [f"limit={number}" for number in (1, 2, 3, 4, 9)]
    at, key = f"/api/v1/lineage/{RAW}", limited(server)
    for asked in (f"end={first}", f"start={last}", f"as_of={first}", "as_at=0", "start=now", *limits):
        seen = server.get(f"{at}?{asked}", key=key).json
        assert seen["withheld"] is True, asked
        assert "withheld" not in server.get(f"{at}?{asked}").json, asked
        clean = key_of(server, "clean", *(("analyst", f"{kind}:cdap/*") for kind in ("dataset", "program", "run")))
        whole = server.get(f"/api/v1/lineage/{CLEAN}?{asked}&levels=1", key=clean).json
        assert whole.get("withheld", False) == whole.get("partial", False), "nothing is hidden from this one"
    for at in (f"/api/v1/run/{run_of(LOAD, 1)}", f"/api/v1/accesses/{run_of(LOAD, 1)}"):
        assert server.get(f"{at}?as_of={time_shown(facts.at(1))}", key=key).json["withheld"] is True


def test_runs_come_in_pages_whose_window_stays(server: Served, facts: Facts) -> None:
    at = f"/api/v1/runs/{LOAD}"
    assert server.get(at).json == runs_json(server.journal.lineage.runs(LOAD))
    found = [one["id"] for page in pages(server, f"{at}?limit=1&start=now-7h&end=now") for one in page["runs"]]
    assert found == ["r2", "r1"]
    key = key_of(server, "second", ("analyst", str(LOAD)), ("analyst", str(run_of(LOAD, 1))))
    assert server.get(f"{at}?limit=1", key=key).json == {
        "runs": [one for one in server.get(at).json["runs"] if one["id"] == "r1"], "cursor": None, "withheld": True,
    }  # fmt: skip
    assert refused(server, at, TEAM_A) == (403, "forbidden")


def test_a_run_is_told_without_what_belongs_to_data_that_may_not_be_read(server: Served, facts: Facts) -> None:
    at, asked = f"/api/v1/run/{run_of(LOAD, 1)}", server.journal.lineage
    whole = server.get(at).json
    assert whole == touched_json(asked.run(run_of(LOAD, 1)), asked.accesses(run_of(LOAD, 1)))
    assert whole["metadata"]["user"]["properties"] == {"owner": "ada", "password": "x"}
    seen = server.get(f"{at}?limit=1", key=limited(server)).json
    assert seen["metadata"]["user"]["properties"] == {"owner": "ada"}
    assert (seen["accesses"], seen["withheld"]) == (whole["accesses"][:1], True)
    assert refused(server, f"/api/v1/run/{run_of(LOAD, 9)}", READER) == (404, "unknown-entity")
    assert refused(server, at.replace("/flow/load", "/mapreduce/report"), limited(server)) == (403, "forbidden")


def test_accesses_come_in_full_pages_of_what_may_be_read(server: Served, facts: Facts) -> None:
    at = f"/api/v1/accesses/{run_of(LOAD, 2)}"
    assert server.get(at).json == accesses_json(server.journal.lineage.accesses(run_of(LOAD, 2)))
    seen = list(pages(server, f"{at}?limit=1", key=limited(server)))
    assert [one["data"] for page in seen for one in page["accesses"]] == [RAW, CLICKS]
    assert [page["cursor"] is None for page in seen] == [False, True]
    assert [page["withheld"] for page in seen] == [True, True], "whichever page it is left out of"
    assert refused(server, at, TEAM_A) == (403, "forbidden")


def test_every_run_in_a_lineage_is_left_out_or_says_that_it_lacks_something(server: Served, facts: Facts) -> None:
    unseen = {str(SECRET), str(run_of(LOAD, 2))}
    told = [*server.journal.lineage.runs_in(CLICKS, levels=1, visible=lambda urn: urn not in unseen)]
    assert [one["id"] for one, _ in told] == ["r0", "r1"]
    assert all(one["withheld"] and [access["data"] for access in some] == [RAW, CLICKS] for one, some in told)
    assert not any("withheld" in one for one, _ in server.journal.lineage.runs_in(CLICKS, levels=1))


def test_questions_wait_for_what_they_must_include_and_look_back(server: Served, facts: Facts) -> None:
    late = dataset("cdap", "late")
    first = server.journal.emit(AccessesRecorded(run_of(LOAD, 7), [(late, "write", facts.now_ms)])).position
    at = f"/api/v1/lineage/{late}"
    assert server.get(at).json["relations"] == []
    server.fold()
    answer = server.get(at, Metajournal_At_Least=str(first)).json
    assert runs_in(answer, "dataset.cdap.late") == {"r7"}
    before = str(first).rpartition("/")[0] + f"/{first.value - 1}"
    assert server.get(f"{at}?as_at={before}").json["relations"] == []
    assert server.get(f"{at}?as_of={facts.now_ms - 1}").json["relations"] == []
    assert server.get(f"{V3}/datasets/late/lineage?as_at={before}").json["relations"] == []


def test_facts_are_sent_as_events_by_who_may(server: Served) -> None:
    of = run("cdap", "sent", "flow", "f", "r1")
    lines = [
        {"type": "RunStarted", "run": of, "at": 1_700_000_000_000},
        {"type": "AccessesRecorded", "run": of, "accesses": [{"data": RAW, "access": "read", "at": 1_700_000_000_001}]},
        {"type": "RunStopped", "run": of, "at": 1_700_000_000_002, "status": "FAILED"},
        {"type": "ExternalWrite", "stream": CLICKS, "source": "api", "at": 1_700_000_000_000},
    ]
    for line in lines:
        assert server.post("/api/v1/events", line, key=READER).status == 403
        own = key_of(server, "emitting", ("emitter", str(of)), ("emitter", str(CLICKS)))
        got = server.post("/api/v1/events", line, key=own)
        assert got.status == 200, got.body
    server.fold()
    assert server.journal.lineage.run(of)["status"] == "FAILED"
    write = server.journal.lineage.latest_write(CLICKS, as_of=1_700_000_000_000)
    assert write is not None
    assert write["source"] == "api"
