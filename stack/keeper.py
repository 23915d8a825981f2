"""A tiny parent for one server: it ends the server's process group when its owner dies, even by kill -9.

It runs as a plain script, so it imports nothing but the standard library and starts in a few milliseconds. It holds the
read end of a pipe whose write end only the owner has: the system closes that end however the owner dies. The parent's
id is watched as well, in case a forked child of the owner has inherited the write end. An owner that
writes a byte into the pipe lets go: from then on the server is kept until somebody ends this process with SIGTERM.

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
    options = parser.parse_args(own)
    owner = os.getppid()
    ask_to_stop, stop_fd = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(stop_fd, b"."))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    state = _State(options.state)
    with _opened(options.log) as log:
        try:
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            with contextlib.suppress(OSError):
                log.write(f"cannot run {command[0]}: {error}\n".encode())
            state.say(pid=None, exit_code=127, ended_ms=_now_ms())
            return 127
    state.say(pid=server.pid, exit_code=None, ended_ms=None)
    owned = True
    while server.poll() is None:
        ready, _, _ = select.select([ask_to_stop, *([options.owner_fd] if owned else [])], [], [], _POLL_S)
        if owned and options.owner_fd in ready and os.read(options.owner_fd, 1):
            owned = False
        elif ready or (owned and os.getppid() != owner):
            _end(server, options.grace_s)
            break
        state.write()
    _kill_rest(server.pid)
    state.say(pid=server.pid, exit_code=server.returncode, ended_ms=_now_ms())
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


def _die_with_parent() -> None:
    """Let Linux kill the server when even this keeper is killed with -9; elsewhere this does nothing."""
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

    def say(self, **state: int | None) -> None:
        self._unwritten = json.dumps({**state, "keeper_pid": os.getpid()})
        self.write()

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
