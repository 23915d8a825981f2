"""Search without loading the page anew: as one types and by facets, with the address in step."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.keyboard import tab
from tests.browser.visitor import Visitor

pytestmark = pytest.mark.services


def mark(page: Page) -> None:
    """Something that only this load of the page has."""
    page.evaluate("document.body.dataset.loaded = 'once'")


def expect_same_load(page: Page) -> None:
    expect(page.locator("body")).to_have_attribute("data-loaded", "once")


def test_hits_come_as_one_types_without_a_view_held_open(root: Visitor) -> None:
    page = root.go("/search")
    mark(page)
    page.locator("#query").focus()
    with page.expect_request(lambda request: "typing=1" in request.url):
        page.keyboard.type("orders", delay=30)
    expect(page.locator("#results [role=status]")).to_have_text("1 entity")
    expect(page).to_have_url(f"{root.base}/search?query=orders&sort=relevance")
    expect(page.locator("#query")).to_be_focused()
    expect_same_load(page)


def test_many_hits_while_typing_lead_to_all_of_them(root: Visitor) -> None:
    page = root.go("/search")
    page.locator("#query").press_sequentially("lake OR shop OR hostile OR nobody OR dataset*")
    page.get_by_role("link", name="All of them, page by page").click()
    expect(page.get_by_role("link", name="Next page")).to_be_visible()


def test_facets_narrow_without_a_load_and_the_way_back_works(root: Visitor) -> None:
    page = root.go("/search?query=tags:sales")
    mark(page)
    status = page.locator("#results [role=status]")
    expect(status).to_have_text("2 entities")
    page.locator("#results td").get_by_role("link", name="raw", exact=True).click()
    expect(page.locator("#query")).to_have_value('tags:sales +tags:"raw"')
    expect(page.locator("#results")).to_contain_text("tag: raw")
    page.locator("#results td").get_by_role("link", name="shop", exact=True).press("Enter")
    expect(page.locator("#results .tags li")).to_contain_text("namespace: shop")
    expect(page.locator("#results")).to_be_focused()
    assert tab(page)["text"] == "remove"
    expect(status).to_have_text("1 entity")
    assert "namespace=shop" in root.path
    page.go_back()
    page.go_back()
    expect(status).to_have_text("2 entities")
    expect(page.locator("#query")).to_have_value("tags:sales")
    assert root.path == "/search?query=tags:sales"
    expect_same_load(page)


def test_a_query_that_cannot_be_says_so_without_a_load(root: Visitor) -> None:
    page = root.go("/search")
    mark(page)
    page.locator("#query").evaluate("(field) => { field.value = 'x'.repeat(9000) }")
    page.locator("#query").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#results [role=alert]")).to_contain_text("9,000 characters")
    expect_same_load(page)
    root.faults[:] = [fault for fault in root.faults if "400" not in fault]  # the query's own answer
