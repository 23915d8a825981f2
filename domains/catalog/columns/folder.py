"""Folding one journal partition in columns, wherever that is known to give the same as one by one.

The plain events of the catalog's own topic go through `columnar`, all other records through `fold` as ever; an
aggregate's records in a bit all go one way. What both made is put together by position: rows of `entities` and of the
journal table, records to publish, outcomes. A rebuild does the same and asks for less of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.folded import Folded, Judged
from ....fold.judging import fold
from ....fold.readings import Readings, read_table
from ....fold.records import Record
from ....lake.storage.faults import writing
from ....schemas.encoding.cursor import Numbers
from ....schemas.positions import position
from ....streaming.folder import ENTITIES, JOURNAL, MOST_DIFFERING, PartitionFolder
from ....streaming.parts import StagedPart
from ....streaming.plan import PinnedLake, Plan, Task
from .columnar import OUTCOMES, Columnar, Made
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


def folder_of(plan: Plan, task: Task) -> type[PartitionFolder] | None:
    """What folds a task's share in columns; None where no rows of `entities` are asked for."""
    return ColumnFolder if ENTITIES in plan.written else None


class ColumnFolder(PartitionFolder):
    """Folds the slices of one partition of the catalog's topic."""

    def __init__(self, plan: Plan, task: Task, lake: PinnedLake) -> None:
        super().__init__(plan, task, lake)
        self._columns = Columnar(task.place, task.start, self._prior)
        self._unasked = 0
        self._most_rows = _FIRST_ROWS

    def _prefetch(self, rows: pa.Table) -> None:
        super()._prefetch(pa.table({"key": self._columns.prefetch(rows["key"])}))

    def _bit_rows(self) -> int:
        return _BIT_ROWS

    def _fold_bit(self, rows: pa.Table, epoch: int, end: int) -> None:
        at = 0
        while at < rows.num_rows:
            some = rows.slice(at, self._most_rows)
            at += some.num_rows
            behind = end if at == rows.num_rows else position(epoch, rows["offset"][at].as_py())
            self._fold_some(some, epoch, behind)

    def _fold_some(self, rows: pa.Table, epoch: int, end: int) -> None:
        part = self._part
        if part.stopped_by is not None:
            return
        with self._timed("read"):
            bit = self._read(rows, epoch, end)
        with self._timed("prior"):
            self._columns.lend(bit.readings)
            (prior,) = self._prior.fetch([bit.readings])
        with self._timed("fold"):
            folded = fold(bit.readings, prior, part.system_time)
            made = None if bit.plain is None else self._columns.fold(bit.plain, bit.running[bit.plain.row])
        self._prior.advance([folded])
        self._columns.borrow(folded)
        if "outcome" in rows.column_names:
            self._hold_both_against(bit, folded, made)
        folded = _as_they_came(bit, folded)
        with writing(self._root):
            with self._timed("write"):
                tables = self._tables_of_both(bit, folded, made)
                self._write(tables)
            if self._staged is not None:
                with self._timed("stage"):
                    self._stage(self._staged, folded, made, tables)
        self._tell_of_both(bit, folded, made)

    def _read(self, rows: pa.Table, epoch: int, end: int) -> _Bit:
        times = _milliseconds(rows)
        running = np.maximum(np.maximum.accumulate(times), self._part.system_time)
        plain = self._plain(rows, epoch)
        others = np.ones(len(times), np.bool_)
        if plain is not None:
            others[plain.row] = False
        readings = self._readings(rows, running, others, epoch, end)
        if readings.stopped_by is None:
            return _Bit(rows, times, running, others, plain, readings)
        judged = int(np.searchsorted(position(epoch, 0) + rows["offset"].to_numpy(), readings.end))
        plain = None if plain is None else plain.only(plain.row < judged)
        return _Bit(rows.slice(0, judged), times[:judged], running[:judged], others[:judged], plain, readings)

    def _plain(self, rows: pa.Table, epoch: int) -> Plain | None:
        """The plain events; none where nearly none were found a moment ago."""
        if self._unasked:
            self._unasked -= 1
            return None
        found = self._columns.plain(rows, epoch)
        if found is None or len(found.row) * _FEW_OF < rows.num_rows:
            self._unasked = _BITS_UNASKED
        return found

    def _readings(self, rows: pa.Table, running: Numbers, others: Numbers, epoch: int, end: int) -> Readings:
        """The records that are not plain, read one by one."""
        task, start = self._task, self._part.end
        if not others.any():
            return Readings(task.place, start, end, [], None)
        if others.all():
            return read_table(rows, task.place, epoch, start, end)
        timed = rows.set_column(
            rows.column_names.index("timestamp"), "timestamp", pa.array(running).cast(pa.timestamp("ms", "UTC"))
        )
        return read_table(timed.filter(pa.array(others)), task.place, epoch, start, end)

    def _tables_of_both(self, bit: _Bit, folded: Folded, made: Made | None) -> dict[str, pa.Table]:
        """The new rows of both ways, by table and then by position."""
        found = self._tables(folded)
        if made is not None:
            mark = self._task.held.get(ENTITIES, 0)
            rows = made.rows.filter(pc.greater_equal(made.rows["logical_timestamp"], mark))
            found[ENTITIES] = _by_position(rows, found.get(ENTITIES))
            self._most_rows = _fitting(made.rows)
            if JOURNAL in self._files:
                rows = journal_columns(self._task.place, bit.records, bit.times, made)
                found[JOURNAL] = _by_position(rows, found.get(JOURNAL))
        return found

    def _stage(self, staged: StagedPart, folded: Folded, made: Made | None, tables: dict[str, pa.Table]) -> None:
        if made is None:
            staged.write(folded, self._names, tables.get(ENTITIES))
            return
        judged = sorted([*folded.judged, *_spoken(made)], key=lambda one: one.record.position)
        staged.write_blocks(blocks_of_both(folded, made, self._names), replace(folded, judged=judged), self._names)

    def _tell_of_both(self, bit: _Bit, folded: Folded, made: Made | None) -> None:
        part = self._part
        part.add(folded)
        if made is not None:
            part.oldest_since(int(bit.times.min()))
            counts = np.bincount(made.judged.outcome, minlength=len(OUTCOMES)).tolist()
            part.verdicts.update({word: count for word, count in zip(OUTCOMES, counts, strict=True) if count})

    def _hold_both_against(self, bit: _Bit, folded: Folded, made: Made | None) -> None:
        """Note where the journal table says another outcome than its own bytes give, in the order of positions."""
        said, before = bit.records["outcome"], self._part.differing
        self._part.differing = []
        self._hold_against(said.filter(pa.array(bit.others)).to_pylist(), folded)
        found = self._part.differing
        if made is not None:
            outcomes: Any = pa.array(OUTCOMES).take(pa.array(made.judged.outcome))
            differ = pc.not_equal(outcomes, said.take(pa.array(made.plain.row)).combine_chunks())
            found = sorted(found + made.plain.position[differ.to_numpy(zero_copy_only=False)].tolist())
        self._part.differing = (before + found)[:MOST_DIFFERING]


def _fitting(rows: pa.Table) -> int:
    """How many events to fold at once, where rows are as long as these."""
    bytes_each = max(1, int(rows.nbytes) // max(1, int(rows.num_rows)))
    return max(1, min(_BIT_ROWS, _MADE_BYTES // bytes_each))


def _milliseconds(rows: pa.Table) -> Numbers:
    """Append times of records."""
    found: Numbers = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
    return found


def _as_they_came(bit: _Bit, folded: Folded) -> Folded:
    """The records that were folded one by one with their own append times, and the time that all records leave."""
    judged = [
        one if one.record.append_time == time else one._replace(record=one.record._replace(append_time=time))
        for one, time in zip(folded.judged, bit.times[bit.others].tolist(), strict=True)
    ]
    return replace(folded, judged=judged, system_time=int(bit.running[-1]) if len(bit.running) else folded.system_time)


def _spoken(made: Made) -> list[Judged]:
    """The plain events that outcomes speak of; of their records no more than where they stand."""
    which = np.flatnonzero(made.judged.outcome != ACCEPTED)
    columns = (which, made.plain.position[which], made.system_time[which])
    return [
        Judged(Record(place, time, None, None, ()), time, None, made.verdict(at))
        for at, place, time in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _by_position(rows: pa.Table, others: pa.Table | None) -> pa.Table:
    """Rows of the two ways, in the order of their positions: no event has rows of both."""
    if others is None:
        return rows
    both = pa.concat_tables([rows, others]).combine_chunks()
    order = np.argsort(both["logical_timestamp"].to_numpy(), kind="stable")
    return both.take(pa.array(order))
