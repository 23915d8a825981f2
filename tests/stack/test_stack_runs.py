"""The services of this machine: they answer, keep their data, and die with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from elasticsearch import Elasticsearch

from metajournal.schemas.settings import Settings
from metajournal.stack import server as server_module
from metajournal.stack.errors import ServerStartError
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import SETTINGS, start_kafka
from metajournal.stack.ports import answers, free_ports
from metajournal.stack.process import ProcessId, read_state
from metajournal.stack.services import Stack
from tests.new_topics import make_topics
from tests.wait import eventually

pytestmark = pytest.mark.services
OWNER = Path(__file__).with_name("owner.py")


def test_the_run_s_services_answer(settings: Settings) -> None:
    """Kafka takes a message and Elasticsearch a document, each under the test's own names."""
    topic = settings.journal.prefix
    admin = AdminClient(dict(settings.kafka))
    make_topics(admin, [NewTopic(topic, 1)])
    seen: list[int | None] = []
    producer = Producer(dict(settings.kafka))
    producer.produce(topic, b"1", on_delivery=lambda error, message: seen.append(None if error else message.offset()))
    producer.flush(10)
    assert seen == [0]
    with Elasticsearch(settings.elasticsearch.url) as search:
        search.index(index=settings.elasticsearch.index, id="1", document={"a": 1}, refresh=True)
        assert search.count(index=settings.elasticsearch.index)["count"] == 1


def test_everything_dies_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    """kill -9 of the process that holds the Stack ends both servers, their launchers and their keepers."""
    ensure_parts(("kafka", "elasticsearch"))
    with subprocess.Popen([sys.executable, OWNER, tmp_path], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline().strip() == "up", "the owner could not start its stack"
        group = everything_in(tmp_path)
        assert {"kafka.Kafka", "elasticsearch", "keeper.py"} <= {mark for marks in group.values() for mark in marks}
        owner.kill()
    eventually(lambda: not any(process.alive for process in group), 30, "the end of every process of the stack")
    assert everything_in(tmp_path) == {}


def everything_in(home: Path) -> dict[ProcessId, set[str]]:
    """Processes whose command line names this folder, and which parts they are."""
    processes = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            inherited = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        process = ProcessId.of(int(entry.name))
        if process and str(home) in line + inherited and str(OWNER) not in line:
            processes[process] = {mark for mark in ("kafka.Kafka", "elasticsearch", "keeper.py") if mark in line}
    return processes


def test_a_broker_keeps_its_topics_and_its_settings_over_a_restart(tmp_path: Path) -> None:
    """The same folder is the same broker: topics are there again, and every setting of ours is in force."""
    parts = ensure_parts(("kafka",))
    first = start_kafka(parts, tmp_path)
    admin = AdminClient({"bootstrap.servers": first.endpoint})
    make_topics(admin, [NewTopic("kept", 3)])
    first.stop()
    assert not answers(first.ports[0])
    second = start_kafka(parts, tmp_path, ports=first.ports)
    try:
        assert second.ports == first.ports
        admin = AdminClient({"bootstrap.servers": second.endpoint})
        assert len(admin.list_topics(timeout=10).topics["kept"].partitions) == 3
        broker = ConfigResource(ResourceType.BROKER, "1")
        settings = admin.describe_configs([broker])[broker].result(10)
        assert {key: settings[key].value for key in SETTINGS} == SETTINGS
    finally:
        second.stop()


def test_a_killed_broker_is_back_within_seconds(tmp_path: Path) -> None:
    """After kill -9 of the server the folder can be started again at once (the old registration lives 1.5 s)."""
    parts = ensure_parts(("kafka",))
    first = start_kafka(parts, tmp_path)
    pid = read_state(first.kept.state)["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: first.kept.exit_code is not None, 10, "the keeper's end")
    assert read_state(first.kept.state)["exit_code"] == -signal.SIGKILL
    first.stop()
    again = start_kafka(parts, tmp_path, ports=first.ports)
    again.stop()
    assert again.ready_s < 10


def test_a_port_that_is_taken_meanwhile_is_given_up_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losing the race for a port costs a second start, and the other one's broker is never taken for ours."""
    parts = ensure_parts(("kafka",))
    holder = start_kafka(parts, tmp_path / "holder")
    try:
        monkeypatch.setattr("metajournal.stack.kafka.is_free", lambda port: True)
        server = start_kafka(parts, tmp_path / "late", ports=(holder.ports[0], free_ports(1)[0]))
        try:
            assert server.ports[0] != holder.ports[0]
            assert answers(server.ports[0])
        finally:
            server.stop()
    finally:
        holder.stop()


def test_a_server_that_ends_shows_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with a setting that it refuses: the error names the log and quotes the reason."""
    monkeypatch.setitem(SETTINGS, "node.id", "not-a-number")
    monkeypatch.setattr(server_module, "_ATTEMPTS", 1)
    with pytest.raises(ServerStartError, match=r"(?s)Kafka did not start.*kafka\.log.*not-a-number"):
        start_kafka(ensure_parts(("kafka",)), tmp_path)


def test_a_stack_leaves_nothing_behind(tmp_path: Path) -> None:
    """After the block both ports are closed and no process is left."""
    with Stack(tmp_path) as stack:
        ports = (stack.kafka.ports[0], stack.elasticsearch.ports[0])
        assert all(map(answers, ports))
    assert not any(map(answers, ports))
    assert everything_in(tmp_path) == {}
