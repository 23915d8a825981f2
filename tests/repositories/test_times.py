"""What is read of repositories as at a time, and of branches as they were at one, against plain dictionaries: whatever
the lake lacks, and where a repository was deleted and made again. An answer that may still change says so."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.queries import RepositoryQueries
from metajournal.domains.repositories.questions import Ref
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.lake.cuts import time_text
from metajournal.lake.tables import Lake
from metajournal.schemas.errors import InputError, NotFinalError, NotYetVisibleError, UnknownEntityError
from metajournal.schemas.hashing import partition_of, record_key
from metajournal.schemas.positions import Position, position
from metajournal.schemas.topics import TopicNames
from tests.builders import NOON, record_of
from tests.properties import examples
from tests.repositories.operations import REPOSITORIES, operations
from tests.repositories.test_contents import (
    KEY,
    REPO,
    TOPIC,
    State,
    ahead_of,
    begun,
    made_until,
    queries_of,
    state_of,
    trees_of,
    whole,
)
from tests.repositories.test_layers import Plain
from tests.streaming.harness import Fold

MAIN = branch_urn("r1", "main")
OBJECT = {"path": "a", "size": 3, "checksum": "c1", "address": "s3://b/1"}


def time_of(number: int) -> int:
    """System time of the n-th event, milliseconds UTC."""
    return NOON + 1_000 * number


@dataclass
class Told:
    """A journal's repositories, and what they were after each event."""

    plain: Plain = field(default_factory=Plain)
    states: list[State] = field(default_factory=list)
    created: list[dict[str, int]] = field(default_factory=list)
    """After each event the number of the event that created each repository that there is."""

    def add(self, event: Any) -> None:
        before = dict(self.plain.refs.repositories)
        self.plain.add(event)
        number, after = len(self.plain.events) - 1, self.plain.refs.repositories
        known = self.created[-1] if self.created else {}
        self.created.append({name: known[name] if before.get(name) is one else number for name, one in after.items()})
        self.states.append(state_of(self.plain))

    def head(self, seen: int, repo: str, branch: str, time_ms: int) -> str | None:
        """Where a branch was at a time, to whom sees so many events: empty without commit, None where it was not."""
        then = min((time_ms - NOON) // 1_000, seen - 1)
        if then < self.created[seen - 1][repo]:
            return None
        return self.states[then].get((repo, branch), (None, {}))[0]


@st.composite
def histories(draw: st.DrawFn) -> Told:
    """Any operations; now and then a repository is deleted and made again."""
    told = Told()
    told.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    for _ in range(draw(st.integers(2, 30))):
        told.add(draw(operations(told.plain.refs)))
        if draw(st.integers(0, 11)) == 11:
            told.add(e.RepositoryDeleted(REPO))
            told.add(e.RepositoryCreated(REPO, "main", "s3://c"))
    return told


def times(count: int) -> st.SearchStrategy[int]:
    """Times before, of, between and after so many events."""
    return st.builds(
        lambda number, more: time_of(number) + more, st.integers(-1, count), st.sampled_from([0, -1, 1, 500])
    )


def check_as_at(queries: RepositoryQueries, told: Told, in_lake: int, time_ms: int) -> None:
    """Hold what the lake tells as at a time against the plain model of the events of then that it has."""
    then, final = min((time_ms - NOON) // 1_000, in_lake - 1), time_of(in_lake - 1) > time_ms
    names = sorted(told.created[then]) if then >= 0 else []
    found = queries.repositories("default", as_at=time_ms)
    assert ([one.name for one in found], found.final) == (names, final)
    assert all(one.final == final for one in found)
    for repo in REPOSITORIES:
        if repo not in names:
            with pytest.raises(UnknownEntityError) as unknown:
                queries.branches("default", repo, as_at=time_ms)
            assert unknown.value.data["final"] == final
            assert ("not final" in unknown.value.hint) == (not final)
            continue
        state = told.states[then]
        branches = queries.branches("default", repo, transactions=True, as_at=time_ms)
        heads = {name: head for (of, name), (head, _) in state.items() if of == repo}
        assert {one.name: one.head or "" for one in branches} == heads
        assert {branches.final, *(one.final for one in branches)} == {final}
        assert queries.repository("default", repo, as_at=time_ms).final == final
        for ref, tree in trees_of(told.plain, state, repo).items():
            with suppress(NotYetVisibleError):  # a merge that is not made yet
                items = whole(queries, repo, ref, as_at=time_ms)
                assert {one.path: (bytes.fromhex(one.content), one.size) for one in items} == tree
                assert all(one.final == final for one in items)
                assert queries.list_objects("default", repo, Ref.of(ref), as_at=time_ms).final == final
                assert queries.diff("default", repo, Ref.of(ref), Ref.of(ref), as_at=time_ms).final == final
                for path in [*tree][:1]:
                    assert queries.get("default", repo, Ref.of(ref), path, as_at=time_ms).final == final


def check_then(
    queries: RepositoryQueries, told: Told, seen: int, time_ms: int, final: bool | None, **options: Any
) -> None:  # fmt: skip
    """Hold every branch as it was at a time against the plain model, as whoever sees so many events is told.

    Args:
        final: what must be said of it; None: either.
    """
    for repo in told.created[seen - 1] if seen else ():
        for branch in ("main", "dev/x", "_tx/1"):
            ref = Ref.of(f"{branch}@{time_text(time_ms)}")
            head = told.head(seen, repo, branch, time_ms)
            if not head:
                with pytest.raises((UnknownEntityError, InputError)) as caught:
                    queries.commit("default", repo, ref, **options)
                assert caught.value.code == ("unknown-entity" if head is None else "no-commit")
                assert final in (None, caught.value.data["final"])
                continue
            found = queries.commit("default", repo, ref, **options)
            assert found.id == head
            assert final in (None, found.final)
            assert queries.log("default", repo, ref, **options).items[0] == found
            with suppress(NotYetVisibleError):
                page = queries.list_objects("default", repo, ref, **options)
                tree = told.plain.trees[head]
                assert {one.path: (bytes.fromhex(one.content), one.size) for one in page.objects} == tree
                assert page.final == found.final


@pytest.mark.thorough
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), st.data())
def test_what_is_read_as_at_any_time_is_what_the_lake_has_of_it_and_says_whether_that_is_final(
    told: Told, data: st.DataObject
) -> None:
    count = len(told.states)
    in_lake = data.draw(st.integers(1, count))
    with tempfile.TemporaryDirectory() as folder:
        made_until(begun(folder, told.plain.events, in_lake), data.draw(st.integers(0, in_lake)))
        queries = queries_of(folder)
        for time_ms in data.draw(st.lists(times(count), min_size=1, max_size=3)):
            check_as_at(queries, told, in_lake, time_ms)


@pytest.mark.thorough
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), st.data())
def test_a_branch_as_at_any_time_is_where_it_was_now_and_as_at_a_cut_or_time(told: Told, data: st.DataObject) -> None:
    """Seen by the lake alone, however far behind, with a follower's rows, at a cut, and as at a time."""
    count = len(told.states)
    in_lake = data.draw(st.integers(1, count))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        made_until(begun(one, told.plain.events, in_lake), data.draw(st.integers(0, in_lake)))
        ahead = ahead_of(begun(other, told.plain.events, count), data.draw(st.integers(0, in_lake)), count)
        queries = queries_of(one)
        for time_ms in data.draw(st.lists(times(count), min_size=1, max_size=2)):
            passed = time_of(in_lake - 1) > time_ms
            check_then(queries, told, in_lake, time_ms, passed)
            check_then(queries, told, count, time_ms, passed or None, ahead=ahead)
            cut = data.draw(st.integers(1, in_lake))
            check_then(queries, told, cut, time_ms, True, as_at={KEY: position(1, cut)})
            as_at = data.draw(times(count))
            seen = max(0, min((as_at - NOON) // 1_000, in_lake - 1) + 1)
            check_then(queries, told, seen, time_ms, time_of(in_lake - 1) > as_at, as_at=as_at)


def test_a_branch_of_a_repository_that_was_made_again_was_not_there_before(tmp_path: Path) -> None:
    told = Told()
    told.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    told.add(e.ObjectsWritten(MAIN, [OBJECT]))
    told.add(e.Committed(MAIN, "first"))
    told.add(e.RepositoryDeleted(REPO))
    told.add(e.RepositoryCreated(REPO, "main", "s3://c"))
    told.add(e.Committed(MAIN, "second", allow_empty=True))
    begun(tmp_path, told.plain.events, 6)
    queries = queries_of(tmp_path)

    def head(time_ms: int, **options: Any) -> str:
        return queries.commit("default", "r1", Ref.of(f"main@{time_text(time_ms)}"), **options).id

    first, second = (told.states[number]["r1", "main"][0] for number in (2, 5))
    assert head(time_of(5)) == second != first
    assert head(time_of(2), as_at={KEY: position(1, 3)}) == first
    for number in (2, 3):
        with pytest.raises(UnknownEntityError) as gone:
            head(time_of(number))
        assert gone.value.data["final"], "later events are there"
    with pytest.raises(InputError, match="had no commit at that time"):
        head(time_of(4))
    with pytest.raises(NotFinalError, match="is in the future"):
        head(33_000_000_000_000)


def test_of_a_followers_rows_those_of_the_time_count_and_a_later_one_makes_it_final(tmp_path: Path) -> None:
    told = Told()
    told.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    for message in ("first", "second", "third"):
        told.add(e.Committed(MAIN, message, allow_empty=True))
    ahead = ahead_of(begun(tmp_path / "every", told.plain.events, 4), 1, 4)
    begun(tmp_path / "behind", told.plain.events, 1)
    queries = queries_of(tmp_path / "behind")
    for number, final in ((1, True), (2, True), (3, False)):
        ref = Ref.of(f"main@{time_text(time_of(number))}")
        found = queries.commit("default", "r1", ref, ahead=ahead)
        assert (found.id, found.final) == (told.states[number]["r1", "main"][0], final)
        page = queries.list_objects("default", "r1", ref, ahead=ahead)
        assert (page.items, page.final) == ((), final)


def test_as_at_a_point_nothing_later_is_named(tmp_path: Path) -> None:
    """Neither by the beginning of an id, nor by a later time of a branch."""
    told = Told()
    told.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    told.add(e.Committed(MAIN, "first", allow_empty=True))
    told.add(e.Committed(MAIN, "second", allow_empty=True))
    told.add(e.ObjectsWritten(MAIN, [OBJECT]))
    begun(tmp_path, told.plain.events, 4)
    queries = queries_of(tmp_path)
    first, second = (told.states[number]["r1", "main"][0] for number in (1, 2))
    points: list[Any] = [time_of(1), {KEY: position(1, 2)}]
    for as_at in points:
        for text in ("main", f"main@{time_text(time_of(3))}", first[:10]):
            found = queries.commit("default", "r1", Ref.of(text), as_at=as_at)
            assert (found.id, found.final) == (first, True)
        assert [one.id for one in queries.log("default", "r1", Ref.of("main"), as_at=as_at).items] == [first]
        for text in (second, second[:10]):
            with pytest.raises(UnknownEntityError):
                queries.commit("default", "r1", Ref.of(text), as_at=as_at)
    assert queries.commit("default", "r1", Ref.of(second[:10])).id == second


def test_what_the_lake_lacks_of_a_time_is_not_taken_for_what_there_was(tmp_path: Path) -> None:
    """A commit of that time is on its way: whoever asks is told that the answer is not final."""
    told = Told()
    told.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    told.add(e.ObjectsWritten(MAIN, [OBJECT]))
    told.add(e.Committed(MAIN, "first"))
    told.add(e.ObjectsWritten(MAIN, [{**OBJECT, "path": "b"}]))
    begun(tmp_path, told.plain.events, 2)
    queries, then = queries_of(tmp_path), time_of(2)
    page = queries.list_objects("default", "r1", Ref.of("main"), as_at=then)
    assert ([one.path for one in page.items], page.final) == (["a"], False)
    assert not queries.get("default", "r1", Ref.of("main"), "a", as_at=then).final
    assert not queries.branch("default", "r1", "main", as_at=then).final
    with pytest.raises(InputError, match="no commit yet") as empty:
        queries.log("default", "r1", Ref.of("main"), as_at=then)
    assert empty.value.data["final"] is False
    with pytest.raises(UnknownEntityError) as missing:
        queries.get("default", "r1", Ref.of("main"), "b", as_at=then)
    assert missing.value.data["final"] is False
    assert missing.value.hint.startswith("This is not final")
    assert not queries.list_objects("default", "r1", Ref.of("main")).final, "an answer of now never is"


@pytest.mark.thorough
def test_whether_an_answer_is_final_the_repositorys_own_partition_decides(tmp_path: Path) -> None:
    """Positions of other partitions bound it by their times alone, and other partitions do not keep it open."""
    names, topics = ("r1", "r2", "r3", "r4", "r5"), TopicNames()
    parts = {name: partition_of(record_key("default", str(repository_urn(name))), 2) for name in names}
    own = next(name for name in names if parts[name] != parts["r1"])
    fold = Fold(tmp_path, 2, topic=TOPIC, joined=("repositories",))
    events = [e.RepositoryCreated(repository_urn("r1"), "main", "s3://b"), e.RepositoryDeleted(repository_urn("r1"))]
    fold.batch([
        *(record_of(event, number, partition=parts["r1"]) for number, event in enumerate(events)),
        record_of(e.RepositoryCreated(repository_urn(own), "main", "s3://b"), 0, partition=parts[own]),
    ])  # fmt: skip
    queries = RepositoryQueries(Lake(str(tmp_path)), topics, {TOPIC: 2})
    at = Position(TOPIC, parts["r1"], position(1, 0))
    assert queries.repository("default", "r1", as_at=at).final
    assert not queries.repository("default", own, as_at=at).final
    assert not queries.repositories("default", as_at=at).final
    assert queries.repository("default", "r1", as_at=time_of(0)).final
