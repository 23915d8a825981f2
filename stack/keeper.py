"""A tiny parent for one server: it ends the server's process group when its owner dies, even by kill -9.

It runs as a plain script, so it imports nothing but the standard library and starts in a few milliseconds. It holds the
read end of a pipe whose write end only the owner has: the system closes that end however the owner dies. The parent's
id is watched as well, in case a forked child of the owner has inherited the write end. An owner that
writes a byte into the pipe lets go: from then on the server is kept until somebody ends this process with SIGTERM, and
a server that fails is restarted: after a second, then after twice as long each time, up to five minutes. One that
ended with exit code 0 was asked to end, and is not restarted.

Invariants: when this process is gone, so is the server; `state` (JSON) then says with which exit code it ended. A disk
that takes neither state nor log does not end the server: the state is written as soon as there is room.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

_PARENT_DEATH_SIGNAL = 1  # prctl(PR_SET_PDEATHSIG), see prctl(2)
_POLL_S = 0.2
_FIRST_DELAY_S, _MOST_DELAY_S = 1.0, 300.0
_WELL_S = 60.0
"""After this much uptime the next delay is the first one again."""
NOTE = "metajournal keeper: "
"""Prefix of the log lines that this process writes."""


def main(arguments: list[str]) -> int:
    """Keep one command.

    Args:
        arguments: `--owner-fd N --grace-s S --state FILE --log FILE -- command...`
    """
    own, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    parser = argparse.ArgumentParser()
    parser.add_argument("--owner-fd", type=int, required=True)
    parser.add_argument("--grace-s", type=float, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    return _Keeper(parser.parse_args(own), command).keep()


class _Keeper:
    """Runs one command, and restarts it when it fails after its owner has let go."""

    def __init__(self, options: argparse.Namespace, command: list[str]) -> None:
        self._command = command
        self._grace_s: float = options.grace_s
        self._log: Path = options.log
        self._state = _State(options.state)
        self._owner_fd: int = options.owner_fd
        self._owner = os.getppid()
        self._owned, self._asked = True, False
        self._ask_to_stop, stop_fd = os.pipe()
        signal.signal(signal.SIGTERM, lambda *_: os.write(stop_fd, b"."))
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def keep(self) -> int:
        """Keep the command until it is to end; its exit code."""
        restarts, delay_s = 0, _FIRST_DELAY_S
        last: dict[str, int | None] = {}
        while True:
            began = time.monotonic()
            code = self._run({"restarts": restarts, "started_ms": _now_ms(), **last})
            if time.monotonic() - began > _WELL_S:
                delay_s = _FIRST_DELAY_S
            self._look(0.0)  # the owner may have let go just now
            if self._asked or self._owned or code == 0:
                return code if code >= 0 else 128 - code
            self._state.add(again_ms=_now_ms() + int(delay_s * 1000))
            self._note(f"exit code {code}; restarting in {delay_s:g} s")
            if self._is_asked_within(delay_s):
                self._state.add(again_ms=None)
                return code if code >= 0 else 128 - code
            last = {"last_exit_code": code}
            restarts, delay_s = restarts + 1, min(2 * delay_s, _MOST_DELAY_S)

    def _run(self, before: dict[str, int | None]) -> int:
        """Run the command once; its exit code, negative where a signal ended it."""
        with _opened(self._log) as log:
            try:
                server = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
            except OSError as error:
                with contextlib.suppress(OSError):
                    log.write(f"cannot run {self._command[0]}: {error}\n".encode())
                self._state.say(pid=None, exit_code=127, ended_ms=_now_ms(), **before)
                return 127
        self._state.say(pid=server.pid, exit_code=None, ended_ms=None, **before)
        while server.poll() is None:
            self._look(_POLL_S)
            if self._asked:
                _end(server, self._grace_s)
                break
        _kill_rest(server.pid)
        self._state.say(
            pid=server.pid, exit_code=server.returncode, ended_ms=_now_ms(), logged_ms=self._logged_ms(), **before
        )
        return server.returncode

    def _logged_ms(self) -> int | None:
        """When the server last wrote to its log, to which this process appends."""
        try:
            return int(self._log.stat().st_mtime * 1000)
        except OSError:
            return None

    def _is_asked_within(self, delay_s: float) -> bool:
        deadline = time.monotonic() + delay_s
        while not self._asked and time.monotonic() < deadline:
            self._look(min(_POLL_S, max(0.0, deadline - time.monotonic())))
        return self._asked

    def _look(self, pause_s: float) -> None:
        """Wait for a request to end, or for the owner to let go; the owner's death counts as a request to end."""
        ready, _, _ = select.select([self._ask_to_stop, *([self._owner_fd] if self._owned else [])], [], [], pause_s)
        if self._owned and self._owner_fd in ready and os.read(self._owner_fd, 1):
            self._owned = False
        elif ready or (self._owned and os.getppid() != self._owner):
            self._asked = True
        self._state.write()

    def _note(self, text: str) -> None:
        with contextlib.suppress(OSError), _opened(self._log) as log:
            log.write(f"{NOTE}{text}\n".encode())


def _die_with_parent() -> None:
    """Let Linux kill the server when even this keeper is killed with -9; elsewhere this does nothing.

    A command that changes its user loses this, and must ask again (`privilege`).
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _end(server: subprocess.Popen[bytes], grace_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(grace_s)
    _kill_rest(server.pid)
    server.wait()


def _kill_rest(group: int) -> None:
    """End what is left of the group; a group without members is none."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class _State:
    """The file that says how the server is; it is this keeper's alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritten = ""
        self._fields: dict[str, int | None] = {}

    def say(self, **state: int | None) -> None:
        self._fields = {**state, "keeper_pid": os.getpid()}
        self._unwritten = json.dumps(self._fields)
        self.write()

    def add(self, **state: int | None) -> None:
        """Write the same state as before, and these fields."""
        self.say(**{**self._fields, **state})

    def write(self) -> None:
        """Replace the file by what was said last; nothing where that stands there, or cannot be written now."""
        if not self._unwritten:
            return
        draft = self._path.with_name(self._path.name + ".new")
        try:
            draft.write_text(self._unwritten, encoding="utf-8")
            draft.replace(self._path)
            self._unwritten = ""
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()


def _opened(log: Path) -> IO[bytes]:
    """The log, without a buffer; nothing where it cannot be written: the server need not stay away for that."""
    try:
        return log.open("ab", buffering=0)
    except OSError:
        return open(os.devnull, "ab", buffering=0)  # noqa: PTH123


def _now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
