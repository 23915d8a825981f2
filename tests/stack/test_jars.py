"""Installing the parts: once, checked, resumable, one at a time; with a stand-in for Ivy that copies files."""

from __future__ import annotations

import hashlib
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from metajournal.stack import jars, java, parts
from metajournal.stack.errors import (
    JavaMissingError,
    JavaVersionError,
    PartsCorruptError,
    PartsUnavailableError,
)
from metajournal.stack.jars import ensure_all, ensure_parts, spark_jars
from metajournal.stack.java import Java, find_java
from metajournal.stack.progress import Progress

IVY = '''#!{python}
"""Stands in for `java -jar ivy.jar`: fetches from a folder into a cache, as Ivy does, and retrieves from the cache."""
import pathlib, shutil, sys
source, root = pathlib.Path({source!r}), pathlib.Path({root!r})
with open(root / "runs", "a") as runs:
    runs.write("run\\n")
if not source.is_dir():
    sys.exit("Server access error at url: UnknownHostException")
staging = pathlib.Path(sys.argv[sys.argv.index("-retrieve") + 1].split("/[conf]")[0])
groups = sys.argv[sys.argv.index("-confs") + 1 : sys.argv.index("-retrieve")]
for group in groups:
    for path in (source / group).iterdir():
        cached = root / "ivy" / "cache" / group / path.name
        cached.parent.mkdir(parents=True, exist_ok=True)
        if not cached.exists():
            shutil.copy(path, cached)
        (staging / group).mkdir(parents=True, exist_ok=True)
        shutil.copy(cached, staging / group / path.name)
'''


@dataclass
class World:
    """A repository to download from, and a cache."""

    source: Path
    cache: Path

    @property
    def runs(self) -> int:
        return len((self.cache / "runs").read_text().split())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(tmp_path / "source", tmp_path / "cache")
    world.cache.mkdir()
    known = []
    for group in parts.GROUPS:
        (world.source / group).mkdir(parents=True)
        for name in ("a.jar", "b.jar"):
            content = f"{group} {name}".encode()
            (world.source / group / name).write_bytes(content)
            known.append(parts.Part(group, name, len(content), hashlib.sha256(content).hexdigest()))
    script = tmp_path / "ivy"
    script.write_text(IVY.format(python=sys.executable, source=str(world.source), root=str(world.cache)))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(parts, "_all_parts", lambda: tuple(known))
    monkeypatch.setattr(jars, "find_java", lambda: Java(script, 17, "17"))
    parts.group_digest.cache_clear()
    yield world
    parts.group_digest.cache_clear()


def test_parts_come_once_and_then_nothing_is_run(world: World) -> None:
    seen: list[Progress] = []
    parts = ensure_parts(cache=world.cache, report=seen.append)
    assert parts.files("kafka")[0].read_text() == "kafka a.jar"
    assert [progress.step for progress in seen][-2:] == ["checking", "done"]
    assert all(progress.done_bytes <= progress.total_bytes for progress in seen)
    seen.clear()
    ensure_parts(cache=world.cache, report=seen.append)
    assert (world.runs, seen) == (1, [])


def test_only_the_groups_that_are_asked_for_come(world: World) -> None:
    parts = ensure_parts(("kafka",), cache=world.cache)
    assert parts.complete("kafka")
    assert not parts.complete("spark")


def test_a_part_that_was_lost_or_cut_is_brought_again(world: World) -> None:
    parts = ensure_parts(cache=world.cache)
    parts.files("spark")[0].write_bytes(b"cut")
    parts.files("kafka")[1].unlink()
    again = ensure_parts(cache=world.cache)
    assert again.files("spark")[0].read_text() == "spark a.jar"
    assert again.files("kafka")[1].read_text() == "kafka b.jar"


def test_a_part_with_other_bytes_is_refused_and_can_be_had_again(world: World) -> None:
    """Same size, other content: it is named, never used, and out of Ivy's cache, so that the next run mends it."""
    bad = world.source / "kafka" / "b.jar"
    right = bad.read_bytes()
    bad.write_bytes(b"x" * len(right))
    with pytest.raises(PartsCorruptError, match=r"kafka/b\.jar") as caught:
        ensure_parts(cache=world.cache)
    assert caught.value.files == ("kafka/b.jar",)
    assert not (parts.parts_in(world.cache).folder("kafka") / "b.jar").exists()
    bad.write_bytes(right)
    assert ensure_parts(cache=world.cache).complete("kafka")


def test_no_network_is_said_with_ivy_s_own_reason(world: World) -> None:
    world.source.rename(world.source.with_name("away"))
    with pytest.raises(PartsUnavailableError, match="UnknownHost") as caught:
        ensure_parts(cache=world.cache)
    assert caught.value.log.exists()
    assert "run the command again" in caught.value.hint


def test_two_at_once_install_once(world: World) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ensure_parts(cache=world.cache), range(4)))
    assert world.runs == 1


def test_spark_s_classes_are_recorded_once_and_beside_the_downloads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads, recorded = Event(), []

    def record(archive: Path) -> None:
        assert downloads.wait(30)
        recorded.append(archive)
        archive.write_bytes(b"classes")

    def report(now: Progress) -> None:
        downloads.set()
        seen.append(now.step)

    seen: list[str] = []
    monkeypatch.setattr(jars, "archive_of", lambda folder: folder / "classes-1.jsa")
    monkeypatch.setattr(jars, "record", record)
    parts = ensure_all(cache=world.cache, report=report)
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda _: spark_jars(cache=world.cache), range(4)))
    assert recorded == [parts.folder("spark") / "classes-1.jsa"]
    assert given[0] == [str(path) for path in parts.files("spark")]
    assert "downloading" in seen or "resolving" in seen
    recorded[0].unlink()
    assert spark_jars(cache=world.cache, report=report) == given[0]
    assert (len(recorded), seen[-1]) == (2, "recording Spark's classes, once")


def test_without_an_archive_of_classes_spark_has_its_jars_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(_archive: Path) -> None:
        raise PermissionError("read only")

    monkeypatch.setattr(jars, "record", record)
    for archive in (None, world.cache / "classes.jsa"):
        monkeypatch.setattr(jars, "archive_of", lambda _folder, archive=archive: archive)
        assert [Path(jar).name for jar in spark_jars(cache=world.cache)] == ["a.jar", "b.jar"]


def test_a_machine_without_java_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissingError, match="No Java was found"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match="contains no bin/java"):
        find_java()


@pytest.mark.parametrize(
    ("version_text", "major"), [('openjdk version "11.0.2" 2019', 11), ('java version "1.8.0_292"', 8)]
)
def test_a_java_that_is_too_old_is_named(
    version_text: str, major: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "java"
    fake.write_text(f"#!/bin/sh\necho '{version_text}' >&2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaVersionError) as caught:
        java.find_java()
    assert (caught.value.found, caught.value.needed) == (major, 17)
