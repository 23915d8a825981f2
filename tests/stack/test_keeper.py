"""A keeper and `down` on a disk that takes nothing: what runs goes on, what is to end ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metajournal.stack.errors import HomeError
from metajournal.stack.home import RUN_FILE, Run, write_run
from metajournal.stack.keeper import NOTE
from metajournal.stack.process import Kept, ProcessId, end, keep, read_state
from metajournal.stack.supervisor import _end_all, _entry
from tests.wait import eventually

SERVER = "import pathlib, signal, sys; pathlib.Path(sys.argv[1]).touch(); signal.pause()"
FAILING = """
import pathlib, signal, sys
begun = pathlib.Path(sys.argv[1])
with begun.open("a") as file:
    file.write("begun\\n")
if (begun.parent / "go").exists():
    sys.exit(3)
signal.pause()
"""


@contextmanager
def kept(folder: Path, name: str, text: str = SERVER) -> Iterator[Kept]:
    """A server under its keeper that has begun, and is ended with the block."""
    server = keep(name, [sys.executable, "-c", text, folder / f"{name}.begun"], folder=folder)
    try:
        yield server
    finally:
        server.stop()


def test_a_keeper_that_cannot_write_keeps_its_server_and_writes_with_room(tmp_path: Path) -> None:
    """The state's draft and the log have a folder in their place."""
    draft, log = tmp_path / "server.state.new", tmp_path / "server.log"
    draft.mkdir()
    log.mkdir()
    with kept(tmp_path, "server") as server:
        eventually((tmp_path / "server.begun").exists, what="the server's begin")
        assert read_state(server.state) == {}
        draft.rmdir()
        eventually(lambda: server.server_pid, what="the state, once it can be written")
        assert server.exit_code is None
    assert read_state(server.state)["exit_code"] == -15


def test_down_ends_everything_also_where_it_cannot_write_that_down(tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).mkdir()
    with pytest.raises(HomeError, match=f"{RUN_FILE} cannot be written: Is a directory"):
        write_run(tmp_path, Run())
    messages = list[str]()
    with kept(tmp_path, "stream") as stream, kept(tmp_path, "indexer") as indexer:
        for server in (stream, indexer):
            eventually(lambda server=server: server.server_pid, what="a begin")  # type: ignore[misc]
        run = Run().with_entry("stream", _entry(stream)).with_entry("indexer", _entry(indexer))
        ended = _end_all(tmp_path, run, messages.append)
    assert [(component.name, component.how) for component in ended] == [("indexer", "stopped"), ("stream", "stopped")]
    assert run.alive == []
    assert sum("cannot be written" in text for text in messages) == 2


@pytest.mark.thorough
def test_a_server_that_fails_is_started_again_after_longer_and_longer_once_its_owner_has_let_go(tmp_path: Path) -> None:
    begun = tmp_path / "server.begun"
    with kept(tmp_path, "server", FAILING) as server:
        pid = eventually(lambda: begun.exists() and bool(begun.read_text()) and server.server_pid, what="a begin")
        server.release()
        (tmp_path / "go").touch()
        os.kill(pid, signal.SIGKILL)
        waits: list[int] = []
        for restarts, code in enumerate((-signal.SIGKILL, 3, 3)):
            state = eventually(lambda: waiting(server, restarts), 20, "the next delay")  # noqa: B023
            assert state["exit_code"] == code
            waits.append(round((state["again_ms"] - state["ended_ms"]) / 1000))
        assert waits == [1, 2, 4]
        assert begun.read_text() == "begun\n" * 3
        keeper = ProcessId.of(server.keeper_pid)
        assert keeper is not None
        assert end(keeper, timeout_s=10), "one that waits ends at once"
    assert read_state(server.state)["again_ms"] is None
    assert server.log.read_text().count(NOTE) == 3


def waiting(server: Kept, restarts: int) -> dict[str, Any] | None:
    state = read_state(server.state)
    return state if state.get("again_ms") and state["restarts"] == restarts else None


@pytest.mark.thorough
@pytest.mark.parametrize(("code", "released"), [(0, True), (3, False)], ids=["asked to end", "owned"])
def test_a_server_that_was_asked_to_end_or_has_its_owner_is_not_started_again(
    tmp_path: Path, code: int, released: bool
) -> None:
    text = f"import pathlib, sys, time\nwhile not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.01)\n"
    with kept(tmp_path, "server", f"{text}sys.exit({code})") as server:
        eventually(lambda: server.server_pid, what="a begin")
        keeper = ProcessId.of(server.keeper_pid)
        if released:
            server.release()
        (tmp_path / "go").touch()
        eventually(lambda: keeper is not None and not keeper.alive, what="the keeper's end")
    assert (read_state(server.state)["exit_code"], read_state(server.state)["restarts"]) == (code, 0)
