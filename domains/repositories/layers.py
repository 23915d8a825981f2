"""The layers of a commit: where their rows are, and which row of a path counts.

A commit's content is a list of layers, the oldest first; each has some paths once, and the newest that has a path wins.
A layer is a staging area of the table `objects` (no reset fell into it) or rows of the table `trees`; a row that is
`deleted` hides what older layers have. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import polars as pl
import pyarrow as pa

from .merging.tiers import drops_tombstones, to_join

OBJECTS: Final = "objects"
TREES: Final = "trees"
_NUMBER: Final[Mapping[str, str]] = {OBJECTS: "staging", TREES: "layer"}
_PLACE: Final = ("logical_timestamp", "seq")
_DEPTH: Final = "_depth"
RANGE_ROWS: Final = 262_144
"""About as many rows are in memory at once, however large a layer is."""


class Layer(NamedTuple):
    """A layer.

    Attributes:
        table: "objects" or "trees".
        number: the position by which the table names it.
        rows: how many paths it has.
    """

    table: str
    number: int
    rows: int

    @property
    def name(self) -> str:
        """As the table `commit_trees` has it."""
        return f"{self.table}/{self.number}"

    @classmethod
    def of(cls, name: str, rows: int) -> Layer:
        """The layer of such a name."""
        table, _, number = name.partition("/")
        return cls(table, int(number), rows)


class PathRange(NamedTuple):
    """Paths from one to another, both included, in the order of their bytes."""

    first: str
    last: str


class Reads(Protocol):
    """What gives the rows of the tables `objects` and `trees`, such as `fold.derived.Earlier`."""

    def rows(
        self,
        table: str,
        among: Mapping[str, Sequence[Any]],
        *,
        columns: Sequence[str] | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
        keys: pa.Table | None = None,
    ) -> pa.Table:
        """As of `fold.derived.Earlier`."""
        ...


class Contents:
    """Reads the layers of one repository.

    Args:
        reads: their tables.
        tenant, repo: whose.
    """

    def __init__(self, reads: Reads, tenant: str, repo: str) -> None:
        self._reads = reads
        self._of: dict[str, Sequence[Any]] = {"tenant": [tenant], "repo": [repo]}

    def overlaid(
        self,
        layers: Sequence[Layer],
        columns: Sequence[str],
        *,
        within: PathRange | None = None,
        paths: pl.Series | None = None,
    ) -> pl.DataFrame:
        """The row that counts of each path that some layers have.

        Args:
            layers: the oldest first.
            columns: those that are wanted besides `path` and `deleted`.
            within, paths: only these paths.
        Returns:
            `path`, `deleted` and the columns, by path.
        """
        frames = []
        wanted = ["path", "deleted", *columns]
        for table, number in _NUMBER.items():
            depths = {layer.number: depth for depth, layer in enumerate(layers) if layer.table == table}
            if not depths or (paths is not None and not len(paths)):
                continue
            rows = self._reads.rows(
                table,
                {**self._of, number: [*depths]},
                columns=list(dict.fromkeys([number, *_PLACE, *wanted])),
                between=None if within is None else {"path": (within.first, within.last)},
                keys=None if paths is None else _keys(paths),
            )
            frame = as_frame(rows)
            depth = pl.col(number).replace_strict(depths, return_dtype=pl.Int64)
            frames.append(frame.with_columns(depth.alias(_DEPTH)).drop(number))
        if not frames:
            return self._none(wanted)
        return newest(pl.concat(frames, how="diagonal"), _DEPTH).select(wanted)

    def _none(self, wanted: Sequence[str]) -> pl.DataFrame:
        rows = self._reads.rows(OBJECTS, {**self._of, "staging": [-1]}, columns=wanted)
        return as_frame(rows)

    def ranges(self, layers: Sequence[Layer]) -> Iterator[PathRange | None]:
        """Ranges that hold every path of some layers, each with about RANGE_ROWS rows of the largest one of them.

        Where they end makes no difference to what is made of them. None is the one range of all paths.
        """
        if sum(layer.rows for layer in layers) <= RANGE_ROWS:
            yield None
            return
        largest = max(layers, key=lambda layer: layer.rows)
        paths = self.overlaid([largest], [])["path"]
        starts = ["", *(paths[row] for row in range(RANGE_ROWS, len(paths), RANGE_ROWS))]
        for first, following in zip(starts, [*starts[1:], None], strict=True):
            yield PathRange(first, HIGHEST if following is None else before(following))


HIGHEST: Final = "\U0010ffff" * 256
"""No path comes after it: paths have 1,024 bytes at most."""
_SURROGATES: Final = (0xD800, 0xDFFF)


def before(path: str) -> str:
    """A text such that every other path is after it exactly if it is not before this one."""
    last = ord(path[-1])
    if last == 0:
        return path[:-1]
    lower = last - 1
    if _SURROGATES[0] <= lower <= _SURROGATES[1]:
        lower = _SURROGATES[0] - 1
    return path[:-1] + chr(lower) + HIGHEST


def newest(rows: pl.DataFrame, *above: str) -> pl.DataFrame:
    """Of each path the row that is last by some columns, then by position and sequence; by path."""
    return rows.sort(["path", *above, *_PLACE]).unique("path", keep="last", maintain_order=True)


def as_frame(rows: pa.Table) -> pl.DataFrame:
    """Rows as polars has them."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def joined(
    contents: Contents, layers: Sequence[Layer], columns: Sequence[str], position: int
) -> tuple[Sequence[Layer], Iterator[pl.DataFrame] | None]:
    """What becomes of a commit's layers in one step of the tiers.

    Args:
        layers: the oldest first, the new one last; each has rows.
        position: of the commit, by which a layer that is made now is named.
    Returns:
        The layers in front of the joined ones, and the joined rows by ranges of paths; or all, and None.
    """
    count = to_join([layer.rows for layer in layers])
    if not count:
        return layers, None
    return layers[:-count], _joined(contents, layers[-count:], columns, drops_tombstones(len(layers), count))


def _joined(contents: Contents, layers: Sequence[Layer], columns: Sequence[str], drops: bool) -> Iterator[pl.DataFrame]:
    for within in contents.ranges(layers):
        rows = contents.overlaid(layers, columns, within=within)
        yield rows.filter(~pl.col("deleted")) if drops else rows


def _keys(paths: pl.Series) -> pa.Table:
    return pa.table({"path": paths.to_arrow().cast(pa.string())})
