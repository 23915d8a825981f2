"""A broker killed with -9 under load, again and again: its client waits it out, and what it is told is true."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from metajournal.schemas.settings import ClientSettings, JournalSettings, Settings
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import start_kafka
from metajournal.stack.server import Server
from tests.faults.checking import assert_kept
from tests.faults.clients import Life, register
from tests.faults.journalist import Book
from tests.faults.scale import seeded, times
from tests.wait import eventually

pytestmark = pytest.mark.services


def kill(server: Server) -> None:
    """End a broker as a crash would."""
    pid = server.kept.server_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: server.kept.exit_code is not None, what="the broker's end")
    server.stop()


def test_a_broker_killed_under_load_loses_doubles_and_tears_nothing(tmp_path: Path) -> None:
    draw = seeded("broker kills")
    parts = ensure_parts(("kafka",))
    path = tmp_path / "book"
    broker = start_kafka(parts, tmp_path / "kafka")
    ports = broker.ports
    try:
        settings = Settings(
            journal=JournalSettings(prefix="kills", actor="tests"),
            kafka={"bootstrap.servers": broker.endpoint},
            client=ClientSettings(delivery_timeout_s=60.0),
        )
        register(settings)
        life = Life(settings, path, draw.randrange(1 << 32))
        for _ in range(times(2, 10)):
            written = path.stat().st_size if path.exists() else 0
            life.has_written(written + draw.randrange(20_000, 80_000))
            kill(broker)
            broker = start_kafka(parts, tmp_path / "kafka", ports=ports)
            assert broker.ports == ports
        life.has_written(path.stat().st_size + 2_000)
        life.stop()
        book = Book(path)
        assert book.open == []
        print(assert_kept(settings, [book], tmp_path / "lake"), life.said())  # noqa: T201  (what the run was)
    finally:
        broker.stop()
