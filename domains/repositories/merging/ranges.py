"""The merge of all paths of two commits, one range of paths after another.

Each commit is read as sorted ranges that end wherever its reader ended them. They are aligned: of each commit one range
is in memory, so memory follows the ranges and not the merge. `paths.decided` says what becomes of one path; here the
same is said of whole columns, and a property compares the two. Where contents are read from is left to the caller.

Paths are texts: Python compares them by code points, which is the order of their UTF-8 bytes.
Source: docs/concepts.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ..events import SOURCE_WINS
from .bases import Base, Virtual
from .paths import CONFLICT, Conflicting

Content = bytes | None
"""What a path is at a commit, as `rows.content_of` gives it; None where it is not there."""
BaseContent = Content | Conflicting
"""What a path is at a base, which may be a virtual one."""


class SortedRange(NamedTuple):
    """Some paths of one commit.

    Attributes:
        paths: sorted, each once, all after those of the commit's range before.
        contents: of each path.
    """

    paths: Sequence[str]
    contents: Sequence[Content]


class AlignedRange(NamedTuple):
    """The same paths of several commits.

    Attributes:
        paths: those that any of the commits has in this range; sorted, each once.
        columns: for each commit the contents of all these paths.
    """

    paths: list[str]
    columns: list[list[Content]]


class PathConflict(NamedTuple):
    """A path that both sides changed, and differently.

    Attributes:
        base: content at the base; None where it is not there, CONFLICT where the bases themselves conflict.
        destination, source: contents there; None where it is not there.
    """

    path: str
    base: BaseContent
    destination: Content
    source: Content


class MergedRange(NamedTuple):
    """What a merge changes at its destination, in a range of paths.

    Attributes:
        paths: those that become what they are at the source; sorted, each once.
        contents: their contents there; None where the merge deletes the path.
        conflicts: by path; also those that the strategy decided.
    """

    paths: list[str]
    contents: list[Content]
    conflicts: list[PathConflict]


def merged(
    read: Callable[[int], Iterable[SortedRange]], base: Base | None, destination: int, source: int, strategy: str
) -> Iterator[MergedRange]:
    """Merge a commit into another one.

    Args:
        read: gives the ranges of a commit, by its number. Paths that all of these commits have alike may be omitted,
            but only from all of them: what one omits counts as missing there.
        base: as of `bases.base_of`; None for the empty tree.
        strategy: none (of a conflict the destination's value stays), source-wins, dest-wins.
    Yields:
        Ranges in the order of paths, also those where nothing changes.
    Raises:
        ValueError: a commit's ranges are not in the order of paths.
    """
    commits = sorted({destination, source, *commits_of(base)})
    for paths, columns in aligned([read(commit) for commit in commits]):
        contents = dict(zip(commits, columns, strict=True))
        at_base = contents_at(base, contents, len(paths))
        yield _merged(paths, at_base, contents[destination], contents[source], strategy)


def commits_of(base: Base | None) -> set[int]:
    """The commits whose contents say what a base is: of a virtual one also those of its own bases."""
    if not isinstance(base, Virtual):
        return set() if base is None else {base}
    return commits_of(base.left) | {base.right} | commits_of(base.base)


def contents_at(base: Base | None, contents: Mapping[int, Sequence[Content]], number: int) -> Sequence[BaseContent]:
    """What each path is at a base: `bases.content_at` of columns.

    Args:
        contents: for each of `commits_of(base)` the contents of all paths.
        number: of paths.
    """
    if base is None:
        return [None] * number
    if not isinstance(base, Virtual):
        return contents[base]
    left, right = contents_at(base.left, contents, number), contents[base.right]
    below = contents_at(base.base, contents, number)
    return [
        one if one == other or other == before else other if one == before else CONFLICT
        for one, other, before in zip(left, right, below, strict=True)
    ]


def aligned(commits: Sequence[Iterable[SortedRange]]) -> Iterator[AlignedRange]:
    """Bring the ranges of several commits to common ends.

    Args:
        commits: of each its ranges, in the order of paths; empty ones are allowed.
    Yields:
        Ranges in the order of paths that hold every path of every commit once; none is empty.
    Raises:
        ValueError: a range begins before the end of the one before it.
    """
    readers = [_Reader(ranges) for ranges in commits]
    while ends := [reader.paths[-1] for reader in readers if reader.fill()]:
        taken = [reader.take(min(ends)) for reader in readers]
        paths = _union([part.paths for part in taken])
        yield AlignedRange(paths, [_column(part, paths) for part in taken])


class _Reader:
    """One commit's ranges: the present one, and how far it has been taken."""

    __slots__ = ("_contents", "_ranges", "_start", "paths")

    def __init__(self, ranges: Iterable[SortedRange]) -> None:
        self._ranges = iter(ranges)
        self._start = 0
        self.paths: Sequence[str] = ()
        self._contents: Sequence[Content] = ()

    def fill(self) -> bool:
        """Whether anything is left; the next range is read where the present one has been taken."""
        while self._start == len(self.paths):
            following = next(self._ranges, None)
            if following is None:
                return False
            if following.paths:
                self._begin(following)
        return True

    def take(self, end: str) -> SortedRange:
        """What is left of the present range up to a path, that one included."""
        start = self._start
        self._start = bisect_right(self.paths, end, start)
        return SortedRange(self.paths[start : self._start], self._contents[start : self._start])

    def _begin(self, following: SortedRange) -> None:
        if self.paths and following.paths[0] <= self.paths[-1]:
            raise ValueError(f"a range begins at {following.paths[0]!r}, the one before ends at {self.paths[-1]!r}")
        self.paths, self._contents = following
        self._start = 0


def _union(parts: Sequence[Sequence[str]]) -> list[str]:
    """All paths of some sorted parts, sorted, each once; most often the parts are alike."""
    first = [*parts[0]]
    if all(part == first for part in map(list, parts[1:])):
        return first
    return list(dict.fromkeys(sorted(chain.from_iterable(parts))))


def _column(part: SortedRange, paths: list[str]) -> list[Content]:
    """The contents of some paths; a part of as many paths has exactly these."""
    if len(part.paths) == len(paths):
        return [*part.contents]
    return [*map(dict(zip(part.paths, part.contents, strict=True)).get, paths)]


def _merged(
    paths: list[str], base: Sequence[BaseContent], destination: list[Content], source: list[Content], strategy: str
) -> MergedRange:
    """`paths.decided` of columns: what the source has not changed stays, as does what both have alike."""
    sides = zip(base, destination, source, strict=True)
    changed = [row for row, (before, held, given) in enumerate(sides) if given != held and given != before]
    conflicting = [row for row in changed if destination[row] != base[row]]
    lost = set() if strategy == SOURCE_WINS else set(conflicting)
    won = [row for row in changed if row not in lost]
    conflicts = [PathConflict(paths[row], base[row], destination[row], source[row]) for row in conflicting]
    return MergedRange([paths[row] for row in won], [source[row] for row in won], conflicts)
