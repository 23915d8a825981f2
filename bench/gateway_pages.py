"""What pages cost in a real browser: the first paint of each, a lineage drawn, and the bytes of a first visit.

Skipped, with a line that says so, where there is no Chromium (as the tests of pages are).
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from playwright.sync_api import Browser, Page, Request
from playwright.sync_api import expect as shown

from bench.gateway_parts import Bench, Figure, ms
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset, run
from metajournal.domains.lineage.events import AccessesRecorded, RunStarted
from tests.browser.chromium import AbsentError, launched

_AT_MS: Final = 1_700_000_000_000
_WIDE: Final = dataset("drawn", "wide")
_ONE: Final = dataset("bench", "d0")
_NODES: Final = 200
PAGES: Final = (
    "/", "/search", "/search?query=d1*", f"/entity/{_ONE}", f"/history/{_ONE}", f"/diff/{_ONE}", f"/lineage/{_ONE}",
    "/keys", "/event", "/pipeline", "/register", "/files", "/repositories", "/access", "/login",
)  # fmt: skip
_EMPTY: Final = b"<!doctype html><html lang=en><title>x</title><p>x</p></html>"
_PAINTED: Final = """() => new Promise((done) => new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (one.name === 'first-contentful-paint') done(one.startTime);
}).observe({type: 'paint', buffered: true}))"""
_TASKS: Final = """window.tasks = []; new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.tasks.push(one.duration);
}).observe({type: 'longtask', buffered: true})"""
_DRAWN: Final = "() => performance.getEntriesByName('lineage drawn').map((one) => one.duration)"


def of_pages(bench: Bench) -> list[Figure]:
    """Figures of pages, each beside what an empty page takes in the same browser."""
    _tell(bench)
    try:
        with launched() as browser, _empty() as empty:
            return [*_paints(bench, browser, empty), *_drawing(bench, browser), *_first_visit(bench, browser)]
    except AbsentError as error:
        print(f"  pages are not measured: {error}")
        return []


def _tell(bench: Bench) -> None:
    """Data from which very many are made, and two changes to compare."""
    for number in range(_NODES):
        one = run("drawn", "app", "spark", f"p{number}", "r1")
        bench.journal.emit(RunStarted(one, _AT_MS), block_s=60)
        touched = [(_WIDE, "read", _AT_MS, None, None), (dataset("drawn", f"w{number}"), "write", _AT_MS, None, None)]
        bench.journal.emit(AccessesRecorded(one, touched), block_s=60)
    bench.journal.emit(EntityRegistered(_WIDE), block_s=60)
    receipts = [bench.journal.emit(TagsAdded(one, ["a"])) for one in (_ONE, _WIDE)]
    bench.journal.flush()
    bench.journal.wait([receipt.position for receipt in receipts], timeout_s=120)


@contextmanager
def _empty() -> Iterator[str]:
    """The address of a page with one letter."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(_EMPTY)))
            self.end_headers()
            self.wfile.write(_EMPTY)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def _logged_in(bench: Bench, page: Page) -> str:
    """Log a window in by a link, as `up` prints one; gives where it is."""
    code = bench.journal.access.issue_code("bench")
    code.receipt.position  # noqa: B018  (acknowledged)
    base = f"http://{bench.servers[0].address}"
    page.goto(f"{base}/login?code={code.key.text}")
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    shown(page.get_by_role("button", name="Log out")).to_be_visible()
    return base


def _paints(bench: Bench, browser: Browser, empty: str) -> list[Figure]:
    """The page whose first paint is latest; each as often as the empty one, in turns."""
    page = browser.new_context().new_page()
    base = _logged_in(bench, page)
    turns = 12 if bench.sizes.probes > 12 else 3
    took: dict[str, list[float]] = {path: [] for path in (empty, *PAGES)}
    for _ in range(turns):
        for path, values in took.items():
            page.goto(path if path == empty else base + path)
            values.append(page.evaluate(_PAINTED))
    plain = _p75(took.pop(empty))
    slowest = max(took, key=lambda path: _p75(took[path]))
    each = {path: round(_p75(values)) for path, values in took.items()}
    return [ms(f"first paint, p75, of the slowest page ({slowest})", _p75(took[slowest]), plain + 150, empty=plain,
               pages=each)]  # fmt: skip


def _drawing(bench: Bench, browser: Browser) -> list[Figure]:
    """A lineage of so many nodes, five times: until it is drawn, and the longest task of the page's thread."""
    page = browser.new_context().new_page()
    base = _logged_in(bench, page)
    page.add_init_script(_TASKS)
    drawn, tasks = [], []
    for _ in range(5):
        page.goto(f"{base}/lineage/{_WIDE}")
        shown(page.locator("figure").get_by_role("status")).to_contain_text(f"{_NODES} nodes drawn.", timeout=60_000)
        drawn += page.evaluate(_DRAWN)
        tasks.append(max([0.0, *page.evaluate("window.tasks")]))
    name = f"lineage of {_NODES} nodes"
    return [
        ms(f"{name} drawn, median", statistics.median(drawn), 1_500),
        ms(f"{name}: longest task, median", statistics.median(tasks), 200),
    ]


def _first_visit(bench: Bench, browser: Browser) -> list[Figure]:
    """What comes over the wire from the login to the first page, and the drawing's files: bodies as they are sent."""
    page = browser.new_context().new_page()
    requests: list[Request] = []
    page.context.on("requestfinished", lambda request: requests.append(request))
    base = _logged_in(bench, page)
    page.wait_for_load_state("networkidle")
    first = len(requests)
    page.goto(f"{base}/lineage/{_WIDE}")
    shown(page.locator("figure").get_by_role("status")).to_contain_text("nodes drawn.", timeout=60_000)
    counted = [*requests[:first], *(one for one in requests[first:] if "/assets/" in one.url)]
    value = sum({one.url: one.sizes()["responseBodySize"] for one in counted}.values()) / 1000
    return [{"name": "first visit, with the drawing's files", "value": value, "limit": 80, "ratio": value / 80,
             "unit": "kB", "most": 1.0}]  # fmt: skip


def _p75(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=4, method="inclusive")[2]
