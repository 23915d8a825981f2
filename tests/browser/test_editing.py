"""Editing in place: what is saved shows at once, and what somebody else did meanwhile is shown, not overwritten."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from metajournal import EntityRegistered, PropertiesSet, dataset
from metajournal.schemas.urn import Urn
from tests.browser.conftest import Opens
from tests.browser.visitor import Visitor
from tests.gateway.serving import Served

LINES = "green\n  and  more\n\n<b>"


@pytest.fixture
def urn(server: Served, request: pytest.FixtureRequest) -> Urn:
    """A new entity, of this test alone."""
    urn = dataset("edited", request.node.name)
    server.journal.emit(EntityRegistered(urn, None, None, {"team": "blue"}, ["raw"])).position  # noqa: B018  (waits)
    return urn


def change(page: Page, key: str, value: str) -> None:
    """Change a property in its place."""
    row = page.get_by_role("row", name=key)
    row.get_by_text("Change", exact=True).click()
    row.get_by_label("New value").fill(value)
    row.get_by_role("button", name="Save").click()


def test_what_is_saved_shows_at_once_though_the_stream_stands_still(root: Visitor, urn: Urn) -> None:
    page = root.go(f"/entity/{urn}")
    change(page, "team", LINES)
    expect(page.get_by_role("status").first).to_have_text("Saved.")
    expect(page.get_by_role("row", name="team").locator(".text")).to_have_text(LINES, use_inner_text=True)
    page.get_by_label("New tag").fill("new one")
    page.get_by_role("button", name="Add tag").click()
    expect(page.locator(".tags li")).to_contain_text(["new one", "raw"])
    page.get_by_role("button", name="Remove the tag raw").click()
    expect(page.locator(".tags li")).to_have_count(1)
    page.get_by_label("New key").fill("owner")
    page.get_by_label("Value", exact=True).fill("ada")
    page.get_by_role("button", name="Add property").click()
    expect(page.locator(".facts").first).to_contain_text("owner ada")
    page.get_by_role("row", name="team").get_by_text("Change", exact=True).click()
    page.get_by_role("button", name="Remove the property team").click()
    expect(page.get_by_role("rowheader", name="team")).to_have_count(0)


def test_a_change_elsewhere_in_the_entity_is_no_conflict(root: Visitor, server: Served, urn: Urn) -> None:
    page = root.go(f"/entity/{urn}")
    server.journal.emit(PropertiesSet(urn, {"other": "1"})).position  # noqa: B018  (acknowledged)
    change(page, "team", "green")
    expect(page.get_by_role("status").first).to_have_text("Saved.")
    expect(page.get_by_role("row", name="other")).to_be_visible()


def test_two_who_change_one_value_see_both_and_the_second_decides(visit: Opens, cookie: str, urn: Urn) -> None:
    first, second = visit(cookie), visit(cookie)
    first.go(f"/entity/{urn}")
    page = second.go(f"/entity/{urn}")
    change(first.page, "team", "red")
    expect(first.page.get_by_role("status").first).to_have_text("Saved.")
    change(page, "team", "green")
    expect(page.get_by_role("heading", level=1)).to_have_text("It has changed meanwhile")
    expect(page.get_by_role("cell")).to_have_text(["blue", "green", "red"])
    first.page.reload()
    expect(first.page.get_by_role("row", name="team")).to_contain_text("red")
    expect(page.get_by_label("New value")).to_have_value("green")
    page.get_by_role("button", name="Save this value anyway").click()
    expect(page.get_by_role("row", name="team")).to_contain_text("green")


def test_who_sees_a_conflict_may_leave_it(root: Visitor, server: Served, urn: Urn) -> None:
    page = root.go(f"/entity/{urn}")
    server.journal.emit(PropertiesSet(urn, {"team": "red"})).position  # noqa: B018  (acknowledged)
    change(page, "team", "green")
    page.get_by_role("link", name="Leave it as it is now").click()
    expect(page.get_by_role("row", name="team")).to_contain_text("red")


def test_an_entity_is_registered_and_deleted_by_forms(root: Visitor) -> None:
    page = root.go("/register")
    page.get_by_label("URN").fill("stream:edited/fresh")
    page.get_by_label("Description").fill("Of today.")
    page.get_by_label("Properties").fill("a=1\nsum=x=y")
    page.get_by_label("Tags").fill("t one\nt two")
    page.get_by_role("main").get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("fresh")
    expect(page.get_by_role("row", name="sum")).to_contain_text("x=y")
    page.get_by_text("Delete this entity").click()
    page.get_by_role("button", name="Delete fresh").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("fresh was deleted")


def test_a_stolen_token_of_another_session_sends_nothing(visit: Opens, cookie: str, urn: Urn) -> None:
    visitor = visit(cookie)
    page = visitor.go(f"/entity/{urn}")
    page.evaluate("for (const one of document.getElementsByName('token')) one.value = '00'.repeat(64)")
    page.get_by_label("New tag").fill("forged")
    page.get_by_role("button", name="Add tag").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("You may not do this")
    expect(visitor.go(f"/entity/{urn}").get_by_text("forged")).to_have_count(0)
