"""What a dbt project's target folder says becomes entities, by the names that the database's own scan gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.naming import data
from metajournal.domains.catalog.urns import run
from metajournal.domains.lineage.events import AccessesRecorded, RunStarted, RunStopped
from metajournal.schemas.errors import InputError
from metajournal.sources.dbt.source import Dbt
from metajournal.sources.found import Found, Past, Problem
from metajournal.sources.plan import Change, Plan, plan
from metajournal.sources.recipes import source_of
from metajournal.sources.source import SourceError
from tests.builders import NOON
from tests.properties import examples
from tests.rules.harness import Catalog
from tests.sources.databases import in_duckdb
from tests.sources.dbt_projects import (
    INVOCATION,
    NAMESPACE,
    PROJECT,
    catalog,
    generic_test,
    manifest,
    model,
    results,
    source,
    written,
)
from tests.sources.dbt_shop import VERSIONS, target, without_totals
from tests.sources.test_plan import DBT, brought, held_of, judged

BUILT_MS = 1_767_268_800_000
"""When the builders' runs begin."""


def of(name: str, schema: str = "public") -> Any:
    return data(NAMESPACE, f"shop.{schema}.{name}")


def read(folder: Path, **how: Any) -> tuple[dict[str, Found], list[Past], list[Problem]]:
    """What is found, by the last part of its name."""
    how.setdefault("namespace", NAMESPACE)
    every = list(Dbt(str(folder), **how).read(lambda _: None))
    found = {one.entity.name.rpartition(".")[2]: one for one in every if isinstance(one, Found)}
    return found, [one for one in every if isinstance(one, Past)], [one for one in every if isinstance(one, Problem)]


def test_a_model_is_the_table_that_the_database_has(tmp_path: Path) -> None:
    node = model("orders", tags=["core"], description="What was bought", meta={"owner": "carol", "sla": {"hours": 2}})
    node["columns"] = {"id": {"name": "id", "description": "the key", "tags": ["pk"]}}
    types = catalog({node["unique_id"]: {"id": "BIGINT", "amount": "NUMERIC(10,2)"}})
    found, pasts, problems = read(written(tmp_path, manifest([node]), types))
    orders = found["orders"]
    assert orders.entity == of("orders")
    assert (orders.description, orders.tags) == ("What was bought", ("core",))
    assert orders.schema == (("id", "bigint"), ("amount", "numeric(10,2)"))
    expected = {
        "type": "model", "materialized": "table", "owner": "carol", "meta.sla": '{"hours":2}', "comment.id": "the key",
        "tags.id": "pk", "schema": "shop.public", "path": "models/orders.sql",
    }  # fmt: skip
    assert {key: orders.properties[key] for key in expected} == expected
    assert (pasts, problems) == ([], [])


def test_what_is_made_of_ephemeral_models_is_made_of_what_they_are_made_of(tmp_path: Path) -> None:
    nodes = [
        model("stage", f"source.{PROJECT}.raw.orders", config={"materialized": "ephemeral"}),
        model("cleaned", "stage", "cleaned", config={"materialized": "ephemeral"}),
        model("totals", "cleaned", "customers"), model("customers"),
    ]  # fmt: skip
    found, _, _ = read(written(tmp_path, manifest(nodes, [source("orders")])))
    assert found.keys() == {"totals", "customers", "orders"}
    assert found["totals"].upstreams == tuple(sorted([of("customers"), of("orders", "raw")]))
    assert found["orders"].upstreams is None


def test_tests_are_verdicts_on_what_they_test(tmp_path: Path) -> None:
    tests = [generic_test("orders", "id"), generic_test("orders", "amount"), generic_test("orders", "day")]
    statuses = {tests[0]["unique_id"]: "pass", tests[1]["unique_id"]: "fail", f"model.{PROJECT}.orders": "success"}
    said = results(statuses, messages={tests[1]["unique_id"]: "Got 3 results,\n configured to fail if != 0"})
    found, _, _ = read(written(tmp_path, manifest([model("orders"), *tests]), results=said))
    verdicts = {key: value for key, value in found["orders"].properties.items() if key.startswith("test.")}
    failed = "fail: Got 3 results, configured to fail if != 0"
    assert verdicts == {"test.not_null_orders_id": "pass", "test.not_null_orders_amount": failed}
    assert found["orders"].properties["status"] == "success"
    assert "test.not_null_orders_day" in found["orders"].keeps


@pytest.mark.parametrize("version", [7, 9])
def test_older_manifests_say_in_other_words_what_a_test_is_about(tmp_path: Path, version: int) -> None:
    between = generic_test("orders", "customer")
    between["depends_on"]["nodes"].append(f"model.{PROJECT}.customers")
    del between["attached_node"]
    said = results({between["unique_id"]: "warn"}, command="test", version=4)
    folder = written(tmp_path, manifest([model("orders"), model("customers"), between], version=version), results=said)
    found, _, _ = read(folder)
    assert found["orders"].properties["test.not_null_orders_customer"] == "warn"
    assert not any(key.startswith("test.") for key in found["customers"].properties)


def test_a_run_is_lineage_with_its_times(tmp_path: Path) -> None:
    nodes = [model("orders", f"source.{PROJECT}.raw.orders"), model("totals", "orders"), model("late", "totals")]
    statuses = {nodes[0]["unique_id"]: "success", nodes[1]["unique_id"]: "error", nodes[2]["unique_id"]: "skipped"}
    folder = written(tmp_path, manifest(nodes, [source("orders")]), results=results(statuses))
    _, (past,), _ = read(folder)
    runs = [run(urn.parts[0], urn.name, "workflow", "model", INVOCATION) for urn in (of("orders"), of("totals"))]
    assert [fact.run for fact in past.facts if isinstance(fact, RunStarted)] == runs
    assert [(fact.at, fact.status) for fact in past.facts if isinstance(fact, RunStopped)] == [
        (BUILT_MS + 1000, "COMPLETED"), (BUILT_MS + 2000, "FAILED")
    ]  # fmt: skip
    touched = [(touch.data, touch.access) for fact in past.facts if isinstance(fact, AccessesRecorded)
               for touch in fact.accesses]  # fmt: skip
    assert touched == [
        (of("orders", "raw"), "read"), (of("orders"), "write"), (of("orders"), "read"), (of("totals"), "write")
    ]  # fmt: skip
    assert past.id == INVOCATION


@pytest.mark.parametrize("command", ["test", "compile", "generate"])
def test_a_command_that_makes_nothing_is_no_run(tmp_path: Path, command: str) -> None:
    said = results({f"model.{PROJECT}.orders": "success"}, command=command)
    found, pasts, _ = read(written(tmp_path, manifest([model("orders")]), results=said))
    assert (pasts, "status" in found["orders"].properties) == ([], False)


def test_a_command_about_other_nodes_leaves_verdicts_and_columns_as_they_were(tmp_path: Path) -> None:
    ledger, tested = Catalog(), generic_test("orders", "id")
    whole = manifest([model("orders"), tested])
    types = catalog({f"model.{PROJECT}.orders": {"id": "bigint"}})
    folder = written(tmp_path, whole, types, results({tested["unique_id"]: "fail"}))
    assert brought(ledger, DBT, [*read(folder)[0].values()])
    written(tmp_path, whole, None, results({f"model.{PROJECT}.other": "success"}, command="run"))
    assert brought(ledger, DBT, [*read(folder)[0].values()]) == []
    properties = ledger.newest["default", of("orders")].system_properties
    assert (properties["dbt.test.not_null_orders_id"], properties["schema"]) == ("fail", '[["id","bigint"]]')
    written(tmp_path, manifest([model("orders")]))
    brought(ledger, DBT, [*read(folder)[0].values()])
    assert "dbt.test.not_null_orders_id" not in ledger.newest["default", of("orders")].system_properties


def test_an_exposure_is_made_of_what_it_shows(tmp_path: Path) -> None:
    exposure = {
        "unique_id": f"exposure.{PROJECT}.weekly", "name": "weekly", "type": "dashboard", "package_name": PROJECT,
        "owner": {"name": "Carol", "email": "carol@acme.org"}, "description": "Sales by week", "tags": ["board"],
        "url": "https://bi.acme.org/weekly", "depends_on": {"nodes": [f"model.{PROJECT}.orders"]},
    }  # fmt: skip
    found, _, _ = read(written(tmp_path, manifest([model("orders")], exposures=[exposure])))
    weekly = found["weekly"]
    assert weekly.entity == data("dbt://jaffle", "exposure.weekly")
    assert (weekly.upstreams, weekly.tags) == ((of("orders"),), ("board",))
    assert weekly.properties["owner"] == "Carol, carol@acme.org"


def test_the_owner_of_a_group_owns_its_models(tmp_path: Path) -> None:
    group = {"unique_id": f"group.{PROJECT}.sales", "name": "sales", "owner": {"email": "sales@acme.org"}}
    found, _, _ = read(written(tmp_path, manifest([model("orders", group="sales")], groups=[group])))
    assert found["orders"].properties["owner"] == "sales@acme.org"


@pytest.mark.parametrize(
    ("profile", "namespace"),
    [
        ("{type: postgres, host: DB.acme, user: u, password: geheim}", "postgres://db.acme:5432"),
        ("{type: postgres, host: \"{{ env_var('HOST') }}\", port: \"{{ env_var('PORT', '6543') | int }}\"}",
         "postgres://db2:6543"),
        ("{type: snowflake, account: org-acme}", "snowflake://org-acme"),
        ("{type: mysql, server: db.acme, port: 3307}", "mysql://db.acme:3307"),
    ],
)  # fmt: skip
def test_the_profile_says_which_database_it_is(tmp_path: Path, profile: str, namespace: str) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: jaffle\nprofile: acme\n")
    (tmp_path / "profiles.yml").write_text(f"acme:\n  target: dev\n  outputs:\n    dev: {profile}\nother: {{}}\n")
    folder = written(tmp_path / "target", manifest([model("orders")]))
    found, _, _ = read(folder, namespace=None, environ={"HOST": "db2"})
    assert found["orders"].entity.parts[0] == namespace


@pytest.mark.parametrize(
    "profile",
    ["{type: postgres, host: \"{{ env_var('NOT_SET') }}\", pass: geheim}", "{type: postgres, host: \"{{ mine() }}\"}",
     "{type: duckdb, path: ':memory:'}", "{type: postgres, host: h, port: \"{{ x }}\"}", "{type: postgres}", "[geheim"],
)  # fmt: skip
def test_a_database_that_is_not_known_is_asked_for(tmp_path: Path, profile: str) -> None:
    (tmp_path / "profiles.yml").write_text(f"acme:\n  outputs:\n    default: {profile}\n")
    folder = written(tmp_path / "target", manifest([model("orders")]))
    with pytest.raises(SourceError) as unknown:
        read(folder, namespace=None, environ={})
    assert "geheim" not in f"{unknown.value}{unknown.value.__dict__}"
    assert unknown.value.code in ("unknown-namespace", "source-unreadable")
    (tmp_path / "profiles.yml").unlink()
    with pytest.raises(SourceError, match=r"no profiles\.yml") as missing:
        read(folder, namespace=None, environ={"HOME": str(tmp_path)})
    assert "--namespace postgres://" in missing.value.hint


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("manifest.json", None, "source-not-found"),
        ("manifest.json", "{", "source-unreadable"),
        ("manifest.json", "[]", "source-unreadable"),
        ("manifest.json", "{}", "source-unreadable"),
        ("manifest.json", json.dumps(manifest(version=6)), "unsupported-version"),
        ("manifest.json", json.dumps(manifest(version=13)), "unsupported-version"),
        ("catalog.json", '{"nodes": {', "source-unreadable"),
        ("run_results.json", json.dumps(manifest()), "source-unreadable"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_and_not_an_empty_project(
    tmp_path: Path, name: str, text: str | None, code: str
) -> None:
    folder = written(tmp_path, manifest([model("orders")]))
    (folder / name).unlink(missing_ok=True)
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(SourceError) as failed:
        read(folder)
    assert failed.value.code == code


def test_a_manifest_of_nothing_is_an_error_and_not_a_project_whose_models_are_gone(tmp_path: Path) -> None:
    ephemeral = model("stage", config={"materialized": "ephemeral"})
    for nodes in ([], [ephemeral], [generic_test("orders", "id")]):
        with pytest.raises(SourceError, match="contains no model") as refused:
            read(written(tmp_path, manifest(nodes)))
        assert refused.value.code == "source-unreadable"
    assert read(written(tmp_path, manifest([], [source("orders")])))[0].keys() == {"orders"}


def test_what_is_in_a_schema_of_another_target_or_of_another_project_is_not_gone(tmp_path: Path) -> None:
    ledger = Catalog()

    def run(*nodes: dict[str, Any], project: str = PROJECT) -> Plan:
        exposure = {
            "unique_id": f"exposure.{project}.weekly", "name": "weekly", "type": "dashboard", "package_name": project,
            "depends_on": {"nodes": []},
        }  # fmt: skip
        whole = manifest(
            [{**node, "package_name": project} for node in nodes],
            [{**source("raw"), "package_name": project}],
            exposures=[exposure],
        )
        whole["metadata"]["project_name"] = project
        dbt = Dbt(str(written(tmp_path, whole)), namespace=NAMESPACE, id="shop")
        found = [one for one in dbt.read(lambda _: None) if isinstance(one, Found)]
        made = plan(dbt.identity, found, held_of(ledger), whole=True, at_ms=NOON, selects=dbt.selects)
        killed = {
            urn: row._replace(properties={"created_by": dbt.identity.actor}) for urn, row in held_of(ledger).items()
        }
        again = plan(dbt.identity, found, killed, whole=True, at_ms=NOON, selects=dbt.selects)
        assert (again.of(Change.DELETE), again.unselected) == (made.of(Change.DELETE), made.unselected)
        for step in made.steps:
            for event in (*step.notes, *step.facts, *step.events):
                judged(ledger, event, dbt.identity.actor)
        return made

    run(model("orders"), model("totals"))
    for nodes in ([model("orders", schema="dbt_alice")], [model("orders", database="dev")]):
        made = run(*nodes)
        assert (made.of(Change.DELETE), made.of(Change.REGISTER)) == ([], [data(NAMESPACE, _name(nodes[0]))])
    assert made.unselected == 3
    other = run(model("orders", schema="other"), project="other")
    assert (other.of(Change.DELETE), other.unselected) == ([], 5)
    assert run(model("orders")).of(Change.DELETE) == [of("totals")]


def _name(node: dict[str, Any]) -> str:
    return f"{node['database']}.{node['schema']}.{node['name']}"


def test_a_model_that_no_urn_can_name_is_a_problem_and_the_others_are_read(tmp_path: Path) -> None:
    found, _, (problem,) = read(written(tmp_path, manifest([model("x" * 2_000), model("orders")])))
    assert ({*found}, problem.what[:13]) == ({"orders"}, "model.jaffle.")


def test_options_of_a_recipe_are_those_of_the_command() -> None:
    made = source_of("dbt", {"target_dir": "/work/jaffle/target", "namespace": NAMESPACE}, {})
    assert made.identity.id == "dbt-jaffle"
    with pytest.raises(InputError, match="no option 'name_space'"):
        source_of("dbt", {"target_dir": "t", "name_space": "x"}, {})
    with pytest.raises(InputError, match="namespace is empty"):
        source_of("dbt", {"target_dir": "t", "namespace": " "}, {})


names = st.sampled_from(["orders", "customers", "totals", "größe"])
texts = st.sampled_from(["", "a", "b"])


@st.composite
def projects(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Models by name, each reading models that come before it."""
    nodes: dict[str, dict[str, Any]] = {}
    for name in draw(st.lists(names, unique=True, min_size=1, max_size=4)):  # of none, a manifest is an error
        reads = draw(st.sets(st.sampled_from(sorted(nodes)), max_size=2)) if nodes else set()
        nodes[name] = model(
            name, *sorted(reads), description=draw(texts), tags=sorted(draw(st.sets(texts.filter(bool)))),
            meta={"owner": owner} if (owner := draw(texts)) else {},
        )  # fmt: skip
    return nodes


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(projects(), st.none() | st.integers(0, 12)), min_size=1, max_size=4))
def test_whatever_changes_between_runs_the_catalog_ends_at_what_the_project_says(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[dict[str, dict[str, Any]], int | None]]
) -> None:
    """Models added, changed and dropped, runs killed anywhere: what is there equals the project, told twice or once."""
    ledger, folder = Catalog(), tmp_path_factory.mktemp("target")
    for nodes, most in [*runs, (runs[-1][0], None)]:
        found = [*read(written(folder, manifest(nodes.values())))[0].values()]
        brought(ledger, DBT, found, most=most)
    live = {urn: row for (_, urn), row in ledger.newest.items() if row.kind == "dataset" and not row.deleted}
    assert live.keys() == {str(of(name)) for name in nodes}
    for name, node in nodes.items():
        row = live[of(name)]
        properties = row.system_properties
        assert properties.get("description", "") == node["description"]
        assert properties.get("dbt.owner", "") == node["meta"].get("owner", "")
        assert row.system_tags == tuple(node["tags"])
        reads = {read.rpartition(".")[2] for read in node["depends_on"]["nodes"]}
        touched = {
            touch.data for key, touch in ledger.facts.items()
            if key[0] == "accesses" and touch.run == properties.get("dbt.run") and touch.access == "read"
        }  # fmt: skip
        assert touched == {of(read) for read in reads}
    again = plan(DBT, found, held_of(ledger), whole=True, at_ms=NOON)
    assert again.steps == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_real_versions_of_dbt_write_is_read(tmp_path: Path, version: str) -> None:
    """Models, sources, exposures, owners, columns, tests and runs are the same from each."""
    found, (past,), problems = read(target(tmp_path, version))
    assert ({*found}, problems) == ({"countries", "orders", "totals", "weekly"}, [])
    orders, raw = of("orders"), of("orders", "raw")
    every = {one.entity: one for one in Dbt(str(tmp_path / "target"), namespace=NAMESPACE).read(lambda _: None)
             if isinstance(one, Found)}  # fmt: skip
    assert every.keys() == {orders, raw, of("totals"), of("countries"), data("dbt://shop", "exposure.weekly")}
    assert every[orders].schema == (("id", "integer"), ("customer", "integer"), ("amount", "decimal(10,2)"))
    assert (every[orders].upstreams, every[orders].tags) == ((raw,), ("nightly",))
    verdicts = {key: value for key, value in every[orders].properties.items() if key.startswith("test.")}
    assert verdicts == {"test.not_null_orders_id": "pass", "test.unique_orders_id": "pass"}
    totals = every[of("totals")].properties
    owner = None if version == "1_4" else "Sales, sales@acme.org"  # groups came with 1.5
    assert (totals.get("owner"), totals["status"]) == (owner, "success")
    assert totals["test.not_null_totals_total"].startswith("fail: Got 1 result")
    assert len([fact for fact in past.facts if isinstance(fact, RunStopped) and fact.status == "COMPLETED"]) == 3
    without_totals(tmp_path / "target")
    assert {*read(tmp_path / "target")[0]} == {"countries", "orders"}


def test_a_duckdb_file_has_the_names_that_its_scan_has(tmp_path: Path) -> None:
    from metajournal.sources.databases.source import Databases

    database = in_duckdb(tmp_path / "shop.duckdb")
    database.execute(["create table orders(id integer)"])
    (tmp_path / "profiles.yml").write_text("a:\n  outputs:\n    default: {type: duckdb, path: shop.duckdb}\n")
    node = model("orders", database="shop", schema="main")
    found, _, _ = read(written(tmp_path / "target", manifest([node], adapter="duckdb")), namespace=None, environ={})
    scanned = {one.entity for one in Databases(database.url).read(lambda _: None) if isinstance(one, Found)}
    assert found["orders"].entity in scanned
