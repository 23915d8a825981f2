"""By keyboard alone: everything is reached, in the order of the page, seen where it is, and sent by Enter."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from metajournal import EntityRegistered, PropertiesSet, dataset
from tests.browser.conftest import Opens
from tests.browser.keyboard import enter, tab, tab_to
from tests.browser.story import NIGHTLY_PROGRAM, ORDERS, TOTALS, Story
from tests.browser.visitor import Visitor
from tests.gateway.serving import Served

_TABS = """() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
  .filter((one) => one.type !== 'hidden' && one.checkVisibility() && !one.disabled)
  .filter((one) => one.type !== 'radio' || one.checked).length"""


@pytest.mark.parametrize("path", ["/", "/search?query=orders", f"/entity/{ORDERS}", f"/history/{ORDERS}", "/register"])
def test_everything_is_reached_in_the_order_of_the_page_and_seen(root: Visitor, path: str) -> None:
    page = root.go(path)
    expect(page.locator("[data-part]:not([data-started])")).to_have_count(0)
    reached = []
    while (focus := tab(page)) is not None:
        reached.append(focus)
    assert len(reached) == page.evaluate(_TABS)
    inside = [one["inside"] for one in reached]
    assert inside == sorted(inside), "the header comes before the page"


def test_the_first_tab_skips_to_the_page(root: Visitor) -> None:
    page = root.go("/search")
    assert tab(page)["text"] == "Skip to the page"
    page.keyboard.press("Enter")
    assert tab(page)["inside"]


def test_somebody_without_a_mouse_logs_in_searches_edits_settles_a_conflict_and_logs_out(
    visit: Opens, key: str, server: Served
) -> None:
    urn = dataset("keyboard", "typed")
    server.journal.emit(EntityRegistered(urn)).position  # noqa: B018  (acknowledged)
    visitor = visit()
    page = visitor.go("/search")
    tab_to(page, "key")
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    tab_to(page, "query")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=str(ORDERS))).to_be_visible()
    enter(page, str(ORDERS))
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    visitor.go(f"/entity/{urn}")
    tab_to(page, "tag")
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    expect(page.locator(".tags")).to_contain_text("by keys")
    tab_to(page, "key")
    page.keyboard.type("team")
    page.keyboard.press("Tab")
    page.keyboard.type("blue")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="team")).to_be_visible()
    tab_to(page, "Change")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("green")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="team")).to_contain_text("green")
    server.journal.emit(PropertiesSet(urn, {"team": "red"})).position  # noqa: B018  (acknowledged)
    enter(page, "Change")
    tab_to(page, "value")
    page.keyboard.press("Control+A")
    page.keyboard.type("gold")
    enter(page, "Save")
    expect(page.get_by_role("heading", level=1)).to_have_text("It has changed meanwhile")
    expect(page.get_by_role("cell")).to_have_text(["green", "gold", "red"])
    tab_to(page, "value")
    page.keyboard.press("End")
    page.keyboard.type("en")
    enter(page, "Save this value anyway")
    expect(page.get_by_role("row", name="team")).to_contain_text("golden")
    enter(page, "Newest event")
    expect(page.get_by_role("heading", level=2)).to_have_text("catalog.PropertiesSet.1: not folded yet")
    expect(page.get_by_role("row", name="Actor")).to_contain_text("root")
    enter(page, "Log out")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_who_sees_a_conflict_leaves_it_without_a_mouse(root: Visitor, server: Served) -> None:
    urn = dataset("keyboard", "left")
    server.journal.emit(EntityRegistered(urn, properties={"team": "blue"})).position  # noqa: B018  (acknowledged)
    page = root.go(f"/entity/{urn}")
    server.journal.emit(PropertiesSet(urn, {"team": "red"})).position  # noqa: B018  (acknowledged)
    enter(page, "Change")
    tab_to(page, "value")
    page.keyboard.press("Control+A")
    page.keyboard.type("green")
    enter(page, "Save")
    expect(page.get_by_role("heading", level=1)).to_have_text("It has changed meanwhile")
    enter(page, "Leave it as it is now")
    expect(page.get_by_role("row", name="team")).to_contain_text("red")


def test_the_four_interactions_need_no_mouse(root: Visitor) -> None:
    """From a word to a key, who has it and its lineage; from there to a program's runs and the metadata of one."""
    page = root.go("/")
    tab_to(page, "query")
    page.keyboard.type("tea")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Keys that begin so")).to_be_visible()
    enter(page, "team")
    expect(page.locator("ol.hits").get_by_role("link")).to_have_text([str(ORDERS), str(TOTALS)])
    enter(page, str(ORDERS))
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    enter(page, "More levels, interval and direction")
    expect(page.get_by_label("From")).to_be_visible()
    tab_to(page, "start")
    page.keyboard.type("2023-11-14")
    tab_to(page, "end")
    page.keyboard.type("2023-11-15")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main").get_by_role("table")).to_contain_text(str(NIGHTLY_PROGRAM))
    enter(page, "runs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    enter(page, "r1")
    recorded = page.locator("section", has=page.get_by_role("heading", name="Recorded with the accesses, USER"))
    expect(recorded.get_by_role("row")).to_have_text(["enginespark"])


def test_what_became_of_an_event_is_found_without_a_mouse(root: Visitor, story: Story) -> None:
    page = root.go("/pipeline")
    enter(page, "Event")
    expect(page.get_by_role("heading", level=1)).to_have_text("Event")
    tab_to(page, "event")
    page.keyboard.type(story.rejected)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_have_text("catalog.TagsAdded.1: rejected")
    expect(page.get_by_role("main")).to_contain_text("Reason: unknown-entity")


def test_keys_completions_and_metadata_need_no_mouse(root: Visitor) -> None:
    page = root.go("/keys")
    enter(page, "rate")
    expect(page.locator("ol.hits").get_by_role("link")).to_have_text(["stream:shop/clicks"])
    page = root.go("/search")
    page.get_by_label("Words").focus()
    page.keyboard.type("tot")
    expect(page.get_by_role("listbox", name="Completions").get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("ol.hits").get_by_role("link").first).to_have_text(str(TOTALS))
    page = root.go(f"/entity/{NIGHTLY_PROGRAM}")
    enter(page, "Metadata")
    expect(page.locator("#metadata")).to_be_in_viewport()
