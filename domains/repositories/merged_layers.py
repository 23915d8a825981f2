"""What a merge changes at its destination, range by range, of the layers of the commits that it is made of.

Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from .layers import Contents, Layer, PathRange, no_rows
from .merging.bases import Base
from .merging.ranges import Content, MergedRange, SortedRange, commits_of, merged
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
        found = {one: self._contents.overlaid(layers, ["content"], within=within) for one, layers in own.items()}
        paths = pl.concat([frame["path"] for frame in found.values()]).unique().sort()
        below = _by_path(self._contents.overlaid(self._shared, ["content"], within=within, paths=paths))
        named = paths.to_list()
        self.rows += len(named) * len(own)
        columns = {one: below | _by_path(frame) for one, frame in found.items()}
        return {one: [SortedRange(named, [*map(held.get, named)])] for one, held in columns.items()}

    def _taken(self, part: MergedRange) -> pl.DataFrame:
        """The rows of what is taken from the source."""
        there = pl.Series("path", part.paths, dtype=pl.String)
        within = PathRange(part.paths[0], part.paths[-1]) if part.paths else None
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


def _by_path(rows: pl.DataFrame) -> dict[str, Content]:
    contents = rows.select(pl.when(~pl.col("deleted")).then("content"))
    return dict(zip(rows["path"].to_list(), contents.to_series().to_list(), strict=True))
