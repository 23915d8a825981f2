"""`up`, `status` and `down`: what outlives a command is found again, shown as it is, and ended exactly."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from metajournal.config import load_settings
from metajournal.schemas.settings import JournalSettings, Settings
from metajournal.stack import supervisor
from metajournal.stack.errors import AlreadyRunningError, HomeError, ServerStartError
from metajournal.stack.home import RUN_FILE, SETTINGS_FILE, Run, read_run
from metajournal.stack.ports import answers, free_ports
from metajournal.stack.process import ProcessId
from metajournal.stack.status import Component, Status, status
from metajournal.stack.supervisor import _gateway_ports, down, up
from tests.new_topics import make_topics
from tests.wait import eventually

pytestmark = pytest.mark.services
PRETENDER = str(Path(__file__).with_name("pretender.py"))
COMMANDS = {name: (sys.executable, PRETENDER, name) for name in ("stream", "indexer")}
ROOT = Path(__file__).parents[2]
SCRIPT = "import sys; from tests.stack.test_supervisor import up_here; up_here(sys.argv[1])"
ALL = ["kafka", "elasticsearch", "stream", "indexer"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder whose services are ended after the test, however it ends."""
    folder = tmp_path / "a home, größer als nötig ✓"
    yield folder
    down(folder)
    down(folder.with_name("moved"))


def test_up_outlives_its_command_and_down_ends_exactly_that(home: Path) -> None:
    """Another process says `up` and ends; all four run on, are found again, keep their data, and end in order."""
    prefixed = Settings(journal=JournalSettings(prefix="mine"))
    subprocess.run([sys.executable, "-c", SCRIPT, home], check=True, cwd=ROOT)
    assert [path.name for path in home.parent.iterdir()] == [home.name], "everything is in the home"
    assert any((home / "elasticsearch" / "data").iterdir())
    seen = status(home)
    assert [(component.name, component.state, component.mend) for component in seen.components] == [
        (name, "running", "") for name in ALL
    ]
    assert [(stage.name, stage.freshness_s, stage.reached) for stage in seen.stages] == [
        ("lake", 0.25, {"t": {"0": 7}}),
        ("index", 0.25, {"t/0": 7}),
    ]
    settings = load_settings(environ={"METAJOURNAL_HOME": str(home)}, folder=home).settings
    assert settings.journal.prefix == "mine"
    assert settings.lake.path == str(home / "lake")
    admin = AdminClient(dict(settings.kafka))
    make_topics(admin, [NewTopic("kept", 2)])
    with pytest.raises(AlreadyRunningError):
        up(home, prefixed, commands=COMMANDS)

    assert [(component.name, component.how) for component in down(home)] == [
        (name, "stopped") for name in reversed_order()
    ]
    assert (home / "order").read_text().split() == ["indexer", "stream"]
    assert [component.state for component in status(home).components] == ["not started"] * 4

    home = home.rename(home.with_name("moved"))
    settings = load_settings(environ={"METAJOURNAL_HOME": str(home)}, folder=home).settings
    messages = list[str]()
    again = up(home, settings, commands=COMMANDS, tell=messages.append)
    assert again.lake == str(home / "lake")
    if not any(message.startswith("a port of kafka is now in use") for message in messages):  # taken by somebody else
        assert again.components["kafka"].endpoint == settings.kafka["bootstrap.servers"]
    admin = AdminClient({"bootstrap.servers": again.components["kafka"].endpoint or ""})
    assert len(admin.list_topics(timeout=10).topics["kept"].partitions) == 2
    a_copy_leaves_the_processes_of_the_original_alone(home)
    what_dies_is_started_again_by_itself(home)
    up_starts_again_only_what_died(home, settings)
    up_with_other_settings_starts_stream_and_indexer_again(home, settings)
    the_gateway_comes_last_on_ports_that_are_free(home)


def a_copy_leaves_the_processes_of_the_original_alone(home: Path) -> None:
    copy = home.with_name("copy")
    copy.mkdir()
    for name in (RUN_FILE, SETTINGS_FILE):
        shutil.copy(home / name, copy)
    assert load_settings(environ={"METAJOURNAL_HOME": str(copy)}, folder=copy).settings.stack.home == str(copy)
    assert [component.state for component in status(copy).components] == ["not started"] * 4
    assert down(copy) == []
    assert status(home).fine


def the_gateway_comes_last_on_ports_that_are_free(home: Path) -> None:
    """Its ports are those that are set where nobody has them, and the same ones the next time."""
    commands = {**COMMANDS, "gateway": (sys.executable, PRETENDER, "gateway")}
    settings = load_settings(environ={"METAJOURNAL_HOME": str(home)}, folder=home).settings
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = taken.getsockname()[1]
        run = up(home, replace(settings, gateway=replace(settings.gateway, port=used)), commands=commands)
    port, operator = run.components["gateway"].ports
    assert used not in (port, operator)
    seen = component_of(status(home), "gateway")
    assert (seen.state, seen.endpoint) == ("running", f"http://127.0.0.1:{port}")
    read = load_settings(environ={"METAJOURNAL_HOME": str(home)}, folder=home).settings.gateway
    assert (read.port, read.operator) == (port, f"127.0.0.1:{operator}")
    assert down(home)[0].name == "gateway"
    assert [(one.name, one.state) for one in status(home).components][-1] == ("gateway", "not started")
    again = up(home, settings, commands=commands).components["gateway"].ports
    assert again == (port, operator) or not answers(port)


def component_of(seen: Status, name: str) -> Component:
    return next(component for component in seen.components if component.name == name)


def pids(home: Path) -> dict[str, int | None]:
    return {component.name: component.pid for component in status(home).components}


def what_dies_is_started_again_by_itself(home: Path) -> None:
    """A component that was killed runs again soon, and `status` says that and why; the others are left alone."""
    before = pids(home)
    killed = before["indexer"]
    assert killed is not None
    os.kill(killed, signal.SIGKILL)

    def again() -> Status | None:
        """One look, so that what it shows is of one time."""
        seen = status(home)
        indexer = component_of(seen, "indexer")
        return seen if seen.fine and indexer.restarts and indexer.state == "running" else None

    seen = eventually(again, 60, "the indexer once more")
    indexer = component_of(seen, "indexer")
    assert indexer.pid != killed
    assert indexer.restarts == 1
    assert indexer.message == ("the indexer was killed by signal 9 (SIGKILL) and was restarted (once since up)")
    assert {**before, "indexer": indexer.pid} == {component.name: component.pid for component in seen.components}


def up_starts_again_only_what_died(home: Path, settings: Settings) -> None:
    """What nobody starts again, since its keeper was killed too, is shown as ended, until `up` starts that alone."""
    before, entry = pids(home), read_run(home).components["indexer"]
    entry.keeper.send(signal.SIGKILL)
    eventually(lambda: not entry.keeper.alive, 10, "the keeper's end")
    seen = {component.name: component for component in status(home).components}
    assert seen["indexer"].state == "ended"
    assert seen["indexer"].mend.endswith("then run: metajournal up")
    assert status(home).stages[1].freshness_s is None
    assert {name: component.state for name, component in seen.items() if name != "indexer"} == dict.fromkeys(
        ALL[:3], "running"
    )
    messages = list[str]()
    up(home, settings, commands=COMMANDS, tell=messages.append)
    assert messages == [
        "Kafka, Elasticsearch and the stream are already running", "starting the indexer", "the indexer is ready",
    ]  # fmt: skip
    assert status(home).fine
    after = pids(home)
    assert after["indexer"] != before["indexer"]
    assert {**after, "indexer": before["indexer"]} == before


def up_with_other_settings_starts_stream_and_indexer_again(home: Path, settings: Settings) -> None:
    """They read the settings when they start; the servers, which have none of these, run on."""
    before, entry = pids(home), read_run(home).components["indexer"]
    entry.keeper.send(signal.SIGKILL)
    eventually(lambda: not entry.keeper.alive, 10, "the keeper's end")
    messages = list[str]()
    up(home, replace(settings, journal=JournalSettings(prefix="other")), commands=COMMANDS, tell=messages.append)
    assert "the stream had other settings and is restarted" in messages
    after = pids(home)
    assert after["stream"] != before["stream"]
    assert {name: after[name] for name in ALL[:2]} == {name: before[name] for name in ALL[:2]}
    assert load_settings(environ={"METAJOURNAL_HOME": str(home)}, folder=home).settings.journal.prefix == "other"


def test_what_does_not_come_up_is_said_and_nothing_is_left(home: Path) -> None:
    """An indexer that ends at once: the error quotes its log, and the other three are ended again."""
    home.mkdir()
    (home / "indexer.fail").touch()
    with pytest.raises(ServerStartError, match=r"(?s)indexer did not start.*exit code 1.*it hurts here"):
        up(home, Settings(), commands=COMMANDS)
    assert read_run(home).components == {}


def test_up_that_is_killed_halfway_leaves_nothing(home: Path) -> None:
    """kill -9 of `up` while it still waits: what it had started ends with it, and `up` works afterwards."""
    home.mkdir()
    (home / "indexer.silent").touch()
    with subprocess.Popen([sys.executable, "-c", SCRIPT, home], cwd=ROOT) as starting:
        run = eventually(lambda: read_run(home) if read_run(home).components else None, 120, "a beginning")
        starting.kill()
    eventually(lambda: not run.alive, 30, "the end of everything")
    assert not any(map(answers, run.components["kafka"].ports))
    assert [component.state for component in status(home).components] == ["ended"] * 4


def test_a_recycled_pid_is_never_ended(home: Path) -> None:
    """A pid whose process started at another time is somebody else: it counts as gone and gets no signal."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        known = ProcessId.of(other.pid)
        assert known is not None
        assert known.alive
        stale = ProcessId(other.pid, "1")
        assert not stale.alive
        stale.send(signal.SIGKILL)
        assert other.poll() is None
        other.kill()


def up_here(home: str) -> None:
    """Run by another process."""
    up(Path(home), Settings(journal=JournalSettings(prefix="mine")), commands=COMMANDS)


def reversed_order() -> list[str]:
    return ["indexer", "stream", "elasticsearch", "kafka"]


def test_a_home_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(HomeError, match="cannot be written"):
            up(home, Settings(), commands=COMMANDS)
    assert down(tmp_path / "file") == []
    assert down(tmp_path / "none") == []


def test_other_ports_than_the_last_time_are_told(home: Path) -> None:
    first, messages = up(home, Settings(), commands=COMMANDS), list[str]()
    former = first.ports["kafka"]
    down(home)
    with socket.create_server(("127.0.0.1", former[0])):
        again = up(home, Settings(), commands=COMMANDS, tell=messages.append)
    assert [message for message in messages if "in use" in message] == [
        f"a port of kafka is now in use ({former[0]}, {former[1]}); it uses 127.0.0.1:{again.ports['kafka'][0]}"
    ]


def test_a_gateway_has_the_ports_that_are_set_else_those_of_the_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    last = Run(ports={"gateway": tuple(free_ports(2))})
    mine, operator = free_ports(2)
    own = replace(Settings().gateway, port=mine, operator=f"127.0.0.1:{operator}")
    assert _gateway_ports(Settings(gateway=own), last) == (mine, operator)
    with socket.create_server(("127.0.0.1", mine)):
        assert _gateway_ports(Settings(gateway=own), last) == (last.ports["gateway"][0], operator)
        port, _ = _gateway_ports(Settings(gateway=own), Run())
    assert port != mine
    usual = Settings().gateway.port
    monkeypatch.setattr(supervisor, "is_free", lambda port: port != usual)
    assert _gateway_ports(Settings(), last)[0] == last.ports["gateway"][0]
    monkeypatch.setattr(supervisor, "is_free", lambda port: True)
    assert _gateway_ports(Settings(), last)[0] == usual, "free again, after a time when it was taken"
