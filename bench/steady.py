"""Figures 4 and 6: a steady load of 500 events a second among 100,000 entities, with the upkeep that belongs to it.

One process emits updates; another one emits tags that nobody has and waits until each is found by a search, and one
thread of it until each is in the lake. Compactions happen meanwhile, as they do in life. The proportional memory of
every process that `metajournal up` has started is summed up once a second. `steady-derived` is the same with a
follower, facts of lineage and a commit a second beside it, so that the process of derived tables is at work; the
follower's memory counts, too.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench import latency
from metajournal.client import Journal
from metajournal.config import load
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.domains.catalog.urns import run as run_of
from metajournal.domains.lineage.events import AccessesRecorded
from metajournal.lake.declared import derived_tables
from metajournal.lake.storage.compaction import live_files
from metajournal.lake.tables import Lake
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from metajournal.stack.home import SETTINGS_FILE
from metajournal.stack.supervisor import down, up

ENTITIES: Final = 100_000
EVENTS_PER_S: Final = 500
FACTS_PER_S: Final = 50
OBJECTS: Final = 10_000
OBJECTS_A_COMMIT: Final = 100
SECONDS: Final = 300
LAKE_P50_LIMIT_MS: Final = 500
PSS_LIMIT_BYTES: Final = 3 * 1024**3
FIRST_HIT_LIMIT_S: Final = 45
LEAST_PROBES: Final = 1_000
_PROBES_AT_ONCE: Final = 4
_PAUSE_S: Final = 0.5
_LAKE_PAUSE_S: Final = 0.7
_POLL_S: Final = 0.02
_WARM_UP_S: Final = 20

Say = Callable[[str], None]


def run(
    say: Say,
    *,
    entities: int = ENTITIES,
    events_per_s: int = EVENTS_PER_S,
    seconds: int = SECONDS,
    derived: bool = False,
) -> list[dict[str, Any]]:
    """Measure; gives latencies in milliseconds, memory in bytes and the time to the first hit, with their limits.

    Args:
        derived: with the process of derived tables and a follower at work.
    """
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        home = Path(folder)
        started = time.monotonic()
        up(home, Settings())
        try:
            settings = load(str(home / SETTINGS_FILE)).settings
            first_s = _first_hit(settings, started)
            say(f"first hit {first_s:.1f} s after `metajournal up`")
            figures = _measured(settings, home, entities, events_per_s, seconds, say, derived=derived)
        finally:
            down(home)
    return [*figures, _figure("first hit after `metajournal up`", first_s, FIRST_HIT_LIMIT_S, "s")]


def _figure(name: str, value: float, limit: float, unit: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "limit": limit, "ratio": value / limit, "unit": unit, "most": 1.0, **more}


def _first_hit(settings: Settings, started: float) -> float:
    entity = dataset("bench", "first")
    with Journal.connect(settings) as journal:
        receipt = journal.emit(EntityRegistered(entity, tags=["first"]))
        hits = journal.search("tags:first", at_least=receipt.position, timeout_s=60).hits
        assert [hit.urn for hit in hits] == [entity]
    return time.monotonic() - started


def _measured(
    settings: Settings, home: Path, entities: int, events_per_s: int, seconds: int, say: Say, *, derived: bool
) -> list[dict[str, Any]]:
    _register(settings, entities, say)
    context = multiprocessing.get_context("spawn")
    ready, results = context.Event(), context.Queue()
    total_s = seconds + _WARM_UP_S
    load_process = context.Process(
        target=latency._load, args=(settings, entities, events_per_s, total_s, ready), daemon=True
    )
    probes = context.Process(target=_probe, args=(settings, entities, seconds, ready, results), daemon=True)
    say(f"{events_per_s} events/s for {seconds} s, after {_WARM_UP_S} s to warm up")
    compacted = _compactions(settings)
    follower = context.Process(target=_follow, args=(settings, total_s, ready), daemon=True)
    if derived:
        follower.start()
    with _sampled(home, [follower.pid] if derived else []) as memory:
        load_process.start()
        probes.start()
        memory["bench"] = [load_process.pid, probes.pid]
        searched, in_lake, floor = results.get(timeout=total_s + 300)
    probes.join(30)
    load_process.join(60)
    done = _compactions(settings) - compacted
    say(f"{len(searched):,} search probes, {len(in_lake):,} lake probes, {done} compactions")
    parts = ", ".join(f"{name} {size / 2**20:,.0f}" for name, size in sorted(memory["parts"].items()))
    say(f"peak memory in MiB: {parts}")
    shares = ", ".join(f"{name} {share:.2f}" for name, share in sorted(memory["shares"].items()))
    say(f"of a core, of {os.cpu_count()}: {shares}")
    if seconds >= SECONDS and (len(searched) < LEAST_PROBES or not done):
        say(f"not what was asked for: at least {LEAST_PROBES:,} search probes and a compaction inside")
    if derived:
        say(f"the derived tables hold {_derived_rows(settings):,} rows")
        if "streaming.derived" not in memory["parts"]:
            raise RuntimeError("no process of derived tables was at work")
    name = f"{events_per_s} events/s, {entities:,} entities" + ", derived tables and a follower" * derived
    more = {"probes": len(searched), "floor_p50": latency._percentile(floor, 50), "compactions": done}
    p50, p99 = latency._percentile(searched, 50), latency._percentile(searched, 99)
    lake_p50 = latency._percentile(in_lake, 50)
    return [
        _figure(f"emit to searchable, {name}, p50", p50, latency.P50_LIMIT_MS, "ms", **more),
        _figure(f"emit to searchable, {name}, p99", p99, latency.P99_LIMIT_MS, "ms", **more),
        _figure(f"emit to the lake, {name}, p50", lake_p50, LAKE_P50_LIMIT_MS, "ms", probes=len(in_lake)),
        _figure(f"peak proportional memory, {name}", memory["peak"] / 2**20, PSS_LIMIT_BYTES / 2**20, "MiB"),
    ]


def _register(settings: Settings, entities: int, say: Say) -> None:
    say(f"registering {entities:,} entities")
    bulk = replace(settings, client=replace(settings.client, linger_ms=5.0))
    with Journal.connect(bulk) as journal:
        receipts = [
            journal.emit(EntityRegistered(latency._entity(number), properties={"n": "0"}), block_s=30)
            for number in range(entities)
        ]
        journal.flush()
        last = {receipt.position.partition: receipt.position for receipt in receipts}
        for position in last.values():
            journal.search("", at_least=position, timeout_s=300, limit=1)


def _probe(settings: Settings, entities: int, seconds: int, ready: Any, results: Any) -> None:
    searched: list[float] = []
    in_lake: list[float] = []
    floor: list[float] = []
    with Journal.connect(settings) as journal:
        journal.search("warm", limit=1)
        ready.set()
        begin = time.perf_counter() + _WARM_UP_S

        def repeat(turn: int, pause_s: float, probe: Callable[[int], None], into: list[float]) -> None:
            while time.perf_counter() < begin + seconds:
                time.sleep(pause_s * (0.5 + (turn * 0.37 + len(into) * 0.61) % 1))
                started = time.perf_counter()
                probe(len(into))
                if started >= begin:
                    into.append((time.perf_counter() - started) * 1000)

        lake = Lake(settings.lake.path, settings.lake.storage_options)
        jobs = [(_PAUSE_S, lambda number: latency._search_probe(journal, entities, number), searched)] * _PROBES_AT_ONCE
        jobs.append((_LAKE_PAUSE_S, lambda number: _in_lake(journal, lake, entities, number), in_lake))
        threads = [threading.Thread(target=repeat, args=(turn, *job)) for turn, job in enumerate(jobs)]
        threads.append(threading.Thread(target=latency._floor, args=(settings, begin, seconds, floor)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    results.put((searched, in_lake, floor))


def _follow(settings: Settings, seconds: float, ready: Any) -> None:
    """Facts of lineage and commits, from which rows are derived, and verdicts through a follower of one partition."""
    ready.wait()
    until, number, entity = time.monotonic() + seconds, 0, _followed()
    with Journal.connect(settings) as journal, journal.follow(entity) as follow:
        main = journal.repositories.create("steady", storage_namespace="s3://bench").branch("main")
        main.write([_object(place, 0) for place in range(OBJECTS)])
        while time.monotonic() < until:
            who = run_of("bench", f"app{number % 50}", "spark", "job", f"r{number}")
            journal.emit(AccessesRecorded(who, [(dataset("bench", f"d{number % 500}"), "write", number)]))
            if not number % FACTS_PER_S:
                follow.verdict(journal.emit(EntityRegistered(entity, tags=[f"t{number}"])).position, timeout_s=60)
                main.write([_object((number + place * 7919) % OBJECTS, number) for place in range(OBJECTS_A_COMMIT)])
                main.commit(f"second {number // FACTS_PER_S}", timeout_s=60)
            number += 1
            time.sleep(1 / FACTS_PER_S)


def _object(place: int, number: int) -> dict[str, Any]:
    return {
        "path": f"p{place % 100:02}/o{place}",
        "size": number,
        "checksum": f"{number:032x}",
        "address": f"a/{place}",
    }


def _followed() -> Urn:
    return dataset("bench", "followed")


def _derived_rows(settings: Settings) -> int:
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    return sum(file.rows for name in derived_tables() for file in live_files(lake.tables[name].delta))


def _in_lake(journal: Journal, lake: Lake, entities: int, number: int) -> None:
    """Emit a tag and look at the journal table's mark until the lake shows it; every tenth is read, too."""
    tag = f"lake{uuid.uuid4().hex}"
    entity = latency._entity(number * 15_485_863 % entities)
    position = journal.emit(TagsAdded(entity, [tag])).position
    key = (position.topic, position.partition)
    lake.journal.refresh()
    while lake.journal.mark(key) <= position.value:
        time.sleep(_POLL_S)
        lake.journal.refresh()
    if not number % 10 and tag not in journal.show(entity).user_tags:
        raise RuntimeError(f"the lake shows {position}, but {entity} lacks {tag}")


def _compactions(settings: Settings) -> int:
    """Commits that moved rows in any table so far."""
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    return sum(table.delta.transaction_version("metajournal.compaction") or 0 for table in lake.tables.values())


class _sampled:  # noqa: N801  (used as a function)
    """Peak of the summed proportional memory of a home's processes, and what each part had then.

    Also the processor time of each part, as a share of a core, and what of the machine was busy and stolen meanwhile.
    """

    def __init__(self, home: Path, others: Sequence[int | None] = ()) -> None:
        self._home = str(home)
        self._others = others
        self._found: dict[str, Any] = {"peak": 0, "parts": {}, "shares": {}, "bench": []}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> dict[str, Any]:
        self._thread.start()
        return self._found

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        first: dict[int, float] = {}
        of_parts: dict[int, tuple[str, float]] = {}
        began, machine = time.monotonic(), _machine_s()
        while not self._stop.wait(1.0):
            parts: dict[str, int] = {}
            named = [*processes_of(self._home), *((other or 0, "follower") for other in self._others)]
            for pid, name in named:
                parts[name] = parts.get(name, 0) + pss_bytes(pid)
            for pid, name in [*named, *((pid, "bench") for pid in self._found["bench"])]:
                if used := _processor_s(pid):  # of one that is gone, what it had used stays
                    of_parts[pid] = name, used - first.setdefault(pid, used)
            took = time.monotonic() - began
            shares = {
                name: (now - then) / took
                for (name, now), then in zip(_machine_s().items(), machine.values(), strict=True)
            }
            for name, used in of_parts.values():
                shares[name] = shares.get(name, 0.0) + used / took
            self._found["shares"] = shares
            if sum(parts.values()) > self._found["peak"]:
                self._found |= {"peak": sum(parts.values()), "parts": parts}


def processes_of(home: str) -> Iterator[tuple[int, str]]:
    """Processes that `metajournal up` has started for a home, with their descendants, and a name for each."""
    parents: dict[int, int] = {}
    named: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if home in command or home in environment:
            named[int(entry.name)] = _name(command)
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor not in named:
            ancestor = parents[ancestor]
        if ancestor in named:
            yield pid, named.get(pid, named[ancestor])


def _name(command: str) -> str:
    for word in (
        "kafka.Kafka",
        "org.elasticsearch",
        "org.apache.spark",
        "streaming.derived",
        "keeper",
        "stream",
    ):
        if word in command:
            return word
    return "indexer" if "metajournal.cli index" in command else "other"


def pss_bytes(pid: int) -> int:
    """Proportional set size; 0 for a process that is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _processor_s(pid: int) -> float:
    """Seconds of processor time of a process; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _machine_s() -> dict[str, float]:
    """Seconds, of all cores together, in which the machine worked, and in which another one had them."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    ticks = os.sysconf("SC_CLK_TCK")
    return {"all": (user + nice + system + irq + softirq) / ticks, "stolen": steal / ticks}


if __name__ == "__main__":
    import sys

    given = [int(argument) for argument in sys.argv[1:4]] or [ENTITIES, EVENTS_PER_S, SECONDS]
    for figure in run(print, entities=given[0], events_per_s=given[1], seconds=given[2]):
        print(figure)
