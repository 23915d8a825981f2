"""Journalists as processes, which end with the test that started them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from metajournal.client import Journal
from metajournal.domains.catalog.events import EntityRegistered
from metajournal.schemas.settings import Settings
from tests.faults.journalist import AGGREGATES, READY
from tests.processes import end_with_parent
from tests.wait import eventually

ROOT = Path(__file__).parents[2]


def register(settings: Settings) -> None:
    """Make the journalists' entities, so that their events are accepted."""
    with Journal.connect(settings, create_topics=True) as journal:
        for entity in AGGREGATES:
            journal.emit(EntityRegistered(entity))


class Life:
    """One life of a journalist, which writes into `book` until it is stopped, or emits `count` times and ends."""

    def __init__(self, settings: Settings, book: Path, seed: int, *, count: int | None = None) -> None:
        self.log = book.with_suffix(".log")
        self.book = book
        began = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.journalist"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                preexec_fn=end_with_parent,
            )
        assert self.process.stdin is not None
        self.process.stdin.write(pickle.dumps((settings, str(book), seed, count)))
        self.process.stdin.close()
        eventually(lambda: READY in self.said(began) or self.process.poll() is not None, 60, "a client's connection")
        assert self.process.poll() is None or count is not None, self.said()

    def said(self, since: int = 0) -> str:
        return self.log.read_bytes()[since:].decode(errors="replace")[-3000:]

    def has_written(self, size: int) -> None:
        """Wait until the book has this many bytes."""

        def written() -> bool:
            return self.book.exists() and self.book.stat().st_size >= size

        eventually(lambda: written() or self.process.poll() is not None, 120, f"{size} bytes of the book")
        assert self.process.poll() is None, self.said()

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        assert self.process.wait(30) == -9, self.said()

    def stop(self) -> None:
        """Let it finish what is under way, and end."""
        self.process.terminate()
        self.ended()

    def ended(self) -> None:
        """Wait until it has done all that it was asked for."""
        assert self.process.wait(180) == 0, self.said()
