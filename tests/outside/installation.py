"""Processes beside an installation that have, or lack, a package with a domain: clients and commands."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metajournal.schemas.settings import Settings
from tests.processes import end_with_parent

_BEGIN = """
import json, pickle, sys
settings = pickle.loads(sys.stdin.buffer.read())
def tell(value):
    print(json.dumps(value, default=str))
"""


@dataclass(frozen=True)
class Beside:
    """A place to run Python and commands in.

    Attributes:
        settings: the installation's.
        folder: where the settings file stands.
        sites: folders of installed packages.
    """

    settings: Settings
    folder: Path
    sites: tuple[Path, ...] = field(default=())

    def python(self, code: str) -> Any:
        """What a program tells by `tell(value)`; `settings` are the installation's."""
        ran = subprocess.run(
            [sys.executable, "-c", _BEGIN + textwrap.dedent(code)],
            input=pickle.dumps(self.settings),
            capture_output=True,
            env=self.environment,
            cwd=Path(__file__).parents[2],
            preexec_fn=end_with_parent,
            timeout=180,
        )
        assert ran.returncode == 0, ran.stderr.decode()
        return json.loads(ran.stdout.decode().splitlines()[-1])

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of `metajournal`, ended."""
        file = self.folder / "metajournal.toml"
        if not file.exists():
            file.write_text(_toml(self.settings))
        return subprocess.run(
            [sys.executable, "-m", "metajournal.cli", "--config", str(file), *words],
            capture_output=True,
            text=True,
            env=self.environment,
            preexec_fn=end_with_parent,
            timeout=300,
        )

    @property
    def environment(self) -> dict[str, str]:
        own = {key: value for key, value in os.environ.items() if not key.startswith(("METAJOURNAL_", "PYTHONPATH"))}
        return {**own, "PYTHONPATH": os.pathsep.join(map(str, self.sites))} if self.sites else own


def _toml(settings: Settings) -> str:
    return f"""
[journal]
prefix = "{settings.journal.prefix}"
actor = "tests"
custom_kinds = {json.dumps(list(settings.journal.custom_kinds))}
[kafka]
"bootstrap.servers" = "{settings.kafka["bootstrap.servers"]}"
[lake]
path = "{settings.lake.path}"
[elasticsearch]
url = "{settings.elasticsearch.url}"
index = "{settings.elasticsearch.index}"
[stack]
home = "{settings.stack.home}"
"""
