"""Streams and indexers as processes of their own, which end with the test that started them."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metajournal.schemas.settings import Settings

_STREAM = """
import pickle, sys
settings, jars, spark = pickle.load(sys.stdin.buffer)
from metajournal.streaming.runner import run_stream
run_stream(settings, jars, spark)
"""
_INDEXER = """
import pickle, sys
settings, *_ = pickle.load(sys.stdin.buffer)
from metajournal.indexer.fill.process import run_indexer
run_indexer(settings)
"""


def end_with_parent() -> None:
    """Linux's parent-death signal; asked for in the child, before it becomes another program."""
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)


class Running:
    """A process with its log."""

    def __init__(self, program: str, settings: Settings, log: Path, spark: dict[str, str] | None = None) -> None:
        from metajournal.stack.jars import spark_jars

        jars = spark_jars()
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                preexec_fn=end_with_parent,
                env={**os.environ, "PYTHONWARNINGS": "default"},
            )
        assert self.process.stdin is not None
        self.process.stdin.write(pickle.dumps((settings, jars, spark or {})))
        self.process.stdin.close()

    def ended(self, timeout_s: float) -> int:
        """Its exit code, once it ended by itself."""
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """Ask it to end, and wait."""
        self.process.terminate()
        return self.process.wait(60)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


@contextmanager
def running(program: str, settings: Settings, log: Path, spark: dict[str, str] | None = None) -> Iterator[Running]:
    process = Running(program, settings, log, spark)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.stop()


def stream(settings: Settings, log: Path, before: str = "") -> Running:
    """A stream; `before` is what its process does first, as Python."""
    return Running(before + _STREAM, settings, log)


@contextmanager
def running_stream(settings: Settings, log: Path, spark: dict[str, str] | None = None) -> Iterator[Running]:
    """A stream that is drained and ended when the block ends; `spark` are options that override the project's."""
    with running(_STREAM, settings, log, spark) as process:
        yield process


@contextmanager
def running_indexer(settings: Settings, log: Path) -> Iterator[Running]:
    """An indexer that is ended when the block ends."""
    with running(_INDEXER, settings, log) as process:
        yield process
