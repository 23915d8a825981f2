"""The wide way's tasks on Spark: one for each journal partition, without a shuffle.

`mapInArrow` runs over the Kafka source's own partitions, each of which is one journal partition's range; an aggregate
never leaves its partition, so no task needs another's rows. Where records are large, each task reads its range from
Kafka itself: what the source plans is the same, and the records do not pass through Spark's memory. What a task does
stands in `tasks.py`; when its files count is the driver's matter.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ...fold.derived import Given, Pending, Result, at_once
from ...schemas.errors import DamagedTableError, DomainError
from ...schemas.settings import Settings
from ..memory import without_collector
from ..parts import publish_part
from ..plan import Part, PartitionKey, Plan, Published, WorkerRulesError
from ..publish import BulkPublisher
from ..replay import UnreadRangeError
from ..tasks import fold_batch, refold

_log = logging.getLogger("metajournal.stream")
_RESULT = "result binary"
_FINAL = (DamagedTableError, DomainError, UnreadRangeError, WorkerRulesError)


class SparkTasks:
    """Folds and publishes in Spark's executors.

    Args:
        frame: the batch, columns as `records.SOURCE`.
        settings: how the tasks reach Kafka.
        read_themselves: the tasks read the records from Kafka; otherwise Spark's source does.
    """

    def __init__(self, frame: DataFrame, settings: Settings, *, read_themselves: bool = False) -> None:
        self._frame = frame
        self._settings = settings
        self._read_themselves = read_themselves

    def fold(self, plan: Plan) -> list[Part]:
        """Fold every partition that has records."""
        if self._read_themselves:
            try:
                return _read_and_folded(self._frame.sparkSession, replace(plan, kafka=self._settings))
            except UnreadRangeError as error:  # Spark's source reads it, or says in its own words why not
                _log.warning("%s Spark's Kafka source reads that batch.", error.message)
        return _collected(self._frame, _folding(plan))

    def publish(self, plan: Plan, parts: Sequence[Part]) -> list[Published]:
        """Publish every part, each by exactly one task."""
        session = self._frame.sparkSession
        frame = session.range(0, len(parts), 1, len(parts))
        return _collected(frame, _publishing(plan, list(parts), self._settings))


def warm_up(session: SparkSession) -> None:
    """Have Spark start the daemon of its Python workers, which takes it more than a second: nobody waits for it."""
    with suppress(Exception):  # the first batch starts it otherwise, or tells what is wrong
        session.range(1).mapInArrow(_same, "id long").collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


class SparkRefold:
    """Folds the journal table again in Spark's executors, each of which reads the table's files itself."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def refold(self, plan: Plan) -> list[Part]:
        """Fold every partition of a plan, each by one task."""
        return _refolded(self._session, plan, [[key] for key in plan.tasks])

    def beside(self, compute: Callable[[Given], Result], given: Given) -> Pending[Result]:
        """At once: to bring it to an executor costs more than to compute it."""
        return at_once(compute, given)


_Work = Callable[[Iterable[pa.RecordBatch]], Iterator[Any]]


def _collected(frame: DataFrame, work: _Work) -> list[Any]:
    """Run a task on each partition of a frame, and gather what each gives.

    Raises:
        DamagedTableError: a task has met a damaged file of the lake.
        DomainError: a task's machine lacks the package of a domain, or has another one.
        UnreadRangeError: a task could not read its range from Kafka.
        WorkerRulesError: a worker has other rules than the driver.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            results = [pickle.dumps(output) for output in work(batches)]
        except _FINAL as error:  # Spark would make a text of it, and try again what cannot succeed
            results = [pickle.dumps(error)]
        yield pa.record_batch([pa.array(results, pa.binary())], names=["result"])

    results = [pickle.loads(row.result) for row in frame.mapInArrow(run, _RESULT).collect()]
    failure = next((output for output in results if isinstance(output, _FINAL)), None)
    if failure is not None:
        raise failure
    return results


def _read_and_folded(session: SparkSession, plan: Plan) -> list[Part]:
    """On one machine no more tasks at once than it has processors, each of which folds several partitions.

    A task writes while it folds. Memory that one has touched serves its next partition, and costs less than new one.
    """
    sizes = {key: task.end - task.start for key, task in plan.tasks.items()}
    largest_first = sorted(sizes, key=lambda key: -sizes[key])
    is_local = (session.sparkContext.master or "").startswith("local")
    count = min(len(sizes), os.cpu_count() or 1) if is_local else len(sizes)
    return _refolded(session, plan, [largest_first[number::count] for number in range(count)])


def _refolded(session: SparkSession, plan: Plan, shares: Sequence[Sequence[PartitionKey]]) -> list[Part]:
    """Fold partitions whose records the tasks read themselves.

    Args:
        shares: the partitions of each task.
    """

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        for number in [number for batch in batches for number in batch["id"].to_pylist()]:
            yield from (refold(plan, key) for key in shares[number])

    return _collected(session.range(0, len(shares), 1, len(shares)), work)


def _folding(plan: Plan) -> _Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        yield from fold_batch(plan, batches)

    return work


def _publishing(plan: Plan, parts: Sequence[Part], settings: Settings) -> _Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[Published]:
        for number in [number for batch in batches for number in batch["id"].to_pylist()]:
            publisher = BulkPublisher(settings, plan.targets)
            try:
                with without_collector():
                    published = publish_part(plan, parts[number], publisher, int(time.time() * 1000))
            finally:
                publisher.close()
            yield published

    return work
