"""A proxy before Elasticsearch that harms bulk requests, each in a way drawn from a seed; all else passes through.

Requests are cut in the middle, answers are lost after the work was done, both are held up, and whole requests or
single items are answered with 429 and 503 without reaching Elasticsearch.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

FAULTS: Final = ("cut request", "lost answer", "delay", "429", "503", "items 429", "items 503")
_HELD_UP_S: Final = 0.3
_HOP: Final = ("connection", "transfer-encoding", "content-length")


class Harm:
    """Which faults happen, and how many have.

    Args:
        chance: draws them.
        share: part of the bulk requests that is harmed; set it to 0 to let everything pass.
    """

    def __init__(self, chance: random.Random, share: float) -> None:
        self.share = share
        self.done: Counter[str] = Counter()
        self._chance = chance
        self._lock = threading.Lock()
        self.never = threading.Event()

    def draw(self) -> str:
        """The next bulk request's fault, "" for none; those that came least are the likelier."""
        with self._lock:
            if self._chance.random() >= self.share:
                return ""
            fewest = min(self.done[fault] for fault in FAULTS)
            fault = self._chance.choice([one for one in FAULTS if self.done[one] <= fewest + 1])
            self.done[fault] += 1
            return fault

    def some(self, count: int) -> set[int]:
        """Some of so many items, at least one."""
        with self._lock:
            return set(self._chance.sample(range(count), self._chance.randint(1, count)))

    def split(self, size: int) -> int:
        """Somewhere inside so many bytes."""
        with self._lock:
            return self._chance.randrange(size)


@contextmanager
def harming(url: str, harm: Harm) -> Iterator[str]:
    """A running proxy before a server; gives its URL."""
    parts = urlsplit(url)
    upstream = (parts.hostname or "127.0.0.1", parts.port or 9200)

    class Handler(_Handler):
        target = upstream
        harmed = harm

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: tuple[str, int]
    harmed: Harm

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, http.client.HTTPException, TimeoutError):
            self.close_connection = True

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = self.harmed.draw() if "/_bulk" in self.path and body else ""
        if fault == "cut request":
            self._cut(body)
        elif fault in ("429", "503"):
            self._answer(int(fault), _refusal(int(fault), "application/json"))
        elif fault.startswith("items"):
            self._some_items(body, int(fault.split()[1]))
        else:
            if fault == "delay":
                self.harmed.never.wait(_HELD_UP_S)
            answer = self._upstream(body)
            if fault == "lost answer":
                self.close_connection = True
            else:
                self._answer(*answer)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _any  # noqa: N815  (names of http.server)

    def _upstream(self, body: bytes) -> tuple[int, tuple[list[tuple[str, str]], bytes]]:
        connection = http.client.HTTPConnection(*self.target, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
            return answer.status, (kept, answer.read())
        finally:
            connection.close()

    def _cut(self, body: bytes) -> None:
        """Send a part of the request on, then break both connections."""
        sent = body[: self.harmed.split(len(body))]
        lines = [f"{name}: {value}" for name, value in self.headers.items() if name.lower() != "connection"]
        head = "\r\n".join([f"{self.command} {self.path} HTTP/1.1", *lines, "", ""]).encode()
        with socket.create_connection(self.target, timeout=10) as onward:
            onward.sendall(head + sent)
        self.close_connection = True

    def _some_items(self, body: bytes, status: int) -> None:
        """Keep some documents from Elasticsearch, and answer for them."""
        lines = body.splitlines(keepends=True)
        pairs = [b"".join(lines[at : at + 2]) for at in range(0, len(lines), 2)]
        refused = self.harmed.some(len(pairs))
        passed = b"".join(pair for at, pair in enumerate(pairs) if at not in refused)
        answers = iter(())
        if passed:
            got, (headers, content) = self._upstream(passed)
            if got != 200:
                self._answer(got, (headers, content))
                return
            answers = iter(json.loads(content)["items"])
        kind = {429: "es_rejected_execution_exception", 503: "unavailable_shards_exception"}[status]
        own = {"index": {"status": status, "error": {"type": kind, "reason": "by the proxy"}}}
        items = [own if at in refused else next(answers) for at in range(len(pairs))]
        _, (headers, _) = 200, _refusal(200, "application/json")
        self._answer(200, (headers, json.dumps({"items": items}).encode()))

    def _answer(self, status: int, said: tuple[list[tuple[str, str]], bytes]) -> None:
        headers, content = said
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name of http.server)
        """Say nothing."""


def _refusal(status: int, kind: str) -> tuple[list[tuple[str, str]], bytes]:
    error = {"type": "es_rejected_execution_exception", "reason": "by the proxy"}
    headers = [("content-type", kind), ("x-elastic-product", "Elasticsearch")]
    return headers, json.dumps({"error": error, "status": status}).encode()
