"""The wide way's tasks on Spark: one for each journal partition, without a shuffle.

`mapInArrow` runs over the Kafka source's own partitions, each of which is one journal partition's range; an aggregate
never leaves its partition, so no task needs another's rows. What a task does stands in `tasks.py`; when its files
count is the driver's matter.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ...fold.derived import Given, Pending, Result, at_once
from ...schemas.errors import DamagedTableError, DomainError
from ...schemas.settings import Settings
from ..memory import without_collector
from ..parts import publish_part
from ..plan import Part, Plan, Published, WorkerRulesError
from ..publish import BulkPublisher
from ..tasks import fold_batch, refold

_RESULT = "result binary"
_FINAL = (DamagedTableError, DomainError, WorkerRulesError)


class SparkTasks:
    """Folds and publishes in Spark's executors.

    Args:
        frame: the batch, columns as `records.SOURCE`.
        settings: how the tasks reach Kafka.
    """

    def __init__(self, frame: DataFrame, settings: Settings) -> None:
        self._frame = frame
        self._settings = settings

    def fold(self, plan: Plan) -> list[Part]:
        """Fold every partition that has records."""
        return _collected(self._frame, _folding(plan))

    def publish(self, plan: Plan, parts: Sequence[Part]) -> list[Published]:
        """Publish every part, each by exactly one task."""
        session = self._frame.sparkSession
        frame = session.range(0, len(parts), 1, len(parts))
        return _collected(frame, _publishing(plan, list(parts), self._settings))


class SparkRefold:
    """Folds the journal table again in Spark's executors, each of which reads the table's files itself."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def refold(self, plan: Plan) -> list[Part]:
        """Fold every partition of a plan, each by one task."""
        keys = list(plan.tasks)

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
            for number in [number for batch in batches for number in batch["id"].to_pylist()]:
                yield refold(plan, keys[number])

        return _collected(self._session.range(0, len(keys), 1, len(keys)), work)

    def beside(self, compute: Callable[[Given], Result], given: Given) -> Pending[Result]:
        """At once: to bring it to an executor costs more than to compute it."""
        return at_once(compute, given)


_Work = Callable[[Iterable[pa.RecordBatch]], Iterator[Any]]


def _collected(frame: DataFrame, work: _Work) -> list[Any]:
    """Run a task on each partition of a frame, and gather what each gives.

    Raises:
        DamagedTableError: a task has met a damaged file of the lake.
        DomainError: a task's machine lacks the package of a domain, or has another one.
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
