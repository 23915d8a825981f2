"""The work of one task of the wide way: fold a partition's records into files.

The same partition function as the short way's, in slices of bounded size, so that neither many nor large records take
more memory than a slice. Each slice finds the rows of the slices before it in memory and all others in the lake, at
the version that the driver has pinned. Nothing that a task writes counts before the driver commits it, so a task may
fail and run again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..lake.faults import writing
from ..lake.files import TableFiles
from ..lake.histories import HISTORIES
from ..schemas.errors import StreamError
from ..schemas.positions import position
from .fold import fold
from .folded import Folded
from .journal import journal_table
from .memory import without_collector
from .parts import StagedPart
from .plan import Part, PartitionKey, PinnedLake, Plan, Task
from .prior import PriorRows
from .readings import read_table
from .records import named_in
from .replay import journal_slices, kafka_slices

ENTITIES = "entities"
_SLICE_ROWS = 50_000
_SLICE_BYTES = 128 * 1024 * 1024
_BIT_ROWS = 8_192
_BIT_BYTES = 4 * 1024 * 1024  # an event of a thousand files makes several thousand rows and documents
_MOST_DIFFERING = 100


def fold_batch(plan: Plan, batches: Iterable[pa.RecordBatch]) -> list[Part]:
    """Fold the records that one task was given: those of one journal partition, or of several, whole.

    Args:
        plan: the batch.
        batches: columns as Spark's Kafka source has them, in offset order per partition.
    """
    with without_collector():
        lake = PinnedLake(plan.pins)
        folders: dict[PartitionKey, _PartitionFolder] = {}
        with _discarded_on_failure(folders.values()):
            waited: dict[str, float] = defaultdict(float)
            for rows in _slices(_waited_for(batches, waited)):
                for key, own in _by_partition(rows):
                    if key not in folders:
                        folders[key] = _PartitionFolder(plan, plan.tasks[key], lake)
                    folders[key].take(own, plan.tasks[key].epoch)
            parts = [folder.close() for folder in folders.values()]
            for part in parts[:1]:
                part.seconds.update(waited)
            return parts


def refold(plan: Plan, key: PartitionKey) -> Part:
    """Fold one journal partition's records again: as the journal table holds them, or as Kafka does."""
    with without_collector():
        task = plan.tasks[key]
        lake = PinnedLake(plan.pins)
        folder = _PartitionFolder(plan, task, lake)
        if plan.kafka is None:
            slices = journal_slices(lake.journal.delta, key, task.start, task.end, _SLICE_ROWS)
        else:
            slices = kafka_slices(plan.kafka, key, task.start, task.end, _SLICE_ROWS)
        with _discarded_on_failure([folder]):
            for epoch, rows in slices:
                folder.take(rows, epoch)
            return folder.close()


def _waited_for(batches: Iterable[pa.RecordBatch], seconds: dict[str, float]) -> Iterator[pa.RecordBatch]:
    """The batches; how long each took to come is added up."""
    rest = iter(batches)
    while True:
        started = time.perf_counter()
        batch = next(rest, None)
        seconds["wait"] += time.perf_counter() - started
        if batch is None:
            return
        yield batch


@contextmanager
def _discarded_on_failure(folders: Iterable[_PartitionFolder]) -> Iterator[None]:
    """Leave nothing of a task that fails: on a full disk each attempt would leave less room."""
    try:
        yield
    except Exception:
        for folder in folders:
            folder.discard()
        raise


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _SLICE_ROWS or size >= _SLICE_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _by_partition(rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
    pairs = rows.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([]).to_pylist()
    for pair in pairs:
        key = (pair["topic"], pair["partition"])
        if len(pairs) == 1:
            yield key, rows
        else:
            yield key, rows.filter(pc.and_(pc.equal(rows["topic"], key[0]), pc.equal(rows["partition"], key[1])))


class _PartitionFolder:
    """Folds the slices of one journal partition, one after the other."""

    def __init__(self, plan: Plan, task: Task, lake: PinnedLake) -> None:
        self._task = task
        self._names = plan.names
        self._prior = PriorRows(lake, cache_rows=None, below=task.start)
        if task.marked is not None:
            self._prior.remember((task.place.topic, task.place.partition), task.marked)
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
            self._prior.prefetch(named_in(rows, self._task.place), self._task.place)
        step = max(1, min(_BIT_ROWS, int(rows.num_rows * _BIT_BYTES / max(1, rows.nbytes))))
        for at in range(0, rows.num_rows, step):
            bit, following = rows.slice(at, step), at + step
            last = following >= rows.num_rows
            self._fold_bit(bit, epoch, end if last else position(epoch, rows["offset"][following].as_py()))

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
                written = self._write(folded)
            if self._staged is not None:
                with self._timed("stage"):
                    self._staged.write(folded, self._names, written.get(ENTITIES))
        self._tell(folded)

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.thread_time()
        yield
        self._part.seconds[step] += time.thread_time() - started

    def _write(self, folded: Folded) -> dict[str, pa.Table]:
        """Add the new rows to the files; gives them by table."""
        written = {}
        for name, history in HISTORIES.items():
            if name not in self._files:
                continue
            rows = list(new_rows(folded, name, self._task.held.get(name, 0)))
            self._part.rows += len(rows)
            if rows:
                written[name] = history.to_arrow(rows)
                self._files[name].write(written[name])
        if "journal" in self._files and folded.judged:
            self._files["journal"].write(journal_table(folded))
        return written

    def _tell(self, folded: Folded) -> None:
        part = self._part
        part.end, part.system_time = folded.end, folded.system_time
        part.stopped_by = None if folded.stopped_by is None else folded.stopped_by.fingerprint
        part.verdicts.update(judged.verdict.outcome for judged in folded.judged)
        part.marked.update({key: value for key, value in folded.marked.items() if key not in part.marked})
        times = [judged.record.append_time for judged in folded.judged]
        part.oldest_ms = min([*times, *([] if part.oldest_ms is None else [part.oldest_ms])], default=None)

    def _hold_against(self, outcomes: list[str], folded: Folded) -> None:
        """Note where the journal table says another outcome than its own bytes give."""
        found = [one.record.position for one, said in zip(folded.judged, outcomes, strict=False)
                 if one.verdict.outcome != said]  # fmt: skip
        self._part.differing = (self._part.differing + found)[:_MOST_DIFFERING]


def new_rows(folded: Folded, table: str, mark: int) -> Iterator[tuple[Any, str, int]]:
    """The rows that a partition adds to a history table above the mark that it holds, as `to_arrow` wants them."""
    changes: Iterable[Any] = folded.changes if table == ENTITIES else folded.facts.get(table, ())
    domain, partition = folded.place.domain, folded.place.partition
    for change in changes:
        after = change[1]
        if after.logical_timestamp >= mark:
            yield after, domain, partition
