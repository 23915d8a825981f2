"""The rows of a content, read from the row groups that can hold them: at some paths, or in their order.

A content is a stack of levels, the lowest first: layers of commits, and the staging areas of commits and branches that
are no layer yet. Each path is what the highest level that has it says. Groups whose bounds lie elsewhere are not read,
and columns that decide nothing only of the rows that are wanted. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from ...lake.lookup import possible_files
from ...lake.storage.groups import Group, Groups
from .kept_layers import KeptLayers, at_paths_of
from .layers import HIGHEST, OBJECTS, TREES, Layer, as_frame
from .merging.staging import Reset, covered_up_to
from .moment import Moment
from .tables import OBJECTS as OBJECTS_SCHEMA

NUMBER: Final = {OBJECTS: "staging", TREES: "layer"}
"""The column by which a table names its layers and areas."""
DEPTH: Final = "_depth"
_PART: Final = "_part"
_ROW: Final = "_row"
_DECIDING: Final = ("path", "deleted", "logical_timestamp", "seq")
_BOUNDED: Final = ("tenant", "repo", "path", "deleted", "logical_timestamp")
_STATE: Final = ("content", "size")
_FIRST_PARTS: Final = 8
_MANY: Final = 256
"""Of so many paths a layer is sooner kept in memory than read for each of them."""
_NEWER: Final = -1
"""The number of the part that rows have which the lake lacks."""


class Level(NamedTuple):
    """A part of a content.

    Attributes:
        table: "objects" or "trees".
        number: the position by which the table names it.
        resets: those that fell into it, where it is a staging area.
        rows: how many paths it has, where it is a layer of a commit, which never changes; else None.
    """

    table: str
    number: int
    resets: tuple[Reset, ...] = ()
    rows: int | None = None

    @classmethod
    def of(cls, layer: Layer) -> Level:
        """A commit's layer."""
        return cls(layer.table, layer.number, rows=layer.rows)


_NO_LEVEL: Final = Level(OBJECTS, -1)
"""Stands for a level whose rows are found elsewhere."""


class Part(NamedTuple):
    """A row group that can hold rows of the levels."""

    table: str
    group: Group

    @property
    def least(self) -> str:
        return str(self.group.bounds["path"][0]) if "path" in self.group.bounds else ""

    @property
    def greatest(self) -> str:
        return str(self.group.bounds["path"][1]) if "path" in self.group.bounds else HIGHEST


class Standing(Protocol):
    """Finds rows that stand for all of a group, where it only counts whether anything is there."""

    def may(self, part: Part) -> bool:
        """Whether rows may stand for a group at all."""
        ...

    def of(self, paths: Sequence[str]) -> Sequence[int] | None:
        """The places of the rows that stand for a group of sorted paths; None: no few do."""
        ...


_Few = tuple[Part, Sequence[int], Sequence[str]]
"""A group, and the places and paths of the rows that stand for it."""


class LevelRows:
    """Reads the rows of a content.

    Args:
        moment: what is seen.
        levels: the lowest first.
        kept: layers that are in memory, and where more are put.

    Attributes:
        levels: as given.
        final: no event that arrives later can change what an answer makes of them.
    """

    def __init__(self, moment: Moment, levels: Sequence[Level], kept: KeptLayers | None = None) -> None:
        self._moment = moment
        self._kept = kept
        self.levels = levels
        self.final = moment.bounds.final
        self._depths = {table: self._depths_of(table) for table in NUMBER}
        self._groups: dict[str, Groups] = {}
        self._parts: list[Part] = []
        self._resets = {depth: level.resets for depth, level in enumerate(levels) if level.resets}

    def _depths_of(self, table: str) -> dict[int, int]:
        return {level.number: depth for depth, level in enumerate(self.levels) if level.table == table}

    # Which groups

    def parts(self, least: str = "", greatest: str = HIGHEST) -> list[Part]:
        """The row groups that can hold rows of these paths, both ends included, by their least paths."""
        found = []
        for table, depths in self._depths.items():
            view = self._moment.table(table)
            if view is None or not depths:
                continue
            number = NUMBER[table]
            groups = self._groups.setdefault(table, Groups(view, (*_BOUNDED, number)))
            key: dict[str, list[Any]] = {
                "tenant": [self._moment.tenant],
                "repo": [self._moment.repo],
                number: [*depths],
            }
            ordered = sorted(depths)
            possible = frozenset(possible_files(view, key))
            paths = [
                file["path"]
                for file in view.listed
                if file["path"] in possible and _overlap((file.get("min.path"), file.get("max.path")), least, greatest)
            ]
            found += [
                Part(table, group)
                for group in groups.of(paths)
                if group.spans("tenant", self._moment.tenant, self._moment.tenant)
                and group.spans("repo", self._moment.repo, self._moment.repo)
                and group.spans("path", least, greatest)
                and _holds_any(group.bounds.get(number), ordered)
            ]
        return sorted(found, key=lambda part: part.least)

    def is_all_seen(self, part: Part) -> bool:
        """Whether all rows of a group are of one level and seen, as its bounds say."""
        number, place = (part.group.bounds.get(name) for name in (NUMBER[part.table], "logical_timestamp"))
        whole = ((part.group.bounds.get(name) or (0, 1)) for name in ("tenant", "repo"))
        return (
            number is not None
            and number[0] == number[1]
            and all(least == greatest for least, greatest in whole)
            and place is not None
            and place[1] < self._moment.below
            and self._moment.until_us is None
        )

    @property
    def has_resets(self) -> bool:
        """Whether some rows of a level may have been reset."""
        return bool(self._resets)

    def has_newer(self) -> bool:
        """Whether rows of these levels stand in front of what the lake holds."""
        return OBJECTS in self._moment.newer and bool(self._newer((), pl.lit(value=True)).height)

    # Their rows

    def _rows(
        self, parts: Sequence[Part], columns: Sequence[str], within: pl.Expr, *, newer: bool
    ) -> pl.DataFrame:  # fmt: skip
        """Rows of some groups that are seen: those of the levels, with their depths and where they were read.

        Args:
            within: which paths are wanted.
            newer: also those that the lake lacks.
        """
        frames = [self._newer(columns, within)] if newer and OBJECTS in self._moment.newer else []
        for table in NUMBER:
            own = [part for part in parts if part.table == table]
            if own:
                frames.append(self._of_table(table, own, columns, within))
        return pl.concat(frames) if frames else self._none(columns)

    def _of_table(self, table: str, parts: Sequence[Part], columns: Sequence[str], within: pl.Expr) -> pl.DataFrame:
        moment, number = self._moment, NUMBER[table]
        until_us = moment.until_us
        timed = [] if until_us is None else ["system_time"]
        wanted = list(dict.fromkeys(["tenant", "repo", number, *_DECIDING, *columns, *timed]))
        tables = self._groups[table].read([part.group for part in parts], wanted)
        seen = [
            pl.col("tenant") == moment.tenant,
            pl.col("repo") == moment.repo,
            pl.col(number).is_in([*self._depths[table]]),
            pl.col("logical_timestamp") < moment.below,
            within,
        ]
        if until_us is not None:
            seen.append(pl.col("system_time").dt.epoch("us") <= until_us)
        rows = as_frame(pa.concat_tables(tables)).lazy().with_row_index(_ROW).filter(seen)
        found = self._with_depths(rows, table, [*columns, _ROW]).collect()
        ends = np.array([*accumulate(part.num_rows for part in tables)])
        numbers = np.searchsorted(ends, found[_ROW].to_numpy(), side="right")
        within_part = found[_ROW].to_numpy() - np.concatenate([[0], ends])[numbers]
        first = len(self._parts)
        self._parts += parts
        return found.with_columns(
            pl.Series(_PART, numbers + first, pl.Int32), pl.Series(_ROW, within_part, pl.Int32)
        ).select(self._columns(columns))

    def _newer(self, columns: Sequence[str], within: pl.Expr) -> pl.DataFrame:
        """Those rows that the lake lacks; their number in their frame stands for where they were read."""
        rows = self._moment.newer[OBJECTS].lazy().with_row_index(_ROW).with_columns(pl.lit(_NEWER).alias(_PART))
        own = rows.filter(pl.col("staging").is_in([*self._depths[OBJECTS]]), within)
        found = self._with_depths(own, OBJECTS, [*columns, _ROW, _PART]).collect()
        return found.cast({_PART: pl.Int32, _ROW: pl.Int32}).select(self._columns(columns))

    def _with_depths(self, rows: pl.LazyFrame, table: str, columns: Sequence[str]) -> pl.LazyFrame:
        depth = pl.col(NUMBER[table]).replace_strict(self._depths[table], default=None, return_dtype=pl.Int64)
        return rows.select(*dict.fromkeys([*_DECIDING, *columns]), depth.alias(DEPTH))

    def _none(self, columns: Sequence[str]) -> pl.DataFrame:
        rows = as_frame(OBJECTS_SCHEMA.empty_table()).with_columns(
            pl.lit(0, pl.Int32).alias(_PART), pl.lit(0, pl.Int32).alias(_ROW), pl.lit(0, pl.Int64).alias(DEPTH)
        )
        return rows.select(self._columns(columns))

    @staticmethod
    def _columns(columns: Sequence[str]) -> list[str]:
        return [*dict.fromkeys([*_DECIDING, *columns]), _PART, _ROW, DEPTH]

    def counting(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Of each path the row that says what it is, by path; also those that say that it is deleted."""
        ordered = rows.sort("path", DEPTH, "logical_timestamp", "seq")
        if not self._resets:
            return ordered.unique("path", keep="last", maintain_order=True)
        newest = ordered.unique(["path", DEPTH], keep="last", maintain_order=True)
        dropped = pl.repeat(False, newest.height, eager=True)
        for depth, resets in self._resets.items():
            area = newest.with_row_index("_at").filter(pl.col(DEPTH) == depth)
            up_to = covered_up_to([path.encode() for path in area["path"]], resets)
            gone = area.filter(area["logical_timestamp"] <= pl.Series(up_to, dtype=pl.Int64))
            dropped = dropped.scatter(gone["_at"], True) if gone.height else dropped
        return newest.filter(~dropped).unique("path", keep="last", maintain_order=True)

    def windows(
        self, least: str, greatest: str, parts: Sequence[Part] | None = None, standing: Standing | None = None
    ) -> Iterator[tuple[str | None, pl.DataFrame]]:
        """The rows of the paths between two, both included, one window of paths behind the other.

        Args:
            parts: of these groups alone.
            standing: rows that stand for all of a group; else each is read.
        Yields:
            The path before which the window ends (None: it is the last one), and its rows, in no order: which of them
            count says `counting`.
        """
        waiting = list(self.parts(least, greatest) if parts is None else parts)
        within = pl.col("path").is_between(pl.lit(least), pl.lit(greatest))
        behind = self._rows([], (), within, newer=True)
        begun, until = 0, max(_FIRST_PARTS, sum(part.least <= least for part in waiting))
        while True:
            until = min(until, len(waiting))
            few, whole = self._few(waiting[begun:until], standing)
            rows = pl.concat([behind, few.filter(within), self._rows(whole, (), within, newer=False)])
            if until == len(waiting):
                yield None, rows
                return
            end = waiting[until].least
            ready = pl.col("path") < end
            behind = rows.filter(~ready)
            yield end, rows.filter(ready)
            begun, until = until, until + max(_FIRST_PARTS, until)

    def _few(self, parts: Sequence[Part], standing: Standing | None) -> tuple[pl.DataFrame, Sequence[Part]]:
        """Rows that stand for groups, of which only the paths are read; and the groups that have to be read whole."""
        if standing is None:
            return self._none(()), parts
        found: list[_Few] = []
        whole = [part for part in parts if not standing.may(part)]
        for table in NUMBER:
            own = [part for part in parts if part.table == table and standing.may(part)]
            tables = self._groups[table].read([part.group for part in own], ["path"]) if own else ()
            for part, rows in zip(own, tables, strict=True):
                paths = as_frame(rows)["path"]
                texts = paths.to_list() if paths.is_sorted() else []
                places = standing.of(texts) if texts else None
                if places is None:
                    whole.append(part)
                else:
                    found.append((part, places, [texts[place] for place in places]))
        return self._standing(found), whole

    def _standing(self, found: Sequence[_Few]) -> pl.DataFrame:
        """Rows of groups whose bounds tell all but their paths and places."""
        none = self._none(())
        if not found:
            return none
        counts = [len(places) for _, places, _ in found]
        told = {
            "logical_timestamp": [part.group.bounds["logical_timestamp"][0] for part, _, _ in found],
            DEPTH: [self._depths[part.table][part.group.bounds[NUMBER[part.table]][0]] for part, _, _ in found],
            _PART: range(len(self._parts), len(self._parts) + len(found)),
        }
        self._parts += [part for part, _, _ in found]
        columns: dict[str, Any] = {name: np.repeat(values, counts) for name, values in told.items()}
        columns["path"] = [text for _, _, texts in found for text in texts]
        columns[_ROW] = [place for _, places, _ in found for place in places]
        rows = pl.DataFrame(columns).with_columns(pl.lit(value=False).alias("deleted"), pl.lit(0).alias("seq"))
        return rows.select(pl.col(name).cast(dtype) for name, dtype in none.schema.items())

    def at(self, paths: pl.Series, columns: Sequence[str]) -> pl.DataFrame:
        """What is at some paths.

        Args:
            paths: sorted, each once.
        Returns:
            `path`, `deleted` and the columns, by path; paths that no level has are not in it.
        """
        if not len(paths):
            return self._none(columns)
        parts = self.parts(paths[0], paths[-1])
        firsts = paths.search_sorted(pl.Series([part.least for part in parts], dtype=pl.String))
        behind = paths.search_sorted(pl.Series([part.greatest for part in parts], dtype=pl.String), side="right")
        holding = [
            part for part, first, last in zip(parts, firsts.to_list(), behind.to_list(), strict=True) if first < last
        ]
        within = pl.col("path") == paths[0] if len(paths) == 1 else pl.col("path").is_in(paths.implode())
        return self.counting(self._rows(holding, columns, within, newer=True))

    def states(self, paths: pl.Series) -> pl.DataFrame:
        """Content and size of the objects at some paths, and whether they are deleted.

        Args:
            paths: sorted, each once.
        Returns:
            `path`, `deleted`, `content`, `size` by path, of those that a level has.
        """
        depths = {depth for depth, level in enumerate(self.levels) if self._is_kept(level, len(paths))}
        if not depths or self._moment.until_us is not None:
            found = self.at(paths, _STATE)
        else:
            others = [level if depth not in depths else _NO_LEVEL for depth, level in enumerate(self.levels)]
            rest = LevelRows(self._moment, others)
            columns = ["path", "deleted", "logical_timestamp", "seq", *_STATE, DEPTH]
            frames = [rest.at(paths, _STATE).select(columns)]
            layers = {depth: self._layer(self.levels[depth]) for depth in depths}
            frames.append(at_paths_of(layers, paths, DEPTH).select(columns))
            found = pl.concat(frames).sort("path", DEPTH).unique("path", keep="last", maintain_order=True)
        return found.select("path", "deleted", *_STATE)

    def _is_kept(self, level: Level, paths: int) -> bool:
        """Whether a level's rows are best found in memory."""
        if self._kept is None or level.rows is None or not self._kept.takes(level.rows):
            return False
        return paths >= _MANY or self._kept.get(self._key(level)) is not None

    def _key(self, level: Level) -> tuple[str, ...]:
        moment = self._moment
        return (moment.tenant, moment.repo, level.table, str(level.number))

    def _layer(self, level: Level) -> pl.DataFrame:
        """All rows of a layer, by path; read once."""
        assert self._kept is not None  # as `_is_kept` says

        def read() -> pl.DataFrame:
            alone = LevelRows(self._moment, [level])
            rows = alone.counting(alone._rows(alone.parts(), _STATE, pl.lit(value=True), newer=False))
            return rows.drop(_PART, _ROW, DEPTH)

        return self._kept.get_or_read(self._key(level), read)

    def whole(self, places: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        """More columns of rows that were read.

        Args:
            places: rows of `windows` or `at`.
        Returns:
            `path` and the columns, by path.
        """
        frames = []
        newer = places.filter(pl.col(_PART) == _NEWER)
        if newer.height:
            frames.append(self._moment.newer[OBJECTS][newer[_ROW].to_list()].select("path", *columns))
        for table in NUMBER:
            numbers = [number for number, part in enumerate(self._parts) if part.table == table]
            own = places.filter(pl.col(_PART).is_in(numbers))
            if own.height:
                frames.append(self._taken(table, own, columns))
        return pl.concat(frames).sort("path") if frames else places.select("path").clear()

    def _taken(self, table: str, places: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        """`path` and more columns of rows that were read from one table."""
        ordered = places.sort(_PART)
        parts, counts = np.unique(ordered[_PART].to_numpy(), return_counts=True)
        tables = self._groups[table].read([self._parts[number].group for number in parts.tolist()], columns)
        rows = np.split(ordered[_ROW].to_numpy(), np.cumsum(counts)[:-1])
        taken = [part.take(pa.array(own)) for part, own in zip(tables, rows, strict=True)]
        return as_frame(pa.concat_tables(taken)).with_columns(ordered["path"]).select("path", *columns)


def _holds_any(bounds: tuple[Any, Any] | None, ordered: Sequence[int]) -> bool:
    """Whether one of some sorted numbers lies within bounds."""
    return bounds is None or any(bounds[0] <= number <= bounds[1] for number in ordered)


def _overlap(bounds: tuple[Any, Any], least: str, greatest: str) -> bool:
    return (bounds[0] is None or bounds[0] <= greatest) and (bounds[1] is None or bounds[1] >= least)
