"""What failures of Spark mean: what is worth waiting for, and what only an operator can mend.

Spark tells in texts what went wrong below it, so these read texts; the errors of this project pass as they are.
"""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...lake.storage.faults import as_write_error, disk_full, is_full, speaks_of_store, store_away
from ...reporting import ending
from ...schemas.errors import KafkaUnavailableError, LakeWriteError, StreamError, UnavailableError
from ...schemas.registry import is_joining, taken_in
from ..between.fault import fault_in
from .session import checkpoint_damaged

_log = logging.getLogger("metajournal.stream")
SPARK_GONE: Final = (PySparkException, Py4JError, OSError)
"""What a call to a Spark that is ending may raise. OSError: its JVM does not even listen any more."""
_JVM_ENDS_S: Final = 10.0
"""How long a JVM that has stopped Spark may take to end until nobody waits for its exit code any more."""
_BATCH_FAILED: Final = "batch-failed"
_SHOWN: Final = 500
_TOO_LARGE: Final = (
    "spark.driver.maxResultSize",
    "OutOfMemoryError",
    "Java heap space",
    "Python worker exited unexpectedly",  # killed, most likely since it took too much memory
)
_AWAY: Final = (
    "TimeoutException",
    "BrokerNotAvailable",
    "DisconnectException",
    "NetworkException",
    "Connection refused",
)


class BatchTooLargeError(Exception):
    """The records of a batch take more memory than the driver or a task has; fewer of them will fit."""


class SparkGoneError(StreamError):
    """Spark's JVM died, or stopped Spark by itself; the stream ends with it."""

    CODE = "spark-gone"
    _HINT = (
        "Nothing is lost: when started again, the stream resumes at its marks. Read the end of {}; a JVM killed by "
        "signal 9 most likely ran out of memory; `dmesg` shows whether it did."
    )
    HINT = _HINT.format("spark.log in METAJOURNAL_HOME")

    def __init__(self, what: str, log: Path) -> None:
        super().__init__(f"{what}, and the stream ended with it.", hint=self._HINT.format(log), log=str(log))


def spark_gone(session: SparkSession, log: Path) -> SparkGoneError | None:
    """What became of Spark, asked after something failed; None where it still works.

    Args:
        log: what the JVM has printed, for the next step.
    """
    try:
        context = cast(Any, session.sparkContext)._jsc
        if context is not None and not context.sc().isStopped():
            return None
    except SPARK_GONE as error:
        _log.debug("Spark does not answer: %s", error)
    code = _exit_code(_JVM_ENDS_S)
    what = "Spark stopped by itself" if code is None else f"Spark's JVM {ending(code)}"
    return SparkGoneError(what, log)


def not_started(error: BaseException, log: Path) -> StreamError:
    """The error of a Spark that did not come up."""
    code = _exit_code(0)
    how = str(error).strip().splitlines()[0][:300] if code is None else f"its JVM {ending(code)}"
    return StreamError(
        f"Spark did not start: {how.rstrip('.')}.",
        code="spark-not-started",
        hint=f"Read the end of {log}; `metajournal doctor` checks what Spark needs.",
        log=str(log),
    )


def _exit_code(timeout_s: float) -> int | None:
    """With what Spark's JVM ended; None where it is not this process's child, or lives."""
    process = getattr(cast(Any, SparkContext)._gateway, "proc", None)
    try:
        return None if process is None else cast(int, process.wait(timeout_s))
    except subprocess.TimeoutExpired:
        return None


def meaning(failed: BaseException, lake: str, checkpoint: str) -> Exception:
    """What a failed query means; its text may name the checkpoint without that being the cause.

    Args:
        lake: where the tables are.
        checkpoint: the query's own; empty where there is none yet.
    """
    known = _translated(failed)
    if isinstance(known, StreamError) and known.code == _BATCH_FAILED:
        waited_for = worth_waiting(failed, lake, checkpoint)
        if waited_for is None:
            _log.error("A batch failed.", exc_info=failed)
        return waited_for or failed_in_domain(failed) or known
    return known


def failed_in_domain(error: BaseException) -> StreamError | None:
    """The error of a file of a domain from outside; None where none of them is to blame."""
    fault = fault_in(error, [domain for domain in taken_in() if not is_joining(domain.name)])
    if fault is None:
        return None
    return StreamError(
        f"A batch failed in the domain {fault.domain}, at {fault}: {fault.error[:500].rstrip('.')}.",
        code=_BATCH_FAILED,
        hint="Fix the package and start the stream again; it resumes at its marks, and nothing is lost. The log has "
        "the full traceback.",
        domain=fault.domain,
        file=fault.file,
        line=fault.line,
    )


def worth_waiting(error: BaseException, lake: str, checkpoint: str) -> UnavailableError | None:
    """The error of a lake or a checkpoint that fails where trying again may help; None where it is another one."""
    text = f"{type(error).__name__}: {error}"
    if is_full(text):
        return disk_full(checkpoint if checkpoint and checkpoint in text else lake, text)
    if "LakeWriteError: " in text:  # of a task
        return LakeWriteError(f"A task could not write to {lake}.", cause=text)
    if "KafkaUnavailableError: " in text:  # of a task that publishes, or reads large records
        return KafkaUnavailableError("A task did not reach Kafka.", cause=text[:_SHOWN])
    if checkpoint and checkpoint in text:
        return checkpoint_damaged(checkpoint, text)
    if speaks_of_store(text):
        return store_away(text, lake)
    return as_write_error(error, lake) if not isinstance(error, SPARK_GONE) else None


def is_active(query: StreamingQuery) -> bool:
    """Whether the query still runs; why it does not, `ended` says."""
    try:
        return query.isActive
    except SPARK_GONE:
        return False


def ended(query: StreamingQuery) -> Exception | None:
    """Stop the query and give what it failed with. A signal to the whole process group ends the JVM before us."""
    try:
        query.stop()
        return query.exception()
    except SPARK_GONE as error:
        return error


def close(session: SparkSession) -> None:
    """Stop Spark, where it is still there."""
    try:
        session.stop()
    except SPARK_GONE as error:
        _log.debug("Spark had already stopped: %s", error)


def _translated(error: BaseException) -> Exception:
    """What a failed query means: a broker that is away is waited for, the rest is told."""
    text = f"{type(error).__name__}: {error}"
    if any(word in text for word in _TOO_LARGE):
        return BatchTooLargeError(_first_line(text))
    if any(word in text for word in _AWAY):
        return UnavailableError("Spark lost Kafka.", code="kafka-unavailable", cause=text[:_SHOWN])
    if "Some data may have been lost" in text or "KAFKA_DATA_LOSS" in text:
        return StreamError(
            "Records that had not been folded yet are missing from a journal topic.",
            code="journal-lost-records",
            hint="The journal must never be truncated: set the topic's retention.ms and retention.bytes to -1. The "
            "lake keeps what it has; continue under another journal.prefix.",
        )
    return StreamError(
        "A batch failed: " + _first_line(text),
        code=_BATCH_FAILED,
        hint="Start the stream again; it resumes at its marks. The log has the full message.",
        detail=text,
    )


def _first_line(text: str) -> str:
    """The first line that says something, behind the error's name: texts of Spark's workers begin with a line break."""
    name, _, said = text.partition(": ")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"{name}: {lines[0] if lines else ''}"[:_SHOWN]
