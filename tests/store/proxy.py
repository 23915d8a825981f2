"""A proxy before an object store that holds requests up, refuses some with 503, and loses some answers.

Which ones is drawn from a seed. It is a process of its own: delta-rs waits for some answers with Python's lock held.
"""

from __future__ import annotations

import http.client
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

_HOP: Final = ("connection", "transfer-encoding")
_context: Final = multiprocessing.get_context("spawn")
_REFUSAL: Final = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>by the proxy</Message></Error>"


class Trouble:
    """What happens to requests; may be changed while they come.

    Args:
        seed: of the draws.
        refused: part of the requests that is answered with 503 and never arrives.
        lost: part of the requests whose answer is lost after the store did what they say.
        latency_s: how long each is held up.
    """

    def __init__(self, seed: int = 1, *, refused: float = 0.0, lost: float = 0.0, latency_s: float = 0.0) -> None:
        self._seed = seed
        self._refused, self._lost = _context.Value("d", refused), _context.Value("d", lost)
        self._latency_s = _context.Value("d", latency_s)
        self._harmed = _context.Value("q", 0)
        self._commits = _context.Value("q", 0)

    def lose_commits(self, count: int) -> None:
        """Lose the answers of the next commits of tables."""
        self._commits.value = count

    def set(self, *, refused: float = 0.0, lost: float = 0.0, latency_s: float = 0.0) -> None:
        """What happens to the requests from now on."""
        self._refused.value, self._lost.value, self._latency_s.value = refused, lost, latency_s

    @property
    def harmed(self) -> int:
        """Requests so far that were refused, or whose answer was lost."""
        return int(self._harmed.value)

    @property
    def latency_s(self) -> float:
        """How long each request is held up."""
        return float(self._latency_s.value)

    @cached_property
    def _chance(self) -> random.Random:
        return random.Random(self._seed)

    def draw(self, method: str, path: str) -> str:
        """What becomes of a request: "refused", "lost" or ""."""
        with self._harmed.get_lock():
            if self._commits.value and method == "PUT" and path.endswith(".json") and "/_delta_log/" in path:
                self._commits.value -= 1
                self._harmed.value += 1
                return "lost"
            number, refused = self._chance.random(), float(self._refused.value)
            fate = "refused" if number < refused else "lost" if number < refused + float(self._lost.value) else ""
            self._harmed.value += bool(fate)
            return fate


@contextmanager
def troubled(url: str, trouble: Trouble) -> Iterator[str]:
    """A running proxy before a store; gives its URL."""
    here, there = _context.Pipe()
    process = _context.Process(target=_serve, args=(url, trouble, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.terminate()
        process.join(10)
        process.close()
        here.close()
        there.close()


def _serve(url: str, trouble: Trouble, there: Any) -> None:
    """Serve, and tell the port."""
    parts = urlsplit(url)

    class Handler(_Handler):
        target = (str(parts.hostname), int(parts.port or 80))
        own = trouble

    server = _Server(("127.0.0.1", 0), Handler)
    there.send(server.server_address[1])
    server.serve_forever()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    target: tuple[str, int]
    own: Trouble
    _onward: http.client.HTTPConnection | None = None

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fate = self.own.draw(self.command, self.path)
        if latency_s := self.own.latency_s:
            time.sleep(latency_s)
        if fate == "refused":
            self._answer(503, [("content-type", "application/xml")], _REFUSAL)
            return
        try:
            status, headers, content = self._upstream(body)
        except (OSError, http.client.HTTPException):  # the store is away
            self._onward, self.close_connection = None, True
            return
        if fate == "lost":
            self.close_connection = True
            return
        self._answer(status, headers, content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _any  # noqa: N815  (names of http.server)

    def _upstream(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """The store's own answer; what was signed (the host) passes as it is."""
        connection = self._onward = self._onward or http.client.HTTPConnection(*self.target, timeout=60)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP:
                connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        content = answer.read()
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
        return answer.status, headers, content

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def finish(self) -> None:
        if self._onward is not None:
            self._onward.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name of http.server)
        """Say nothing."""
