"""What the first page keeps up to date or knows of this browser, and what entities' pages let one copy."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.story import ORDERS, TOTALS
from tests.browser.visitor import Visitor
from tests.gateway.browsing import logged_in, member
from tests.gateway.serving import Served

pytestmark = pytest.mark.services
EVERY_MS = 5_000
"""How often the page asks how far the pipeline is."""


def test_what_was_opened_last_is_listed_newest_first_and_forgotten_at_logout(visit: Any, server: Served) -> None:
    key = member(server.journal, "opener", ("admin", "*"))
    visitor: Visitor = visit(logged_in(server, key).cookie)
    page = visitor.go("/")
    section = page.get_by_role("region", name="Last opened in this browser")
    expect(section).to_be_hidden()
    for urn in (ORDERS, TOTALS, ORDERS):
        visitor.go(f"/entity/{urn}")
    visitor.go("/")
    expect(section.locator("li")).to_have_text([str(ORDERS), str(TOTALS)])
    section.get_by_role("link", name=str(TOTALS)).click()
    expect(page.locator("h1")).to_have_text("totals")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("h1")).to_have_text("Log in")
    assert page.evaluate("localStorage.length") == 0


def test_what_somebody_else_opened_is_not_listed(visit: Any, server: Served, cookie: str) -> None:
    visitor: Visitor = visit(cookie)
    visitor.go(f"/entity/{ORDERS}")
    name, _, value = str(logged_in(server, member(server.journal, "second", ("admin", "*"))).cookie).partition("=")
    visitor.context.add_cookies([{"name": name, "value": value, "url": visitor.base}])
    page = visitor.go("/")
    expect(page.get_by_role("heading", name="Newest")).to_be_visible()
    expect(page.locator("section[data-list]")).to_be_hidden()


def test_a_kept_text_that_is_none_of_ours_is_no_markup_and_no_error(root: Visitor) -> None:
    root.go("/")
    opened = '{"who": "default/root", "opened": [{"urn": "<img src=x>", "address": "%s"}]}'
    for kept in ('"text"', "{", opened % "javascript:alert(1)", opened % "/entity/x"):
        root.page.evaluate("kept => localStorage.setItem('metajournal.opened', kept)", kept)
        root.go("/")
    expect(root.page.locator("section[data-list] li")).to_have_text(["<img src=x>"])


def test_how_far_the_pipeline_is_stays_up_to_date(root: Visitor) -> None:
    root.page.clock.install()
    page = root.go("/")
    strip = page.locator("#freshness")
    expect(strip).to_have_attribute("data-started", "")
    with page.expect_response("**/freshness") as answer:
        page.clock.run_for(EVERY_MS)
    assert answer.value.status == 200
    expect(strip).to_contain_text("journal → lake")
    page.route("**/freshness", lambda route: route.fulfill(
        content_type="text/html", body='<div id="freshness"><p>journal → lake +9.9 s</p></div>'
    ))  # fmt: skip
    page.clock.run_for(EVERY_MS)
    expect(strip).to_have_text("journal → lake +9.9 s")


def test_texts_are_copied_as_they_are(visit: Any, cookie: str) -> None:
    visitor: Visitor = visit(cookie, permissions=["clipboard-read", "clipboard-write"])
    page = visitor.go(f"/entity/{ORDERS}")
    for text, copied in (
        (f"Copy {ORDERS}", str(ORDERS)),
        ("Copy curl", f"curl -H \"Authorization: Bearer $METAJOURNAL_KEY\" '{visitor.base}/api/v1/entities/{ORDERS}'"),
        ("Copy journal", f"journal.show('{ORDERS}')"),
    ):
        button = page.get_by_role("button", name=text)
        button.click()
        expect(page.locator("p.copy", has=button).get_by_role("status")).to_have_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()") == copied


def test_where_the_browser_does_not_let_pages_copy_the_text_is_selected(root: Visitor) -> None:
    root.page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page = root.go(f"/entity/{ORDERS}")
    page.get_by_role("button", name=f"Copy {ORDERS}").click()
    expect(page.get_by_text("Selected; press Ctrl+C.")).to_be_visible()
    assert page.evaluate("String(getSelection())") == str(ORDERS)


def test_without_javascript_pages_read_and_nothing_of_the_scripts_shows(visit: Any, cookie: str) -> None:
    visitor: Visitor = visit(cookie, java_script_enabled=False)
    for path in (
        "/",
        f"/entity/{ORDERS}",
        f"/lineage/{ORDERS}",
        "/search?query=orders",
        "/repositories/prices?ref=main",
    ):
        page = visitor.go(path)
        expect(page.locator("h1")).to_be_visible()
        for part in page.locator("section[data-part], figure[data-part], dialog, #show-keys").all():
            expect(part).to_be_hidden()
    page.locator("main a").first.click()
