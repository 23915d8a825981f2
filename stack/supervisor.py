"""Starts and ends the whole system of one folder: broker, Elasticsearch, stream and indexer, without docker.

What it starts outlives the command and is known afterwards by `run.json`. Each has its own keeper, which starts it
again where it fails. How it goes is `status`'s business, printing the command line's. Invariants: `down` ends exactly
what `up` started; `up` starts only what does not run; the data survives both.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..schemas.settings import Settings
from .errors import AlreadyRunningError, HomeError, ServerStartError
from .home import (
    SETTINGS_FILE,
    Entry,
    Run,
    locked,
    read_run,
    settings_text,
    settled,
    write_private,
    write_run,
)
from .jars import ensure_parts
from .ports import free_ports, is_free
from .process import Kept, ProcessId, end, keep, log_tail
from .progress import Report
from .server import Server
from .services import SERVERS, start_servers

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "stream": (sys.executable, "-m", "metajournal.cli", "stream"),
    "indexer": (sys.executable, "-m", "metajournal.cli", "index"),
}
WITH_GATEWAY: Final[dict[str, tuple[str, ...]]] = {
    **COMMANDS,
    "gateway": (sys.executable, "-m", "metajournal.cli", "serve"),
}
GRACE_S: Final = {"gateway": 60.0, "indexer": 15.0, "stream": 60.0, "elasticsearch": 15.0, "kafka": 15.0}
"""Seconds from SIGTERM to SIGKILL; the order is that of `down`. The stream finishes its batch."""
LABELS: Final = {
    "kafka": "Kafka",
    "elasticsearch": "Elasticsearch",
    "stream": "the stream",
    "indexer": "the indexer",
    "gateway": "the gateway",
}
_LAST: Final = frozenset({"gateway"})
"""Needs the topics that the stream makes."""
_READY = ("running", "waiting")
_POLL_S = 0.1

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """One component that `down` found."""

    name: str
    how: str
    """"stopped", "killed" (it did not end in time) or "was not running"."""
    seconds: float


def up(
    home: Path,
    settings: Settings,
    *,
    report: Report | None = None,
    tell: Tell = lambda _: None,
    commands: Mapping[str, Sequence[str]] = COMMANDS,
    timeout_s: float = 120,
) -> Run:
    """Start what is not running in this folder, wait until it is ready, and leave it running without this process.

    What is running is left alone; stream and indexer are restarted if their settings have changed. The previous
    ports are used again if they are free.

    Args:
        report: told about downloads.
        tell: told each step, for people.
        commands: how the stream, the indexer and, if it is among them, the gateway are started.
        timeout_s: seconds for these together.
    Raises:
        AlreadyRunningError: all of it runs already.
        ServerStartError: a component did not come up; everything that was started is stopped again.
    """
    home = home.expanduser().absolute()
    with locked(home):
        before = read_run(home)
        running = before.working
        if set(running) == {*SERVERS, *commands}:
            raise AlreadyRunningError(f"Everything in {home} is already running.", home=home)
        _end_all(home, before, names=[name for name in before.components if name not in running])
        run = before.only(running)
        if running:
            tell(f"{_listed(running)} {'is' if len(running) == 1 else 'are'} already running")
        names = [name for name in SERVERS if name not in running]
        servers: dict[str, Server] = {}
        if names:
            parts = ensure_parts(names, report=report)
            tell(f"starting {_listed(names)}")
            servers = start_servers(parts, home, names=names, ports=dict(before.ports), lasting=True)
            for text in moved(before.ports, servers):
                tell(text)
        kept = {name: server.kept for name, server in servers.items()}
        try:
            for name, server in servers.items():
                run = run.with_entry(name, _server_entry(server))
            run = _start_own(home, run, kept, settings, commands, tell, timeout_s)
        except BaseException:
            for service in reversed(kept.values()):
                service.stop()
            _note_run(home, read_run(home).without(*kept).with_ports(run.ports), tell)
            raise
        # Until here everything would have ended with this process, even by kill -9; from here on nothing does.
        for service in kept.values():
            service.release()
        return run


def _listed(names: Sequence[str]) -> str:
    """Components for people to read."""
    shown = [LABELS[name] for name in names]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def moved(before: Mapping[str, tuple[int, ...]], servers: Mapping[str, Server]) -> Iterator[str]:
    """A sentence on each server that had to take other ports than those of the last time."""
    for name, server in servers.items():
        former = before.get(name)
        if former and former != server.ports:
            yield f"a port of {name} is now in use ({', '.join(map(str, former))}); it uses {server.endpoint}"


def hand_over(home: Path, settings: Settings, servers: Mapping[str, Server], own: Sequence[Kept]) -> None:
    """Let what this process has started in a folder run on without it, as if `up` had: `down` ends it.

    Args:
        settings: those that everything in this folder works with; they stand in its settings file.
        servers: Kafka and Elasticsearch, by name.
        own: the stream and the indexer.
    """
    with locked(home):
        run = Run(settings.lake.path, str(home))
        for name, server in servers.items():
            run = run.with_entry(name, _server_entry(server))
        for service in own:
            run = run.with_entry(service.name, _entry(service))
        write_run(home, run)
        for kept in (*(server.kept for server in servers.values()), *own):
            kept.release()


def _start_own(
    home: Path,
    run: Run,
    kept: dict[str, Kept],
    settings: Settings,
    commands: Mapping[str, Sequence[str]],
    tell: Tell,
    timeout_s: float,
) -> Run:
    """Start stream and indexer unless they run with these settings, add them to `kept`, and wait for them."""
    kafka, search = (run.components[name].endpoint or "" for name in ("kafka", "elasticsearch"))
    ports = _gateway_ports(settings, run) if "gateway" in commands else None
    own = settled(settings, home, bootstrap_servers=kafka, elasticsearch_url=search, gateway_ports=ports)
    text = settings_text(own, home)
    stale = [name for name in GRACE_S if name in commands and name in run.components]
    if stale and text != _read_text(home / SETTINGS_FILE):
        tell(f"{_listed(stale)} had other settings and {'is' if len(stale) == 1 else 'are'} restarted")
        _end_all(home, run, names=stale)
        run = run.without(*stale)
    write_private(home / SETTINGS_FILE, text)
    run = replace(run, lake=own.lake.path)
    missing = [name for name in commands if name not in run.components]
    if missing:
        tell(f"starting {_listed(missing)}")
    deadline = time.monotonic() + timeout_s
    first = [name for name in missing if name not in _LAST]
    for names in (first, [name for name in missing if name in _LAST]):
        began_ms = _now_ms()
        for name in names:
            kept[name] = keep(name, commands[name], folder=home, env=_environment(home), grace_s=GRACE_S[name])
            run = run.with_entry(name, _own_entry(name, kept[name], own))
        write_run(home, run)
        for name in names:
            _wait_ready(kept[name], home / f"{name}.json", began_ms, deadline)
            tell(f"{LABELS[name]} is ready")
    return run


def _gateway_ports(settings: Settings, run: Run) -> tuple[int, int]:
    """Ports of the gateway and of its operator: as they are set, else those of the last time, where they are free."""
    running = run.components.get("gateway")
    if running is not None:
        port, operator = running.ports
        return port, operator
    wanted = settings.gateway.port, _port_of(settings.gateway.operator)
    last = run.ports.get("gateway") or (0, 0)
    port, operator = (
        next((one for one in ports if one and is_free(one)), other)
        for *ports, other in zip(wanted, last, free_ports(2), strict=True)
    )
    return port, operator


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2] or 0)


def _own_entry(name: str, kept: Kept, own: Settings) -> Entry:
    entry = _entry(kept)
    if name != "gateway":
        return entry
    gateway = own.gateway
    endpoint = f"{'https' if gateway.certificate else 'http'}://{gateway.host}:{gateway.port}"
    ports = (gateway.port, _port_of(gateway.operator))
    return Entry(entry.keeper, entry.since_ms, entry.log, entry.state, endpoint, ports)


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError:
        return ""


def _environment(home: Path) -> dict[str, str]:
    """The settings come from the folder's file alone, which holds all that was given to `up`."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("METAJOURNAL__", "METAJOURNAL_CONF"))
    }
    # They start in the home's folder, which must not be where Python looks for modules.
    return {**kept, "METAJOURNAL_HOME": str(home), "PYTHONSAFEPATH": "1"}


def _wait_ready(kept: Kept, report_file: Path, began_ms: int, deadline: float) -> None:
    while not is_ready(read_told(report_file), began_ms):
        why = f"it ended with exit code {kept.exit_code}" if kept.exit_code is not None else None
        if time.monotonic() > deadline:
            why = "it was not ready in time"
        if why is not None:
            raise ServerStartError(kept.name, why, kept.log, log_tail(kept.log))
        time.sleep(_POLL_S)


def is_ready(report: Mapping[str, Any], began_ms: int) -> bool:
    """Whether a component's own file, written since then, says that it works."""
    return report.get("written_ms", 0) >= began_ms and report.get("state") in _READY


def read_told(path: Path) -> dict[str, Any]:
    """What a component says of itself; empty when it has said nothing."""
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return report


def down(home: Path, *, tell: Tell = lambda _: None) -> list[Ended]:
    """End what `up` started in this folder: indexer, stream (which finishes its batch), Elasticsearch, Kafka.

    The data stays. Where nothing runs, nothing happens and the list is empty.
    """
    home = home.expanduser().absolute()
    if not home.is_dir():
        return []
    with locked(home):
        return _end_all(home, read_run(home), tell)


def _end_all(
    home: Path, run: Run, tell: Tell = lambda _: None, *, names: Collection[str] = tuple(GRACE_S)
) -> list[Ended]:
    ended = []
    for name, grace_s in GRACE_S.items():
        entry = run.components.get(name)
        if entry is None or name not in names:
            continue
        began, alive = time.monotonic(), entry.keeper.alive
        if alive:
            tell(f"stopping {name}")
        in_time = end(entry.keeper, timeout_s=grace_s + 5)
        how = "was not running" if not alive else "stopped" if in_time else "killed"
        ended.append(Ended(name, how, time.monotonic() - began))
        run = run.without(name)
        _note_run(home, run, tell)
    return ended


def _note_run(home: Path, run: Run, tell: Tell) -> None:
    """Write down that something ended. Where that cannot be, the rest is ended all the same: who is gone is known."""
    try:
        write_run(home, run)
    except HomeError as error:
        tell(f"{error} Services listed there that no longer run count as stopped.")


def _server_entry(server: Server) -> Entry:
    entry = _entry(server.kept)
    return Entry(entry.keeper, entry.since_ms, entry.log, entry.state, server.endpoint, server.ports)


def _entry(kept: Kept) -> Entry:
    keeper = ProcessId.of(kept.keeper_pid)
    if keeper is None:
        raise ServerStartError(kept.name, "it ended at once", kept.log, log_tail(kept.log))
    return Entry(keeper, _now_ms(), str(kept.log), str(kept.state))


def _now_ms() -> int:
    return int(time.time() * 1000)
