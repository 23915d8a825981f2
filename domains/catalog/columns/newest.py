"""The newest rows of a partition's entities as columns: what the columnar way folds upon.

Rows stand in chunks of the `entities` table's schema, by the number of their Kafka key; an entity is unknown until it
was looked up or folded. Superseded rows are dropped from time to time, so there are at most a few for each entity.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....lake.columns import ENTITIES
from ....lake.entities import row_from_dict
from ....rules.entity import EntityRow
from ....schemas.encoding.cursor import Numbers

METADATA: Final = ("user_properties", "user_tags", "system_properties", "system_tags")
"""Columns of the spaces of `rules.catalog_columns`, in their order."""
MOST_BYTES: Final = 32 * 1024
"""Most bytes of names and values that an entity holds and is given in one fold to be folded in columns. As JSON each
byte takes at most six, and each name with its value six more, so all of it stays below MAX_ENTITY_BYTES."""
_UNKNOWN, _NONE = -2, -1
_MOST_CHUNKS: Final = 64
_MOST_BYTES_HELD: Final = 256 * 1024 * 1024


class NewestMetadata(NamedTuple):
    """What some entities hold: for each of METADATA a list array or map array, in the order asked for.

    Attributes:
        which: the entities that are there, by their place among those asked for; the columns have these only.
    """

    which: Numbers
    columns: list[pa.Array]


class NewestRows:
    """Newest rows by the numbers of keys."""

    def __init__(self) -> None:
        self._chunks: list[pa.RecordBatch] = []
        self._chunk = np.zeros(0, np.int64)
        self._row = np.zeros(0, np.int64)
        self._live = np.zeros(0, np.bool_)
        self._size = np.zeros(0, np.int64)
        self._bytes = 0
        self._most_bytes = _MOST_BYTES_HELD

    def grow(self, count: int) -> None:
        """Make room for the numbers below `count`."""
        more = max(0, count - len(self._row))
        self._chunk = np.append(self._chunk, np.zeros(more, np.int64))
        self._row = np.append(self._row, np.full(more, _UNKNOWN))
        self._live = np.append(self._live, np.zeros(more, np.bool_))
        self._size = np.append(self._size, np.zeros(more, np.int64))

    def unknown(self, numbers: Numbers) -> Numbers:
        """Those of the numbers that nothing is known of."""
        unknown_numbers: Numbers = numbers[self._row[numbers] == _UNKNOWN]
        return unknown_numbers

    def room(self) -> Numbers:
        """Of each number, how many bytes of names and values its entity may be given; negative: not even none."""
        return MOST_BYTES - self._size

    def learn(self, numbers: Numbers, places: Numbers, rows: pa.Table) -> None:
        """Take over newest rows.

        Args:
            numbers: those of the rows' keys, each once.
            places: where in `rows` the row of each number stands.
            rows: of schema ENTITIES.
        """
        batches = rows.combine_chunks().to_batches()
        ends = np.cumsum([0, *(len(batch) for batch in batches)])
        chunk = np.searchsorted(ends, places, side="right") - 1
        self._chunk[numbers], self._row[numbers] = chunk + len(self._chunks), places - ends[chunk]
        for number, batch in enumerate(batches):
            own = chunk == number
            within = pa.array(places[own] - ends[number])
            self._live[numbers[own]] = ~batch["deleted"].take(within).to_numpy(zero_copy_only=False)
            self._size[numbers[own]] = _sizes(batch)[places[own] - ends[number]]
        self._chunks += batches
        self._bytes += rows.nbytes
        if len(self._chunks) > _MOST_CHUNKS or self._bytes > self._most_bytes:
            self._merge()

    def learn_absent(self, numbers: Numbers) -> None:
        """Take over that these keys have no row."""
        self._row[numbers], self._live[numbers], self._size[numbers] = _NONE, False, 0

    def live(self, numbers: Numbers) -> Numbers:
        """Which of the entities are there."""
        are_live: Numbers = self._live[numbers]
        return are_live

    def metadata(self, numbers: Numbers) -> NewestMetadata:
        """What the entities of these numbers hold, of those that are there."""
        which = np.flatnonzero(self._live[numbers])
        chunk, row = self._chunk[numbers[which]], self._row[numbers[which]]
        order = np.argsort(chunk, kind="stable")
        ends = np.searchsorted(chunk[order], np.arange(len(self._chunks) + 1))
        columns: list[list[pa.Array]] = [[] for _ in METADATA]
        for number, batch in enumerate(self._chunks):
            rows = pa.array(row[order[ends[number] : ends[number + 1]]])
            for parts, name in zip(columns, METADATA, strict=True):
                parts.append(batch[name].take(rows))
        empty = [pa.array([], ENTITIES.field(name).type) for name in METADATA]
        return NewestMetadata(
            which[order], [pa.concat_arrays([none, *parts]) for none, parts in zip(empty, columns, strict=True)]
        )

    def row(self, number: int) -> EntityRow | None:
        """The row of one entity that something is known of, as the rules have it."""
        if self._row[number] == _NONE:
            return None
        single = self._chunks[self._chunk[number]].slice(self._row[number], 1)
        return row_from_dict(single.to_pylist(maps_as_pydicts="strict")[0])

    def _merge(self) -> None:
        """Keep those rows only that still count."""
        numbers = np.flatnonzero(self._row >= 0)
        numbers = numbers[np.argsort(self._chunk[numbers], kind="stable")]
        ends = np.searchsorted(self._chunk[numbers], np.arange(len(self._chunks) + 1))
        rows = self._row[numbers]
        parts = [
            chunk.take(pa.array(rows[start:stop]))
            for chunk, start, stop in zip(self._chunks, ends, ends[1:], strict=False)
        ]
        self._chunks = pa.Table.from_batches(parts).combine_chunks().to_batches()
        sizes = [len(chunk) for chunk in self._chunks]
        self._chunk[numbers] = np.repeat(np.arange(len(sizes)), sizes)
        self._row[numbers] = np.concatenate([np.arange(size) for size in sizes])
        self._bytes = sum(chunk.nbytes for chunk in self._chunks)
        self._most_bytes = max(_MOST_BYTES_HELD, 2 * self._bytes)


def _sizes(batch: pa.RecordBatch) -> Numbers:
    """Bytes of names and values that each row holds; beyond MOST_BYTES where its domain has a record of it."""
    total = np.where(batch["record"].is_valid().to_numpy(zero_copy_only=False), MOST_BYTES + 1, 0)
    for name in METADATA:
        for flat in flat_texts(batch[name]):
            behind = np.append(0, np.cumsum(pc.binary_length(flat).to_numpy(zero_copy_only=False)))
            bounds = batch[name].offsets.to_numpy()
            total = total + np.diff(behind[bounds - bounds[0]])
    return total


def flat_texts(column: pa.Array) -> list[pa.Array]:
    """The texts of a column of lists or maps, in one row: names, and of maps their values."""
    bounds = column.offsets
    first, last = bounds[0].as_py(), bounds[-1].as_py()
    if isinstance(column, pa.MapArray):
        return [column.keys.slice(first, last - first), column.items.slice(first, last - first)]
    return [column.values.slice(first, last - first)]
