"""What rows alone tell of a merge is what a plain merge of all paths meets; or they say nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.consumers.foretelling import Foretold
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.answers import Conflict
from metajournal.domains.repositories.apart import Outlook, outlook_of_rows
from metajournal.domains.repositories.urns import branch_urn, commit_urn
from metajournal.lake.tables import Lake
from metajournal.schemas.positions import position
from tests.builders import record_of
from tests.consumers.test_foretelling import messages
from tests.properties import examples
from tests.repositories.operations import operations
from tests.repositories.test_ahead import KEYS, MAIN, REPO, TOPIC, pin_of
from tests.repositories.test_layers import Plain
from tests.repositories.test_merging import plainly
from tests.streaming.harness import Fold

DEV, NEW = branch_urn("r1", "dev/x"), branch_urn("r1", "new")


def rows_of(events: list[Any]) -> dict[str, list[Any]]:
    """The rows that a follower keeps of a journal that the lake has nothing of."""
    with tempfile.TemporaryDirectory() as folder:
        Fold(Path(folder), 1, topic=TOPIC, joined=("repositories",))
        foretold = Foretold(pin_of(Lake(folder)), [*KEYS.values()])
        foretold.take(messages([record_of(event, number) for number, event in enumerate(events)]))
        return foretold.facts(KEYS["r1"], None)[1]


def plain_outlook(plain: Plain, source: str, destination: str) -> Outlook:
    """What a merge meets: all paths compared."""
    parents = [[*map(plain._numbers.index, plain.said[one][0])] for one in plain._numbers]
    bases = plainly(parents, *[[plain._numbers.index(one)] for one in (source, destination)])
    if plain._numbers.index(source) in bases:
        return Outlook(contained=True)
    conflicts = plain._merge(destination, source, "none")[1]
    return Outlook(
        unrelated=not bases, conflicts=len(conflicts), conflicting=tuple(Conflict(*one) for one in conflicts)
    )


def check_all(plain: Plain, begin: int) -> int:
    """Hold what rows tell of every merge of two commits against all their paths; how much they tell."""
    rows = rows_of(plain.events)
    rows["objects"] = [row for row in rows.get("objects", []) if row.logical_timestamp >= begin]
    ids = [row.commit.parts[1] for row in rows.get("commits", [])]
    told = 0
    for source in ids:
        for destination in ids:
            outlook = outlook_of_rows(rows, begin, source, destination)
            told += outlook is not None
            assert outlook in (None, plain_outlook(plain, source, destination))
    return told


@pytest.mark.thorough
@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_rows_tell_of_any_merge_is_true(data: st.DataObject) -> None:
    plain = Plain()
    for _ in range(data.draw(st.integers(1, 25))):
        plain.add(data.draw(operations(plain.refs)))
    check_all(plain, position(1, data.draw(st.integers(0, len(plain.events)))))


class Branches:
    """Two branches of one repository: what is written to them, and what merges the one into the other."""

    def __init__(self) -> None:
        self.plain = Plain()
        self.heads: dict[Any, str] = {}
        self.add(e.RepositoryCreated(REPO, "main", "s3://b"))

    @classmethod
    def of(cls, steps: Iterable[tuple[Any, Any, Any]]) -> Branches:
        """Two branches of one commit and one without, and what STEPS do."""
        history = cls()
        first = history.commit(MAIN, "a", "b")
        history.fork(first)
        history.add(e.BranchCreated(NEW))
        for what, one, other in steps:
            if what in e.STRATEGIES:
                history.merge(one, other, what)
            else:
                history.commit(other, what, checksum=one)
        return history

    def add(self, event: Any) -> str:
        return self.plain.add(event)

    def commit(self, branch: Any, *paths: str, checksum: str = "c1") -> str:
        entries = [{"path": path, "size": 1, "checksum": checksum, "address": "x"} for path in paths]
        self.add(e.ObjectsWritten(branch, entries))
        self.heads[branch] = self.add(e.Committed(branch, ""))
        return self.heads[branch]

    def fork(self, commit: str, branch: Any = None) -> None:
        self.add(e.BranchCreated(branch or DEV, commit_urn("r1", commit)))
        self.heads[branch or DEV] = commit

    def merge(self, source: Any, destination: Any, strategy: str = "none") -> str:
        heads = self.heads.get(source, ""), self.heads.get(destination, "")
        self.heads[destination] = self.add(e.Merged(source, destination, *heads, strategy)) or heads[1]
        return self.heads[destination]

    def outlook(self, source: str, destination: str, begin: int = 0) -> Outlook | None:
        return outlook_of_rows(rows_of(self.plain.events), begin, source, destination)


PATHS = "abcd"
STEPS = st.one_of(
    st.tuples(st.sampled_from(PATHS), st.sampled_from(["c1", "c2", "c3"]), st.sampled_from([MAIN, DEV, NEW])),
    st.tuples(
        st.sampled_from(e.STRATEGIES), st.sampled_from([MAIN, DEV, NEW]), st.sampled_from([MAIN, DEV, NEW])
    ).filter(lambda step: step[1] != step[2]),
)


@pytest.mark.thorough
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=14), st.integers(0, 12))
def test_what_rows_tell_of_histories_that_cross_is_true(steps: list[Any], begin: int) -> None:
    """Three branches that are merged into each other in any order, by any strategy, also in conflict."""
    history = Branches.of(steps)
    told = check_all(history.plain, position(1, begin))
    if begin == 0:
        assert told >= len(history.plain.said), "of each that it is in itself"


@pytest.mark.thorough
def test_sides_that_wrote_other_paths_are_apart() -> None:
    history = Branches()
    first = history.commit(MAIN, "a", "b")
    history.fork(first)
    dev, main = history.commit(DEV, "c"), history.commit(MAIN, "a", checksum="c2")
    assert history.outlook(dev, main) == history.outlook(main, dev) == Outlook()
    assert history.outlook(dev, first) == Outlook()
    assert history.outlook(first, dev) == history.outlook(dev, dev) == Outlook(contained=True)
    same = history.commit(DEV, "a", checksum="c2")
    assert history.outlook(same, main) is None, "the same path, with equal contents: only these tell"
    assert history.outlook(dev, main, position(1, 4)) is None, "of an area that begins before, rows may be missing"


def test_histories_that_begin_apart_are_told_to_be_unrelated() -> None:
    history = Branches()
    history.add(e.BranchCreated(NEW))
    history.commit(MAIN, "a")
    main, new = history.commit(MAIN, "b"), history.commit(NEW, "c")
    assert history.outlook(new, main) == Outlook(unrelated=True)
    assert history.outlook(history.commit(NEW, "b"), main) is None
    assert history.merge(NEW, MAIN) != main


@pytest.mark.thorough
def test_branches_that_were_merged_before_are_told_from_there_on() -> None:
    history = Branches()
    history.fork(history.commit(MAIN, "a"))
    before = history.commit(DEV, "a", "b", checksum="c2")
    merged = history.merge(DEV, MAIN)
    assert history.outlook(before, merged) == Outlook(contained=True)
    dev, main = history.commit(DEV, "a", checksum="c3"), history.commit(MAIN, "d")
    assert history.outlook(dev, main) == Outlook(), "what was merged is no change any more"
    clash = history.commit(MAIN, "a", checksum="c4")
    assert history.outlook(dev, clash) is None


def test_histories_that_cross_are_left_to_their_contents() -> None:
    history = Branches()
    history.fork(history.commit(MAIN, "a"))
    history.commit(DEV, "b"), history.commit(MAIN, "c")
    main, dev = history.merge(DEV, MAIN), history.merge(MAIN, DEV)
    assert history.outlook(dev, main) is None
