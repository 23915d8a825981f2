"""Travel in time: changes, two states compared, lineage as it was recorded, and the event that did it."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.story import NIGHTLY_PROGRAM, ORDERS
from tests.browser.visitor import Visitor


def test_two_states_of_an_entity_are_chosen_and_compared(root: Visitor) -> None:
    page = root.go(f"/entity/{ORDERS}")
    page.get_by_role("link", name="History").click()
    changes = page.locator("tbody tr")
    expect(changes).to_have_count(3)
    expect(changes.first).to_contain_text("− rows 10")
    expect(changes.first).to_contain_text("+ rows 20")
    expect(changes.first).to_contain_text("bob")
    changes.last.get_by_role("radio", name="From").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Two states")
    expect(page.locator("main li")).to_have_text(["USER + rows 20"])
    page.go_back()
    page.get_by_role("radio", name="To").nth(1).check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("main li")).to_have_text(["USER + rows 10"])


def test_a_change_leads_to_its_event(root: Visitor) -> None:
    page = root.go(f"/history/{ORDERS}")
    page.locator("tbody tr").first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=2)).to_have_text("catalog.PropertiesSet.1: accepted")
    expect(page.get_by_role("row", name="Actor")).to_contain_text("bob")


def test_lineage_is_shown_as_it_was_recorded(root: Visitor) -> None:
    page = root.go(f"/lineage/{ORDERS}")
    expect(page.get_by_role("main")).to_contain_text(str(NIGHTLY_PROGRAM))
    page.get_by_label("As at").fill("2001-01-01")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("No program is known")
    expect(page.get_by_label("As at")).to_have_value("2001-01-01")
