"""Fields of many values side by side: a reader for each of Avro's types that contracts use.

`read` moves the cursor and gives numbers; `make` makes values of them once all is known to be right. The numbers of a
flat type are `width` vectors, so that it can be the entries of lists. Which readers a contract takes is left to `bulk`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np

from . import wire
from .cursor import Cursor, Numbers, Source

Vectors: TypeAlias = "tuple[Numbers, ...] | list[Numbers]"
Values: TypeAlias = list[Any]

MOST_ITEMS: Final = 64
"""Entries of a list or map that are read side by side; a value with more is read by itself."""


class BytesColumn:
    width = 2

    def __init__(self, size: int | None = None) -> None:
        self._size = size

    def read(self, cursor: Cursor) -> Vectors:
        return cursor.span() if self._size is None else cursor.skip(np.int64(self._size))

    def make(self, spans: Vectors, source: Source) -> Values:
        data = source.data
        return [data[start:stop] for start, stop in zip(spans[0].tolist(), spans[1].tolist())]  # noqa: B905


class TextColumn:
    """A text; one that comes up in many events is made once."""

    width = 2

    def __init__(self, *, recurring: bool) -> None:
        self._recurring = recurring

    def read(self, cursor: Cursor) -> Vectors:
        return cursor.span()

    def make(self, spans: Vectors, source: Source) -> Values:
        return source.recurring_texts(*spans) if self._recurring else source.texts(*spans)


class LongColumn:
    width = 1

    def __init__(self, least: int = wire.MIN_LONG, most: int = wire.MAX_LONG) -> None:
        self._least, self._most = least, most

    def read(self, cursor: Cursor) -> Vectors:
        value = cursor.long()
        cursor.require((value >= self._least) & (value <= self._most))
        return (value,)

    def make(self, numbers: Vectors, _: Source) -> Values:
        values: Values = numbers[0].tolist()
        return values


class EnumColumn(LongColumn):
    def __init__(self, symbols: Sequence[str]) -> None:
        super().__init__(0, len(symbols) - 1)
        self._symbols = tuple(symbols)

    def make(self, numbers: Vectors, _: Source) -> Values:
        return [self._symbols[number] for number in numbers[0].tolist()]


class BooleanColumn:
    width = 1

    def read(self, cursor: Cursor) -> Vectors:
        value = cursor.byte()
        cursor.require(value <= 1)
        return (value == 1,)

    def make(self, numbers: Vectors, _: Source) -> Values:
        values: Values = numbers[0].tolist()
        return values


class FlatRecordColumn:
    """A record of flat fields, or the pairs of a map: its vectors are theirs, one behind the other."""

    def __init__(self, fields: Sequence[Any], make_all: Callable[..., Values]) -> None:
        self._fields = fields
        self._make_all = make_all
        self._bounds = list(accumulate((field.width for field in fields), initial=0))
        self.width = self._bounds[-1]

    def read(self, cursor: Cursor) -> Vectors:
        return tuple(vector for field in self._fields for vector in field.read(cursor))

    def make(self, vectors: Vectors, source: Source) -> Values:
        bounds = zip(self._fields, self._bounds, self._bounds[1:], strict=False)
        return self._make_all(*(field.make(vectors[start:stop], source) for field, start, stop in bounds))


def pairs(keys: Values, values: Values) -> Values:
    return list(zip(keys, values, strict=True))


class RecordColumn:
    """A record of any fields.

    Args:
        fields: what reads each.
        make_all: the records of their fields' columns.
    """

    def __init__(self, fields: Sequence[Any], make_all: Callable[..., Values]) -> None:
        self._fields = fields
        self._make_all = make_all

    def read(self, cursor: Cursor) -> Any:
        return [field.read(cursor) for field in self._fields]

    def make(self, states: Any, source: Source) -> Values:
        return self._make_all(*(field.make(state, source) for field, state in zip(self._fields, states, strict=True)))


class NullableColumn:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def read(self, cursor: Cursor) -> Any:
        branch = cursor.long()
        cursor.require((branch == 0) | (branch == 1))
        rows = np.flatnonzero(branch == 1)
        if not len(rows):
            return rows, len(branch), None
        some = cursor.only(rows)
        state = self._inner.read(some)
        cursor.put_back(rows, some)
        return rows, len(branch), state

    def make(self, state: Any, source: Source) -> Values:
        rows, count, inner = state
        made: Values = self._inner.make(inner, source) if len(rows) else []
        if len(rows) == count:
            return made
        values: Values = [None] * count
        for row, value in zip(rows.tolist(), made, strict=True):
            values[row] = value
        return values


class ListColumn:
    """A list of flat entries, or a map as one of pairs: a single block, and none behind it."""

    def __init__(self, item: Any, container: Callable[[Values], Any]) -> None:
        self._item = item
        self._container = container

    def read(self, cursor: Cursor) -> Any:
        counts = cursor.long()
        cursor.require((counts >= 0) & (counts <= MOST_ITEMS))
        counts = np.where(cursor.right, counts, 0)
        stops = np.cumsum(counts)
        vectors = [np.empty(stops[-1], np.int64) for _ in range(self._item.width)]
        for number in range(int(counts.max())):
            rows = np.flatnonzero(counts > number)
            some = cursor.only(rows)
            places = stops[rows] - counts[rows] + number
            for vector, read in zip(vectors, self._item.read(some), strict=True):
                vector[places] = read
            cursor.put_back(rows, some)
        filled = np.flatnonzero(counts)
        some = cursor.only(filled)
        some.require(some.byte() == 0)
        cursor.put_back(filled, some)
        return stops, vectors

    def make(self, state: Any, source: Source) -> Values:
        stops, vectors = state
        items, container, bounds = self._item.make(vectors, source), self._container, stops.tolist()
        if container is tuple and bounds[0] == 1 and bounds[-1] == len(bounds) and (np.diff(stops) == 1).all():
            return list(zip(items, strict=True))  # one each, as nearly every event has one entity
        return [container(items[start:stop]) for start, stop in zip([0, *bounds], bounds)]  # noqa: B905
