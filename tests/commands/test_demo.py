"""The demo: it shows what it says, it fails when a number differs, and nothing of it is left, however it ends."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from metajournal.commands import demo as demo_module
from metajournal.commands import demo_git, demo_services
from metajournal.commands.demo import Demo
from metajournal.commands.demo_services import services
from metajournal.commands.telling import Lines, Screen, Silent
from metajournal.domains.repositories.git_history.reading import History
from metajournal.schemas.errors import InputError
from metajournal.schemas.positions import Position
from metajournal.sources.python_environment import python_environment
from tests.demonstration import Demonstration
from tests.independent_walk import digest_of, files_of, requirements_of, walk
from tests.repositories import git_histories as gits
from tests.wait import eventually

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "metajournal.cli", "demo"]
FOLDER = re.compile(r"Everything of this demo is in (\S+) and is removed with it")


def processes_of(folder: Path) -> list[str]:
    """Command lines of living processes that name a folder, in their arguments or their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line, inherited = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in line + inherited:
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def environment_of_the_command() -> dict[str, Any]:
    """An independent walk of the path that the demo's interpreter has."""
    script = "import json, sys; json.dump(sys.path, sys.stdout)"
    path = json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, cwd=ROOT).stdout)
    return dict(walk(path))


def test_the_demo_says_as_one_object_that_all_counts_agree_with_an_independent_walk(
    demonstration: Demonstration,
) -> None:
    done, report = demonstration.done, demonstration.report
    check_report(report)
    check_git(report["git"], demonstration.history)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    pasted = "\n".join(["set -ex", *(command for command, _ in report["try"])])
    tried = subprocess.run(["bash", "-c", pasted], capture_output=True, text=True, check=False, timeout=300)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "+tag mine" in tried.stdout
    assert processes_of(Path(report["folder"])) == []


def check_report(report: dict[str, Any]) -> None:
    """Everything in the report is what an independent walk finds."""
    assert report["ok"] is True, [name for name, holds in report["checks"].items() if not holds]
    walked = environment_of_the_command()
    assert {urn.rpartition("/")[2] for urn in report["published"]["entities"]} == set(walked)
    assert set(report["counts"].values()) == {len(walked)}
    assert list(report["freshness_ms"]) == ["acknowledged by Kafka", "in the lake", "searchable"]
    assert [search["query"] for search in report["searches"]] == [query for query, _ in demo_module.SEARCHES]
    assert report["live_tag"]["found"] == ["dataset:python/rich"]
    assert report["rejected"]["reason"] == "unknown-entity"
    assert set(report["entity"]["user"]["tags"]) == walked["rich"].tags | {demo_module.LIVE_TAG}
    assert len(report["history"]) == 2
    files, required = files_of(walked), requirements_of(walked)
    told = report["files"]
    assert len(files) > 5_000
    assert (told["in_lake"], told["in_index"], told["bytes"]) == (len(files),) * 2 + (sum(one.size for one in files),)
    assert told["digest"] == digest_of(files)
    assert told["found"] == len([one for one in files if one.what == "rich"])
    assert {tuple(pair.split(" -> ")) for pair in report["lineage"]["requirements"]} == required
    assert report["events"] >= 5_000
    assert [one["tagged"] for one in report["as_at"]] == [False, True]
    assert report["rebuild"]["compared"] == report["rebuild"]["documents"] == len(files) + 2 * len(walked) + 1


def check_git(report: dict[str, Any] | None, history: Path | None) -> None:
    """What the demo says of a clone's history is what git says."""
    if history is None:
        assert report is None
        return
    assert report is not None
    counts = report["counts"]
    assert all(one["git"] == one["repository"] for one in counts.values())
    imported = report["head"]
    assert [one["git_id"] for one in report["imported"]["branches"].values()] == [imported]
    assert counts["commits"]["git"] == int(gits.git(history, "rev-list", "--count", imported)) > 0
    assert counts["merges"]["git"] == int(gits.git(history, "rev-list", "--merges", "--count", imported))
    assert counts["paths at the newest"]["git"] == len(gits.listing(history, imported))


def test_a_git_history_that_cannot_be_imported_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module, "demo", lambda told, keep, history: pytest.fail("it began"))
    before = signal.getsignal(signal.SIGTERM)
    writer = gits.Writer()
    sides = [writer.commit({f"{number}": ("100644", "x")}) for number in range(3)]
    writer.commit({}, sides)
    writer.save(tmp_path / "octopus", {"main": 3})
    for folder, code in (("octopus", "octopus-merge"), ("nothing", "no-git-repository")):
        with pytest.raises(InputError) as refused:
            demo_module.run_demo(as_json=True, git=tmp_path / folder)
        assert refused.value.code == code
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("shallow", [True, False])
def test_where_the_demo_is_in_no_whole_clone_it_says_that_it_imports_none(
    shallow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    if shallow:
        writer = gits.Writer()
        writer.commit({}, [writer.commit({})])
        writer.save(tmp_path / "git", {"main": 1})
        gits.git(tmp_path, "clone", "--quiet", "--depth=1", (tmp_path / "git").as_uri(), str(here))
    monkeypatch.setattr(demo_git, "_PACKAGE", here)
    out = io.StringIO()
    with demo_git.git_input(None, Lines(Console(file=out, width=80))) as history:
        assert history is None
    assert ("shallow clone" if shallow else "--git PATH names one") in out.getvalue()


def test_the_demo_notices_a_commit_that_the_repository_has_otherwise(tmp_path: Path) -> None:
    gits.generated(tmp_path, 5, 60)
    head = gits.heads(tmp_path)["main"]
    with History(tmp_path) as history:
        git, here = demo_git._InGit(history, head), demo_git._InGit(history, head)
        same = demo_git._all(git, here) | demo_git._some(git, here, head)
        assert all(one == other > 0 for one, other in same.values())
        here.parents = {**here.parents, head: ("ff" * 20,)}
        here.listing = lambda commit: set()  # type: ignore[method-assign]
        other = demo_git._all(git, here) | demo_git._some(git, here, head)
    assert {name for name in same if same[name] != other[name]} == {
        "commits with the same parents",
        "paths at the newest",
        next(name for name in same if name.endswith("same listing")),
    }


@pytest.mark.services
def test_services_that_nobody_keeps_end_with_their_block_and_their_folder() -> None:
    with services(Silent()) as running:
        assert processes_of(running.folder)
    assert not running.folder.exists()
    assert processes_of(running.folder) == []


def test_a_signal_between_the_services_and_their_block_leaves_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []

    def begun(folder: Path, *_: object, **__: object) -> SimpleNamespace:
        folders.append(folder)
        return SimpleNamespace(keep=False)

    monkeypatch.setattr(demo_services, "ensure_all", lambda report: None)
    monkeypatch.setattr(demo_services, "_start", begun)
    abandoned = services(Silent())
    abandoned.__enter__()
    assert folders[0].exists()
    del abandoned
    assert not folders[0].exists()


def test_a_folder_that_is_still_written_to_is_removed_once_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is being killed may write behind what has been removed already."""
    folder, rest = tmp_path / "demo", ["state", "log"]
    (folder / "kafka").mkdir(parents=True)
    remove = shutil.rmtree

    def raced(path: Path, ignore_errors: bool) -> None:
        remove(path, ignore_errors=ignore_errors)
        if rest:
            folder.mkdir()
            (folder / rest.pop()).touch()

    monkeypatch.setattr(shutil, "rmtree", raced)
    demo_services._remove(folder)
    assert not folder.exists()
    assert rest == []


@pytest.mark.services
@pytest.mark.parametrize(
    ("number", "last"),
    [(signal.SIGKILL, "metajournal.cli index"), (signal.SIGTERM, "metajournal.cli index"), (signal.SIGINT, "kafka")],
)
def test_everything_dies_with_a_demo_that_is_killed(number: signal.Signals, last: str) -> None:
    """Whether all of it runs, or it is only starting; what a kill -9 leaves is the folder."""
    with started() as (running, folder):
        eventually(lambda: any(last in line for line in processes_of(folder)), 180, f"{last} of the demo")
        running.send_signal(number)
        running.wait(60)
        eventually(lambda: processes_of(folder) == [], 60, "the end of every process of the demo")
        assert folder.exists() == (number == signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
    assert running.returncode == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]


@contextmanager
def started() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A demo that runs, and the folder that it named first."""
    # What a shell starts with `&` ignores Ctrl-C and hands that on; a handler of one's own is not handed on.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        found = FOLDER.search(running.stdout.readline())
        assert found, "the demo did not name its folder first"
        try:
            yield running, Path(found.group(1))
        finally:
            running.kill()
            signal.signal(signal.SIGINT, before)


class Found:
    """A search that finds what it is told, as one page."""

    def __init__(self, hits: list[Any]) -> None:
        self.hits = hits

    def search(self, *_query: Any, **_asked: Any) -> SimpleNamespace:
        return SimpleNamespace(hits=self.hits, cursor=None, total=len(self.hits))


def counted(*, in_lake: int = 0, lost: int = 0, changed: bool = False) -> dict[str, Any]:
    """What the demo counts when the lake lacks some, the index lost some, or holds one otherwise."""
    events = python_environment()[:5]
    hits = [
        SimpleNamespace(urn=event.entity, entity={"user": {"properties": event.properties, "tags": sorted(event.tags)}})
        for event in events[lost:]
    ]
    if changed:
        hits[-1].entity["user"]["tags"].append("another")
    report: dict[str, Any] = {"checks": {}, "outcomes": {"accepted": 5}}
    stages: Any = SimpleNamespace(entities=lambda namespace: 5 - in_lake)
    journal: Any = Found(hits)
    shown = Demo(Silent(), journal, stages, report)
    shown.events, shown.positions = events, [Position("t", 0, number) for number in range(5)]
    shown.count()
    return report


@pytest.mark.thorough
def test_counts_agree_only_when_every_one_of_them_is_the_same() -> None:
    assert counted()["checks"] == {"all counts agree": True}
    assert counted(in_lake=1)["checks"] == {"all counts agree": False}
    assert counted(lost=1)["checks"] == {"all counts agree": False}
    assert counted(changed=True)["checks"] == {"all counts agree": False}


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_says_whether_the_demo_held(
    ok: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_module, "demo", lambda told, keep, history: {"ok": ok})
    before = signal.getsignal(signal.SIGTERM)
    assert demo_module.run_demo(as_json=True) == code
    signal.signal(signal.SIGTERM, before)
    assert json.loads(capsys.readouterr().out) == {"ok": ok}


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_told_is_the_same_in_a_terminal_and_as_lines(terminal: bool) -> None:
    out = io.StringIO()
    told = (Screen if terminal else Lines)(Console(file=out, force_terminal=terminal, width=80, markup=False))
    told.section("A heading")
    told.line("[bold]a line\x1b[2J")
    with told.step("a step"):
        pass
    with told.bars(["one", "two"], 3) as advance:
        advance("one", 1)
        advance("one", 3)
        advance("two", 3)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    for said in ("A heading", "[bold]a line\\x1b[2J", "a step"):
        assert said in text
    assert ("3/3" if terminal else "one: 3 of 3") in text
    assert ("\x1b" in out.getvalue()) == terminal
