"""Rebuilding the tables of a repository from the journal table, against 55,000 objects a second.

1,000,000 objects of one repository in 100 commits; one task folds all of it again. The tables of the fold are made, and
in another run those that are derived from them, too. Their digests, as of all columns of all rows, must be those of the
live ones. `python -m bench.object_rebuild 100000` takes fewer objects.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from bench import source
from bench.object_fold import REPOSITORY, TOPIC
from bench.objects import OBJECTS, created, events, header_of
from bench.rebuild import _Local, _Nowhere
from metajournal.domains.repositories.events import Committed
from metajournal.domains.repositories.urns import branch_urn
from metajournal.fold.records import SOURCE
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.settings import LakeSettings, Settings
from metajournal.streaming.derived.committing import fill
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.engine import Engine
from metajournal.streaming.rebuild import LakeRebuild, Pool, Progress

COMMITS: Final = 100
LIMIT_PER_S: Final = 55_000
TABLES: Final = ("entities", "branches", "commits", "objects", "resets")
DERIVED_TABLES: Final = ("trees", "commit_trees")
_BATCH: Final = 200

Say = Callable[[str], None]


def run(say: Say, *, objects: int = OBJECTS) -> list[dict[str, Any]]:
    """Measure; gives the figures in objects per second."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        settings = Settings(lake=LakeSettings(path=folder))
        epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "bench", 1)}, frozenset())
        lake = Lake(folder)
        lake.include(("repositories",))
        lake.create()
        marks = _fill(settings, epochs, lake, objects)
        fill(lake, {"trees": marks}, StoredFiles(folder, {}))
        figures = []
        for tables, what in ((TABLES, "derived tables aside"), ((*TABLES, *DERIVED_TABLES), "derived tables too")):
            name = f"rebuild of {objects:,} objects in {COMMITS} commits, {what}"
            took_s, processor_s = _rebuilt(say, settings, epochs, lake, tables)
            say(f"{name}: {took_s:.1f} s, {processor_s:.1f} s of processor time, digests equal")
            rate = objects / took_s
            figures.append(
                {"name": name, "value": rate, "limit": LIMIT_PER_S, "ratio": rate / LIMIT_PER_S, "unit": "objects/s",
                 "least": 1.0, "processor_s": processor_s}
            )  # fmt: skip
    return figures


def _rebuilt(say: Say, settings: Settings, epochs: Epochs, lake: Lake, tables: Sequence[str]) -> tuple[float, float]:
    """Rebuild some tables; gives the seconds that it took, and those of processor time of all processes."""
    target = lake.begin_generation(tables)
    before = _processor_s()
    with Pool() as pool:
        pool.warm_up()
        started = time.monotonic()
        done = LakeRebuild(settings, epochs, lake, target, [*tables], pool, _telling(say)).run()
        took_s = time.monotonic() - started
    assert done.equal, "the rebuilt tables differ"
    assert None not in done.live.values(), "a live table was not held against the rebuilt one"
    assert done.digests.keys() == {*tables}
    lake.drop_generation(target.generation)
    return took_s, _processor_s() - before


def _processor_s() -> float:
    """Seconds of processor time of this process and of those that have ended."""
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + of_children.ru_utime + of_children.ru_stime


def _telling(say: Say) -> Callable[[Progress], None]:
    return lambda done: say(f"  {done.records:,} of {done.of:,} events, {done.per_s:,.0f}/s")


def _journal(objects: int) -> Iterator[Any]:
    """A repository's events: objects, and a commit of each hundredth of them."""
    yield created(REPOSITORY)
    written, count = events(REPOSITORY, objects), max(1, objects // 1_000 // COMMITS)
    while some := list(islice(written, count)):
        yield from some
        yield Committed(branch_urn(REPOSITORY, "main"), "bench")


def _fill(settings: Settings, epochs: Epochs, lake: Lake, objects: int) -> dict[tuple[str, int], int]:
    """Fold the journal into the lake, as the wide way would."""
    engine = Engine(settings, epochs, lake, _Nowhere())  # type: ignore[arg-type]
    rest = enumerate(_journal(objects))
    end = 0
    while some := list(islice(rest, _BATCH)):
        rows = [source.record(TOPIC, 0, number, header_of(event, number), event) for number, event in some]
        end += len(rows)
        engine.run_wide(_Local(pa.Table.from_pylist(rows, schema=SOURCE)), {(TOPIC, 0): end})
    return dict(engine.marks)


if __name__ == "__main__":
    print(run(lambda text: print(text, flush=True), objects=int(sys.argv[1]) if len(sys.argv) > 1 else OBJECTS))
