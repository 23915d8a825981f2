"""What the lake and the rows in front of it tell of a merge is what a plain merge of all paths meets."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories import outlook as module
from metajournal.domains.repositories.apart import Outlook
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.schemas.errors import NotYetVisibleError, UnknownEntityError
from tests.properties import examples
from tests.repositories.operations import UNKNOWN, operations
from tests.repositories.test_ahead import MAIN
from tests.repositories.test_apart import DEV, NEW, STEPS, Branches, plain_outlook
from tests.repositories.test_contents import ahead_of, begun, made_until, queries_of
from tests.repositories.test_layers import Plain


def check_all(plain: Plain, folded: int, made: int, followed: int) -> int:
    """Hold what is told of every merge of two commits against all their paths; how often nothing is known yet.

    Args:
        folded: events that the lake has; `made`: those of which the derived tables have the commits.
        followed: the event from which on a follower has the rows.
    """
    unknown, count = 0, len(plain.events)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as whole:
        fold = begun(folder, plain.events, folded)
        made_until(fold, made)
        ahead = None if folded == count else ahead_of(begun(whole, plain.events, count), followed, count)
        queries = queries_of(folder)
        for source in plain.trees:
            for destination in plain.trees:
                try:
                    told = queries.outlook("default", "r1", source, destination, ahead=ahead)
                except NotYetVisibleError:
                    unknown += 1
                else:
                    assert told == plain_outlook(plain, source, destination)
    return unknown


@pytest.mark.thorough
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=14), st.data())
def test_what_a_merge_meets_is_what_a_plain_merge_of_all_paths_meets(steps: list[Any], data: st.DataObject) -> None:
    """Three branches that are merged in any order; lake, derived tables and follower each as far as may be."""
    history = Branches.of(steps)
    count = len(history.plain.events)
    folded = data.draw(st.integers(1, count))
    made = data.draw(st.integers(1, folded))
    unknown = check_all(history.plain, folded, made, data.draw(st.integers(0, folded)))
    assert not unknown or made < count


@pytest.mark.thorough
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_of_any_operations_too(data: st.DataObject) -> None:
    plain = Plain()
    plain.add(e.RepositoryCreated(repository_urn("r1"), "main", "s3://b"))
    for _ in range(data.draw(st.integers(4, 30))):
        event = data.draw(operations(plain.refs).filter(lambda one: one.aggregate.name == "r1"))
        if not isinstance(event, e.RepositoryDeleted):
            plain.add(event)
    count = len(plain.events)
    assert not check_all(plain, count, count, count)


@pytest.mark.thorough
def test_paths_that_are_staged_on_the_destination_are_in_no_conflict(tmp_path: Path) -> None:
    history = Branches()
    history.fork(history.commit(MAIN, "a"))
    dev, main = history.commit(DEV, "a", "b", checksum="c2"), history.commit(MAIN, "a", "b", checksum="c3")
    history.add(e.ObjectsWritten(MAIN, [{"path": "a", "size": 1, "checksum": "c4", "address": "x"}]))
    history.add(e.ObjectsDeleted(MAIN, ["b", "c"]))
    history.add(e.BranchReset(MAIN, path="b"))
    count = len(history.plain.events)
    fold = begun(tmp_path, history.plain.events, count)
    made_until(fold, count)
    queries = queries_of(tmp_path)
    both = queries.outlook("default", "r1", dev, main)
    assert [one.path for one in both.conflicting] == ["a", "b"]
    assert both == plain_outlook(history.plain, dev, main)
    left = queries.outlook("default", "r1", dev, main, resolving="main")
    assert (left.conflicts, [one.path for one in left.conflicting]) == (1, ["b"])
    assert left.conflicting[0].base is None
    with pytest.raises(UnknownEntityError, match=f"has no commit {UNKNOWN}"):
        queries.outlook("default", "r1", UNKNOWN, main)


def test_what_is_staged_on_a_branch_named_as_a_commit_is_laid_over_too(tmp_path: Path) -> None:
    """Of a ref the whole id of a commit comes first; here a branch is meant, whatever its name."""
    history = Branches()
    first = history.commit(MAIN, "a")
    history.fork(first)
    dev = history.commit(DEV, "a", checksum="c2")
    named = branch_urn("r1", first)
    history.add(e.BranchCreated(named, commit_urn("r1", first)))
    into = history.commit(named, "a", checksum="c3")
    history.add(e.ObjectsWritten(named, [{"path": "a", "size": 1, "checksum": "c4", "address": "x"}]))
    count = len(history.plain.events)
    made_until(begun(tmp_path, history.plain.events, count), count)
    queries = queries_of(tmp_path)
    assert queries.outlook("default", "r1", dev, into).conflicts == 1
    assert queries.outlook("default", "r1", dev, into, resolving=first).conflicts == 0


@pytest.mark.thorough
def test_a_thousand_conflicts_are_counted_and_a_hundred_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 64)
    history = Branches()
    paths = [f"{number:04}" for number in range(1_000)]
    history.fork(history.commit(MAIN, *paths))
    dev, main = history.commit(DEV, *paths, checksum="c2"), history.commit(MAIN, *paths, checksum="c3")
    orphan = branch_urn("r1", "orphan")
    history.add(e.BranchCreated(orphan))
    apart = history.commit(orphan, "z")
    count = len(history.plain.events)
    made_until(begun(tmp_path, history.plain.events, count), count)
    queries = queries_of(tmp_path)
    told = queries.outlook("default", "r1", dev, main)
    assert (told.conflicts, [one.path for one in told.conflicting]) == (1_000, paths[:100])
    assert queries.outlook("default", "r1", apart, main) == Outlook(unrelated=True)
    assert NEW not in history.heads
