"""OpenLineage's real Java client, with key and gzip: what it sends becomes the same as what the Python client sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.gateway.java_client import JavaClient, RefusedError, machine
from tests.gateway.openlineage_client import BATCH, plain
from tests.gateway.outcome import apart, assert_became, entities, told
from tests.gateway.serving import READER, Served
from tests.gateway.story import Night

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def jvm() -> Iterator[object]:
    """A JVM with the client's classes."""
    with machine() as gateway:
        yield gateway.jvm


@pytest.fixture
def client(jvm: object, server: Served) -> Iterator[JavaClient]:
    with closing(JavaClient(jvm, server)) as made:
        yield made


def test_a_night_becomes_lineage_schemas_and_facets(client: JavaClient, server: Served) -> None:
    night = Night("night-java")
    for one in night.events():
        client.emit(one)
    assert_became(server, night)


def test_any_order_gives_what_plain_json_gives_and_sent_again_nothing_changes(
    client: JavaClient, server: Served
) -> None:
    night, posted = Night("night-reversed"), Night("night-posted")
    for one in reversed(night.events()):
        client.emit(one)
    assert server.post(BATCH, [plain(one) for one in posted.events()]).json["status"] == "success"
    server.fold()
    found, runs = entities(server, night), told(server, night)
    assert (apart(found, night), runs) == (apart(entities(server, posted), posted), told(server, posted))
    for one in night.events():
        client.emit(one)
    server.fold()
    assert (entities(server, night), told(server, night)) == (found, runs)


def test_who_may_not_write_is_refused_and_the_client_says_so(jvm: object, server: Served) -> None:
    with closing(JavaClient(jvm, server, key=READER)) as client, pytest.raises(RefusedError) as refused:
        client.emit(Night("night-refused").events()[0])
    assert refused.value.status == 403
