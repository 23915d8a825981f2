"""A stream whose Spark dies says so: the process names what died and how, and `status` repeats that."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from metajournal.schemas.errors import StreamError
from metajournal.schemas.settings import Settings, StackSettings
from metajournal.stack.home import Entry
from metajournal.stack.process import ProcessId
from metajournal.stack.status import _component
from metajournal.stack.supervisor import read_told
from metajournal.streaming.spark.failures import not_started
from tests.processes import running_stream
from tests.wait import eventually


def children(pid: int) -> list[int]:
    return [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]


def java_of(pid: int) -> int | None:
    return next((one for one in children(pid) if Path(f"/proc/{one}/comm").read_text().strip() == "java"), None)


@pytest.mark.services
@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGKILL, "Spark's JVM was killed by signal 9 (SIGKILL)"),
        (signal.SIGTERM, "Spark's JVM ended with exit code 143 (SIGTERM)"),
    ],
)
def test_a_stream_whose_jvm_is_killed_names_that_and_ends(
    settings: Settings, tmp_path: Path, number: signal.Signals, how: str
) -> None:
    home = Path(settings.stack.home or "")
    with running_stream(settings, tmp_path / "stream.log") as stream:
        eventually(lambda: read_told(home / "stream.json").get("state") == "running", 60, "a running stream")
        java = java_of(stream.process.pid)
        assert java is not None
        os.kill(java, number)
        assert stream.ended(60) == 1, stream.tail()
    told = read_told(home / "stream.json")
    assert (told["state"], told["message"]) == ("failed", f"spark-gone: {how}, and the stream ended with it.")
    entry = Entry(ProcessId(2**22 + 1, "1"), 0, str(tmp_path / "stream.log"), str(tmp_path / "stream.state"))
    shown = _component("stream", entry, told)
    assert (shown.state, shown.message) == ("ended", told["message"])
    assert str(home / "spark.log") in shown.mend
    assert shown.mend.endswith("To start again, run: metajournal up")


@pytest.mark.services
def test_a_stream_that_cannot_write_any_report_works(settings: Settings, tmp_path: Path) -> None:
    """Neither its status, nor Spark's log, nor its metrics; with room again the status is there."""
    home = tmp_path / "file"
    home.touch()
    blind = replace(
        settings,
        stack=StackSettings(home=str(home)),
        stream=replace(settings.stream, metrics_file=str(home / "metrics")),
    )
    with running_stream(blind, tmp_path / "stream.log") as stream:
        eventually(lambda: "stream.json cannot be written" in stream.tail(), 60, "a word of it in the log")
        home.unlink()
        eventually(lambda: read_told(home / "stream.json").get("state") == "running", 60, "a running stream")
        assert stream.stop() == 0, stream.tail()
    assert read_told(home / "stream.json")["state"] == "stopped"


def test_a_spark_that_does_not_start_is_said_with_its_log() -> None:
    error = not_started(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited.\nmore"), Path("/x/spark.log"))
    assert isinstance(error, StreamError)
    assert (error.code, str(error)) == (
        "spark-not-started",
        "Spark did not start: [JAVA_GATEWAY_EXITED] Java gateway process exited.",
    )
    assert error.hint == "Read the end of /x/spark.log; `metajournal doctor` checks what Spark needs."
