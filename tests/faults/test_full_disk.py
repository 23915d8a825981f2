"""A disk that fills up during a write: nothing half-written counts, it is said, and with room again it goes on.

Without Spark, a limit on the size of files makes each write fail at a size drawn at random: rows, commits, the log's
checkpoints, compaction. With Spark, the lake stands on a small disk of its own that is filled up.
"""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import LakeWriteError
from metajournal.schemas.settings import Settings
from metajournal.stack.supervisor import read_told
from tests.faults.scale import LONG, seeded, times
from tests.index import shows_the_lake
from tests.model import JournalRecord, Model
from tests.processes import Running, running_indexer, stream
from tests.streaming.harness import Fold, placed
from tests.streaming.test_engine import PARTITIONS, assert_equal
from tests.streaming.test_stream_kills import WAYS, assert_all_equal, generated, with_stream
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

DISK_BYTES = 8 << 20
PAGE_BYTES = 4096


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Every write that would make a file larger fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def parquet_files(folder: Path) -> set[Path]:
    """Data files, be they part of a table or not."""
    return {path for path in folder.rglob("*") if path.is_file() and "_delta_log" not in path.parts}


def assert_readable(fold: Fold, model: Model) -> None:
    """The tables hold what the marks say, and the journal nothing more."""
    fold.start()
    marks = {partition: mark for (_, partition), mark in fold.engine.marks.items()}
    held = [(row["journal_partition"], row["logical_timestamp"]) for row in fold.journal()]
    assert held == sorted(place for place in model.verdicts if place[1] < marks[place[0]])
    assert len(fold.rows()) <= len(model.tables["entities"])


def no_room(fold: Fold, records: list[JournalRecord], end: int, size_bytes: int, *, wide: bool) -> bool:
    """Fold with little room; whether it was too little, which is then said as what it is."""
    said: LakeWriteError | None = None
    try:
        with files_of_at_most(size_bytes):
            fold.batch(records, until=records[:end], wide=wide)
    except LakeWriteError as error:
        said = error
    assert said is None or (said.code, "Free space" in said.hint) == ("disk-full", True)
    return said is not None


@pytest.mark.parametrize("wide", [False, True], ids=["short", "wide"])
def test_writes_that_fail_at_any_size_leave_nothing_half_done(tmp_path: Path, wide: bool) -> None:
    chance = seeded("full disk")
    records = placed(generated(times(120, 240)), PARTITIONS)
    model = Model.of(records)
    fold = Fold(tmp_path, PARTITIONS)
    ends = sorted(chance.sample(range(1, len(records)), times(3, 30)))
    failed = 0
    for end in [*ends, len(records)]:
        room = 6.0  # doublings of a byte
        while no_room(fold, records, end, int(2 ** chance.uniform(4, room)), wide=wide):
            failed, room = failed + 1, room + 1.5
            assert_readable(fold, model)
    assert_equal(fold, model)
    assert failed > 2 * len(ends)
    print(failed, "writes failed")  # noqa: T201  (what the run was)


def test_tasks_without_room_leave_no_files(tmp_path: Path) -> None:
    """Neither of the tables nor staged ones: on a full disk, each attempt would leave less room."""
    records = placed(generated(60), PARTITIONS)
    fold = Fold(tmp_path, PARTITIONS)
    for size_bytes in (0, 10, 100, 300):
        assert no_room(fold, records, len(records), size_bytes, wide=True)
        assert parquet_files(tmp_path) == set()


def compact(fold: Fold) -> None:
    """Until nothing is left to do, in pieces."""
    while fold.engine.tidy():
        pass


def test_a_compaction_without_room_leaves_the_table_and_the_disk_as_they_were(tmp_path: Path) -> None:
    chance = seeded("full disk, compaction")
    records = placed(generated(60), PARTITIONS)
    fold = Fold(tmp_path, PARTITIONS)
    for end in range(1, len(records) + 1):
        fold.batch(records, until=records[:end])
    before = parquet_files(tmp_path)
    for _ in range(times(4, 100)):
        with pytest.raises(LakeWriteError, match="disk is full"), files_of_at_most(chance.randrange(2_000)):
            compact(fold)
        assert parquet_files(tmp_path) == before
    assert_equal(fold, Model.of(records))
    compact(fold)
    assert fold.lake.tables["entities"].delta.transaction_version("metajournal.compaction")
    assert_equal(fold, Model.of(records))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"a disk of its own needs the right to mount one: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def filled_but(disk: Path, pages: int) -> Path:
    """Fill a disk up but for so many pages, with a file."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = 0
        try:
            while written := file.write(bytes(PAGE_BYTES)):
                size += written
        except OSError:
            file.truncate(max(0, size - pages * PAGE_BYTES))
    return ballast


def says(settings: Settings) -> tuple[str, str]:
    told = read_told(Path(settings.stack.home or "") / "stream.json")
    return str(told.get("state")), str(told.get("message"))


def waits_for_room(settings: Settings) -> bool:
    state, message = says(settings)
    return state == "waiting" and message.startswith("disk-full: ")


@pytest.mark.services
@pytest.mark.long
@pytest.mark.parametrize("way", WAYS if LONG else ["wide"])
def test_a_stream_whose_disk_is_full_says_so_waits_and_goes_on_with_room(
    settings: Settings, tmp_path: Path, disk: Path, way: str
) -> None:
    chance = seeded(f"full disk, {way} way")
    settings = replace(settings, lake=replace(settings.lake, path=str(disk / "lake")))
    asked = with_stream(settings, max_events_per_batch=40, **WAYS[way])
    ensure_topics(settings)
    rounds = times(1, 3)
    records = generated(80 * (rounds + 1))
    write(settings, records[:80])
    process = stream(asked, tmp_path / "stream.log")
    try:
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({process.log})")
        for number in range(rounds):
            ballast = filled_but(disk, chance.randrange(4))  # far less than a batch takes
            write(settings, records[80 * (number + 1) : 80 * (number + 2)])
            eventually(lambda: waits_for_room(settings), 120, f"a stream that waits for room ({process.log})")
            assert Lake(settings.lake.path).journal.query("count(*) as count", "true")[0]["count"] >= 80
            if number % 2:
                process = started_again(process, asked, tmp_path)
            assert process.process.poll() is None, process.tail()
            ballast.unlink()
            eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({process.log})")
            eventually(lambda: says(settings)[0] == "running", 30, "a stream that says that it goes on")
        assert process.stop() == 0, process.tail()
    finally:
        process.kill()
    with running_indexer(settings, tmp_path / "indexer.log") as indexer:
        eventually(lambda: shows_the_lake(settings), 60, f"the index at the lake's marks ({indexer.log})")
    assert_all_equal(settings)


def started_again(process: Running, asked: Settings, tmp_path: Path) -> Running:
    """Kill a stream that waits for room, and start one that has to wait for it from the beginning."""
    process.kill()
    again = stream(asked, tmp_path / "again.log")
    eventually(lambda: b"disk is full" in again.log.read_bytes(), 90, f"a stream that waits for room ({again.log})")
    return again
