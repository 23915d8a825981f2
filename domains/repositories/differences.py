"""What two contents do not have alike.

Only paths can differ that a level has which the two do not share, or that a commit changed between them and the commit
that both come from. Whichever of the two has fewer rows is taken; each such path is compared at both ends.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from .answers import Difference, DiffPage
from .layers import HIGHEST
from .levels import Level, LevelRows
from .listing import infos_of
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
        between: levels of which every path that differs is in one; None: those that the two do not share.
    """

    def __init__(
        self, moment: Moment, left: Sequence[Level], right: Sequence[Level], between: Sequence[Level] | None = None
    ) -> None:
        self._left, self._right = LevelRows(moment, left), LevelRows(moment, right)
        shared = shared_levels(left, right)
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
                return DiffPage(tuple(found[:limit]), found[limit - 1].path)
        return DiffPage(tuple(found), None)

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
        left, right = (side.at(paths, ["content"]).filter(~pl.col("deleted")) for side in (self._left, self._right))
        both = left.select("path", left="content").join(
            right.select("path", right="content"), on="path", how="full", coalesce=True
        )
        differing = both.filter(pl.col("left").ne_missing(pl.col("right"))).sort("path")["path"].head(most)
        of_left, of_right = (
            {info.path: info for info in infos_of(side, rows.filter(pl.col("path").is_in(differing.implode())))}
            for side, rows in ((self._left, left), (self._right, right))
        )
        told = []
        for path in differing:
            one, other = of_left.get(path), of_right.get(path)
            change = ADDED if one is None else REMOVED if other is None else CHANGED
            told.append(Difference(path, change, one, other))
        return told


def shared_levels(left: Sequence[Level], right: Sequence[Level]) -> int:
    """How many of the lowest levels two contents share."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
