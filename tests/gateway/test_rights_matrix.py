"""Every address of the table with every kind of key, and every page with every kind of session, against what is written
here by hand.

A row that no line here asks for fails, and so does a line whose row is gone. Keys and sessions are those of the journal
of rights.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from metajournal import AccessesRecorded, EntityRegistered, dataset, run
from metajournal.domains.access.keys import SESSION_LABEL
from metajournal.gateway.routing import Router, Row, path_parts
from metajournal.gateway.table import Table
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, logged_in, member, token_of
from tests.gateway.indexed import index
from tests.gateway.serving import Got, Served, served
from tests.wait import eventually

OWN, BESIDE = "team-a", "team-ab"
"""Two namespaces, of which the first one is the team's."""
TEAM, ELSEWHERE = "team", "admin of another tenant"
ROLES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "admin": [("admin", "*")], "developer": [("developer", "*")], "analyst": [("analyst", "*")],
    "emitter": [("emitter", "*")], TEAM: [("developer", f"*:{OWN}/*")], "nobody": [], ELSEWHERE: [],
}  # fmt: skip
"""Who asks, with their grants. The last one has the name of the first, in another tenant, where it was granted nothing:
what a name may in one tenant it may not in another."""
ALLOWED: Final[Mapping[str, set[str]]] = {
    "read": {"admin", "developer", "analyst", TEAM}, "write": {"admin", "developer", "emitter", TEAM},
    "delete": {"admin"}, "lineage": {"admin", "developer", "emitter", TEAM},
    "read other": {"admin", "developer", "analyst"}, "access": {"admin"}, "any": {*ROLES},
    "find": {"admin", "developer", "analyst", TEAM}, "pipeline": {"admin", "developer", TEAM},
    "register": {"admin", "developer", "emitter", TEAM}, "public": {*ROLES},
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


class PageLine(NamedTuple):
    """A request for a page, with `NS` where the namespace stands, and what it asks for.

    Args:
        status: of the answer to whoever may; others get 403.
        fields: of a form.
        stranger: the status for whoever is not logged in.
    """

    method: str
    path: str
    right: str
    status: int
    fields: Mapping[str, str] = {}
    stranger: int = 303


def _form(path: str, right: str, status: int, **fields: str) -> PageLine:
    return PageLine("POST", path, right, status, fields, 401)


PAGE_LINES: Final = (
    PageLine("GET", "/login", "public", 303, stranger=200),
    PageLine("POST", "/login", "public", 401, {"key": "nothing"}, 401),
    PageLine("GET", "/assets/any/style.css", "public", 200, stranger=200),
    _form("/logout", "any", 303),
    PageLine("GET", "/", "any", 200),
    PageLine("GET", "/search?query=x", "find", 200),
    PageLine("GET", "/keys", "find", 200),
    PageLine("GET", "/suggest?query=x", "find", 200),
    *(PageLine("GET", f"/{page}/dataset:NS/page", "read", 200) for page in ("entity", "history", "diff", "lineage")),
    *(PageLine("GET", f"/{data}/dataset:NS/page", "read", 200, stranger=401) for data in ("states", "graph")),
    PageLine("GET", "/event", "any", 200),
    PageLine("GET", "/pipeline", "pipeline", 200),
    PageLine("GET", "/freshness", "pipeline", 200),
    PageLine("HEAD", "/feed", "find", 200, stranger=401),
    _form("/edit/dataset:NS/page", "write", 412, do="set", key="a", value="1", expected="1"),
    _form("/delete/dataset:NS/page", "delete", 412, expected="1"),
    PageLine("GET", "/register", "register", 200),
    _form("/register", "write", 412, urn="dataset:NS/page"),
    PageLine("GET", "/files", "find", 200),
    PageLine("GET", "/files?where=w&what=x&latest=1", "read other", 200),
    PageLine("GET", "/repositories", "find", 200),
    PageLine("GET", "/repositories/absent", "read other", 404),
    PageLine("GET", "/repositories/absent?ref=main", "read other", 404),
    PageLine("GET", "/repositories/absent/objects?ref=main", "read other", 404),
    PageLine("GET", "/repositories/absent/diff?left=main&right=b", "read other", 404),
    PageLine("GET", "/access", "access", 200),
    PageLine("GET", "/access/principals/admin", "access", 200),
    PageLine("GET", "/access/principals/absent", "access", 404),
    PageLine("GET", "/access/roles/analyst", "access", 200),
    PageLine("GET", "/access/sessions", "access", 200),
    PageLine("GET", "/access/audit", "access", 200),
    _form("/access/principals", "access", 303, principal="by-a-page"),
    _form("/access/principals/absent/grant", "access", 404, role="analyst", pattern="*", expected="1"),
    _form("/access/principals/absent/take", "access", 404, role="analyst", pattern="*", expected="1"),
    _form("/access/principals/absent/disable", "access", 412, expected="1"),
    _form("/access/principals/absent/enable", "access", 412, expected="1"),
    _form("/access/principals/absent/issue", "access", 404, use="key", label="x"),
    _form("/access/principals/absent/end", "access", 404, key="0" * 24),
    _form("/access/roles", "access", 412, role="absent", ReadEntity="on", expected="1"),
    _form("/access/roles/absent/delete", "access", 412, expected="1"),
)
"""Forms are of states that nobody has seen, or of what is absent, so that who may send them changes nothing: each is
answered as the one before."""
FOREIGN_FORM: Final = b"This form was not sent"
"""Of another refusal than one for a right."""


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A server with data in both namespaces, which the index shows."""
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        for space in (OWN, BESIDE):
            running.journal.emit(EntityRegistered(dataset(space, "page"), properties={"a": "0"}))
        running.journal.flush()
        index(running, gateway_settings)
        yield running


@pytest.fixture(scope="module")
def keys(server: Served) -> Mapping[str, str]:
    """A key of each role."""
    made = {role: member(server.journal, role, *grants) for role, grants in ROLES.items() if role != ELSEWHERE}
    return {**made, ELSEWHERE: of_another_tenant(server, "admin")}


def of_another_tenant(server: Served, name: str, *grants: tuple[str, str]) -> str:
    """The key of a new principal of a tenant that is not this server's own, once the server has heard of it."""
    access, tenant = server.journal.access, "another"
    access.register(name, tenant=tenant)
    if grants:
        access.grant(name, *grants, tenant=tenant)
    key, receipt = access.issue_key(name, tenant=tenant)
    receipt.position  # noqa: B018  (acknowledged)
    eventually(lambda: is_good(server, key.text))
    return key.text


def is_good(server: Served, key: str) -> bool:
    return server.get("/api/v1/access/me", key=key).status == 200


@pytest.fixture(scope="module")
def bad(server: Served, keys: Mapping[str, str]) -> Mapping[str, str | None]:
    """Keys of which the server has heard all that there is, none of them good as a bearer's."""
    access, until_ms = server.journal.access, int(time.time() * 1000) + 600_000
    member(server.journal, "leaver", ("admin", "*"))
    expired, revoked = access.issue_key("leaver", not_after=1_000).key, access.issue_key("leaver").key
    session = access.issue_key("leaver", label=SESSION_LABEL, not_after=until_ms).key
    code, good = access.issue_code("leaver").key, access.issue_key("leaver").key
    disabled = member(server.journal, "disabled", ("admin", "*"))
    for key in (good.text, revoked.text, disabled):  # the first one was issued behind all others
        eventually(partial(is_good, server, key))
    access.revoke_key("leaver", revoked.id)
    access.disable("disabled")
    for key in (revoked.text, disabled):
        eventually(lambda key=key: not is_good(server, key))  # type: ignore[misc]
    assert is_good(server, good.text), "its principal may still do everything"
    other = f"mjk_{good.id}_{'0' * 64}"
    return {
        "none": None, "empty": "", "a word": "nothing", "short": "mjk_0_0_0", "cut": good.text[:-1],
        "in capitals": good.text.upper(), "another secret": f"{other}_{zlib.crc32(other.encode()):08x}",
        "expired": expired.text, "revoked": revoked.text, "of a disabled principal": disabled,
        "a session's": session.text, "a code": code.text,
    }  # fmt: skip


class Visitor(NamedTuple):
    """Somebody at the pages, and what their forms bear."""

    browser: Browser
    token: Mapping[str, str] = {}


def visitor(server: Served, key: str) -> Visitor:
    """Somebody who has logged in."""
    browser = logged_in(server, key)
    return Visitor(browser, token_of(browser.page("/")))


@pytest.fixture(scope="module")
def visitors(server: Served, keys: Mapping[str, str]) -> Mapping[str, Visitor]:
    """Somebody of each role, logged in."""
    return {role: visitor(server, key) for role, key in keys.items()}


@pytest.fixture(scope="module")
def strangers(server: Served, keys: Mapping[str, str], bad: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """What a cookie may hold that makes nobody of its sender."""
    access = server.journal.access
    expired = access.issue_key("leaver", label=SESSION_LABEL, not_after=1_000).key
    good = access.issue_key("leaver").key
    eventually(lambda: is_good(server, good.text))  # so it has heard of the one before
    return {
        "none": None, "a word": "nothing", "another secret": bad["another secret"], "a bearer's": keys["admin"],
        "a code": bad["a code"], "expired": expired.text,
        "ended": ended(server, keys["admin"]), "of a disabled principal": of_disabled(server),
    }  # fmt: skip


def ended(server: Served, key: str) -> str:
    """A session whose principal has logged out."""
    browser = logged_in(server, key)
    session = cookie_of(browser)
    assert browser.send("/logout", token_of(browser.page("/"))).status == 303
    return session


def of_disabled(server: Served) -> str:
    """A session whose principal was disabled."""
    browser = logged_in(server, member(server.journal, "gone", ("admin", "*")))
    server.journal.access.disable("gone")
    eventually(lambda: browser.get("/").status == 303)
    return cookie_of(browser)


def cookie_of(browser: Browser) -> str:
    assert browser.cookie is not None
    return browser.cookie.partition("=")[2]


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


def shown(who: Visitor, line: PageLine, space: str = OWN, **headers: str) -> Got:
    """The answer to a line."""
    path = line.path.replace("NS", space)
    if line.method != "POST":
        return who.browser.ask(line.method, path, None, **headers)
    token = {} if line.right == "public" else who.token
    return who.browser.send(path, {**_in(dict(line.fields), space), **token}, **headers)


def rows_asked_for(rows: Sequence[Row], lines: Sequence[Line | PageLine]) -> set[str]:
    """The names of the rows that some lines lead to. Raises: KeyError: one leads to none."""
    router, asked = Router(rows), set()
    for line in lines:
        route = router.find(path_parts(line.path.partition("?")[0].encode()))
        asked.add(route.by_method["GET" if line.method == "HEAD" else line.method][0].name)
    return asked


def test_every_address_of_the_table_is_asked_for_here(server: Served) -> None:
    table = Table(server.journal.epochs.domains)
    assert {row.name for row in table.endpoints} - rows_asked_for(table.endpoints, LINES) == set()
    assert {row.name for row in table.pages} - rows_asked_for(table.pages, PAGE_LINES) == set()


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.method} {line.path}")
def test_each_key_may_what_is_written_here(
    server: Served, keys: Mapping[str, str], bad: Mapping[str, str | None], line: Line
) -> None:
    server.fold()  # what others of these tests have written: some questions wait for the lake
    answers = {name: sent(server, line, key) for name, key in bad.items()}
    if line.method != "HEAD":
        assert {answer.json["code"] for answer in answers.values()} == {"unauthenticated"}
    assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(bad, 401)
    allowed = ALLOWED[line.right]
    assert {role for role in ROLES if not is_refused(sent(server, line, keys[role]))} == allowed
    if line.right in WITHIN:
        assert is_refused(sent(server, line, keys[TEAM], BESIDE))
        assert not is_refused(sent(server, line, keys["admin"], BESIDE))


@pytest.mark.parametrize("line", PAGE_LINES, ids=lambda line: f"{line.method} {line.path}")
def test_each_visitor_is_shown_and_may_send_what_is_written_here(
    server: Served, keys: Mapping[str, str], visitors: Mapping[str, Visitor], strangers: Mapping[str, str | None],
    line: PageLine,
) -> None:  # fmt: skip
    if line.path == "/logout":  # which ends those who ask
        visitors = {role: visitor(server, key) for role, key in keys.items()}
    answers = {role: shown(visitors[role], line) for role in ROLES}
    allowed = {role: line.status if role in ALLOWED[line.right] else 403 for role in ROLES}
    assert {role: answer.status for role, answer in answers.items()} == allowed
    assert not any(FOREIGN_FORM in answer.body for answer in answers.values())
    if line.right in WITHIN:
        assert shown(visitors[TEAM], line, BESIDE).status == 403
        assert shown(visitors["admin"], line, BESIDE).status == line.status
    assert shown(Visitor(Browser(server)), line).status == line.stranger
    if line.right == "public":
        return
    name = f"mj-{server.address.rpartition(':')[2]}"
    for what, session in strangers.items():
        cookie = {} if session is None else {"Cookie": f"{name}={session}"}
        answer = shown(Visitor(Browser(server)), line, **cookie)
        assert answer.status == line.stranger, what
        if line.stranger == 303:
            assert answer.headers["location"].partition("?")[0] == "/login", what


MARK: Final = "of-this-tenant-alone"
MARKED: Final = {
    *(f"/v3/namespaces/NS/datasets/d/metadata{part}" for part in ("", "/properties", "/properties/system", "/tags")),
    *(f"/api/v1/{what}/dataset:NS/d" for what in ("entities", "history", "diff")), "/api/v1/search",
    "/api/v1/accesses/run:NS/p/flow/f/r", "/v3/namespaces/NS/apps/p/flow/f/runs/r/metadata/accesses",
}  # fmt: skip
"""What shows the mark to whoever may read it."""
_ENTITY: Final = PageLine("GET", "/entity/dataset:NS/d", "read", 200)


def test_who_may_everything_in_another_tenant_is_shown_nothing_of_this_one(
    server: Served, gateway_settings: Settings, keys: Mapping[str, str], visitors: Mapping[str, Visitor]
) -> None:
    emit, data = server.journal.emit, dataset(OWN, "d")
    emit(EntityRegistered(data, MARK, None, {"mark": MARK}, [MARK]))
    emit(AccessesRecorded(run(OWN, "p", "flow", "f", "r"), [(data, "read", 1_700_000_000_000, MARK, None)]))
    server.journal.flush()
    index(server, gateway_settings)
    questions = [line for line in LINES if line.method == "GET"]
    told = {line.path for line in questions if MARK.encode() in sent(server, line, keys["admin"]).body}
    assert told >= MARKED
    stranger = of_another_tenant(server, "stranger", ("admin", "*"))
    assert not [line for line in questions if MARK.encode() in sent(server, line, stranger).body]
    pages = [line._replace(path=line.path.replace("/page", "/d")) for line in PAGE_LINES if line.method == "GET"]
    assert MARK.encode() in shown(visitors["admin"], pages[pages.index(_ENTITY)]).body
    elsewhere = visitor(server, stranger)
    assert not [page for page in pages if MARK.encode() in shown(elsewhere, page).body]


def test_a_repository_of_a_journal_that_has_none_is_unknown_at_once(server: Served, keys: Mapping[str, str]) -> None:
    """No mark of its partition is no delay: nothing was ever written to it."""
    server.fold()
    for what in ("", "/branches", "/log?ref=main", "/objects?ref=main", "/diff?left=main&right=b"):
        answer = server.get(f"/api/v1/repositories/nobody{what}", key=keys["admin"])
        assert (answer.status, answer.json["code"]) == (404, "unknown-entity"), what
