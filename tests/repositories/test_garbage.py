"""What no live branch needs, against plain dictionaries: whatever lake, derived tables and newer rows hold of it."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories import partial
from metajournal.domains.repositories.garbage import GarbagePlan
from metajournal.domains.repositories.merging.staging import Reset, covered_up_to
from metajournal.domains.repositories.merging.sweep import Sweep
from metajournal.domains.repositories.urns import branch_urn, commit_urn
from metajournal.schemas.errors import UnknownEntityError
from metajournal.schemas.positions import offset_of, position
from tests.builders import NOON
from tests.properties import examples
from tests.repositories.operations import BRANCHES, entries, operations
from tests.repositories.plain_model import Refs
from tests.repositories.test_contents import REPO, Ahead, ahead_of, begun, made_until, queries_of
from tests.repositories.test_layers import Plain, rows

REPOSITORIES = ("r1", "r2")
PATHS = ["a", "a/", "a/b", "ab", "b", "ä", "\U0001f600"]


def time_of(number: int) -> int:
    """System time of the n-th event, milliseconds UTC."""
    return NOON + 1_000 * number


class Held(Plain):
    """A journal's repositories, with the blocks that were written and those that commits took."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, tuple[str, int]] = {}
        """Of each commit its repository and the number of its event."""
        self.taken: dict[str, set[str]] = {}
        self.named: dict[str, dict[str, int]] = defaultdict(dict)
        """Of each repository's blocks the last event that wrote them."""
        self.created: dict[str, int] = {}
        self.touched: dict[tuple[str, str], int] = {}
        self.areas: dict[tuple[str, str], dict[str, set[str]]] = {}

    def _apply(self, event: Any, branch: Any, before: dict[tuple[str, str], str]) -> None:
        super()._apply(event, branch, before)
        number, name = len(self.events) - 1, event.aggregate.name
        if isinstance(event, e.RepositoryCreated | e.RepositoryDeleted):
            self.areas = {key: area for key, area in self.areas.items() if key[0] != name}
            self.created[name] = number
        if branch is None:
            return
        key = name, branch.parts[1]
        self.touched[key] = number
        area = self.areas.setdefault(key, {})
        match event:
            case e.ObjectsWritten():
                for one in event.entries:
                    area[one.path] = {block.address for block in one.blocks} if one.blocks else {str(one.address)}
                    self.named[name] |= dict.fromkeys(area[one.path], number)
            case e.ObjectsDeleted():
                area.update({path: set() for path in event.paths})
            case e.BranchReset() if event.path is not None:
                area.pop(event.path, None)
            case e.BranchReset() if event.prefix is not None:
                self.areas[key] = {path: one for path, one in area.items() if not path.startswith(event.prefix)}
            case e.Committed() | e.Merged():
                head = self._heads()[key]
                self.made[head] = name, number
                self.taken[head] = set().union(*self.areas.pop(key).values())
            case _:
                self.areas.pop(key)

    def heads(self, name: str) -> dict[str, str]:
        return {branch: head for (repo, branch), head in self._heads().items() if repo == name}

    def reached(self, name: str) -> set[str]:
        found, waiting = set(), [head for head in self.heads(name).values() if head]
        while waiting:
            commit = waiting.pop()
            if commit not in found:
                found.add(commit)
                waiting += self.said[commit][0]
        return found

    def unused(self, name: str, before: int) -> list[tuple[str, int]]:
        """Blocks that are old and not held, with the times of their last writing."""
        held = set().union(*(self.taken[one] for one in self.reached(name)))
        staged = [area for (repo, branch), area in self.areas.items() if repo == name and branch in self.heads(name)]
        held |= set().union(*(blocks for area in staged for blocks in area.values()))
        return sorted(
            (block, time_of(last)) for block, last in self.named[name].items() if last < before and block not in held
        )


@st.composite
def accepted(draw: st.DrawFn, refs: Refs) -> Any:
    """An event that most often is accepted: of any event a few are, and what is staged seldom becomes a commit."""
    branches = refs.repositories["r1"].branches if "r1" in refs.repositories else {}
    if not branches:
        return draw(operations(refs))
    name = draw(st.sampled_from(sorted(branches)))
    branch, commits = branch_urn("r1", name), sorted(refs.repositories["r1"].commits)
    path = draw(st.sampled_from(PATHS[:4]))
    match draw(st.sampled_from("wwwwxpr" + "cc" + ("ovm" if commits else "o"))):
        case "w":
            some: list[e.Entry] = draw(st.lists(entries(), min_size=1, max_size=3, unique_by=lambda one: one.path))
            return e.ObjectsWritten(branch, some)
        case "x":
            return e.ObjectsDeleted(branch, [path])
        case "p":
            return e.BranchReset(branch, prefix=path)
        case "r":
            return e.BranchReset(branch, path=path)
        case "c":
            return e.Committed(branch, "", allow_empty=True)
        case "o":
            free = [one for one in BRANCHES if one not in branches] or ["more"]
            return e.BranchCreated(
                branch_urn("r1", free[0]), commit_urn("r1", draw(st.sampled_from(commits))) if commits else None
            )
        case "v":
            return e.BranchReverted(branch, commit_urn("r1", draw(st.sampled_from(commits))))
    others = sorted({*branches} - {name})
    if not others:
        return e.BranchReset(branch)
    other = draw(st.sampled_from(others))
    digest = branches[name].digest
    return e.Merged(
        branch_urn("r1", other), branch, branches[other].head, branches[name].head, "source-wins", "resolve", digest
    )


def relabelled(event: Any, labels: list[int]) -> Any:
    """An event whose blocks are some of few."""
    if not isinstance(event, e.ObjectsWritten):
        return event
    names = (f's3://b/{label}"ß\\' for label in labels)
    entries = [
        one._replace(blocks=tuple(block._replace(address=next(names)) for block in one.blocks))
        if one.blocks
        else one._replace(address=next(names))
        for one in event.entries
    ]
    return e.ObjectsWritten(event.branch, entries)


def assert_as_told(plan: GarbagePlan, plain: Held, name: str, before: int, uses: dict[str, int], pending: int) -> None:
    reached = plain.reached(name)
    own = {commit: number for commit, (repo, number) in plain.made.items() if repo == name}
    since = plain.created[name] if name in plain.refs.repositories else len(plain.events)
    unreached = [
        (commit, position(1, number), time_of(number), number < since)
        for commit, number in own.items()
        if commit not in reached
    ]
    assert [*plan.commits()] == unreached
    assert [*plan.addresses()] == plain.unused(name, before)
    old = [
        (branch, head or None, position(1, last := plain.touched[name, branch]), time_of(last))
        for branch, head in sorted(plain.heads(name).items())
        if branch.startswith("_tx/") and plain.touched[name, branch] < before
    ]
    assert plan.branches() == old
    assert {use.layer: use.commits for use in plan.layers()} == uses
    counts = plan.counts()
    assert (counts.commits, counts.unreached_commits) == (len(own), len(unreached))
    assert counts.earlier_commits == sum(earlier for *_, earlier in unreached)
    assert (counts.layers, counts.unreached_layers) == (len(uses), sum(not count for count in uses.values()))
    assert (counts.blocks, counts.unused_blocks) == (len(plain.named[name]), len(plain.unused(name, before)))
    assert (counts.branches, counts.old_transactions) == (len(plain.heads(name)), len(old))
    assert counts.pending_commits == pending


def of_repository(ahead: Ahead, name: str) -> Ahead:
    """A follower's rows of one repository: it is asked for one aggregate."""
    own = {table: [row for row in some if str(row.aggregate) == f"repo:{name}"] for table, some in ahead.rows.items()}
    return Ahead(ahead.begin, ahead.end, own)


@pytest.mark.thorough
@settings(max_examples=examples(24), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_nothing_needs_is_what_plain_dictionaries_say(data: st.DataObject) -> None:
    plain = Held()
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    for _ in range(data.draw(st.integers(2, 45))):
        labels = data.draw(st.lists(st.integers(0, 9), min_size=6, max_size=6))
        some = data.draw(st.sampled_from([accepted, accepted, operations]))
        plain.add(relabelled(data.draw(some(plain.refs)), labels))
    count = len(plain.events)
    in_lake = data.draw(st.integers(1, count))
    made = data.draw(st.integers(0, in_lake))
    before = data.draw(st.integers(0, count))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        fold = begun(one, plain.events, in_lake)
        made_until(fold, made)
        ahead = ahead_of(begun(other, plain.events, count), data.draw(st.integers(0, in_lake)), count)
        queries = queries_of(one)
        trees = rows(fold, "commit_trees") if made else []
        for name in REPOSITORIES:
            if name not in plain.created:
                with pytest.raises(UnknownEntityError):
                    queries.garbage("default", name, time_of(before), ahead=of_repository(ahead, name))
                continue
            reached = {plain.made[commit][1] for commit in plain.reached(name)}
            uses: dict[str, int] = defaultdict(int)
            for row in trees:
                for layer in row["layers"] if row["aggregate"] == f"repo:{name}" else ():
                    uses[layer] += offset_of(row["logical_timestamp"]) in reached
            pending = len(reached - {offset_of(row["logical_timestamp"]) for row in trees})
            plan = queries.garbage("default", name, time_of(before), ahead=of_repository(ahead, name))
            assert_as_told(plan, plain, name, before, uses, pending)


@pytest.mark.thorough
def test_all_commits_of_a_deleted_repository_are_of_an_earlier_one_also_those_that_the_lake_lacks() -> None:
    plain, main = Held(), branch_urn("r1", "main")
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    for message in ("one", "two"):
        plain.add(e.Committed(main, message, allow_empty=True))
    plain.add(e.RepositoryDeleted(REPO))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        begun(one, plain.events, 2)
        ahead = ahead_of(begun(other, plain.events, 4), 0, 4)
        plan = queries_of(one).garbage("default", "r1", time_of(0), ahead=of_repository(ahead, "r1"))
        assert [commit.earlier for commit in plan.commits()] == [True, True]
        assert plan.counts().earlier_commits == 2


@pytest.mark.thorough
def test_what_a_large_staging_area_has_made_ahead_is_needed_as_long_as_its_branch_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partial, "PARTIAL_ROWS", 2)
    plain, main, dev = Held(), branch_urn("r1", "main"), branch_urn("r1", "dev")
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    plain.add(e.BranchCreated(dev))
    for branch in (main, dev):
        plain.add(e.ObjectsWritten(branch, [e.Entry(path, 1, "c", f"s3://b/{path}") for path in ("a", "b", "c")]))
        plain.add(e.ObjectsWritten(branch, [e.Entry(path, 2, "c", f"s3://b/{path}") for path in ("a", "b")]))
    for event, needed in ((None, [1] * 4), (e.BranchReset(dev), [0, 0, 1, 1]), (e.Committed(main, "m"), [0, 0, 1, 1])):
        if event is not None:
            plain.add(event)
        count = len(plain.events)
        with tempfile.TemporaryDirectory() as folder:
            made_until(begun(folder, plain.events, count), count)
            plan = queries_of(folder).garbage("default", "r1", time_of(0))
            assert sorted(use.commits for use in plan.layers()) == needed
            assert (plan.counts().layers, plan.counts().unreached_layers) == (4, needed.count(0))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(PATHS), st.integers(0, 20)), unique_by=lambda row: row[:2]),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([*PATHS, "", "a/b"]), st.booleans(), st.integers(0, 20)),
             unique_by=lambda reset: reset[:3]),
)  # fmt: skip
def test_rows_in_passing_stand_where_those_of_a_whole_area_do(
    written: list[tuple[int, str, int]], resets: list[tuple[int, str, bool, int]]
) -> None:
    sweep, standing = Sweep(), set()
    kinds: list[tuple[int, str, int, int]] = [(area, path, 2, place) for area, path, place in written]
    kinds += [(area, path, not is_prefix, place) for area, path, is_prefix, place in resets]
    for area, path, kind, place in sorted(kinds):
        if kind == 2:
            if sweep.stands(area, path, place):
                standing.add((area, path))
        else:
            sweep.reset(area, path, not kind, place)
    expected = set()
    for area in range(3):
        own = sorted((path, place) for at, path, place in written if at == area)
        named = [Reset(path.encode(), is_prefix, place) for at, path, is_prefix, place in resets if at == area]
        up_to = covered_up_to([path.encode() for path, _ in own], named)
        expected |= {(area, path) for (path, place), last in zip(own, up_to, strict=True) if place > last}
    assert standing == expected
