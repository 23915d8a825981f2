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
from typing import Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from ..fold.prior import PriorRows
from ..fold.steps import Folder, FoldRequest, RowFolder
from ..rules.digest import digest_of
from ..schemas.registry import role, served
from .folder import PartitionFolder
from .memory import without_collector
from .plan import Part, PartitionKey, PinnedLake, Plan, Task, take_in_domains
from .replay import journal_slices, kafka_slices

_SLICE_ROWS = 50_000
_SLICE_BYTES = 128 * 1024 * 1024


class ColumnFolderFile(Protocol):
    """The file `columns/folder` of a domain, where its events are folded in columns."""

    def folder_of(self, request: FoldRequest, prior: PriorRows) -> Folder | None:
        """What folds a task's share in columns; None where that gives less than is asked for."""


_NEEDED = ("events", "rules", "rows", "tables", "documents", "columns.folder", "columns.documents")
"""Files of a domain that tasks need."""


def load_domains() -> None:
    """Load what tasks need of the domains, before there are any: once for all workers that are forked afterwards."""
    for domain in served():
        digest_of(domain.name)
        for name in _NEEDED:
            role(domain.name, name)


def fold_batch(plan: Plan, batches: Iterable[pa.RecordBatch]) -> list[Part]:
    """Fold the records that one task was given: those of one journal partition, or of several, whole.

    Args:
        plan: the batch.
        batches: columns as Spark's Kafka source has them, in offset order per partition.
    Raises:
        WorkerRulesError: this process has other rules than the driver.
    """
    take_in_domains(plan.outside)
    plan.check_rules()
    with without_collector():
        lake = PinnedLake(plan.pins)
        folders: dict[PartitionKey, PartitionFolder] = {}
        with _discarded_on_failure(folders.values()):
            waited: dict[str, float] = defaultdict(float)
            for rows in _slices(_waited_for(batches, waited)):
                for key, own in _by_partition(rows):
                    if key not in folders:
                        folders[key] = folding_of(plan, plan.tasks[key], lake)
                    folders[key].take(own, plan.tasks[key].epoch)
            parts = [folder.close() for folder in folders.values()]
            for part in parts[:1]:
                part.seconds.update(waited)
            return parts


def refold(plan: Plan, key: PartitionKey) -> Part:
    """Fold one journal partition's records again: as the journal table holds them, or as Kafka does.

    Raises:
        DomainError: as `take_in_domains`.
        WorkerRulesError: this process has other rules than the driver.
    """
    take_in_domains(plan.outside)
    plan.check_rules()
    with without_collector():
        task = plan.tasks[key]
        lake = PinnedLake(plan.pins)
        folder = folding_of(plan, task, lake)
        if plan.kafka is None:
            slices = journal_slices(lake.journal.readable, key, task.start, task.end, _SLICE_ROWS)
        else:
            slices = kafka_slices(plan.kafka, key, task.start, task.end, _SLICE_ROWS, task.earlier)
        with _discarded_on_failure([folder]):
            for epoch, rows in slices:
                folder.take(rows, epoch)
            return folder.close()


def folding_of(plan: Plan, task: Task, lake: PinnedLake) -> PartitionFolder:
    """What folds a task's share: in columns where that is known to give the same."""
    place = task.place
    prior = PriorRows(lake, cache_rows=None, below=task.start)
    if task.repeats is not None:
        prior.begin_with((place.topic, place.partition), task.repeats)
    request = FoldRequest(place, task.start, plan.written, task.marks, publishes=plan.staging is not None)
    module = role(place.domain, "columns.folder")
    in_columns = None if module is None else cast(ColumnFolderFile, module).folder_of(request, prior)
    return PartitionFolder(plan, task, in_columns or RowFolder(prior))


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
def _discarded_on_failure(folders: Iterable[PartitionFolder]) -> Iterator[None]:
    """Leave nothing of a task that fails: on a full disk each attempt would leave less room."""
    try:
        yield
    except Exception:
        for folder in folders:
            folder.discard()
        raise


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _SLICE_ROWS or size >= _SLICE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _by_partition(rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
    pairs = rows.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([]).to_pylist()
    for pair in pairs:
        key = (pair["topic"], pair["partition"])
        if len(pairs) == 1:
            yield key, rows
        else:
            yield key, rows.filter(pc.and_(pc.equal(rows["topic"], key[0]), pc.equal(rows["partition"], key[1])))
