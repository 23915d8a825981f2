"""HTTP itself over a real server: what is refused before anything is read, sizes, slow senders, the operator's port."""

from __future__ import annotations

import gzip
import json
import logging
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from http.client import HTTPResponse
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest

from metajournal import EntityRegistered, dataset
from metajournal.domains.access.keys import make_key
from metajournal.domains.access.rights import Rights
from metajournal.gateway import protocol
from metajournal.gateway.bodies import EVENTS_BYTES, HELD_BYTES_OF_ONE, Body, value_of
from metajournal.gateway.fields import unknown_fields
from metajournal.gateway.principals import SESSION, Principal
from metajournal.gateway.server import _listening
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.browser.certificates import self_signed
from tests.gateway.browsing import Browser
from tests.gateway.reading import key_of
from tests.gateway.serving import ADMIN, OTHER, READER, Got, Served, beside, running, served
from tests.repositories.staying import created, entry
from tests.wait import eventually

PROPERTIES = "/v3/namespaces/p/datasets/d/metadata/properties"


@pytest.fixture(scope="module")
def operator() -> str:
    """A free address for the operator."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings, operator: str) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    own = replace(gateway_settings.gateway, operator=operator, requests_per_s=1, burst=50)
    with served(replace(gateway_settings, gateway=own)) as found:
        found.post("/api/v1/entities/dataset:p/d")
        yield found


@pytest.fixture(autouse=True)
def full_buckets(server: Served) -> None:
    """Each test has a burst of its own: its keys are new ones."""
    for key, principal in list(server.principals.by_key.items()):
        server.principals.by_key[key] = principal._replace(key_id=f"{principal.key_id}'")


def code(answer: Got) -> tuple[int, Any]:
    return answer.status, answer.json.get("code")


def connected(server: Served, most_s: float = 30) -> socket.socket:
    """A connection to the server."""
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=most_s)


def raw(server: Served, data: bytes, *, most_s: float = 30) -> bytes:
    """What comes back on a connection until the server closes it."""
    with connected(server, most_s) as connection:
        connection.sendall(data)
        return rest_of(connection)


def rest_of(connection: socket.socket) -> bytes:
    """What comes on a connection until the server closes it, also with something unread."""
    answer = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            answer += part
    return answer


def answer_on(connection: socket.socket) -> Got:
    """The next answer on a connection, which stays open."""
    answer = HTTPResponse(connection)
    answer.begin()
    return Got(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read())


@pytest.mark.parametrize("path", ["/api", "/api/v1/nothing", "/v3/namespaces/p/datasets/d", "//", "/%2e%2e/etc"])
def test_an_address_that_is_none(server: Served, path: str) -> None:
    answer = server.get(path)
    assert code(answer) == (404, "no-such-address")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["request_id"] == answer.headers["x-request-id"]


def test_a_method_that_an_address_does_not_take(server: Served) -> None:
    answer = server.ask("PUT", PROPERTIES, {})
    assert code(answer) == (405, "no-such-method")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, POST"


def test_head_has_the_headers_of_get_and_no_body(server: Served) -> None:
    got, head = server.get(PROPERTIES), server.ask("HEAD", PROPERTIES)
    assert (head.status, head.body) == (200, b"")
    for name in ("etag", "content-type", "content-length"):
        assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "image/*"])
def test_who_takes_no_json(server: Served, accept: str) -> None:
    assert code(server.get(PROPERTIES, Accept=accept)) == (406, "not-acceptable")


@pytest.mark.parametrize("accept", ["*/*", "text/html, application/json;q=0.5", "application/*"])
def test_who_takes_json_too(server: Served, accept: str) -> None:
    assert server.get(PROPERTIES, Accept=accept).status == 200


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"{}", {"Content_Type": "text/plain"}, (415, "unsupported-type")),
        (b"{}", {"Content_Type": "application/json; charset=latin-1"}, (415, "unsupported-type")),
        (b"{}", {"Content_Type": "application/json; x=1; charset=utf-16"}, (415, "unsupported-type")),
        (b"{}", {"Content_Encoding": "br"}, (415, "unsupported-encoding")),
        (b'{"a": ' + b"1" * 5_000 + b"}", {}, (400, "not-json")),
        (b'{"a": "1", "a": "2"}', {}, (400, "not-json")),
        (b"[" * 100_000 + b"]" * 100_000, {}, (400, "not-json")),
        (b'{"a": 1e999}', {}, (400, "invalid-event")),
        (b'{"a": NaN}', {}, (400, "invalid-event")),
        (b'{"a": "\xff"}', {}, (400, "not-utf-8")),
        (b'{"a": "\\ud800"}', {}, (400, "not-json")),
        (b'{"\\uDFFF": "a"}', {}, (400, "not-json")),
        (b"", {}, (400, "no-body")),
        (b'{"a": 1}', {}, (400, "invalid-event")),
        (b'["a"]', {}, (400, "invalid-event")),
        (b'{"a": "1"} x', {}, (400, "not-json")),
        (b"x", {"Content_Encoding": "gzip"}, (400, "not-gzip")),
        (gzip.compress(b"{}")[:-4], {"Content_Encoding": "gzip"}, (400, "not-gzip")),
        (gzip.compress(b"{}") + b"x" * 20, {"Content_Encoding": "gzip"}, (400, "not-gzip")),
        (gzip.compress(b"{}") * 2, {"Content_Encoding": "gzip"}, (400, "not-json")),
        (gzip.compress(b" " * 1024) * 2000, {"Content_Encoding": "gzip"}, (413, "body-too-large")),
        (b'"' + b"x" * (1024 * 1024) + b'"', {}, (413, "body-too-large")),
        (gzip.compress(b" " * (50 * 1024 * 1024)), {"Content_Encoding": "gzip"}, (413, "body-too-large")),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, tuple) else "",
)
def test_bodies_that_are_refused(
    server: Served, body: bytes, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    assert code(server.post(PROPERTIES, body, **headers)) == expected
    assert server.get(PROPERTIES).json == {}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/v1/entities/dataset:p/closed", {"descriptoin": "x"}, "$.descriptoin"),
        ("/api/v1/entities/dataset:p/closed", {"tags": ["a"], "": 1}, "$."),
        ("/api/v1/access/principals/nobody/grants", {"grants": [{"role": "a", "pattern": "*", "until": 1}]},
         "$.grants[0].until"),
        ("/api/v1/access/principals/nobody/keys", {"lable": "x"}, "$.lable"),
        ("/api/v1/access/roles/one", {"actions": ["ReadEntity"], "on": "*"}, "$.on"),
        ("/v3/metadata/history", {
            "programRun": {"namespace": "p", "app": "a", "programType": "flow", "name": "n", "runId": "r", "at": 1},
            "data": {"namespace": "p", "type": "dataset", "name": "d"}}, "$.programRun.at"),
        ("/v3/metadata/history", {
            "programRun": {"namespace": "p", "app": "a", "programType": "flow", "name": "n", "runId": "r"},
            "data": {"namespace": "p", "type": "dataset", "name": "d"}, "metadata": {"users": {}}}, "$.metadata.users"),
        ("/v3/namespaces/p/datasets/d/lineage/next", {"after": [], "limit": 1}, "$.limit"),
        ("/api/v1/events", {"type": "TagsAdded", "entity": "dataset:p/d", "tags": ["a"], "colour": "b"}, "colour"),
    ],
)  # fmt: skip
def test_a_field_that_is_not_known_is_refused_by_its_name(server: Served, path: str, body: Any, field: str) -> None:
    answer = server.post(path, body)
    assert code(answer) == (400, "invalid-event")
    assert [fault["field"] for fault in answer.json["faults"]] == [field]


def test_fields_that_are_not_known_are_looked_for_in_every_shape() -> None:
    kind = dict[str, list[_Outer] | None]
    value: Any = {"a": [{"inner": {"x": 1, "y": 2}}, {"inner": None, "z": 3}], "b": None}
    assert [fault.field for fault in unknown_fields(value, kind)] == ["$.a[0].inner.y", "$.a[1].z"]
    assert "did you mean inner?" in unknown_fields({"iner": None}, _Outer)[0].message
    assert unknown_fields({"anything": {"at": "all"}}, dict[str, Any]) == []
    assert len(unknown_fields({str(number): 1 for number in range(200)}, _Outer)) == 100


@dataclass(frozen=True)
class _Inner:
    x: int = 0


@dataclass(frozen=True)
class _Outer:
    inner: _Inner | None = None


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (PROPERTIES, {"a": "1", "b": 5}, "$['b']"),
        ("/api/v1/entities/dataset:p/closed", {"properties": {"a": "1", "b": None}}, "$.properties['b']"),
        ("/v3/namespaces/p/datasets/d/metadata/tags", ["a", 5], "$[1]"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place(server: Served, path: str, body: Any, field: str) -> None:
    assert [fault["field"] for fault in server.post(path, body).json["faults"]] == [field]


def test_a_body_of_events_may_be_as_long_as_its_address_takes() -> None:
    text = f"[{' ' * (EVENTS_BYTES - 2)}]"
    assert value_of(Body(text, is_lines=False), list[Any], optional=False) == []


def test_a_packed_body_is_unpacked(server: Served) -> None:
    at = "/v3/namespaces/p/datasets/packed/metadata/properties"
    server.post("/api/v1/entities/dataset:p/packed")
    assert server.post(at, gzip.compress(b'{"a": "1"}'), Content_Encoding="gzip").status == 200
    assert server.get(at).json == {"a": "1"}
    members = gzip.compress(b'{"b": ') + gzip.compress(b"") + gzip.compress(b'"2"}')
    assert server.post(at, members, Content_Encoding="gzip").status == 200
    assert server.get(at).json == {"a": "1", "b": "2"}


HEAD = "GET /v3/namespaces/p/datasets/d/metadata/tags HTTP/1.1\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("method", "twice", "expected"),
    [
        ("GET", "Host: {0}\r\nHost: evil.example", b"bad-host"),
        ("POST", 'Host: {0}\r\nIf-Match: *\r\nIf-Match: "1"', b"header-twice"),
        ("POST", "Host: {0}\r\nIdempotency-Key: a\r\nIdempotency-Key: b", b"header-twice"),
        ("GET", "Host: {0}\r\nMetajournal-At-Least: a/0/1\r\nMetajournal-At-Least: a/0/2", b"header-twice"),
    ],
)
def test_a_header_that_can_be_there_once_is_refused_twice(
    server: Served, method: str, twice: str, expected: bytes
) -> None:
    head = HEAD.replace("GET", method) + twice.format(server.address)
    answer = raw(server, f"{head}\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: 0\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert expected in answer


def test_curl_says_form_of_what_is_json(server: Served) -> None:
    at = "/v3/namespaces/p/datasets/curl/metadata/tags"
    server.post("/api/v1/entities/dataset:p/curl")
    assert server.post(at, ["x"], Content_Type="application/x-www-form-urlencoded").status == 200


@pytest.mark.parametrize("query", ["x=1", "as_at=1&as_at=2", "as_at=%ff", "as_at=never", "urn=x"])
def test_queries_that_are_refused(server: Served, query: str) -> None:
    assert server.get(f"{PROPERTIES}?{query}").status == 400


@pytest.mark.parametrize(
    "path", ["/api/v1/search?as_of=2020-01-01", "/api/v1/search?urn=dataset:p/d", "/api/v1/changes?as_at=2020-01-01",
             "/api/v1/suggest/names?prefix=a&as_at=2020-01-01", "/api/v1/access/me?urn=dataset:p/d"],
)  # fmt: skip
def test_a_point_or_entity_is_asked_for_where_it_counts_alone(server: Served, path: str) -> None:
    """What an address does not look at is refused, so that nobody takes the answer for one about it."""
    assert code(server.get(path)) == (400, "unknown-parameter")


def test_a_slash_too_many_is_told(server: Served) -> None:
    for answer in (server.get(f"{PROPERTIES}/"), server.delete("/v3/namespaces/p/datasets/d/metadata/tags/")):
        assert code(answer) == (404, "no-such-address")
        assert answer.json["hint"].startswith("Leave out the slash")


def test_what_is_no_urn_is_shown_as_it_came(server: Served) -> None:
    assert server.get("/api/v1/entities/orders").json["detail"].startswith("'orders' is not a valid URN")


def test_a_server_answers_to_its_own_names_alone(server: Served) -> None:
    assert code(server.get(PROPERTIES, Host="evil.example")) == (421, "unknown-host")
    assert server.get(PROPERTIES, Host="localhost:1").status == 200


@pytest.mark.parametrize("value", ["x" * 65, "a b", "a\tb", "-", ""])
def test_a_request_id_that_is_none_is_replaced(server: Served, value: str) -> None:
    assert server.get(PROPERTIES, X_Request_Id=value).headers["x-request-id"] != value
    assert server.get(PROPERTIES, X_Request_Id="mine-1").headers["x-request-id"] == "mine-1"


TRACED = f"00-{'4bf92f35' * 4}-{'00f067aa' * 2}-01"


@pytest.mark.parametrize("path", [PROPERTIES, "/api/v1/nothing", "/login"])
def test_the_trace_of_a_request_is_in_its_line_of_the_log_beside_its_id(
    server: Served, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level("INFO", "metajournal.gateway")
    server.get(path, traceparent=TRACED, X_Request_Id="traced")
    none = [f"{TRACED} x", f"ff{TRACED[2:]}", f"00-{'0' * 32}{TRACED[35:]}", f"{TRACED[:36]}{'0' * 16}-01"]
    for number, one in enumerate(none):
        server.get(path, traceparent=one, X_Request_Id=f"no-trace-{number}")

    def lines() -> dict[str, Any]:
        told = [getattr(record, "data", {}) for record in caplog.records]
        return {data["request_id"]: data.get("traceparent") for data in told if "ms" in data}

    logged = eventually(lambda: found if len(found := lines()) == 1 + len(none) else None)
    assert logged == {"traced": TRACED, **{f"no-trace-{number}": None for number in range(len(none))}}


PAGE = "https://pages.example"
"""An origin whose pages may call the API."""


def test_pages_of_a_named_origin_may_call_the_api_with_a_key_and_others_may_not(
    gateway_settings: Settings, server: Served
) -> None:
    own = replace(gateway_settings, gateway=replace(gateway_settings.gateway, cors_origins=(PAGE,)))
    with running(server.journal, server.principals, own) as address:
        ask = {"Origin": PAGE, "Access_Control_Request_Method": "POST",
               "Access_Control_Request_Headers": "authorization, if-match, idempotency-key"}  # fmt: skip
        may = server.ask("OPTIONS", PROPERTIES, key=None, address=address, **ask)
        assert (may.status, may.headers["access-control-allow-origin"]) == (200, PAGE)
        assert set(may.headers["access-control-allow-methods"].split(", ")) >= {"GET", "POST", "DELETE"}
        named = {name.strip().lower() for name in may.headers["access-control-allow-headers"].split(",")}
        assert named >= {"authorization", "if-match", "idempotency-key"}
        may_not = server.ask(
            "OPTIONS", PROPERTIES, key=None, address=address, **{**ask, "Origin": "https://evil.example"}
        )
        assert (may_not.status, "access-control-allow-origin" in may_not.headers) == (400, False)
        for status, more in (
            (200, {}),
            (401, {"key": None}),
            (400, {"If_None_Match": "x", "Metajournal_At_Least": "x"}),
        ):
            got = server.get(PROPERTIES, address=address, Origin=PAGE, **more)
            assert (got.status, got.headers["access-control-allow-origin"]) == (status, PAGE), "errors can be read, too"
            shown = {name.strip().lower() for name in got.headers["access-control-expose-headers"].split(",")}
            assert shown >= {"etag", "link", "location", "retry-after", "x-request-id", "metajournal-position"}
            assert "access-control-allow-credentials" not in got.headers, "a page's cookie is not sent along"
            other = server.get(PROPERTIES, address=address, Origin="https://evil.example", **more)
            assert (other.status, "access-control-allow-origin" in other.headers) == (status, False)
    for got in (server.get(PROPERTIES, Origin=PAGE), server.ask("OPTIONS", PROPERTIES, key=None, **ask)):
        assert not any(name.startswith("access-control-") for name in got.headers), "nobody's pages, unless it is set"


def test_names_of_the_server_are_the_same_in_any_case(gateway_settings: Settings, server: Served) -> None:
    own = replace(gateway_settings.gateway, hosts=("Catalog.Example.org",))
    with beside(replace(gateway_settings, gateway=own)) as address:
        for host, status in (("catalog.example.org", 401), ("CATALOG.example.org:8080", 401), ("localhost", 421)):
            assert server.get(PROPERTIES, key="", address=address, Host=host).status == status, host


def test_who_asks_too_often_is_told_when_to_come_back(server: Served) -> None:
    answers = [server.get(PROPERTIES, key=READER) for _ in range(60)]
    refused = [one for one in answers if one.status == 429]
    assert refused
    assert code(refused[0]) == (429, "too-many-requests")
    assert int(refused[0].headers["retry-after"]) >= 1
    assert server.get(PROPERTIES).status == 200  # another key


def test_another_tenant_sees_nothing(server: Served) -> None:
    assert code(server.get(PROPERTIES, key=OTHER)) == (404, "unknown-entity")


def test_rights_that_were_not_heard_of_are_no_rights(server: Served, operator: str) -> None:
    server.principals.is_heard = False
    try:
        ready = server.get("/readyz", address=operator)
        assert (ready.status, ready.json["ready"]) == (503, False)
    finally:
        server.principals.is_heard = True
    told = server.get("/readyz", address=operator).json
    assert told.items() >= {"ready": True, "server": "ok", "rights": "ok", "kafka": "ok", "lake": "ok"}.items()


def test_how_far_stream_and_index_are_is_told_and_decides_nothing(server: Served, operator: str) -> None:
    """No stream runs here, and nothing indexes."""
    server.fold()

    def stages() -> Any:
        answer = server.get("/readyz", address=operator)
        assert (answer.status, answer.json["ready"]) == (200, True)
        return answer.json["stages"]

    eventually(lambda: stages().get("lake") == "ok", 30, "what the lake holds")
    server.journal.emit(EntityRegistered(dataset("far", "behind")))
    server.journal.flush()
    eventually(lambda: stages()["lake"].endswith(" s behind"), 30, "what the lake lacks")
    assert stages()["index"] not in ("", "ok")


def test_reads_that_wait_for_a_position_hold_no_thread(server: Served) -> None:
    """System properties waited in a thread: two who ask so held all of them for ten seconds."""
    path = "/v3/namespaces/p/datasets/d/metadata/properties"
    server.fold()
    own = Position.parse(server.post("/api/v1/entities/dataset:p/d").json["position"])
    sent = (server.journal.emit(EntityRegistered(dataset("far", f"d{number}"))) for number in range(100))
    far = str(next(one.position for one in sent if one.position.partition != own.partition))
    keys = [key_of(server, f"far-{number}", ("admin", "*")) for number in range(3)]
    with ThreadPoolExecutor(12) as waiting:
        asked = [
            waiting.submit(server.get, f"{path}/system", key=keys[number % 2], Metajournal_At_Least=far)
            for number in range(12)
        ]
        eventually(lambda: server.get("/api/v1/history/dataset:p/d", key=keys[2]).status == 200, 1)
        assert not any(one.done() for one in asked)
        assert {one.result().status for one in asked} == {503}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_secret_of_a_key_in_a_path_is_not_in_the_log(
    server: Served, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    text = make_key().text
    caplog.set_level("INFO", "metajournal.gateway")
    server.ask(method, f"/api/v1/access/principals/p/keys/{text}")
    eventually(lambda: "mjk_" in caplog.text)
    assert text.split("_")[2] not in caplog.text


def test_a_fault_of_ours_is_not_ready_and_no_error_of_the_answer(
    server: Served, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(views: object, tables: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(type(server.journal.lake.views), "take", failing)

    def asked() -> bool:
        ready = server.get("/readyz", address=operator)
        return ready.status == 503 and ready.json["lake"] == "it failed; see the server's log"

    eventually(asked)
    monkeypatch.undo()
    eventually(lambda: server.get("/readyz", address=operator).status == 200)


def test_who_sends_many_requests_and_hangs_up_leaves_no_error_in_the_log(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = server.address.rpartition(":")
    one = f"GET {PROPERTIES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode()
    for _ in range(5):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends by a reset
            connection.sendall(one * 8)
            connection.recv(100)
    assert server.get(PROPERTIES).status == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_the_operator_sees_counts_by_endpoint_and_no_names(server: Served, operator: str) -> None:
    server.get(PROPERTIES)
    assert server.get("/healthz", address=operator).body == b"ok\n"
    text = server.get("/metrics", address=operator).body.decode()
    assert 'endpoint="GET /v3/namespaces/{ns}/datasets/{d}/metadata/properties"' in text
    assert "/datasets/d/" not in text
    assert server.get("/metrics").status == 404  # on the other port
    assert server.post("/healthz", address=operator).status == 405


def test_the_description_needs_no_key_and_lists_every_address(server: Served) -> None:
    answer = server.get("/openapi.json", key=None)
    assert (answer.status, answer.json["openapi"]) == (200, "3.1.0")
    assert "/v3/namespaces/{ns}/datasets/{d}/metadata/properties" in answer.json["paths"]
    assert answer.json["paths"]["/v3/namespaces/{ns}/datasets/{d}/metadata/tags"]["post"]["responses"].keys() >= {
        "200", "400", "401", "403", "404", "412", "413", "429", "503",
    }  # fmt: skip
    makes = answer.json["paths"]["/api/v1/entities/{urn}"]["post"]["parameters"]
    assert {one["name"] for one in makes if one["in"] == "header"} == {
        "Idempotency-Key", "If-Match", "If-None-Match", "Prefer",
    }  # fmt: skip


def test_the_description_says_what_bodies_and_answers_look_like(server: Served) -> None:
    described = server.get("/openapi.json", key=None).json
    schemas = described["components"]["schemas"]
    entity = described["paths"]["/api/v1/entities/{urn}"]
    shown = entity["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert shown == {"$ref": "#/components/schemas/Entity"}
    assert schemas["Entity"]["properties"]["user"] == {"$ref": "#/components/schemas/Metadata"}
    assert {"urn", "deleted", "system"} <= {*schemas["Entity"]["required"]}
    assert entity["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Registration")
    bare: list[str] = []
    for path, methods in described["paths"].items():
        for method, row in methods.items():
            for status, answer in row["responses"].items():
                for content in answer["content"].values() if status < "300" else ():
                    schema = content["schema"]
                    if schema.get("type") == "object" and not {"properties", "additionalProperties"} & {*schema}:
                        bare.append(f"{method} {path}")
    assert bare == ["get /openapi.json"]


def test_a_head_that_stops_is_ended(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.5)
    assert raw(server, b"GET /openapi.json HTTP/1.1\r\nHost: loc").startswith(b"HTTP/1.1 408")
    assert raw(server, b"").startswith(b"HTTP/1.1 408")
    assert server.get(PROPERTIES).status == 200


def test_a_body_that_stops_is_ended(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metajournal.gateway.app.BODY_S", 0.5)
    head = (
        f"POST {PROPERTIES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: 9\r\n\r\n"
    )
    answer = raw(server, head.encode() + b'{"a"')
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too-slow" in answer


def has_come(connection: socket.socket) -> bool:
    """Whether there is something to read on a connection, or its end."""
    return bool(select.select([connection], [], [], 0)[0])


def drip(slow: Mapping[socket.socket, bytes]) -> list[socket.socket]:
    """The connections on which nothing has come yet; a little more is sent on each."""
    waiting = [connection for connection in slow if not has_come(connection)]
    for connection in waiting:
        connection.sendall(slow[connection])
    return waiting


BODIES = f"POST {PROPERTIES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n".encode()
TRICKLES: list[tuple[bytes, bytes, list[int]]] = [
    (b"GET /", b"x", [408]),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"x", [408]),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n", [408]),
    (BODIES + b"Content-Length: 99999\r\n\r\n{", b" ", [408]),
    (BODIES + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", [408]),
    (BODIES + b"Transfer-Encoding: chunked\r\n\r\n", b"0", [408]),
    (BODIES + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ", b"x", [408]),
]
"""How a request begins, what comes of it again and again, and its answers."""


def test_what_trickles_is_ended_at_its_deadline_and_others_are_served_meanwhile(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte in time earns no further time: neither one of a head, nor of a body, nor of what is answered already."""
    monkeypatch.setattr(protocol, "HEAD_S", 3.0)
    monkeypatch.setattr("metajournal.gateway.app.BODY_S", 3.0)
    before = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answered = b"POST /openapi.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n"
    kinds = [*product((b"", before), TRICKLES), (answered, (b"{", b" ", []))]
    slow: dict[socket.socket, bytes] = {}
    with ExitStack() as opened:
        for first, (begins, piece, _) in kinds:
            connection = opened.enter_context(connected(server))
            if first:
                connection.sendall(first)
                assert answer_on(connection).status in (404, 405)
            connection.sendall(begins)
            slow[connection] = piece
        for _ in range(10):
            assert server.get(PROPERTIES).status == 200
            assert len(drip(slow)) == len(kinds), "all of them are open"
        eventually(lambda: not drip(slow), 5, "the end of all")
        for connection, (_, (_, _, ends)) in zip(slow, kinds, strict=True):
            assert statuses(rest_of(connection)) == ends
    assert server.get(PROPERTIES).status == 200


def test_the_rest_of_a_body_that_is_answered_already_has_a_deadline(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.5)
    answer = raw(server, f"POST {PROPERTIES} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 401")
    assert server.post(PROPERTIES, {}, key=None).status == 401


def test_a_head_that_is_too_large_is_refused(server: Served) -> None:
    answer = raw(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000)
    assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


@pytest.mark.parametrize("coding", ["gzip, chunked", "identity, chunked", "x, chunked"])
def test_a_transfer_coding_that_is_not_understood_is_refused(server: Served, coding: str) -> None:
    """What it would have to be decoded from must not be taken for the body itself."""
    head = f"POST {PROPERTIES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin\r\nConnection: close\r\n"
    answer = raw(server, f"{head}Transfer-Encoding: {coding}\r\n\r\n8\r\n".encode() + b'{"a":""}\r\n0\r\n\r\n')
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"unsupported-transfer-coding" in answer
    assert server.get(PROPERTIES).json == {}


HIDDEN = "dataset:p/smuggled"
"""What a request registers that nobody was to take for one."""


def registering(urn: str) -> bytes:
    """A request that is the last one of its connection."""
    head = f"POST /api/v1/entities/{urn} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode()


def kept_open(target: str, *fields: str, version: str = "1.1") -> bytes:
    """The head of a request behind which another one may come."""
    lines = (f"POST {target} HTTP/{version}", "Host: localhost", f"Authorization: Bearer {ADMIN}", *fields)
    return "\r\n".join((*lines, "", "")).encode()


def statuses(answers: bytes) -> list[int]:
    """The status of each answer of a connection."""
    return [int(answer[:3]) for answer in answers.split(b"HTTP/1.1 ")[1:]]


OUTER = "/api/v1/entities/dataset:p/outer"
TARGETS = [OUTER, "/openapi.json"]
"""One that reads a body and does what it says, and one that is answered without it."""


def is_nothing_done(server: Served) -> bool:
    """Whether neither a refused request has had an effect nor what stands in or behind it."""
    return server.get(OUTER).status == server.get(f"/api/v1/entities/{HIDDEN}").status == 404


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"), ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 6"), ("Content-Length: 5, 6",),
        ("Transfer-Encoding: chunked, identity",), ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding : chunked",), ("Transfer-Encoding:\r\n chunked",),
        ("Content-Length: -1",), ("Content-Length: +5",), ("Content-Length : 5",),
    ],
)  # fmt: skip
def test_a_request_with_two_lengths_is_never_two_requests(server: Served, target: str, fields: tuple[str, ...]) -> None:
    """It is refused, its connection ends, and neither its rest nor a chunk of it is taken for a request of its own."""
    answers = raw(server, kept_open(target, *fields) + b"0\r\n\r\n" + registering(HIDDEN))
    assert statuses(answers) == [400]
    assert is_nothing_done(server)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "chunk",
    [
        b"xyz\r\n{}\r\n", b"0x2\r\n{}\r\n", b"-2\r\n{}\r\n", b" 2\r\n{}\r\n", b"2 \r\n{}\r\n", b"\r\n{}\r\n",
        b"1" + b"0" * 15 + b"2\r\n{}\r\n",  # 2 where a size of 64 bits runs over
        b"2\n{}\r\n", b"2\r{}\r\n", b"2\r\n{}\n", b"2\r\n{}XX", b"1\r\n{}\r\n", b"2\r\n{}\r\n0\n\n",
        b"2;\r\n{}\r\n", b"2;a\n{}\r\n", b"2 ;a\r\n{}\r\n",
        b'2;a="\r\n{}\r\n0\r\n\r\n' + registering(HIDDEN) + b'"\r\n{}\r\n',
    ],
)  # fmt: skip
def test_a_body_in_broken_chunks_is_refused_and_nothing_behind_it_is_read(
    server: Served, target: str, chunk: bytes
) -> None:
    """Sizes that are none or too large, line ends without CR, extensions that are none (RFC 9112, 7.1)."""
    head = kept_open(target, "Transfer-Encoding: chunked")
    assert statuses(raw(server, head + chunk + b"0\r\n\r\n" + registering(HIDDEN))) == [400]
    assert is_nothing_done(server)


ASKS_FOR_MORE = ("Connection: Upgrade", "Upgrade: h2c")


def test_a_request_behind_one_that_asks_for_another_protocol_is_answered(server: Served) -> None:
    """The offer is passed over (RFC 9110, 7.8), in one piece as in two."""
    first = kept_open("/api/v1/entities/dataset:p/upgraded", *ASKS_FOR_MORE)
    assert statuses(raw(server, first + first + registering("dataset:p/behind-upgraded"))) == [201, 200, 201]
    with connected(server) as connection:
        connection.sendall(first)
        assert answer_on(connection).status == 200
        connection.sendall(registering("dataset:p/behind-upgraded"))
        assert statuses(rest_of(connection)) == [200]


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ((*ASKS_FOR_MORE, "Content-Length: {0}"), b""),
        ((*ASKS_FOR_MORE, "Transfer-Encoding: chunked"), b""),
        (("Transfer-Encoding: chunked", *ASKS_FOR_MORE), b"2\r\n{}\r\n0\r\n\r\n"),
    ],
)
def test_a_body_of_a_request_that_asks_for_another_protocol_is_no_request(
    server: Served, fields: tuple[str, ...], body: bytes
) -> None:
    """The parser would leave it out: it is refused, and nothing behind its head is read."""
    hidden = registering(HIDDEN)
    head = kept_open(OUTER, *(field.format(len(hidden)) for field in fields))
    answer = raw(server, head + body + hidden)
    assert statuses(answer) == [400]
    assert b"omit Upgrade" in answer
    assert is_nothing_done(server)


@pytest.mark.parametrize(
    "line",
    ["CONNECT host:1", "CONNECT /openapi.json", "GET http://[::1", "GET http://localhost", "GET http://x:y/", "GET x"],
)
def test_a_target_that_is_none_is_refused_and_nothing_behind_it_is_read(server: Served, line: str) -> None:
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode()
    answer = raw(server, head + registering(HIDDEN))
    assert statuses(answer) == [400]
    assert b"connection: close" in answer
    assert is_nothing_done(server)


@pytest.mark.parametrize("size", [b"ffffffffffffffff", b"fffffffffffffff", b"7fffffff"])
def test_all_that_comes_in_a_huge_chunk_is_body(server: Served, monkeypatch: pytest.MonkeyPatch, size: bytes) -> None:
    """A size may be large; what does not come in time ends the connection."""
    monkeypatch.setattr("metajournal.gateway.app.BODY_S", 0.5)
    chunk = size + b"\r\n{}\r\n0\r\n\r\n"
    answers = raw(server, kept_open(OUTER, "Transfer-Encoding: chunked") + chunk + registering(HIDDEN))
    assert statuses(answers) == [408]
    assert is_nothing_done(server)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("head", ["POST {0} HTTP/1.1\nHost: localhost\n\n", "POST {0} HTTP/1.1\r\nHost: localhost\n\n"])
def test_a_head_whose_lines_end_without_cr_is_refused(server: Served, target: str, head: str) -> None:
    assert statuses(raw(server, head.format(target).encode() + registering(HIDDEN))) == [400]
    assert is_nothing_done(server)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("plain", b"2\r\n{}\r\n0\r\n\r\n"),
        ("zeros", b"0000000000000000000002\r\n{}\r\n000\r\n\r\n"),
        ("extended", b'2;a;b=c;d="e \\" f"\r\n{}\r\n0;g\r\n\r\n'),
    ],
)
def test_extensions_of_chunks_are_passed_over_and_the_next_request_is_answered(
    server: Served, name: str, body: bytes
) -> None:
    """As RFC 9112, 7.1.1 has it: a receiver ignores extensions that it does not know."""
    head = kept_open(f"/api/v1/entities/dataset:p/in-{name}", "Transfer-Encoding: chunked")
    assert statuses(raw(server, head + body + registering(f"dataset:p/behind-{name}"))) == [201, 201]


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_request_within_a_body_is_text(server: Served, target: str, framing: str) -> None:
    """Also where the answer is there before the body; what stands behind the body is the next request."""
    within, last = (
        registering(HIDDEN),
        f"GET {PROPERTIES} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(),
    )
    if framing == "length":
        sent = kept_open(target, f"Content-Length: {len(within)}") + within
    else:
        sent = kept_open(target, "Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(within), within)
    assert statuses(raw(server, sent + last)) == [400 if target == OUTER else 405, 401]
    assert is_nothing_done(server)


def test_chunks_in_http_1_0_end_their_connection(server: Served) -> None:
    """HTTP/1.0 has none, so a proxy may see another body (RFC 9112, 6.1)."""
    target = "/api/v1/entities/dataset:p/in-1-0"
    head = kept_open(target, "Connection: keep-alive", "Transfer-Encoding: chunked", version="1.0")
    assert statuses(raw(server, head + b"2\r\n{}\r\n0\r\n\r\n" + registering(HIDDEN))) == [201]
    assert is_nothing_done(server)


def test_a_body_that_breaks_behind_its_answer_is_not_answered_again(server: Served) -> None:
    """A second answer would be taken for that of the next request."""
    with connected(server) as connection:
        connection.sendall(kept_open("/openapi.json", "Transfer-Encoding: chunked"))
        assert answer_on(connection).status == 405
        connection.sendall(b"xyz\r\n" + registering(HIDDEN))
        assert rest_of(connection) == b""
    assert is_nothing_done(server)


def test_a_request_that_is_not_answered_yet_does_not_get_the_refusal_of_the_next_one(server: Served) -> None:
    """Its sender would take that for its own answer; a connection that ends without one says nothing of it."""
    first = kept_open("/api/v1/entities/dataset:p/first", "Content-Length: 0")
    assert raw(server, first + b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n") == b""


def test_a_body_behind_a_request_that_is_answered_has_its_own_deadline(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the rest of a body whose request was answered before it."""
    monkeypatch.setattr(protocol, "HEAD_S", 1.5)
    first = kept_open(PROPERTIES).replace(b"POST", b"GET", 1)
    with connected(server) as connection:
        connection.sendall(first + kept_open("/api/v1/entities/dataset:p/paced", "Content-Length: 12"))
        assert answer_on(connection).status == 200
        assert not select.select([connection], [], [], 3)[0], "it is closed at that deadline"
        connection.sendall(b"{}" + b" " * 10)
        assert answer_on(connection).status == 201


def chunked(key: str | None) -> bytes:
    """A request with a body in one chunk, up to where its trailers begin."""
    bearer = "" if key is None else f"Authorization: Bearer {key}\r\n"
    head = f"POST {PROPERTIES} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{bearer}"
    return f'{head}Transfer-Encoding: chunked\r\n\r\n8\r\n{{"a":""}}\r\n0\r\n'.encode()


def test_what_stands_behind_a_body_is_no_field_of_the_head(server: Served) -> None:
    """A proxy removes a user's own X-Forwarded-User from the head, and may pass on what stands behind."""
    trailers = f"Authorization: Bearer {ADMIN}\r\nX-User: admin\r\n\r\n".encode()
    assert raw(server, chunked(None) + trailers).startswith(b"HTTP/1.1 401")
    assert server.get(PROPERTIES).json == {}
    assert not raw(server, chunked(ADMIN) + trailers).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("piece", [b"X: y\r\n" * 1_000, b"x" * 6_000], ids=["lines", "one-line"])
def test_what_stands_behind_a_body_has_an_end(server: Served, piece: bytes) -> None:
    host, _, port = server.address.rpartition(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=30) as connection, suppress(OSError):
        connection.sendall(chunked(ADMIN) + (b"" if piece.endswith(b"\n") else b"X: "))
        while sent < 4_000_000 and not select.select([connection], [], [], 0.01)[0]:
            connection.sendall(piece)
            sent += len(piece)
    assert sent < 1_000_000, "the connection was closed"
    assert server.get(PROPERTIES).status == 200


def test_a_gzip_body_has_so_many_members_and_no_more(server: Served) -> None:
    line = json.dumps({"type": "EntityRegistered", "entity": "dataset:p/packed"}).encode() + b"\n"
    more = {"Content_Encoding": "gzip", "Content_Type": "application/x-ndjson"}
    empty = gzip.compress(b"", mtime=0)
    refused = server.post("/api/v1/events", empty * 10_000 + gzip.compress(line), **more)
    assert code(refused) == (400, "not-gzip")
    assert server.post("/api/v1/events", empty * 100 + gzip.compress(line), **more).json["ok"]


TOO_LARGE = 17 * 1024 * 1024
TAKES_EVENTS = ["/api/v1/events", "/api/v1/lineage", "/api/v1/lineage/batch"]
LINE = b'{"type": "EntityRegistered", "entity": "dataset:p/too-large"}\n'
EMPTY_BLOCKS = gzip.compress(b"")[:10] + b"\0\0\0\xff\xff" * (TOO_LARGE // 5)
"""A gzip body of which nothing comes, however much of it there is (RFC 1951, 3.2.4)."""


def refusal(server: Served, path: str, framing: str, packing: str, body: Sequence[bytes]) -> tuple[Any, int]:
    """Status and code of what is answered to a body, and how much of it was sent by then; its end is not sent.

    Args:
        framing: the field that says its length.
        packing: its Content-Encoding.
    """
    lines = "application/x-ndjson" if path == "/api/v1/events" else "application/json"
    fields = (f"Content-Type: {lines}", f"Content-Encoding: {packing}", framing)
    sent = 0
    with connected(server) as connection:
        connection.sendall(kept_open(path, *fields))
        for piece in body:
            if not has_come(connection):
                is_chunk = framing.endswith("chunked")
                connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunk else piece)
                sent += len(piece)
        answer = answer_on(connection)
    assert server.get("/api/v1/entities/dataset:p/too-large").status == 404
    assert f"{EVENTS_BYTES:,} bytes" in answer.json["detail"]
    return code(answer), sent


@pytest.mark.parametrize("packing", ["identity", "gzip"])
@pytest.mark.parametrize("path", TAKES_EVENTS)
def test_a_body_whose_length_is_too_large_is_refused_before_it_comes(server: Served, path: str, packing: str) -> None:
    assert refusal(server, path, f"Content-Length: {TOO_LARGE}", packing, []) == ((413, "body-too-large"), 0)


@pytest.mark.parametrize("packing", ["identity", "gzip"])
@pytest.mark.parametrize("path", TAKES_EVENTS)
def test_a_body_in_chunks_is_refused_once_it_is_too_large(server: Served, path: str, packing: str) -> None:
    """A packed one by its own size too: what it unpacks to may be nothing."""
    data = EMPTY_BLOCKS if packing == "gzip" else LINE + b" " * TOO_LARGE
    pieces = [data[offset : offset + 65_536] for offset in range(0, TOO_LARGE, 65_536)]
    refused, sent = refusal(server, path, "Transfer-Encoding: chunked", packing, pieces)
    assert refused == (413, "body-too-large")
    assert sent > EVENTS_BYTES


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("path", TAKES_EVENTS)
def test_a_body_that_unpacks_to_too_much_is_refused(server: Served, path: str, framing: str) -> None:
    packed = gzip.compress(LINE + b" " * TOO_LARGE)
    assert len(packed) < 65_536
    field = f"Content-Length: {len(packed)}" if framing == "length" else "Transfer-Encoding: chunked"
    assert refusal(server, path, field, "gzip", [packed]) == ((413, "body-too-large"), len(packed))


def test_of_one_who_asks_so_many_bodies_are_held_and_others_are_not_refused(server: Served) -> None:
    size = 11 * 1024 * 1024
    head = kept_open("/api/v1/events", "Content-Type: application/x-ndjson", f"Content-Length: {size + len(LINE)}")
    space = b" " * size
    with ExitStack() as open_:
        for _ in range(HELD_BYTES_OF_ONE // size):
            open_.enter_context(connected(server)).sendall(head + space)
        refused = eventually(lambda: is_refused(server, head, space))
        assert code(refused) == (503, "busy")
        assert int(refused.headers["retry-after"]) > 0
        assert server.post("/api/v1/entities/dataset:p/beside", {}, key=OTHER).status in (201, 200)
    with connected(server) as connection:
        eventually(lambda: not is_refused(server, head, space))
        connection.sendall(head + space + LINE)
        assert answer_on(connection).status == 200


def is_refused(server: Served, head: bytes, space: bytes) -> Got | None:
    """The answer to a body before its end, where there is one."""
    with connected(server) as connection, suppress(OSError):
        connection.sendall(head)
        for offset in range(0, len(space), 65_536):
            connection.sendall(space[offset : offset + 65_536])
        return answer_on(connection) if select.select([connection], [], [], 1)[0] else None
    return None


BREAK = "\r\nX-Evil: yes\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
BROKEN = quote(f"a{BREAK}", safe="")


def clean(answer: Got) -> Got:
    """An answer whose headers are all the server's own."""
    assert answer.status < 500, answer.body
    assert "x-evil" not in answer.headers
    assert not any(set("\r\n") & set(value) for value in answer.headers.values())
    return answer


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/entities/dataset:p/{0}", 404), ("GET", "/api/v1/entities/{0}", 400),
        ("GET", "/api/v1/entities/?urn={0}", 400), ("GET", "/api/v1/entities/dataset:p/d?as_at={0}", 400),
        ("GET", "/{0}", 404), ("GET", "/api/v1/search?{0}=1", 400), ("GET", "/api/v1/search?limit={0}", 400),
        ("GET", "/api/v1/history/dataset:p/d?cursor={0}", 400), ("GET", "/api/v1/changes?after={0}", 400),
        ("GET", "/api/v1/access/principals?cursor={0}", 200), ("GET", "/api/v1/access/principals?limit={0}", 400),
        ("GET", "/api/v1/access/principals/{0}", 400), ("GET", "/api/v1/events/{0}", 400),
        ("GET", "/api/v1/repositories?cursor={0}", 200), ("GET", "/v3/namespaces/{0}/datasets/d/metadata/tags", 404),
        ("DELETE", "/v3/namespaces/p/datasets/d/metadata/tags/{0}", 200),
        ("PUT", "/api/v1/entities/dataset:p/{0}", 405),
    ],
)  # fmt: skip
def test_line_ends_in_an_address_reach_no_header(server: Served, method: str, path: str, expected: int) -> None:
    assert clean(server.ask(method, path.format(BROKEN))).status == expected


@pytest.mark.parametrize(
    "name", ["Idempotency-Key", "If-Match", "Metajournal-At-Least", "Prefer", "X-Request-Id", "traceparent", "Accept"]
)
def test_line_ends_in_a_header_reach_no_header(server: Served, name: str) -> None:
    """Packed as in addresses they are text; as they are they end the request."""
    path = "/api/v1/entities/dataset:p/d"
    for method in ("GET", "POST"):
        clean(server.ask(method, path, **{name.replace("-", "_"): BROKEN}))
    for line_end in ("\r\n ", "\r", "\n", "\r\n\t"):
        answers = raw(server, kept_open(path, f"{name}: a{line_end}X-Evil: yes", "Content-Length: 0"))
        assert statuses(answers) == [400], line_end
        assert b"evil" not in answers.lower()


def test_line_ends_in_values_reach_no_header(server: Served) -> None:
    """Of what is written, whether its verdict is waited for or not, and of what is refused."""
    text, urn = f"a{BREAK}", f"dataset:p/{BROKEN}"
    made = {"description": text, "properties": {text: text}, "tags": [text]}
    assert clean(server.post(f"/api/v1/entities/{urn}", made)).status == 201
    pending = clean(server.post(f"/api/v1/entities/{urn}", made, Prefer="respond-async"))
    assert pending.status == 202
    assert pending.headers["location"] == f"/api/v1/events/{pending.headers['metajournal-event-id']}"
    got = clean(server.get(f"/api/v1/entities?urn={quote(urn, '')}"))
    assert (got.status, got.json["urn"]) == (200, urn), got
    tagged = {"type": "TagsAdded", "entity": urn, "tags": ["b"]}
    assert clean(server.post("/api/v1/events", tagged)).status == 200
    for wrong in ({"event_id": text, "repeat": True}, {"entity": f"dataset:p/{text}"}, {"expected": text}, {text: 1},
                  {"type": text}):  # fmt: skip
        assert clean(server.post("/api/v1/events", {**tagged, **wrong})).status in (400, 403), wrong


def test_line_ends_in_the_address_of_a_next_page_stay_encoded(server: Served) -> None:
    urn = f"dataset:pages/{BROKEN}"
    for number in range(3):
        assert server.post(f"/api/v1/entities/{urn}", {"description": f"{number}"}).status in (200, 201)
    branch = created(server.journal, "broken").branch("main")
    branch.write([entry(f"a{BREAK}"), entry(f"b{BREAK}")])[-1].position  # noqa: B018  (waits)
    server.fold()
    objects = "/api/v1/repositories/broken/objects?ref=main&limit=1"
    for path, encoded in (
        (f"/api/v1/history/{urn}?limit=1", f"/api/v1/history/{urn}?limit=1&cursor="),
        (objects, f"{objects}&cursor={BROKEN.replace('%20', '+')}"),
    ):
        link = clean(server.get(path)).headers["link"]
        assert link.startswith(f"<{encoded}")
        assert clean(server.get(link.partition(">")[0].removeprefix("<"))).status == 200


def test_line_ends_in_a_form_stay_encoded_in_where_it_leads(server: Served) -> None:
    server.principals.by_key["visitor"] = Principal(
        "default", "visitor", "visitor", Rights([("admin", "*")], {}), SESSION
    )
    browser, text = Browser(server), f"a{BREAK}"
    to_login = clean(browser.get(f"/search?query={BROKEN}"))
    assert (to_login.status, to_login.headers["location"]) == (
        303,
        f"/login?next={quote(f'/search?query={BROKEN}', '')}",
    )
    browser.cookie = f"mj-{server.address.rpartition(':')[2]}=visitor"
    assert clean(browser.get(f"/login?next=/{BROKEN}")).headers["location"] == "/"
    form = next(one for one in browser.page("/register").all("form") if one.attributes["action"] == "/register")
    registered = clean(browser.submit(form, urn=f"dataset:formed/{BROKEN}", tags="b", description=text))
    assert registered.headers["location"] == f"/entity?urn=dataset%3Aformed%2F{quote(BROKEN)}&done=1"
    assert clean(browser.submit(form, urn=f"dataset:formed/{text}")).status == 400
    token = form.all("input", name="token")[0].attributes["value"] or ""
    for path, name in (("/access/principals", "principal"), ("/access/roles", "role")):
        fields = {"token": token, name: text, "expected": "0", "ReadEntity": "on"}
        assert clean(browser.send(path, fields)).status == 400
    back = clean(browser.send("/logout", {"token": "x"}, Referer=f"http://{server.address}/{BROKEN}"))
    assert back.status == 403


def test_errors_tell_no_innards(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(server.principals, "who", broken)
    answer = server.get(PROPERTIES)
    assert code(answer) == (500, "internal")
    assert b"secret" not in answer.body
    assert json.loads(answer.body)["request_id"]


@pytest.fixture(scope="module")
def over_tls(
    server: Served, gateway_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, ssl.SSLContext]]:
    """The same over TLS, of whose answers the system takes little by itself: its address, and whom to trust there."""

    def listening(*asked: Any, **more: Any) -> socket.socket:
        found = _listening(*asked, **more)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)  # as all that it accepts
        return found

    chain, private_key = self_signed(tmp_path_factory.mktemp("tls"))
    own = replace(gateway_settings.gateway, certificate=str(chain), private_key=str(private_key))
    with ExitStack() as opened:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("metajournal.gateway.server._listening", listening)
            tls = running(server.journal, server.principals, replace(gateway_settings, gateway=own))
            address = opened.enter_context(tls)
        yield address, ssl.create_default_context(cafile=str(chain))


@pytest.fixture(params=["plain", "TLS"])
def ask_for_much(
    server: Served, over_tls: tuple[str, ssl.SSLContext], request: pytest.FixtureRequest
) -> Callable[[int], socket.socket]:
    """Makes a connection on which so much is to be answered that it waits for its reader."""
    address, trusted = (server.address, None) if request.param == "plain" else over_tls

    def asked(answers: int) -> socket.socket:
        host, _, port = address.rpartition(":")
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect((host, int(port)))
        if trusted is not None:
            connection = trusted.wrap_socket(connection, server_hostname=host)
        connection.sendall(f"GET /openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n".encode() * answers)
        return connection

    return asked


_ANSWERS = 60


def is_dropped(connection: socket.socket) -> bool:
    """Whether the server has ended a connection of which something is unread."""
    try:
        connection.send(b"\r\n")
    except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        return True
    return False


def test_who_takes_nothing_of_an_answer_is_dropped(
    ask_for_much: Callable[[int], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "STALLED_S", 0.3)
    with ask_for_much(_ANSWERS) as connection:
        eventually(lambda: is_dropped(connection), 20, "the end of a connection that nobody reads")


@pytest.mark.parametrize("ask_for_much", ["TLS"], indirect=True)
def test_who_takes_nothing_of_one_answer_over_tls_is_dropped(
    ask_for_much: Callable[[int], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop takes it whole, and never says that it waits."""
    monkeypatch.setattr(protocol, "STALLED_S", 0.3)
    with ask_for_much(1) as connection:
        eventually(lambda: is_dropped(connection), 5, "the end of a connection that nobody reads")


def test_who_takes_an_answer_slowly_gets_all_of_it(
    ask_for_much: Callable[[int], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "STALLED_S", 2.0)  # a receiver tells of its room in steps, here of half a second
    with ask_for_much(_ANSWERS) as connection:
        began, taken = time.monotonic(), bytearray()
        while time.monotonic() < began + 6:
            taken += connection.recv(4096)
            select.select([], [], [], 0.02)
        while taken.count(b"HTTP/1.1 200 ") < _ANSWERS or not taken.endswith(b"}"):
            part = connection.recv(65_536)
            assert part, f"{taken.count(b'HTTP/1.1 200 ')} answers, then an end"
            taken += part
