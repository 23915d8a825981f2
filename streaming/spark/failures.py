"""What failures of Spark mean: what is worth waiting for, and what only an operator can mend.

Spark tells in texts what went wrong below it, so these read texts; the errors of this project pass as they are.
"""

from __future__ import annotations

import logging
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...lake.faults import as_write_error, disk_full, is_full
from ...schemas.errors import LakeWriteError, StreamError, UnavailableError
from .session import checkpoint_damaged

_log = logging.getLogger("metajournal.stream")
SPARK_GONE: Final = (PySparkException, Py4JError, OSError)
"""What a call to a Spark that is ending may raise. OSError: its JVM does not even listen any more."""
_BATCH_FAILED: Final = "batch-failed"
_TOO_LARGE: Final = ("spark.driver.maxResultSize", "OutOfMemoryError", "Java heap space")
_AWAY: Final = (
    "TimeoutException",
    "BrokerNotAvailable",
    "DisconnectException",
    "NetworkException",
    "Connection refused",
)


class BatchTooLargeError(Exception):
    """The records of a batch take more memory than the driver has; fewer of them will fit."""


def meaning(failed: BaseException, lake: str, checkpoint: str) -> Exception:
    """What a failed query means; its text may name the checkpoint without that being the cause.

    Args:
        lake: where the tables are.
        checkpoint: the query's own; empty where there is none yet.
    """
    known = _translated(failed)
    if isinstance(known, StreamError) and known.code == _BATCH_FAILED:
        return worth_waiting(failed, lake, checkpoint) or known
    return known


def worth_waiting(error: BaseException, lake: str, checkpoint: str) -> UnavailableError | None:
    """The error of a lake or a checkpoint that fails where trying again may help; None where it is another one."""
    text = f"{type(error).__name__}: {error}"
    if is_full(text):
        return disk_full(checkpoint if checkpoint and checkpoint in text else lake, text)
    if "LakeWriteError: " in text:  # of a task
        return LakeWriteError(f"A task could not write to {lake}.", cause=text)
    if checkpoint and checkpoint in text:
        return checkpoint_damaged(checkpoint, text)
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
        _log.debug("Spark was gone already: %s", error)


def _translated(error: BaseException) -> Exception:
    """What a failed query means: a broker that is away is waited for, the rest is told."""
    text = f"{type(error).__name__}: {error}"
    if any(word in text for word in _TOO_LARGE):
        return BatchTooLargeError(text[:500])
    if any(word in text for word in _AWAY):
        return UnavailableError("Spark lost Kafka.", code="kafka-unavailable", cause=text[:500])
    if "Some data may have been lost" in text or "KAFKA_DATA_LOSS" in text:
        return StreamError(
            "Records that were not folded yet are gone from a journal topic.",
            code="journal-lost-records",
            hint="The journal must never be cut: set the topic's retention.ms and retention.bytes to -1. The lake "
            "keeps what it has; go on under another journal.prefix.",
        )
    return StreamError(
        "A batch failed: " + text.strip().splitlines()[0][:500],
        code=_BATCH_FAILED,
        hint="Start the stream again; it goes on from its marks. The log holds the whole message.",
        detail=text,
    )
