"""Rows of a table by conditions on some of its columns, read by row groups.

A group that cannot hold a row by its bounds is not read. Of the others the columns are read that decide, and none where
the bounds say that every row is wanted; all other columns only of the groups that hold a row. Groups are read some at a
time, so memory follows what is wanted and not what is looked through.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from .declared import SPECS
from .storage.groups import Bounds, Group, Groups
from .views.table import TableView

_BLOCK_ROWS: Final = 32_768
"""About as many rows are looked through at once."""

Among = Mapping[str, Sequence[Any]]
Between = Mapping[str, tuple[Any, Any]]


class Span(NamedTuple):
    """What a row group can hold: rows whose values of a column lie between two, both included.

    Attributes:
        least, greatest: None where nothing is known of them.
        rows: of the group, also those that nobody asked for.
    """

    least: Any
    greatest: Any
    rows: int


class _Condition(Protocol):
    """What rows must meet in one column."""

    column: str

    def holds(self, bounds: Bounds | None) -> bool | None:
        """Whether all rows of a group meet it (True), or none (False); None: its column decides."""
        ...

    def mask(self, values: pl.Series) -> pl.Series:
        """Which values meet it."""
        ...


class _OneOf:
    """One of some values."""

    def __init__(self, column: str, values: Sequence[Any], dtype: pl.DataType | None = None) -> None:
        self.column = column
        self._sorted = sorted(set(values))
        self._values = pl.Series(self._sorted, dtype=dtype)

    def holds(self, bounds: Bounds | None) -> bool | None:
        if bounds is None:
            return None if self._sorted else False
        place = bisect_left(self._sorted, bounds[0])
        if place == len(self._sorted) or self._sorted[place] > bounds[1]:
            return False
        return True if bounds[0] == bounds[1] else None

    def mask(self, values: pl.Series) -> pl.Series:
        return values.is_in(self._values.implode()) if len(self._sorted) > 1 else values == self._sorted[0]


class _Within:
    """A value between two, both included."""

    def __init__(self, column: str, bounds: Bounds) -> None:
        self.column = column
        self._low, self._high = bounds

    def holds(self, bounds: Bounds | None) -> bool | None:
        if bounds is None:
            return None
        if bounds[1] < self._low or bounds[0] > self._high:
            return False
        return True if self._low <= bounds[0] and bounds[1] <= self._high else None

    def mask(self, values: pl.Series) -> pl.Series:
        return values.is_between(self._low, self._high)


class GroupRows:
    """Reads rows of one version of a table; footers stay in memory, files stay open as long as this reader is there.

    Args:
        table: the version.
    """

    def __init__(self, table: TableView) -> None:
        self._table = table
        self._schema = SPECS[table.name].schema
        self._groups = Groups(table, SPECS[table.name].statistics)

    def rows(
        self,
        columns: Sequence[str],
        among: Among | None = None,
        *,
        between: Between | None = None,
        keys: pa.Table | None = None,
    ) -> pa.Table:
        """Rows in no order.

        Args:
            columns: those that are wanted.
            among: with one of these values (texts or whole numbers) in each of these columns.
            between: with a value between two, both included, in each of these columns.
            keys: with one of these keys, in the columns of these names.
        Returns:
            The columns, in their types.
        """
        schema = pa.schema([self._schema.field(name) for name in columns])
        parts = list(self.blocks(columns, among, between=between, keys=keys))
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def blocks(
        self,
        columns: Sequence[str],
        among: Among | None = None,
        *,
        between: Between | None = None,
        keys: pa.Table | None = None,
    ) -> Iterator[pa.Table]:
        """As `rows`, some at a time."""
        conditions = self._conditions(among, between, keys)
        several = keys if keys is not None and keys.num_columns > 1 else None
        for block in _blocks(self._possible(conditions)):
            rows = self._of_block(block, list(columns), conditions, several)
            if rows is not None:
                yield rows

    def count(self, among: Among | None = None, *, between: Between | None = None) -> int:
        """How many rows there are; groups whose bounds say so are not read."""
        conditions = self._conditions(among, between, None)
        total = 0
        for block in _blocks(self._possible(conditions)):
            deciding = self._deciding(block, conditions)
            total += int(self._mask(block, deciding, None)[1].sum()) if deciding else sum(group.rows for group in block)
        return total

    def spans(self, column: str, among: Among | None = None, *, between: Between | None = None) -> list[Span]:
        """What the groups can hold that can hold such rows, in no order.

        Args:
            column: whose bounds are told; one with statistics.
        """
        groups = self._possible(self._conditions(among, between, None))
        bounds = [group.bounds.get(column) or (None, None) for group in groups]
        return [Span(least, greatest, group.rows) for (least, greatest), group in zip(bounds, groups, strict=True)]

    def _conditions(self, among: Among | None, between: Between | None, keys: pa.Table | None) -> list[_Condition]:
        """Of keys of several columns the values of each, which all rows have that are asked for."""
        made: list[_Condition] = [_OneOf(name, values) for name, values in (among or {}).items()]
        made += [_Within(name, bounds) for name, bounds in (between or {}).items()]
        if keys is not None:
            for name in keys.column_names:
                values = pl.Series(pc.unique(keys[name]))
                made.append(_OneOf(name, values.to_list(), values.dtype))
        return made

    def _possible(self, conditions: Sequence[_Condition]) -> list[Group]:
        """The groups that can hold a row, file by file; what all of a file meets is not asked of each of its groups."""
        left: dict[str, list[_Condition]] = {}
        for file in self._table.listed:
            held = [one.holds(_bounds_of(file, one.column)) for one in conditions]
            if False not in held:
                left[file["path"]] = [one for one, holds in zip(conditions, held, strict=True) if not holds]
        return [
            group
            for group in self._groups.of([*left])
            if not any(one.holds(group.bounds.get(one.column)) is False for one in left[group.path])
        ]

    def _of_block(
        self, block: Sequence[Group], columns: Sequence[str], conditions: Sequence[_Condition], keys: pa.Table | None
    ) -> pa.Table | None:
        """The wanted rows of some groups of one file; None where there are none."""
        schema = pa.schema([self._schema.field(name) for name in columns])
        deciding = self._deciding(block, conditions)
        if not deciding and keys is None:
            return pa.concat_tables(self._groups.read(block, columns)).cast(schema)
        decided, mask = self._mask(block, deciding, keys)
        hits = mask.sum()
        if not hits:
            return None
        block, decided, chosen = _holding(block, decided, mask)
        others = [name for name in columns if name not in decided.column_names]
        made = {name: decided[name] for name in columns if name in decided.column_names}
        if others:
            read = pa.concat_tables(self._groups.read(block, others))
            made |= {name: read[name] for name in others}
        rows = pa.table([made[name] for name in columns], schema=schema)
        return rows if hits == rows.num_rows else rows.filter(chosen)

    def _deciding(self, block: Sequence[Group], conditions: Sequence[_Condition]) -> list[_Condition]:
        """The conditions that the bounds of some group leave open: bounds say nothing of nulls."""
        return [
            one
            for one in conditions
            if self._schema.field(one.column).nullable
            or not all(one.holds(group.bounds.get(one.column)) for group in block)
        ]

    def _mask(
        self, block: Sequence[Group], deciding: Sequence[_Condition], keys: pa.Table | None
    ) -> tuple[pa.Table, pl.Series]:
        """The columns that decide, and which rows they take."""
        names = dict.fromkeys([one.column for one in deciding] + ([] if keys is None else keys.column_names))
        rows = pa.concat_tables(self._groups.read(block, list(names)))
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        mask = pl.repeat(True, frame.height, eager=True)
        for one in deciding:
            mask &= one.mask(frame[one.column]).fill_null(False)
        if keys is not None:
            wanted = frame.with_row_index("_row").filter(mask)
            taken = wanted.join(pl.DataFrame(keys), on=keys.column_names, how="semi")["_row"]
            mask = pl.repeat(False, frame.height, eager=True).scatter(taken, True)
        return rows, mask


def _holding(block: Sequence[Group], decided: pa.Table, mask: pl.Series) -> tuple[Sequence[Group], pa.Table, pa.Array]:
    """Of some groups those with a row that is wanted, their part of a table of all, and of which rows are."""
    held, parts, masks, start = [], [], [], 0
    for group in block:
        part = mask.slice(start, group.rows)
        if part.any():
            held.append(group)
            parts.append(decided.slice(start, group.rows))
            masks.append(part)
        start += group.rows
    return held, pa.concat_tables(parts), pl.concat(masks).to_arrow()


def _blocks(groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Groups of one file that follow each other, some at a time."""
    block: list[Group] = []
    for group in groups:
        if block and (group.path != block[0].path or sum(one.rows for one in block) >= _BLOCK_ROWS):
            yield block
            block = []
        block.append(group)
    if block:
        yield block


def _bounds_of(file: Mapping[str, Any], column: str) -> Bounds | None:
    """The bounds of a column in a file, by the table's log."""
    least, greatest = file.get(f"min.{column}"), file.get(f"max.{column}")
    return None if least is None or greatest is None else (least, greatest)
