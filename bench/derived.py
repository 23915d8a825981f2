"""What derived tables cost the fold, and what one of them gives a question.

The ratio: emit to the lake at a steady load of lineage's facts, in turns with the process that makes derived tables at
work and halted (it gets SIGSTOP, so nothing is offered either; what it has missed it makes up for in its next turn).
The question: the latest write to data among a million accesses, with a fresh handle, before and after `writes` is
filled; data that few programs touch, and data that two thousand read.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench import lineage, steady
from bench.show import _journal_rows
from metajournal.client import Journal
from metajournal.config import load
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.domains.catalog.urns import run as run_of
from metajournal.domains.lineage.events import AccessesRecorded
from metajournal.domains.lineage.queries import LineageQueries
from metajournal.domains.lineage.questions import WriteQuestion
from metajournal.lake.tables import Lake, Reached
from metajournal.schemas.settings import Settings
from metajournal.schemas.topics import TopicNames
from metajournal.stack.home import SETTINGS_FILE
from metajournal.stack.supervisor import down, up
from metajournal.streaming.derived.committing import fill
from metajournal.streaming.derived.files import StoredFiles

MOST_RATIO: Final = 1.15
FACTS_PER_S: Final = 200
TURNS: Final = 20
TURN_S: Final = 12.0
READERS: Final = 2_000
PROBES: Final = 20
_POLL_S: Final = 0.005
_HUB: Final = "hub"


def run(
    say: Callable[[str], None], *, turns: int = TURNS, turn_s: float = TURN_S, trees: int = lineage.TREES
) -> list[dict[str, Any]]:
    """Measure; the ratio has its limit, the question its floor: it must not be slower than before."""
    return [*_question(say, trees), _ratio(say, turns, turn_s)]


def _ratio(say: Callable[[str], None], turns: int, turn_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        home = Path(folder)
        up(home, Settings())
        try:
            settings = load(str(home / SETTINGS_FILE)).settings
            context = multiprocessing.get_context("spawn")
            load_process = context.Process(target=_load, args=(settings, turns * turn_s + 120), daemon=True)
            load_process.start()
            working, halted = _in_turns(settings, home, turns, turn_s)
            load_process.kill()
        finally:
            down(home)
    with_it, without = statistics.median(working), statistics.median(halted)
    say(f"{len(working)} probes with {with_it:.0f} ms, {len(halted)} without {without:.0f} ms")
    return {
        "name": f"emit to the lake at {FACTS_PER_S} facts/s, p50 with derived tables being made over without",
        "value": with_it,
        "limit": without * MOST_RATIO,
        "ratio": with_it / without,
        "most": MOST_RATIO,
        "unit": "ms",
        "probes": len(working) + len(halted),
    }


def _load(settings: Settings, seconds: float) -> None:
    """Facts at a steady rate, from which rows are derived."""
    started, sent = time.monotonic(), 0
    with Journal.connect(replace(settings, client=replace(settings.client, linger_ms=5.0))) as journal:
        while (spent := time.monotonic() - started) < seconds:
            while sent < spent * FACTS_PER_S:
                who = run_of("bench", f"app{sent % 100}", "spark", "job", f"r{sent}")
                data = [(dataset("bench", f"d{(sent + side) % 1_000}"), kind, sent)
                        for side, kind in enumerate(("read", "write"))]  # fmt: skip
                journal.emit(AccessesRecorded(who, data), block_s=30)
                sent += 1
            time.sleep(0.01)


def _in_turns(settings: Settings, home: Path, turns: int, turn_s: float) -> tuple[list[float], list[float]]:
    """Milliseconds from emit to the lake's mark, with the process at work and halted, in turns."""
    delays: tuple[list[float], list[float]] = ([], [])
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    with Journal.connect(settings) as journal:
        journal.emit(EntityRegistered(dataset("bench", "probed"))).outcome(120)
        until = time.monotonic() + 60
        while not _made(lake) and time.monotonic() < until:
            time.sleep(0.2)
        for turn in range(turns):
            halted = turn % 2
            pids = _processes(home)
            if not pids:
                raise RuntimeError("no process of derived tables is at work")
            _signal(pids, signal.SIGSTOP if halted else signal.SIGCONT)
            try:
                until = time.monotonic() + turn_s
                _probe(journal, lake)
                while time.monotonic() < until:
                    delays[halted].append(_probe(journal, lake))
                    time.sleep(0.05 * (1 + len(delays[halted]) * 0.61 % 1))
            finally:
                _signal(pids, signal.SIGCONT)
        if not _made(lake):
            raise RuntimeError("no row was derived")
    return delays


def _made(lake: Lake) -> bool:
    lake.refresh()
    return lake.tables["writes"].exists() and bool(lake.tables["writes"].delta.file_uris())


def _processes(home: Path) -> list[int]:
    return [pid for pid, name in steady.processes_of(str(home)) if name == "streaming.derived"]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def _probe(journal: Journal, lake: Lake) -> float:
    started = time.perf_counter()
    position = journal.emit(TagsAdded(dataset("bench", "probed"), [uuid.uuid4().hex])).position
    key = (position.topic, position.partition)
    lake.journal.refresh()
    while lake.journal.mark(key) <= position.value:
        time.sleep(_POLL_S)
        lake.journal.refresh()
    return (time.perf_counter() - started) * 1000


# the question


def _question(say: Callable[[str], None], trees: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        say(f"filling a lake with {trees * lineage.NODES * lineage.RUNS * lineage.PER_RUN:,} accesses")
        lake = lineage.fill(folder, trees)
        _add_hub(lake, trees)
        names = {"few programs touch": "n000t001", f"{READERS:,} programs read": _HUB}
        before = {what: _timed_answer(folder, name) for what, name in names.items()}
        started = time.perf_counter()
        keys = [(lineage._TOPIC, partition) for partition in range(lineage._PARTITIONS)]
        fill(lake, {"writes": {key: lake.journal.mark(key) for key in keys}}, StoredFiles(folder, {}))
        lake.tables["writes"].compact()
        say(f"writes filled in {time.perf_counter() - started:.1f} s")
        after = {what: _timed_answer(folder, name) for what, name in names.items()}
    figures = []
    for what in names:
        (answer, took), (same, now) = before[what], after[what]
        if answer != same or answer is None:
            raise RuntimeError(f"the latest write to data that {what} was {answer}, and is {same}")
        say(f"the latest write to data that {what}: {took:.1f} ms before, {now:.1f} ms after")
        figures.append(
            {"name": f"latest write to data that {what}, p50", "value": now, "limit": took, "ratio": now / took,
             "most": 1.0, "unit": "ms", "probes": PROBES}
        )  # fmt: skip
    return figures


def _timed_answer(folder: str, name: str) -> tuple[Any, float]:
    took = []
    for _ in range(PROBES):
        started = time.perf_counter()
        known = LineageQueries(Lake(folder), TopicNames(), lineage._PARTITIONS)
        answer = known.latest_write("default", WriteQuestion.of(dataset("bench", name)))
        took.append((time.perf_counter() - started) * 1000)
    return answer, statistics.median(took)


def _add_hub(lake: Lake, trees: int) -> None:
    """Data that many programs read and one has written; the reads stand in `relations` alone, which is enough here."""
    numbers = np.arange(min(READERS, trees * lineage.NODES))
    programs = lineage._programs(numbers // lineage.NODES, numbers % lineage.NODES)
    first = lake.journal.mark((lineage._TOPIC, 0))
    columns_of_relations = {"data": pa.repeat("dataset:bench/hub", len(numbers)), "program": programs}
    lake.tables["relations"].append(
        lineage._common("relations", columns_of_relations, len(numbers), lineage._FIRST), Reached({}, {}, {})
    )
    columns = {
        "run": pa.repeat("run:bench/a000/spark/p000/hub", 1), "data": pa.repeat("dataset:bench/hub", 1),
        "access": "write", "component": "", "program": programs.slice(0, 1),
        "happened_at": lineage._times(np.ones(1, int)),
        "metadata": None,
    }  # fmt: skip
    marks = {(lineage._TOPIC, partition): first + 1 for partition in range(lineage._PARTITIONS)}
    lake.tables["accesses"].append(lineage._common("accesses", columns, 1, first), Reached(marks, {}, {}))
    lake.journal.append(_journal_rows(first), Reached(marks, marks, {}))


if __name__ == "__main__":
    for figure in run(lambda text: print(text, file=sys.stderr)):
        print(figure)
