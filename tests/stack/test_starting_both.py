"""Both servers are started at once; whatever interrupts that, none of them is left running."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from metajournal.stack import services


class Started:
    """A server that notes that it was stopped."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """Servers that come up, each when it is told to."""
    found: list[Started] = []

    def start(name: str) -> Started:
        server = Started(name)
        found.append(server)
        return server

    monkeypatch.setattr(services, "start_kafka", lambda *_, **__: start("kafka"))
    monkeypatch.setattr(services, "start_elasticsearch", lambda *_, **__: start("elasticsearch"))
    return found


def test_both_come_up_by_name(started: list[Started], tmp_path: Path) -> None:
    assert [*services.start_servers(None, tmp_path)] == ["kafka", "elasticsearch"]  # type: ignore[arg-type]
    assert [one.stopped for one in started] == [0, 0]
    assert [*services.start_servers(None, tmp_path, names=["kafka"])] == ["kafka"]  # type: ignore[arg-type]


@pytest.mark.parametrize("interrupted", [1, 2])
def test_an_interrupt_while_they_are_begun_leaves_none_running(
    started: list[Started], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: int
) -> None:
    """It may come when a start is on its way and nobody has its future yet."""
    submit, begun = ThreadPoolExecutor.submit, []

    def interrupt(pool: ThreadPoolExecutor, *args: Any) -> Future[Any]:
        begun.append(submit(pool, *args))
        if len(begun) == interrupted:
            raise KeyboardInterrupt
        return begun[-1]

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        services.start_servers(None, tmp_path)  # type: ignore[arg-type]
    assert [one.stopped for one in started] == [1] * interrupted


def test_where_one_does_not_come_up_the_other_is_stopped(
    started: list[Started], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_up = threading.Event()

    def fail(*_: Any, **__: Any) -> Started:
        is_up.wait(30)
        raise OSError("no place")

    def start(*_: Any, **__: Any) -> Started:
        started.append(Started("elasticsearch"))
        is_up.set()
        return started[-1]

    monkeypatch.setattr(services, "start_kafka", fail)
    monkeypatch.setattr(services, "start_elasticsearch", start)
    with pytest.raises(OSError, match="no place"):
        services.start_servers(None, tmp_path)  # type: ignore[arg-type]
    assert [one.stopped for one in started] == [1]
