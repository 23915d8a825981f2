"""Keys, codes and sessions stand nowhere but with who has them: all that a server leaves behind is read."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient
from elasticsearch import Elasticsearch

from metajournal.domains.access.keys import KeyText, parse_key
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.terminal.logs import JsonLines
from tests.gateway.browsing import Browser, logged_in, member, parsed
from tests.gateway.feeding import publisher
from tests.gateway.serving import Got, Served, served
from tests.gateway.test_audit import of_request
from tests.indexer.loading import load
from tests.topics import read
from tests.wait import eventually

pytestmark = pytest.mark.services
ME, ADA = "/api/v1/access/me", "/api/v1/access/principals/ada"
ORDERS = "dataset:sales/orders"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A server whose stream publishes to the broker, so that every topic holds what it would."""
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True, topics=publisher(gateway_settings)) as running:
        yield running


@pytest.fixture
def log() -> Iterator[StringIO]:
    """What a server's process would log if it logged everything (pytest's own handlers make uvicorn log more)."""
    root, lines = logging.getLogger(), StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(JsonLines())
    former = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.setLevel(former)
    root.removeHandler(handler)


def test_keys_are_never_in_topics_index_tables_errors_or_the_log(
    server: Served, gateway_settings: Settings, log: StringIO
) -> None:
    """Each is used rightly, wrongly and after its end; its id is found, and its hash where the fold needs it."""
    root = member(server.journal, "root", ("admin", "*"))
    browser = logged_in(server, root)
    assert server.post(ADA, key=root).status == 201
    grants = {"grants": [{"role": "developer", "pattern": "*"}]}
    assert server.post(f"{ADA}/grants", grants, key=root).status == 200
    key = server.post(f"{ADA}/keys", {"label": "laptop"}, key=root).json["key"]
    form = next(
        one for one in browser.page("/access/principals/ada").all("form") if one.all("input", name="use", value="code")
    )
    code = parsed(browser.submit(form).body).all("pre")[0].text

    adas = Browser(server)
    assert adas.get(f"/login?code={code}").status == 200
    refused = [
        server.get(ME, key=mistyped(key), X_Request_Id="mistyped-key"),
        adas.log_in(mistyped(key)),
        adas.log_in(mistyped(code)),
    ]
    eventually(lambda: adas.log_in(code).status == 303)
    refused += [Browser(server).log_in(code), server.get(ME, key=code)]
    session = str(adas.cookie).partition("=")[2]
    refused.append(server.get(ME, key=session))
    assert server.post(f"/api/v1/entities/{ORDERS}", key=key).status == 201
    assert server.post("/v3/namespaces/sales/datasets/orders/metadata/tags", ["seen"], key=key).status == 200
    assert logged_in(server, key).get(f"/entity/{ORDERS}").status == 200
    told = [server.delete(f"{ADA}/keys/{key}", key=root)]
    assert (told[0].status, key_of(key).id in told[0].body.decode()) == (400, False)
    assert server.get(f"/api/v1/entities/access-key:ada/{key}", key=key).status == 403  # and its audit record
    assert server.delete(f"{ADA}/keys/{key_of(key).id}", key=root).status == 200
    refused += [server.get(ME, key=key, X_Request_Id="revoked-key"), Browser(server).log_in(key)]
    assert [one.status for one in refused] == [401] * len(refused)

    server.fold()
    topics = in_topics(gateway_settings, "revoked-key")
    fill_index(gateway_settings)
    places = {
        "topics": b"\n".join(topics.values()),
        "tables": b"\n".join(in_lake(Path(gateway_settings.lake.path))),
        "index": in_index(gateway_settings),
        "answers": b"\n".join(said(one) for one in (*refused, *told)),
        "log": log.getvalue().encode(),
    }
    secrets = [text.split("_")[2] for text in (root, key, code, session)]
    hidden = [form for one in secrets for form in (one[:24].encode(), one[-24:].encode(), bytes.fromhex(one[:24]))]
    assert {kind for kind, place in places.items() for form in hidden if form in place} == set()

    names = gateway_settings.journal.topics
    access, audit = topics[names.journal("access")], topics[names.audit]
    for text in (root, key, code, session):  # what is read is what would hold them
        one = key_of(text)
        assert one.id.encode() in access
        assert one.hash.encode() in access
        assert one.id.encode() in places["tables"]
        assert one.hash.encode() in places["tables"]
        assert one.hash.encode() not in audit + places["index"] + places["answers"] + places["log"]
    assert ORDERS.encode() in topics[names.state("catalog")]
    assert ORDERS.encode() in places["index"]
    assert key_of(root).id.encode() in audit
    assert f"DELETE {ADA}/keys/mjk_{key_of(key).id}_".encode() in places["log"]
    assert b"mistyped-key" in places["log"]
    assert b"Not logged in" in places["answers"]


def mistyped(text: str) -> str:
    """A key whose last digit is another one, so that its secret is still the right one."""
    return text[:-1] + ("0" if text[-1] != "0" else "1")


def key_of(text: str) -> KeyText:
    """A key, taken apart."""
    key = parse_key(text)
    assert key is not None
    return key


def said(answer: Got) -> bytes:
    """All that an answer has."""
    return f"{dict(answer.headers)}\n".encode() + answer.body


def in_topics(settings: Settings, request_id: str) -> dict[str, bytes]:
    """Keys, headers and values of every topic of an installation, once its audit has a request."""
    assert of_request(settings, request_id)
    admin = AdminClient({"bootstrap.servers": settings.kafka["bootstrap.servers"], "log_level": 0})
    names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(f"{settings.journal.prefix}.")]
    return {
        name: b"\n".join(
            part for one in read(settings, name) for part in leaves([one.key(), one.headers(), one.value()])
        )
        for name in names
    }


def fill_index(settings: Settings) -> None:
    """Have the index show every state that the stream has published."""
    topic = settings.journal.topics.state("catalog")
    states = [json.loads(value) for one in read(settings, topic) if (value := one.value()) is not None]
    load(settings, states)


def in_index(settings: Settings) -> bytes:
    """All documents of an installation."""
    with Elasticsearch(settings.elasticsearch.url) as search:
        found = search.search(index=f"{settings.elasticsearch.index}*", size=1000).body
    assert found["hits"]["total"]["value"] == len(found["hits"]["hits"])
    return json.dumps(found, default=str).encode()


def in_lake(folder: Path) -> Iterator[bytes]:
    """Every file of a lake as it is, and of those that are compressed each value too."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.read_bytes()
        if path.suffix == ".parquet":
            yield from leaves(pq.ParquetFile(path).read().to_pylist())


def leaves(value: Any) -> Iterator[bytes]:
    """The texts and bytes within a value."""
    if isinstance(value, str):
        yield value.encode()
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        yield from leaves(list(value.items()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from leaves(one)
