"""A process that stays, beside a stream that folds only when it is told to: what tests of writing begin with."""

from __future__ import annotations

from typing import Any

from metajournal import Journal
from metajournal.domains.repositories.client import Branch, Repository
from metajournal.domains.repositories.events import RepositoryCreated
from metajournal.lake.tables import Lake
from metajournal.schemas.positions import Position
from metajournal.streaming.derived.committing import fill
from metajournal.streaming.derived.files import StoredFiles
from tests.consumers.stream import BrokerStream

WAIT_S = 60.0


def created(journal: Journal, name: str) -> Repository:
    """A repository whose creation is in the journal, and no further."""
    repository = journal.repositories[name]
    journal.emit(RepositoryCreated(repository.urn, "main", "s3://b")).position  # noqa: B018  (waits)
    return repository


def entry(path: str, checksum: str = "c1") -> dict[str, Any]:
    return {"path": path, "size": 3, "checksum": checksum, "address": f"s3://b/{path}"}


def committed(branch: Branch, *paths: str, checksum: str = "c1") -> str:
    branch.write(entry(path, checksum) for path in paths)
    return branch.commit("m", timeout_s=WAIT_S).id


def end_of(journal: Journal, repo: Repository) -> Position:
    """Where the repository's partition ends."""
    with journal.follow(repo.urn) as follow:
        return follow.facts_and_end(timeout_s=WAIT_S).end


def make_trees(journal: Journal, stream: BrokerStream) -> None:
    """Make the tables of what commits contain, of all that is folded."""
    lake = Lake(stream.lake.path)
    lake.include(stream.epochs.domains)
    lake.refresh()
    key = (journal.settings.journal.topics.journal("repositories"), 0)
    fill(lake, {"trees": {key: lake.journal.mark(key)}}, StoredFiles(lake.path, {}))
