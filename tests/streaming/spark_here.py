"""Spark as far as the wide way's tasks need it: what a frame's partitions are worked on with runs in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa


class Session:
    """A Spark session.

    Args:
        master: its master.

    Attributes:
        tasks: how many there were of each frame of numbers.
    """

    def __init__(self, master: str = "local[4]") -> None:
        self.sparkContext = SimpleNamespace(master=master)  # Spark's
        self.tasks: list[int] = []

    def range(self, start: int, end: int, _: int, count: int) -> Frame:
        self.tasks.append(count)
        return Frame([pa.record_batch({"id": pa.array(range(start, end))})], self)


class Frame:
    """A data frame of one partition.

    Args:
        batches: what it holds.
        session: its session.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch], session: Session | None = None) -> None:
        self.sparkSession, self._batches = session or Session(), batches

    def mapInArrow(self, run: Any, _: str) -> Frame:  # noqa: N802  (Spark's)
        self._run = run
        return self

    def collect(self) -> list[Any]:
        batches: Iterator[pa.RecordBatch] = self._run(iter(self._batches))
        return [SimpleNamespace(result=one) for batch in batches for one in batch["result"].to_pylist()]
