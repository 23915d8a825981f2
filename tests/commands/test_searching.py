"""`search` and `suggest` on a real Elasticsearch, which is all they need."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from metajournal.cli import main
from metajournal.commands import searching
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from tests.indexer.corpus import CORPUS, FINDABLE
from tests.indexer.loading import load

pytestmark = pytest.mark.services
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def run(elasticsearch: str) -> Run:
    """The command line on an index with the corpus; its exit code is checked."""
    wanted = ElasticsearchSettings(url=elasticsearch, index=f"typed{uuid.uuid4().hex[:8]}")
    load(replace(Settings(), elasticsearch=wanted), CORPUS.values())
    environment = {"METAJOURNAL__ELASTICSEARCH__URL": elasticsearch, "METAJOURNAL__ELASTICSEARCH__INDEX": wanted.index}

    def typed(*words: str, code: int = 0) -> Result:
        done = CliRunner().invoke(main, words, env=environment)
        assert done.exit_code == code, done.output
        return done

    return typed


def _urns(run: Run, *words: str) -> list[str]:
    return [hit["urn"] for hit in json.loads(run("search", *words, "--json").stdout)["hits"]]


def test_orders_filters_and_limits_are_those_of_the_search(run: Run) -> None:
    sales = [str(one["urn"]) for one in FINDABLE.values() if one["namespace"] == "sales"]
    assert _urns(run, "*", "--namespace", "sales") == sorted(sales)
    assert _urns(run, "*", "--namespace", "sales", "--sort", "name:desc")[0] == "dataset:sales/pairs"
    assert _urns(run, "*", "--namespace", "sales", "--sort", "creation_time:asc")[0] == "dataset:sales/customerOrders"
    assert _urns(run, "orders", "--kind", "program") == ["program:default/ingest/spark/orders_loader"]
    assert _urns(run, "tags:pii", "--scope", "system") == ["dataset:misc/quirks"]


def test_the_cursor_that_is_printed_goes_on_where_the_page_ended(run: Run) -> None:
    first = json.loads(run("search", "*", "--limit", "5", "--json").stdout)
    rest = _urns(run, "*", "--cursor", first["cursor"])
    assert [hit["urn"] for hit in first["hits"]] + rest == sorted(str(one["urn"]) for one in FINDABLE.values())
    printed = re.search(r"--cursor (\S{20})$", run("search", "*", "--limit", "5").stdout, re.MULTILINE)
    assert printed is not None
    assert _urns(run, "*", "--cursor", printed[1]) == rest


def test_urns_alone_are_printed_of_as_many_pages_as_needed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MAX_LIMIT", 2)
    every = sorted(str(one["urn"]) for one in FINDABLE.values())
    printed = run("search", "*", "--urns", "--limit", str(len(every)))
    assert (printed.stdout, printed.stderr) == ("".join(f"{urn}\n" for urn in every), "")
    some = run("search", "*", "--urns", "--limit", "5")
    assert some.stdout.splitlines() == every[:5]
    assert f"note: {len(every)} found; there are more than the 5 printed." in some.stderr
    assert run("search", "nobodyhasthis", "--urns").stdout == ""


@pytest.mark.parametrize("option", ["--json", "--why", "--facets", "--as-at=2026-01-01"])
def test_urns_alone_have_nothing_beside_them(run: Run, option: str) -> None:
    assert "--urns prints URNs alone" in run("search", "*", "--urns", option, code=2).output


def test_facets_are_counts_over_all_hits(run: Run) -> None:
    said: dict[str, Any] = json.loads(run("search", "*", "--limit", "1", "--facets", "--json").stdout)
    assert {"value": "sales", "hits": 3} in said["facets"]["namespace"]
    shown = run("search", "*", "--limit", "1", "--facets").stdout
    assert "facet" in shown
    assert "sales" in shown
    assert json.loads(run("search", "*", "--json").stdout)["facets"] == {}


def test_filters_that_leave_nothing_are_told_with_what_they_left_out(run: Run) -> None:
    sales = run("search", "*", "--kind", "datset", "--namespace", "sales")
    assert "0 found" in sales.stdout
    every = len(FINDABLE)
    assert f"Without --kind and --namespace {every} would be found" in sales.stderr
    assert "sales (3)" in sales.stderr
    assert "Without --scope 2 would be found." in run("search", "tags:weather", "--scope", "system").stderr
    assert run("search", "nobodyhasthis", "--kind", "dataset").stderr == ""
    assert run("search", "*", "--kind", "datset", "--json").stderr == ""


def test_why_shows_each_reason_and_the_reason_for_the_place(run: Run) -> None:
    shown = run("search", "orders pii", "--why").stdout
    assert "dataset:default/orders  (exact name)" in shown
    assert "name: [orders]" in shown
    assert "tag (USER): [pii]" in shown
    assert run("search", "orders pii", "--explain").stdout == shown


def test_a_hits_row_shows_a_piece_of_its_description_once(run: Run) -> None:
    by_name, by_description = run("search", "customerOrders").stdout, run("search", "ordered").stdout
    assert "Customers and what they ordered" in " ".join(by_name.split())
    assert by_description.count("Customers and what they") == 1  # it is the reason
    long = " ".join(run("search", "archive").stdout.split())
    assert "The archive of everything." in long
    assert "needle" not in long


def test_names_and_keys_are_completed(run: Run) -> None:
    assert json.loads(run("suggest", "ORD", "--json").stdout) == [
        {"text": "orders", "entities": 1},
        {"text": "orders_loader", "entities": 1},
    ]
    keys = json.loads(run("suggest", "--keys", "own", "--json").stdout)
    assert [one["text"] for one in keys] == ["owner", "ownerMail"]
    assert len(_urns(run, f"properties:{keys[0]['text']}")) == keys[0]["entities"]
    assert json.loads(run("suggest", "--keys", "own", "--scope", "SYSTEM", "--json").stdout)[0]["entities"] == 1
    assert "ownerMail" in run("suggest", "--keys", "own").stdout
    assert "no name has this prefix" in run("suggest", "zzz").stdout


def test_what_cannot_be_asked_is_usage(run: Run) -> None:
    assert "error[invalid-cursor]" in run("search", "x", "--cursor", "nonsense", code=2).stderr
    assert "error[invalid-query]" in run("search", "x" * 9000, code=2).stderr
    run("search", "x", "--sort", "size", code=2)
    assert "at most 1,000 without --urns" in run("search", "x", "--limit", "1001", code=2).stderr
    run("suggest", "x", "--scope", "USER", code=2)
