"""A whole installation for tests of what users type: settings in a file, the stream and the indexer as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from metajournal.commands.demo_services import own_process
from metajournal.config import HOME_VARIABLE
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import (
    ClientSettings,
    ElasticsearchSettings,
    JournalSettings,
    LakeSettings,
    Settings,
    StackSettings,
)
from metajournal.stack.home import SETTINGS_FILE, settings_text, write_private
from metajournal.stack.supervisor import read_told
from tests.services import Services
from tests.wait import eventually


@dataclass(frozen=True)
class Installation:
    """A folder with settings; commands that run in it use them."""

    folder: Path
    settings: Settings

    def run(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command as its user would run it, with this Python's scripts first on the path."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("METAJOURNAL_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
        environment = {**own, HOME_VARIABLE: str(self.folder), "PATH": path}
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, cwd=self.folder, env=environment
        )

    def metajournal(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "metajournal.cli", *words, stdin=stdin)


def settings_of(services: Services, folder: Path, name: str) -> Settings:
    """Settings whose topics and index are called `name`, with everything else in a folder."""
    return Settings(
        journal=JournalSettings(prefix=name),
        client=ClientSettings(outcome_timeout_s=60),  # the stream's first batch is a cold one
        kafka={"bootstrap.servers": services.bootstrap_servers},
        lake=LakeSettings(path=str(folder / "lake")),
        elasticsearch=ElasticsearchSettings(url=services.elasticsearch_url, index=name),
        stack=StackSettings(home=str(folder)),
    )


@contextmanager
def installed(settings: Settings, folder: Path) -> Iterator[Installation]:
    """The installation that these settings describe, with its stream and indexer running."""
    write_private(folder / SETTINGS_FILE, settings_text(settings))
    ensure_topics(settings)
    with own_process(folder, "stream"), own_process(folder, "indexer"):
        files = [folder / "stream.json", folder / "indexer.json"]
        eventually(lambda: all(read_told(file).get("state") == "running" for file in files), 180, "a running stream")
        yield Installation(folder, settings)
