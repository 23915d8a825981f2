"""Pages of other sites: they frame nothing, and send no form in the name of who is logged in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Opens
from tests.browser.story import TOTALS
from tests.browser.visitor import Visitor
from tests.wait import eventually


@contextmanager
def site(page: str, host: str) -> Iterator[str]:
    """Something else that this machine serves, under one of its names; all of its addresses show a page.

    The page brings an icon: a browser would ask for one, and blame the page if the site ends before it has answered.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<link rel=icon href='data:,'>" + page.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its name)
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{host}:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


FIELDS = "".join(
    f"<input name={name} value={value}>"
    for name, value in {"token": "00" * 64, "expected": "1", "do": "add-tag", "tag": "forged"}.items()
)


@pytest.mark.parametrize(
    ("host", "answer"), [("localhost", "You are not logged in"), ("127.0.0.1", "You may not do this")]
)
def test_a_form_of_another_site_or_port_does_nothing(root: Visitor, host: str, answer: str) -> None:
    form = f"<form method=post action='{root.base}/edit/{TOTALS}'>{FIELDS}<button>Win a prize</button></form>"
    with site(form, host) as address:
        page = root.stray(address)
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(answer)
    expect(root.go(f"/entity/{TOTALS}").get_by_text("forged")).to_have_count(0)


def test_a_login_by_another_sites_form_is_refused(visit: Opens, key: str) -> None:
    visitor = visit()
    form = f"<form method=post action='{visitor.base}/login'><input name=key value={key}><button>Go</button></form>"
    with site(form, "localhost") as address:
        page = visitor.stray(address)
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("You may not do this")
    assert visitor.context.cookies() == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_no_page_is_shown_in_a_frame(root: Visitor, host: str) -> None:
    with site(f"<iframe src='{root.base}/entity/{TOTALS}'></iframe>", host) as address:
        page = root.stray(address)
        eventually(lambda: page.title() == "" and any("frame-ancestors" in one for one in root.faults))
        expect(page.frame_locator("iframe").get_by_text("totals")).to_have_count(0)
    root.faults.clear()
