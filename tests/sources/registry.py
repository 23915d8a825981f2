"""A small schema registry for tests: the part of Confluent's API that registers, lists and configures subjects.

No registry can be installed from a package index. This one is as faithful as Confluent's own client needs, by which
tests write to it. Source: Confluent's Schema Registry API reference, version 1.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote, urlsplit

_TYPE: Final = "application/vnd.schemaregistry.v1+json"


@dataclass
class Registry:
    """What a registry knows, and how it misbehaves.

    Attributes:
        login: `user:password` that it wants; None: none.
        broken: paths that it answers with status 500.
        garbled: paths that it answers with something else.
    """

    url: str = ""
    login: str | None = None
    broken: set[str] = field(default_factory=set)
    garbled: dict[str, bytes] = field(default_factory=dict)
    subjects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    compatibility: dict[str | None, str] = field(default_factory=lambda: {None: "BACKWARD"})
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def register(self, subject: str, schema: Any, kind: str = "AVRO", **more: Any) -> None:
        """A further version of a subject, registered by Confluent's client."""
        from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

        text = schema if isinstance(schema, str) else json.dumps(schema)
        config = {"url": self.url, **({"basic.auth.user.info": self.login} if self.login else {})}
        with SchemaRegistryClient(config) as client:
            client.register_schema(subject, Schema(text, kind, more.get("references", [])))

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["subjects"]:
                return 200, sorted(self.subjects)
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self._registered(subject, body)}
            case "GET", ["subjects", subject, "versions"]:
                if subject in self.subjects:
                    return 200, [entry["version"] for entry in self.subjects[subject]]
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            case "GET", ["subjects", subject, "versions", "latest"]:
                if subject in self.subjects:
                    return 200, self.subjects[subject][-1]
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            case "GET", ["config"]:
                return 200, {"compatibilityLevel": self.compatibility[None]}
            case "GET", ["config", subject]:
                if subject in self.compatibility:
                    return 200, {"compatibilityLevel": self.compatibility[subject]}
                message = f"Subject '{subject}' does not have subject-level compatibility configured"
                return 404, {"error_code": 40408, "message": message}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _registered(self, subject: str, body: Any) -> int:
        entries = self.subjects.setdefault(subject, [])
        said = {key: body[key] for key in ("schemaType", "references") if body.get(key) and body[key] != "AVRO"}
        number = 1 + sum(map(len, self.subjects.values()))
        entries.append(
            {"subject": subject, "version": len(entries) + 1, "id": number, "schema": body["schema"], **said}
        )
        return number


@contextmanager
def running_registry(login: str | None = None) -> Iterator[Registry]:
    """A registry behind a port of its own, which ends with the block."""
    registry = Registry(login=login)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", None)

        def do_POST(self) -> None:
            self._answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, method: str, body: Any) -> None:
            path = urlsplit(self.path).path
            registry.asked.append((path, self.headers.get("Authorization")))
            wanted = registry.login and f"Basic {base64.b64encode(registry.login.encode()).decode()}"
            if wanted and self.headers.get("Authorization") != wanted:
                status, value = 401, {"error_code": 401, "message": "Unauthorized"}
            elif path in registry.broken:
                status, value = 500, {"error_code": 50001, "message": "Error in the backend data store"}
            else:
                status, value = registry.answer(method, path, body)
            content = registry.garbled.get(path, json.dumps(value).encode())
            self.send_response(status)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
