"""The slider over an entity's changes: each place shows a state, its address can be shared, and the way back works."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.story import GONE, ORDERS
from tests.browser.visitor import Visitor

pytestmark = pytest.mark.services


def slider(visitor: Visitor) -> Locator:
    found = visitor.page.get_by_label("Its changes, oldest first")
    expect(found).to_be_visible()
    return found


def rows(visitor: Visitor) -> Locator:
    """The cell of the property `rows`, which two changes wrote."""
    return visitor.page.locator("#state tr", has=visitor.page.get_by_role("link", name="rows", exact=True)).locator(
        "td"
    )


def test_states_are_walked_by_keyboard_and_their_addresses_lead_back(root: Visitor) -> None:
    root.go(f"/entity/{ORDERS}")
    expect(slider(root)).to_have_attribute("aria-valuetext", "The newest state")
    slider(root).focus()
    root.page.keyboard.press("ArrowLeft")
    root.page.keyboard.press("ArrowLeft")
    expect(rows(root)).to_have_text("10")
    expect(slider(root)).to_be_focused()
    expect(root.page.locator("#state")).to_contain_text("An earlier state, final.")
    expect(root.page.locator("#state form")).to_have_count(0)
    assert "as_at=" in root.path
    expect(root.page.locator("#copies pre").nth(2)).to_contain_text(" --as-at ")
    expect(root.page.locator("#copies").get_by_role("button")).to_have_count(4)
    earlier = root.path
    slider(root).focus()
    root.page.keyboard.press("Home")
    expect(rows(root)).to_have_count(0)
    root.page.go_back()
    expect(rows(root)).to_have_text("10")
    assert root.path == earlier
    root.go(earlier)
    expect(rows(root)).to_have_text("10")
    root.page.get_by_role("link", name="The newest state").click()
    expect(root.page.get_by_role("button", name="Add tag")).to_be_visible()


def test_the_state_of_a_deletion_says_that_nothing_was_there(root: Visitor) -> None:
    root.go(f"/entity/{GONE}", 410)
    root.page.get_by_role("link", name="Its history").click()
    root.page.get_by_role("link", name="State then").last.click()
    expect(root.page.locator("h1")).to_have_text("gone")
    slider(root).focus()
    root.page.keyboard.press("ArrowRight")
    expect(root.page.locator("#state")).to_contain_text("was not there then")
    root.faults[:] = [fault for fault in root.faults if "404" not in fault]  # the state's own answer
