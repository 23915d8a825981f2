"""Processes on this machine: starting one under a keeper, knowing it again later, ending exactly it.

A pid alone names nobody (the system reuses it), so a process is known by its pid and its start time together; what does
not match both is never signalled.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KEEPER = Path(__file__).with_name("keeper.py")
_POLL_S = 0.05
_TAIL_BYTES = 8192


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A pid and the start time of its process, as the system tells it."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """The process that has this pid now; None when nobody has it, or only a zombie."""
        started = _start_time(pid)
        return None if started is None else cls(pid, started)

    @property
    def alive(self) -> bool:
        _reap(self.pid)
        return _start_time(self.pid) == self.started

    def send(self, number: int) -> None:
        """Signal this process and no other."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Kept:
    """A server under its keeper."""

    def __init__(self, name: str, keeper: subprocess.Popen[bytes], state: Path, log: Path, owner_fd: int) -> None:
        self.name = name
        self.log = log
        self.keeper_pid = keeper.pid
        self.state = state
        self._keeper = keeper
        self._owner_fd: int | None = owner_fd

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._keeper.poll()

    @property
    def server_pid(self) -> int | None:
        return read_state(self.state).get("pid")

    def stop(self) -> None:
        """End the server (SIGTERM, then SIGKILL after its grace time) and wait until it is gone."""
        if self._keeper.poll() is None:
            self._keeper.terminate()
        self._keeper.wait()
        self._close()

    def release(self) -> None:
        """Let the server outlive this process; from now on only `end` ends it."""
        if self._owner_fd is not None and self.exit_code is None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._owner_fd, b".")
            _RELEASED[self.keeper_pid] = self._keeper
        self._close()

    def _close(self) -> None:
        if self._owner_fd is not None:
            os.close(self._owner_fd)
            self._owner_fd = None


_RELEASED: dict[int, subprocess.Popen[bytes]] = {}
"""Keepers that were let go, so that this process still reaps them when they end."""


@atexit.register
def _let_go() -> None:
    """Tell Popen that these keepers are meant to stay, or it would warn of each."""
    for keeper in _RELEASED.values():
        if keeper.poll() is None:
            keeper.returncode = 0


def keep(
    name: str,
    command: Sequence[str | Path],
    *,
    folder: Path,
    env: Mapping[str, str] | None = None,
    grace_s: float = 15.0,
) -> Kept:
    """Start a server under a keeper; it ends with this process, however that ends, unless it is released.

    Args:
        name: names its files in `folder`: `<name>.log` (appended to) and `<name>.state`.
        env: its whole environment; this process's own by default.
        grace_s: seconds between SIGTERM and SIGKILL when it is ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log, state = folder / f"{name}.log", folder / f"{name}.state"
    state.unlink(missing_ok=True)
    read_end, write_end = os.pipe()
    options = ["--owner-fd", str(read_end), "--grace-s", str(grace_s), "--state", str(state), "--log", str(log)]
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), *options, "--", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=None if env is None else dict(env),
            start_new_session=True,
            pass_fds=(read_end,),
        )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    return Kept(name, keeper, state, log, write_end)


def read_state(state: Path) -> dict[str, Any]:
    """What the keeper says: `pid`, `keeper_pid`, `exit_code` and `ended_ms`; empty when there is nothing yet."""
    try:
        fields: dict[str, Any] = json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return fields


def end(process: ProcessId, *, timeout_s: float) -> bool:
    """End a keeper that this process may not have started; it ends its server first.

    Returns:
        Whether it is gone in time; it is killed otherwise.
    """
    process.send(signal.SIGTERM)
    if wait_gone(process, timeout_s=timeout_s):
        return True
    process.send(signal.SIGKILL)
    wait_gone(process, timeout_s=5)
    return False


def wait_gone(process: ProcessId, *, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while process.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def log_tail(log: Path, lines: int = 15, *, width: int = 300) -> str:
    """The last lines of a log file, cut to a readable width (in characters)."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(line[:width] for line in text.splitlines()[-lines:])


def _reap(pid: int) -> None:
    keeper = _RELEASED.get(pid)
    if keeper is not None and keeper.poll() is not None:
        del _RELEASED[pid]


def _start_time(pid: int) -> str | None:
    """Start time as the system writes it: ticks since boot on Linux, a date elsewhere."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    result = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    status, _, started = result.stdout.strip().partition(" ")
    return started.strip() if status and not status.startswith("Z") else None
