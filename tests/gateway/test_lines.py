"""Lines of events whose outcomes the stream publishes, as one asks for them with `?outcome=true`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metajournal import EntityRegistered, TagsAdded, dataset
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.feeding import publisher
from tests.gateway.serving import Served, served

pytestmark = pytest.mark.services
HERS = dataset("lines", "hers")


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A server whose stream publishes to the broker."""
    ensure_topics(gateway_settings)
    with served(gateway_settings, topics=publisher(gateway_settings)) as found:
        yield found


@contextmanager
def folding(server: Served) -> Iterator[None]:
    """The stream folds again and again until the block ends."""
    ended = threading.Event()

    def fold() -> None:
        while not ended.wait(0.05):
            server.fold()

    thread = threading.Thread(target=fold)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def told(server: Served, **line: Any) -> Any:
    """The outcome of a line."""
    with folding(server):
        answer = server.post(
            "/api/v1/events?outcome=true", json.dumps(line).encode(), Content_Type="application/x-ndjson"
        )
    [result] = answer.json["results"]
    return result


def test_a_line_with_the_id_of_another_event_learns_nothing_of_it(server: Served) -> None:
    server.journal.emit(EntityRegistered(HERS))
    own = server.journal.emit(TagsAdded(HERS, ["x"]), actor="admin").event_id
    server.journal.flush()
    line = {"type": "TagsAdded", "entity": str(HERS), "event_id": own, "repeat": True}
    same = told(server, tags=["x"], **line)
    assert (same["ok"], same["outcome"], same["original"]["outcome"]) == (True, "duplicate", "accepted")
    other = told(server, tags=["y"], **line)
    assert (other["ok"], other["error"]["code"], "original" in other) == (False, "key-reused", False)


def test_the_lines_of_the_reference_page_make_a_repository_with_a_commit(server: Served) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith('    {"type"')]
    assert len(lines) == 3
    with folding(server):
        body = "\n".join(lines).encode()
        answer = server.post("/api/v1/events?outcome=true", body, Content_Type="application/x-ndjson")
    assert [one.get("outcome") for one in answer.json["results"]] == ["accepted"] * 3, answer.json
    assert [one["path"] for one in server.get("/api/v1/repositories/sales/objects?ref=main").json["items"]] == [
        "orders.csv"
    ]
