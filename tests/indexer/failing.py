"""An Elasticsearch that answers and fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def failing() -> Iterator[str]:
    """An Elasticsearch that knows its indexes and fails at every search."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(200, b"")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self._answer(500, json.dumps({"error": {"type": "failed", "reason": "its disk is gone"}}).encode())

        do_GET = do_POST  # noqa: N815

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response_only(status)
            for name, value in (("content-type", "application/json"), ("x-elastic-product", "Elasticsearch")):
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(10)
