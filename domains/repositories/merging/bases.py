"""The merge bases of commits, as git defines them: the common ancestors that are no ancestor of another one.

Commits are numbers in the order of their positions, so a parent's is always lower than its child's: whatever is looked
at, all that descends from it was looked at before. Source: the manual of git-merge-base.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final, Protocol

from ..events import NO_STRATEGY
from .paths import CONFLICT, DESTINATION, decided

MAX_BASES: Final = 32
MAX_LEVELS: Final = 8
"""Beyond these the newest base alone counts, so that no history can stop who merges."""

_LEFT, _RIGHT, _STALE = 1, 2, 4
_BOTH: Final = _LEFT | _RIGHT
NO_PARENT: Final = -1


class Graph(Protocol):
    """The parents of each commit, by number: a list of tuples, or `ParentColumns`."""

    def __getitem__(self, commit: int, /) -> Iterable[int]:
        """The parents of a commit, of a merge the destination's first; none of the first commit of a history."""
        ...


class NumberColumn(Protocol):
    """A column of whole numbers: an `array`, or a `memoryview` of any other column's memory; both give plain ones."""

    def __getitem__(self, row: int, /) -> int:
        """The number in a row."""
        ...


@dataclass(frozen=True, slots=True)
class ParentColumns:
    """A graph in two columns, 16 bytes a commit.

    Attributes:
        first, second: for each commit the number of its first and second parent; NO_PARENT where it has none.
    """

    first: NumberColumn
    second: NumberColumn

    def __getitem__(self, commit: int, /) -> Iterable[int]:
        first, second = self.first[commit], self.second[commit]
        if first == NO_PARENT:
            return ()
        return (first,) if second == NO_PARENT else (first, second)


def merge_bases(parents: Graph, left: Iterable[int], right: Iterable[int]) -> list[int]:
    """The best common ancestors of two commits; one of a side counts as its own ancestor.

    Args:
        parents: of each commit.
        left, right: a commit; of a virtual one the commits that it is made of.
    Returns:
        Their numbers, the newest first; none where the histories have nothing in common.
    """
    marks = dict.fromkeys(left, _LEFT)
    for one in right:
        marks[one] = marks.get(one, 0) | _RIGHT
    waiting = [-one for one in marks]
    heapify(waiting)
    fresh = len(waiting)  # of those that wait, the ones that are no ancestor of a base that was found
    bases = []
    while fresh:
        commit = -heappop(waiting)
        mark = marks.pop(commit)
        if not mark & _STALE:
            fresh -= 1
            if mark == _BOTH:
                bases.append(commit)
                mark |= _STALE
        for parent in parents[commit]:
            held = marks.get(parent)
            if held is None:
                heappush(waiting, -parent)
                marks[parent] = mark
                fresh += not mark & _STALE
            else:
                marks[parent] = held | mark
                fresh -= bool(mark & _STALE and not held & _STALE)
    return bases


@dataclass(frozen=True, slots=True)
class Virtual:
    """The merge of two bases, which is no commit.

    Attributes:
        left, right: what is merged, the left one with all merged before.
        base: theirs; None for the empty tree.
    """

    left: Base
    right: int
    base: Base | None

    @property
    def commits(self) -> frozenset[int]:
        """The commits that it is made of."""
        left = self.left.commits if isinstance(self.left, Virtual) else frozenset((self.left,))
        return left | {self.right}


Base = Virtual | int


@dataclass(slots=True)
class _Budget:
    """Merges that are left on each level: without it a history of many bases on every level would never end."""

    left: list[int] = field(default_factory=lambda: [MAX_BASES] * MAX_LEVELS)

    def takes(self, level: int, bases: int) -> bool:
        """Whether bases of a level may be merged; that they are is noted."""
        if bases > MAX_BASES or level >= MAX_LEVELS or bases - 1 > self.left[level]:
            return False
        self.left[level] -= bases - 1
        return True


def base_of(parents: Graph, ids: Sequence[str], left: int, right: int) -> Base | None:
    """What two commits are merged against: their base, several merged into one, or None for the empty tree.

    Args:
        ids: of each commit; bases are merged in their order.
    """
    return _base(parents, ids, {left}, {right}, 0, _Budget())


def _base(
    parents: Graph, ids: Sequence[str], left: Collection[int], right: Collection[int], level: int, budget: _Budget
) -> Base | None:
    bases = merge_bases(parents, left, right)
    if not bases:
        return None
    if len(bases) == 1 or not budget.takes(level, len(bases)):
        return bases[0]
    first, *others = sorted(bases, key=lambda one: ids[one])
    merged: Base = first
    for other in others:
        made_of = merged.commits if isinstance(merged, Virtual) else {merged}
        merged = Virtual(merged, other, _base(parents, ids, made_of, {other}, level + 1, budget))
    return merged


def content_at(base: Base | None, contents: Any) -> Any:
    """What a path is at a base.

    Args:
        contents: the path's content at a commit, by the commit's number; None where it is not there.
    Returns:
        The content, None, or CONFLICT.
    """
    if base is None:
        return None
    if not isinstance(base, Virtual):
        return contents[base]
    left, right = content_at(base.left, contents), contents[base.right]
    side, conflict = decided(content_at(base.base, contents), left, right, NO_STRATEGY)
    if conflict:
        return CONFLICT
    return left if side == DESTINATION else right
