"""Every address of the table with every kind of key, against what is written here by hand.

A row that no line here asks for fails, and so does a line whose row is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from metajournal.domains.access.rights import Rights
from metajournal.gateway.principals import Principal
from metajournal.gateway.routing import Router, path_parts
from metajournal.gateway.table import Table
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.serving import Got, Served, served

OWN, BESIDE = "team-a", "team-ab"
"""Two namespaces, of which the first one is the team's."""
TEAM: Final = "team"
ROLES: Final = {
    "admin": [("admin", "*")], "developer": [("developer", "*")], "analyst": [("analyst", "*")],
    "emitter": [("emitter", "*")], TEAM: [("developer", f"*:{OWN}/*")], "nobody": [],
}  # fmt: skip
ALLOWED: Final = {
    "read": {"admin", "developer", "analyst", TEAM}, "write": {"admin", "developer", "emitter", TEAM},
    "delete": {"admin"}, "lineage": {"admin", "developer", "emitter", TEAM},
    "read other": {"admin", "developer", "analyst"}, "access": {"admin"}, "any": {*ROLES},
    "find": {"admin", "developer", "analyst", TEAM}, "pipeline": {"admin", "developer"},
}  # fmt: skip
"""Who may, by what a request asks for; the team within its namespace alone."""
WITHIN: Final = frozenset({"read", "write", "lineage"})
"""What the team may on its own namespace and not beside it."""


class Line(NamedTuple):
    """A request, with `NS` where the namespace stands, and what it asks for."""

    method: str
    path: str
    right: str
    body: Any = None


FORMS: Final = ("datasets/d", "apps/p", "apps/p/flow/f", "streams/s")
RUN: Final = {"producer": "https://example.com", "eventTime": "2026-01-01T00:00:00Z", "eventType": "COMPLETE",
              "run": {"runId": "0190d5f0-0000-7000-8000-000000000000"}, "job": {"namespace": "NS", "name": "j"},
              "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json"}  # fmt: skip


HISTORY: Final = {
    "programRun": {"namespace": "NS", "app": "p", "programType": "FLOW", "name": "f", "runId": "r"},
    "data": {"namespace": "NS", "type": "DATASET", "name": "d"},
}  # fmt: skip


def _metadata(form: str) -> Iterator[Line]:
    at = f"/v3/namespaces/NS/{form}/metadata"
    for path in ("", "/properties", "/properties/system", "/tags"):
        yield Line("GET", at + path, "read")
    if form == "stream/s":
        return
    yield Line("POST", f"{at}/properties", "write", {"a": "1"})
    yield Line("POST", f"{at}/tags", "write", ["x"])
    for path in ("", "/properties", "/properties/a", "/tags", "/tags/x"):
        yield Line("DELETE", at + path, "write")


LINES: Final = (
    *(line for form in (*FORMS, "stream/s") for line in _metadata(form)),
    Line("GET", "/v3/namespaces/NS/metadata/search?query=x", "find"),
    *(Line("GET", f"/v3/namespaces/NS/{data}/lineage?start=now-1h&end=now", "read")
      for data in ("datasets/d", "streams/s", "stream/s")),
    *(Line("POST", f"/v3/namespaces/NS/{data}/lineage/next", "read",
           {"start": "now-1h", "end": "now", "maxLevels": 1, "after": [f"{data[:data.index('/') - 1]}.NS.{data[-1]}"]})
      for data in ("datasets/d", "streams/s")),
    Line("GET", "/v3/namespaces/NS/apps/p/flow/f/runs/r/metadata/accesses", "read"),
    *(Line("POST", f"/v3/namespaces/NS/streams/s{way}?source=x", "lineage") for way in ("", "/async", "/batch")),
    Line("POST", "/v3/metadata/history", "lineage", HISTORY),
    Line("POST", "/api/v1/entities/dataset:NS/d", "write"),
    Line("DELETE", "/api/v1/entities/dataset:NS/d", "delete"),
    *(Line("GET", f"/api/v1/{what}/dataset:NS/d", "read") for what in ("entities", "history", "diff", "lineage")),
    Line("GET", "/api/v1/runs/program:NS/p/flow/f", "read"),
    Line("GET", "/api/v1/run/run:NS/p/flow/f/r", "read"),
    Line("GET", "/api/v1/accesses/run:NS/p/flow/f/r", "read"),
    Line("POST", "/api/v1/events", "write", {"type": "TagsAdded", "entity": "dataset:NS/d", "tags": ["x"]}),
    Line("POST", "/api/v1/lineage", "lineage", RUN),
    Line("POST", "/api/v1/lineage/batch", "lineage", [RUN]),
    Line("GET", "/api/v1/events/0190d5f0-0000-7000-8000-000000000000", "any"),
    Line("GET", "/api/v1/events/a/0/1", "any"),
    Line("GET", "/api/v1/search", "find"),
    Line("GET", "/api/v1/suggest/names", "find"),
    Line("GET", "/api/v1/suggest/keys", "find"),
    Line("HEAD", "/api/v1/changes", "find"),
    Line("GET", "/api/v1/files?where=w&what=x&work_id=1", "read other"),
    Line("GET", "/api/v1/files/latest?where=w&what=x", "read other"),
    Line("GET", "/api/v1/repositories", "find"),
    Line("GET", "/api/v1/repositories/r", "read other"),
    Line("GET", "/api/v1/repositories/r/branches", "read other"),
    *(Line("GET", f"/api/v1/repositories/r/{what}?ref=main", "read other") for what in ("log", "objects")),
    Line("GET", "/api/v1/repositories/r/diff?left=main&right=b", "read other"),
    Line("GET", "/api/v1/access/me", "any"),
    *(Line("GET", f"/api/v1/access/{what}", "access")
      for what in ("principals", "principals/admin", "principals/admin/keys", "roles")),
    Line("POST", "/api/v1/access/principals/p", "access"),
    Line("DELETE", "/api/v1/access/principals/p", "access"),
    Line("POST", "/api/v1/access/principals/p/grants", "access", {"grants": [{"role": "analyst", "pattern": "*"}]}),
    Line("DELETE", "/api/v1/access/principals/p/grants", "access"),
    Line("DELETE", "/api/v1/access/principals/p/grants/analyst/*", "access"),
    Line("POST", "/api/v1/access/principals/p/keys", "access"),
    Line("DELETE", f"/api/v1/access/principals/p/keys/{'0' * 24}", "access"),
    Line("POST", "/api/v1/access/roles/r", "access", {"actions": ["ReadEntity"]}),
    Line("DELETE", "/api/v1/access/roles/r", "access"),
)  # fmt: skip


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings) as running:
        running.principals.by_key |= {
            key: Principal("default", key, key, Rights(grants, {})) for key, grants in ROLES.items()
        }
        running.journal.access.keep().wait(30)
        yield running


def sent(server: Served, line: Line, key: str | None, space: str = OWN) -> Got:
    return server.ask(line.method, line.path.replace("NS", space), _in(line.body, space), key=key)


def _in(body: Any, space: str) -> Any:
    """A body with the namespace in it."""
    if isinstance(body, str):
        return body.replace("NS", space)
    if isinstance(body, dict):
        return {key: _in(value, space) for key, value in body.items()}
    return list(map(partial(_in, space=space), body)) if isinstance(body, list) else body


def is_refused(answer: Got) -> bool:
    """Whether somebody's right is missing; of several OpenLineage events each is told by itself."""
    if answer.status == 200 and b"failed_events" in answer.body:
        return any("does not have the right" in one["reason"] for one in answer.json["failed_events"])
    assert answer.status != 401
    return answer.status == 403


def test_every_address_of_the_table_is_asked_for_here(server: Served) -> None:
    rows = Table(server.journal.epochs.domains).endpoints
    router, asked = Router(rows), set()
    for line in LINES:
        route = router.find(path_parts(line.path.partition("?")[0].encode()))
        asked.add(route.by_method["GET" if line.method == "HEAD" else line.method][0].name)
    assert {row.name for row in rows} - asked == set()


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.method} {line.path}")
def test_each_key_may_what_is_written_here(server: Served, line: Line) -> None:
    server.fold()  # what others of these tests have written: some questions wait for the lake
    for key in (None, "", "nothing", "mjk_0_0_0"):
        answer = sent(server, line, key)
        assert answer.status == 401, key
    allowed = ALLOWED[line.right]
    assert {role for role in ROLES if not is_refused(sent(server, line, role))} == allowed
    if line.right in WITHIN:
        assert is_refused(sent(server, line, TEAM, BESIDE))
        assert not is_refused(sent(server, line, "admin", BESIDE))


def test_a_repository_of_a_journal_that_has_none_is_unknown_at_once(server: Served) -> None:
    """No mark of its partition is no delay: nothing was ever written to it."""
    server.fold()
    for what in ("", "/branches", "/log?ref=main", "/objects?ref=main", "/diff?left=main&right=b"):
        answer = server.get(f"/api/v1/repositories/nobody{what}", key="admin")
        assert (answer.status, answer.json["code"]) == (404, "unknown-entity"), what
