"""Reports of a service on itself: written whole, by whoever is at it, and never a reason to stop."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from metajournal.indexer.fill.status import StatusFile as IndexerFile
from metajournal.reporting import ReportFile, ending, replace_file
from metajournal.schemas.settings import Settings, StackSettings
from metajournal.streaming.report import Report
from metajournal.streaming.status import StatusFile as StreamFile

THREADS, WRITES = 4, 300
MARKS = {("t", 0): 7}


def in_threads(work: Callable[[int], None]) -> list[BaseException]:
    """Run the same in several threads at once; what they failed of."""
    errors = list[BaseException]()
    begin = threading.Barrier(THREADS)

    def run(number: int) -> None:
        begin.wait(10)
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return errors


def stream_file(home: Path) -> Callable[[str], None]:
    file = StreamFile(str(home), "stream")
    return lambda state: file.say(state, "")


def indexer_file(home: Path) -> Callable[[str], None]:
    file = IndexerFile(Settings(stack=StackSettings(home=str(home))))
    return lambda state: file.write({"state": state})


FILES = {"stream.json": stream_file, "indexer.json": indexer_file}


@pytest.mark.thorough
@pytest.mark.parametrize("name", FILES)
def test_threads_that_report_at_once_neither_fail_nor_tear_the_file(tmp_path: Path, name: str) -> None:
    """The batch's thread and the watching one; each of them had ended the query by taking the other's draft."""
    home = tmp_path / "home"
    say = FILES[name](home)
    say("starting")

    def work(number: int) -> None:
        for _ in range(WRITES):
            say(f"state {number}")
            assert json.loads((home / name).read_text())["state"].startswith("sta")

    assert in_threads(work) == []
    assert [path.name for path in home.iterdir()] == [name], "no draft is left"


def test_processes_that_report_at_once_neither_fail_nor_tear_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    program = f"""
from pathlib import Path
from metajournal.reporting import replace_file
for number in range({WRITES}):
    replace_file(Path({str(path)!r}), '{{"number": 1}}')"""
    writers = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert json.loads(path.read_text()) == {"number": 1}
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.thorough
def test_what_is_newest_stands_last(tmp_path: Path) -> None:
    """A thread that waits for its turn says what holds when its turn comes."""
    file, count = ReportFile(tmp_path / "a.json"), iter(range(THREADS * WRITES))
    last = [0]

    def document() -> dict[str, int]:
        last[0] = next(count)
        return {"number": last[0]}

    def work(_number: int) -> None:
        for _ in range(WRITES):
            file.replace(document)

    assert in_threads(work) == []
    assert json.loads((tmp_path / "a.json").read_text()) == {"number": last[0]} == {"number": THREADS * WRITES - 1}


def file_in_its_place(home: Path) -> None:
    shutil.rmtree(home)
    home.touch()


def folder_for_the_file(home: Path) -> None:
    for name in FILES:
        (home / name).unlink(missing_ok=True)
        (home / name).mkdir()


def loop_of_links(home: Path) -> None:
    shutil.rmtree(home)
    home.symlink_to(home)


OBSTACLES = [file_in_its_place, folder_for_the_file, loop_of_links]


@pytest.mark.parametrize("block", OBSTACLES)
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_written_is_said_once_and_written_again_with_room(
    tmp_path: Path, name: str, block: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    say = FILES[name](home)
    say("starting")
    block(home)
    for number in range(5):
        say(f"state {number}")
    assert [str(home / name) in line and "cannot be written" in line for line in caplog.messages] == [True]
    home.unlink() if not home.is_dir() or home.is_symlink() else shutil.rmtree(home)
    say("running")
    assert json.loads((home / name).read_text())["state"] == "running"
    assert [path.name for path in home.iterdir()] == [name]
    assert caplog.messages[1:] == [f"{home / name} is written again."]


@pytest.mark.parametrize("name", FILES)
def test_a_folder_that_was_removed_is_made_again(tmp_path: Path, name: str) -> None:
    say = FILES[name](tmp_path / "home")
    say("starting")
    shutil.rmtree(tmp_path / "home")
    say("running")
    assert json.loads((tmp_path / "home" / name).read_text())["state"] == "running"


def test_another_reason_is_said_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "home"
    file = ReportFile(home / "a.json")
    for block in (Path.touch, Path.touch, Path.mkdir, Path.mkdir):
        home.unlink(missing_ok=True) if not home.is_dir() else None
        block(home, exist_ok=True)
        (home / "a.json").mkdir(exist_ok=True) if home.is_dir() else None
        file.replace(dict)
    assert [line.split(": ")[1].split(".")[0] for line in caplog.messages] == ["File exists", "Is a directory"]
    assert file.problem == "Is a directory"


def test_drafts_that_a_killed_process_left_are_removed_and_fresh_ones_stay(tmp_path: Path) -> None:
    stale, fresh = tmp_path / ".a.json.0123.draft", tmp_path / ".a.json.4567.draft"
    for draft in (stale, fresh):
        draft.touch()
    os.utime(stale, (0, 0))
    ReportFile(tmp_path / "a.json").replace(dict)
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", fresh.name}


def test_a_failed_write_leaves_the_former_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    replace_file(path, "former", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            replace_file(path, "longer than four bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "former"


@pytest.mark.parametrize("metrics", ["/dev/full", "{folder}/file/metrics.jsonl", "{folder}"])
def test_metrics_that_cannot_be_written_do_not_end_a_batch(
    tmp_path: Path, metrics: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    file = StreamFile(str(tmp_path / "home"), "stream", metrics.format(folder=tmp_path))
    file.say("running", "")
    for _ in range(3):
        file.batch(MARKS, Report(1, {"accepted": 1}, 1, 3, 1, 400, {}), 0.1)
    file.close()
    assert json.loads((tmp_path / "home" / "stream.json").read_text())["verdicts"] == {"accepted": 3}
    assert [line.startswith(metrics.format(folder=tmp_path)) for line in caplog.messages] == [True]


def test_a_line_that_is_not_taken_whole_is_cut_off_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metrics.jsonl"
    file = ReportFile(path)
    file.append({"number": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, limits[1]))
    try:
        file.append({"number": 2})
        assert file.problem
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file.append({"number": 3})
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [1, 3]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (-9, "was killed by signal 9 (SIGKILL)"),
        (-64 - 1, "was killed by signal 65"),
        (1, "ended with exit code 1"),
        (143, "ended with exit code 143 (SIGTERM)"),
    ],
)
def test_how_a_process_ended_is_said_in_words(code: int, text: str) -> None:
    assert ending(code) == text
