"""Somebody at a gateway's pages in a real browser, watched: what no page of the gateway does is noted as a fault.

Pages forbid what would be evaluated in them, so what is waited for is what a locator finds.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request, WebError, expect

WAIT_MS = 20_000
"""How long what a page shows may take on a busy machine, milliseconds."""
expect.set_options(timeout=WAIT_MS)


class Visitor:
    """A window of a browser with a gateway's pages.

    Args:
        context: a fresh one; all of its windows are watched.
        base: address of the gateway, without a slash at its end.
    Attributes:
        page: its window.
        faults: errors in the console (refusals of the policy are), errors of scripts, dialogs, and requests to anything
            but the gateway.
    """

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.context = context
        self.base = base
        self.faults: list[str] = []
        self._documents: set[str] = set()
        self._allowed: tuple[str, ...] = (f"{base}/",)
        context.set_default_timeout(WAIT_MS)
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("dialog", self._on_dialog)
        context.on("request", self._on_request)
        self.page: Page = context.new_page()

    def take(self, cookie: str) -> None:
        """Keep a cookie of the gateway's, as somebody does who has logged in."""
        name, _, value = cookie.partition("=")
        self.context.add_cookies(
            [{"name": name, "value": value, "url": self.base, "httpOnly": True, "sameSite": "Lax"}]
        )

    def go(self, path: str, status: int = 200) -> Page:
        """Open a page that is there, after the redirects that lead to it."""
        answer = self.page.goto(urljoin(self.base, path))
        assert answer is not None
        assert answer.status == status, f"{path}: {answer.status}"
        return self.page

    def stray(self, address: str) -> Page:
        """Open a page of another site, which is no fault."""
        self._allowed = (*self._allowed, address)
        self.page.goto(address)
        return self.page

    @property
    def path(self) -> str:
        """Path and query of the page that is shown."""
        return self.page.url.removeprefix(self.base)

    def _on_console(self, message: ConsoleMessage) -> None:
        place: Any = message.location
        of_document = message.text.startswith("Failed to load resource") and place["url"] in self._documents
        if message.type == "error" and not of_document:  # a page's own status is for the test to judge
            self.faults.append(f"console: {message.text} ({place['url']})")

    def _on_error(self, error: WebError) -> None:
        self.faults.append(f"script: {error.error}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        if request.is_navigation_request():
            self._documents.add(request.url)
        if not request.url.startswith(self._allowed):
            self.faults.append(f"request: {request.url}")


def window(chromium: Chromium, base: str, **how: Any) -> Visitor:
    """Open a window of its own, which shares no cookie with others.

    Args:
        base: address of the gateway, without a slash at its end.
        how: as Playwright's `new_context` has it.
    """
    return Visitor(chromium.new_context(**{"service_workers": "block", **how}), base)
