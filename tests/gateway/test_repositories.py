"""Repositories over a real server: the client's questions, each as all that is acknowledged makes it, and rights."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from metajournal.domains.repositories.client import Repository
from metajournal.domains.repositories.transactions import throw_away_name
from metajournal.domains.repositories.values import branch_json, diff_json, list_json, log_json, repository_json
from tests.gateway.reading import key_of, pages, refused
from tests.gateway.serving import OTHER, READER, TEAM_A, Served
from tests.repositories.staying import committed, created, entry

AT = "/api/v1/repositories"


@pytest.fixture(scope="module")
def sales(server: Served) -> Repository:
    """A repository with three commits on main, a branch of its own for prices, and something staged."""
    for name in ("sales", "sales-eu", "hidden"):
        created(server.journal, name)
    repo = server.journal.repositories["sales"]
    main, prices = repo.branch("main"), repo.branch("feature/prices")
    for number in range(3):
        head = committed(main, f"raw/{number}.csv", f"raw/deep/{number}.csv", f"out/{number}.csv")
    prices.create(head).position  # noqa: B018  (waits)
    committed(prices, "raw/price.csv")
    server.fold()
    main.write([entry("raw/staged.csv")])[-1].position  # noqa: B018  (waits)
    return repo


def listed(answer: Any) -> list[str]:
    return [one["path"] for one in answer["items"]]


def limited(server: Served) -> str:
    """The key of somebody who may read sales, but of its branches main alone."""
    return key_of(server, "of-main", ("analyst", "repo:sales"), ("analyst", "branch:sales/main"))


def test_repositories_that_may_be_read_come_in_pages_by_name(server: Served, sales: Repository) -> None:
    server.fold()
    found = [one for page in pages(server, f"{AT}?limit=1") for one in page]
    assert found == [repository_json(one) for one in server.journal.repositories.list()]
    assert [one["name"] for one in found] == ["hidden", "sales", "sales-eu"]
    assert [(one["name"], one["members"]) for one in server.get(AT, key=limited(server)).json] == [("sales", None)]
    some = key_of(server, "two", ("analyst", "repo:sales"), ("analyst", "repo:sales-eu"))
    assert [len(page) for page in pages(server, f"{AT}?limit=1", key=some)] == [1, 1]
    assert server.get(AT, key=TEAM_A).json == []
    assert server.get(AT, key=OTHER).json == []
    assert refused(server, AT, key_of(server, "nothing")) == (403, "forbidden")


def test_a_repository_is_shown(server: Served, sales: Repository) -> None:
    assert server.get(f"{AT}/sales").json == repository_json(sales.info())
    assert server.get(f"{AT}/sales?urn=repo:sales").json["name"] == "sales"
    assert server.get(f"{AT}/any?urn=repo:sales").status == 400
    assert server.get(f"{AT}/sales", key=limited(server)).json == {**repository_json(sales.info()), "members": None}
    blind = key_of(server, "no-branch", ("analyst", "repo:sales"))
    assert server.get(f"{AT}/sales", key=blind).json["default_branch"] is None
    assert [one["default_branch"] for one in server.get(AT, key=blind).json] == [None]
    for name in ("hidden", "nobody"):
        assert refused(server, f"{AT}/{name}", limited(server)) == (403, "forbidden")
    assert refused(server, f"{AT}/nobody", READER) == (404, "unknown-entity")
    assert refused(server, f"{AT}/Not%20a%20name", READER) == (400, "bad-name")
    assert server.get(f"{AT}/sales?urn=dataset:team-a/x", key=TEAM_A).status == 400
    assert refused(server, f"{AT}/sales", OTHER) == (404, "unknown-entity")


def test_branches_that_may_be_read_come_in_pages(server: Served, sales: Repository) -> None:
    found = [one for page in pages(server, f"{AT}/sales/branches?limit=1") for one in page]
    assert found == [branch_json(one) for one in sales.branches()]
    assert [(one["name"], one["dirty"]) for one in found] == [("feature/prices", False), ("main", True)]
    assert [one["name"] for one in server.get(f"{AT}/sales/branches", key=limited(server)).json] == ["main"]
    assert refused(server, f"{AT}/hidden/branches", limited(server)) == (403, "forbidden")


def test_branches_of_transactions_are_shown_where_they_are_asked_for(server: Served, sales: Repository) -> None:
    own = sales.branch(throw_away_name())
    own.create(sales.commit("main").id).position  # noqa: B018  (waits)
    shown = [one["name"] for one in server.get(f"{AT}/sales/branches?transactions=true").json]
    assert shown == [own.name, "feature/prices", "main"]
    assert [one["name"] for one in server.get(f"{AT}/sales/branches").json] == shown[1:]
    own.drop().position  # noqa: B018  (waits)


def test_the_log_of_a_ref_comes_in_pages(server: Served, sales: Repository) -> None:
    found = [one for page in pages(server, f"{AT}/sales/log?ref=main&limit=2") for one in page["commits"]]
    assert found == log_json(sales.log("main"))["commits"]
    assert len(found) == 3
    ref = quote("feature/prices~1", safe="")
    assert server.get(f"{AT}/sales/log?ref={ref}").json == log_json(sales.log("main"))
    assert server.get(f"{AT}/sales/log?ref={found[1]['id'][:12]}").json["commits"] == found[1:]
    assert refused(server, f"{AT}/sales/log", READER) == (400, "bad-ref")
    assert refused(server, f"{AT}/sales/log?ref=nobody", READER) == (404, "unknown-entity")


def test_a_ref_needs_the_right_to_its_branch_or_commit(server: Served, sales: Repository) -> None:
    key, commit = limited(server), sales.commit("main").id
    for path in ("log?ref=", "objects?ref=", "diff?left=main&right="):
        assert server.get(f"{AT}/sales/{path}main", key=key).status == 200
        assert server.get(f"{AT}/sales/{path}main~1", key=key).status == 200
        for ref in ("feature%2Fprices", "feature%2Fprices~1", "feature%2Fprices@", "nobody", commit, commit[:8]):
            assert refused(server, f"{AT}/sales/{path}{ref}", key) == (403, "forbidden"), ref
    assert refused(server, f"{AT}/sales/diff?left=feature%2Fprices&right=main", key) == (403, "forbidden")
    without = key_of(server, "branch-alone", ("analyst", "branch:sales/main"))
    assert refused(server, f"{AT}/sales/log?ref=main", without) == (403, "forbidden")
    both = [("analyst", pattern) for pattern in ("repo:sales", "branch:sales/*", f"commit:sales/{commit}")]
    assert server.get(f"{AT}/sales/log?ref={commit}", key=key_of(server, "commit", *both)).status == 200


def test_a_log_does_not_name_branches_that_may_not_be_read(server: Served, sales: Repository) -> None:
    key = key_of(server, "of-prices", ("analyst", "repo:sales"), ("analyst", "branch:sales/feature%2Fprices"))
    commits = server.get(f"{AT}/sales/log?ref=feature%2Fprices", key=key).json["commits"]
    assert [one["branch"] for one in commits] == ["feature/prices", None, None, None]


def test_objects_of_a_ref_come_in_pages(server: Served, sales: Repository) -> None:
    found = [one for page in pages(server, f"{AT}/sales/objects?ref=main&limit=4") for one in page["items"]]
    assert found == list_json(sales.list("main"))["items"]
    assert len(found) == 10
    below = server.get(f"{AT}/sales/objects?ref=main@&prefix=raw/&delimiter=/").json
    assert below == list_json(sales.list("main@", prefix="raw/", delimiter="/"))
    assert listed(below) == ["raw/0.csv", "raw/1.csv", "raw/2.csv", "raw/deep/"]


def test_the_difference_of_two_refs_comes_in_pages(server: Served, sales: Repository) -> None:
    at = f"{AT}/sales/diff?left=main~1&right=main"
    found = [one for page in pages(server, f"{at}&limit=1") for one in page["items"]]
    assert found == diff_json(sales.diff("main~1", "main"))["items"]
    assert [one["path"] for one in found] == ["out/2.csv", "raw/2.csv", "raw/deep/2.csv", "raw/staged.csv"]
    assert listed(server.get(f"{at}&prefix=raw/deep").json) == ["raw/deep/2.csv"]


def test_what_was_acknowledged_is_seen_before_the_lake_has_it_and_not_as_at_a_point_before(server: Served) -> None:
    repo = created(server.journal, "fresh")
    server.fold()
    younger = created(server.journal, "younger")
    assert server.get(f"{AT}/younger").json == repository_json(younger.info())
    receipt = repo.branch("main").write([entry("new.csv")])[-1]
    at = f"{AT}/fresh/objects?ref=main"
    assert listed(server.get(at, Metajournal_At_Least=str(receipt.position)).json) == ["new.csv"]
    point = receipt.position
    before = f"{point.topic}/{point.partition}/{point.value - 1}"
    assert listed(server.get(f"{at}&as_at={before}").json) == []
    assert refused(server, f"{at}&as_at={point}", READER) == (409, "not-final")
    server.fold()
    assert listed(server.get(f"{at}&as_at={point}").json) == ["new.csv"]
    assert refused(server, f"{at}&as_of=1", READER) == (400, "unknown-parameter")


def test_a_new_repository_is_listed_once_its_event_must_be_included(server: Served) -> None:
    repo = created(server.journal, "newest")
    with server.journal.follow(repo.urn) as follow:
        end = follow.facts_and_end(timeout_s=60).end
    server.fold()
    last = f"{end.topic}/{end.partition}/{end.value - 1}"
    assert "newest" in [one["name"] for one in server.get(AT, Metajournal_At_Least=last).json]


def test_events_of_repositories_are_sent_by_who_may_on_all_that_they_name(server: Served) -> None:
    create = {"type": "RepositoryCreated", "repository": "repo:own", "default_branch": "main",
              "storage_namespace": "s3://own"}  # fmt: skip
    write = {"type": "ObjectsWritten", "branch": "branch:own/main", "entries": [entry("a.csv")]}
    commit = {"type": "Committed", "branch": "branch:own/main", "message": "m"}
    delete = {"type": "RepositoryDeleted", "repository": "repo:own"}
    developer = key_of(server, "developer", ("developer", "repo:own"), ("developer", "branch:own/main"))
    alone = key_of(server, "of-branch", ("developer", "branch:own/main"))
    for line, allowed in ((create, []), (write, [developer]), (commit, [developer]), (delete, [])):
        for key in (READER, alone, developer):
            status = server.post("/api/v1/events", line, key=key).status
            assert (status == 200) == (key in allowed), (line["type"], key)
        if not allowed:
            assert server.post("/api/v1/events", line).json["outcome"] == "accepted"
