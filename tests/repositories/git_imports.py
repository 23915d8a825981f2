"""An import of a git history without services: events that are kept, folded, and held against what git says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.git_history.importing import Importer
from metajournal.domains.repositories.git_history.known import NOTHING, Present, created
from metajournal.domains.repositories.git_history.reading import History
from metajournal.domains.repositories.git_history.running import chosen
from metajournal.domains.repositories.git_history.survey import Survey
from metajournal.domains.repositories.layers import Contents, Layer
from metajournal.domains.repositories.urns import commit_urn, repository_urn
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import digest
from metajournal.schemas.header import Header
from metajournal.schemas.limits import MAX_EVENT_BYTES
from metajournal.streaming.derived.committing import fill, tables_of
from metajournal.streaming.derived.earlier import EarlierRows
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.functions import DERIVED
from tests.builders import header_for, record_of
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
KEY = (TOPIC, 0)
NAME = "r1"


class Memory:
    """A journal of one repository: events that are kept, each with the header of its record.

    Attributes:
        ends: asked before each event whether the import ends here.
    """

    tenant = "default"

    def __init__(self) -> None:
        self.events: list[tuple[Any, Header]] = []
        self.confirmed: list[int] = []
        self.ends: Callable[[], bool] = lambda: False

    def send(self, event: Any, event_time: int | None = None) -> bytes:
        if self.ends():
            raise KilledError
        assert event.validate() == []
        timed = {} if event_time is None else {"event_time": event_time}
        header = header_for(event, len(self.events) + 1, **timed)
        self.events.append((event, header))
        value = codec.encode(event, header)
        assert len(value) <= MAX_EVENT_BYTES
        return digest(value)

    def confirm(self) -> None:
        self.confirmed.append(len(self.events) - 1)


class KilledError(Exception):
    """The import ends here."""


def imported(
    folder: Path, memory: Memory, present: Present = NOTHING, *, names: Sequence[str] = (), omits_paths: bool = False
) -> Importer:
    """Import a history into a repository, which is created where it is not there."""
    with History(folder) as history:
        survey = Survey(history, chosen(history, names), omits_paths=omits_paths)
        survey.todo(present)
        if not memory.events:
            default = next(iter(survey.tips))
            memory.send(e.RepositoryCreated(repository_urn(NAME), default, "file:///git"))
            present = created(default)
        todo = survey.todo(present)
        importer = Importer(history, NAME, todo.known, present.branches, memory)
        for branch, staging_digest in todo.dirty.items():
            importer.reset(branch, staging_digest)
        for step in todo.steps:
            importer.take(step)
    return importer


def folded(folder: Path, memory: Memory, *, trees: bool = True) -> Fold:
    """What the fold makes of the events, and with `trees` what each commit contains."""
    fold = Fold(folder, 1, topic=TOPIC, joined=("repositories",))
    fold.batch([record_of(event, number, header=header) for number, (event, header) in enumerate(memory.events)])
    fold.lake.refresh()
    if trees:
        fill(fold.lake, {"trees": {KEY: fold.lake.journal.mark(KEY)}}, StoredFiles(fold.lake.path, {}))
    return fold


class Contained:
    """What each commit of a repository contains, as the derived tables have it."""

    def __init__(self, fold: Fold) -> None:
        self.rows = {row["commit"]: row for row in fold.lake.tables["commit_trees"].query("*", "true")}
        owned = DERIVED["trees"]
        reads = EarlierRows(owned.derived, tables_of(owned, fold.lake), KEY, 1 << 62, 1 << 62)
        self._contents = Contents(reads, "default", NAME)

    def listing(self, commit: str) -> dict[str, tuple[str, str]]:
        """Mode and blob of each path."""
        row = self.rows[str(commit_urn(NAME, commit))]
        layers = [Layer.of(*one) for one in zip(row["layers"], row["layer_rows"], strict=True)]
        found = self._contents.overlaid(layers, ["checksum", "metadata"]).filter(~pl.col("deleted"))
        modes = (orjson.loads(text)["mode"] for text in found["metadata"])
        return dict(zip(found["path"], zip(modes, found["checksum"], strict=True), strict=True))

    def counts(self, commit: str) -> tuple[int, int, int]:
        """Paths added, changed and removed."""
        row = self.rows[str(commit_urn(NAME, commit))]
        return row["added"], row["changed"], row["removed"]
