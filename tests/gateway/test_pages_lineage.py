"""Pages of lineage over a real server: tables of data, runs and accesses, and nothing that may not be seen."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from metajournal import AccessesRecorded, EntityRegistered, RunStarted, dataset, run
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, logged_in, member
from tests.gateway.serving import Served, served
from tests.gateway.test_pages_hostile import HOSTILE, harmless
from tests.wait import eventually

pytestmark = pytest.mark.services
NIGHTLY = run("flows", "shop", "workflow", "sum", "r1")


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        for name in ("orders", "totals"):
            running.journal.emit(EntityRegistered(dataset("flows", name)))
        running.journal.emit(EntityRegistered(dataset("hidden", "salaries")))
        recorded = {"user": {"properties": {"rows": "7"}}}
        accesses = [
            (dataset("flows", "orders"), "read", 1_700_000_000_000, None, recorded),
            (dataset("flows", "totals"), "write", 1_700_000_001_000, None, None),
            (dataset("hidden", "salaries"), "read", 1_700_000_001_000, None, None),
        ]
        running.journal.emit(RunStarted(NIGHTLY, 1_700_000_000_000))
        running.journal.emit(AccessesRecorded(NIGHTLY, accesses))
        for number, text in enumerate(HOSTILE):
            told = {"user": {"properties": {text: text}}}
            accessed = [(dataset("flows", text), "read", 1_700_000_000_000, text, told)]
            running.journal.emit(AccessesRecorded(run("flows", "odd", "spark", f"p{number}", text), accessed))
        running.journal.flush()
        running.fold()
        yield running


@pytest.fixture(scope="module")
def root(server: Served) -> Browser:
    browser = logged_in(server, member(server.journal, "root", ("admin", "*")))
    eventually(lambda: "program:flows/shop" in browser.page("/lineage/dataset:flows/orders").text)
    return browser


def test_the_lineage_of_data_is_a_table_of_links(root: Browser) -> None:
    page = root.page("/lineage/dataset:flows/orders")
    lines = [[cell.all("a")[0].text if cell.all("a") else cell.text for cell in row.all("td")[:3]]
             for row in page.all("tbody")[0].all("tr")]  # fmt: skip
    program = "program:flows/shop/workflow/sum"
    assert lines == [
        ["dataset:flows/orders", "read", program], ["dataset:flows/totals", "write", program],
        ["dataset:hidden/salaries", "read", program],
    ]  # fmt: skip
    assert page.all("figure")[0].attributes["data-nodes"] == "4"
    sections = root.page("/entity/dataset:flows/orders").all("section")
    near = next(one for one in sections if one.all("h2")[0].text == "Lineage")
    assert program in near.text
    asked = "/lineage?urn=dataset:flows/totals&levels=1&start=&as_at=&direction="
    assert len(root.page(f"{asked}upstream").all("tbody")[0].all("tr")) == 3
    assert "No program is known" in root.page(f"{asked}downstream").text
    assert "No program is known" in root.page("/lineage/dataset:flows/orders?end=2001-01-01").text
    assert root.get("/lineage/dataset:flows/orders?levels=many").status == 400


def test_a_programs_runs_and_what_a_run_accessed_are_shown(root: Browser) -> None:
    runs = root.page("/lineage/program:flows/shop/workflow/sum")
    link = runs.all("tbody")[0].all("a")[0]
    assert link.text == "r1"
    page = root.page(str(link.attributes["href"]))
    assert [row.all("td")[0].text for row in page.all("tbody")[0].all("tr")] == [
        "dataset:flows/orders", "dataset:flows/totals", "dataset:hidden/salaries",
    ]  # fmt: skip
    assert page.all("section")[1].all("td")[0].text == "7"


def test_a_program_of_the_drawing_leads_where_the_tables_does(root: Browser) -> None:
    program, interval = "program:flows/shop/workflow/sum", "start=2023-11-14&end=2023-11-15"
    for asked, to in ((interval, f"/lineage/{program}?{interval}"), ("levels=2", f"/lineage/{program}")):
        table = root.page(f"/lineage/dataset:flows/orders?{asked}")
        assert {link.attributes["href"] for link in table.all("a") if link.text == "runs"} == {to}
        nodes = {node["urn"]: node["to"] for node in root.get(f"/graph/dataset:flows/orders?{asked}").json["nodes"]}
        assert nodes == {program: to, **{urn: f"/entity/{urn}" for urn in (
            "dataset:flows/orders", "dataset:flows/totals", "dataset:hidden/salaries",
        )}}  # fmt: skip
        assert [link.text for link in root.page(to).all("tbody")[0].all("a")] == ["r1"]


@pytest.mark.parametrize(
    ("urn", "text"),
    [("program:flows/shop/workflow/sum", "its runs"), (str(dataset("flows", HOSTILE[0])), "its lineage")],
)
def test_what_was_never_registered_leads_to_what_lineage_knows_of_it(root: Browser, urn: str, text: str) -> None:
    for query in ({}, {"as_of": "2023-11-15T00:00:00Z"}):
        page = root.page(f"/entity?{urlencode({'urn': urn, **query})}", 404)
        harmless(page)
        assert "What OpenLineage names without describing it by a facet is known so." in page.text
        link = next(link for link in page.all("main")[0].all("a") if link.text == text)
        assert str(link.attributes["href"]).startswith("/lineage")
        assert root.page(str(link.attributes["href"])).all("tbody")[0].all("tr")


def test_what_lineage_cannot_know_leads_to_none(root: Browser) -> None:
    """A run of which it knows is an entity."""
    app = "/entity/app:flows/nobody"
    for path in (app, f"{app}?as_of=2023-11-15T00:00:00Z", "/entity/run:flows/shop/workflow/sum/nobody",
                 "/access/principals/nobody", "/repositories/nobody"):  # fmt: skip
        assert "/lineage" not in {str(link.attributes["href"])[:8] for link in root.page(path, 404).all("a")}, path


def test_what_may_not_be_seen_is_withheld(server: Served, root: Browser) -> None:
    reader = logged_in(server, member(server.journal, "reader", ("analyst", "*:flows/*")))
    for path in ("/lineage/dataset:flows/orders", "/entity/dataset:flows/orders", f"/lineage/{NIGHTLY}"):
        page = reader.page(path)
        assert "salaries" not in page.text, path
        assert "is left out" in page.text, path
    assert reader.get("/lineage/dataset:hidden/salaries").status == 403


def test_hostile_texts_of_lineage_make_no_element(root: Browser) -> None:
    for number, text in enumerate(HOSTILE):
        program = f"program:flows/odd/spark/p{number}"
        page = root.page(f"/lineage/{program}")
        harmless(page)
        harmless(root.page(str(page.all("tbody")[0].all("a")[0].attributes["href"])))
        urn = str(dataset("flows", text)).replace("%", "%25")
        harmless(root.page(f"/lineage?urn={urn}"))
