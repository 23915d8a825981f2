"""What refs contain and how they differ, read from a lake as a stream leaves it before a compaction.

An open handle is one that has answered before: it keeps what it read of refs, graphs and layers. A fresh one opens the
lake. Listings are those of a branch with what is staged on it.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from bench.commit_lake import KEY, REPO, TOPIC, CommitLake
from metajournal.domains.repositories.queries import RepositoryQueries
from metajournal.domains.repositories.questions import Ref
from metajournal.lake.tables import Lake
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.derived.committing import fill
from metajournal.streaming.derived.files import StoredFiles

OBJECTS: Final = 1_000_000
FEW_OBJECTS: Final = 10_000
CHANGES: Final = 1_000
MANY_CHANGES: Final = 100_000
COMMITS: Final = 100
APART: Final = 100_000
PROBES: Final = 40
LIST_MS: Final = 50
FRESH_MS: Final = 100
PREFIXES_MS: Final = 300
MOST_RATIO: Final = 1.5
BASE_MS: Final = 400
FIRST_BASE_MS: Final = 2_000
_MAIN: Final = Ref.of("main")
_BEFORE: Final = Ref.of("main~1")
_HEAD: Final = Ref.of("main@")

Say = Callable[[str], None]


def run(
    say: Say, *, objects: int = OBJECTS, commits: int = COMMITS, probes: int = PROBES, apart: int = APART
) -> list[dict[str, Any]]:
    """Measure all."""
    with tempfile.TemporaryDirectory() as many, tempfile.TemporaryDirectory() as few:
        lakes = {}
        for size, folder in ((objects, many), (FEW_OBJECTS, few)):
            say(f"recording {size:,} objects and {commits} commits")
            lakes[size] = _filled(folder, size, commits)
        return [*_listings(say, many, objects, probes), *_differences(say, lakes, probes), *_bases(say, apart, probes)]


def _filled(folder: str, objects: int, commits: int) -> CommitLake:
    """Objects in random order, then commits of scattered changes, the last one of many; and some that are staged."""
    filled = CommitLake(folder)
    filled.create()
    filled.load(objects)
    _made(filled)
    for number in range(commits):
        filled.write(filled.scattered(objects, CHANGES))
        filled.commit()
        if number % 4 == 3:
            filled.batch()
    filled.batch()
    _made(filled)
    filled.write(filled.scattered(objects, CHANGES))
    filled.batch()
    return filled


def _made(filled: CommitLake) -> None:
    filled.lake.refresh()
    fill(filled.lake, {"trees": {KEY: filled.position}}, StoredFiles(filled.lake.path, {}))


def _queries(folder: str) -> RepositoryQueries:
    return RepositoryQueries(Lake(folder), TopicNames(), {TOPIC: 1})


def _listings(say: Say, folder: str, objects: int, probes: int) -> list[dict[str, Any]]:
    choose = random.Random(5)
    queries = _queries(folder)

    def page(asked: RepositoryQueries) -> None:
        prefix = f"data/{choose.randrange(objects // 1_000):05}/"
        items = asked.list_objects("default", REPO, _MAIN, prefix=prefix, limit=1_000).items
        assert len(items) == min(1_000, objects), len(items)

    def prefixes() -> None:
        items = queries.list_objects("default", REPO, _MAIN, prefix="data/", delimiter="/", limit=1_000).items
        assert len(items) == objects // 1_000, len(items)

    page(queries)
    opened = _times(lambda: page(queries), probes)
    fresh = _times(lambda: page(_queries(folder)), max(5, probes // 4))
    common = _times(prefixes, max(5, probes // 4))
    lake = Lake(folder)
    lake.refresh()
    files = sum(len(lake.tables[name].delta.file_uris()) for name in ("objects", "trees"))
    say(f"1,000 entries of {objects:,}: {_told(opened)}; fresh {_told(fresh)}; prefixes {_told(common)}; {files} files")
    return [
        _figure(f"1,000 entries under a prefix of {objects:,}, open handle, p50", opened, LIST_MS),
        _figure("the same, fresh handle, p50", fresh, FRESH_MS),
        _figure(f"{objects // 1_000:,} common prefixes of 1,000 objects each, p50", common, PREFIXES_MS),
    ]


def _differences(say: Say, lakes: dict[int, CommitLake], probes: int) -> list[dict[str, Any]]:
    """Differences of the newest commit, among many objects and among few, in turns; then of many changes."""
    queries = {size: _queries(filled.lake.path) for size, filled in lakes.items()}
    times: dict[int, list[float]] = {size: [] for size in lakes}
    first = {size: _times(lambda asked=asked: _diff(asked, CHANGES), 1)[0] for size, asked in queries.items()}  # type: ignore[misc]
    for _ in range(probes):
        for size, asked in queries.items():
            times[size] += _times(lambda asked=asked: _diff(asked, CHANGES), 1)  # type: ignore[misc]
    many, few = lakes
    value, limit = (statistics.median(times[size]) for size in (many, few))
    filled = lakes[many]
    filled.commit()
    slopes = {}
    for changes in (10_000, MANY_CHANGES):
        if changes < many:
            filled.write(filled.scattered(many, changes))
            filled.commit()
            filled.batch()
            _made(filled)
            asked = _queries(filled.lake.path)
            _diff(asked, changes)
            slopes[changes] = statistics.median(_times(lambda asked=asked, n=changes: _diff(asked, n), 3))  # type: ignore[misc]
    slope = ", ".join(f"{changes:,} changes {took:.0f} ms" for changes, took in slopes.items())
    say(f"diff of {CHANGES:,} changes: {value:.1f} ms in {many:,}, {limit:.1f} in {few:,}; the first one "
        f"{first[many]:.0f} and {first[few]:.0f} ms; {slope}")  # fmt: skip
    return [
        {"name": f"diff of {CHANGES:,} changes in {many:,} over in {few:,}, p50", "value": value, "limit": limit,
         "ratio": value / limit, "unit": "ms", "most": MOST_RATIO, "slope_ms": slopes, "probes": probes}
    ]  # fmt: skip


def _diff(queries: RepositoryQueries, changes: int) -> None:
    """All differences of the newest commit from the one before, page by page."""
    after, count = None, 0
    while True:
        page = queries.diff("default", REPO, _BEFORE, _HEAD, after=after, limit=10_000)
        count += len(page.items)
        if (after := page.after) is None:
            break
    assert count == changes, (count, changes)


def _bases(say: Say, apart: int, probes: int) -> list[dict[str, Any]]:
    """Two branches, each half of the commits away from where they parted."""
    with tempfile.TemporaryDirectory() as folder:
        filled = CommitLake(folder)
        filled.create()
        filled.write(np.arange(10))
        base = filled.commit()
        filled.branch("dev")
        for branch in ("main", "dev") * 5:
            filled.line(branch, apart // 10)
            filled.batch(tidy_s=0.3)

        def ask(queries: RepositoryQueries) -> None:
            assert queries.merge_bases("default", REPO, _MAIN, Ref.of("dev")) == [base]

        first = _times(lambda: ask(_queries(folder)), 5)
        queries = _queries(folder)
        ask(queries)
        opened = _times(lambda: ask(queries), probes)
    say(f"merge base of branches {apart:,} commits apart: {_told(opened)}; the first time {_told(first)}")
    name = f"merge base of two branches {apart:,} commits apart"
    return [
        _figure(f"{name}, open handle, p50", opened, BASE_MS),
        _figure("the same, the first time, p50", first, FIRST_BASE_MS),
    ]


def _times(ask: Callable[[], None], probes: int) -> list[float]:
    """Milliseconds of each probe."""
    times = []
    for _ in range(probes):
        begun = time.perf_counter()
        ask()
        times.append((time.perf_counter() - begun) * 1_000)
    return times


def _told(times: list[float]) -> str:
    return f"p50 {statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f})"


def _figure(name: str, times: list[float], limit: float) -> dict[str, Any]:
    value = statistics.median(times)
    return {"name": name, "value": value, "limit": limit, "ratio": value / limit, "unit": "ms", "most": 1.0,
            "probes": len(times), "worst": max(times)}  # fmt: skip


if __name__ == "__main__":
    run(lambda text: print(text, flush=True), objects=int(sys.argv[1]) if len(sys.argv) > 1 else OBJECTS)
