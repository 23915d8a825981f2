"""What failures of Spark mean, by their texts (the outages themselves are in test_outages and tests/faults)."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from metajournal.schemas.domain import Domain
from metajournal.schemas.errors import KafkaUnavailableError, LakeWriteError, StreamError, UnavailableError
from metajournal.streaming.spark import failures
from metajournal.streaming.spark.failures import BatchTooLargeError, meaning, worth_waiting

LAKE, CHECKPOINT = "/data/lake", "/dev/shm/metajournal-checkpoint-x"


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("org.apache.kafka.common.errors.TimeoutException: Timed out", UnavailableError, "kafka-unavailable"),
        ("java.net.ConnectException: Connection refused", UnavailableError, "kafka-unavailable"),
        ("Some data may have been lost because they are not available in Kafka", StreamError, "journal-lost-records"),
        ("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] …", StreamError, "journal-lost-records"),
        (f"java.io.IOException: No space left on device ({CHECKPOINT}/offsets/3)", LakeWriteError, "disk-full"),
        ("LakeWriteError: a part could not be written", LakeWriteError, LakeWriteError.CODE),
        (f"FileNotFoundException: {CHECKPOINT}/metadata", UnavailableError, "checkpoint-damaged"),
        ("AttributeError: nobody knows why\n  File one, line two", StreamError, "batch-failed"),
    ],
)
def test_a_failed_query_means(text: str, kind: type[Exception], code: str) -> None:
    found = meaning(RuntimeError(text), LAKE, CHECKPOINT)
    assert isinstance(found, kind)
    assert getattr(found, "code", None) == code


def test_a_task_that_does_not_reach_kafka_is_waited_for() -> None:
    found = meaning(RuntimeError(_of_worker("KafkaUnavailableError: Publishing failed: timed out.")), LAKE, CHECKPOINT)
    assert (type(found), getattr(found, "code", None)) == (KafkaUnavailableError, "kafka-unavailable")


def test_a_batch_that_failed_says_something() -> None:
    assert "An exception was thrown" in str(meaning(RuntimeError(_of_worker("KeyError: 1")), LAKE, CHECKPOINT))


def _of_worker(error: str) -> str:
    return f"\n  An exception was thrown from the Python worker.\nTraceback (most recent call last):\nerrors.{error}\n"


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.OutOfMemoryError: Java heap space", "exceeds spark.driver.maxResultSize",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    ],
)  # fmt: skip
def test_records_that_the_driver_cannot_hold_are_taken_in_smaller_batches(text: str) -> None:
    assert isinstance(meaning(RuntimeError(text), LAKE, CHECKPOINT), BatchTooLargeError)


def test_a_full_disk_is_told_of_the_place_that_is_full() -> None:
    of_the_lake, of_the_checkpoint = (
        meaning(OSError(28, "No space left on device", place), LAKE, CHECKPOINT) for place in (LAKE, CHECKPOINT)
    )
    assert LAKE in str(of_the_lake)
    assert CHECKPOINT in str(of_the_checkpoint)


def test_what_no_waiting_mends_is_not_waited_for() -> None:
    assert worth_waiting(RuntimeError("nobody knows why"), LAKE, CHECKPOINT) is None
    assert worth_waiting(RuntimeError("nobody knows why"), LAKE, "") is None


def test_a_batch_that_fails_in_a_file_of_a_domain_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In this process, and in a task of Spark, whose traceback comes as the text of Spark's error."""
    file, names = str(tmp_path / "sensors_package" / "rules.py"), dict[str, Any]()
    exec(compile("def judged():\n    return int('many')\n", file, "exec"), names)
    with pytest.raises(ValueError, match="many") as raised:
        names["judged"]()
    traced = "".join(traceback.format_exception(raised.value))
    there = RuntimeError(f"[PYTHON_EXCEPTION] of a worker:\n{traced}\tat org.apache.spark.api.PythonRunner")
    assert "sensors" not in str(meaning(raised.value, LAKE, CHECKPOINT))
    assert "in judged" in caplog.text
    monkeypatch.setattr(failures, "taken_in", lambda: (Domain("sensors", "sensors_package"),))
    for failed in (raised.value, there):
        told = meaning(failed, LAKE, CHECKPOINT)
        assert getattr(told, "code", None) == "batch-failed"
        assert "in the domain sensors, at sensors_package/rules.py, line 2: ValueError: invalid lit" in str(told)
