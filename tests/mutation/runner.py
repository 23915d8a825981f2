"""Judges mutants: each is written into a copy of the tree, and a child process runs the tests of `rules/` there.

Children are forked once the packages of others are imported, so that a run costs what the tests cost. The checkout is
only read. Invariant: a verdict comes from a child that imported the rules of its own copy.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Final, NamedTuple

import hypothesis
import pytest

from .operators import Mutant

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = {
    "rules": ("tests/rules",), "domains/access": ("tests/access/test_rights.py", "tests/access/test_rules.py"),
}  # fmt: skip
"""The tests of a room, or of what is pure in a domain."""
NICE: Final = 15
EXAMPLES: Final = 20
QUIET: Final = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins are here before pytest starts
PHASES: Final = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # a failure need not be made small
_FORK: Final = multiprocessing.get_context("fork")
_LEFT_OUT: Final = shutil.ignore_patterns(
    ".*", "__pycache__", "bench", "docs", "docker", "build", "*.egg-info", "*-data"
)


class Verdict(NamedTuple):
    """What the tests said of a mutant.

    Attributes:
        outcome: "killed", "timed out", "survived", or "broken" where the run itself failed.
        by: the first test that failed; empty where none did.
        how: the exception of that test, "AssertionError" for a claim that does not hold.
    """

    mutant: Mutant
    outcome: str
    by: str
    how: str


class Place:
    """A copy of the tree, for one child at a time."""

    def __init__(self, folder: Path, tests: tuple[str, ...]) -> None:
        self.tests = tests
        self.root = folder / "metajournal"
        shutil.copytree(ROOT, self.root, ignore=_LEFT_OUT)
        self.report = folder / "report.json"
        self.output = folder / "output.txt"

    def start(self, mutant: Mutant | None) -> ForkProcess:
        """A child that judges this mutant, None for the rules as they are."""
        self.report.unlink(missing_ok=True)
        if mutant is not None:
            self._write(mutant.path, mutant.applied((ROOT / mutant.path).read_bytes()))
        child = _FORK.Process(target=_judge, args=(self, self.tests))
        child.start()
        return child

    def restore(self, mutant: Mutant) -> None:
        self._write(mutant.path, (ROOT / mutant.path).read_bytes())

    def _write(self, path: str, source: bytes) -> None:
        file = self.root / path
        file.write_bytes(source)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):  # known by second and size only
            compiled.unlink()

    def read(self) -> dict[str, Any] | None:
        """The child's report; None where the run itself failed, which is no verdict."""
        return json.loads(self.report.read_text()) if self.report.exists() else None


class _Witness:
    """A pytest plugin: cheap tests first, and notes of the first failure."""

    def __init__(self) -> None:
        self.by = self.how = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)

    def pytest_exception_interact(self, node: Any, call: pytest.CallInfo[Any]) -> None:
        if not self.by and call.excinfo is not None:
            self.by, self.how = node.nodeid, call.excinfo.typename


def _judge(place: Place, tests: tuple[str, ...]) -> None:
    """In the child: run the tests in the copy and write a report."""
    os.nice(max(0, NICE - os.nice(0)))
    _redirect(place.output)
    sys.dont_write_bytecode = False  # in the copy, where it spares the next child the same work
    _forget("tests", "metajournal")
    os.chdir(place.root)
    own = {"", str(ROOT)}
    sys.path[:] = [str(place.root), str(place.root.parent), *(entry for entry in sys.path if entry not in own)]
    hypothesis.settings.register_profile(
        "mutation", max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, phases=PHASES
    )
    hypothesis.settings.load_profile("mutation")
    witness = _Witness()
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *QUIET, "-m", "not services", *tests], plugins=[witness])
    if code in {pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return
    rules = sys.modules.get("metajournal.rules")
    if rules is not None and not str(rules.__file__).startswith(str(place.root)):
        return
    modules = sorted(name for name in sys.modules if name.split(".")[0] not in {"tests", "metajournal", "__main__"})
    report = {"failed": code != pytest.ExitCode.OK, "by": witness.by, "how": witness.how, "modules": modules}
    place.report.write_text(json.dumps(report))


def _redirect(output: Path) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _forget(*packages: str) -> None:
    """Whatever the parent has of these was imported from the checkout."""
    for name in [name for name in sys.modules if name.split(".")[0] in packages]:
        del sys.modules[name]


class Runner:
    """Copies of the tree, and the children in them.

    Args:
        tests: that every mutant has to pass.
    """

    def __init__(self, folder: Path, processes: int, tests: tuple[str, ...]) -> None:
        self._places = [Place(folder / str(number), tests) for number in range(processes)]
        self.timeout_s = 0.0

    def prepare(self) -> float:
        """Run the tests on the rules as they are, twice: once to see what to import, once for the time they take.

        Returns:
            Seconds of the second run; `timeout_s` is 5 times as much and 20 s.
        Raises:
            RuntimeError: a test fails without any mutant.
        """
        took_s = 0.0
        for place in (self._places[0], *self._places):
            began = time.monotonic()
            place.start(None).join()
            took_s = time.monotonic() - began
            report = place.read()
            if report is None or report["failed"]:
                raise RuntimeError(f"the tests fail without any mutant:\n{place.output.read_text()[-4000:]}")
            _import(report["modules"])
        self.timeout_s = 5 * took_s + 20
        return took_s

    def verdicts(self, mutants: Iterable[Mutant]) -> Iterator[Verdict]:
        """A verdict for each mutant, as they come in."""
        waiting, free = iter(mutants), list(self._places)
        running: dict[ForkProcess, tuple[Place, Mutant, float]] = {}
        while True:
            while free and (mutant := next(waiting, None)) is not None:
                place = free.pop()
                running[place.start(mutant)] = (place, mutant, time.monotonic() + self.timeout_s)
            if not running:
                return
            wait([child.sentinel for child in running], timeout=1)
            for child in [child for child in running if _is_over(child, running[child][2])]:
                place, mutant, _ = running.pop(child)
                yield _verdict(child, place, mutant)
                place.restore(mutant)
                free.append(place)


def _is_over(child: ForkProcess, deadline: float) -> bool:
    return not child.is_alive() or time.monotonic() > deadline


def _verdict(child: ForkProcess, place: Place, mutant: Mutant) -> Verdict:
    if child.is_alive():
        child.kill()
        child.join()
        return Verdict(mutant, "timed out", "", "")
    report = place.read()
    if report is None:
        return Verdict(mutant, "broken", "", "")
    return Verdict(mutant, "killed" if report["failed"] else "survived", report["by"], report["how"])


def _import(modules: Iterable[str]) -> None:
    """What the tests import of others, once for all children."""
    for name in modules:
        with suppress(Exception):
            importlib.import_module(name)
