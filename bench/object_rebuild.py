"""Rebuilding the tables of a repository from the journal table, against 55,000 objects a second.

1,000,000 objects of one repository in 100 commits; one task folds all of it again. The tables of the fold are made,
not those that are derived from them. Their digests must be those of the live ones.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
from metajournal.lake.digest import table_digest
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.settings import LakeSettings, Settings
from metajournal.streaming.engine import Engine
from metajournal.streaming.rebuild import LakeRebuild, Pool, Progress

COMMITS: Final = 100
LIMIT_PER_S: Final = 55_000
TABLES: Final = ("entities", "branches", "commits", "objects", "resets")
_BATCH: Final = 200

Say = Callable[[str], None]


def run(say: Say, *, objects: int = OBJECTS) -> list[dict[str, Any]]:
    """Measure; gives the figure in objects per second."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        settings = Settings(lake=LakeSettings(path=folder))
        epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "bench", 1)}, frozenset())
        lake = Lake(folder)
        lake.include(("repositories",))
        lake.create()
        marks = _fill(settings, epochs, lake, objects)
        before = {name: table_digest(lake.tables[name].delta, marks) for name in TABLES}
        target = lake.begin_generation(TABLES)
        with Pool() as pool:
            pool.warm_up()
            started = time.monotonic()
            done = LakeRebuild(settings, epochs, lake, target, [*TABLES], pool, _telling(say)).run()
            took_s = time.monotonic() - started
        assert done.digests == before, "the rebuilt tables differ"
    rate = objects / took_s
    name = f"rebuild of {objects:,} objects in {COMMITS} commits, derived tables aside"
    say(f"{name}: {took_s:.1f} s, digests equal")
    return [
        {"name": name, "value": rate, "limit": LIMIT_PER_S, "ratio": rate / LIMIT_PER_S, "unit": "objects/s",
         "least": 1.0}
    ]  # fmt: skip


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
    print(run(print, objects=int(sys.argv[1]) if len(sys.argv) > 1 else OBJECTS))
