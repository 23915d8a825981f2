"""OpenLineage while the broker is away: refused in time and asked for again, and what its client repeats is there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.catalog.naming import data
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import GatewaySettings, JournalSettings, LakeSettings, Settings
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import start_kafka
from tests.gateway.java_client import JavaClient, RefusedError, machine
from tests.gateway.openlineage_client import LINEAGE, client, entity, event
from tests.gateway.outcome import apart, assert_became, entities, told
from tests.gateway.serving import Served, served
from tests.gateway.story import Night
from tests.wait import eventually

pytestmark = pytest.mark.services
_TRIES = 8
"""Of the client, a minute in all: by default it gives up after ten seconds, which a busy machine's broker may need."""


class Broker:
    """A broker that can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._parts, self._folder = ensure_parts(("kafka",)), folder
        self.server = start_kafka(self._parts, folder)

    def kill(self) -> None:
        pid = self.server.kept.server_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: self.server.kept.exit_code is not None, what="the broker's end")
        self.server.stop()

    def start(self) -> None:
        self.server = start_kafka(self._parts, self._folder, ports=self.server.ports)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("kafka"))
    yield made
    made.server.stop()


@pytest.fixture(scope="module")
def server(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server over that broker."""
    own = Settings(
        journal=JournalSettings(prefix="outage", actor="tests", partitions=2),
        kafka={"bootstrap.servers": broker.server.endpoint},
        lake=LakeSettings(path=str(tmp_path_factory.mktemp("outage") / "lake")),
        gateway=GatewaySettings(port=0, operator="", drain_s=0, requests_per_s=0),
    )
    ensure_topics(own)
    with served(own) as running:
        yield running


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_a_broker_that_restarts_loses_nothing_of_what_a_client_sends(
    broker: Broker, server: Served, asynchronous: bool
) -> None:
    """Nor does anything count twice: what the night became is what one became that nothing disturbed."""
    name = f"{asynchronous}".lower()
    undisturbed, night = Night(f"undisturbed-{name}"), Night(f"outage-{name}")
    events = night.events()
    with client(server, asynchronous=asynchronous) as sender:
        for one in undisturbed.events():
            sender.emit(one)
    retry = dict.fromkeys(("total", "read", "connect"), _TRIES)
    with client(server, asynchronous=asynchronous, retry=retry) as sender, ThreadPoolExecutor(1) as aside:
        sender.emit(events[0])
        broker.kill()
        back = aside.submit(_back_again, broker, server)
        for one in events[1:]:
            sender.emit(one)
        back.result()
    assert server.post(LINEAGE, event("outage")).status == 200
    assert entity(server, data("s3://shop", "outage")) is not None
    assert_became(server, night)
    assert apart(entities(server, night), night) == apart(entities(server, undisturbed), undisturbed)
    assert told(server, night) == told(server, undisturbed)


def _back_again(broker: Broker, server: Served) -> None:
    """Start the broker again once the client, too, was told to come again."""
    try:
        for _ in range(2):
            began = time.monotonic()
            refused = server.post(LINEAGE, event("outage"))
            assert (refused.status, int(refused.headers["retry-after"]) >= 1) == (503, True), refused.body
            assert time.monotonic() - began < 4.9
    finally:
        broker.start()


def test_what_a_java_client_was_answered_is_there_and_what_it_raised_for_is_sent_again(
    broker: Broker, server: Served
) -> None:
    """That client repeats a 503 once by itself and then raises: its user sends the event again."""
    undisturbed, night = Night("java-undisturbed"), Night("java-outage")
    with machine() as gateway, closing(JavaClient(gateway.jvm, server)) as client:
        for one in undisturbed.events():
            client.emit(one)
        first, second, *others = night.events()
        client.emit(first)
        broker.kill()
        with pytest.raises(RefusedError) as refused:
            client.emit(second)
        assert refused.value.status == 503
        broker.start()
        for one in (second, *others):
            eventually(partial(_accepted, client, one), what="an answer with 2xx")
    assert_became(server, night)
    assert apart(entities(server, night), night) == apart(entities(server, undisturbed), undisturbed)
    assert told(server, night) == told(server, undisturbed)


def _accepted(client: JavaClient, one: Any) -> bool:
    try:
        client.emit(one)
    except RefusedError as error:
        if error.status != 503:
            raise
        return False
    return True
