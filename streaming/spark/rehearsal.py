"""A rehearsal of the stream: Spark starts, has its Python workers do a little, and ends; Java records the classes.

Run as a program by `classes`: `python -m metajournal.streaming.spark.rehearsal ARCHIVE`. It ends early when whoever
runs it is gone. The connector's jars are left away: an archive has no classes of jars that come by `spark.jars`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from .session import begin_session

_BATCHES: Final = 2
_MOST_S: Final = 120


def rehearse(archive: str) -> None:
    """Start Spark as the stream does, and record what it loads.

    Args:
        archive: the file to write; it is there, and whole, when this returns.
    """
    recording = [f"-XX:ArchiveClassesAtExit={archive}"]
    session = begin_session([], {"spark.master": "local[2]"}, recording)
    gateway = cast(Any, session.sparkContext._gateway)
    with tempfile.TemporaryDirectory(dir=Path(archive).parent) as checkpoint:
        _work(session, checkpoint)
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _work(session: SparkSession, checkpoint: str) -> None:
    done = threading.Semaphore(0)

    def on_batch(frame: DataFrame, _number: int) -> None:
        frame.toArrow()
        frame.mapInArrow(_same, frame.schema).collect()
        done.release()

    writer = session.readStream.format("rate").load().writeStream.foreachBatch(on_batch)
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()
    for _ in range(_BATCHES):
        done.acquire(timeout=_MOST_S)
    query.stop()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _end_when_alone() -> None:
    os.read(sys.stdin.fileno(), 1)  # a buffer would be locked when the interpreter ends
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_when_alone, daemon=True).start()
    rehearse(sys.argv[1])
