"""A whole installation for tests of what users type: what `metajournal up` starts in a folder, and commands in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from metajournal.config import HOME_VARIABLE, load_settings
from metajournal.schemas.settings import Settings
from metajournal.stack.home import read_run

CLI = (sys.executable, "-m", "metajournal.cli")
_MOST_S = 400
_DOWN_AT_THE_END = "import os, sys; sys.stdin.read(); os.execv(sys.argv[1], sys.argv[1:])"


@dataclass(frozen=True)
class Installation:
    """A folder with settings; commands that run in it use them."""

    folder: Path

    @property
    def settings(self) -> Settings:
        """What the commands of this folder work with."""
        return load_settings(environ={HOME_VARIABLE: str(self.folder)}, folder=self.folder).settings

    @property
    def printed_by_up(self) -> Path:
        """The file that keeps what the first `up` printed, beside the folder."""
        return self.folder.with_name(f"{self.folder.name} up.txt")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a user of this folder, with this Python's scripts first on the path."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("METAJOURNAL_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
        return {**own, HOME_VARIABLE: str(self.folder), "PATH": path}

    def run(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command as its user would run it; one that does not end is ended, and the test told what it was at."""
        pipe = subprocess.PIPE
        environment = {**self.environment, "PYTHONFAULTHANDLER": "1"}
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=self.folder, env=environment
        ) as process:
            try:
                out, problems = process.communicate(stdin, _MOST_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # of which Python says where each of its threads stands
                try:
                    out, problems = process.communicate(timeout=30)
                finally:
                    process.kill()
                raise AssertionError(f"{command} did not end within {_MOST_S} s:\n{out}\n{problems}") from None
        return subprocess.CompletedProcess(command, process.returncode, out, problems)

    def metajournal(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        done = self.run(*CLI, *words, stdin=stdin)
        if "--json" in words:
            from tests.shapes import check_json  # loads every command

            check_json(words, done.stdout)
        return done


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """What `metajournal up` starts in a folder; `metajournal down` ends it after the block."""
    here = Installation(folder)
    with _down_at_the_end(here):
        # The stream's first batch is a cold one: what is emitted may wait for its verdict longer than usual.
        up = here.metajournal("--set", "client.outcome_timeout_s=60", "up")
        assert up.returncode == 0, up.stdout + up.stderr
        here.printed_by_up.write_text(up.stdout)
        yield here
    assert not read_run(folder).components


@contextmanager
def _down_at_the_end(here: Installation) -> Iterator[None]:
    """Run `down` after the block by a process that waits for it, so that a killed test run leaves nothing either."""
    command = [sys.executable, "-c", _DOWN_AT_THE_END, *CLI, "down"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=here.folder,
        env=here.environment,
        start_new_session=True,
    ) as waiting:
        yield
    assert waiting.returncode == 0
