"""Commits on a running installation: from emit to the row that says what the commit contains, and who waits for it.

Two repositories, of a million objects and of ten thousand, get commits of a thousand scattered changes in turns; the
pass has rested before each, as it rests after a small piece. Then merges of a million changes are made again and again
beside events of the catalog, whose way to the lake is measured with a merge in the pass and without, in turns.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.derived import _probe
from metajournal.client import Journal
from metajournal.config import load
from metajournal.domains.catalog.events import EntityRegistered
from metajournal.domains.catalog.urns import dataset
from metajournal.domains.repositories.events import BranchCreated, Committed, Entry, Merged, ObjectsWritten
from metajournal.domains.repositories.urns import branch_urn, commit_urn
from metajournal.lake.derived import derived_mark
from metajournal.lake.tables import Lake
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.stack.home import SETTINGS_FILE
from metajournal.stack.supervisor import down, up

FEW_OBJECTS: Final = 10_000
CHANGES: Final = 1_000
PROBES: Final = 12
MERGES: Final = 4
MOST_RATIO: Final = 1.5
MOST_ADDED_MS: Final = 300
_EVENT_ROWS: Final = 1_000
_COMMIT_ROWS: Final = 50_000
_REST_S: Final = 6.0
_QUIET_PROBES: Final = 40
_POLL_S: Final = 0.005
_WAIT_S: Final = 1_800.0

Say = Callable[[str], None]


def run(
    say: Say, *, objects: int = 1_000_000, few: int = FEW_OBJECTS, probes: int = PROBES, merges: int = MERGES
) -> list[dict[str, Any]]:
    """Measure on an installation of its own."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        home = Path(folder)
        up(home, Settings())
        try:
            settings = load(str(home / SETTINGS_FILE)).settings
            bulk = replace(settings, client=replace(settings.client, linger_ms=5.0))
            with Journal.connect(bulk) as journal:
                sides = {"many": objects, "few": few}
                began = time.perf_counter()
                for name, count in sides.items():
                    _load(journal, name, count)
                stream = _Stream(settings)
                stream.wait(_commit(journal, "few", []))
                say(f"{objects:,} and {few:,} objects are made after {time.perf_counter() - began:.0f} s")
            with Journal.connect(settings) as journal:
                return [_to_row(say, journal, stream, sides, probes), _beside_merges(say, journal, stream, merges)]
        finally:
            down(home)


class _Stream:
    """What the lake of the installation says."""

    def __init__(self, settings: Settings) -> None:
        self.lake = Lake(settings.lake.path, settings.lake.storage_options)
        self.lake.include(["repositories"])

    def wait(self, position: Position) -> None:
        """Wait until what a commit at a position contains is known."""
        key, until = (position.topic, position.partition), time.monotonic() + _WAIT_S
        while derived_mark(self.lake, "commit_trees", key) <= position.value:
            if time.monotonic() > until:
                raise RuntimeError(f"{position} is not made")
            time.sleep(_POLL_S)
            self.lake.refresh_pointer()
            self.lake.refresh_table("commit_trees")


def _load(journal: Journal, name: str, count: int) -> None:
    journal.repositories.create(name, storage_namespace="s3://b", timeout_s=60)
    order = random.Random(3).sample(range(count), count)
    for start in range(0, count, _COMMIT_ROWS):
        _commit(journal, name, order[start : start + _COMMIT_ROWS], "load")


def _commit(journal: Journal, name: str, numbers: list[int], note: str = "", branch: str = "main") -> Position:
    """Write objects and commit them, without waiting for any verdict; gives the commit's position."""
    urn = branch_urn(name, branch)
    for start in range(0, len(numbers), _EVENT_ROWS):
        entries = list(_entries(numbers[start : start + _EVENT_ROWS], note))
        journal.emit(ObjectsWritten(urn, entries), block_s=60)
    return journal.emit(Committed(urn, "m", allow_empty=True), block_s=60).position


def _entries(numbers: list[int], note: str) -> Iterator[Entry]:
    for number in numbers:
        path = f"data/{number // 1_000:05}/part-{number:08}.parquet"
        yield Entry(path, number, f"{note}{number}", f"s3://b/{number}", content_type="application/parquet")


def _to_row(say: Say, journal: Journal, stream: _Stream, sides: dict[str, int], probes: int) -> dict[str, Any]:
    took: dict[str, list[float]] = {name: [] for name in sides}
    choose = random.Random(5)
    for number in range(probes + 1):
        for name, count in sides.items():
            time.sleep(_REST_S)
            changed = sorted(choose.sample(range(count), CHANGES))
            entries = list(_entries(changed, f"c{number}/"))
            started = time.perf_counter()
            journal.emit(ObjectsWritten(branch_urn(name, "main"), entries))
            stream.wait(journal.emit(Committed(branch_urn(name, "main"), "m")).position)
            if number:
                took[name].append((time.perf_counter() - started) * 1000)
    many, few = (statistics.median(times) for times in took.values())
    say(f"emit to the commit's row: {many:.0f} ms among {sides['many']:,}, {few:.0f} among {sides['few']:,}")
    return {
        "name": f"emit of a commit of {CHANGES:,} changes to its row, {sides['many']:,} over {sides['few']:,}, p50",
        "value": many, "limit": few, "ratio": many / few, "most": MOST_RATIO, "unit": "ms", "probes": probes,
    }  # fmt: skip


def _beside_merges(say: Say, journal: Journal, stream: _Stream, merges: int) -> dict[str, Any]:
    """Emit to the lake of the catalog's events, with a merge of all objects in the pass and without one."""
    many = journal.repositories["many"]
    first = many.branch("base").create()
    first.outcome(60).raise_if_rejected()
    base = many.branch("base").commit("nothing", allow_empty=True, timeout_s=120).id
    head = many.branch("main").info().head
    assert head is not None
    journal.emit(EntityRegistered(dataset("bench", "probed"))).outcome(120)
    times: dict[bool, list[float]] = {True: [], False: []}
    took = []
    for number in range(merges):
        side = branch_urn("many", f"side{number}")
        journal.emit(BranchCreated(side, commit_urn("many", base))).outcome(60)
        time.sleep(_REST_S)
        times[False] += [_probe(journal, stream.lake) for _ in range(_QUIET_PROBES)]
        began = time.perf_counter()
        merged = journal.emit(Merged(branch_urn("many", "main"), side, head, base, message="m"))
        merged.outcome(60).raise_if_rejected()
        _probe(journal, stream.lake)
        while not _is_made(stream, merged.position):
            times[True].append(_probe(journal, stream.lake))
        took.append(time.perf_counter() - began)
    with_it, without = statistics.median(times[True]), statistics.median(times[False])
    slowest = [statistics.quantiles(times[merging], n=20)[18] for merging in (True, False)]
    say(f"a merge of all objects: {statistics.median(took):.0f} s; beside it {with_it:.0f} ms to the lake, "
        f"{without:.0f} without (p95 {slowest[0]:.0f} and {slowest[1]:.0f}; {len(times[True])} and "
        f"{len(times[False])} probes)")  # fmt: skip
    return {
        "name": "emit to the lake of the catalog's events, added by a merge of all objects in the pass, p50",
        "value": with_it - without, "limit": MOST_ADDED_MS, "ratio": (with_it - without) / MOST_ADDED_MS,
        "most": 1.0, "unit": "ms", "with": with_it, "without": without, "probes": len(times[True]),
    }  # fmt: skip


def _is_made(stream: _Stream, position: Position) -> bool:
    stream.lake.refresh_table("commit_trees")
    return derived_mark(stream.lake, "commit_trees", (position.topic, position.partition)) > position.value
