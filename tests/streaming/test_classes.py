"""The archive of Spark's classes: whose it is, when there is none, and that a session's Java takes classes from it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from metajournal.stack.jars import spark_jars
from metajournal.streaming.spark import classes
from metajournal.streaming.spark.classes import archive_of, archived_beside, record
from metajournal.streaming.spark.session import open_session

OPTION = "-XX:SharedArchiveFile="


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Java and a Spark that are nothing but files."""
    files = {
        "java/bin/java": "#!/bin/sh\nexit 1\n",
        "java/release": 'JAVA_VERSION="17.0.1"',
        "spark/jars/core.jar": "c",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "java/bin/java").chmod(0o755)
    (tmp_path / "spark/bin").mkdir()
    (tmp_path / "parts").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    return tmp_path


def own_archive(machine: Path) -> Path:
    path = archive_of(machine / "parts")
    assert path is not None
    return path


CHANGES: dict[str, Callable[[Path], object]] = {
    "another Java": lambda machine: (machine / "java/release").write_text('JAVA_VERSION="17.0.2"'),
    "a jar more": lambda machine: (machine / "spark/jars/sql.jar").write_text(""),
    "a jar of another size": lambda machine: (machine / "spark/jars/core.jar").write_text("cc"),
    "a jar installed anew": lambda machine: os.utime(machine / "spark/jars/core.jar", ns=(5, 5)),
    "another place": lambda machine: (
        (machine / "spark").rename(machine / "spork"),
        os.environ.update(SPARK_HOME=str(machine / "spork")),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_an_archive_depends_on_is_in_its_name(machine: Path, change: str) -> None:
    before = own_archive(machine)
    assert own_archive(machine) == before
    CHANGES[change](machine)
    assert own_archive(machine) != before


@pytest.mark.parametrize("gone", ["java/release", "java/bin/java", "spark/jars"])
def test_without_java_or_spark_there_is_no_archive(machine: Path, gone: str) -> None:
    (machine / gone).rename(machine / "gone")
    assert archive_of(machine / "parts") is None
    assert archived_beside([str(machine / "parts/connector.jar")]) == []


def test_only_an_archive_with_content_is_used(machine: Path) -> None:
    jars = [str(machine / "parts/connector.jar")]
    assert archived_beside(jars) == []
    own_archive(machine).touch()
    assert archived_beside(jars) == []
    own_archive(machine).write_bytes(b"classes")
    assert archived_beside(jars) == [f"{OPTION}{own_archive(machine)}"]
    assert archived_beside([]) == []


@pytest.mark.thorough
def test_where_none_can_be_recorded_an_empty_one_says_so_and_unused_ones_make_room(machine: Path) -> None:
    """Several environments on one machine each have one: were only the newest kept, they would record in turns."""
    others = [machine / "parts" / f"classes-{number}.jsa" for number in range(5)]
    for days, other in zip((0, 1, 6, 8, 100), others, strict=True):
        other.write_bytes(b"classes")
        used = time.time() - days * 86_400
        os.utime(other, (used, used))
    (machine / "parts/recording-x").mkdir()  # as one that was killed leaves it
    (machine / "parts/recording-x/classes.jsa").touch()
    record(own_archive(machine))  # this Java ends at once
    assert own_archive(machine).read_bytes() == b""
    assert sorted((machine / "parts").iterdir()) == sorted([own_archive(machine), *others[:3]])


def test_a_use_of_an_archive_is_noted(machine: Path) -> None:
    own_archive(machine).write_bytes(b"classes")
    os.utime(own_archive(machine), (0, 0))
    assert archived_beside([str(machine / "parts/connector.jar")])
    assert own_archive(machine).stat().st_mtime > time.time() - 60


@pytest.mark.thorough
def test_a_recording_that_is_interrupted_is_tried_again_the_next_time(machine: Path) -> None:
    submit = machine / "spark/bin/spark-submit"
    submit.write_text("#!/bin/sh\nkill -TERM $PPID\nexec sleep 5\n")
    submit.chmod(0o755)
    record(own_archive(machine))
    assert list((machine / "parts").iterdir()) == []


@pytest.mark.thorough
def test_a_recording_that_takes_for_ever_is_given_up(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "java/bin/java").write_text("#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(classes, "_RECORDING_S", 0.5)
    record(own_archive(machine))
    assert own_archive(machine).read_bytes() == b""


@pytest.mark.services
def test_java_takes_sparks_classes_from_the_archive(tmp_path: Path) -> None:
    session = open_session(spark_jars(), {"spark.master": "local[1]"}, log=str(tmp_path))
    try:
        gateway = session.sparkContext._gateway
        assert gateway is not None
        maps = Path(f"/proc/{gateway.proc.pid}/maps").read_text()
        mapped = sum(
            int(end, 16) - int(begin, 16)
            for begin, end in (line.split()[0].split("-") for line in maps.splitlines() if "/classes-" in line)
        )
    finally:
        session.stop()
    assert mapped > 50_000_000
