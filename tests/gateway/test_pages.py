"""Pages over a real server, without JavaScript: what they show, what their forms do, and what nobody may see there."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from metajournal import EntityRegistered, PropertiesSet, RunStarted, TagsAdded, dataset, run, stream
from metajournal.gateway import site
from metajournal.gateway.pages.home import counted
from metajournal.gateway.routing import query_values
from metajournal.gateway.templates import environment
from metajournal.gateway.writing import Writer
from metajournal.indexer.search.results import Count
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, Element, logged_in, member, parsed
from tests.gateway.indexed import index
from tests.gateway.serving import Got, Served, served
from tests.indexer.loading import load

pytestmark = pytest.mark.services
SCHEMA = '{"type":"record","name":"r","fields":[{"name":"total","type":"double"},{"name":"who","type":"string"}]}'


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: Served) -> Browser:
    return logged_in(server, member(server.journal, "root", ("admin", "*")))


@pytest.fixture(scope="module")
def reader(server: Served) -> Browser:
    """Somebody who may read the entities of one namespace."""
    return logged_in(server, member(server.journal, "reader", ("analyst", "*:seen/*")))


@pytest.fixture(scope="module")
def emitter(server: Served) -> Browser:
    """Somebody who may read nothing."""
    return logged_in(server, member(server.journal, "emitter", ("emitter", "*")))


def registered(server: Served, name: str, namespace: str = "pages") -> str:
    """The address of a new entity's page."""
    server.journal.emit(EntityRegistered(dataset(namespace, name), f"About {name}.", SCHEMA, {"team": "blue"}, ["raw"]))
    server.journal.flush()
    return f"/entity/dataset:{namespace}/{name}"


def form_of(page: Element, **fields: str) -> Element:
    """The form of a page whose hidden fields have some values."""
    found = [
        form for form in page.all("form") if all(form.all("input", name=name, value=fields[name]) for name in fields)
    ]
    assert len(found) == 1, (fields, len(found))
    return found[0]


def saved(browser: Browser, answer: Got) -> Element:
    """The page to which an accepted form leads."""
    assert answer.status == 303, answer.body
    page = browser.page(answer.headers["location"])
    assert [said.text for said in page.all("p", role="status")] == ["Saved."]
    return page


def test_a_large_form_is_read_beside_the_loop(root: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[int, str] = {}

    def watched(query: bytes) -> dict[str, str]:
        threads[len(query)] = threading.current_thread().name
        return query_values(query)

    monkeypatch.setattr(site, "query_values", watched)
    for size in (10, 100_000):
        assert root.send("/register", {"a": "x" * size}).status == 403
    small, large = (threads[size + 2] for size in (10, 100_000))
    assert not small.startswith("metajournal-bodies")
    assert large.startswith("metajournal-bodies")


# --- entities


def test_an_entitys_page_shows_both_scopes_apart_its_schema_and_what_to_copy(server: Served, root: Browser) -> None:
    page = root.page(registered(server, "shown"))
    user, system, schema = (
        next(one for one in page.all("section") if one.all("h2")[0].text.startswith(name))
        for name in ("USER", "SYSTEM", "Schema")
    )
    assert "team" in user.text
    assert "raw" in user.text
    assert "About shown." in system.text
    assert "team" not in system.text
    made = next(row for row in system.all("tr") if "creation_time" in row.text)
    assert re.search(r"creation_time\d{13} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC", made.text)
    assert [cell.text for cell in schema.all("td")] == ["total", "double", "who", "string"]
    copies = [one.text for one in page.all("section")[-1].all("pre")]
    assert copies[0] == "dataset:pages/shown"
    assert copies[1].endswith(f" 'http://{server.address}/api/v1/entities/dataset:pages/shown'")
    assert "no owner" in " ".join(page.all("ul", **{"class": "facts"})[0].text.split())


def test_what_to_copy_of_an_earlier_state_asks_for_that_state(server: Served, root: Browser) -> None:
    at, urn = registered(server, "then"), "dataset:pages/then"
    position = str(server.journal.emit(PropertiesSet(dataset("pages", "then"), {"team": "red"})).position)
    server.fold()
    several, time = f"{position},{position}", "2100-01-01T00:00:00Z"
    parse = f"Position.parse('{position}')"
    for query, option, argument in (
        ({"as_at": position}, f"--as-at {position}", f"as_at={parse}"),
        ({"as_at": several}, f"--as-at {several}", f"as_at=[{parse}, {parse}]"),
        ({"as_of": time}, f"--as-of {time}", f"as_of='{time}'"),
    ):
        asked = urlencode(query)
        copies = [one.text for one in root.page(f"{at}?{asked}").all("section", id="copies")[0].all("pre")]
        assert copies[1].endswith(f" 'http://{server.address}/api/v1/entities/{urn}?{asked}'")
        assert copies[2:] == [f"metajournal show {urn} {option}", f"journal.show('{urn}', {argument})"]


def test_a_write_shows_at_once_though_the_stream_stands_still(server: Served, root: Browser) -> None:
    address = registered(server, "edited")
    page = saved(root, root.submit(form_of(root.page(address), do="add-tag"), tag="new one"))
    assert "new one" in page.text
    page = saved(root, root.submit(form_of(page, do="set", named="team"), value="green\nand more"))
    page = saved(root, root.submit(form_of(page, do="remove-tag"), named="raw"))
    form = next(form for form in page.all("form") if form.all("input", name="key"))
    page = saved(root, root.submit(form, key="owner", value="ada"))
    assert "owner ada" in " ".join(page.all("ul", **{"class": "facts"})[0].text.split())
    row = server.journal.follow(dataset("pages", "edited"))
    try:
        last = server.journal.emit(TagsAdded(dataset("pages", "edited"), ["end"])).position
        seen = row.row(dataset("pages", "edited"), at_least=last)
    finally:
        row.close()
    assert seen is not None
    assert seen.user_properties == {"owner": "ada", "team": "green\nand more"}
    assert seen.user_tags == ("end", "new one")
    page = saved(root, root.submit(form_of(page, do="remove", named="team")))
    assert "green" not in page.text


def test_a_value_that_no_form_can_hold_is_not_edited_by_one(server: Served, root: Browser) -> None:
    at = registered(server, "typed")
    server.journal.emit(PropertiesSet(dataset("pages", "typed"), {"nul": "a\0b", "windows": "a\r\nb"})).position  # noqa: B018
    page = root.page(at)
    fields = [form.all("input", name="named")[0].attributes["value"] for form in page.all("form")
              if form.all("input", name="do", value="set") and form.all("input", name="named")]  # fmt: skip
    assert sorted(map(str, fields)) == ["team", "windows"]
    assert "no form can hold" in page.text
    assert "become plain ones (LF)" in page.text
    assert "nul" not in saved(root, root.submit(form_of(page, do="remove", named="nul"))).text


@pytest.mark.parametrize(
    "fields", [{"do": "set", "named": "%ff"}, {"do": "remove", "named": "%ff"}, {"do": "remove-tag", "named": "a%ff"}]
)
def test_a_form_that_is_no_text_is_refused(server: Served, root: Browser, fields: dict[str, str]) -> None:
    page = root.page(registered(server, "no-text"))
    hidden = {name: str(page.all("input", name=name)[0].attributes["value"]) for name in ("token", "expected")}
    answer = root.send("/edit/dataset:pages/no-text", {**hidden, **fields})
    assert answer.status == 400
    assert "not UTF-8" in parsed(answer.body).text
    assert root.page("/entity/dataset:pages/no-text").all("button", name="named", value="raw")


def test_a_change_elsewhere_in_the_entity_does_not_refuse_a_form(server: Served, root: Browser) -> None:
    page = root.page(registered(server, "elsewhere"))
    server.journal.emit(PropertiesSet(dataset("pages", "elsewhere"), {"other": "1"})).position  # noqa: B018
    assert "green" in saved(root, root.submit(form_of(page, do="set", named="team"), value="green")).text


def test_a_change_of_the_same_value_shows_both_and_does_nothing(server: Served, root: Browser) -> None:
    page = root.page(registered(server, "conflict"))
    server.journal.emit(PropertiesSet(dataset("pages", "conflict"), {"team": "red"}), actor="bob").position  # noqa: B018
    answer = root.submit(form_of(page, do="set", named="team"), value="green")
    assert answer.status == 412
    shown = parsed(answer.body)
    assert [cell.text for cell in shown.all("td")] == ["blue", "green", "red"]
    assert "bob" in shown.text
    assert "red" in root.page("/entity/dataset:pages/conflict").text
    assert "green" in saved(root, root.submit(form_of(shown, do="set"))).text


def test_a_new_key_that_somebody_else_set_meanwhile_is_a_conflict_too(server: Served, root: Browser) -> None:
    page = root.page(registered(server, "new-key"))
    server.journal.emit(PropertiesSet(dataset("pages", "new-key"), {"owner": "bob"})).position  # noqa: B018
    form = next(form for form in page.all("form") if form.all("input", name="key"))
    answer = root.submit(form, key="owner", value="ada")
    assert answer.status == 412
    assert [cell.text for cell in parsed(answer.body).all("td")] == ["nothing", "ada", "bob"]


def test_an_entity_is_registered_by_a_form_once(server: Served, root: Browser) -> None:
    form = form_of(root.page("/register"), urn="")
    filled = {"urn": "stream:pages/fresh", "description": "One.", "properties": "a=1\nb=x=y", "tags": "t one\nt two"}
    page = saved(root, root.submit(form, **filled))
    assert page.all("h1")[0].text == "fresh"
    assert "x=y" in page.text
    again = root.submit(form, **{**filled, "description": "Two."})
    assert again.status == 412
    told = parsed(again.body).all("p", role="alert")[0].text
    assert told.startswith("stream:pages/fresh exists already; root changed it last.")
    assert "Two." not in root.page("/entity/stream:pages/fresh").text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"urn": "nonsense"}, "'nonsense' is not a valid URN"), ({"properties": "none"}, "'none' is not a property"),
        ({"urn": "datset:pages/x"}, "did you mean 'dataset'?"), ({"tags": "x" * 2000}, "tags[0]"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_taken_comes_back_as_it_was_filled(
    root: Browser, wrong: dict[str, str], said: str
) -> None:
    filled = {"urn": "stream:pages/bad", "description": "\nOne.\n Two <b>", "properties": "a=1", "tags": "t", **wrong}
    answer = root.submit(form_of(root.page("/register"), urn=""), **filled)
    assert answer.status == 400
    page = parsed(answer.body)
    assert said in page.all("p", role="alert")[0].text
    again = form_of(page, urn=filled["urn"])
    shown = {str(one.attributes["name"]): one.text.removeprefix("\n") for one in again.all("textarea")}
    assert shown == {"schema": "", **{name: text for name, text in filled.items() if name != "urn"}}
    saved(root, root.submit(again, urn="stream:pages/good", properties="a=1", tags="t"))
    assert root.submit(form_of(root.page("/entity/stream:pages/good"), do="delete")).status == 303


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("stream:pages/größe", "Did you mean stream:pages/gr%C3%B6%C3%9Fe?"),
        ("stream:pages/gr%c3%b6ße", "Did you mean stream:pages/gr%C3%B6%C3%9Fe?"),
        ("nonsense", "A URN looks like"), ("stream:pages/%ff", "A URN looks like"),
    ],
)  # fmt: skip
def test_who_types_a_wrong_urn_is_told_how_to_write_it_there(root: Browser, wrong: str, hint: str) -> None:
    answer = root.submit(form_of(root.page("/register"), urn=""), urn=wrong)
    told = parsed(answer.body).all("p", role="alert")[0].text
    assert hint in told
    assert "Python" not in told


def test_a_form_that_cannot_be_taken_and_does_not_come_back_did_nothing(server: Served, root: Browser) -> None:
    page = root.page(registered(server, "bad-form"))
    hidden = {name: str(page.all("input", name=name)[0].attributes["value"]) for name in ("token", "expected")}
    answer = root.send("/edit/dataset:pages/bad-form", {**hidden, "do": "nothing known"})
    assert answer.status == 400
    assert parsed(answer.body).all("h1")[0].text == "Nothing was done"


def test_a_form_whose_outcome_is_not_known_says_neither_saved_nor_refused(
    root: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = form_of(root.page("/register"), urn="")

    async def leaving(self: Writer, verdict: Any) -> None:
        verdict.close()

    monkeypatch.setattr(Writer, "_unless_leaving", leaving)
    answer = root.submit(form, urn="stream:pages/pending")
    assert answer.status == 504
    page = parsed(answer.body).text
    assert "its outcome is not known yet" in page
    assert "Not registered" not in page
    monkeypatch.undo()
    assert "pending" in root.page("/entity/stream:pages/pending").text


def test_a_deleted_entity_says_so_and_is_not_deleted_unseen(server: Served, root: Browser) -> None:
    address = registered(server, "gone")
    old = form_of(root.page(address), do="delete")
    server.journal.emit(TagsAdded(dataset("pages", "gone"), ["x"]), actor="bob").position  # noqa: B018
    stale = root.submit(old)
    assert stale.status == 412
    assert " by bob after you had opened it" in " ".join(parsed(stale.body).text.split())
    answer = root.submit(form_of(root.page(address), do="delete"))
    assert answer.status == 303
    page = root.page(answer.headers["location"], 410)
    assert "was deleted" in page.text
    assert [link.text for link in page.all("main")[0].all("a")] == ["Its history", "Search"]
    assert root.submit(old).status == 412


def test_an_unknown_entity_and_a_bad_name_have_words_of_their_own(root: Browser) -> None:
    absent = root.page("/entity/dataset:pages/nobody", 404).text
    assert "There is nothing here" in absent
    assert absent.count("There is no ") < 2
    assert "cannot be read" in root.page("/entity/dataset", 400).text
    assert "takes no &#39;x&#39;" not in root.page("/?x=1", 400).text


@pytest.mark.parametrize(
    "name", ["a/b", "größe", "50%", "a%2Fb", ".", "..", "?#&", "a b", "x" * 1_005], ids=lambda name: name[:20]
)
def test_any_name_has_a_page_and_links_lead_there(server: Served, root: Browser, name: str) -> None:
    urn = stream("odd names", name)
    server.journal.emit(EntityRegistered(urn))
    server.journal.flush()
    page = root.page(f"/entity?urn={str(urn).replace('%', '%25')}")
    assert page.all("h1")[0].text == name
    history = next(link for link in page.all("a") if link.text == "History").attributes["href"]
    server.fold()
    assert history is not None
    listed = root.page(history)
    assert str(urn) in listed.text
    saved(root, root.submit(form_of(page, do="add-tag"), tag="t"))


def test_history_and_differences_are_shown_newest_first(server: Served, root: Browser) -> None:
    address = registered(server, "changing")
    for number in range(3):
        server.journal.emit(PropertiesSet(dataset("pages", "changing"), {"n": str(number)}))
    server.journal.flush()
    server.fold()
    page = root.page(address.replace("/entity", "/history"))
    changes = [row.all("td")[4].text.split() for row in page.all("tbody")[0].all("tr")]
    assert changes[0] == ["USER", "−", "n", "1", "USER", "+", "n", "2"]
    assert changes[2] == ["USER", "+", "n", "0"]
    radios = [radio.attributes["value"] for radio in page.all("input", type="radio", name="from")]
    assert radios[0] is not None
    assert radios[2] is not None
    shown = root.page(f"/diff?urn=dataset:pages/changing&from={radios[2]}&to={radios[0]}")
    assert [one.text.split()[1:] for one in shown.all("main")[0].all("li")] == [["−", "n", "0"], ["+", "n", "2"]]
    assert re.search(r"UTC\sto\s\d{4}-", shown.all("main")[0].text)


def test_history_goes_back_page_by_page(server: Served, root: Browser) -> None:
    address = registered(server, "long").replace("/entity", "/history")
    for number in range(59):
        server.journal.emit(PropertiesSet(dataset("pages", "long"), {"n": str(number)}))
    server.journal.flush()
    server.fold()
    changes = []
    while address:
        page = root.page(address)
        changes.append(len(page.all("tbody")[0].all("tr")))
        address = next((str(link.attributes["href"]) for link in page.all("a", rel="next")), "")
    assert changes == [25, 25, 10]


def test_an_event_is_found_by_its_id_with_verdict_rows_and_index(server: Served, root: Browser) -> None:
    receipt = server.journal.emit(TagsAdded(dataset("pages", "never"), ["x"]))
    position = receipt.position
    before = root.page(f"/event?event={receipt.event_id}")
    assert "not folded yet" in before.all("h2")[0].text
    assert re.search(r"not folded yet: the stream is (1 event|(?!1 )\d+ events) behind", before.text)
    server.fold()
    for name in (receipt.event_id, str(position)):
        page = root.page(f"/event?event={name}")
        assert page.all("h2")[0].text == "catalog.TagsAdded.1: rejected"
        assert "unknown-entity" in page.text
    assert "Not found" in root.page("/event?event=0192d3a0-0000-7000-8000-000000000000", 404).text
    assert "Not found" in root.page("/event?event=nonsense", 400).text
    assert root.page("/event").all("form", action="/event")


def test_who_may_register_nothing_is_told_which_rights_would_do(server: Served) -> None:
    reader = logged_in(server, member(server.journal, "who-reads", ("analyst", "*")))
    page = reader.page("/register", 403)
    assert "the right to write anything (WriteEntity, WriteFile and so on)" in page.text
    field = reader.page("/").all("input", name="token")[0].attributes["value"]
    answer = reader.send("/register", {"token": str(field), "urn": "dataset:pages/refused"})
    assert "You do not have the right WriteEntity on dataset:pages/refused." in parsed(answer.body).text


def test_who_may_write_and_not_read_is_told_what_became_of_a_form(server: Served, emitter: Browser) -> None:
    answer = emitter.submit(form_of(emitter.page("/register"), urn=""), urn="stream:pages/unread")
    assert answer.status == 200
    page = parsed(answer.body).all("main")[0]
    assert page.all("h1")[0].text == "Saved"
    assert page.all("code")[0].text == "stream:pages/unread"
    assert page.all("p", role="status")[0].text.endswith(": accepted.")
    server.fold()
    shown = emitter.page(str(page.all("a")[0].attributes["href"]))
    assert shown.all("h2")[0].text == "catalog.EntityRegistered.1: accepted"
    assert "stream:pages/unread" in shown.text
    assert emitter.get("/entity/stream:pages/unread").status == 403


def test_the_page_of_events_is_for_everybody_and_tells_each_what_that_one_may_know(
    server: Served, reader: Browser, emitter: Browser
) -> None:
    sent = server.journal.emit(EntityRegistered(dataset("seen", "announced")))
    server.journal.flush()
    server.fold()
    assert "Event" in [link.text for link in emitter.page("/").all("nav")[0].all("a")]
    assert emitter.page("/event").all("form", action="/event")
    at = f"/event?event={sent.event_id}"
    assert reader.page(at).all("h2")[0].text == "catalog.EntityRegistered.1: accepted"
    assert "announced" not in emitter.page(at, 404).text


def test_a_login_comes_back_to_the_page_whose_form_found_no_session(server: Served) -> None:
    key = member(server.journal, "returns", ("admin", "*"))
    browser, at, here = logged_in(server, key), registered(server, "returned-to"), f"http://{server.address}"
    browser.cookie = None
    for referer, back in (
        (f"{here}{at}", at), (f"{here}/search?query=a%20b", "/search?query=a%20b"), ("", "/"), (f"{here}/", "/"),
        (f"https://evil.example{at}", "/"), (f"{here}.evil.example{at}", "/"), (f"{here}//evil.example/", "/"),
        (f"{here}/edit/dataset:pages/returned-to", "/"), (f"{here}/states/dataset:pages/returned-to", "/"),
        (f"{here}/entity/%ff", "/"), (f"{here}/entity/x?a=%ff", "/"), (f"{here}/login?next=/keys", "/"),
    ):  # fmt: skip
        answer = browser.send(at.replace("/entity/", "/edit/"), {"do": "add-tag", "tag": "t"}, Referer=referer)
        assert answer.status == 401
        link = next(link for link in parsed(answer.body).all("a") if link.text == "Log in").attributes["href"]
        assert link == ("/login" if back == "/" else f"/login?{urlencode({'next': back})}"), referer
    form = browser.page(f"/login?{urlencode({'next': at})}").all("form", method="post")[0]
    assert browser.submit(form, key=key).headers["location"] == at


# --- what the index says


def test_what_a_session_has_written_is_in_what_it_opens_next_or_said_to_be_missing(
    server: Served, gateway_settings: Settings
) -> None:
    root = logged_in(server, member(server.journal, "writes", ("admin", "*")))
    at, other = registered(server, "own"), registered(server, "of-others")
    index(server, gateway_settings)
    saved(root, root.submit(form_of(root.page(at), do="add-tag"), tag="mine"))
    searched = ("/", "/keys", "/search?query=own")
    for path in searched:
        assert "does not have your last change yet" in root.page(path).text, path
    assert "your last change" not in root.page("/keys?after=a").text
    for path in ("/history/", "/diff/"):
        assert "does not have your last change yet" in root.page(at.replace("/entity/", path)).text
        assert "your last change" not in root.page(other.replace("/entity/", path)).text
    beside = logged_in(server, member(server.journal, "reads", ("admin", "*")))
    for path in searched:
        assert "your last change" not in beside.page(path).text, path
    assert beside.get(other.replace("/entity/", "/history/")).status == 200
    server.fold()
    shown = root.page(at.replace("/entity/", "/history/")).text
    assert "mine" in shown
    assert "your last change" not in shown
    last = server.journal.emit(TagsAdded(dataset("pages", "own"), ["later"])).position
    load(gateway_settings, [], {(last.topic, last.partition): last.value})
    for path in searched:
        assert "your last change" not in root.page(path).text, path


def test_search_shows_hits_with_marks_facets_and_pages(server: Served, gateway_settings: Settings) -> None:
    root = logged_in(server, member(server.journal, "searches", ("admin", "*")))
    for number in range(25):
        registered(server, f"invoice-{number:02}", "finder")
    registered(server, "invoice-seen", "seen")
    index(server, gateway_settings)
    page = root.page("/search?query=invoice&namespace=finder")
    assert page.all("p", role="status")[0].text == "25 entities"
    hits = page.all("ol")[0].all("a")
    assert len(hits) == 20
    assert page.all("mark")[0].text == "invoice"
    assert len(root.page(str(page.all("a", rel="next")[0].attributes["href"])).all("ol")[0].all("a")) == 5
    narrowed = next(link for link in page.all("a") if link.text == "raw").attributes["href"]
    assert root.page(str(narrowed)).all("p", role="status")[0].text == "25 entities"
    assert "Nothing that you may read matches" in root.page("/search?query=absent-word").text
    assert root.page("/search?query=a&sort=nonsense", 400).all("p", role="alert")
    home = root.page("/")
    assert {"dataset", "finder", "seen"} <= {link.text for link in home.all("td")[0:40] for link in link.all("a")}
    keys = root.page("/keys")
    assert [link.text for link in keys.all("a") if link.text == "team"] == ["team"]


def test_many_runs_leave_room_for_what_else_is_new(server: Served, gateway_settings: Settings) -> None:
    root = logged_in(server, member(server.journal, "at-home", ("admin", "*:homely/*")))
    registered(server, "loaded", "homely")
    for number in range(20):
        server.journal.emit(RunStarted(run("homely", "app", "spark", "load", f"r{number}"), 1_700_000_000_000))
    server.journal.flush()
    index(server, gateway_settings)
    page = root.page("/")
    listed = [one.text.partition(":")[0] for one in page.all("section")[-1].all("li")]
    assert listed == ["run"] * 5 + ["dataset"]
    assert "21 entities: 20 runs and 1 dataset." in page.text
    every = next(str(link.attributes["href"]) for link in page.all("a") if link.text == "All, newest first")
    assert root.page(every).all("p", role="status")[0].text == "21 entities"


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ({"dataset": 1}, "1 dataset"), ({"commit": 992, "branch": 2}, "994 entities: 992 commits and 2 branches"),
        ({"a": 5, "b": 4, "policy": 3, "files": 2, "c": 1}, "15 entities: 5 as, 4 bs, 3 policies, 2 files and 1 other"),
    ],
)  # fmt: skip
def test_entities_are_counted_by_kind_in_words(kinds: dict[str, int], told: str) -> None:
    assert counted(sum(kinds.values()), [Count(*one) for one in kinds.items()]) == told


@pytest.mark.parametrize(("number", "told"), [(0, "0 changes"), (1, "1 change"), (2, "2 changes")])
def test_a_noun_has_the_form_of_its_number(number: int, told: str) -> None:
    text = '{% import "parts.html" as parts %}{{ parts.count(number, "change") }}'
    assert environment((), "").from_string(text).render(number=number) == told


def test_nothing_that_may_not_be_read_shows(
    server: Served, reader: Browser, emitter: Browser, gateway_settings: Settings
) -> None:
    registered(server, "secret-salaries", "hidden")
    registered(server, "open-prices", "seen")
    index(server, gateway_settings)
    for path in ("/", "/search", "/search?query=secret-salaries", "/search?namespace=hidden", "/keys"):
        assert "secret-salaries" not in reader.page(path).all("main")[0].text.replace(path, ""), path
        assert "hidden" not in [cell.text for cell in reader.page(path).all("td")], path
    assert "open-prices" in reader.page("/").text
    for path in ("/entity/dataset:hidden/secret-salaries", "/entity/dataset:hidden/nobody",
                 "/history/dataset:hidden/secret-salaries", "/diff/dataset:hidden/nobody", "/register"):  # fmt: skip
        page = reader.page(path, 403)
        assert "You may not do this" in page.text
    assert "You may read no entity" in emitter.page("/").text
    assert emitter.get("/search").status == emitter.get("/keys").status == 403
    menu = [link.text for link in emitter.page("/").all("nav")[0].all("a")]
    assert "Search" not in menu
    assert "Register" in menu


def test_a_reader_sees_no_form_and_a_forged_one_is_refused(server: Served, reader: Browser) -> None:
    page = reader.page(registered(server, "read-only", "seen"))
    assert {form.attributes["action"] for form in page.all("form")} == {"/search", "/logout"}
    token = {"token": str(page.all("input", name="token")[0].attributes["value"]), "expected": "1"}
    for path in ("/edit/dataset:seen/read-only", "/delete/dataset:seen/read-only", "/edit/dataset:seen/nobody"):
        assert reader.send(path, {**token, "do": "add-tag", "tag": "x"}).status == 403, path
    assert reader.send("/register", {**token, "urn": "dataset:seen/new"}).status == 403


def test_names_are_completed_within_what_may_be_read(
    server: Served, root: Browser, reader: Browser, gateway_settings: Settings
) -> None:
    registered(server, "quartz-hidden", "hidden")
    registered(server, "quartz-open", "seen")
    index(server, gateway_settings)
    shown = [one.attributes["data-text"] for one in parsed(root.get("/suggest?query=quartz").body).all("li")]
    assert shown == ["quartz-hidden", "quartz-open"]
    shown = [one.attributes["data-text"] for one in parsed(reader.get("/suggest?query=quartz").body).all("li")]
    assert shown == ["quartz-open"]
    assert not parsed(root.get("/suggest?query=").body).all()
    assert Browser(server).get("/suggest?query=q", HX_Request="true").status == 401  # nothing to swap in
