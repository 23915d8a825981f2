"""A keeper and `down` on a disk that takes nothing: what runs goes on, what is to end ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from metajournal.stack.errors import HomeError
from metajournal.stack.home import RUN_FILE, Run, write_run
from metajournal.stack.process import Kept, keep, read_state
from metajournal.stack.supervisor import _end_all, _entry
from tests.wait import eventually

SERVER = "import pathlib, signal, sys; pathlib.Path(sys.argv[1]).touch(); signal.pause()"


@contextmanager
def kept(folder: Path, name: str) -> Iterator[Kept]:
    """A server under its keeper that has begun, and is ended with the block."""
    server = keep(name, [sys.executable, "-c", SERVER, folder / f"{name}.begun"], folder=folder)
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
