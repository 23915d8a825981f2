"""The Spark session of the stream and its query over the journal topics."""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...fold.records import SOURCE
from ...schemas.errors import UnavailableError
from . import options
from .classes import archived_beside

_log = logging.getLogger("metajournal.stream")
PartitionKey = tuple[str, int]
_CONF = Path(__file__).parent / "conf"
_LOGGING = _CONF / "log4j2.properties"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def open_session(jars: Sequence[str], more: Mapping[str, str] | None = None, *, log: str | None = None) -> SparkSession:
    """A session with the connector's jars on its class path; what the JVM prints goes to a file.

    Args:
        jars: paths of the jars.
        more: Spark options that override the project's own (a master, memory).
        log: folder of `spark.log`; the system's temporary folder where None.
    """
    with _opened(spark_log(log)) as file, _stderr_to(file.fileno()):
        return begin_session(jars, more or {}, archived_beside(jars))


def spark_log(folder: str | None) -> Path:
    """Where what the JVM prints goes.

    Args:
        folder: the system's temporary folder where None.
    """
    return Path(folder or tempfile.gettempdir()) / "spark.log"


def _opened(path: Path) -> IO[bytes]:
    """A log to append to; nothing where it cannot be written, for Spark works without one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        _log.warning("%s cannot be written: %s. Output of Spark's JVM is lost until the next start.", path, error)
        return Path(os.devnull).open("ab")


@contextmanager
def _stderr_to(file: int) -> Iterator[None]:
    """The JVM inherits this process's stderr when it starts; for that moment it is the log file."""
    with suppress(OSError):
        sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def begin_session(jars: Sequence[str], more: Mapping[str, str], java: Sequence[str]) -> SparkSession:
    """A session whose JVM has these options too, and prints to this process's stderr."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["SPARK_CONF_DIR"] = str(_CONF / "none")  # an archive of classes allows no folder on the class path
    own = options.java([f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", *java])
    asked = {"spark.master": "local[4]", **options.SESSION, **own, **options.jars(jars), **more}
    _start_java(asked)
    builder = SparkSession.builder
    for name, value in asked.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _start_java(asked: Mapping[str, str]) -> None:
    """Start the JVM, where this process has none yet.

    By itself PySpark hands the options over as arguments, which every user of the machine can read for as long as the
    JVM runs. Among them are secrets, so they come in a file that only we can read, and that is gone when the JVM runs;
    arguments are those that Java itself needs (memory, class path, `spark.driver.extraJavaOptions`).
    """
    if SparkContext._gateway is not None:
        return
    with tempfile.NamedTemporaryFile("w", encoding="ascii", prefix="metajournal-spark-") as file:
        file.write(options.properties(asked))
        file.flush()
        with _submitting("--properties-file", file.name):
            SparkContext._ensure_initialized()


@contextmanager
def _submitting(*arguments: str) -> Iterator[None]:
    """PySpark starts the JVM with these arguments too; those that the user's environment has are kept."""
    before = os.environ.get(_ARGUMENTS)
    *own, program = shlex.split(before or "pyspark-shell")
    os.environ[_ARGUMENTS] = shlex.join([*own, *arguments, program])
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = before


def start_query(
    session: SparkSession,
    source: Mapping[str, str],
    checkpoint: str,
    interval_ms: int,
    on_batch: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    """Start the query that hands each batch of journal records to `on_batch`.

    Args:
        source: options of the Kafka source.
        checkpoint: an empty folder.
        interval_ms: milliseconds between two batches; 0 as fast as records come.
    """
    frame = session.readStream.format("kafka").options(**source).load().select(*SOURCE.names)
    writer = frame.writeStream.foreachBatch(on_batch).option("checkpointLocation", checkpoint)
    return writer.trigger(processingTime=f"{interval_ms} milliseconds").start()


def planned_ends(checkpoint: str, batch_id: int) -> dict[PartitionKey, int]:
    """The end offsets that Spark planned for a batch; they stand in the checkpoint before the batch runs.

    Records cannot tell them: the markers of transactions take offsets too.

    Raises:
        UnavailableError: the checkpoint was deleted or damaged.
    """
    try:
        version, _, text = (Path(checkpoint) / "offsets" / str(batch_id)).read_text().splitlines()
        if version != "v1":
            raise ValueError(f"version {version!r}")
        parts = [(topic, *partition_end) for topic, ends in json.loads(text).items() for partition_end in ends.items()]
        if not all(type(end) is int for _, _, end in parts):
            raise ValueError(f"no offsets: {text[:200]}")
        return {(topic, int(partition)): end for topic, partition, end in parts}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise checkpoint_damaged(checkpoint, f"{type(error).__name__}: {error}") from error


def checkpoint_damaged(checkpoint: str, cause: str) -> UnavailableError:
    """A checkpoint is disposable: the next query gets a fresh one, and begins at the journal table's marks."""
    return UnavailableError(
        f"The checkpoint {checkpoint} was deleted or damaged.",
        code="checkpoint-damaged",
        hint="Nothing is lost: the stream restarts at its marks with a new one. Check what cleans up that folder.",
        cause=cause[:500],
    )
