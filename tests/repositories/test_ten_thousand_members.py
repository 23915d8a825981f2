"""A repository with as many members as it may have, which one event ends, and another one begins again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.rules import MAX_MEMBERS
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.streaming.rebuild import InProcess, LakeRebuild
from tests.builders import record_of
from tests.model import JournalRecord, Model
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
STATE, CHANGES = "metajournal.state.repositories", "metajournal.changes.repositories"
TABLES = ("entities", "branches", "commits", "objects", "resets")
REPO, MAIN = repository_urn("r1"), branch_urn("r1", "main")
BRANCHES = 1_000


def full() -> list[Any]:
    """A repository that is made, and filled: its default branch, others, and registered objects."""
    branches = [e.BranchCreated(branch_urn("r1", f"b{number}")) for number in range(BRANCHES - 1)]
    paths = [f"raw/{number}" for number in range(MAX_MEMBERS - BRANCHES)]
    objects = [e.ObjectsRegistered(REPO, paths[start : start + 1_000]) for start in range(0, len(paths), 1_000)]
    return [e.RepositoryCreated(REPO, "main", "s3://b"), *branches, *objects]


def history() -> tuple[list[Any], list[int]]:
    """Events, and the numbers of those that are refused."""
    events = full()
    refused = [len(events), len(events) + 1]
    events += [e.ObjectsRegistered(REPO, ["one-more"]), e.BranchCreated(branch_urn("r1", "more"))]
    events += [e.RepositoryDeleted(REPO)]
    refused += [len(events), len(events) + 1]
    events += [e.RepositoryDeleted(REPO), e.ObjectsWritten(MAIN, [e.Entry("a", 1, "c", "s3://b/1")])]
    events += full()
    refused += [len(events)]
    return [*events, e.BranchCreated(branch_urn("r1", "more")), e.RepositoryDeleted(REPO)], refused


def folded(folder: Path, records: list[JournalRecord], *, wide: bool) -> Fold:
    fold = Fold(folder, 1, topic=TOPIC, joined=("repositories",), cache_rows=2_000)
    fold.batch(records, until=records[: len(records) // 2], wide=wide)
    fold.start()
    fold.batch(records, wide=wide)
    return fold


def digests_of(fold: Fold) -> dict[str, Any]:
    """The digests of the tables, which a rebuild has alike."""
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", 1)}, frozenset())
    target = fold.lake.begin_generation(TABLES)
    rebuilt = LakeRebuild(fold.settings, epochs, fold.lake, target, [*TABLES], InProcess(), lambda _: None).run()
    assert rebuilt.equal
    return dict(rebuilt.digests)


@pytest.mark.thorough
def test_ten_thousand_members_end_with_one_event_and_begin_again_alike_both_ways(tmp_path: Path) -> None:
    events, refused = history()
    records = [record_of(event, number) for number, event in enumerate(events)]
    model = Model.of(records, TOPIC)
    short, wide = (folded(tmp_path / name, records, wide=name == "wide") for name in ("short", "wide"))
    verdicts = short.verdicts()
    assert [place for _, place in sorted(verdicts)] == [records[number].position for number in refused]
    assert {one[0] for one in verdicts.values()} == {"rejected"}
    assert [verdicts[0, records[number].position][1]["reason"] for number in refused] == [
        "too-many", "too-many", "unknown-entity", "unknown-entity", "too-many"
    ]  # fmt: skip
    assert wide.verdicts() == verdicts
    assert {place: one.outcome for place, one in model.verdicts.items() if one.outcome != "accepted"} == {
        place: outcome for place, (outcome, _) in verdicts.items()
    }
    for table in TABLES:
        assert short.rows(table) == wide.rows(table), table
    for topic in (STATE, CHANGES):
        assert short.topics.seen(topic) == wide.topics.seen(topic), topic
    latest = {key: document for _, _, _, key, _, document in short.topics.seen(STATE)}
    assert len(latest) == MAX_MEMBERS + 1
    assert all(document["deleted"] for document in latest.values()), "each has ended"
    ends = [row for row in short.rows() if row.deleted]
    assert len(ends) == 2 * (MAX_MEMBERS + 1)
    assert len({row.logical_timestamp for row in ends}) == 2, "an event each"
    assert digests_of(short) == digests_of(wide)
