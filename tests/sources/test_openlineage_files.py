"""What OpenLineage events say of datasets and jobs becomes entities, so that what lineage knows is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import SYSTEM, EntityRegistered, PropertiesRemoved, PropertiesSet
from metajournal.domains.catalog.naming import data
from metajournal.domains.catalog.urns import program, run
from metajournal.domains.lineage import kept
from metajournal.domains.lineage.events import AccessesRecorded, RunStarted, RunStopped
from metajournal.domains.lineage.facets import Described, Side, without_secrets
from metajournal.domains.lineage.openlineage import facts_of, run_events
from metajournal.sources.found import Found, Past, Problem
from metajournal.sources.openlineage.source import PIECE, OpenLineageFiles
from metajournal.sources.plan import plan
from metajournal.sources.source import Identity, SourceError
from tests.builders import NOON
from tests.properties import examples
from tests.rules.harness import Catalog
from tests.sources.test_plan import brought, held_of, judged

ID = Identity("openlineage", "openlineage", "openlineage.")
ORDERS = data("postgres://db.acme:5432", "shop.public.orders")
DAILY = data("s3://lake", "daily/orders")
JOB = program("airflow", "load.orders", "workflow", "load.orders")
SOURCE = {"namespace": "postgresql://DB.acme", "name": "shop.public.orders"}
FACETS: dict[str, Any] = {
    "schema": {"fields": [
        {"name": "id", "type": "bigint", "description": "the key"},
        {"name": "address", "type": "struct", "fields": [{"name": "city", "type": "text"}]},
    ]},
    "documentation": {"description": "What was bought"},
    "ownership": {"owners": [{"name": "team:sales", "type": "OWNER"}, {"name": "carol"}]},
    "tags": {"tags": [
        {"key": "pii", "value": "true"}, {"key": "tier", "value": "1"}, {"key": "key", "value": "key", "field": "id"},
    ]},
    "dataSource": {"name": "shop", "uri": "postgres://reader:geheim@db.acme:5432/shop?password=geheim"},
}  # fmt: skip


def event(hour: int = 12, **fields: Any) -> dict[str, Any]:
    """A run event of a job that copies orders."""
    whole = {
        "eventType": "COMPLETE", "eventTime": f"2026-01-01T{hour:02}:00:00Z", "run": {"runId": f"r{hour}"},
        "job": {"namespace": "airflow", "name": "load.orders"},
        "inputs": [{"namespace": "postgresql://DB.acme", "name": "shop.public.orders", "facets": FACETS}],
        "outputs": [{"namespace": "s3://lake", "name": "daily/orders"}],
    }  # fmt: skip
    return {**whole, **fields}


def read(folder: Path, *events: Any, **how: Any) -> tuple[dict[str, Found], list[Past], list[Problem]]:
    file = folder / "events.jsonl"
    file.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in events), "utf-8")
    every = list(OpenLineageFiles([str(file)], **how).read(lambda _: None))
    found = {str(one.entity): one for one in every if isinstance(one, Found)}
    return found, [one for one in every if isinstance(one, Past)], [one for one in every if isinstance(one, Problem)]


def test_a_dataset_has_what_its_facets_say(tmp_path: Path) -> None:
    found, (past,), problems = read(tmp_path, event())
    orders = found[ORDERS]
    assert (orders.description, orders.tags) == ("What was bought", ("pii", "tier:1"))
    assert orders.schema == (("id", "bigint"), ("address", "struct"), ("address.city", "text"))
    assert orders.properties == {
        "comment.id": "the key", "owner": "team:sales, carol", "source": "shop", "tags.id": "key",
        "uri": "postgres://db.acme:5432/shop",
    }  # fmt: skip
    assert found.keys() == {ORDERS, DAILY, JOB}
    assert [type(fact) for fact in past.facts] == [RunStopped, AccessesRecorded]
    assert problems == []


def test_a_job_is_a_program_with_its_facets(tmp_path: Path) -> None:
    facets = {
        "documentation": {"description": "Loads"},
        "sql": {"query": "select 1"},
        "jobType": {"integration": "AIRFLOW"},
    }
    found, _, _ = read(tmp_path, event(job={"namespace": "airflow", "name": "load.orders", "facets": facets}))
    assert found[JOB].description == "Loads"
    assert found[JOB].properties == {"sql": "select 1", "integration": "AIRFLOW", "type": "job"}


def test_dataset_and_job_events_are_told_too(tmp_path: Path) -> None:
    of_dataset = {
        "eventTime": "2026-01-01T12:00:00Z",
        "dataset": {"namespace": "postgres://db.acme", "name": "shop.public.orders", "facets": FACETS},
    }
    of_job = {key: value for key, value in event().items() if key not in ("run", "eventType")}
    found, pasts, problems = read(tmp_path, of_dataset, of_job)
    assert ({*found}, problems) == ({ORDERS, DAILY, JOB}, [])
    assert found[ORDERS].description == "What was bought"
    (recorded,) = [fact for past in pasts for fact in past.facts]
    assert {(touch.data, touch.access) for touch in recorded.accesses} == {(ORDERS, "read"), (DAILY, "write")}
    assert str(recorded.run).startswith("run:airflow/load.orders/workflow/load.orders/definition-")
    _, (again,), _ = read(tmp_path, {**of_job, "eventTime": "2026-01-02T12:00:00Z"})
    assert again.facts[0].run == recorded.run


def test_of_each_facet_the_newest_counts_and_one_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    ledger = Catalog()
    described = event(13, inputs=[{**event()["inputs"][0], "facets": {"documentation": {"description": "newer"}}}])
    for events in ([described, event(12)], [described]):
        found, _, _ = read(tmp_path, *events)
        brought(ledger, ID, [*found.values()], whole=False)
    row = ledger.newest["default", ORDERS]
    assert row.system_properties["description"] == "newer"
    assert row.system_properties["openlineage.owner"] == "team:sales, carol"
    assert row.system_tags == ("pii", "tier:1")
    assert '"city"' not in row.system_properties["schema"]
    assert '"address.city"' in row.system_properties["schema"]
    deleted = {"tags": {"_deleted": True}, "schema": {"_deleted": True}}
    found, _, _ = read(tmp_path, event(14, inputs=[{**event()["inputs"][0], "facets": deleted}]))
    brought(ledger, ID, [*found.values()], whole=False)
    row = ledger.newest["default", ORDERS]
    assert (row.system_tags, "schema" in row.system_properties) == ((), False)
    assert row.system_properties["description"] == "newer"


def test_column_lineage_is_a_property_of_the_column(tmp_path: Path) -> None:
    lineage = {
        "fields": {"total": {"inputFields": [{"namespace": "n", "name": "shop.public.orders", "field": "amount"}]}}
    }
    output = {"namespace": "s3://lake", "name": "daily/orders", "facets": {"columnLineage": lineage}}
    found, _, _ = read(tmp_path, event(outputs=[output]))
    assert found[DAILY].columns == {"total": ("shop.public.orders.amount",)}


def test_without_registering_runs_alone_are_told(tmp_path: Path) -> None:
    found, (past,), _ = read(tmp_path, event(), register=False)
    assert (found, len(past.facts)) == ({}, 2)


def test_what_is_no_event_is_a_problem_and_the_others_are_told(tmp_path: Path) -> None:
    good = event()
    found, (past,), problems = read(tmp_path, "{", good, {"job": {}}, event(inputs=[{"namespace": "n"}]))
    assert [problem.what for problem in problems] == [f"events.jsonl, event {number}" for number in (1, 3, 4)]
    assert (len(past.facts), ORDERS in found) == (2, True)
    with pytest.raises(SourceError):
        list(OpenLineageFiles([str(tmp_path / "nowhere.jsonl")]).read(lambda _: None))


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), "\ud800"], ids=["nan", "infinity", "half-a-character"])
@pytest.mark.parametrize("is_array", [False, True])
def test_a_facet_that_json_has_no_form_for_is_a_problem_of_its_event_alone(
    tmp_path: Path, value: object, is_array: bool
) -> None:
    odd = {"namespace": "s3://lake", "name": "odd", "facets": {"quality": {"share": value}}}
    events = [event(10), event(11, outputs=[odd]), event(12)]
    found, pasts, (problem,) = read(tmp_path, *([json.dumps(events)] if is_array else events))
    assert (problem.what, problem.why.partition(":")[0]) == ("events.jsonl, event 2", "it is not JSON")
    assert found.keys() == {ORDERS, DAILY, JOB}
    assert {fact.run.rpartition("/")[2] for past in pasts for fact in past.facts} == {"r10", "r12"}


@pytest.mark.thorough
def test_what_is_added_to_a_file_makes_one_piece_of_it_new(tmp_path: Path) -> None:
    events = [event(hour % 24, run={"runId": f"r{hour}"}) for hour in range(2 * PIECE + 10)]
    _, before, _ = read(tmp_path, *events)
    _, after, _ = read(tmp_path, *events, event())
    assert len(before) == len(after) == 3
    assert [past.id for past in before[:2]] == [past.id for past in after[:2]]
    assert before[2].id != after[2].id


def over_http(ledger: Catalog, at_ms: int, facets: dict[str, Any], entity: Any = ORDERS) -> None:
    """What the gateway writes of facets of data."""
    told, omitted = kept.facets_of(Described(entity, Side.DATASET, facets), at_ms)
    held = held_of(ledger).get(str(entity))
    update, _ = kept.update_of(held.properties if held is not None else {}, told)
    assert omitted == []
    if update is not None:
        if held is None:
            judged(ledger, EntityRegistered(entity), "gateway")
        if update.removed:
            judged(ledger, PropertiesRemoved(entity, list(update.removed), scope=SYSTEM), "gateway")
        judged(ledger, PropertiesSet(entity, update.properties, SYSTEM), "gateway")


LATE = 4_102_444_800_000
"""Later than the events of the files, milliseconds UTC."""
HTTP: dict[str, Any] = {
    "schema": {"fields": [{"name": "total", "type": "int"}]},
    "documentation": {"description": "Over HTTP"},
    "ownership": {"owners": [{"name": "carol"}]},
    "storage": {"storageLayer": "iceberg"},
    "tags": {"tags": [{"key": "gdpr"}]},
    "symlinks": {"identifiers": []},
}


def test_an_import_leaves_what_came_over_http_and_its_times(tmp_path: Path) -> None:
    ledger = Catalog()
    over_http(ledger, LATE, HTTP)
    before = dict(held_of(ledger)[str(ORDERS)].properties)
    del before["last_update_time"], before["last_updated_by"]
    found, _, _ = read(tmp_path, event(inputs=[{**SOURCE, "facets": {**FACETS, "storage": {"storageLayer": "delta"}}}]))
    brought(ledger, ID, [*found.values()], whole=False)
    after = held_of(ledger)[str(ORDERS)].properties
    assert before.items() <= after.items()
    assert after["openlineage.owner"] == "team:sales, carol"
    assert brought(ledger, ID, [*found.values()], whole=False) == []
    over_http(ledger, LATE - 1, {"documentation": {"description": "Older"}})
    assert held_of(ledger)[str(ORDERS)].properties["description"] == "Over HTTP"


def test_of_what_both_say_at_one_key_the_later_stands(tmp_path: Path) -> None:
    ledger = Catalog()
    found, _, _ = read(tmp_path, event(inputs=[{**SOURCE, "facets": {**FACETS, "storage": {"storageLayer": "delta"}}}]))
    brought(ledger, ID, [*found.values()], whole=False)
    assert held_of(ledger)[str(ORDERS)].properties["openlineage.storage"] == "delta"
    over_http(ledger, LATE, HTTP)
    assert brought(ledger, ID, [*found.values()], whole=False) == []
    later = event(eventTime="2200-01-01T00:00:00Z", inputs=[
        {**SOURCE, "facets": {**FACETS, "storage": {"storageLayer": "hudi"}}}
    ])  # fmt: skip
    found, _, _ = read(tmp_path, later)
    brought(ledger, ID, [*found.values()], whole=False)
    after = held_of(ledger)[str(ORDERS)].properties
    assert (after["description"], after["openlineage.storage"]) == ("What was bought", "hudi")


def test_what_a_file_does_not_name_is_not_gone(tmp_path: Path) -> None:
    assert OpenLineageFiles([]).lists_all is False
    ledger = Catalog()
    found, _, _ = read(tmp_path, event())
    brought(ledger, ID, [*found.values()], whole=False)
    assert plan(ID, [], held_of(ledger), whole=False, at_ms=NOON).steps == []


def test_our_own_events_that_come_back_register_no_job_of_another_name(tmp_path: Path) -> None:
    of = run("shop", "loads", "spark", "nightly", "r1")
    accesses = [{"data": str(ORDERS), "access": "write", "at": NOON}]
    exported = run_events(
        {"run": str(of), "program": "program:shop/loads/spark/nightly", "id": "r1", "start": NOON, "stop": -1,
         "status": None}, accesses,
    )  # fmt: skip
    found, (past,), _ = read(tmp_path, *exported)
    assert found.keys() == {ORDERS}
    assert {fact.run for fact in past.facts} == {of}


def test_an_exported_job_keeps_its_name() -> None:
    of = facts_of(event(eventType="START"))[0].run
    told = {"run": str(of), "program": str(JOB), "id": "r12", "start": NOON, "stop": -1, "status": None}
    (exported,) = run_events(told, [])
    assert exported["job"] == {"namespace": "airflow", "name": "load.orders"}
    assert isinstance(facts_of(exported)[0], RunStarted)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgres://u:geheim@db.acme:5432/shop?password=geheim", "postgres://db.acme:5432/shop"),
        ("jdbc:sqlserver://db.acme:1433;user=u;password=geheim", "sqlserver://db.acme:1433"),
        ("s3://bucket/path", "s3://bucket/path"),
        ("u:geheim@nowhere", ""),
        ("http://[geheim", ""),
        ("file", "file"),
    ],
)
def test_an_address_is_kept_without_secrets(address: str, shown: str) -> None:
    assert without_secrets(address) == shown


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda of: st.lists(of, max_size=3),
    max_leaves=5,
)
named = st.sampled_from(
    ["name", "type", "fields", "description", "owners", "tags", "key", "value", "field", "inputFields"]
)
odd = st.dictionaries(named, values | st.lists(st.dictionaries(named, values, max_size=4), max_size=3), max_size=5)


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(st.sampled_from([*FACETS, "columnLineage", "sql", "storage"]), odd, max_size=4))
def test_whatever_facets_hold_makes_valid_events(
    tmp_path_factory: pytest.TempPathFactory, facets: dict[str, Any]
) -> None:
    ledger = Catalog()
    inputs = [{"namespace": "n", "name": "d", "facets": facets}]
    found, _, problems = read(tmp_path_factory.mktemp("odd"), event(inputs=inputs))
    assert problems == []
    brought(ledger, ID, [*found.values()], whole=False)
    assert plan(ID, found.values(), held_of(ledger), whole=False, at_ms=NOON).steps == []


def test_folders_and_patterns_are_looked_through_at_each_reading(tmp_path: Path) -> None:
    (tmp_path / "monday.jsonl").write_text(json.dumps(event(10)), "utf-8")
    (tmp_path / "notes.txt").write_text("none", "utf-8")
    source = OpenLineageFiles([str(tmp_path), str(tmp_path / "*.jsonl")])

    def runs() -> int:
        return len([one for one in source.read(lambda _: None) if isinstance(one, Past)])

    assert runs() == 1
    (tmp_path / "tuesday.jsonl").write_text(json.dumps(event(11)), "utf-8")
    assert runs() == 2
    (tmp_path / "empty").mkdir()
    for nothing in (tmp_path / "empty", tmp_path / "*.ndjson", tmp_path / "gone.jsonl"):
        with pytest.raises(SourceError) as refused:
            list(OpenLineageFiles([str(nothing)]).read(lambda _: None))
        assert refused.value.code == "source-not-found"
