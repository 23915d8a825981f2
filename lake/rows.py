"""Rows of a history table as columns: what all rows of an event have in common is converted once for each event.

An event of a thousand files makes two thousand rows and more, of which two columns in five are the event's own. Which
they are follows from what a row is: all rows of one event carry the same header.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

OF_EVENT: Final = frozenset(
    {"tenant", "aggregate", "logical_timestamp", "system_time", "event_time", "event_id", "actor"}
)
"""Columns of every history table that are the same in all rows of an event."""
_FEWEST: Final = 4
"""So many rows of one event, or of one value, make it worth while."""


def each_once(values: Sequence[Any], make: Callable[[Sequence[Any]], pa.Array]) -> pa.Array:
    """A column of values of which many are one and the same object: each object is converted once.

    Args:
        make: the column of some values.
    """
    numbers: dict[int, int] = {}
    places = [numbers.setdefault(id(value), len(numbers)) for value in values]
    if len(numbers) * _FEWEST > len(values):
        return make(values)
    distinct = dict(zip(places, values, strict=True))
    return make([distinct[number] for number in range(len(numbers))]).take(pa.array(places, pa.int32()))


def filled(schema: pa.Schema, shared: pa.Table, event: Any, made: Mapping[str, pa.Array]) -> pa.Table:
    """A table of columns that are made, and of those that all rows of an event share.

    Args:
        shared: a row for each event.
        event: number of each row's event.
        made: columns by their names.
    """
    rows = pa.array(event)
    columns = [made.get(field.name) if field.name in made else shared[field.name].take(rows) for field in schema]
    return pa.table(columns, schema=schema)


class RowColumns:
    """The columns of some rows.

    Args:
        given: (row, domain, journal partition), at least one; rows of one event stand behind each other.
        fields: names of the rows' fields.
        of_event: those that are the same in all rows of an event.
    """

    def __init__(
        self, given: Sequence[tuple[Any, str, int]], fields: Sequence[str], of_event: Collection[str] = OF_EVENT
    ) -> None:
        self._rows = [row for row, _, _ in given]
        self._places = {name: number for number, name in enumerate(fields)}
        self._of_event = of_event
        self._made = {
            "domain": pa.array([domain for _, domain, _ in given], pa.string()),
            "journal_partition": pa.array([partition for _, _, partition in given], pa.int32()),
            "logical_timestamp": pa.array(self.values("logical_timestamp"), pa.int64()),
        }
        self._ends = self._events()
        self._last = [self._rows[end - 1] for end in self._ends.to_pylist()]
        self._is_worth_while = len(self._last) * _FEWEST <= len(self._rows)

    def _events(self) -> pa.Array:
        """Where the rows of each event end: behind them another place in the log begins."""
        differ = pa.array([False] * (len(self._rows) - 1), pa.bool_())
        for name in ("domain", "journal_partition", "logical_timestamp"):
            column = self._made[name]
            differ = pc.or_(differ, pc.not_equal(column[1:], column[:-1]))
        ends = pc.add(pc.indices_nonzero(differ).cast(pa.int32()), pa.scalar(1, pa.int32()))
        return pa.concat_arrays([ends, pa.array([len(self._rows)], pa.int32())])

    def values(self, name: str) -> list[Any]:
        """The values of a field, row by row."""
        return list(map(itemgetter(self._places[name]), self._rows))

    def array(self, name: str, kind: pa.DataType) -> pa.Array:
        """A column."""
        if name in self._made:
            return self._made[name]
        if name not in self._of_event or not self._is_worth_while:
            return pa.array(self.values(name), kind)
        values = pa.array(list(map(itemgetter(self._places[name]), self._last)), kind)
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(self._ends, values))
