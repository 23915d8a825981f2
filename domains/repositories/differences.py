"""What two contents do not have alike.

Only paths can differ that a level has which the two do not share; where one comes from the other by a few plain
commits, only those that the commits staged. Each such path is compared at both ends, and read once in what they share.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from .answers import Difference, DiffPage, ObjectState
from .kept_layers import KeptLayers
from .layers import HIGHEST
from .levels import Level, LevelRows
from .moment import Moment

ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"
_AT_ONCE: Final = 16_384
"""Paths that are compared at once."""


class Differences:
    """Compares two contents.

    Args:
        moment: what is seen.
        left, right: the levels of each.
        kept: layers in memory.
        between: levels of which every path that differs is in one; None: those that the two do not share.
    """

    def __init__(
        self,
        moment: Moment,
        left: Sequence[Level],
        right: Sequence[Level],
        kept: KeptLayers,
        between: Sequence[Level] | None = None,
    ) -> None:
        shared = shared_levels(left, right)
        self._final = moment.bounds.final
        self._below = LevelRows(moment, left[:shared], kept)
        self._sides = [LevelRows(moment, side[shared:], kept) for side in (left, right)]
        own = [*left[shared:], *right[shared:]] if between is None else between
        self._own = LevelRows(moment, list(dict.fromkeys(own)))

    def page(self, *, prefix: str, after: str, limit: int) -> DiffPage:
        """Some of the paths that differ.

        Args:
            prefix: only paths that begin so.
            after: only paths behind this one.
            limit: most paths.
        """
        found: list[Difference] = []
        for paths in self._paths(prefix, after, limit):
            found += self._compared(paths, limit + 1 - len(found))
            if len(found) > limit:
                return DiffPage(tuple(found[:limit]), found[limit - 1].path, self._final)
        return DiffPage(tuple(found), None, self._final)

    def _paths(self, prefix: str, after: str, limit: int) -> Iterator[pl.Series]:
        """The paths that can differ, in their order, some at a time."""
        if not self._own.levels:
            return
        for _, window in self._own.windows(max(prefix, after), prefix + HIGHEST):
            wanted = pl.col("path") > after if after else pl.lit(True)
            named = window.filter(wanted & pl.col("path").str.starts_with(prefix))
            paths = named["path"].unique().sort()
            step = min(_AT_ONCE, max(1_024, 2 * limit))
            for start in range(0, len(paths), step):
                yield paths.slice(start, step)

    def _compared(self, paths: pl.Series, most: int) -> list[Difference]:
        """Those of some paths that differ: the first ones."""
        below = self._below.states(paths)
        left, right = (_there(below, side.states(paths)) for side in self._sides)
        both = left.join(right, on="path", how="full", coalesce=True, suffix="_right")
        differing = both.filter(pl.col("content").ne_missing(pl.col("content_right"))).sort("path").head(most)
        return [_told(*row) for row in differing.iter_rows()]


def _there(below: pl.DataFrame, over: pl.DataFrame) -> pl.DataFrame:
    """What is there at paths of which the levels below and those over them say something."""
    newest = pl.concat([below, over]).unique("path", keep="last", maintain_order=True)
    return newest.filter(~pl.col("deleted")).drop("deleted")


def _told(path: str, *states: Any) -> Difference:
    """A path with content and size on the left and on the right."""
    left, right = (
        None if content is None else ObjectState(size, content.hex()) for content, size in (states[:2], states[2:])
    )
    change = ADDED if left is None else REMOVED if right is None else CHANGED
    return Difference(path, change, left, right)


def shared_levels(left: Sequence[Level], right: Sequence[Level]) -> int:
    """How many of the lowest levels two contents share."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one[:3] != other[:3]:
            break
        count += 1
    return count
