"""A broker that goes away under a subscription is waited out, and said once; closing is prompt meanwhile."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from metajournal.consumers.records import Change
from metajournal.consumers.subscription import changes
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import KafkaUnavailableError
from metajournal.schemas.settings import Settings
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import start_kafka
from metajournal.stack.parts import Parts
from metajournal.stack.ports import free_ports
from metajournal.stack.server import Server
from tests.consumers.test_subscriptions import each, told
from tests.consumers.wire import Wire, identities
from tests.wait import eventually

pytestmark = pytest.mark.services


@pytest.fixture
def parts() -> Parts:
    return ensure_parts(("kafka",))


@pytest.fixture
def broker(parts: Parts, tmp_path: Path) -> Iterator[Server]:
    """A broker of this test's own, which it may end."""
    server = start_kafka(parts, tmp_path)
    yield server
    server.stop()


@pytest.fixture
def settings(broker: Server) -> Settings:
    return Settings(kafka={"bootstrap.servers": broker.endpoint})


def killed(broker: Server) -> None:
    pid = broker.kept.server_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: broker.kept.exit_code is not None, what="the broker's end")
    broker.stop()


def test_a_broker_that_comes_back_is_waited_out_and_each_change_comes_once(
    broker: Server, settings: Settings, parts: Parts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "metajournal.subscription")
    epochs, delivered = ensure_topics(settings), list[Change]()
    wire = Wire(settings)
    subscriptions = {group: changes(settings, epochs, group=group, since="earliest") for group in (None, "g")}
    threads = [threading.Thread(target=lambda one=one: delivered.extend(one)) for one in subscriptions.values()]
    for thread in threads:
        thread.start()
    events = each(0, 0, 40) + each(3, 0, 40)
    wire.batch(events[:50])
    eventually(lambda: len(delivered) == 200, 30, "what was published before")
    killed(broker)

    def said(text: str) -> int:
        return sum(text in one.getMessage() for one in caplog.records)

    eventually(lambda: said("does not answer") == 2, 20, "the word that Kafka is away, of each")
    again = start_kafka(parts, tmp_path, ports=broker.ports)
    try:
        wire.batch(events[40:])
        eventually(lambda: len(delivered) == 320, 60, "what was published after")
        eventually(lambda: said("answers again") == 2, 10, "the word that it is back")
        assert said("does not answer") == 2
        for one in subscriptions.values():
            one.close()
        for thread in threads:
            thread.join(10)
        for scope in ("USER", "SYSTEM"):
            mine = sorted(told([one for one in delivered if one.scope == scope]))
            assert mine == sorted(identities(events, scope) * 2)
    finally:
        again.stop()


def test_closing_is_prompt_and_a_time_out_says_why_while_the_broker_is_away(broker: Server, settings: Settings) -> None:
    epochs = ensure_topics(settings)
    Wire(settings).batch(each(0, 0, 3))
    waiting = changes(settings, epochs, timeout_s=2)
    member = changes(settings, epochs, group="g", since="earliest")
    next(member)
    next(member)
    killed(broker)
    with pytest.raises(KafkaUnavailableError, match="cannot be read"):
        list(waiting)
    waiting.close()
    started = time.monotonic()
    member.close()
    assert time.monotonic() - started < 6


def test_where_no_broker_answers_the_first_call_says_so(settings: Settings, broker: Server) -> None:
    epochs = ensure_topics(settings)
    [port] = free_ports(1)
    started = time.monotonic()
    with pytest.raises(KafkaUnavailableError):
        changes(Settings(kafka={"bootstrap.servers": f"127.0.0.1:{port}"}), epochs)
    assert time.monotonic() - started < 15
