"""Every page that opens by its address, in each of its states: readable without scripts, at any width, in light and
dark, and by whoever does not see it."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect

from tests.browser.axe import AXE
from tests.browser.looking import wrong_with
from tests.browser.places import PLACES
from tests.browser.story import Story
from tests.browser.visitor import Visitor, window

ROOT = Path(__file__).parents[2]
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"


@pytest.fixture(scope="module")
def plain(chromium: Chromium, reading: Visitor, cookie: str) -> Iterator[Visitor]:
    """Somebody who is logged in, and whose browser runs no script."""
    visitor = window(chromium, reading.base, java_script_enabled=False)
    visitor.take(cookie)
    yield visitor
    visitor.context.close()
    assert visitor.faults == []


def opened(visitor: Visitor, story: Story, place: str) -> None:
    """Open a page, and see what it must show."""
    path, status, text = PLACES[place]
    visitor.go(path.format(**story._asdict()), status)
    expect(visitor.page.get_by_role("main")).to_contain_text(text)
    expect(visitor.page.get_by_role("heading", level=1)).to_have_count(1)


@pytest.mark.parametrize("place", PLACES)
def test_a_page_is_readable_without_scripts(plain: Visitor, story: Story, place: str) -> None:
    opened(plain, story, place)


@pytest.mark.parametrize("place", PLACES)
def test_nothing_serious_is_wrong_with_a_page_wide_or_narrow_light_or_dark(
    examined: Visitor, story: Story, place: str
) -> None:
    opened(examined, story, place)
    assert wrong_with(examined) == []


def test_the_header_is_one_line_where_it_can_be_and_no_button_stands_alone_on_another(reading: Visitor) -> None:
    page = reading.go("/")
    button = page.get_by_role("button", name="Shortcuts")
    try:
        for width in (1280, 1200, 1100, 900, 700):
            page.set_viewport_size({"width": width, "height": 720})
            tops = [box["y"] for one in ("Log out", "Shortcuts")
                    if (box := page.get_by_role("button", name=one).bounding_box()) is not None]  # fmt: skip
            assert len(set(tops)) == 1, width
            if width >= 1200:
                brand, last = page.locator(".brand").bounding_box(), button.bounding_box()
                assert brand is not None
                assert last is not None
                assert last["y"] < brand["y"] + brand["height"], width
    finally:
        page.set_viewport_size({"width": 1280, "height": 720})


def test_short_words_stay_whole_beside_a_long_name(examined: Visitor) -> None:
    page = examined.go("/access/audit")
    page.evaluate(
        "for (const cell of document.querySelectorAll('td:nth-child(5)'))"
        " cell.innerHTML = `<a href='/'>dataset:shop/${'long_name_'.repeat(30)}</a>`"
    )
    assert wrong_with(examined) == []


def test_what_is_wrong_is_found(examined: Visitor) -> None:
    examined.go("/event")
    examined.page.evaluate(
        "document.querySelector('main').innerHTML = '<input><pre id=wide>' + 'x'.repeat(500) + '</pre>'"
        " + '<h1>a</h1><table><tr><th><div id=thin>Principal</div></th></tr></table>';"
        " document.querySelector('#thin').style.cssText = 'width: 2rem; overflow-wrap: anywhere';"
        " document.querySelector('#wide').style.whiteSpace = 'pre';"
        " document.querySelector('h1').style.marginTop = '-20px'"
    )
    found = "\n".join(wrong_with(examined))
    assert "wide: label: <input>" in found
    assert "pixels wider than its window" in found
    assert "the word Principal is broken" in found


def test_axe_core_is_unchanged_and_has_its_license_and_reason() -> None:
    assert sha256(AXE.read_bytes()).hexdigest() == SHA256
    assert "Mozilla Public License" in AXE.with_name("axe-core-4.14.1.LICENSE.txt").read_text("utf-8")
    assert f"| {AXE.relative_to(ROOT)} |" in (ROOT / "docs" / "dependencies.md").read_text("utf-8")
