"""An import of a git history without services: events that are kept, folded, and held against what git says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import polars as pl
import pytest

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.errors import refusal
from metajournal.domains.repositories.git_history import running
from metajournal.domains.repositories.git_history.importing import Importer
from metajournal.domains.repositories.git_history.known import NOTHING, Present, PresentBranch, created
from metajournal.domains.repositories.git_history.present import PresentQueries
from metajournal.domains.repositories.git_history.reading import History
from metajournal.domains.repositories.git_history.running import chosen
from metajournal.domains.repositories.git_history.survey import Survey
from metajournal.domains.repositories.git_history.unconfirmed import Sent
from metajournal.domains.repositories.layers import Contents, Layer
from metajournal.domains.repositories.urns import commit_urn, repository_urn
from metajournal.lake.tables import Lake
from metajournal.rules import At, Outcome, Rejected
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import RejectedError
from metajournal.schemas.hashing import digest
from metajournal.schemas.header import Header
from metajournal.schemas.limits import MAX_EVENT_BYTES
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.derived.committing import fill, tables_of
from metajournal.streaming.derived.earlier import EarlierRows
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.functions import DERIVED
from tests.builders import header_for, record_of
from tests.rules.harness import Catalog
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
KEY = (TOPIC, 0)
NAME = "r1"


class Memory:
    """A journal of one repository: events that are kept, each with the header of its record.

    Attributes:
        ends: asked before each event whether the import ends here.
        confirmed: the numbers of the events whose verdict was asked for, and how many events there were then.
    """

    tenant = "default"

    def __init__(self) -> None:
        self.events: list[tuple[Any, Header]] = []
        self.confirmed: list[tuple[int, int]] = []
        self.ends: Callable[[], bool] = lambda: False

    def send(self, event: Any, event_time: int | None = None) -> Sent:
        if self.ends():
            raise KilledError
        return self.add(event, **({} if event_time is None else {"event_time": event_time}))

    def add(self, event: Any, **fields: Any) -> Sent:
        """An event of anybody."""
        assert event.validate() == []
        header = header_for(event, len(self.events) + 1, **fields)
        self.events.append((event, header))
        value = codec.encode(event, header)
        assert len(value) <= MAX_EVENT_BYTES
        return Sent(digest(value), len(self.events) - 1)

    def confirm(self, sent: Sent) -> None:
        self.confirmed.append((sent.receipt, len(self.events)))


class Judged(Memory):
    """A journal whose events are judged by the rules."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []
        self._judge = _Judge()

    def add(self, event: Any, **fields: Any) -> Sent:
        sent = super().add(event, **fields)
        self._judge.digest = sent.digest
        self.outcomes.append(self._judge.judge(*self.events[-1]))
        return sent

    def confirm(self, sent: Sent) -> None:
        super().confirm(sent)
        outcome = self.outcomes[sent.receipt]
        if isinstance(outcome, Rejected):
            raise refusal(RejectedError(outcome.reason, outcome.detail, sent.receipt))

    def wait(self) -> None:
        """As of the sink of a journal."""
        self.confirmed.append((WAITED, len(self.events)))


WAITED = -1
"""Number, in `confirmed`, of no event: the lake was waited for."""


class _Judge(Catalog):
    """Judges records, each with its digest."""

    digest = b""

    @property
    def at(self) -> At:
        return super().at._replace(digest=self.digest)


class KilledError(Exception):
    """The import ends here."""


class GitRuns:
    """Runs imports of git repositories into a journal in memory, as the command does.

    Attributes:
        memory: the journal.
        read: what was read of the lake, by the names of the methods.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.memory = Judged()
        self.read: list[str] = []
        self._folder = folder
        self._lakes = 0
        monkeypatch.setattr(running, "JournalSink", lambda *_: self.memory)
        monkeypatch.setattr(running.GitImport, "_queries", lambda _: self)

    def run(self, git: Path, *names: str, dry: bool = False, **options: Any) -> running.Imported:
        """Import branches of a git repository: all where none is named."""
        journal: Any = SimpleNamespace(
            settings=SimpleNamespace(journal=SimpleNamespace(tenant="default")), flush=lambda: None
        )
        with History(git) as history:
            wanted = chosen(history, names)
            job = running.GitImport(journal, history, NAME, wanted, storage=git.as_uri(), **options)
            return job.foresee() if dry else job.run()

    def present(self, tenant: str, name: str) -> Present:
        self.read.append("present")
        return self._lake().present(tenant, name)

    def present_branches(self, tenant: str, name: str) -> dict[str, PresentBranch]:
        self.read.append("present_branches")
        return self._lake().present_branches(tenant, name)

    def _lake(self) -> PresentQueries:
        self._lakes += 1
        return queries_in(folded(self._folder / f"lake{self._lakes}", self.memory, trees=False).lake.path)


def queries_in(lake: str | Path) -> PresentQueries:
    """What reads a lake of one partition."""
    return PresentQueries(Lake(str(lake)), TopicNames(), {TOPIC: 1})


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
