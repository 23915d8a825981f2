"""Folding one journal partition's share of a batch into files, slice by slice.

Each slice is folded when the next one says where it ends. What a slice made is seen by the following ones; nothing
that is written counts before the driver commits it.
"""

from __future__ import annotations

import time
from typing import Final

import pyarrow as pa

from ..fold.steps import Folder, Made, Share, fold_shares
from ..lake.columns import JOURNAL_TABLE
from ..lake.storage.faults import writing
from ..lake.storage.files import TableFiles
from ..schemas.errors import StreamError
from ..schemas.positions import position
from .parts import StagedPart
from .plan import Part, Plan, Task

MOST_DIFFERING: Final = 100


class PartitionFolder:
    """Folds the slices of one journal partition, one after the other.

    Args:
        plan: the batch.
        task: the partition's share of it.
        folder: how its records are folded.
    """

    def __init__(self, plan: Plan, task: Task, folder: Folder) -> None:
        self._task = task
        self._names = plan.names
        self._folder = folder
        pins = {name: plan.pins[name] for name in plan.written}
        self._root = next(iter(pins.values())).uri if pins else ""
        self._files = {name: TableFiles(pin.name, pin.uri, pin.storage_options) for name, pin in pins.items()}
        self._staged = None if plan.staging is None else StagedPart(plan.staging, task.place)
        self._waiting: tuple[pa.Table, int] | None = None
        self._next = task.start
        self._part = Part((task.place.topic, task.place.partition), task.start, task.system_time)
        self._lap_began = 0.0

    def take(self, rows: pa.Table, epoch: int) -> None:
        """Fold a slice as soon as the next one says where it ends.

        Raises:
            StreamError: it does not stand behind the one before (or the mark) and before the planned end.
        """
        first, last = (position(epoch, rows["offset"][row].as_py()) for row in (0, -1))
        if not self._next <= first <= last < self._task.end:
            place = self._task.place
            raise StreamError(
                f"A batch of {place.topic}/{place.partition} does not lie between its mark and its planned end.",
                hint="Start the stream again: it starts at its marks with a new checkpoint.",
            )
        self._next = last + 1
        if self._waiting is not None:
            self._fold(*self._waiting, position(epoch, rows["offset"][0].as_py()))
        self._waiting = rows, epoch

    def close(self) -> Part:
        part = self._part
        if self._waiting is not None:
            self._fold(*self._waiting, self._task.end)
        else:
            part.end = self._task.end
        with writing(self._root):
            part.files = {name: files.close() for name, files in self._files.items()}
            part.staged = self._staged is not None and self._staged.close()
        return part

    def discard(self) -> None:
        """Delete the files that were written; what is staged goes with its batch."""
        for files in self._files.values():
            files.discard()
        if self._staged is not None:
            self._staged.discard()

    def _fold(self, rows: pa.Table, epoch: int, end: int) -> None:
        part = self._part
        self._lap_began = time.thread_time()
        slice_ = Share(self._task.place, rows, epoch, part.end, end, part.system_time)
        for piece in self._folder.pieces(slice_, self._lap):
            if part.stopped_by is not None:
                return
            share = piece._replace(start=part.end, system_time=part.system_time)
            (made,) = fold_shares(self._folder, [share], self._lap)
            self._folder.advance(made)
            self._write(made)
            if "outcome" in rows.column_names:
                part.differing = (part.differing + made.differing(share.records["outcome"]))[:MOST_DIFFERING]
            part.add(made)

    def _lap(self, step: str) -> None:
        now = time.thread_time()
        self._part.seconds[step] += now - self._lap_began
        self._lap_began = now

    def _write(self, made: Made) -> None:
        """Add the rows to the files, above what each table holds; stage what is published."""
        tables = {}
        with writing(self._root):
            for name, files in self._files.items():
                rows = made.rows(name, self._task.marks.get(name, 0))
                if rows is not None and rows.num_rows:
                    tables[name] = rows
                    files.write(rows)
                    self._part.rows += 0 if name == JOURNAL_TABLE else rows.num_rows
            self._lap("write")
            if self._staged is not None:
                self._staged.write(made, self._names, tables)
                self._lap("stage")
