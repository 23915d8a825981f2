"""The four interactions that the catalog was asked for, from page to page by what each shows."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.story import NIGHTLY_PROGRAM, ORDERS, TOTALS
from tests.browser.visitor import Visitor


def test_a_word_leads_to_keys_and_a_key_to_who_has_it_and_to_its_lineage(root: Visitor) -> None:
    page = root.go("/")
    page.get_by_label("Search names, tags").fill("tea")
    page.get_by_role("main").get_by_role("button", name="Search").click()
    keys = page.locator("section", has=page.get_by_role("heading", name="Keys that begin so"))
    keys.get_by_role("link", name="team").click()
    found = page.locator("ol.hits")
    expect(found.get_by_role("link")).to_have_text([str(ORDERS), str(TOTALS)])
    found.get_by_role("link", name=str(ORDERS)).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    page.get_by_role("link", name="More levels, interval and direction").click()
    page.get_by_label("From").fill("2023-11-14")
    page.get_by_label("To", exact=True).fill("2023-11-15")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("main").get_by_role("table")).to_contain_text(str(NIGHTLY_PROGRAM))
    assert "start=2023-11-14&end=2023-11-15" in root.path
    page.get_by_label("From").fill("2023-11-01")
    page.get_by_label("To", exact=True).fill("2023-11-02")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("No program is known")


def test_names_are_completed_as_one_types(root: Visitor) -> None:
    page = root.go("/search")
    page.get_by_label("Words").press_sequentially("tot")
    names = page.get_by_role("listbox", name="Completions").get_by_role("option")
    expect(names).to_have_count(1)
    expect(names).to_contain_text("totals")


def test_all_keys_are_shown_with_who_has_each(root: Visitor) -> None:
    page = root.go("/keys")
    row = page.get_by_role("row", name="rate")
    expect(row.get_by_role("cell")).to_have_text(["rate", "1"])
    row.get_by_role("link").click()
    expect(page.locator("ol.hits").get_by_role("link")).to_have_text(["stream:shop/clicks"])
    page.go_back()
    page.get_by_label("Begin with").fill("te")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("tbody tr")).to_have_text(["team2"])


@pytest.mark.parametrize("way", ["drawing", "table"])
def test_lineage_leads_to_a_programs_runs_and_to_the_metadata_of_one(root: Visitor, way: str) -> None:
    page = root.go(f"/lineage/{ORDERS}?start=2023-11-14&end=2023-11-15")
    if way == "drawing":
        page.get_by_role("figure").get_by_role("link", name=str(NIGHTLY_PROGRAM)).click()
    else:
        page.get_by_role("row", name=str(ORDERS)).get_by_role("link", name="runs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    assert root.path == f"/lineage/{NIGHTLY_PROGRAM}?start=2023-11-14&end=2023-11-15"
    page.get_by_role("link", name="r1").click()
    recorded = page.locator("section", has=page.get_by_role("heading", name="Recorded with the accesses, USER"))
    expect(recorded.get_by_role("row")).to_have_text(["enginespark"])
    expect(page.get_by_role("row", name=str(TOTALS))).to_contain_text("write")


def test_metadata_is_one_link_away_from_data_and_programs(root: Visitor) -> None:
    for urn, key in ((ORDERS, "team"), (NIGHTLY_PROGRAM, "schedule")):
        page = root.go(f"/entity/{urn}")
        page.get_by_role("link", name="Metadata", exact=True).click()
        assert root.path == f"/entity/{urn}#metadata"
        expect(page.locator("#metadata")).to_be_in_viewport()
        expect(page.locator("#metadata").get_by_role("rowheader", name=key)).to_be_visible()
