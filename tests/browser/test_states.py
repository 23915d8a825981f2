"""What forms, keys, rights and outages lead to, which no address opens: nothing serious is wrong there either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from metajournal import EntityRegistered, PropertiesSet, TagsAdded, dataset
from metajournal.consumers.finding import Looked
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from tests.browser.axe import equip
from tests.browser.conftest import Opens
from tests.browser.looking import wrong_with
from tests.browser.story import ORDERS
from tests.browser.visitor import Visitor
from tests.gateway.browsing import logged_in, member
from tests.gateway.serving import Served, beside


def entity(server: Served, name: str) -> Urn:
    """A new entity that nobody else edits."""
    urn = dataset("states", name)
    server.journal.emit(EntityRegistered(urn, properties={"team": "blue"})).position  # noqa: B018  (acknowledged)
    return urn


def conflict(visitor: Visitor, server: Served) -> None:
    """Somebody else sets the value that one changes."""
    urn = entity(server, "conflict")
    page = visitor.go(f"/entity/{urn}")
    server.journal.emit(PropertiesSet(urn, {"team": "red"}), actor="bob").position  # noqa: B018  (acknowledged)
    save(page, "green")


def save(page: Page, value: str) -> None:
    """Change the property `team` of the entity that is shown."""
    row = page.get_by_role("row", name="team")
    row.get_by_text("Change").click()
    row.get_by_label("New value").fill(value)
    row.get_by_role("button", name="Save").click()


def conflict_of_removal(visitor: Visitor, server: Served) -> None:
    """Somebody else sets the value that one removes."""
    urn = entity(server, "removal")
    page = visitor.go(f"/entity/{urn}")
    server.journal.emit(PropertiesSet(urn, {"team": "red"})).position  # noqa: B018  (acknowledged)
    page.get_by_role("row", name="team").get_by_text("Change").click()
    page.get_by_role("button", name="Remove the property team").click()


def stale_deletion(visitor: Visitor, server: Served) -> None:
    """Somebody else changes the entity that one deletes."""
    urn = entity(server, "deletion")
    page = visitor.go(f"/entity/{urn}")
    server.journal.emit(TagsAdded(urn, ["x"])).position  # noqa: B018  (acknowledged)
    page.get_by_text("Delete this entity").click()
    page.get_by_role("button", name="Delete deletion").click()


def existing(visitor: Visitor, server: Served) -> None:
    """What one registers is there."""
    page = visitor.go("/register")
    page.get_by_label("URN").fill(str(entity(server, "existing")))
    page.get_by_role("main").get_by_role("button", name="Register").click()


def bad_registration(visitor: Visitor, server: Served) -> None:
    page = visitor.go("/register")
    page.get_by_label("URN").fill("nonsense")
    page.get_by_role("main").get_by_role("button", name="Register").click()


def bad_grant(visitor: Visitor, server: Served) -> None:
    page = visitor.go("/access/principals/root")
    page.get_by_role("combobox", name="Role").select_option("analyst")
    page.get_by_label("On", exact=True).fill("dataset:")
    page.get_by_role("button", name="Grant").click()


def bad_role(visitor: Visitor, server: Served) -> None:
    page = visitor.go("/access")
    page.get_by_text("Define a role").click()
    page.get_by_label("Name", exact=True).fill("empty")
    page.get_by_role("button", name="Define").click()


def new_key(visitor: Visitor, server: Served) -> None:
    """A key is shown, this once."""
    page = visitor.go("/access/principals/root")
    page.get_by_label("Label of a new key").fill("tests")
    page.get_by_role("button", name="Make a key").click()


def role_conflict(visitor: Visitor, server: Served) -> None:
    """Somebody else defines the role that one changes."""
    server.journal.access.define_role("states", ["ReadEntity"]).position  # noqa: B018  (acknowledged)
    page = visitor.go("/access/roles/states")
    server.journal.access.define_role("states", ["ReadFile"], actor="bob").position  # noqa: B018  (acknowledged)
    page.get_by_text("Change", exact=True).click()
    page.get_by_label("ReadPipeline").check()
    page.get_by_role("button", name="Save").click()


def earlier(visitor: Visitor, server: Served) -> None:
    """One has gone back in time."""
    page = visitor.go(f"/entity/{ORDERS}")
    slider = page.get_by_label("Its changes, oldest first")
    expect(slider).to_be_visible()
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("row", name="rows")).to_contain_text("10")


def open_forms(visitor: Visitor, server: Served) -> None:
    """All that one may change, or must confirm, is open."""
    page = visitor.go(f"/entity/{ORDERS}")
    for summary in page.locator("summary").all():
        summary.click()
    expect(page.get_by_label("New value")).to_have_count(5)
    expect(page.get_by_role("button", name="Delete orders")).to_be_visible()


def dialog(visitor: Visitor, server: Served) -> None:
    visitor.go("/search?query=orders").keyboard.press("?")
    expect(visitor.page.get_by_role("dialog", name="Shortcuts")).to_be_visible()


def completions(visitor: Visitor, server: Served) -> None:
    """Completions lie over the page, and one of them is chosen."""
    page = visitor.go("/")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    option = page.get_by_role("option", name="orders 1 entity")
    expect(option).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(option).to_have_attribute("aria-selected", "true")


STATES: dict[str, tuple[Callable[[Visitor, Served], None], str]] = {
    "dialog": (dialog, "Go to the search field"),
    "completions": (completions, "Search names, tags"),
    "earlier state": (earlier, "An earlier state, final"),
    "forms": (open_forms, "its history stays"),
    "conflict": (conflict, "Somebody else changed team"),
    "conflict of a removal": (conflict_of_removal, "to remove it"),
    "deletion of what has changed": (stale_deletion, "Look at it again"),
    "registered before": (existing, "It exists already"),
    "bad registration": (bad_registration, "is not a valid URN"),
    "bad grant": (bad_grant, "Not granted"),
    "bad role": (bad_role, "Not defined"),
    "new key": (new_key, "Copy it now"),
    "conflict of a role": (role_conflict, "you have not seen that"),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_nothing_serious_is_wrong_with_what_somebody_reaches(examined: Visitor, server: Served, state: str) -> None:
    reach, text = STATES[state]
    reach(examined, server)
    expect(examined.page.get_by_text(text).first).to_be_visible()
    assert wrong_with(examined) == []


def test_nothing_serious_is_wrong_where_an_answer_is_not_to_be_had(
    examined: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metajournal.consumers.finding.find_event", lambda *_, **__: Looked([], False))
    page = examined.go("/event?event=019aa3a1-5b7c-7def-8123-456789abcdef", 503)
    expect(page.get_by_role("heading", level=1)).to_have_text("This is not available now")
    assert wrong_with(examined) == []


def test_nothing_serious_is_wrong_with_logging_in(visit: Opens) -> None:
    visitor = visit()
    equip(visitor.context)
    page = visitor.go("/keys")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert wrong_with(visitor) == []
    page.get_by_label("Key or one-time code").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("Not logged in")
    assert wrong_with(visitor) == []


def test_nothing_serious_is_wrong_where_one_may_do_nothing(visit: Opens, server: Served) -> None:
    cookie = logged_in(server, member(server.journal, "nobody", ("emitter", "dataset:states/*"))).cookie
    visitor = visit(cookie)
    equip(visitor.context)
    expect(visitor.go("/").get_by_text("You may read no entity")).to_be_visible()
    assert wrong_with(visitor) == []
    for path in ("/entity/dataset:shop/orders", "/pipeline", "/access"):
        expect(visitor.go(path, 403).get_by_role("heading", level=1)).to_have_text("You may not do this")
    assert wrong_with(visitor) == []
    page = visitor.go("/register")
    page.get_by_label("URN").fill("dataset:states/unread")
    page.get_by_role("main").get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Saved")
    assert wrong_with(visitor) == []


_PATIENCE: Final = ("search.searching._REFUSED_S", "search.visible._ASKED_S", "fill.unfinished._ASKED_S")
"""How long an index is asked that refuses connections, seconds: seven in all for the pages here."""


@pytest.fixture(scope="module")
def without_index(server: Served, settings_served: Settings) -> Iterator[str]:
    """The address of another gateway before the same journal, whose index does not answer."""
    away = replace(settings_served.elasticsearch, url="http://127.0.0.1:9")
    with pytest.MonkeyPatch.context() as patience:
        for name in _PATIENCE:
            patience.setattr(f"metajournal.indexer.{name}", 0.1)
        with beside(replace(settings_served, elasticsearch=away)) as address:
            yield f"http://{address}"


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/", 200, "Not available"), ("/search?query=orders", 503, "Not available"), ("/keys", 503, "Not available"),
        ("/pipeline", 200, "index (not known"), (f"/entity/{ORDERS}", 200, "All orders of the shop."),
    ],
)  # fmt: skip
def test_pages_say_what_does_not_answer_and_nothing_serious_is_wrong_with_them(
    visit: Opens, cookie: str, without_index: str, path: str, status: int, text: str
) -> None:
    visitor = visit(base=without_index)
    visitor.take(f"mj-{without_index.rpartition(':')[2]}={cookie.partition('=')[2]}")
    equip(visitor.context)
    expect(visitor.go(path, status).get_by_role("main")).to_contain_text(text)
    assert wrong_with(visitor) == []
