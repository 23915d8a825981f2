"""Pages of roles, sessions and the audit over a real server: what their forms do, and who sees what."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, Element, logged_in, member, parsed
from tests.gateway.serving import Served, served
from tests.gateway.test_audit import of_request
from tests.gateway.test_pages_hostile import HOSTILE, harmless
from tests.wait import eventually

pytestmark = pytest.mark.services
DEFINE = "/access/roles"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: Served) -> Browser:
    return logged_in(server, member(server.journal, "root", ("admin", "*")))


def form(page: Element, action: str) -> Element:
    return page.all("form", action=action)[0]


def defined(root: Browser, name: str, *actions: str) -> str:
    """The address of a new role's page, once it is there."""
    answer = root.submit(form(root.page("/access"), DEFINE), role=name, **dict.fromkeys(actions, "on"))
    assert answer.status == 303, answer.body
    at = f"/access/roles/{name}"
    assert answer.headers["location"] == at
    eventually(lambda: root.get(at).status == 200)
    return at


def allowed(page: Element) -> set[str]:
    return {item.text.strip() for item in page.all("ul")[-1].all("li")}


def test_a_role_is_defined_changed_and_deleted_by_forms(server: Served, root: Browser) -> None:
    at = defined(root, "tagger", "WriteEntity")
    server.journal.access.register("tess")
    server.journal.access.grant("tess", ("tagger", "dataset:sales/*"))
    page = eventually(lambda: found if "tess" in (found := root.page(at)).text else None)
    assert allowed(page) == {"WriteEntity"}
    assert "dataset:sales/*" in page.text
    assert root.submit(form(page, DEFINE), ReadEntity="on").status == 303
    eventually(lambda: allowed(root.page(at)) == {"ReadEntity", "WriteEntity"})
    assert root.submit(form(root.page(at), f"{at}/delete")).headers["location"] == "/access"
    eventually(lambda: root.get(at).status == 404)
    again = root.submit(form(root.page("/access"), DEFINE), role="tagger", ReadEntity="on")
    assert again.status == 422
    assert "retired" in parsed(again.body).text


@pytest.mark.parametrize(
    ("role", "actions", "said"),
    [("two words", ["ReadEntity"], "The name of a role"), ("fine", [], "must allow something")],
)
def test_a_definition_that_cannot_be_taken_comes_back_as_it_was_filled(
    root: Browser, role: str, actions: list[str], said: str
) -> None:
    answer = root.submit(form(root.page("/access"), DEFINE), role=role, **dict.fromkeys(actions, "on"))
    assert answer.status == 400
    page = parsed(answer.body)
    assert page.all("h1")[0].text == "Define a role"
    told = page.all("p", role="alert")[0].text
    assert told.startswith("Not defined: ")
    assert said in told
    again = form(page, DEFINE)
    assert again.all("input", name="role")[0].attributes["value"] == role
    ticked = [one.attributes["name"] for one in again.all("input", type="checkbox") if "checked" in one.attributes]
    assert ticked == actions
    fixed = root.submit(again, role=f"again-{len(actions)}", ReadEntity="on")
    assert fixed.status == 303


def test_a_role_that_somebody_else_defined_meanwhile_is_shown_not_overwritten(server: Served, root: Browser) -> None:
    at = defined(root, "shared", "ReadEntity")
    seen = root.page(at)
    server.journal.access.define_role("shared", ["ReadEntity", "ReadFile"], actor="somebody").position  # noqa: B018
    lost = root.submit(form(seen, DEFINE), ReadTable="on")
    assert lost.status == 412
    conflict = parsed(lost.body)
    assert "ReadEntity, ReadTable" in conflict.text
    assert "ReadEntity, ReadFile" in conflict.text
    assert "somebody" in conflict.text
    assert root.submit(form(seen, f"{at}/delete")).status == 412
    assert root.submit(form(root.page("/access"), DEFINE), role="shared", ReadRepo="on").status == 412
    assert root.submit(form(conflict, DEFINE)).status == 303
    eventually(lambda: allowed(root.page(at)) == {"ReadEntity", "ReadTable"})


def test_forms_of_a_principal_that_has_changed_add_grants_and_end_nothing_unseen(server: Served, root: Browser) -> None:
    server.journal.access.register("changing").position  # noqa: B018
    at = "/access/principals/changing"
    eventually(lambda: root.get(at).status == 200)
    seen = root.page(at)
    server.journal.access.grant("changing", ("analyst", "*"), actor="somebody").position  # noqa: B018
    refused = root.submit(form(seen, f"{at}/disable"))
    assert refused.status == 412
    assert " by somebody after you had opened it" in " ".join(parsed(refused.body).text.split())
    granted = root.submit(form(seen, f"{at}/grant"), role="developer", pattern="*:sales/*")
    assert granted.status == 303
    eventually(lambda: {"analyst", "developer"} <= {cell.text for cell in root.page(at).all("td")})
    assert "Enabled" in root.page(at).text
    taken = root.submit(next(one for one in root.page(at).all("form", action=f"{at}/take")))
    assert taken.status == 303
    assert root.submit(form(root.page(at), f"{at}/disable")).status == 303
    eventually(lambda: "Disabled" in root.page(at).text)


@pytest.mark.parametrize("fields", [{}, {"expected": ""}, {"expected": "-1"}, {"expected": "x" * 99}])
def test_a_form_that_does_not_say_what_it_saw_does_nothing(root: Browser, fields: dict[str, str]) -> None:
    token = str(root.page("/access").all("input", name="token")[0].attributes["value"])
    for path, more in ((DEFINE, {"role": "x", "ReadEntity": "on"}), ("/access/principals/root/disable", {}),
                       ("/access/principals/root/grant", {"role": "analyst", "pattern": "*"})):  # fmt: skip
        answer = root.send(path, {"token": token, **more, **fields})
        assert answer.status == 400, path
    assert root.get("/access/roles/x").status == 404


def test_roles_are_defined_and_seen_within_ones_rights_alone(server: Served, root: Browser) -> None:
    defined(root, "hidden-role", "ReadEntity")
    defined(root, "warden", "ReadAccess", "WriteAccess")
    key = member(server.journal, "warden", ("warden", "access-principal:tenant-a"), ("warden", "access-role:own"))
    warden = logged_in(server, key)
    page = warden.page("/access")
    assert "hidden-role" not in page.text
    assert "analyst" in page.text
    assert warden.get("/access/roles/hidden-role").status == 403
    assert "hidden-role" not in server.get("/api/v1/access/roles", key=key).body.decode()
    beyond = warden.submit(form(page, DEFINE), role="own", ReadEntity="on")
    assert beyond.status == 403
    assert warden.submit(form(page, DEFINE), role="hidden-role", ReadAccess="on").status == 403
    only_reads = logged_in(server, member(server.journal, "onlooker", ("looking", "access-principal:*")))
    server.journal.access.define_role("looking", ["ReadAccess"])
    page = eventually(lambda: only_reads.page("/access"))
    assert [one.attributes["action"] for one in page.all("form", method="post")] == ["/logout"]


def test_sessions_are_listed_and_ended_where_rights_allow(server: Served, root: Browser) -> None:
    guest = logged_in(server, member(server.journal, "guest", ("analyst", "*")))
    page = root.page("/access/sessions")
    row = next(row for row in page.all("tr") if "guest" in row.text)
    assert root.submit(row.all("form")[0]).headers["location"] == "/access/sessions"
    eventually(lambda: guest.get("/").status == 303)
    eventually(lambda: "guest" not in root.page("/access/sessions").text)
    server.journal.access.define_role("reading", ["ReadAccess"])
    onlooker = logged_in(server, member(server.journal, "one-eye", ("reading", "access-principal:one-eye")))
    page = onlooker.page("/access/sessions")
    assert "one-eye" in page.text
    assert "root" not in page.all("main")[0].text
    assert page.all("main")[0].all("form") == []


def rows(page: Element) -> list[list[str]]:
    return [[cell.text.strip() for cell in row.all("td")] for row in page.all("tbody")[0].all("tr")]


def test_logins_are_audited_and_no_secret_is(server: Served, root: Browser, gateway_settings: Settings) -> None:
    key = member(server.journal, "audited", ("analyst", "*"))
    browser = logged_in(server, key)
    secret = key.split("_")[2]
    assert browser.send("/login", {"key": key, "next": "/keys"}, X_Request_Id="login-1").status == 303
    assert Browser(server).send("/login", {"key": f"{key}x"}, X_Request_Id="login-2").status == 401
    code = server.journal.access.issue_code("audited")[0].text
    eventually(lambda: browser.send("/login", {"key": code}, X_Request_Id="login-3").status == 303)
    assert Browser(server).send("/login", {"key": code}, X_Request_Id="login-4").status == 401
    session = str(browser.cookie).split("_")[2]
    token = str(browser.page("/").all("input", name="token")[0].attributes["value"])
    assert browser.send("/logout", {"token": token}, X_Request_Id="login-5").status == 303
    records = [of_request(gateway_settings, f"login-{number}")[-1] for number in range(1, 6)]
    assert [(one["what"], one["principal"], one["status"], one["endpoint"]) for one in records] == [
        ("login", "audited", 303, "POST /login"), ("refused", None, 401, "POST /login"),
        ("login", "audited", 303, "POST /login"), ("refused", None, 401, "POST /login"),
        ("login", "audited", 303, "POST /logout"),
    ]  # fmt: skip
    for hidden in (secret, session, code.split("_")[2]):
        assert hidden not in str(records)

    shown = rows(root.page("/access/audit?principal=audited"))
    assert shown[0][1:4] == ["login", "audited", "Read"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC", shown[0][0])
    assert {row[2] for row in shown} == {"audited"}
    refused = rows(root.page("/access/audit?outcome=refused"))
    assert all("refused" in row[5] for row in refused)
    assert ["refused", "not known"] in [row[1:3] for row in refused]
    assert "login-4" in [row[7] for row in refused]


def test_the_audit_is_paged_newest_first(server: Served, root: Browser, gateway_settings: Settings) -> None:
    for number in range(60):
        server.get("/api/v1/search", key="no-key", X_Request_Id=f"paged-{number}")
    of_request(gateway_settings, "paged-59")
    seen: list[str] = []
    page = root.page("/access/audit?outcome=refused")
    while True:
        seen += [row[7] for row in rows(page)]
        older = page.all("a", rel="next")
        if not older or len(seen) > 500:
            break
        page = root.page(str(older[0].attributes["href"]))
    paged = [one for one in seen if one.startswith("paged-")]
    assert paged == [f"paged-{number}" for number in reversed(range(60))]
    for wrong in ("before=x", "before=-1", "outcome=some", "before=1&x=y"):
        assert root.get(f"/access/audit?{wrong}").status == 400, wrong


def test_the_audit_names_nothing_that_its_reader_may_not_read(
    server: Served, root: Browser, gateway_settings: Settings
) -> None:
    path = "/v3/namespaces/unreadable/datasets/hidden/metadata/tags"
    key = member(server.journal, "curious", ("analyst", "*:sales/*"))
    eventually(lambda: server.get(path, key=key, X_Request_Id="hidden-1").status == 403)
    of_request(gateway_settings, "hidden-1")
    assert "dataset:unreadable/hidden" in root.page("/access/audit?principal=curious").text
    server.journal.access.define_role("auditor", ["ReadAccess"])
    auditor = logged_in(server, member(server.journal, "auditor", ("auditor", "access-principal:curious")))
    page = auditor.page("/access/audit")
    assert {row[2] for row in rows(page)} == {"curious"}
    assert "hidden" not in page.all("table")[0].text.replace("hidden-1", "")
    reader = logged_in(server, member(server.journal, "no-auditor", ("developer", "*")))
    assert reader.get("/access/audit").status == 403
    assert reader.get("/access/sessions").status == 403


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_make_no_element_on_these_pages(server: Served, root: Browser, text: str) -> None:
    token = str(root.page("/access").all("input", name="token")[0].attributes["value"])
    for fields in ({"role": text, "ReadEntity": "on"}, {"role": "fine", text: "on"}):
        answer = root.send(DEFINE, {"token": token, "expected": "0", **fields})
        assert answer.status in (400, 422), fields
        harmless(parsed(answer.body))
