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
from tempfile import TemporaryDirectory
from typing import Any

from tests.repositories import git_histories as gits

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
sys.argv = ["metajournal", "demo", "--keep", "--json", *sys.argv[1:]]
main()
"""
"""The command with `--json`, which also tells its users' lines, on standard error, where it would be silent."""


_COMMITS = 80
"""Of this project's history in the demo; all of it is imported, without services, by the tests of the importer."""


@dataclass(frozen=True)
class Demonstration:
    """What a demo that was asked to keep its services and to report as JSON has left.

    Attributes:
        history: the git repository that it imported; None: none, since these tests run in no whole clone.
    """

    done: subprocess.CompletedProcess[str]
    history: Path | None

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
    with TemporaryDirectory() as folder:
        history = _beginning(Path(folder) / "metajournal")
        given = [] if history is None else ["--git", str(history)]
        command = [sys.executable, "-c", _BOTH, *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.stdout, done.stderr
        demonstration = Demonstration(done, history)
        kept = demonstration.report["folder"]
        try:
            yield demonstration
        finally:
            down = [sys.executable, "-m", "metajournal.cli", "down"]
            subprocess.run(down, env={**os.environ, "METAJOURNAL_HOME": kept}, check=False, capture_output=True)
            shutil.rmtree(kept, ignore_errors=True)


def _beginning(folder: Path) -> Path | None:
    """A clone of this project that ends early in its history; None where this is no whole clone."""
    if not (ROOT / ".git").exists() or gits.git(ROOT, "rev-parse", "--is-shallow-repository") == b"true\n":
        return None
    commits = gits.git(ROOT, "rev-list", "--topo-order", "--reverse", "HEAD").decode().split()
    gits.clone(ROOT, folder, {"main": commits[:_COMMITS][-1]})
    gits.git(folder, "symbolic-ref", "HEAD", "refs/heads/main")
    return folder
