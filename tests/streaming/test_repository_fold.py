"""Repositories through the engine: tables, verdicts and change records are the same whatever batches and ways."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import digest, partition_of
from metajournal.streaming.rebuild import InProcess, LakeRebuild
from tests.builders import header_for, record_of
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.repositories.operations import operations
from tests.repositories.plain_model import Refs
from tests.streaming.harness import Fold, placed

PARTITIONS = 2
TOPIC, CHANGES = "metajournal.journal.repositories", "metajournal.changes.repositories"
TABLES = ("entities", "branches", "commits", "objects", "resets")
REPO, MAIN, DEV = repository_urn("r1"), branch_urn("r1", "main"), branch_urn("r1", "dev")
OBJECT = {"path": "a", "size": 3, "checksum": "c1", "address": "s3://b/1"}


def begun(path: Path, **fields: Any) -> Fold:
    return Fold(path, PARTITIONS, topic=TOPIC, joined=("repositories",), **fields)


@st.composite
def journals(draw: st.DrawFn) -> list[JournalRecord]:
    """Operations as they come, some of them told again, and tags between them."""
    refs, records = Refs(), []
    again = draw(st.sets(st.integers(1, 24)))
    for number in range(1, draw(st.integers(2, 24))):
        event = draw(st.one_of(operations(refs), operations(refs), st.just(TagsAdded(MAIN, [f"t{number}"]))))
        header = header_for(event, number)
        if not isinstance(event, TagsAdded):
            refs.judge(event, digest(codec.encode(event, header)))
        records.append((event, header))
        if number in again:
            records.append((event, header._replace(repeat=number % 2 == 0)))
    told = [record_of(event, offset, header=header) for offset, (event, header) in enumerate(records)]
    return placed(told, PARTITIONS)


def stands(rows: list[Any]) -> list[Any]:
    """Rows by their place in the log."""
    by_place = {
        (partition_of(f"{row.tenant}/{row.aggregate}".encode(), PARTITIONS), row.logical_timestamp, row.seq): row
        for row in rows
    }
    return [by_place[place] for place in sorted(by_place)]


def assert_equal(fold: Fold, model: Model) -> None:
    for table in TABLES:
        assert fold.rows(table) == stands(model.tables.get(table, [])), table
    told = fold.verdicts()
    for place, verdict in model.verdicts.items():
        assert told.get(place, ("accepted", None))[0] == verdict.outcome
        if verdict.outcome == "rejected":
            assert told[place][1] == verdict.data
    changed = {place for place, verdict in model.verdicts.items() if verdict.outcome == "accepted"}
    types = {(row["journal_partition"], row["logical_timestamp"]): row["event_type"] for row in fold.journal()}
    published = {(one[0], one[1]): one[-1]["event_type"] for one in fold.topics.seen(CHANGES)}
    ours = {place: types[place].split(".")[1] for place in changed if types[place].startswith("repositories.")}
    assert published == ours


@pytest.mark.thorough
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(journals(), st.lists(st.integers(0, 30), max_size=4), st.booleans())
def test_any_batches_restarts_and_ways_give_what_the_model_says_and_a_rebuild_too(
    records: list[JournalRecord], cuts: list[int], wide: bool
) -> None:
    model = Model.of(records, TOPIC)
    with tempfile.TemporaryDirectory() as folder:
        fold = begun(Path(folder), cache_rows=2)
        for cut in [*sorted(cuts), len(records)]:
            fold.batch(records, until=records[:cut], wide=wide)
            if cut % 2:
                fold.start()
        assert_equal(fold, model)
        epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)}, frozenset())
        target = fold.lake.begin_generation(TABLES)
        tables = [*TABLES]
        rebuilt = LakeRebuild(fold.settings, epochs, fold.lake, target, tables, InProcess(), lambda _: None).run()
        assert rebuilt.equal
        assert rebuilt.digests.keys() == {*TABLES}


def commits_then_branch() -> list[Any]:
    """A branch at a commit that is named before it is there, and again once it is."""
    events: list[Any] = [e.RepositoryCreated(REPO, "main", "s3://b"), e.ObjectsWritten(MAIN, [OBJECT])]
    model = Model.of(placed([record_of(one, n) for n, one in enumerate([*events, e.Committed(MAIN, "m")])], 1), TOPIC)
    [commit] = [next(iter(key)) for table, _, key in model.facts if table == "commits"]
    return [
        *events,
        e.BranchCreated(DEV, commit),
        e.Committed(MAIN, "m"),
        e.BranchCreated(DEV, commit),
    ]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("cut", range(5))
def test_a_commit_that_was_looked_for_in_vain_is_found_once_it_is_made(tmp_path: Path, wide: bool, cut: int) -> None:
    """What a batch makes without asking for it is no longer absent for those that ask later."""
    events = commits_then_branch()
    records = [record_of(event, n) for n, event in enumerate(events)]
    records[3] = record_of(events[3], 3, header=header_for(events[3], 2))  # the id that was foreseen
    records = placed(records, PARTITIONS)
    model = Model.of(records, TOPIC)
    fold = begun(tmp_path)
    for until in (cut, cut + 1, len(records)):
        fold.batch(records, until=records[:until], wide=wide)
    outcomes = [fold.verdicts().get((one.partition, one.position), ("accepted",))[0] for one in records]
    assert outcomes[2:] == ["rejected", "accepted", "accepted"]
    assert_equal(fold, model)


def test_each_event_is_told_once_in_the_sources_words(tmp_path: Path) -> None:
    tx = branch_urn("r1", "_tx/1")
    events = [
        e.RepositoryCreated(REPO, "main", "s3://b"),
        e.ObjectsWritten(MAIN, [OBJECT, {**OBJECT, "path": "ä"}]),
        e.BranchReset(MAIN, prefix="ä"),
        e.Committed(MAIN, "m", {"k": "v"}),
        e.Committed(MAIN, "nothing"),
        e.BranchCreated(tx),
        e.ObjectsDeleted(tx, ["a"]),
        e.BranchReset(tx),
        e.ObjectsRegistered(REPO, ["a/b"]),
        TagsAdded(MAIN, ["t"]),
        e.BranchDeleted(tx),
        e.RepositoryDeleted(REPO),
    ]
    records = placed([record_of(event, number) for number, event in enumerate(events)], PARTITIONS)
    fold = begun(tmp_path)
    fold.batch(records)
    seen = fold.topics.seen(CHANGES)
    head = next(row.head for row in fold.rows("branches") if row.head)
    assert [(one[3], one[-1]["event_type"], one[-1]["event_payload"]) for one in seen] == [
        ("default/repo:r1", "RepositoryCreated", {"branch": "main", "storage_namespace": "s3://b"}),
        (
            f"default/{MAIN}",
            "ObjectsWritten",
            {"branch": "main", "objects": [["a", 3, "c1"], ["ä", 3, "c1"]], "omitted": 0},
        ),
        (f"default/{MAIN}", "BranchReset", {"branch": "main", "path": None, "prefix": "ä"}),
        (
            f"default/{MAIN}",
            "Committed",
            {"branch": "main", "commit": head, "parents": [], "strategy": None, "message": "m", "metadata": {"k": "v"}},
        ),
        (f"default/{tx}", "BranchCreated", {"branch": "_tx/1", "head": None}),
        (f"default/{tx}", "ObjectsDeleted", {"branch": "_tx/1", "objects": [["a", None, None]], "omitted": 0}),
        (f"default/{tx}", "BranchReset", {"branch": "_tx/1", "path": None, "prefix": None}),
        ("default/repo:r1", "ObjectsRegistered", {"paths": ["a/b"]}),
        (f"default/{tx}", "BranchDeleted", {"branch": "_tx/1"}),
        ("default/repo:r1", "RepositoryDeleted", {}),
    ]
    assert {(one[-1]["client_id"], one[-1]["repo_id"]) for one in seen} == {("alice", "r1")}
    assert [one[-1]["logical_timestamp"] for one in seen] == [one[1] for one in seen]
    states = {one[3]: one[-1]["deleted"] for one in fold.topics.seen("metajournal.state.repositories")}
    assert states == {
        "default/repo:r1": True,
        f"default/{MAIN}": True,
        f"default/{commit_urn('r1', head)}": False,
        "default/object:r1/a/b": True,
    }
