"""The driver's end of the process that makes pieces: started when something is asked, ended when nothing is."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from .process import ENVIRONMENT, Answer, Maker, Request

COMMAND: Final = (sys.executable, "-P", "-m", __package__)
_PATIENCE_S: Final = 2.0


@dataclass(frozen=True)
class Answered:
    """A request was answered."""

    answer: Answer


@dataclass(frozen=True)
class Ended:
    """The process ended instead, with this exit code."""

    code: int


class Server(Protocol):
    """Makes one piece at a time."""

    def ask(self, request: Request) -> None:
        """Ask for a piece; only where nothing is asked for."""
        ...

    def take(self) -> Answered | Ended | None:
        """What came of it; None where it is still in the making."""
        ...

    def close(self) -> None:
        """Let go of the process; it is started again when it is asked."""
        ...


class Here:
    """Makes pieces in this process, at once: for tests and for measurements."""

    def __init__(self) -> None:
        self._maker = Maker()
        self._answered: Answered | None = None

    def ask(self, request: Request) -> None:
        self._answered = Answered(self._maker.answer(request))

    def take(self) -> Answered | Ended | None:
        answered, self._answered = self._answered, None
        return answered

    def close(self) -> None:
        self._answered = None


class Beside:
    """A process beside this one, which ends with it however that ends.

    Args:
        command: what to run.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[Answered | Ended] = queue.SimpleQueue()

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def ask(self, request: Request) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}
            )
            self._answers = queue.SimpleQueue()
            threading.Thread(target=_listen, args=(self._process, self._answers), daemon=True).start()
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended: that is what comes of it
            self._process.stdin.write(pickle.dumps(request))
            self._process.stdin.flush()

    def take(self) -> Answered | Ended | None:
        try:
            taken = self._answers.get_nowait()
        except queue.Empty:
            return None
        if isinstance(taken, Ended):
            self.close()
        return taken

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listen(process: subprocess.Popen[bytes], answers: queue.SimpleQueue[Answered | Ended]) -> None:
    assert process.stdout is not None
    with process.stdout as stdout:
        while True:
            try:
                answer = pickle.load(stdout)
            except (EOFError, OSError, pickle.UnpicklingError):
                break
            answers.put(Answered(answer))
    answers.put(Ended(process.wait()))
