"""Metadata is text in a real browser too: whatever stands in any place of it, no page makes a dialog, a request, an
element or a link of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect

from metajournal import dataset
from metajournal.gateway.templates import visible
from tests.browser.story import ORDERS, hostile_run
from tests.browser.visitor import Visitor
from tests.gateway.test_pages_hostile import HOSTILE

TEXTS = pytest.mark.parametrize("number", range(len(HOSTILE)))
ALL = "".join(one for one in HOSTILE if one.isprintable())
"""Of all that can be typed, so that each begins where another one has opened something."""
_FOREIGN = """() => [
  "img, svg:not(.graph), base, iframe, object, embed, style, b, [onerror], [onload], [onmouseover], [onclick]",
  "body script, script:not([src^='/assets/'])", "a:not([href^='/']):not([href^='#'])", "form:not([action^='/'])",
].flatMap((one) => [...document.querySelectorAll(one)].map((element) => element.outerHTML))"""


def foreign(page: Page) -> Any:
    """The elements and links that came of texts; the watch sees what they would do."""
    return page.evaluate(_FOREIGN)


@TEXTS
def test_hostile_texts_of_an_entity_and_its_runs_are_texts(reading: Visitor, number: int) -> None:
    text = HOSTILE[number]
    shown, urn = visible(text), quote(str(dataset(text, text)), safe="")
    page = reading.go(f"/entity?urn={urn}")
    expect(page.get_by_role("heading", level=1)).to_have_text(shown)
    expect(page.locator("#metadata").get_by_role("rowheader").filter(has_text=shown)).to_have_count(1)
    assert foreign(page) == []
    for summary in page.locator("summary").all():
        summary.click()
    assert foreign(page) == []
    for path in (f"/history?urn={urn}", f"/diff?urn={urn}", f"/lineage?urn={urn}"):
        expect(reading.go(path).get_by_role("main")).to_contain_text(shown)
        assert foreign(page) == []
    expect(reading.go(f"/lineage?urn={quote(str(hostile_run(number)), safe='')}").locator("h1")).to_contain_text(shown)
    assert foreign(page) == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/search", "query"), ("/search", "namespace"), ("/search", "sort"), ("/keys", "prefix"), ("/event", "event"),
        ("/register", "entity"), ("/entity", "urn"), ("/files", "start"), ("/history", "before"), ("/", "x"),
        ("/repositories/prices", "ref"), ("/login", "next"),
    ],
)  # fmt: skip
def test_a_hostile_question_and_what_is_wrong_with_it_are_texts(reading: Visitor, path: str, name: str) -> None:
    reading.page.goto(f"{reading.base}{path}?{urlencode({name: ALL})}")
    expect(reading.page.get_by_role("heading", level=1)).to_be_visible()
    assert foreign(reading.page) == []


def test_a_hostile_address_is_a_text(reading: Visitor) -> None:
    reading.go(f"/{quote(ALL, safe='')}", 404)
    assert foreign(reading.page) == []


def test_hostile_hits_keys_rejections_and_objects_are_texts(reading: Visitor) -> None:
    of_branch = "/repositories/prices/objects?ref=main"
    for path in ("/search?query=alert", "/search?query=see", "/keys", "/pipeline", of_branch):
        page = reading.go(path)
        expect(page.get_by_role("main")).to_contain_text("alert(1)")
        assert foreign(page) == []


def test_hostile_texts_are_completed_as_texts(root: Visitor) -> None:
    page = root.go("/search")
    page.get_by_label("Words").press_sequentially("<script")
    expect(page.get_by_role("option").first).to_have_attribute("data-text", HOSTILE[0])
    assert foreign(page) == []


def test_hostile_texts_are_saved_as_they_were_typed(root: Visitor) -> None:
    page = root.go("/register")
    page.get_by_label("URN").fill(ALL)
    page.get_by_label("Tags").fill(ALL)
    page.get_by_role("main").get_by_role("button", name="Register").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a valid URN")
    expect(page.get_by_label("Tags")).to_have_value(ALL)
    assert foreign(page) == []
    page = root.go("/entity/dataset:lake/d0")
    for text in (*HOSTILE[:5], ALL):
        page.get_by_label("New key").fill(text)
        page.get_by_label("Value", exact=True).fill(text)
        page.get_by_role("button", name="Add property").click()
        expect(page.get_by_role("rowheader").get_by_text(text, exact=True)).to_have_count(1)
        assert foreign(page) == []


def test_only_addresses_of_the_web_are_links_and_they_say_nothing_of_where_they_stand(reading: Visitor) -> None:
    page = reading.go(f"/entity/{ORDERS}")
    row = page.get_by_role("row", name="wiki")
    expect(row.get_by_role("link", name="https://wiki.example/orders")).to_have_attribute(
        "rel", "noreferrer noopener nofollow"
    )
    row = page.get_by_role("row", name="code")
    expect(row).to_contain_text("javascript:alert(1)")
    expect(row.get_by_role("cell").get_by_role("link")).to_have_count(0)
