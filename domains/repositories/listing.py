"""A page of what a content has, in the order of paths: objects, and common prefixes where a delimiter is given.

Only the row groups that can hold the page are read. A group whose paths all share a common prefix is not opened where
nothing that is deleted can take that prefix away: its bounds say enough. Source: docs/concepts.md.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
import polars as pl

from .answers import ListPage, ObjectInfo, PrefixInfo
from .events import Block
from .layers import HIGHEST
from .levels import LevelRows, Part

OF_INFO: Final = ("size", "checksum", "address", "blocks", "content_type", "metadata", "mtime_ms", "content")
"""Columns of an object that an answer has."""

_FEWEST_BELOW: Final = 16
_FIRST_LOOK: Final = 256
"""Where common prefixes have fewer paths than 16, to look for each takes longer than to read all."""


class ListQuestion(NamedTuple):
    """What is to be listed.

    Attributes:
        prefix: only paths that begin so.
        delimiter: paths that have it behind the prefix are told as a common prefix; None: all are told singly.
        after: only items behind this one: a path, or a common prefix, all of whose paths are behind then.
        limit: most items.
    """

    prefix: str
    delimiter: str | None
    after: str
    limit: int

    def common(self, path: str) -> str | None:
        """The common prefix of a path; None where it is told as an object."""
        if self.delimiter is None or not path.startswith(self.prefix):
            return None
        place = path.find(self.delimiter, len(self.prefix))
        return None if place < 0 else path[: place + len(self.delimiter)]

    @property
    def least(self) -> str:
        """No path before it is told."""
        return max(self.prefix, self.after + HIGHEST if self.common(self.after) == self.after else self.after)


def listed(rows: LevelRows, asked: ListQuestion) -> ListPage:
    """A page of a content."""
    least, greatest = asked.least, asked.prefix + HIGHEST
    parts = rows.parts(least, greatest)
    known: list[str] = []
    standing = None
    if asked.delimiter is not None:
        parts, known = _unopened(rows, parts, asked)
        standing = _FirstBelow(rows, parts, asked)
    found: list[pl.DataFrame] = []
    prefixes: set[str] = set()
    count = 0
    for end, window in rows.windows(least, greatest, parts, standing):
        within = _within(window, asked)
        if asked.delimiter is not None:
            common = within.with_columns(_common=_common(asked))
            prefixes.update(_prefixes(rows, common.drop_nulls("_common")))
            within = common.filter(pl.col("_common").is_null()).drop("_common")
        objects = rows.counting(within).filter(~pl.col("deleted"))
        found.append(objects)
        count += objects.height
        reached = bisect_right(known, end) if end is not None else len(known)
        if count + len(prefixes.union(known[:reached])) > asked.limit:
            known = known[:reached]
            break
    return _page(rows, pl.concat(found), prefixes.union(known), asked)


def _within(window: pl.DataFrame, asked: ListQuestion) -> pl.DataFrame:
    path = pl.col("path")
    wanted = [path.str.starts_with(asked.prefix)] if asked.prefix else []
    wanted += [path > asked.after] if asked.after else []
    return window.filter(wanted) if wanted else window


def _prefixes(rows: LevelRows, common: pl.DataFrame) -> list[str]:
    """The common prefixes that something stands below: of those where nothing is deleted any row says so."""
    doubtful = common if rows.has_resets else common.filter(pl.col("deleted"))
    if not doubtful.height:
        return common["_common"].unique().to_list()
    names = doubtful["_common"].unique()
    certain = common.filter(~pl.col("_common").is_in(names.implode()))["_common"].unique().to_list()
    below = rows.counting(common.filter(pl.col("_common").is_in(names.implode()))).filter(~pl.col("deleted"))
    return certain + below["_common"].unique().to_list()


def _common(asked: ListQuestion) -> pl.Expr:
    """The common prefix of a path, or null."""
    delimiter = asked.delimiter or ""
    found = pl.col("path").str.slice(len(asked.prefix)).str.find(delimiter, literal=True)
    length = found + len(asked.prefix.encode()) + len(delimiter.encode())
    return pl.when(found.is_not_null()).then(pl.col("path").cast(pl.Binary).bin.slice(0, length).cast(pl.String))


def _unopened(rows: LevelRows, parts: Sequence[Part], asked: ListQuestion) -> tuple[list[Part], list[str]]:
    """The groups that have to be read, and the common prefixes of the others, sorted."""
    if rows.has_newer() or any(level.resets for level in rows.levels):
        return [*parts], []
    deleting = [part for part in parts if part.group.spans("deleted", True, True)]
    read, known = [], set()
    for part in parts:
        common = asked.common(part.least) if rows.is_all_seen(part) else None
        if (
            common is None
            or common != asked.common(part.greatest)
            or asked.after.startswith(common)
            or any(one.least <= common + HIGHEST and one.greatest >= common for one in deleting)
        ):
            read.append(part)
        else:
            known.add(common)
    return read, sorted(known)


class _FirstBelow:
    """Of groups of which nothing is deleted the first path below each common prefix stands for the others.

    Args:
        parts: all groups that are read.
    """

    def __init__(self, rows: LevelRows, parts: Sequence[Part], asked: ListQuestion) -> None:
        self._rows = rows
        self._asked = asked
        self._is_plain = not (
            rows.has_newer() or rows.has_resets or any(part.group.spans("deleted", True, True) for part in parts)
        )

    def may(self, part: Part) -> bool:
        return self._is_plain and self._rows.is_all_seen(part)

    def of(self, paths: Sequence[str]) -> Sequence[int] | None:
        """Their places; None where a path is told singly, or where the prefixes are too many to look for each."""
        asked = self._asked
        begin = max(bisect_left(paths, asked.least), bisect_right(paths, asked.after))
        end = bisect_right(paths, asked.prefix + HIGHEST)
        place, places = begin, list[int]()
        while place < end:
            common = asked.common(paths[place])
            if common is None or len(places) * _FEWEST_BELOW > place - begin + _FIRST_LOOK:
                return None
            places.append(place)
            place = bisect_right(paths, common + HIGHEST, place, end)
        return places


def _page(rows: LevelRows, objects: pl.DataFrame, prefixes: set[str], asked: ListQuestion) -> ListPage:
    names = sorted([*objects["path"].to_list(), *prefixes])
    told = names[: asked.limit]
    shown = objects.filter(pl.col("path") <= told[-1]) if told else objects.clear()
    infos = {info.path: info for info in infos_of(rows, shown)}
    items = tuple(PrefixInfo(name) if name in prefixes else infos[name] for name in told)
    return ListPage(items, told[-1] if len(names) > len(told) else None, rows.final)


def infos_of(rows: LevelRows, places: pl.DataFrame) -> list[ObjectInfo]:
    """The objects at places that were read, by path."""
    if not places.height:
        return []
    found = rows.whole(places, OF_INFO).select("path", *OF_INFO)
    return [_info(rows.final, *row) for row in found.iter_rows()]


def _info(
    final: bool, path: str, size: int, checksum: str, address: str | None, blocks: str | None, content_type: str | None,
    metadata: str | None, mtime_ms: int | None, content: bytes,
) -> ObjectInfo:  # fmt: skip
    made: Sequence[Any] = orjson.loads(blocks) if blocks else ()
    return ObjectInfo(
        path, size, checksum, address, tuple(Block(*block) for block in made), content_type,
        orjson.loads(metadata) if metadata else {}, mtime_ms, content.hex(), final,
    )  # fmt: skip
