"""The rows of a content, read from the row groups that can hold them: at some paths, or in their order.

A content is a stack of levels, the lowest first: layers of commits, and the staging areas of commits and branches that
are no layer yet. Each path is what the highest level that has it says. Groups whose bounds lie elsewhere are not read,
and columns that decide nothing only of the rows that are wanted. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from ...lake.lookup import possible_files
from ...lake.storage.groups import Group, Groups
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
_FIRST_PARTS: Final = 8
_NEWER: Final = -1
"""The number of the part that rows have which the lake lacks."""


class Level(NamedTuple):
    """A part of a content.

    Attributes:
        table: "objects" or "trees".
        number: the position by which the table names it.
        resets: those that fell into it, where it is a staging area.
    """

    table: str
    number: int
    resets: tuple[Reset, ...] = ()

    @classmethod
    def of(cls, layer: Layer) -> Level:
        """A commit's layer."""
        return cls(layer.table, layer.number)


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


class LevelRows:
    """Reads the rows of a content.

    Args:
        moment: what is seen.
        levels: the lowest first.
    """

    def __init__(self, moment: Moment, levels: Sequence[Level]) -> None:
        self._moment = moment
        self.levels = levels
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
        return bool(self._newer().height)

    # Their rows

    def _rows(self, parts: Sequence[Part], columns: Sequence[str], *, newer: bool) -> pl.DataFrame:
        """Rows of some groups that are seen: those of the levels, with their depths and where they were read."""
        frames = [self._newer(columns)] if newer else []
        for table in NUMBER:
            own = [part for part in parts if part.table == table]
            if own:
                frames.append(self._of_table(table, own, columns))
        return pl.concat(frames, how="vertical") if frames else self._newer(columns).clear()

    def _of_table(self, table: str, parts: Sequence[Part], columns: Sequence[str]) -> pl.DataFrame:
        moment, number = self._moment, NUMBER[table]
        until_us = moment.until_us
        timed = [] if until_us is None else ["system_time"]
        wanted = list(dict.fromkeys(["tenant", "repo", number, *_DECIDING, *columns, *timed]))
        tables = self._groups[table].read([part.group for part in parts], wanted)
        first = len(self._parts)
        self._parts += parts
        counts = [part.num_rows for part in tables]
        starts = np.repeat([0, *accumulate(counts[:-1])], counts)
        rows = as_frame(pa.concat_tables(tables)).with_columns(
            pl.Series(_PART, np.repeat(np.arange(first, first + len(parts)), counts), pl.Int32),
            pl.Series(_ROW, np.arange(len(starts)) - starts, pl.Int32),
        )
        seen = (
            (pl.col("tenant") == moment.tenant)
            & (pl.col("repo") == moment.repo)
            & pl.col(number).is_in([*self._depths[table]])
            & (pl.col("logical_timestamp") < moment.below)
        )
        if until_us is not None:
            seen &= pl.col("system_time").dt.epoch("us") <= until_us
        return self._with_depths(rows.filter(seen), table, columns)

    def _newer(self, columns: Sequence[str] = ()) -> pl.DataFrame:
        """Those rows that the lake lacks; their number in their frame stands for where they were read."""
        rows = self._moment.newer.get(OBJECTS)
        if rows is None:
            rows = as_frame(OBJECTS_SCHEMA.empty_table())
        rows = rows.with_columns(
            pl.lit(_NEWER, pl.Int32).alias(_PART), pl.int_range(pl.len(), dtype=pl.Int32).alias(_ROW)
        )
        return self._with_depths(rows.filter(pl.col("staging").is_in([*self._depths[OBJECTS]])), OBJECTS, columns)

    def _with_depths(self, rows: pl.DataFrame, table: str, columns: Sequence[str]) -> pl.DataFrame:
        depth = pl.col(NUMBER[table]).replace_strict(
            self._depths[table], default=None, return_dtype=pl.Int64
        )  # fmt: skip
        kept = dict.fromkeys([*_DECIDING, *columns, _PART, _ROW])
        return rows.with_columns(depth.alias(DEPTH)).select(*kept, DEPTH)

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
        self, least: str, greatest: str, parts: Sequence[Part] | None = None
    ) -> Iterator[tuple[str | None, pl.DataFrame]]:
        """The rows of the paths between two, both included, one window of paths behind the other.

        Args:
            parts: of these groups alone.
        Yields:
            The path before which the window ends (None: it is the last one), and its rows, in no order: which of them
            count says `counting`.
        """
        waiting = list(self.parts(least, greatest) if parts is None else parts)
        behind = self._rows([], (), newer=True).filter(pl.col("path").is_between(pl.lit(least), pl.lit(greatest)))
        begun, until = 0, max(_FIRST_PARTS, sum(part.least <= least for part in waiting))
        while True:
            until = min(until, len(waiting))
            rows = self._rows(waiting[begun:until], (), newer=False)
            rows = rows.filter(pl.col("path").is_between(pl.lit(least), pl.lit(greatest)))
            rows = pl.concat([behind, rows])
            if until == len(waiting):
                yield None, rows
                return
            end = waiting[until].least
            ready = pl.col("path") < end
            behind = rows.filter(~ready)
            yield end, rows.filter(ready)
            begun, until = until, until + max(_FIRST_PARTS, until)

    def at(self, paths: pl.Series, columns: Sequence[str]) -> pl.DataFrame:
        """What is at some paths.

        Args:
            paths: sorted, each once.
        Returns:
            `path`, `deleted` and the columns, by path; paths that no level has are not in it.
        """
        if not len(paths):
            return self._rows([], columns, newer=True).clear()
        parts = self.parts(paths[0], paths[-1])
        firsts = paths.search_sorted(pl.Series([part.least for part in parts], dtype=pl.String))
        behind = paths.search_sorted(pl.Series([part.greatest for part in parts], dtype=pl.String), side="right")
        holding = [
            part for part, first, last in zip(parts, firsts.to_list(), behind.to_list(), strict=True) if first < last
        ]
        rows = self._rows(holding, columns, newer=True)
        return self.counting(rows.join(paths.to_frame("path"), on="path", how="semi"))

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
        wanted = places[_PART].unique().sort()
        tables = self._groups[table].read([self._parts[number].group for number in wanted.to_list()], columns)
        begins = np.array([0, *accumulate(part.num_rows for part in tables)])
        rows = begins[wanted.search_sorted(places[_PART]).to_numpy()] + places[_ROW].to_numpy()
        taken = pa.concat_tables(tables).combine_chunks().take(pa.array(rows))
        return as_frame(taken).with_columns(places["path"]).select("path", *columns)


def _holds_any(bounds: tuple[Any, Any] | None, ordered: Sequence[int]) -> bool:
    """Whether one of some sorted numbers lies within bounds."""
    return bounds is None or any(bounds[0] <= number <= bounds[1] for number in ordered)


def _overlap(bounds: tuple[Any, Any], least: str, greatest: str) -> bool:
    return (bounds[0] is None or bounds[0] <= greatest) and (bounds[1] is None or bounds[1] >= least)
