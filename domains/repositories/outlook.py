"""What the merge of one commit into another one meets, as the lake and the rows that it lacks tell it.

As the derived tables will say once the merge is made: the same bases, the same comparison of paths. Only paths of
layers that the commits do not share are read, some at a time. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from ...schemas.errors import UnknownEntityError
from .answers import Conflict
from .apart import Outlook
from .contents import Area, Contents
from .errors import MOST_CONFLICTS
from .events import NO_STRATEGY
from .graph import Graph
from .layers import HIGHEST
from .levels import Level, LevelRows
from .merging.bases import base_of, merge_bases
from .merging.paths import Conflicting
from .merging.ranges import BaseContent, PathConflict, SortedRange, commits_of, merged
from .moment import Moment

_AT_ONCE: Final = 16_384
"""Paths that are compared at once."""
_NO_CONTENT: Final = "conflict"


class Outlooks:
    """Looks at merges of a repository.

    Args:
        moment: what is seen.
        graph: its commits.
        contents: what they contain.
    """

    def __init__(self, moment: Moment, graph: Graph, contents: Contents) -> None:
        self._moment = moment
        self._graph = graph
        self._contents = contents

    def of(self, source: str, destination: str, resolved: Area | None) -> Outlook:
        """What a merge meets.

        Args:
            source, destination: ids of commits.
            resolved: a staging area whose paths are laid over the result: they are in no conflict.
        Raises:
            UnknownEntityError: there is no such commit.
            NotYetVisibleError: what one of the commits contains is not known yet.
        """
        into, taken = self._number(destination), self._number(source)
        bases = merge_bases(self._graph.parents, [into], [taken])
        if taken in bases:
            return Outlook(contained=True)
        if into in bases:
            return Outlook()
        number = 0
        shown: list[PathConflict] = []
        for conflicts in self._conflicts(into, taken):
            standing = self._without(conflicts, resolved)
            number += len(standing)
            shown += standing[: MOST_CONFLICTS - len(shown)]
        return Outlook(False, not bases, number, tuple(map(_told, shown)))

    def _number(self, commit: str) -> int:
        number = self._graph.number_of(commit)
        if number is None:
            raise UnknownEntityError(commit, f"{self._moment.repo} has no commit {commit}.")
        return number

    def _conflicts(self, into: int, taken: int) -> Iterator[Sequence[PathConflict]]:
        """The conflicts by ranges of paths."""
        base = base_of(self._graph.parents, self._graph.ids, into, taken)
        sides = sorted({into, taken, *commits_of(base)})
        levels = {one: self._contents.levels(self._graph.id_of(one), None) for one in sides}
        own = [level for found in levels.values() for level in found[_shared(levels) :]]
        contents = {one: LevelRows(self._moment, found) for one, found in levels.items()}
        for paths in self._paths(list(dict.fromkeys(own))):
            named = paths.to_list()
            ranges = {one: [SortedRange(named, _at(rows, paths))] for one, rows in contents.items()}
            for part in merged(ranges.__getitem__, base, into, taken, NO_STRATEGY):
                yield part.conflicts

    def _paths(self, levels: Sequence[Level]) -> Iterator[pl.Series]:
        """The paths that some levels have, sorted, some at a time."""
        if levels:
            for _, window in LevelRows(self._moment, levels).windows("", HIGHEST):
                paths = window["path"].unique().sort()
                for start in range(0, len(paths), _AT_ONCE):
                    yield paths.slice(start, _AT_ONCE)

    def _without(self, conflicts: Sequence[PathConflict], resolved: Area | None) -> Sequence[PathConflict]:
        """The conflicts whose paths are not staged in an area."""
        if not conflicts or resolved is None:
            return conflicts
        paths = pl.Series("path", [conflict.path for conflict in conflicts])
        staged = LevelRows(self._moment, self._contents.levels(None, resolved)).at(paths, [])
        named = {*staged["path"]}
        return [conflict for conflict in conflicts if conflict.path not in named]


def _shared(levels: Mapping[int, Sequence[Level]]) -> int:
    """How many of the lowest levels all contents share."""
    first, *others = levels.values()
    count = 0
    while count < len(first) and all(count < len(one) and one[count] == first[count] for one in others):
        count += 1
    return count


def _at(rows: LevelRows, paths: pl.Series) -> list[bytes | None]:
    """What a content has at some paths."""
    there = rows.at(paths, ["content"]).filter(~pl.col("deleted"))
    by_path = dict(zip(there["path"].to_list(), there["content"].to_list(), strict=True))
    return [by_path.get(path) for path in paths.to_list()]


def _told(conflict: PathConflict) -> Conflict:
    return Conflict(conflict.path, *map(_content, conflict[1:]))


def _content(content: BaseContent) -> str | None:
    if content is None:
        return None
    return _NO_CONTENT if isinstance(content, Conflicting) else content.hex()
