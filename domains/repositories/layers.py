"""The layers of a commit: where their rows are, and which row of a path counts.

A commit's content is a list of layers, the oldest first; each has some paths once, and the newest that has a path wins.
A layer is a staging area of the table `objects` (no reset fell into it) or rows of the table `trees`; a row that is
`deleted` hides what older layers have. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from ...fold.derived import Bounded
from .kept_layers import KEPT_COLUMNS, KeptLayers, Sought
from .merging.tiers import drops_tombstones, to_join
from .tables import OBJECTS as OBJECTS_SCHEMA

OBJECTS: Final = "objects"
TREES: Final = "trees"
_NUMBER: Final[Mapping[str, str]] = {OBJECTS: "staging", TREES: "layer"}
_PLACE: Final = ("logical_timestamp", "seq")
_DEPTH: Final = "_depth"
_ROW: Final = "_row"
RANGE_ROWS: Final = 32_768
"""About as many rows are in memory at once, however large a layer is."""
_SAMPLED: Final = 64


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
    """What gives the rows of the tables `objects` and `trees`."""

    def blocks(
        self,
        table: str,
        among: Mapping[str, Sequence[Any]],
        *,
        columns: Sequence[str],
        between: Mapping[str, tuple[Any, Any]] | None = None,
        keys: pa.Table | None = None,
    ) -> Iterator[pa.Table]:
        """Rows in no order, some at a time; arguments as of `fold.derived.Earlier.rows`."""
        ...

    def spans(
        self,
        table: str,
        column: str,
        among: Mapping[str, Sequence[Any]],
        *,
        between: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> Sequence[Bounded]:
        """As of `fold.derived.Earlier.spans`."""
        ...


class Contents:
    """Reads the layers of one repository.

    Args:
        reads: their tables.
        tenant, repo: whose.
        kept: small layers that were read before.
    """

    def __init__(self, reads: Reads, tenant: str, repo: str, kept: KeptLayers | None = None) -> None:
        self._reads = reads
        self._of: dict[str, Sequence[Any]] = {"tenant": [tenant], "repo": [repo]}
        self._kept = KeptLayers() if kept is None else kept

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
        wanted = ["path", "deleted", *columns]
        if not layers or (paths is not None and not len(paths)):
            return no_rows(wanted)
        parts, depths = [], []
        read = {}
        sought = None if paths is None else Sought(paths)
        for depth, layer in enumerate(layers):
            if {*columns} <= KEPT_COLUMNS and self._kept.takes(layer.rows):
                rows = self._whole(layer)
                parts.append(_within(rows, within) if sought is None else self._kept.at(self._key(layer), rows, sought))
                depths.append(np.full(parts[-1].height, depth, np.int32))
            else:
                read[layer] = depth
        names = ["path", "deleted", *sorted(KEPT_COLUMNS)] if parts else wanted
        if read:
            rows = newest(pl.concat([*self._frames(read, names, within, paths), _none_read(names)]), _DEPTH)
            depths.append(rows[_DEPTH].to_numpy())
            parts.append(rows.drop(*_PLACE, _DEPTH))
        over = _uppermost(parts, np.concatenate(depths))
        return over if over.columns == wanted else over[wanted]

    def by_path(
        self, layers: Sequence[Layer], *, within: PathRange | None = None, paths: pl.Series | None = None
    ) -> dict[str, bytes | None]:
        """The content of each path that some layers have, None where it is deleted; arguments as of `overlaid`."""
        if len(layers) == 1 and within is None and paths is None and self._kept.takes(layers[0].rows):
            rows = self._whole(layers[0])
        else:
            rows = self.overlaid(layers, ["content"], within=within, paths=paths)
        return dict(zip(rows["path"].to_list(), rows["content"].to_list(), strict=True))

    def keep(self, layer: Layer, rows: pl.DataFrame) -> None:
        """Keep all rows of a layer in memory, if it is small.

        Args:
            rows: `path`, `deleted` and KEPT_COLUMNS, by path.
        """
        if self._kept.takes(layer.rows):
            self._kept.put(self._key(layer), rows.select("path", "deleted", *sorted(KEPT_COLUMNS)))

    def keeps(self, rows: int) -> bool:
        """Whether a layer of so many rows is kept in memory."""
        return self._kept.takes(rows)

    def _key(self, layer: Layer) -> tuple[Any, ...]:
        return (*self._of["tenant"], *self._of["repo"], layer.table, layer.number)

    def _frames(
        self, depths: Mapping[Layer, int], wanted: Sequence[str], within: PathRange | None, paths: pl.Series | None
    ) -> Iterator[pl.DataFrame]:
        """The rows of some layers, each with its place and its layer's depth."""
        between = None if within is None else {"path": (within.first, within.last)}
        keys = None if paths is None else pa.table({"path": paths.to_arrow().cast(pa.string())})
        for table, number in _NUMBER.items():
            own = {layer.number: depth for layer, depth in depths.items() if layer.table == table}
            if own:
                among = {**self._of, number: [*own]}
                read = list(dict.fromkeys([number, *_PLACE, *wanted]))
                for block in self._reads.blocks(table, among, columns=read, between=between, keys=keys):
                    depth = pl.col(number).replace_strict(own, return_dtype=pl.Int32).alias(_DEPTH)
                    yield as_frame(block).select(*wanted, *_PLACE, depth)

    def _whole(self, layer: Layer) -> pl.DataFrame:
        """All rows of a layer, each path once, by path; kept if there is room."""
        key = self._key(layer)
        rows = self._kept.get(key)
        if rows is None:
            names = ["path", "deleted", *sorted(KEPT_COLUMNS)]
            found = newest(pl.concat([*self._frames({layer: 0}, names, None, None), _none_read(names)]))
            rows = self._kept.put(key, found.drop(*_PLACE, _DEPTH))
        return rows

    def ranges(self, layers: Sequence[Layer], area: int | None = None, parts: int = 1) -> Iterator[PathRange | None]:
        """Ranges that hold every path of some layers, each with about RANGE_ROWS rows of all of them.

        Where they end makes no difference to what is made of them. None is the one range of all paths.

        Args:
            area: a staging area whose paths they hold, too.
            parts: into how many more ranges each is cut.
        """
        most = max(1, RANGE_ROWS // parts)
        if area is None and sum(layer.rows for layer in layers) <= most:
            return iter((None,))
        numbers = {table: {layer.number for layer in layers if layer.table == table} for table in _NUMBER}
        if area is not None:
            numbers[OBJECTS].add(area)
        asked = [(table, {_NUMBER[table]: sorted(some)}) for table, some in numbers.items() if some]
        return iter(self.ranges_of(asked, most))

    def ranges_of(
        self,
        parts: Iterable[tuple[str, Mapping[str, Sequence[Any]]]],
        most: int | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> list[PathRange | None]:
        """As `ranges`, of rows that are told by table and conditions."""
        most = RANGE_ROWS if most is None else most
        asked = [(table, {**self._of, **among}) for table, among in parts]
        spans = [span for table, among in asked for span in self._reads.spans(table, "path", among, between=between)]
        starts = starts_of([(span.least or "", span.greatest or HIGHEST, span.rows) for span in spans], most)
        if starts is None:
            starts = _sampled((block["path"] for table, among in asked for block in self._reads.blocks(
                table, among, columns=["path"], between=between)), most)  # fmt: skip
        if not starts:
            return [None]
        ends = [*map(before, starts), HIGHEST]
        return [PathRange(first, last) for first, last in zip(["", *starts], ends, strict=True)]


def starts_of(spans: Sequence[tuple[str, str, int]], most: int) -> list[str] | None:
    """Where to cut the paths of some row groups, so that about as many rows lie between two cuts.

    Args:
        spans: least and greatest path of each, and its rows.
    Returns:
        Where ranges begin but the first; None where the groups lie across each other, so that their bounds say nothing.
    """
    ordered = sorted(spans)
    starts: list[str] = []
    count = 0
    for least, _, rows in ordered:
        if count and count + rows > most and least > (starts[-1] if starts else ""):
            starts.append(least)
            count = 0
        count += rows
    firsts, lasts = [one[0] for one in ordered], sorted((one[1], one[2]) for one in ordered)
    return starts if _is_even(firsts, lasts, [one[2] for one in ordered], starts, most) else None


def _is_even(
    firsts: Sequence[str], lasts: Sequence[tuple[str, int]], rows: Sequence[int], starts: Sequence[str], most: int
) -> bool:
    """Whether no range between two starts is met by groups of many more rows than are wanted."""
    begun = ended = begun_rows = ended_rows = 0
    for first, following in zip(["", *starts], [*starts, None], strict=True):
        while begun < len(firsts) and (following is None or firsts[begun] < following):
            begun_rows += rows[begun]
            begun += 1
        while ended < len(lasts) and lasts[ended][0] < first:
            ended_rows += lasts[ended][1]
            ended += 1
        if begun_rows - ended_rows > 4 * most:
            return False
    return True


def _sampled(blocks: Iterable[pa.ChunkedArray], most: int) -> list[str]:
    """As `starts_of`, of every 64th path."""
    taken = [pl.Series(paths).gather_every(_SAMPLED) for paths in blocks]
    paths = pl.concat(taken).unique().sort() if taken else pl.Series(dtype=pl.String)
    count = max(1, sum(map(len, taken)) * _SAMPLED // most)
    return paths.gather_every(max(1, len(paths) // count)).to_list()[1:]


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


def _within(rows: pl.DataFrame, within: PathRange | None) -> pl.DataFrame:
    """Those of a layer's rows that lie in a range."""
    if within is None:
        return rows
    begin = rows["path"].search_sorted(within.first, "left")
    return rows.slice(begin, rows["path"].search_sorted(within.last, "right") - begin)


def _uppermost(parts: Sequence[pl.DataFrame], depths: npt.NDArray[np.int32]) -> pl.DataFrame:
    """Of each path the row of the greatest depth; by path.

    Args:
        parts: rows of layers, of each a path once.
        depths: of all rows, one after the other.
    """
    rows = pl.concat(parts)
    if is_ascending(rows["path"]):
        return rows
    order = rows.select("path").with_row_index(_ROW)
    if (depths[1:] < depths[:-1]).any():
        order = order[np.argsort(depths, kind="stable")]
    return rows.rechunk()[_last_of_each(order.sort("path", maintain_order=True))]


def is_ascending(paths: pl.Series) -> bool:
    """Whether each path comes after the one before it."""
    return len(paths) < 2 or bool((paths.slice(1) > paths.slice(0, len(paths) - 1)).all())


def newest(rows: pl.DataFrame, *above: str) -> pl.DataFrame:
    """Of each path the row that is last by some columns, then by position and sequence; by path."""
    if is_ascending(rows["path"]):
        return rows
    order = rows.select("path", *above, *_PLACE).with_row_index(_ROW)
    return rows.rechunk()[_last_of_each(order.sort("path", *above, *_PLACE))]


def _last_of_each(ordered: pl.DataFrame) -> pl.Series:
    """The numbers of the last rows of each path, which are taken once: to sort and thin whole rows takes longer.

    Args:
        ordered: `path`, and the number of each row, by path.
    """
    paths = ordered["path"]
    is_last = paths.slice(0, len(paths) - 1) != paths.slice(1)
    return ordered[_ROW].filter(is_last.append(pl.Series([True])))


def as_frame(rows: pa.Table) -> pl.DataFrame:
    """Rows as polars has them."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def no_rows(columns: Sequence[str]) -> pl.DataFrame:
    """No rows of objects, with some columns."""
    return _no_rows(tuple(columns))


@lru_cache
def _no_rows(columns: tuple[str, ...]) -> pl.DataFrame:
    return as_frame(OBJECTS_SCHEMA.empty_table().select(list(columns)))


def _none_read(columns: Sequence[str]) -> pl.DataFrame:
    """No rows, with place and depth."""
    return no_rows([*columns, *_PLACE]).with_columns(pl.lit(0, pl.Int32).alias(_DEPTH))


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
