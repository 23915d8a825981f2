"""On which branches the commits of a git history are made, and in which order: pure.

A commit is made on a branch that is at its first parent. So the graph is cut into lines, each the first parents of a
tip: those of git's branches, the first one first, then for each merge those of what it takes that no earlier line has.
A line is a branch of the repository: git's, or else `_git/<commit>`, which goes once no merge needs it. The same graph
gives the same lines wherever an import begins.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from ..urns import TRANSACTION, branch_fault
from .objects import Node

WORKING: Final = "_git/"
"""How branches begin that an import needs and git does not have."""
RENAMED: Final = "_git-branch/"
"""How branches begin that git has under a name that ours cannot have."""
Heads: TypeAlias = "dict[str, str | None]"
"""The commit (git's id) that each branch is at; None where it has none."""


class BranchMade(NamedTuple):
    """A branch begins at a commit, or at none."""

    branch: str
    at: str | None


class BranchMoved(NamedTuple):
    """A branch is set to another commit."""

    branch: str
    at: str


class BranchGone(NamedTuple):
    """A branch that nothing needs any more is deleted."""

    branch: str


class CommitMade(NamedTuple):
    """A commit is made on the branch that is at its parent."""

    branch: str
    commit: Node


class MergeMade(NamedTuple):
    """A commit of two parents is made on the branch that is at the first one, from the one at the second."""

    branch: str
    source: str
    commit: Node


Step: TypeAlias = BranchMade | BranchMoved | BranchGone | CommitMade | MergeMade


def names_of(branches: Sequence[str]) -> dict[str, str]:
    """Our name of each of git's branches: the same, or one of a digest where ours cannot have it."""
    return {name: name if _allowed(name) else RENAMED + _digest(name) for name in branches}


def _allowed(name: str) -> bool:
    return branch_fault(name) is None and not name.startswith((TRANSACTION, WORKING, RENAMED))


def _digest(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def octopuses(graph: Sequence[Node]) -> list[Node]:
    """The commits of more than two parents, which no merge of ours makes."""
    return [node for node in graph if len(node.parents) > 2]


def with_octopuses(graph: Sequence[Node]) -> set[str]:
    """The commits that have one of more than two parents in their history, themselves included.

    Args:
        graph: commits, each after its parents.
    """
    found: set[str] = set()
    for node in graph:
        if len(node.parents) > 2 or not found.isdisjoint(node.parents):
            found.add(node.id)
    return found


def lines_of(graph: Sequence[Node], tips: Mapping[str, str]) -> dict[str, str]:
    """The branch on which each commit is made.

    Args:
        graph: commits, each after its parents, and two of these at most.
        tips: the commit of each branch, by our name; those named first have the longer lines.
    """
    parents = {node.id: node.parents for node in graph}
    lines: dict[str, str] = {}
    for branch, tip in tips.items():
        _take(lines, parents, branch, tip)
    for node in reversed(graph):
        for source in node.parents[1:]:
            _take(lines, parents, WORKING + source, source)
    return lines


def _take(lines: dict[str, str], parents: Mapping[str, Sequence[str]], branch: str, tip: str) -> None:
    """A line of a tip and its first parents, down to where another line is."""
    commit: str | None = tip
    while commit is not None and commit not in lines:
        lines[commit] = branch
        commit = next(iter(parents[commit]), None)


def plan(
    graph: Sequence[Node], tips: Mapping[str, str], done: Container[str], heads: Mapping[str, str | None]
) -> Iterator[Step]:
    """The steps that make what is missing of a history.

    Args:
        graph, tips: as of `lines_of`.
        done: the commits that the repository has.
        heads: its branches now, with the commits that they are at. Of these only tips and lines are touched.
    """
    return _Planning(graph, tips, done, heads).steps()


class _Planning:
    """The branches as the steps so far leave them."""

    def __init__(
        self,
        graph: Sequence[Node],
        tips: Mapping[str, str],
        done: Container[str],
        heads: Mapping[str, str | None],
    ) -> None:
        self._tips = tips
        self._pending = [node for node in graph if node.id not in done]
        self._lines = lines_of(graph, tips)
        self._heads: Heads = {**heads}
        self._last_use = {
            source: number for number, node in enumerate(self._pending) for source in node.parents[1:]
        }  # fmt: skip

    def steps(self) -> Iterator[Step]:
        """All of them."""
        for number, node in enumerate(self._pending):
            yield from self._made(node)
            for parent in node.parents[1:]:
                if self._last_use[parent] == number:
                    yield from self._gone(WORKING + parent)
        for branch, commit in self._tips.items():
            yield from self._at(branch, commit)
        for branch in [name for name in self._heads if name.startswith(WORKING) and name not in self._tips]:
            yield from self._gone(branch)

    def _made(self, node: Node) -> Iterator[Step]:
        """A commit, and before it what it needs."""
        if not node.parents:
            yield from self._root(node)
            return
        branch = self._lines[node.id]
        yield from self._at(branch, node.parents[0])
        if len(node.parents) == 1:
            yield CommitMade(branch, node)
        else:
            (taken,) = node.parents[1:]
            source = self._lines[taken]
            if source == branch or self._heads.get(source) != taken:
                source = WORKING + taken
                yield from self._at(source, taken)
            yield MergeMade(branch, source, node)
        self._heads[branch] = node.id

    def _root(self, node: Node) -> Iterator[Step]:
        """A commit without parent, on a branch without commit; where its line has one, on another branch."""
        branch = self._lines[node.id]
        aside = self._heads.get(branch) is not None
        if aside:
            branch = WORKING + node.id
            yield from self._gone(branch)
        if branch not in self._heads:
            yield BranchMade(branch, None)
        yield CommitMade(branch, node)
        self._heads[branch] = node.id
        if aside and branch not in self._tips:
            yield from self._gone(branch)

    def _at(self, branch: str, commit: str) -> Iterator[Step]:
        """A branch is at a commit."""
        if branch not in self._heads:
            yield BranchMade(branch, commit)
        elif self._heads[branch] != commit:
            yield BranchMoved(branch, commit)
        self._heads[branch] = commit

    def _gone(self, branch: str) -> Iterator[Step]:
        """A working branch goes, where there is one of that name that is none of git's."""
        if branch in self._heads and branch not in self._tips:
            yield BranchGone(branch)
            del self._heads[branch]
