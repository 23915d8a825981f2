"""Answers that name other entities than the one that was asked for: none that their reader may not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from urllib.parse import quote

import pytest

from metajournal import (
    AccessesRecorded,
    EntityDeleted,
    EntityRegistered,
    Journal,
    PropertiesSet,
    RunStarted,
    app,
    dataset,
    program,
    run,
)
from metajournal.commands.serving import principals_of
from metajournal.consumers.finding import Looked
from metajournal.domains.repositories.events import RepositoryCreated
from metajournal.domains.repositories.urns import commit_urn
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import logged_in, member, parsed
from tests.gateway.indexed import index
from tests.gateway.reading import key_of
from tests.gateway.serving import Served, beside, running, served
from tests.repositories.staying import committed, created
from tests.wait import eventually

pytestmark = pytest.mark.services
OUT, SECRET = dataset("seen", "out"), dataset("unseen", "secret")
FLOW = ("unseen", "shop", "flow", "hidden")


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings) as running:
        yield running


@pytest.fixture(scope="module")
def written(server: Served) -> str:
    """A run has read something secret and written `OUT`; gives the id of the event that says so."""
    server.journal.emit(EntityRegistered(OUT))
    server.journal.emit(RunStarted(run(*FLOW, "r1"), 1_700_000_000_000))
    receipt = server.journal.emit(
        AccessesRecorded(run(*FLOW, "r1"), [(SECRET, "read", 1_700_000_000_000), (OUT, "write", 1_700_000_000_001)])
    )
    server.journal.flush()
    server.fold()
    return receipt.event_id


def test_the_latest_write_is_told_to_whoever_may_read_the_program_that_wrote(server: Served, written: str) -> None:
    at = "/v3/namespaces/seen/datasets/out/metadata/properties/system"
    whole = server.get(at).json
    assert (whole["latest_write_program"], whole["latest_write_time"]) == (str(program(*FLOW)), "1700000000001")
    narrow = key_of(server, "narrow", ("analyst", "dataset:seen/*"))
    answer = server.get(at, key=narrow)
    assert answer.status == 200
    assert b"latest_write" not in answer.body
    assert b"hidden" not in answer.body
    assert b"unseen" not in answer.body


@pytest.mark.parametrize(("name", "value"), [("words", "a flow"), ("unseen", str(program(*FLOW)))])
def test_properties_that_are_called_like_those_of_a_write_break_no_answer(
    server: Served, name: str, value: str
) -> None:
    """Anybody with the right may record them, with whatever value."""
    of = dataset("seen", f"called-{name}")
    server.journal.emit(EntityRegistered(of))
    server.journal.emit(PropertiesSet(of, {"latest_write_program": value, "rows": "7"}, "SYSTEM"))
    server.journal.flush()
    server.fold()
    at = f"/v3/namespaces/seen/datasets/{of.name}/metadata/properties/system"
    whole = server.get(at).json
    assert (whole["latest_write_program"], whole["rows"]) == (value, "7")
    narrow = server.get(at, key=key_of(server, "narrow", ("analyst", "dataset:seen/*")))
    assert (narrow.status, narrow.json.get("latest_write_program")) == (200, value if name == "words" else None)


def test_the_rows_of_an_event_name_what_may_be_read_alone(server: Served, written: str) -> None:
    assert str(SECRET) in server.get(f"/api/v1/events/{written}").body.decode()
    narrow = key_of(server, "runs", ("analyst", "run:unseen/*"), ("analyst", "program:unseen/*"), ("analyst", str(OUT)))
    answer = server.get(f"/api/v1/events/{written}", key=narrow)
    assert answer.status == 200
    assert str(OUT) in answer.body.decode()
    assert str(SECRET) not in answer.body.decode()
    [place] = answer.json["places"]
    assert place["row_counts"] == Counter(row["table"] for row in place["rows"]), "hidden rows are not counted either"


def test_an_event_that_may_stand_where_nobody_has_looked_is_not_said_to_be_none(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = "/api/v1/events/019aa3a1-5b7c-7def-8123-456789abcdef"
    assert server.get(at).status == 404
    assert server.get("/api/v1/events/ffffffff-ffff-7fff-bfff-ffffffffffff").status == 404, "of no time that there is"
    monkeypatch.setattr("metajournal.consumers.finding.find_event", lambda *_, **__: Looked([], False))
    unsure = server.get(at)
    assert (unsure.status, unsure.json["code"], "retry-after" in unsure.headers) == (503, "not-yet-visible", True)


def test_the_end_of_an_app_names_no_program_that_may_not_be_read(server: Served) -> None:
    its, of = app("seen", "shop"), program("seen", "shop", "flow", "inner")
    for entity in (its, of):
        server.journal.emit(EntityRegistered(entity))
    receipt = server.journal.emit(EntityDeleted(its))
    server.journal.flush()
    server.fold()
    assert str(of) in server.get(f"/api/v1/events/{receipt.event_id}").body.decode()
    answer = server.get(f"/api/v1/events/{receipt.event_id}", key=key_of(server, "apps", ("analyst", str(its))))
    assert answer.status == 200
    assert b"inner" not in answer.body


def test_whoever_may_write_and_not_read_is_shown_nothing_that_stands(
    server: Served, gateway_settings: Settings
) -> None:
    entity = dataset("written", "only")
    server.journal.emit(EntityRegistered(entity, properties={"plan": "hidden-value"}), actor="hidden-actor")
    server.journal.emit(PropertiesSet(entity, {"plan": "hidden-newer-value"}), actor="hidden-actor").position  # noqa: B018
    writer_key = member(server.journal, "writer", ("emitter", "dataset:written/*"))
    reader_key = member(server.journal, "reader-too", ("developer", "dataset:written/*"))
    settings = replace(gateway_settings, gateway=replace(gateway_settings.gateway))
    with Journal.connect(settings) as journal, closing(principals_of(journal, 30)) as principals:
        eventually(principals.heard)
        with running(journal, principals, settings) as address:
            for key, sees in ((writer_key, False), (reader_key, True)):
                browser = logged_in(server, key, address)
                token = str(browser.page("/").all("input", name="token")[0].attributes["value"])
                for path, fields in (
                    (f"/edit/{entity}", {"do": "set", "named": "plan", "value": "mine", "expected": "1"}),
                    ("/register", {"urn": str(entity)}),
                ):
                    answer = browser.send(path, {"token": token, **fields})
                    assert answer.status == 412, path
                    assert ("hidden-" in parsed(answer.body).text) == sees, path


def test_a_commit_does_not_name_a_branch_that_may_not_be_read(server: Served, gateway_settings: Settings) -> None:
    created(server.journal, "shelf")
    branch = server.journal.repositories["shelf"].branch("feature/hidden")
    branch.create().position  # noqa: B018  (waits)
    commit = commit_urn("shelf", committed(branch, "a.csv"))
    server.fold()
    key = key_of(server, "commits", ("analyst", "commit:shelf/*"))
    for path in ("/api/v1/entities", "/api/v1/history", "/api/v1/diff"):
        assert "feature" in server.get(f"{path}/{commit}").body.decode(), path
        answer = server.get(f"{path}/{commit}", key=key)
        assert (answer.status, "feature" in answer.body.decode()) == (200, False), path
    index(server, gateway_settings)
    [row] = server.get(f"/api/v1/history/{commit}").json
    for query in ("", f"&as_at={quote(row['position'], safe='')}"):
        path = f"/api/v1/search?kind=commit{query}"
        assert "feature" in server.get(path).body.decode(), path
        answer = server.get(path, key=key)
        assert (answer.status, [hit["urn"] for hit in answer.json["hits"]]) == (200, [str(commit)]), path
        assert "feature" not in answer.body.decode(), path


def test_a_repository_does_not_name_its_default_branch_to_whoever_may_not_read_that(
    server: Served, gateway_settings: Settings
) -> None:
    repository = server.journal.repositories["cellar"].urn
    made = RepositoryCreated(repository, "hidden/trunk", "s3://cellar")
    server.journal.emit(made).position  # noqa: B018  (waits)
    server.journal.emit(PropertiesSet(repository, {"depth": "low"})).position  # noqa: B018  (waits)
    index(server, gateway_settings)
    narrow = key_of(server, "cellar", ("analyst", str(repository)))
    whole = key_of(server, "cellar-whole", ("analyst", str(repository)), ("analyst", "branch:cellar/*"))
    [first, _] = server.get(f"/api/v1/history/{repository}").json
    then = quote(first["position"], safe="")
    paths = [f"/api/v1/{what}/{repository}" for what in ("entities", "history", "diff")]
    paths += [
        "/api/v1/repositories/cellar",
        f"/api/v1/entities/{repository}?as_at={then}",
        f"/api/v1/diff/{repository}?from={then}",
    ]
    paths += ["/api/v1/repositories", "/api/v1/search?query=depth:low", f"/api/v1/search?query=depth:low&as_at={then}"]
    for path in paths:
        for key, told in ((whole, True), (narrow, False)):
            answer = server.get(path, key=key)
            assert (answer.status, b"trunk" in answer.body) == (200, told), (path, key)
            assert b"cellar" in answer.body, path
    tag = server.get(f"/api/v1/entities/{repository}", key=narrow).headers["etag"]
    again = server.get(f"/api/v1/entities/{repository}", key=whole, If_None_Match=tag)
    assert (again.status, b"trunk" in again.body) == (200, True), "a tag names a state, and not what is told of it"
    for query in ("trunk", "hid*", "default_branch:*", "default_branch:hidden*", "trunc"):
        answer = server.get(f"/api/v1/search?query={quote(query)}&facets=true", key=narrow)
        assert (answer.status, answer.json["total"], answer.json["hits"]) == (200, 0, []), query
    assert server.get("/api/v1/suggest/keys?prefix=default", key=narrow).json == []


def test_a_page_of_a_repository_does_not_name_its_default_branch_either(
    server: Served, gateway_settings: Settings
) -> None:
    repository = server.journal.repositories["attic"].urn
    server.journal.emit(RepositoryCreated(repository, "hidden/trunk", "s3://attic")).position  # noqa: B018  (waits)
    server.journal.emit(PropertiesSet(repository, {"depth": "low"})).position  # noqa: B018  (waits)
    server.fold()
    narrow = member(server.journal, "attic", ("analyst", str(repository)))
    whole = member(server.journal, "attic-whole", ("analyst", str(repository)), ("analyst", "branch:attic/*"))
    with beside(gateway_settings) as address:
        for key, told in ((whole, True), (narrow, False)):
            browser = logged_in(server, key, address)
            shown = browser.page(f"/entity/{repository}").text
            assert ("s3://attic" in shown, "trunk" in shown) == (True, told)
            for path in (f"/history/{repository}", f"/diff/{repository}", "/repositories/attic"):
                assert told or "trunk" not in browser.page(path).text, path
