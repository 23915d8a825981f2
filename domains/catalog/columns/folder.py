"""Folding one journal partition in columns, wherever that is known to give the same as one by one.

The plain events of the catalog's own topic go through `columnar`, all other records through `fold` as ever; an
aggregate's records in a bit all go one way. What both made is put together by position: rows of `entities` and of the
journal table, records to publish, outcomes. A rebuild does the same and asks for less of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.documents import DocumentColumns, Documents
from ....fold.folded import Folded, Judged, Prior
from ....fold.prior import PriorRows
from ....fold.readings import Readings
from ....fold.records import Record, named_in
from ....fold.steps import Folder, FoldRequest, Lap, Made, MadeOfRows, RowFolder, Share, bits
from ....lake.columns import ENTITIES_TABLE, JOURNAL_TABLE
from ....schemas.encoding.cursor import Numbers
from ....schemas.positions import position
from ....schemas.topics import TopicNames
from .columnar import OUTCOMES, Columnar
from .columnar import Made as Columns
from .documents import blocks_of_both
from .journal_columns import journal_columns
from .judging import ACCEPTED
from .plain import Plain

_BIT_ROWS = 16_384
_FIRST_ROWS = 4_096
_MADE_BYTES = 64 * 1024 * 1024
"""Most bytes of rows that are made at once, as far as those before tell: a short event may make a long row."""
_FEW_OF = 8
"""Where fewer than one record in so many is plain, it is not worth looking for them ..."""
_BITS_UNASKED = 7
"""... in so many of the following bits."""


class _Bit(NamedTuple):
    """Some records, of which the plain ones are to be folded in columns; up to where the partition stops.

    Attributes:
        times: their append times, milliseconds UTC.
        running: the running system_time at each.
        others: which of them are not plain.
        readings: those, each with the time that the ones before it leave it.
    """

    records: pa.Table
    times: Numbers
    running: Numbers
    others: Numbers
    plain: Plain | None
    readings: Readings


def folder_of(request: FoldRequest, prior: PriorRows) -> Folder | None:
    """What folds a task's share in columns; None where no rows of `entities` are asked for."""
    return ColumnFolder(request, prior) if ENTITIES_TABLE in request.tables else None


class ColumnFolder:
    """Folds the records of one partition of the catalog's topic."""

    def __init__(self, request: FoldRequest, prior: PriorRows) -> None:
        self._prior = prior
        self._others = RowFolder(prior)
        self._columns = Columnar(request.place, request.start, prior)
        self._unasked = 0
        self._most_rows = _FIRST_ROWS

    def pieces(self, share: Share, lap: Lap) -> Iterator[Share]:
        others = pa.table({"key": self._columns.prefetch(share.records["key"])})
        self._prior.prefetch(named_in(others, share.place), share.place)
        lap("prior")
        for bit in bits(share, _BIT_ROWS):
            first = 0
            while first < len(bit.records):
                piece = bit.cut(first, first + self._most_rows)
                first += len(piece.records)
                yield piece

    def read(self, share: Share) -> _Bit:
        rows = share.records
        times = _milliseconds(rows)
        running = np.maximum(np.maximum.accumulate(times), share.system_time)
        plain = self._plain(rows, share.epoch)
        others = np.ones(len(times), np.bool_)
        if plain is not None:
            others[plain.row] = False
        readings = self._readings(share, running, others)
        if readings.stopped_by is None:
            return _Bit(rows, times, running, others, plain, readings)
        judged = int(np.searchsorted(position(share.epoch, 0) + rows["offset"].to_numpy(), readings.end))
        plain = None if plain is None else plain.only(plain.row < judged)
        return _Bit(rows.slice(0, judged), times[:judged], running[:judged], others[:judged], plain, readings)

    def _plain(self, rows: pa.Table, epoch: int) -> Plain | None:
        """The plain events; none where nearly none were found a moment ago."""
        if self._unasked:
            self._unasked -= 1
            return None
        plain = self._columns.plain(rows, epoch)
        if plain is None or len(plain.row) * _FEW_OF < rows.num_rows:
            self._unasked = _BITS_UNASKED
        return plain

    def _readings(self, share: Share, running: Numbers, others: Numbers) -> Readings:
        """The records that are not plain, read one by one."""
        place, rows, _, start, end, *_ = share
        if not others.any():
            return Readings(place, start, end, [], None)
        if others.all():
            return self._others.read(share)
        timed = rows.set_column(
            rows.column_names.index("timestamp"), "timestamp", pa.array(running).cast(pa.timestamp("ms", "UTC"))
        )
        return self._others.read(share._replace(records=timed.filter(pa.array(others))))

    def prior(self, read: Sequence[_Bit]) -> list[Prior]:
        for bit in read:
            self._columns.lend(bit.readings)
        return self._others.prior([bit.readings for bit in read])

    def fold(self, share: Share, read: _Bit, prior: Prior) -> _MadeOfBoth:
        others = self._others.fold(share, read.readings, prior)
        if read.plain is None:
            return _MadeOfBoth(read, _as_they_came(read, others), None)
        made = self._columns.fold(read.plain, read.running[read.plain.row])
        self._most_rows = _fitting(made.rows)
        return _MadeOfBoth(read, _as_they_came(read, others), made)

    def advance(self, made: Made) -> None:
        self._others.advance(made)
        self._columns.borrow(made.folded)


class _MadeOfBoth(NamedTuple):
    """What some records gave, put together by position.

    Attributes:
        others: of those that were folded one by one.
        made: of those that were folded in columns; None where there are none.
    """

    bit: _Bit
    others: MadeOfRows
    made: Columns | None

    @property
    def folded(self) -> Folded:
        return self.others.folded

    @property
    def verdicts(self) -> Counter[str]:
        counted = self.others.verdicts
        if self.made is not None:
            counts = np.bincount(self.made.judged.outcome, minlength=len(OUTCOMES)).tolist()
            counted.update({word: count for word, count in zip(OUTCOMES, counts, strict=True) if count})
        return counted

    @property
    def oldest_ms(self) -> int | None:
        return self.others.oldest_ms if self.made is None else int(self.bit.times.min())

    def rows(self, table: str, mark: int) -> pa.Table | None:
        others, made = self.others.rows(table, mark), self.made
        if made is None or table not in (ENTITIES_TABLE, JOURNAL_TABLE):
            return others
        if table == JOURNAL_TABLE:
            return _by_position(journal_columns(self.folded.place, self.bit.records, self.bit.times, made), others)
        rows = made.rows.filter(pc.greater_equal(made.rows["logical_timestamp"], mark))
        return _by_position(rows, others)

    def blocks(self, names: TopicNames, tables: Mapping[str, pa.Table]) -> Iterable[Documents | DocumentColumns]:
        if self.made is None:
            return self.others.blocks(names, tables)
        return blocks_of_both(self.folded, self.made, names)

    def with_spoken(self) -> Folded:
        if self.made is None:
            return self.folded
        judged = sorted(
            [*self.folded.judged, *_spoken(self.made)], key=lambda judged_record: judged_record.record.position
        )
        return replace(self.folded, judged=judged)

    def differing(self, outcomes: pa.ChunkedArray) -> list[int]:
        outcomes = outcomes.slice(0, len(self.bit.others))
        others_differing, made = self.others.differing(outcomes.filter(pa.array(self.bit.others))), self.made
        if made is None:
            return others_differing
        words: Any = pa.array(OUTCOMES).take(pa.array(made.judged.outcome))
        differ = pc.not_equal(words, outcomes.take(pa.array(made.plain.row)).combine_chunks())
        return sorted(others_differing + made.plain.position[differ.to_numpy(zero_copy_only=False)].tolist())


def _fitting(rows: pa.Table) -> int:
    """How many events to fold at once, where rows are as long as these."""
    bytes_each = max(1, int(rows.nbytes) // max(1, int(rows.num_rows)))
    return max(1, min(_BIT_ROWS, _MADE_BYTES // bytes_each))


def _milliseconds(rows: pa.Table) -> Numbers:
    """Append times of records."""
    times: Numbers = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
    return times


def _as_they_came(bit: _Bit, made: MadeOfRows) -> MadeOfRows:
    """The records that were folded one by one with their own append times, and the time that all records leave."""
    folded = made.folded
    judged = [
        judged_record
        if judged_record.record.append_time == time
        else judged_record._replace(record=judged_record.record._replace(append_time=time))
        for judged_record, time in zip(folded.judged, bit.times[bit.others].tolist(), strict=True)
    ]
    system_time = int(bit.running[-1]) if len(bit.running) else folded.system_time
    return MadeOfRows(replace(folded, judged=judged, system_time=system_time))


def _spoken(made: Columns) -> list[Judged]:
    """The plain events that outcomes speak of; of their records no more than where they stand."""
    which = np.flatnonzero(made.judged.outcome != ACCEPTED)
    columns = (which, made.plain.position[which], made.system_time[which])
    return [
        Judged(Record(place, time, None, None, ()), time, None, made.verdict(number))
        for number, place, time in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _by_position(rows: pa.Table, others: pa.Table | None) -> pa.Table:
    """Rows of the two ways, in the order of their positions: no event has rows of both."""
    if others is None:
        return rows
    both = pa.concat_tables([rows, others]).combine_chunks()
    order = np.argsort(both["logical_timestamp"].to_numpy(), kind="stable")
    return both.take(pa.array(order))
