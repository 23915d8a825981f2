"""Changes on pages as they come: seen once, in order, through pauses, hidden tabs and restarts of the server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from metajournal import EntityRegistered, Journal, TagsAdded, dataset
from metajournal.commands.serving import principals_of
from metajournal.gateway.feed import reader
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from metajournal.stack.ports import free_ports
from tests.browser.keyboard import enter, tab
from tests.browser.visitor import Visitor
from tests.gateway.browsing import logged_in, member
from tests.gateway.feeding import publisher
from tests.gateway.serving import Served, running, served, settings_of_server
from tests.leaving import leave
from tests.repositories.staying import committed, created
from tests.services import Services

pytestmark = pytest.mark.services
PREFIX = "\u202etag-"
NOTE_BEATS = """
const Before = EventSource;
window.EventSource = class extends Before {
  constructor(...all) {
    super(...all);
    this.addEventListener("beat", ({ lastEventId }) => { document.documentElement.dataset.place = lastEventId; });
  }
};
"""
"""Has a page bear the place of the last beat."""


@pytest.fixture(scope="module")
def publishing(chromium: Any, services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of an installation whose stream publishes what it folds, at a port that stays."""
    own = settings_of_server(services, tmp_path_factory.mktemp("live"))
    own = replace(own, gateway=replace(own.gateway, port=free_ports(1)[0]))
    ensure_topics(own)
    yield own
    leave(own)


@pytest.fixture(scope="module")
def server(publishing: Settings) -> Iterator[Served]:
    with served(publishing, real=True, topics=publisher(publishing)) as found:
        yield found


@pytest.fixture(scope="module")
def story() -> None:
    """What each test tells is all there is."""


@pytest.fixture(scope="module")
def cookie(server: Served) -> str:
    cookie = logged_in(server, member(server.journal, "root", ("admin", "*"))).cookie
    assert cookie is not None
    return cookie


def tag(server: Served, urn: Urn, *names: str) -> None:
    """One published change for each name."""
    server.journal.emit(EntityRegistered(urn))
    for name in names:
        server.journal.emit(TagsAdded(urn, [PREFIX + name]))
    server.journal.flush()
    server.fold()


def seen(names: list[str]) -> list[str]:
    """What the list shows of changes, the newest first."""
    return [f"USER + tag ⟨U+202E⟩tag-{name}" for name in reversed(names)]


def live(visitor: Visitor) -> Locator:
    section = visitor.page.locator("section[data-part=live]")
    expect(section.get_by_role("status")).to_contain_text("Live.")
    return section


def test_a_change_is_seen_once_on_the_page_of_its_entity_and_on_no_other(root: Visitor, server: Served) -> None:
    urn = dataset("live", "one")
    tag(server, urn)
    root.go(f"/entity/{urn}")
    section = live(root)
    expect(section.get_by_role("status")).to_have_text("Live. 0 changes.")
    tag(server, dataset("live", "one-more"), "other")
    tag(server, urn, "a", "b")
    expect(section.locator("ol li li")).to_have_text(seen(["a", "b"]))
    expect(section.get_by_role("status")).to_have_text("Live. 2 changes.")
    section.locator("ol > li > a").first.click()
    expect(root.page.locator("h1")).to_have_text("Event")


def test_a_change_that_is_published_before_the_connection_is_there_is_not_missed(root: Visitor, server: Served) -> None:
    urn = dataset("live", "early")
    tag(server, urn)

    def late(route: Any) -> None:
        tag(server, urn, "early")
        route.continue_()

    root.page.route("**/feed?*", late, times=1)
    root.go(f"/entity/{urn}")
    expect(live(root).locator("ol li li")).to_have_text(seen(["early"]))


def test_what_comes_in_a_pause_is_counted_and_shown_when_it_goes_on(root: Visitor, server: Served) -> None:
    urn = dataset("live", "paused")
    tag(server, urn)
    root.go(f"/entity/{urn}")
    section = live(root)
    section.get_by_role("button", name="Pause").click()
    tag(server, urn, "a", "b")
    expect(section.get_by_role("status")).to_have_text("Paused; 2 changes waiting.")
    expect(section.locator("ol li")).to_have_count(0)
    section.get_by_role("button", name="Go on").click()
    expect(section.locator("ol li li")).to_have_text(seen(["a", "b"]))


def test_a_hidden_tab_has_no_connection_and_misses_nothing(root: Visitor, server: Served) -> None:
    urn = dataset("live", "hidden")
    tag(server, urn)
    root.go(f"/entity/{urn}")
    section = live(root)
    tag(server, urn, "a")
    expect(section.locator("ol li li")).to_have_text(seen(["a"]))
    with root.page.expect_event("requestfailed", lambda request: "/feed?" in request.url):
        hide(root, hidden=True)
    tag(server, urn, "b", "c")
    expect(section.locator("ol li li")).to_have_text(seen(["a"]))
    with root.page.expect_request("**/feed?*"):
        hide(root, hidden=False)
    expect(section.locator("ol li li")).to_have_text(seen(["a", "b", "c"]))


def test_a_tab_that_is_shown_again_asks_from_where_it_was(
    root: Visitor, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from where its page was loaded, which Kafka may not have any longer: beats move its place on."""
    monkeypatch.setattr(reader, "BEAT_S", 0.1)
    urn = dataset("live", "quiet")
    tag(server, urn)
    root.page.add_init_script(NOTE_BEATS)
    root.go(f"/entity/{urn}")
    loaded = live(root).get_attribute("data-after")
    assert loaded
    tag(server, dataset("live", "elsewhere"), "a")
    html = root.page.locator("html")
    expect(html).to_have_attribute("data-place", re.compile(f"^(?!{re.escape(loaded)}$)."))
    with root.page.expect_event("requestfailed", lambda request: "/feed?" in request.url):
        hide(root, hidden=True)
    with root.page.expect_request("**/feed?*") as asked:
        hide(root, hidden=False)
    assert parse_qs(urlsplit(asked.value.url).query)["after"] == [html.get_attribute("data-place")]


def hide(visitor: Visitor, *, hidden: bool) -> None:
    """What the browser says to a page whose tab is hidden or shown."""
    visitor.page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')) }",
        hidden,
    )


def test_a_gap_is_marked_as_missed(root: Visitor, server: Served) -> None:
    urn = dataset("live", "gap")
    tag(server, urn)
    gone = partial(re.sub, "after=[^&]*", "after=1~catalog:0000.1.1")
    root.page.route("**/feed?*", lambda route: route.continue_(url=gone(route.request.url)), times=1)
    root.go(f"/entity/{urn}")
    missed = live(root).locator("li.missed")
    expect(missed).to_contain_text("Missed:")
    expect(missed.get_by_role("link")).to_have_text("Load the page again")


def test_whose_session_ends_is_told_so_and_logs_in_again(visit: Any, server: Served) -> None:
    urn = dataset("live", "session")
    tag(server, urn)
    visitor = visit(logged_in(server, member(server.journal, "leaving", ("analyst", "*"))).cookie)
    visitor.go(f"/entity/{urn}")
    section = live(visitor)
    server.journal.access.disable("leaving")
    expect(section.get_by_role("status")).to_have_text("You are logged out. Log in again")
    section.get_by_role("link", name="Log in again").click()
    expect(visitor.page).to_have_url(re.compile("/login"))
    visitor.faults[:] = [fault for fault in visitor.faults if "401" not in fault]


def test_a_branch_is_watched_by_keyboard_alone(root: Visitor, server: Served) -> None:
    """To its repository's page, where its commits come, wait in a pause, and lead to their events."""
    created(server.journal, "watched")
    branch = server.journal.repositories["watched"].branch("main")
    committed(branch, "raw/0.csv")
    server.fold()
    page = root.go("/repositories")
    enter(page, "watched")
    expect(page.get_by_role("heading", level=1)).to_have_text("watched")
    enter(page, "main")
    expect(page.get_by_role("heading", name="Log of main")).to_be_visible()
    section = live(root)
    committed(branch, "raw/1.csv")
    server.fold()
    expect(section.locator("ol li li")).to_have_text(["Committed: m", "ObjectsWritten"])
    enter(page, "Pause")
    committed(branch, "raw/2.csv")
    server.fold()
    expect(section.get_by_role("status")).to_have_text("Paused; 2 changes waiting.")
    button = section.get_by_role("button", name="Go on")
    expect(button).to_be_focused()
    assert button.get_attribute("aria-pressed") is None, "its name says what it does, not what it has done"
    page.keyboard.press("Enter")
    expect(section.locator("ol li li")).to_have_text(["Committed: m", "ObjectsWritten"] * 2)
    tab(page)
    newest = section.locator("ol > li > a").first.get_attribute("href")
    committed(branch, "raw/3.csv")
    server.fold()
    expect(section.locator("ol li li")).to_have_count(6)
    expect(section.locator(f'a[href="{newest}"]')).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_have_text("repositories.Committed.1: accepted")


def test_changes_go_on_through_a_restart_of_the_server(visit: Any, server: Served, publishing: Settings) -> None:
    """Another process takes the port over: what was published meanwhile is seen, each once."""
    urn = dataset("live", "restart")
    tag(server, urn)
    with Journal.connect(publishing) as journal:
        port = free_ports(1)[0]
        own = replace(publishing, gateway=replace(publishing.gateway, port=port))
        principals = principals_of(journal, 30)
        with running(journal, principals, own) as address:
            key = member(server.journal, "restarted", ("analyst", "*"))
            visitor = visit(logged_in(server, key, address).cookie, base=f"http://{address}")
            visitor.go(f"/entity/{urn}")
            section = live(visitor)
            tag(server, urn, "before")
            expect(section.locator("ol li li")).to_have_text(seen(["before"]))
        expect(section.get_by_role("status")).to_contain_text("Not connected")
        tag(server, urn, "meanwhile")
        with running(journal, principals, own):
            tag(server, urn, "after")
            expect(section.locator("ol li li")).to_have_text(seen(["before", "meanwhile", "after"]))
            expect(section.get_by_role("status")).to_have_text("Live. 3 changes.")
        principals.close()
    gone = [fault for fault in visitor.faults if "ERR_CONNECTION_REFUSED" in fault or "ERR_INCOMPLETE" in fault]
    visitor.faults[:] = [fault for fault in visitor.faults if fault not in gone]
