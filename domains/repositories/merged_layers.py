"""What a merge changes at its destination, range by range, of the layers of the commits that it is made of.

Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from .layers import Contents, Layer, PathRange, no_rows
from .merging.bases import Base
from .merging.ranges import MergedRange, SortedRange, commits_of, merged
from .tables import OF_OBJECT

_USUAL_SIDES: Final = 3


class LayerMerge:
    """A merge of commits that are told by numbers.

    Args:
        contents: of the repository.
        layers: of each commit that counts: both sides, and those of the base.
        base: of both; None: nothing.
        destination, source: the sides.
        strategy: of conflicts.
    Attributes:
        rows: how many rows of commits were compared.
    """

    def __init__(
        self,
        contents: Contents,
        layers: Mapping[int, Sequence[Layer]],
        base: Base | None,
        destination: int,
        source: int,
        strategy: str,
    ) -> None:
        self._contents = contents
        self._layers = layers
        self._base = base
        self._destination, self._source = destination, source
        self._strategy = strategy
        self._shared = _shared([*layers.values()])
        self.rows = 0

    @staticmethod
    def sides(base: Base | None, destination: int, source: int) -> list[int]:
        """The commits whose layers say what a merge is."""
        return sorted({destination, source, *commits_of(base)})

    def changes(
        self, note: Callable[[MergedRange], None], area: int | None = None
    ) -> Iterator[tuple[PathRange | None, pl.DataFrame]]:
        """What becomes of paths at the destination, range by range.

        Args:
            note: is told of each range.
            area: a staging area whose rows whoever asks lays over the result, so that they are in the ranges, too.
        Yields:
            The range, and its rows by path: objects, and of what is deleted the paths.
        """
        if self._base == self._source:  # nothing is new there, whatever either side holds
            for within in self._contents.ranges([], area):
                yield within, no_rows(["path", "deleted", *OF_OBJECT])
            return
        own = {one: found[len(self._shared) :] for one, found in self._layers.items()}
        layers = list({layer[:2]: layer for found in own.values() for layer in found}.values())
        share = max(1, len(own) // _USUAL_SIDES)
        for within in self._contents.ranges(layers, area, share):
            sides = self._sides_within(own, within)
            parts = merged(sides.__getitem__, self._base, self._destination, self._source, self._strategy)
            taken = []
            for part in parts:
                note(part)
                taken.append(self._taken(part))
            yield within, pl.concat(taken) if taken else no_rows(["path", "deleted", *OF_OBJECT])

    def _sides_within(
        self, own: Mapping[int, Sequence[Layer]], within: PathRange | None
    ) -> dict[int, list[SortedRange]]:
        """Of each commit the contents of the paths that any of them does not share with all others."""
        layers = {layer[:2]: layer for found in own.values() for layer in found}
        each = {key: self._contents.by_path([layer], within=within) for key, layer in layers.items()}
        named = sorted(set().union(*each.values()))
        self.rows += len(named) * len(own)
        below = self._contents.by_path(self._shared, within=within, paths=pl.Series("path", named, dtype=pl.String))
        sides = {}
        for one, found in own.items():
            contents = below.copy()
            for layer in found:
                contents |= each[layer[:2]]
            sides[one] = [SortedRange(named, [*map(contents.get, named)])]
        return sides

    def _taken(self, part: MergedRange) -> pl.DataFrame:
        """The rows of what is taken from the source."""
        if not part.paths:
            return no_rows(["path", "deleted", *OF_OBJECT])
        there = pl.Series("path", part.paths, dtype=pl.String)
        within = PathRange(part.paths[0], part.paths[-1])
        rows = self._contents.overlaid(self._layers[self._source], OF_OBJECT, within=within, paths=there)
        held = rows.filter(~pl.col("deleted"))
        gone = there.to_frame().join(held, on="path", how="anti")
        gone = gone.with_columns(deleted=True, branch=pl.lit(""))
        return pl.concat([held, gone], how="diagonal").sort("path")


def _shared(layers: Sequence[Sequence[Layer]]) -> Sequence[Layer]:
    """The oldest layers that all commits have."""
    count = 0
    while all(len(some) > count for some in layers) and len({some[count][:2] for some in layers}) == 1:
        count += 1
    return layers[0][:count]
