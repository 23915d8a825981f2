"""The steps of any history make each of its commits on its parents, and leave the branches where git has them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from metajournal.domains.repositories.git_history.objects import Node
from metajournal.domains.repositories.git_history.plan import (
    RENAMED,
    WORKING,
    BranchGone,
    BranchMade,
    BranchMoved,
    CommitMade,
    MergeMade,
    Step,
    lines_of,
    names_of,
    octopuses,
    plan,
)
from metajournal.domains.repositories.urns import branch_fault
from tests.properties import examples


@st.composite
def graphs(draw: st.DrawFn, most: int = 25) -> list[Node]:
    """Commits of up to two parents, each after these."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, most))):
        earlier = [node.id for node in nodes]
        some = st.lists(st.sampled_from(earlier), max_size=2, unique=True) if earlier else st.just([])
        nodes.append(Node(f"{number:040x}", tuple(draw(some))))
    return nodes


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Node], dict[str, str]]:
    """A graph and branches that have all of it."""
    nodes = draw(graphs())
    names = draw(st.lists(st.sampled_from(["main", "dev", "a/b", "c"]), min_size=1, max_size=4, unique=True))
    tips = {name: draw(st.sampled_from(nodes)).id for name in names}
    return reachable(nodes, tips.values()), tips


def reachable(nodes: list[Node], tips: Iterable[str]) -> list[Node]:
    """Those that some descend from."""
    wanted = {*tips}
    for node in reversed(nodes):
        if node.id in wanted:
            wanted |= {*node.parents}
    return [node for node in nodes if node.id in wanted]


class Model:
    """Branches and commits, changed step by step; what cannot be done fails."""

    def __init__(self, default: str) -> None:
        self.heads: dict[str, str | None] = {default: None}
        self.default = default
        self.made: list[str] = []

    def take(self, step: Step) -> None:
        match step:
            case BranchMade(branch, at):
                assert branch not in self.heads
                assert at is None or at in self.made
                assert branch_fault(branch) is None
                self.heads[branch] = at
            case BranchMoved(branch, at):
                assert at in self.made
                assert self.heads[branch] != at
                self.heads[branch] = at
            case BranchGone(branch):
                assert branch != self.default
                del self.heads[branch]
            case CommitMade(branch, commit):
                assert commit.id not in self.made
                assert self.heads[branch] == (commit.parents[0] if commit.parents else None)
                self.heads[branch] = commit.id
                self.made.append(commit.id)
            case MergeMade(branch, source, commit):
                assert commit.id not in self.made
                assert branch != source
                assert (self.heads[branch], self.heads[source]) == commit.parents
                self.heads[branch] = commit.id
                self.made.append(commit.id)


@pytest.mark.thorough
@tried(deadline=None, max_examples=examples(300))
@given(histories())
def test_each_commit_is_made_once_on_its_parents_and_branches_end_where_git_has_them(
    history: tuple[list[Node], dict[str, str]],
) -> None:
    nodes, tips = history
    model = Model(next(iter(tips)))
    for step in plan(nodes, tips, set(), model.heads):
        model.take(step)
    assert model.made == [node.id for node in nodes]
    assert model.heads == tips


@pytest.mark.thorough
@tried(deadline=None, max_examples=examples(300))
@given(histories(), st.data())
def test_a_plan_that_ends_anywhere_is_gone_on_with_from_what_is_there(
    history: tuple[list[Node], dict[str, str]], data: st.DataObject
) -> None:
    nodes, tips = history
    model = Model(next(iter(tips)))
    for _ in range(4):
        steps = [*plan(nodes, tips, {*model.made}, dict(model.heads))]
        for step in steps[: data.draw(st.integers(0, len(steps)))]:
            model.take(step)
    for step in plan(nodes, tips, {*model.made}, dict(model.heads)):
        model.take(step)
    assert sorted(model.made) == [node.id for node in nodes]
    assert model.heads == tips


@pytest.mark.thorough
@tried(deadline=None, max_examples=examples(300))
@given(graphs(), st.data())
def test_branches_that_git_has_moved_since_are_moved(nodes: list[Node], data: st.DataObject) -> None:
    """Also back, aside and to another beginning; those that git has no more stay where they are."""
    model = Model("main")
    expected: dict[str, str] = {}
    for _ in range(3):
        others = data.draw(st.lists(st.sampled_from(["dev", "a/b"]), unique=True))
        tips = {name: data.draw(st.sampled_from(nodes)).id for name in ["main", *others]}
        expected |= tips
        for step in plan(reachable(nodes, tips.values()), tips, {*model.made}, dict(model.heads)):
            model.take(step)
        assert model.heads == expected


@given(graphs(), st.data())
def test_the_first_branch_has_its_first_parents_as_its_line(nodes: list[Node], data: st.DataObject) -> None:
    tip: str | None = data.draw(st.sampled_from(nodes)).id
    parents = {node.id: node.parents for node in nodes}
    lines = lines_of(reachable(nodes, [str(tip)]), {"main": str(tip)})
    while tip is not None:
        assert lines[tip] == "main"
        tip = next(iter(parents[tip]), None)


def test_a_line_of_no_branch_is_made_once_and_goes_after_its_merge() -> None:
    nodes = [Node("a", ()), Node("b", ("a",)), Node("c", ("b",)), Node("d", ("a",)), Node("e", ("d", "c"))]
    side = WORKING + "c"
    assert [*plan(nodes, {"main": "e"}, set(), {"main": None})] == [
        CommitMade("main", nodes[0]),
        BranchMade(side, "a"),
        CommitMade(side, nodes[1]),
        CommitMade(side, nodes[2]),
        CommitMade("main", nodes[3]),
        MergeMade("main", side, nodes[4]),
        BranchGone(side),
    ]


@pytest.mark.parametrize("name", ["ünïcode", "a@b", "-x", ".hidden", "_tx/1", "_git/abc", "_git-branch/x", "x" * 256])
def test_a_branch_that_ours_cannot_be_called_has_a_name_that_it_can(name: str) -> None:
    ours = names_of([name, "main"])
    assert ours["main"] == "main"
    assert ours[name].startswith(RENAMED)
    assert branch_fault(ours[name]) is None


def test_commits_of_more_parents_are_named() -> None:
    nodes = [Node("a", ()), Node("b", ()), Node("c", ()), Node("d", ("a", "b")), Node("e", ("a", "b", "c"))]
    assert octopuses(nodes) == [nodes[4]]
