"""Emit to verdict through a follower, alone and beside others in its partition; opening one.

The others are 2,000 events a second of other entities, or 10,000 objects a second of another repository.

The stream does not run: what a verdict takes here is the broker's, the follower's and the client's alone. The lake
holds a mark and no rows, so opening looks at the tables that a new installation has. Beside each latency stands its
floor in the same run: the acknowledgement of the same events.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from metajournal.client import Journal
from metajournal.consumers import followers
from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.domains.repositories.events import Committed, RepositoryCreated
from metajournal.domains.repositories.urns import repository_urn
from metajournal.domains.repositories.verdicts import Verdicts
from metajournal.lake.tables import Lake, Reached
from metajournal.producers.topics import ensure_topics
from metajournal.rules.digest import served_digests
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import JournalSettings, LakeSettings, Settings
from metajournal.schemas.urn import Urn
from metajournal.stack.services import Stack

PROBES: Final = 600
OTHERS_PER_S: Final = 2_000
OBJECTS_PER_S: Final = 10_000
OBJECTS_AN_EVENT: Final = 1_000
SECONDS: Final = 20
OPENINGS: Final = 15
TAIL: Final = 50_000
P50_LIMIT_MS: Final = 20
P99_LIMIT_MS: Final = 80
OPENING_LIMIT_MS: Final = 500
TAIL_LIMIT_MS: Final = 100
_BURST_S: Final = 0.01


class Probe(NamedTuple):
    """One event: when it was acknowledged, and when its verdict was known, after the call of emit."""

    acknowledged_ms: float
    verdict_ms: float


def measure(*, say: Callable[[str], None] = lambda _: None, kafka: str | None = None) -> list[dict[str, Any]]:
    """Measure with a broker of its own, or one that is given; figures in milliseconds with their limits."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        if kafka is not None:
            return _measured(Path(folder), kafka, say)
        with Stack(Path(folder) / "stack") as stack:
            return _measured(Path(folder), stack.bootstrap_servers, say)


def _measured(folder: Path, servers: str, say: Callable[[str], None]) -> list[dict[str, Any]]:
    settings = Settings(
        journal=JournalSettings(prefix=f"bench-{time.time_ns()}", actor="bench", partitions=1),
        kafka={"bootstrap.servers": servers},
        lake=LakeSettings(path=str(folder / "lake")),
    )
    ensure_topics(settings)
    lake = Lake(settings.lake.path)
    lake.include(("repositories",))
    lake.create()
    with Journal.connect(settings) as journal:
        _reach(lake, journal.emit(EntityRegistered(_entity(0))).position)
        say(f"{PROBES} verdicts, alone")
        alone = _verdicts(journal, _entity(1), PROBES, 0.0)
        say(f"verdicts for {SECONDS} s beside {OTHERS_PER_S:,} events/s")
        beside = _beside(_load, settings, lambda: _verdicts(journal, _entity(3), int(SECONDS / 0.05), 0.04))
        say(f"commits for {SECONDS} s beside {OBJECTS_PER_S:,} objects/s of another repository")
        _reach(lake, journal.emit(RepositoryCreated(repository_urn("probe"), "main", "s3://b")).position, before=True)
        commits = _beside(_load_objects, settings, lambda: _commits(journal, int(SECONDS / 0.05), 0.04))
        say(f"{OPENINGS} openings without a tail, {OPENINGS} with {TAIL:,} records of it")
        short = [_opened(journal, lake, number) for number in range(OPENINGS)]
        receipts = [journal.emit(PropertiesSet(_entity(2), {"n": str(number)})) for number in range(TAIL)]
        journal.flush()
        long = [_opened(journal, None, OPENINGS + number) for number in range(OPENINGS)]
    more_ms = (statistics.median(long) - statistics.median(short)) / (len(receipts) / 10_000)
    return [
        *_figures("emit to verdict, alone", alone),
        *_figures(f"emit to verdict, beside {OTHERS_PER_S:,} events/s in its partition", beside),
        *_figures(f"commit to verdict, beside {OBJECTS_PER_S:,} objects/s of another repository", commits),
        _figure("follow to the first verdict, no tail, p50", statistics.median(short), OPENING_LIMIT_MS),
        _figure("each 10,000 records of tail more", more_ms, TAIL_LIMIT_MS),
    ]


def _figures(name: str, probes: list[Probe]) -> list[dict[str, Any]]:
    cut = statistics.quantiles([probe.verdict_ms for probe in probes], n=100, method="inclusive")
    floor = statistics.quantiles([probe.acknowledged_ms for probe in probes], n=100, method="inclusive")
    return [
        _figure(f"{name}, p50", cut[49], P50_LIMIT_MS) | {"probes": len(probes), "floor": floor[49]},
        _figure(f"{name}, p99", cut[98], P99_LIMIT_MS) | {"probes": len(probes), "floor": floor[98]},
    ]


def _figure(name: str, value: float, limit: float) -> dict[str, Any]:
    return {"name": name, "value": value, "limit": limit, "ratio": value / limit, "unit": "ms"}


def _entity(number: int) -> Urn:
    return dataset("bench", f"followed_{number}")


def _reach(lake: Lake, position: Position, *, before: bool = False) -> None:
    """Put the lake's mark behind a position, as the stream would once it has folded it; or right before it."""
    mark = position.value + (not before)
    reached = Reached({(position.topic, position.partition): mark}, {}, served_digests())
    lake.journal.append(lake.journal.schema.empty_table(), reached)


def _verdicts(journal: Journal, entity: Urn, probes: int, pause_s: float) -> list[Probe]:
    """From the call of emit to acknowledgement and verdict, one after the other."""
    timings = []
    with journal.follow(entity) as follow:
        follow.verdict(journal.emit(EntityRegistered(entity)).position)
        for number in range(probes):
            time.sleep(pause_s)
            started = time.perf_counter()
            position = journal.emit(PropertiesSet(entity, {"n": str(number)})).position
            acknowledged = time.perf_counter()
            follow.verdict(position)
            timings.append(Probe((acknowledged - started) * 1000, (time.perf_counter() - started) * 1000))
    return timings


def _commits(journal: Journal, probes: int, pause_s: float) -> list[Probe]:
    """The same of commits of a repository; each writes an object before, and learns its commit's id after."""
    timings = []
    branch = journal.repositories["probe"].branch("main")
    verdicts = Verdicts.of(journal)
    for number in range(probes):
        time.sleep(pause_s)
        branch.write([_object(number)])
        started = time.perf_counter()
        receipt = journal.emit(Committed(branch.urn, "probe"))
        position = receipt.position
        acknowledged = time.perf_counter()
        verdicts.accepted(receipt, branch.urn.aggregate, "default", 60)
        rows = verdicts.rows(branch.urn.aggregate, "default", position, 60, ("commits",))
        known = time.perf_counter()
        assert rows is not None  # the follower does not stand back
        assert rows.rows["commits"][-1].logical_timestamp == position.value
        timings.append(Probe((acknowledged - started) * 1000, (known - started) * 1000))
    return timings


def _object(number: int) -> dict[str, Any]:
    return {
        "path": f"data/{number % 977:03}/part-{number:09}.parquet", "size": 1_048_576 + number,
        "checksum": f"{number:032x}", "address": f"s3://bench/blocks/{number:032x}",
    }  # fmt: skip


def _beside(load: Callable[[Settings, Any], None], settings: Settings, probe: Callable[[], list[Probe]]) -> list[Probe]:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=load, args=(settings, ready), daemon=True)
    process.start()
    ready.wait(60)
    probes = probe()
    process.kill()
    process.join()
    return probes


def _load(settings: Settings, ready: Any) -> None:
    """Events of others at a steady rate, in small bursts."""
    with Journal.connect(settings) as journal:
        started, sent = time.perf_counter(), 0
        while True:
            while sent < (time.perf_counter() - started) * OTHERS_PER_S:
                journal.emit(PropertiesSet(dataset("bench", f"other_{sent % 5_000}"), {"n": str(sent)}))
                sent += 1
            if sent > OTHERS_PER_S:
                ready.set()
            time.sleep(_BURST_S)


def _load_objects(settings: Settings, ready: Any) -> None:
    """Objects of another repository at a steady rate, in events of a thousand."""
    with Journal.connect(settings) as journal:
        repository = repository_urn("load")
        journal.emit(RepositoryCreated(repository, "main", "s3://bench"))
        branch = journal.repositories["load"].branch("main")
        started, sent = time.perf_counter(), 0
        while True:
            while sent < (time.perf_counter() - started) * OBJECTS_PER_S:
                branch.write(map(_object, range(sent, sent + OBJECTS_AN_EVENT)))
                sent += OBJECTS_AN_EVENT
            if sent > OBJECTS_PER_S:
                ready.set()
            time.sleep(_BURST_S)


def _opened(journal: Journal, lake: Lake | None, number: int) -> float:
    """Milliseconds from the call of follow to the first verdict; the lake ends just before it, where one is given."""
    followers.end_unused(journal.settings)
    entity = dataset("bench", f"opened_{number}")
    if lake is not None:
        _reach(lake, journal.emit(PropertiesSet(entity, {"a": "b"})).position)
    position = journal.emit(EntityRegistered(entity)).position
    started = time.perf_counter()
    with journal.follow(entity) as follow:
        follow.verdict(position, timeout_s=60)
        return (time.perf_counter() - started) * 1000
