"""Pages of access and of the pipeline over a real server: what they show, what their forms do, and to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from metajournal import TagsAdded, dataset
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, Element, logged_in, member, parsed
from tests.gateway.serving import Served, served
from tests.gateway.test_pages_hostile import HOSTILE, harmless
from tests.topics import read
from tests.wait import eventually

pytestmark = pytest.mark.services
ROOT = "/access/principals/root"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: Served) -> Browser:
    return logged_in(server, member(server.journal, "root", ("admin", "*")))


def sent(browser: Browser, path: str, name: str, **fields: str) -> Element:
    """The page to which the form with an action leads."""
    forms = browser.page(path).all("form", action=name)
    form = next(form for form in forms if set(fields) <= names(form) and not wrong_use(form, fields))
    answer = browser.submit(form, **fields)
    assert answer.status in (200, 303), answer.body
    return parsed(answer.body) if answer.status == 200 else browser.page(answer.headers["location"])


def names(form: Element) -> set[str | None]:
    return {one.attributes.get("name") for one in [*form.all("input"), *form.all("select")]}


def wrong_use(form: Element, fields: dict[str, str]) -> bool:
    """Whether another use is hidden in a form than the one that is wanted."""
    return "use" in fields and not form.all("input", name="use", value=fields["use"])


def test_a_principal_is_registered_granted_given_a_key_and_disabled(server: Served, root: Browser) -> None:
    sent(root, "/access", "/access/principals", principal="ada")
    settings = server.journal.settings
    audit = partial(read, settings, settings.journal.topics.audit)
    eventually(lambda: "access-principal:ada" in [json.loads(one.value() or b"")["urn"] for one in audit()])
    at = "/access/principals/ada"
    eventually(lambda: root.get(at).status == 200)
    assert at in [one.attributes["href"] for one in root.page("/access/audit").all("a")], "what was done leads there"
    assert "Add tag" not in root.page("/entity/access-principal:ada").text, "it takes none"
    sent(root, at, f"{at}/grant", role="analyst", pattern="*:sales/*")
    eventually(lambda: "analyst" in [cell.text for cell in root.page(at).all("td")])
    shown = sent(root, at, f"{at}/issue", label="for her script", days="30")
    key = shown.all("pre")[0].text
    eventually(lambda: server.get("/api/v1/access/me", key=key).status == 200)
    page = root.page(at)
    assert key not in page.text
    assert "for her script" in page.text
    code = sent(root, at, f"{at}/issue", use="code").all("pre")[0].text
    ada = Browser(server)
    eventually(lambda: ada.log_in(code).status == 303)
    eventually(lambda: "session" in [cell.text for cell in root.page(at).all("td")])
    sent(root, at, f"{at}/take", role="analyst", pattern="*:sales/*")
    sent(root, at, f"{at}/disable")
    eventually(lambda: ada.get("/").status == 303)
    assert server.get("/api/v1/access/me", key=key).status == 401
    sent(root, at, f"{at}/enable")
    eventually(lambda: "Enabled" in root.page(at).text)


def test_a_role_is_granted_only_if_one_is_chosen(root: Browser) -> None:
    form = next(iter(root.page(ROOT).all("form", action=f"{ROOT}/grant")))
    choice = form.all("select", name="role")[0]
    assert "required" in choice.attributes
    assert choice.all("option")[0].attributes["value"] == ""
    assert not any("selected" in option.attributes for option in choice.all("option"))
    assert root.submit(form, role="", pattern="*").status == 400


@pytest.mark.parametrize(
    ("path", "action", "wrong", "right", "told"),
    [
        ("/access", "/access/principals", {"principal": "two words"}, {"principal": "refilled"},
         ("Register a principal", "Not registered: The name of a principal")),
        (ROOT, f"{ROOT}/grant", {"role": "analyst", "pattern": "dataset:"}, {"pattern": "dataset:*"},
         ("Grant a role to root", "Not granted: A pattern")),
        (ROOT, f"{ROOT}/grant", {"role": "analyst", "pattern": ""}, {"pattern": "dataset:*"},
         ("Grant a role to root", "Not granted: A pattern")),
        (ROOT, f"{ROOT}/issue", {"label": "for <a>", "days": "many"}, {"days": "30"},
         ("Make a key of root", "No key was made: The days must be")),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_taken_comes_back_as_it_was_filled(
    root: Browser, path: str, action: str, wrong: dict[str, str], right: dict[str, str], told: tuple[str, str]
) -> None:
    form = next(form for form in root.page(path).all("form", action=action) if set(wrong) <= names(form))
    answer = root.submit(form, **wrong)
    assert answer.status == 400
    page = parsed(answer.body)
    assert page.all("h1")[0].text == told[0]
    assert page.all("p", role="alert")[0].text.startswith(told[1])
    again = page.all("form", action=action)[0]
    assert {name: again.all("input", name=name)[0].attributes["value"] for name in wrong} == wrong
    assert root.submit(again, **right).status in (200, 303)


def test_a_session_is_ended_by_its_form(server: Served, root: Browser) -> None:
    bob = logged_in(server, member(server.journal, "bob", ("analyst", "*")))
    page = root.page("/access/principals/bob")
    row = next(row for row in page.all("tr") if "session" in [cell.text for cell in row.all("td")])
    assert root.submit(row.all("form")[0]).status == 303
    eventually(lambda: bob.get("/").status == 303)


def test_nobody_gives_more_than_they_have(server: Served, root: Browser) -> None:
    server.journal.access.define_role("keeper", ["ReadAccess", "WriteAccess"])
    keeper = logged_in(server, member(server.journal, "keeper", ("keeper", "*")))
    token = str(keeper.page("/access").all("input", name="token")[0].attributes["value"])
    for path, fields in (
        ("/access/principals/keeper/grant", {"role": "admin", "pattern": "*"}),
        ("/access/principals/root/issue", {"use": "key"}), ("/access/principals/root/issue", {"use": "code"}),
        ("/access/principals/root/enable", {}), ("/access/principals", {"principal": "root"}),
    ):  # fmt: skip
        answer = keeper.send(path, {"token": token, **fields})
        assert answer.status == 403, path
        assert "mjk_" not in answer.body.decode()


def test_who_may_not_see_access_sees_none_of_it(server: Served) -> None:
    reader = logged_in(server, member(server.journal, "reader", ("analyst", "*")))
    token = str(reader.page("/").all("input", name="token")[0].attributes["value"])
    for path in ("/access", "/access/principals/root", "/access/principals/nobody", "/pipeline"):
        assert reader.get(path).status == 403, path
    for do in ("grant", "take", "disable", "enable", "issue", "end"):
        assert reader.send(f"/access/principals/reader/{do}", {"token": token}).status == 403, do
    assert {"Access", "Pipeline"}.isdisjoint(link.text for link in reader.page("/").all("nav")[0].all("a"))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_of_access_make_no_element(server: Served, root: Browser, text: str) -> None:
    if "\0" not in text:
        server.journal.access.issue_key("root", label=text)[1].position  # noqa: B018
    token = str(root.page("/access").all("input", name="token")[0].attributes["value"])
    for path, fields in (
        ("/access/principals", {"principal": text}), ("/access/principals/root/grant", {"role": text, "pattern": text}),
        ("/access/principals/root/end", {"key": text}), ("/access/principals/root/issue", {"days": text}),
    ):  # fmt: skip
        answer = root.send(path, {"token": token, **fields})
        assert answer.status in (400, 422), path
        harmless(parsed(answer.body))
    harmless(root.page("/access/principals/root"))


def test_the_pipeline_tells_how_far_it_is_and_what_was_refused(server: Served, root: Browser) -> None:
    server.fold()
    receipt = server.journal.emit(TagsAdded(dataset("pipeline", "nobody"), ["<b>"]), actor="<i>eve")
    receipt.position  # noqa: B018
    eventually(lambda: root.page("/pipeline").all("p", role="status")[0].text.startswith("journal → lake +"))
    behind = [
        row for row in root.page("/pipeline").all("tbody")[0].all("tr") if row.all("td")[2].text not in ("0", "–")
    ]
    assert len(behind) >= 1
    server.fold()
    eventually(lambda: "journal → lake +0.0 s" in root.page("/pipeline").all("p", role="status")[0].text)
    page = root.page("/pipeline")
    harmless(page)
    row = next(row for row in page.all("tr") if "dataset:pipeline/nobody" in row.text)
    assert "unknown-entity" in row.text
    assert "<i>eve" in row.text
    found = root.page(str(row.all("a")[0].attributes["href"]))
    assert found.all("h2")[0].text == "catalog.TagsAdded.1: rejected"
    developer = logged_in(server, member(server.journal, "dev", ("developer", "dataset:other/*")))
    assert "dataset:pipeline/nobody" not in developer.page("/pipeline").text
