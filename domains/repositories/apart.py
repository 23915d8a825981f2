"""Whether the merge of two commits can meet a conflict, told by the rows of their events alone: most often it cannot.

What a commit changes lies within the paths of its staging area, and what a merge brings from its source within those of
the commits that its source has and its destination lacks, as long as that is one line of plain commits. So where two
such sides have no path in common, none can be in conflict; where they have, only contents tell. Where histories cross
in any other way, nothing is said here. Pure: rows in, an answer out.

Ours are the commits of the source's line of first parents down to the newest one that the destination has, which is the
only merge base then; theirs those that the destination has beyond it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from ...schemas.urn import Urn
from .answers import Conflict
from .rows import CommitRow, ObjectRow


class Outlook(NamedTuple):
    """What the merge of one commit into another one meets.

    Attributes:
        contained: the destination descends from the source.
        unrelated: they have no common ancestor.
        conflicts: paths that both have changed since, and differently.
        conflicting: the first of them, by path.
    """

    contained: bool = False
    unrelated: bool = False
    conflicts: int = 0
    conflicting: tuple[Conflict, ...] = ()


class _UnknownError(Exception):
    """The rows do not tell it: contents have to."""


def outlook_of_rows(rows: Mapping[str, Sequence[Any]], begin: int, source: str, destination: str) -> Outlook | None:
    """What a merge meets, as far as the newest rows of a repository tell it.

    Args:
        rows: those of `commits` and `objects`, as a follower keeps them.
        begin: the position from which on they are complete.
        source, destination: ids of commits.
    Returns:
        What it meets; None where the rows do not tell.
    """
    history = _History(rows.get("commits", ()))
    ours, theirs = history.line(source), history.line(destination)
    unrelated = ours.keys().isdisjoint(theirs)
    if unrelated and not (history.is_whole(ours) and history.is_whole(theirs)):
        return None
    try:
        there = dict.fromkeys(history.brought(_until(theirs, ours), theirs, {}))
        known = theirs | there
        if source in known:
            return Outlook(contained=True)
        brought = history.brought(_until(ours, known), ours, known)
        areas = [history.areas(side, begin) for side in (brought, [one for one in there if one not in ours])]
    except _UnknownError:
        return None
    if all(areas) and _have_common_path(rows.get("objects", ()), *areas):
        return None
    return Outlook(unrelated=unrelated)


def _until(line: Iterable[str], ends: Container[str]) -> Iterator[str]:
    """The commits of a line above some of it."""
    return takewhile(lambda commit: commit not in ends, line)


class _History:
    """The commits that rows tell of."""

    def __init__(self, rows: Iterable[CommitRow]) -> None:
        self._rows = {Urn.parse(row.commit).parts[1]: row for row in rows}

    def line(self, commit: str) -> dict[str, None]:
        """A commit and its first parents, as far as they are known, and the one behind these; in that order."""
        line = {commit: None}
        while (row := self._rows.get(commit)) is not None and row.parents:
            commit = row.parents[0]
            line[commit] = None
        return line

    def is_whole(self, line: Iterable[str]) -> bool:
        """Whether a line of first parents is known down to a commit without any."""
        *_, last = line
        return last in self._rows

    def brought(self, head: Iterable[str], line: Container[str], foreign: Container[str]) -> Iterator[str]:
        """The commits with which a line of first parents begins, and those that merges among them brought.

        Args:
            line: all of that line, as far as it is known.
            foreign: commits that must not be among these.
        Raises:
            _UnknownError: some are; or a merge brought more than a line of plain commits.
        """
        for commit in head:
            yield commit
            sources = self._rows[commit].parents[1:]
            for source in sources:
                yield from self._plain(source, line, foreign)

    def _plain(self, source: str, line: Container[str], foreign: Container[str]) -> Iterator[str]:
        """A line of plain commits, down to the one where it left another line."""
        while source not in line:
            row = self._rows.get(source)
            if row is None or len(row.parents) != 1 or source in foreign:
                raise _UnknownError
            yield source
            (source,) = row.parents

    def areas(self, commits: Iterable[str], begin: int) -> set[int]:
        """The staging areas that commits take. Raises: _UnknownError: the rows of one are not complete."""
        areas = {area for commit in commits if (area := self._rows[commit].staging) is not None}
        if any(area < begin for area in areas):
            raise _UnknownError
        return areas


def _have_common_path(rows: Iterable[ObjectRow], ours: set[int], theirs: set[int]) -> bool:
    """Whether a path stands in an area of both."""
    paths: dict[str, int] = {}
    sides = {**dict.fromkeys(ours, 1), **dict.fromkeys(theirs, 2)}
    for row in rows:
        side = sides.get(row.staging)
        if side is not None and paths.setdefault(row.path, side) != side:
            return True
    return False
