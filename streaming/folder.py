"""Folding one journal partition's share of a batch into files, slice by slice.

Each slice is folded when the next one says where it ends. What a slice made is seen by the following ones; nothing
that is written counts before the driver commits it. Files are written by a thread, most of whose work is done without
Python's lock, while the next piece is folded.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
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
_WAITING: Final = 6
"""Pieces that are folded and not written: what they made is in memory."""


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
        self._writer = ThreadPoolExecutor(1, "write")
        self._unwritten: deque[Future[None]] = deque()

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
        self._part.size_bytes += rows.nbytes
        if self._waiting is not None:
            self._fold(*self._waiting, position(epoch, rows["offset"][0].as_py()))
        self._waiting = rows, epoch

    def close(self) -> Part:
        part = self._part
        if self._waiting is not None:
            self._fold(*self._waiting, self._task.end)
        else:
            part.end = self._task.end
        self._wait(0)
        others = [name for name in self._files if name != JOURNAL_TABLE]
        closing = {name: self._writer.submit(self._files[name].close) for name in others}
        with writing(self._root):
            part.files = {name: files.close() for name, files in self._files.items() if name == JOURNAL_TABLE}
            part.files |= {name: closed.result() for name, closed in closing.items()}
            part.staged = self._staged is not None and self._staged.close()
        self._writer.shutdown()
        return part

    def discard(self) -> None:
        """Delete the files that were written; what is staged goes with its batch."""
        self._writer.shutdown(cancel_futures=True)
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
            if "outcome" in rows.column_names:
                part.differing = (part.differing + made.differing(share.records["outcome"]))[:MOST_DIFFERING]
            part.add(made)
            tables = self._rows_of(made)
            self._lap("rows")
            self._wait(_WAITING - 1)
            self._unwritten.append(self._writer.submit(self._write, made, tables))

    def _wait(self, most: int) -> None:
        """Wait until at most so many pieces are not written. Raises: what kept one from being written."""
        while len(self._unwritten) > most:
            self._unwritten.popleft().result()

    def _lap(self, step: str) -> None:
        now = time.thread_time()
        self._part.seconds[step] += now - self._lap_began
        self._lap_began = now

    def _rows_of(self, made: Made) -> dict[str, pa.Table]:
        """The rows of each table, above what it holds."""
        rows = {name: made.rows(name, self._task.marks.get(name, 0)) for name in self._files}
        tables = {name: some for name, some in rows.items() if some is not None and some.num_rows}
        self._part.rows += sum(some.num_rows for name, some in tables.items() if name != JOURNAL_TABLE)
        return tables

    def _write(self, made: Made, tables: Mapping[str, pa.Table]) -> None:
        """Add the rows to the files; stage what is published."""
        seconds, began = self._part.seconds, time.thread_time()
        with writing(self._root):
            for name, rows in tables.items():
                self._files[name].write(rows)
            written = time.thread_time()
            seconds["write"] += written - began
            if self._staged is not None:
                self._staged.write(made, self._names, tables)
                seconds["stage"] += time.thread_time() - written
