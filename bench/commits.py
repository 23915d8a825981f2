"""What commits contain, made beside the fold: how fast, how much is written, how many layers, and how long it takes.

The pass's own figures are those of the real process over a lake that is filled in columns (`commit_lake`), with its
processor time, which other work on the machine changes less; the figures of a stream stand in `commit_stream`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from bench import commit_stream
from bench.commit_lake import CommitLake, Pass, layers_of, rows_written

OBJECTS: Final = 1_000_000
FEW_OBJECTS: Final = 10_000
CHANGES: Final = 1_000
COMMITS: Final = 1_000
PROBES: Final = 20
CHANCE_COMMITS: Final = 200
MOST_CHANGES: Final = 100_000
REBUILD_COMMITS: Final = 100
LEAST_COMMITS_PER_S: Final = 2
SLOWEST_S: Final = 15
MOST_WRITTEN: Final = 8
MOST_LAYERS: Final = 30
LEAST_OBJECTS_PER_S: Final = 55_000

Say = Callable[[str], None]


def run(
    say: Say, *, objects: int = OBJECTS, commits: int = COMMITS, chance: int = CHANCE_COMMITS, probes: int = PROBES
) -> list[dict[str, Any]]:
    """Measure all."""
    return [
        *_rebuilt(say, objects),
        *_one_by_one(say, objects, commits, probes),
        *_by_chance(say, objects, chance),
        *commit_stream.run(say, objects=objects),
    ]


def _figure(name: str, value: float, limit: float, unit: str, **more: Any) -> dict[str, Any]:
    bound = {} if {"most", "least"} & more.keys() else {"most": 1.0}
    return {"name": name, "value": value, "limit": limit, "ratio": value / limit, "unit": unit, **bound, **more}


def _rebuilt(say: Say, objects: int) -> list[dict[str, Any]]:
    """The derived part of a rebuild: every commit of a journal, one piece after the other."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        filled = CommitLake(folder)
        filled.load(objects, commits=REBUILD_COMMITS)
        work = Pass(filled.lake)
        took, processor_s = work.run(), work.processor_s()
        say(f"{objects:,} objects in {REBUILD_COMMITS} commits: {took:.1f} s, {processor_s:.1f} s of processor time, "
            f"{len(work.pieces)} pieces, peak {work.peak_bytes() / 2**20:.0f} MiB")  # fmt: skip
        work.close()
    return [
        _figure(f"{objects:,} objects in {REBUILD_COMMITS} commits, the derived tables of a rebuild", objects / took,
                LEAST_OBJECTS_PER_S, "objects/s", least=1.0, processor_s=processor_s)
    ]  # fmt: skip


def _one_by_one(say: Say, objects: int, commits: int, probes: int) -> list[dict[str, Any]]:
    """Commits of scattered changes among many objects, each by itself; before that the pass's own time of some."""
    with tempfile.TemporaryDirectory() as many, tempfile.TemporaryDirectory() as few:
        lakes = {objects: CommitLake(many), FEW_OBJECTS: CommitLake(few)}
        works = {}
        for size, filled in lakes.items():
            filled.load(size)
            works[size] = Pass(filled.lake)
            works[size].run()
        figures = _own_time(say, lakes, works, probes)
        works.pop(FEW_OBJECTS).close()
        (filled, work) = lakes[objects], works[objects]
        before, processor_s, first = rows_written(filled.lake), work.processor_s(), len(work.pieces)
        slowest, met = 0.0, 0
        for _ in range(commits):
            filled.write(filled.scattered(objects, CHANGES))
            filled.commit()
            filled.batch(tidy_s=0.1)
            rows_before = rows_written(filled.lake)
            took = work.run()
            if took > slowest:
                slowest, met = took, rows_written(filled.lake) - rows_before
        took = sum(work.pieces[first:])
        processor_s = (work.processor_s() - processor_s) / commits
        written = (rows_written(filled.lake) - before) / (commits * CHANGES)
        most_layers = max(layers_of(filled.lake))
        say(f"{commits:,} commits: {took:.0f} s, {processor_s * 1000:.0f} ms of processor time each, the slowest "
            f"{slowest:.1f} s with {met:,} rows written; {most_layers} layers at most, "
            f"peak {work.peak_bytes() / 2**20:.0f} MiB")  # fmt: skip
        work.close()
    name = f"{commits:,} commits of {CHANGES:,} changes in {objects:,}"
    return [
        *figures,
        _figure(f"{name}, of the pass", commits / took, LEAST_COMMITS_PER_S, "commits/s", least=1.0,
                processor_ms=processor_s * 1000),
        _figure(f"{name}, the slowest", slowest, SLOWEST_S, "s", rows_written=met),
        _figure(f"{name}, rows written for each changed row", written, MOST_WRITTEN, "rows", layers=most_layers),
    ]  # fmt: skip


def _own_time(say: Say, lakes: dict[int, CommitLake], works: dict[int, Pass], probes: int) -> list[dict[str, Any]]:
    """The pass's own time of one commit, among many objects and among few, in turns."""
    times: dict[tuple[int, bool], list[float]] = {}
    processor: dict[tuple[int, bool], float] = {}
    for number in range(probes):
        for size, filled in lakes.items():
            for scattered in (True, False):
                prefix = np.arange(CHANGES) + CHANGES * (number % (size // CHANGES))
                filled.write(filled.scattered(size, CHANGES) if scattered else prefix)
                filled.commit()
                filled.batch(tidy_s=0.1)
                before = works[size].processor_s()
                times.setdefault((size, scattered), []).append(works[size].run() * 1000)
                key = (size, scattered)
                processor[key] = processor.get(key, 0.0) + works[size].processor_s() - before
    figures = []
    many, few = lakes
    for scattered, what in ((True, "scattered"), (False, "under one prefix")):
        value, limit = (statistics.median(times[size, scattered]) for size in (many, few))
        taken = {size: processor[size, scattered] / probes * 1000 for size in lakes}
        say(f"{CHANGES:,} changes {what}: {value:.0f} ms among {many:,}, {limit:.0f} among {few:,}; "
            f"{taken[many]:.0f} and {taken[few]:.0f} ms of processor time")  # fmt: skip
        figures.append(
            {"name": f"pass of {CHANGES:,} changes {what}, in {many:,} over in {few:,}, p50", "value": value,
             "limit": limit, "ratio": value / limit, "unit": "ms", "probes": probes, "processor_ms": taken[many]}
        )  # fmt: skip
    return figures


def _by_chance(say: Say, objects: int, commits: int) -> list[dict[str, Any]]:
    """Commits of any size from 1 to 100,000, small ones as often as large ones on a logarithmic scale."""
    choose = np.random.default_rng(13)
    sizes = np.exp(choose.uniform(0, np.log(MOST_CHANGES), commits)).astype(int).clip(1, objects)
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        filled = CommitLake(folder)
        filled.load(objects)
        work = Pass(filled.lake)
        work.run()
        before = rows_written(filled.lake)
        for size in sizes.tolist():
            filled.write(filled.scattered(objects, size))
            filled.commit()
            filled.batch(tidy_s=0.3)
        took = work.run()
        written = (rows_written(filled.lake) - before) / int(sizes.sum())
        most_layers = max(layers_of(filled.lake))
        say(f"{commits} commits of 1 to {MOST_CHANGES:,} changes, {int(sizes.sum()):,} in all: {took:.0f} s, "
            f"{len(work.pieces)} pieces, peak {work.peak_bytes() / 2**20:.0f} MiB")  # fmt: skip
        work.close()
    name = f"commits of 1 to {MOST_CHANGES:,} changes"
    return [
        _figure(f"{name}, rows written for each changed row", written, MOST_WRITTEN, "rows"),
        _figure(f"{name}, most layers", most_layers, MOST_LAYERS, "layers"),
    ]


if __name__ == "__main__":
    for figure in run(lambda text: print(text, file=sys.stderr, flush=True)):
        print(figure)
