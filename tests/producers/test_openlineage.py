"""OpenLineage run events come in as facts and go out again; what is no run event is told with why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from metajournal import AccessesRecorded, RunStarted, RunStopped, dataset, run, stream, urn
from metajournal.domains.lineage.openlineage import (
    NoRunEventError,
    _known_data,
    data_of,
    facts_of,
    read_events,
    run_events,
    without_unusable,
)
from metajournal.schemas.errors import MetajournalError
from metajournal.sources.found import Found, Past, Problem
from metajournal.sources.openlineage.source import OpenLineageFiles

NOON_MS = 1_767_268_800_000
RUN_ID = "3b452093-782c-4ef2-9c0c-aafe2aa6f34d"
EVENT: dict[str, Any] = {
    "eventType": "START",
    "eventTime": "2026-01-01T12:00:00.000Z",
    "run": {"runId": RUN_ID},
    "job": {"namespace": "my-scheduler", "name": "myjob.mytask"},
    "inputs": [{"namespace": "postgres://host:5432", "name": "shop.public.orders", "facets": {}}],
    "outputs": [{"namespace": "s3://bucket", "name": "warehouse/orders"}],
    "producer": "https://example.com/client",
    "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
}
RUN = run("my-scheduler", "myjob.mytask", "workflow", "myjob.mytask", RUN_ID)
ORDERS = dataset("postgres://host:5432", "shop.public.orders")
COPY = dataset("s3://bucket", "warehouse/orders")


def test_a_start_tells_when_a_run_began_and_what_it_touches() -> None:
    touched = AccessesRecorded(RUN, [(ORDERS, "read", NOON_MS), (COPY, "write", NOON_MS)])
    assert facts_of(EVENT) == [RunStarted(RUN, NOON_MS), touched]


@pytest.mark.parametrize(("kind", "status"), [("COMPLETE", "COMPLETED"), ("FAIL", "FAILED"), ("ABORT", "KILLED")])
def test_an_end_tells_how_a_run_stopped(kind: str, status: str) -> None:
    event = {**EVENT, "eventType": kind, "inputs": [], "outputs": []}
    assert facts_of(event) == [RunStopped(RUN, NOON_MS, status)]


@pytest.mark.parametrize("kind", ["RUNNING", "OTHER", None])
def test_events_in_between_tell_what_was_touched(kind: str | None) -> None:
    event = {**EVENT, "eventType": kind, "eventTime": "2026-01-01T14:00:00.5+02:00"}
    if kind is None:
        del event["eventType"]
    (fact,) = facts_of(event)
    assert isinstance(fact, AccessesRecorded)
    assert {access.at for access in fact.accesses} == {NOON_MS + 500}


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T12:00:00", "2026-01-01T12:00:00.000000", "2026-01-01 12:00", "2026-01-01t12:00:00.000z",
        "2026-01-01T14:00:00+02:00",
    ],
)  # fmt: skip
def test_a_time_without_a_zone_is_utc_and_letters_are_of_either_case(text: str) -> None:
    """Airflow's provider up to 1.9.1 sends every FAIL without one, Great Expectations and earlier dbt all they send."""
    assert facts_of({**EVENT, "eventTime": text})[0] == RunStarted(RUN, NOON_MS)


LONG = "x" * 2_000
ODD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"namespace": "s3://bucket", "name": ""}, "s3://bucket"),
    "no namespace": ({"namespace": "", "name": "a"}, "a"),
    "too long": ({"namespace": "s3://bucket", "name": LONG}, f"s3://bucket {LONG[:188]}…"),
    "too long as a URN": ({"namespace": "s3://bucket", "name": "ä" * 180}, f"s3://bucket {'ä' * 180}"),
    "not the name of a stream": ({"namespace": "metajournal://stream", "name": "a"}, "metajournal://stream a"),
    "with a password": ({"namespace": "postgres://u:geheim@db", "name": ""}, "postgres://db"),
}


@pytest.mark.parametrize("name", ODD_DATA)
def test_data_without_a_usable_name_are_left_out_and_the_rest_of_the_event_stays(name: str) -> None:
    odd, shown = ODD_DATA[name]
    whole = {**EVENT, "inputs": [odd, *EVENT["inputs"], odd], "outputs": [*EVENT["outputs"], odd]}
    assert without_unusable(whole) == (EVENT, [shown])
    assert whole["inputs"][0] == odd, "what was given stays as it was"


@pytest.mark.parametrize("odd", [{"namespace": "a"}, {"name": "a"}, {"namespace": "a", "name": 5}, "a", None])
def test_data_that_lack_a_name_make_no_event(odd: Any) -> None:
    kept, left_out = without_unusable({**EVENT, "inputs": [odd]})
    assert left_out == []
    with pytest.raises(NoRunEventError):
        facts_of(kept)


@pytest.mark.parametrize("value", [None, 5, "a", [], {}, {"inputs": 5}, {"inputs": None, "outputs": {}}])
def test_what_is_no_event_is_left_to_whoever_reads_it(value: Any) -> None:
    assert without_unusable(value) == (value, [])


def test_a_file_says_which_data_were_left_out_and_the_rest_of_the_event_is_read() -> None:
    odd = {"namespace": "s3://bucket", "name": ""}
    found = list(read_events([json.dumps({**EVENT, "inputs": [odd, *EVENT["inputs"]]}), json.dumps(EVENT)]))
    assert [(one.number, one.facts, one.fault is None) for one in found] == [
        (1, facts_of(EVENT), True), (1, [], False), (2, facts_of(EVENT), True),
    ]  # fmt: skip
    assert "'s3://bucket' were left out" in str(found[1].fault)


def test_files_that_are_brought_in_say_so_too_and_keep_no_password_of_a_data_source(tmp_path: Path) -> None:
    source = {"dataSource": {"name": "postgres://u:geheim@host:5432"}}
    inputs = [{"namespace": "s3://bucket", "name": ""}, {**EVENT["inputs"][0], "facets": source}]
    (tmp_path / "events.jsonl").write_text(json.dumps({**EVENT, "inputs": inputs}), "utf-8")
    told = list(OpenLineageFiles([str(tmp_path / "events.jsonl")]).read(lambda _: None))
    (problem,) = [one for one in told if isinstance(one, Problem)]
    assert (problem.what, "'s3://bucket' were left out" in problem.why) == ("events.jsonl, event 1", True)
    assert [list(one.facts) for one in told if isinstance(one, Past)] == [facts_of(EVENT)]
    found = {one.entity: one.properties for one in told if isinstance(one, Found)}
    assert found.keys() >= {ORDERS, COPY}
    assert found[ORDERS]["source"] == "postgres://host:5432"


def test_what_is_named_twice_is_told_once_and_many_data_make_several_facts() -> None:
    inputs = [{"namespace": "n", "name": f"d{number}"} for number in range(1_500)]
    started, *accesses = facts_of({**EVENT, "inputs": [*inputs, *inputs], "outputs": []})
    assert isinstance(started, RunStarted)
    assert [len(one.accesses) for one in accesses] == [1_000, 500]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"eventTime": None}, "eventTime is missing"),
        ({"eventTime": "noon"}, "not a date and time"),
        ({"eventTime": "2026-01-01"}, "not a date and time"),
        ({"eventTime": "20260101"}, "not a date and time"),
        ({"eventTime": "1767268800"}, "not a date and time"),
        ({"eventTime": "1767268800000"}, "not a date and time"),
        ({"eventTime": "2026-01-01T25:00:00"}, "not a date and time"),
        ({"eventTime": 1767268800000}, "missing or not text"),
        ({"eventTime": "1969-01-01T00:00:00Z"}, "milliseconds since 1970"),
        ({"run": {}}, "run.runId is missing"),
        ({"job": {"namespace": "x"}}, "job.name is missing"),
        ({"job": "x"}, "job.namespace is missing"),
        ({"eventType": "BEGIN"}, "eventType"),
        ({"inputs": {"namespace": "x"}}, "inputs is not a list"),
        ({"inputs": [{"namespace": "x"}]}, "name is missing"),
        ({"outputs": ["x"]}, "namespace is missing"),
        ({"outputs": [{"namespace": "metajournal://dataset", "name": "a"}]}, "not a valid URN"),
        ({"outputs": [{"namespace": "metajournal://run", "name": "a/b/flow/c/d"}]}, "outputs|data"),
        ({"job": {"namespace": "n" * 2000, "name": "x"}}, "not a valid URN"),
        ({"run": {"runId": "r", "facets": {"metajournal_run": {"run": "dataset:a/b"}}}}, "URN of a run"),
        ({"run": {"runId": "\ud800"}}, "surrogate"),
    ],
)
def test_what_is_no_run_event_is_refused_with_why(change: dict[str, Any], words: str) -> None:
    with pytest.raises(MetajournalError, match=words):
        facts_of({**EVENT, **change})


@pytest.mark.parametrize(
    "form",
    [
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "3F2504E0-4F89-41D3-9A0C-0305E82C3301",
        "{3F2504E0-4f89-41d3-9a0c-0305e82c3301}",
        "urn:uuid:3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "URN:UUID:3F2504E0-4F89-41D3-9A0C-0305E82C3301",
    ],
)
def test_one_uuid_is_one_run_however_it_is_written(form: str) -> None:
    job = EVENT["job"]
    (told, *_) = facts_of({**EVENT, "run": {"runId": form}})
    assert told.run == run(
        job["namespace"], job["name"], "workflow", job["name"], "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    )


@pytest.mark.parametrize(
    "form",
    [
        "Nightly-4711",
        "3F2504E04F8941D39A0C0305E82C3301",
        "{3F2504E0-4F89-41D3-9A0C-0305E82C3301",
        "3F2504E0-4F89-41D3-9A0C-0305E82C3301-A",
        "urn:uuid:{3F2504E0-4F89-41D3-9A0C-0305E82C3301}",
        "3F2504E0-4F89-41D3-9A0C-0305E82C330\u0661",
    ],
)
def test_an_id_that_is_no_uuid_stays_as_it_is(form: str) -> None:
    job = EVENT["job"]
    (told, *_) = facts_of({**EVENT, "run": {"runId": form}})
    assert told.run == run(job["namespace"], job["name"], "workflow", job["name"], form)


def test_files_are_read_as_lines_or_as_one_array_and_the_rest_goes_on() -> None:
    good, bad = json.dumps(EVENT), json.dumps({"job": {}})
    lines = [good, "\n", "{", bad, "[1]", good]
    found = list(read_events(lines))
    assert [(one.number, len(one.facts), one.fault is None) for one in found] == [
        (1, 2, True), (2, 0, False), (3, 0, False), (4, 0, False), (5, 2, True),
    ]  # fmt: skip
    array = json.dumps([EVENT, {}, 5], indent=1).splitlines(keepends=True)
    assert [len(one.facts) for one in read_events(array)] == [2, 0, 0]
    assert [len(one.facts) for one in read_events(["[" * 100_000])] == [0]
    assert list(read_events(["", " \n"])) == []


def test_objects_may_stand_on_several_lines() -> None:
    two = f"{json.dumps(EVENT, indent=2)}\n{json.dumps(EVENT, indent=2)}\n".splitlines(keepends=True)
    assert [(one.number, len(one.facts), one.fault) for one in read_events(two)] == [(1, 2, None), (2, 2, None)]
    assert all(one.fault for one in read_events(two[:-2]))
    good = json.dumps(EVENT)
    found = list(read_events([f"{good[:-1]}\n", good]))  # cut off: the lines are read one by one
    assert [one.fault is None for one in found] == [False, True]


@pytest.mark.parametrize("alone", ["job", "dataset"])
def test_an_event_of_no_run_is_said_to_be_one(alone: str) -> None:
    with pytest.raises(MetajournalError, match=f"Only run events can be imported, and this is a {alone} event"):
        facts_of({"eventTime": "2026-01-01T00:00:00Z", alone: {"namespace": "a", "name": "b"}})


PURCHASES = dataset("default", "purchases")
CLICKS = stream("default", "clicks")
TOLD: dict[str, Any] = {
    "run": "run:default/History/flow/Flow/283-afsd%20x",
    "program": "program:default/History/flow/Flow",
    "id": "283-afsd x",
    "start": NOON_MS,
    "stop": NOON_MS + 5_000,
    "status": "FAILED",
}
ACCESSES: list[dict[str, Any]] = [
    {"data": str(one), "access": access, "at": NOON_MS + 7, "component": None, "metadata": None}
    for one, access in [
        (PURCHASES, "read"),
        (CLICKS, "write"),
        (urn("file", "s3", "b", "a/b"), "unknown"),
        (dataset("metajournal://stream", "a/b"), "read"),
    ]
]


def test_a_run_goes_out_as_its_start_and_its_end() -> None:
    start, end = run_events(TOLD, ACCESSES)
    assert (start["eventType"], start["eventTime"]) == ("START", "2026-01-01T12:00:00.000Z")
    assert (end["eventType"], end["eventTime"]) == ("FAIL", "2026-01-01T12:00:05.000Z")
    assert start["job"] == {"namespace": "default", "name": "History.flow.Flow"}
    assert start["inputs"] == [
        {"namespace": "default", "name": "purchases"},
        {"namespace": "metajournal://dataset", "name": "metajournal%3A%2F%2Fstream/a%2Fb"},
    ]
    assert start["outputs"] == [{"namespace": "metajournal://stream", "name": "default/clicks"}]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert UUID(start["run"]["runId"]).version == 5


def test_a_run_that_is_named_by_a_uuid_keeps_it_and_one_that_goes_on_has_no_end() -> None:
    going = {**TOLD, "id": RUN_ID, "stop": -1, "status": None}
    (start,) = run_events(going, [])
    assert start["run"]["runId"] == RUN_ID
    assert "status" not in start["run"]["facets"]["metajournal_run"]
    (end,) = run_events({**TOLD, "start": None, "status": "odd"}, [])
    assert end["eventType"] == "OTHER"
    assert facts_of(end) == [RunStopped(TOLD["run"], TOLD["stop"], "odd")]


def test_what_goes_out_comes_back_as_it_was() -> None:
    recorded = {"user": {"properties": {"a": "b"}, "tags": ["t"]}, "system": {"properties": {}, "tags": []}}
    more = [
        {**ACCESSES[0], "at": NOON_MS + 9, "component": "reader", "metadata": recorded},
        {**ACCESSES[0], "at": NOON_MS - 9, "component": "other"},
    ]
    facts = [fact for event in run_events(TOLD, [*ACCESSES, *more]) for fact in facts_of(json.loads(json.dumps(event)))]
    assert facts == [
        RunStarted(TOLD["run"], NOON_MS),
        AccessesRecorded(TOLD["run"], [tuple(one.values()) for one in [*ACCESSES, *more]]),
        RunStopped(TOLD["run"], NOON_MS + 5_000, "FAILED"),
    ]
    (end,) = run_events({**TOLD, "start": None}, ACCESSES)
    assert [type(fact) for fact in facts_of(end)] == [RunStopped, AccessesRecorded]


@pytest.mark.parametrize("wrong", [5, "a", [5], [{}], [{**ACCESSES[0], "at": "soon"}]])
def test_accesses_of_our_own_facet_that_are_none_are_refused(wrong: Any) -> None:
    (event, _) = run_events(TOLD, ACCESSES)
    event["run"]["facets"]["metajournal_run"]["accesses"] = wrong
    with pytest.raises(NoRunEventError):
        facts_of(event)


def test_a_namespace_that_is_longer_than_any_urn_is_not_remembered() -> None:
    long = f"postgres://db?{'x' * 5_000}"
    held = _known_data.cache_info().currsize
    assert data_of(long, "shop.public.orders") == dataset("postgres://db:5432", "shop.public.orders")
    assert _known_data.cache_info().currsize == held
