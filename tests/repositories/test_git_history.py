"""A history that git keeps is a repository with the same listings, differences and merge bases, says git."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.git_history.importing import Counts, Importer
from metajournal.domains.repositories.git_history.known import NOTHING, Present
from metajournal.domains.repositories.git_history.reading import History
from metajournal.domains.repositories.git_history.survey import survey
from metajournal.domains.repositories.layers import Contents, Layer
from metajournal.domains.repositories.merging.bases import merge_bases
from metajournal.domains.repositories.urns import commit_urn, repository_urn
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import digest
from metajournal.schemas.header import Header
from metajournal.streaming.derived.committing import fill, tables_of
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.functions import DERIVED
from metajournal.streaming.derived.making import _Earlier
from tests.builders import header_for, record_of
from tests.repositories import git_histories as said
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
KEY = (TOPIC, 0)
ROOT = Path(__file__).parents[2]


class Memory:
    """Events that are kept, each with the header that its record has."""

    tenant = "default"

    def __init__(self, repository: str) -> None:
        self.events: list[tuple[Any, Header]] = []
        self.confirmed = 0
        self.send(e.RepositoryCreated(repository_urn(repository), "main", "file:///x"))

    def send(self, event: Any, event_time: int | None = None) -> bytes:
        assert event.validate() == []
        timed = {} if event_time is None else {"event_time": event_time}
        header = header_for(event, len(self.events), **timed)
        self.events.append((event, header))
        return digest(codec.encode(event, header))

    def confirm(self) -> None:
        self.confirmed += 1


def imported(folder: Path, branches: Sequence[str], memory: Memory, present: Present = NOTHING) -> tuple[Importer, Counts]:  # fmt: skip
    with History(folder) as history:
        wanted = history.branches()
        found = survey(history, {name: wanted[name] for name in branches}, present)
        known = {"main": present.branches["main"]} if present.branches else {}
        importer = Importer(history, "r1", found.known, known, memory)
        importer._heads.setdefault("main", "")
        for step in found.steps:
            importer.take(step)
    return importer, importer.counts


def test_x(tmp_path):
    said.generated(tmp_path / "git", 1, 320)
    heads = said.heads(tmp_path / "git")
    memory = Memory("r1")
    importer, counts = imported(tmp_path / "git", ["main", *sorted(heads.keys() - {"main"})], memory)
    print(counts, memory.confirmed)
    fold = Fold(tmp_path / "lake", 1, topic=TOPIC, joined=("repositories",))
    fold.batch([record_of(event, number, header=header) for number, (event, header) in enumerate(memory.events)])
    fold.lake.refresh()
    print({k: v for k, v in fold.verdicts().items()})
    fill(fold.lake, {"trees": {KEY: fold.lake.journal.mark(KEY)}}, StoredFiles(fold.lake.path, {}))
    rows = {row["commit"]: row for row in fold.lake.tables["commit_trees"].query("*", "true")}
    reads = _Earlier(DERIVED["trees"].derived, tables_of(DERIVED["trees"], fold.lake), KEY, 1 << 62)
    contents = Contents(reads, "default", "r1")
    for git_id, ours in zip(importer._known.git_ids, importer._known.ids, strict=True):
        row = rows[str(commit_urn("r1", ours))]
        layers = [Layer.of(*one) for one in zip(row["layers"], row["layer_rows"], strict=True)]
        content = contents.overlaid(layers, ["checksum", "metadata"])
        there = {one["path"]: one for one in content.to_dicts() if not one["deleted"]}
        import orjson
        listed = {p: (orjson.loads(o["metadata"])["mode"], o["checksum"]) for p, o in there.items()}
        assert listed == said.listing(tmp_path / "git", git_id)
    print(len(rows))
