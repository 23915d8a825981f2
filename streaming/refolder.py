"""Folding one journal partition again for its history tables alone, in columns wherever that is known to be the same.

Nothing is published and no journal rows are made, so of a plain event only its row and its outcome are asked for, and
both come from `columnar`. The other records go through `fold` as ever. An aggregate's records in a bit all go one way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.faults import writing
from ..lake.histories import HISTORIES
from ..schemas.cursor import Numbers
from ..schemas.positions import position
from .columnar import OUTCOMES, Columnar, Made
from .fold import fold
from .folded import Folded
from .folder import ENTITIES, MOST_DIFFERING, PartitionFolder, new_rows
from .plan import PinnedLake, Plan, Task
from .readings import Readings, read_table

_BIT_ROWS = 16_384


def can_refold(plan: Plan, task: Task) -> bool:
    """Whether rows of `entities` in the catalog's own topic, but no journal rows and no records, are asked for."""
    silent = plan.staging is None and "journal" not in plan.written
    return silent and ENTITIES in plan.written and task.place.domain == "catalog"


class Refolder(PartitionFolder):
    """Folds the slices of one journal partition for which `can_refold` is true."""

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
        with writing(self._root), self._timed("write"):
            self._write_both(folded, made)
        judged = int(np.searchsorted(position(epoch, 0) + rows["offset"].to_numpy(), folded.end))
        self._tell_of_both(folded, made, times[:judged], running[:judged])

    def _readings(self, rows: pa.Table, running: Numbers, others: Numbers, epoch: int, end: int) -> Readings:
        """The records that are not plain, read one by one; each with the time that the ones before it leave it."""
        task, start = self._task, self._part.end
        if not others.any():
            return Readings(task.place, start, end, [], None)
        timed = rows.set_column(
            rows.column_names.index("timestamp"), "timestamp", pa.array(running).cast(pa.timestamp("ms", "UTC"))
        )
        return read_table(timed.filter(pa.array(others)), task.place, epoch, start, end)

    def _write_both(self, folded: Folded, made: Made | None) -> None:
        mark = self._task.held.get(ENTITIES, 0)
        if made is None:
            self._write(folded)
            return
        rows = made.rows.filter(pc.greater_equal(made.rows["logical_timestamp"], mark))
        singly = list(new_rows(folded, ENTITIES, mark))
        if singly:
            both = pa.concat_tables([rows, HISTORIES[ENTITIES].to_arrow(singly)])
            rows = both.sort_by([("logical_timestamp", "ascending"), ("seq", "ascending")])
        self._part.rows += rows.num_rows
        if rows.num_rows:
            self._files[ENTITIES].write(rows)
        self._write(replace(folded, changes=[]))

    def _tell_of_both(self, folded: Folded, made: Made | None, times: Numbers, running: Numbers) -> None:
        part, oldest_ms = self._part, self._part.oldest_ms
        before = part.system_time
        self._tell(folded)
        part.system_time = int(running[-1]) if len(running) else before
        least = [int(times.min())] if len(times) else []
        part.oldest_ms = min([*least, *([] if oldest_ms is None else [oldest_ms])], default=None)
        if made is not None:
            counts = np.bincount(made.outcome, minlength=len(OUTCOMES)).tolist()
            part.verdicts.update({word: count for word, count in zip(OUTCOMES, counts, strict=True) if count})

    def _hold_both_against(self, said: pa.ChunkedArray, others: Numbers, folded: Folded, made: Made | None) -> None:
        """Note where the journal table says another outcome than its own bytes give, in the order of positions."""
        before = self._part.differing
        self._part.differing = []
        self._hold_against(said.filter(pa.array(others)).to_pylist(), folded)
        found = self._part.differing
        if made is not None:
            outcomes: Any = pa.array(OUTCOMES).take(pa.array(made.outcome))
            differ = pc.not_equal(outcomes, said.take(pa.array(made.plain.row)).combine_chunks())
            found = sorted(found + made.plain.position[differ.to_numpy(zero_copy_only=False)].tolist())
        self._part.differing = (before + found)[:MOST_DIFFERING]


def _milliseconds(rows: pa.Table) -> Numbers:
    """Append times of records."""
    found: Numbers = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
    return found
