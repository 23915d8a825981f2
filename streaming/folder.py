"""Folding one journal partition's share of a batch into files, slice by slice.

Each slice is folded when the next one says where it ends. What a slice made is seen by the following ones; nothing
that is written counts before the driver commits it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from ..fold.folded import Folded
from ..fold.journal import journal_table
from ..fold.judging import fold
from ..fold.prior import PriorRows
from ..fold.readings import read_table
from ..fold.records import named_in
from ..lake.declared import made_arrow
from ..lake.storage.faults import writing
from ..lake.storage.files import TableFiles
from ..schemas.errors import StreamError
from ..schemas.positions import position
from .parts import StagedPart
from .plan import Part, PinnedLake, Plan, Task

ENTITIES: Final = "entities"
JOURNAL: Final = "journal"
_BIT_ROWS = 8_192
_BIT_BYTES = 4 * 1024 * 1024  # an event of a thousand files makes several thousand rows and documents
MOST_DIFFERING: Final = 100


class PartitionFolder:
    """Folds the slices of one journal partition, one after the other."""

    def __init__(self, plan: Plan, task: Task, lake: PinnedLake) -> None:
        self._task = task
        self._names = plan.names
        self._prior = PriorRows(lake, cache_rows=None, below=task.start)
        if task.repeats is not None:
            self._prior.begin_with((task.place.topic, task.place.partition), task.repeats)
        pins = {name: plan.pins[name] for name in plan.written}
        self._root = next(iter(pins.values())).uri if pins else ""
        self._files = {name: TableFiles(pin.name, pin.uri, pin.storage_options) for name, pin in pins.items()}
        self._staged = None if plan.staging is None else StagedPart(plan.staging, task.place)
        self._waiting: tuple[pa.Table, int] | None = None
        self._next = task.start
        self._part = Part((task.place.topic, task.place.partition), task.start, task.system_time)

    def take(self, rows: pa.Table, epoch: int) -> None:
        """Fold a slice as soon as the next one says where it ends.

        Raises:
            StreamError: it does not stand behind the one before (or the mark) and before the planned end.
        """
        first, last = (position(epoch, rows["offset"][at].as_py()) for at in (0, -1))
        if not self._next <= first <= last < self._task.end:
            place = self._task.place
            raise StreamError(
                f"A batch of {place.topic}/{place.partition} does not lie between its mark and its planned end.",
                hint="Start the stream again: it begins at the marks with a fresh checkpoint.",
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
        """Look up what a slice names at once, then fold it in bits that stay in the processor's caches."""
        with self._timed("prior"):
            self._prefetch(rows)
        step = self._step(rows)
        for at in range(0, rows.num_rows, step):
            bit, following = rows.slice(at, step), at + step
            last = following >= rows.num_rows
            self._fold_bit(bit, epoch, end if last else position(epoch, rows["offset"][following].as_py()))

    def _prefetch(self, rows: pa.Table) -> None:
        self._prior.prefetch(named_in(rows, self._task.place), self._task.place)

    def _step(self, rows: pa.Table) -> int:
        """How many records of a slice are folded at once."""
        return max(1, min(self._bit_rows(), int(rows.num_rows * _BIT_BYTES / max(1, rows.nbytes))))

    def _bit_rows(self) -> int:
        return _BIT_ROWS

    def _fold_bit(self, rows: pa.Table, epoch: int, end: int) -> None:
        part, task = self._part, self._task
        if part.stopped_by is not None:
            return
        with self._timed("read"):
            readings = read_table(rows, task.place, epoch, part.end, end)
        with self._timed("prior"):
            (prior,) = self._prior.fetch([readings])
        with self._timed("fold"):
            folded = fold(readings, prior, part.system_time)
        self._prior.advance([folded])
        if "outcome" in rows.column_names:
            self._hold_against(rows["outcome"].to_pylist(), folded)
        with writing(self._root):
            with self._timed("write"):
                written = self._tables(folded)
                self._write(written)
            if self._staged is not None:
                with self._timed("stage"):
                    self._staged.write(folded, self._names, written.get(ENTITIES))
        self._part.add(folded)

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.thread_time()
        yield
        self._part.seconds[step] += time.thread_time() - started

    def _tables(self, folded: Folded) -> dict[str, pa.Table]:
        """The new rows of each table that has some."""
        found = {}
        for name in self._files:
            if name != JOURNAL:
                rows = list(new_rows(folded, name, self._task.held.get(name, 0)))
                if rows:
                    found[name] = made_arrow(name, rows)
        if JOURNAL in self._files and folded.judged:
            found[JOURNAL] = journal_table(folded)
        return found

    def _write(self, tables: Mapping[str, pa.Table]) -> None:
        """Add rows to the files."""
        for name, rows in tables.items():
            self._part.rows += 0 if name == JOURNAL else rows.num_rows
            if rows.num_rows:
                self._files[name].write(rows)

    def _hold_against(self, outcomes: list[str], folded: Folded) -> None:
        """Note where the journal table says another outcome than its own bytes give."""
        found = [one.record.position for one, said in zip(folded.judged, outcomes, strict=False)
                 if one.verdict.outcome != said]  # fmt: skip
        self._part.differing = (self._part.differing + found)[:MOST_DIFFERING]


def new_rows(folded: Folded, table: str, mark: int) -> Iterator[tuple[Any, str, int]]:
    """The rows that a partition adds to a history table above the mark that it holds, as `to_arrow` wants them."""
    changes: Iterable[Any] = folded.changes if table == ENTITIES else folded.facts.get(table, ())
    domain, partition = folded.place.domain, folded.place.partition
    for change in changes:
        after = change[1]
        if after.logical_timestamp >= mark:
            yield after, domain, partition
