"""Folding one journal partition in columns, wherever that is known to give the same as one by one.

The plain events of the catalog's own topic go through `columnar`, all other records through `fold` as ever; an
aggregate's records in a bit all go one way. What both made is put together by position: rows of `entities` and of the
journal table, records to publish, outcomes. A rebuild does the same and asks for less of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.faults import writing
from ..rules.catalog_columns import ACCEPTED
from ..schemas.cursor import Numbers
from ..schemas.positions import position
from .columnar import OUTCOMES, Columnar, Made
from .fold import fold
from .folded import Folded, Judged
from .folder import ENTITIES, JOURNAL, MOST_DIFFERING, PartitionFolder
from .journal_columns import journal_columns
from .plan import PinnedLake, Plan, Task
from .readings import Readings, read_table
from .records import Record

_BIT_ROWS = 16_384


def folder_of(plan: Plan, task: Task, lake: PinnedLake) -> PartitionFolder:
    """What folds a task: in columns where rows of `entities` of the catalog's own topic are asked for."""
    in_columns = ENTITIES in plan.written and task.place.domain == "catalog"
    return (ColumnFolder if in_columns else PartitionFolder)(plan, task, lake)


class ColumnFolder(PartitionFolder):
    """Folds the slices of one partition of the catalog's topic."""

    def __init__(self, plan: Plan, task: Task, lake: PinnedLake) -> None:
        super().__init__(plan, task, lake)
        self._columns = Columnar(task.place, task.start, self._prior)

    def _prefetch(self, rows: pa.Table) -> None:
        super()._prefetch(pa.table({"key": self._columns.prefetch(rows["key"])}))

    def _bit_rows(self) -> int:
        return _BIT_ROWS

    def _fold_bit(self, rows: pa.Table, epoch: int, end: int) -> None:
        part = self._part
        if part.stopped_by is not None:
            return
        with self._timed("read"):
            times = _milliseconds(rows)
            running = np.maximum(np.maximum.accumulate(times), part.system_time)
            plain = self._columns.plain(rows, epoch)
            others = np.ones(len(times), np.bool_)
            if plain is not None:
                others[plain.row] = False
            readings = self._readings(rows, running, others, epoch, end)
            if plain is not None and readings.stopped_by is not None:
                plain = plain.only(plain.position < readings.end)
        with self._timed("prior"):
            self._columns.lend(readings)
            (prior,) = self._prior.fetch([readings])
        with self._timed("fold"):
            folded = fold(readings, prior, part.system_time)
            made = None if plain is None else self._columns.fold(plain, running[plain.row])
        self._prior.advance([folded])
        self._columns.borrow(folded)
        if "outcome" in rows.column_names:
            self._hold_both_against(rows["outcome"], others, folded, made)
        judged = int(np.searchsorted(position(epoch, 0) + rows["offset"].to_numpy(), folded.end))
        folded = _as_they_came(folded, times[others], running[:judged])
        tables = self._write_both(folded, made, rows, times)
        self._stage_both(folded, made, tables)
        self._tell_of_both(folded, made, times[:judged])

    def _readings(self, rows: pa.Table, running: Numbers, others: Numbers, epoch: int, end: int) -> Readings:
        """The records that are not plain, read one by one; each with the time that the ones before it leave it."""
        task, start = self._task, self._part.end
        if not others.any():
            return Readings(task.place, start, end, [], None)
        timed = rows.set_column(
            rows.column_names.index("timestamp"), "timestamp", pa.array(running).cast(pa.timestamp("ms", "UTC"))
        )
        return read_table(timed.filter(pa.array(others)), task.place, epoch, start, end)

    def _write_both(self, folded: Folded, made: Made | None, records: pa.Table, times: Numbers) -> dict[str, pa.Table]:
        """Write the rows of both ways, by position; gives them by table."""
        with self._timed("write"), writing(self._root):
            tables = self._tables(folded)
            if made is not None:
                mark = self._task.held.get(ENTITIES, 0)
                rows = made.rows.filter(pc.greater_equal(made.rows["logical_timestamp"], mark))
                tables[ENTITIES] = _by_position(rows, tables.get(ENTITIES))
                if JOURNAL in self._files:
                    rows = journal_columns(self._task.place, records, times, made)
                    tables[JOURNAL] = _by_position(rows, tables.get(JOURNAL))
            self._write(tables)
            return tables

    def _stage_both(self, folded: Folded, made: Made | None, tables: dict[str, pa.Table]) -> None:
        if self._staged is None:
            return
        with self._timed("stage"), writing(self._root):
            if made is None:
                self._staged.write(folded, self._names, tables.get(ENTITIES))
            else:
                judged = sorted([*folded.judged, *_spoken(made)], key=lambda one: one.record.position)
                self._staged.write(replace(folded, judged=judged), self._names, made=made)

    def _tell_of_both(self, folded: Folded, made: Made | None, times: Numbers) -> None:
        part = self._part
        self._tell(folded)
        if len(times):
            least = int(times.min())
            part.oldest_ms = least if part.oldest_ms is None else min(part.oldest_ms, least)
        if made is not None:
            counts = np.bincount(made.judged.outcome, minlength=len(OUTCOMES)).tolist()
            part.verdicts.update({word: count for word, count in zip(OUTCOMES, counts, strict=True) if count})

    def _hold_both_against(self, said: pa.ChunkedArray, others: Numbers, folded: Folded, made: Made | None) -> None:
        """Note where the journal table says another outcome than its own bytes give, in the order of positions."""
        before = self._part.differing
        self._part.differing = []
        self._hold_against(said.filter(pa.array(others)).to_pylist(), folded)
        found = self._part.differing
        if made is not None:
            outcomes: Any = pa.array(OUTCOMES).take(pa.array(made.judged.outcome))
            differ = pc.not_equal(outcomes, said.take(pa.array(made.plain.row)).combine_chunks())
            found = sorted(found + made.plain.position[differ.to_numpy(zero_copy_only=False)].tolist())
        self._part.differing = (before + found)[:MOST_DIFFERING]


def _milliseconds(rows: pa.Table) -> Numbers:
    """Append times of records."""
    found: Numbers = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
    return found


def _as_they_came(folded: Folded, times: Numbers, running: Numbers) -> Folded:
    """The records that were folded one by one with their own append times, and the time that all records leave.

    Args:
        times: of the records that are not plain.
        running: the running system_time at each record that was judged.
    """
    judged = [
        one if one.record.append_time == time else one._replace(record=one.record._replace(append_time=time))
        for one, time in zip(folded.judged, times.tolist(), strict=False)
    ]
    return replace(folded, judged=judged, system_time=int(running[-1]) if len(running) else folded.system_time)


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
