"""One run of the whole `metajournal demo` for all tests that look at what it says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_BOTH = """
import sys
from metajournal.commands import demo
from metajournal.terminal.rendering import console
from metajournal.commands.telling import Lines

class Beside(Lines):
    def __init__(self):
        super().__init__(console(stderr=True))

demo.Silent = Beside
from metajournal.cli import main
sys.argv = ["metajournal", "demo", "--keep", "--json"]
main()
"""
"""The command with `--json`, which also tells its users' lines, on standard error, where it would be silent."""


@dataclass(frozen=True)
class Demonstration:
    """What a demo that was asked to keep its services and to report as JSON has left."""

    done: subprocess.CompletedProcess[str]

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.done.stdout)
        return found

    @property
    def told(self) -> list[str]:
        """The lines that it prints for people."""
        return self.done.stderr.splitlines()


@contextmanager
def demonstrated() -> Iterator[Demonstration]:
    """A demo that has come to its end; what it keeps ends with the block."""
    done = subprocess.run([sys.executable, "-c", _BOTH], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout, done.stderr
    demonstration = Demonstration(done)
    folder = demonstration.report["folder"]
    try:
        yield demonstration
    finally:
        down = [sys.executable, "-m", "metajournal.cli", "down"]
        subprocess.run(down, env={**os.environ, "METAJOURNAL_HOME": folder}, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
