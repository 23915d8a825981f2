"""The keyboard alone: to the search field, through hits, to the list of keys; typing is left alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor

pytestmark = pytest.mark.services


def test_a_hit_is_found_and_opened_by_keyboard_alone(root: Visitor) -> None:
    root.go("/search")
    keyboard = root.page.keyboard
    keyboard.press("/")
    expect(root.page.locator("#query")).to_be_focused()
    keyboard.type("orders")
    keyboard.press("Enter")
    expect(root.page.locator("#results [role=status]")).to_have_text("1 entity")
    keyboard.press("Escape")
    keyboard.press("ArrowDown")
    expect(root.page.get_by_role("link", name="dataset:shop/orders")).to_be_focused()
    keyboard.press("Enter")
    expect(root.page.locator("h1")).to_have_text("orders")


def test_arrows_go_through_hits_and_stay_at_the_ends(root: Visitor) -> None:
    root.go("/search?query=shop&sort=name")
    hits = root.page.locator("ol[data-hits] > li > a")
    keyboard = root.page.keyboard
    keyboard.press("ArrowDown")
    expect(hits.nth(0)).to_be_focused()
    keyboard.press("ArrowDown")
    expect(hits.nth(1)).to_be_focused()
    keyboard.press("ArrowUp")
    keyboard.press("ArrowUp")
    expect(hits.nth(0)).to_be_focused()


def test_completions_are_chosen_by_arrows(root: Visitor) -> None:
    root.go("/")
    root.page.keyboard.press("/")
    root.page.keyboard.type("ord")
    option = root.page.get_by_role("option", name="orders 1 entity")
    expect(option).to_be_visible()
    root.page.keyboard.press("Escape")
    expect(option).to_be_hidden()
    expect(root.page.locator("#query")).to_be_focused()
    root.page.keyboard.type("e")
    expect(option).to_be_visible()
    root.page.keyboard.press("ArrowDown")
    expect(option).to_have_attribute("aria-selected", "true")
    root.page.keyboard.press("Enter")
    expect(root.page.locator("#results [role=status]")).to_have_text("1 entity")
    expect(root.page.locator("#query")).to_have_value("orders")
    assert root.path.startswith("/search?query=orders")


def test_the_keys_are_listed_and_the_list_closes(root: Visitor) -> None:
    root.go("/pipeline")
    dialog = root.page.get_by_role("dialog", name="Shortcuts")
    root.page.keyboard.press("?")
    expect(dialog).to_be_visible()
    root.page.keyboard.press("/")
    expect(dialog).to_be_visible()
    root.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    root.page.get_by_role("button", name="Shortcuts").click()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_who_types_is_left_alone(root: Visitor) -> None:
    root.go("/register")
    field = root.page.locator("main textarea").first
    field.focus()
    root.page.keyboard.type("a/b?")
    expect(field).to_have_value("a/b?")
    expect(root.page.get_by_role("dialog", name="Shortcuts")).to_be_hidden()


def test_keys_of_the_browser_are_its_own(root: Visitor) -> None:
    root.go("/search?query=shop")
    root.page.keyboard.press("Control+/")
    expect(root.page.locator("#query")).not_to_be_focused()
