"""Logging in and out in a browser: back to the page that was asked for, to no other site, over TLS and without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from metajournal.schemas.settings import Settings
from tests.browser.certificates import self_signed
from tests.browser.conftest import Opens
from tests.browser.story import ORDERS
from tests.browser.visitor import Visitor
from tests.gateway.serving import Served, beside


@pytest.fixture(scope="module")
def secure(server: Served, settings_served: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of another gateway before the same journal, which speaks TLS with a certificate of its own."""
    certificate, private_key = self_signed(tmp_path_factory.mktemp("tls"))
    gateway = replace(settings_served.gateway, certificate=str(certificate), private_key=str(private_key))
    with beside(replace(settings_served, gateway=gateway)) as address:
        yield f"https://{address}"


def log_in(visitor: Visitor, key: str) -> None:
    """Fill in the form that is shown."""
    visitor.page.get_by_label("Key or one-time code").fill(key)
    visitor.page.get_by_role("button", name="Log in").click()


def walk(visitor: Visitor, key: str) -> str:
    """Log in on the way to a page, change something, and log out; gives the name of the cookie."""
    page = visitor.go(f"/history/{ORDERS}?before=900000000000000000")
    log_in(visitor, key)
    expect(page.get_by_role("heading", level=1)).to_have_text("History")
    assert visitor.path == f"/history/{ORDERS}?before=900000000000000000"
    page.get_by_role("link", name=str(ORDERS)).click()
    page.get_by_label("New tag").fill(f"by {visitor.base[:5]}")
    page.get_by_role("button", name="Add tag").click()
    expect(page.locator(".tags")).to_contain_text(f"by {visitor.base[:5]}")
    (cookie,) = visitor.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert cookie["secure"] == visitor.base.startswith("https:")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    assert visitor.context.cookies() == []
    visitor.take(f"{cookie['name']}={cookie['value']}")
    visitor.go("/keys")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    return cookie["name"]


def test_a_session_over_plain_loopback(visit: Opens, key: str) -> None:
    visitor = visit()
    assert walk(visitor, key) == f"mj-{visitor.base.rpartition(':')[2]}"


def test_a_session_over_tls(visit: Opens, key: str, secure: str) -> None:
    assert walk(visit(base=secure, ignore_https_errors=True), key) == "__Host-mj"


@pytest.mark.parametrize(
    "foreign",
    ["//other.example/", "https://other.example/", "/\\other.example", "javascript:alert(1)", "\t//other.example"],
)
def test_a_login_by_a_link_of_others_leads_to_no_other_site(visit: Opens, key: str, foreign: str) -> None:
    visitor = visit()
    page = visitor.go(f"/login?{urlencode({'next': foreign})}")
    log_in(visitor, key)
    expect(page.get_by_role("heading", level=1)).to_have_text("Metadata journal")
    assert visitor.path == "/"


def test_a_login_leads_to_no_other_site_though_its_form_says_so(visit: Opens, key: str) -> None:
    visitor = visit()
    page = visitor.go("/login")
    page.evaluate("for (const one of document.getElementsByName('next')) one.value = '//other.example/'")
    log_in(visitor, key)
    expect(page.get_by_role("heading", level=1)).to_have_text("Metadata journal")
