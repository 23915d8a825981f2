"""Rebuilding the history tables beside the live ones, from what the journal table holds.

The wide way over the journal table, without publishing: rounds of tasks fold every partition's records again into the
tables of a new generation, whose own marks say how far they are, so a rebuild that was killed goes on where it stood.
When it has caught up, its rows below the marks are held against the live tables by digest, and one pointer is
replaced. While a stream runs, the stream does the last step itself, between two batches.

A rebuild never writes to the live tables, to the journal table or to Kafka.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ..fold.derived import Given, Pending, Result, at_once
from ..fold.records import Place
from ..lake.declared import SPECS
from ..lake.digest import table_digest
from ..lake.storage.compaction import StepHook, passed
from ..lake.storage.locks import only_one
from ..lake.tables import Lake, Reached, Table
from ..producers.recorded.served import require_packages
from ..producers.topics import Epochs
from ..rules.digest import digests_of_topics, served_digests
from ..schemas.errors import DamagedTableError, StreamError
from ..schemas.positions import offset_of, position
from ..schemas.settings import Settings
from .derived.aside import Refilled, compared_marks, refill
from .derived.committing import reaches_live
from .early_digests import EarlyDigests
from .plan import Part, Pin, Plan, Task, brought_by
from .replay import count_records, reached_after
from .tasks import load_domains, refold

PartitionKey = tuple[str, int]
Marks = Mapping[PartitionKey, int]
RECORDS_PER_ROUND = 250_000
"""Most records of one partition in one round: what a kill may cost, and what a task keeps in memory."""


class Refolding(Protocol):
    """Where the tasks of a rebuild run."""

    def refold(self, plan: Plan) -> list[Part]:
        """Fold every partition of a plan again (`tasks.refold`)."""

    def beside(self, compute: Callable[[Given], Result], given: Given) -> Pending[Result]:
        """Have something computed for derived tables, as of `fold.derived.Beside`."""


class InProcess:
    """Runs the tasks one after the other in this process: for the last few records, and for tests."""

    def refold(self, plan: Plan) -> list[Part]:
        return [refold(plan, key) for key in plan.tasks]

    def beside(self, compute: Callable[[Given], Result], given: Given) -> Pending[Result]:
        return at_once(compute, given)


class Pool:
    """Runs the tasks in processes of this machine, one a core: a context manager."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes = os.cpu_count() or 1
        self._pool = ProcessPoolExecutor(self._processes, context)
        self._waiting: list[Future[Any]] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def warm_up(self) -> None:
        """Start the processes and have them import what they need."""
        for future in [self._pool.submit(_imported) for _ in range(self._processes)]:
            future.result()

    def refold(self, plan: Plan) -> list[Part]:
        return [future.result() for future in [self._pool.submit(refold, plan, key) for key in plan.tasks]]

    def beside(self, compute: Callable[[Given], Result], given: Given) -> Pending[Result]:
        """In a process; or here where enough waits for them, so that little is in memory and nobody idles."""
        self._waiting = [future for future in self._waiting if not future.done()]
        if len(self._waiting) > self._processes:
            return at_once(compute, given)
        try:
            future = self._pool.submit(compute, given)
        except BrokenProcessPool:
            return at_once(compute, given)
        self._waiting.append(future)
        return partial(_awaited, future, compute, given)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild is.

    Attributes:
        records: folded so far, those of an earlier try included; from Kafka: positions.
        of: records that the journal table holds; from Kafka: positions.
        per_s: records a second in this run.
        left_s: seconds left at that rate; None before the first round.
    """

    records: int
    of: int
    per_s: float
    left_s: float | None


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild has made.

    Attributes:
        marks: up to where.
        digests: digest of each table below the marks.
        live: the same of the live tables; None where a table is missing or damaged.
        damaged: why the damaged ones of them cannot be read.
        differing: positions whose outcome is not what the journal table says, at most 100 for each partition.
        seconds: how long this run took.
        files: those beside derived tables that are missing or hold something else, where they were only compared.
    """

    generation: int
    records: int
    marks: Marks
    digests: Mapping[str, str]
    live: Mapping[str, str | None]
    damaged: Mapping[str, DamagedTableError]
    differing: Mapping[PartitionKey, Sequence[int]]
    seconds: float
    files: Sequence[str] = ()

    @property
    def equal(self) -> bool:
        """Whether every table that could be read before holds the same rows, and every event has its outcome."""
        known = {name: digest for name, digest in self.live.items() if digest is not None}
        return (
            not self.differing
            and not self.files
            and all(self.digests[name] == digest for name, digest in known.items())
        )


def rebuild_lake(
    settings: Settings,
    epochs: Epochs,
    tasks: Refolding,
    *,
    offline: bool | None = None,
    from_kafka: bool = False,
    accept: bool = False,
    say: Callable[[Progress], None] = lambda progress: None,
    wait: Callable[[], None] = lambda: time.sleep(0.2),
) -> Rebuilt:
    """Rebuild the history tables from the journal table, and have the result swapped in.

    Args:
        settings: names, the lake's store.
        epochs: the journal topics with epoch and number of partitions, and shelved positions.
        tasks: where the folding runs.
        from_kafka: read the journal topic and make the journal table anew too; else read the journal table.
        offline: no stream writes this lake, so the swap is done here; false: the running stream does it. None: what
            the stream's lock of the lake says at the end, wherever the stream runs.
        accept: swap also where the new tables differ from the live ones; else they stay aside.
        say: told after each round.
        wait: called over and over while the stream has not taken the tables over yet; may raise.
    Raises:
        DamagedTableError: the journal table is damaged.
        WorkerRulesError: a worker has other rules than this process.
        StreamError: there is no journal table, another rebuild is running, the result differs, or a stream wrote while
            `offline` was said.
    """
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    if not lake.journal.exists():
        raise StreamError(
            f"There is no journal table at {lake.path}.",
            code="no-lake",
            hint="Point [lake] path at the lake; if it is lost, the stream folds it again from Kafka.",
        )
    hint = "Wait until it ends, or stop it: the next one resumes where it stopped."
    with only_one(lake.path, "rebuild", hint=hint, storage_options=settings.lake.storage_options):
        return _rebuilt(settings, epochs, lake, tasks, offline, from_kafka, accept, say, wait)


def _rebuilt(
    settings: Settings,
    epochs: Epochs,
    lake: Lake,
    tasks: Refolding,
    offline: bool | None,
    from_kafka: bool,
    accept: bool,
    say: Callable[[Progress], None],
    wait: Callable[[], None],
) -> Rebuilt:
    if from_kafka and epochs.refused:
        raise next(iter(epochs.refusals.values()))  # without its topic only the journal table tells of it
    epochs = epochs.whole
    require_packages(epochs.outside)
    lake.include([served.name for served in epochs.outside])
    names = [table.name for table in lake.histories] + ([lake.journal.name] if from_kafka else [])
    names += lake.derived
    rebuild = partial(_begun_and_filled, settings, epochs, lake, names, tasks, say)
    try:
        target, done = rebuild()
    except DamagedTableError as error:
        if lake.is_live(error.uri):
            raise
        lake.drop_generation(lake.generation + 1)  # what an earlier try has left is of no use
        target, done = rebuild()
    if not done.equal and not accept:
        raise _different(done)
    if offline:
        _swap_offline(settings, epochs, lake, target)
    elif offline is False or not _swapped_alone(settings, epochs, lake, target):
        _swap_by_the_stream(lake, target, wait)
    return done


def _begun_and_filled(
    settings: Settings,
    epochs: Epochs,
    lake: Lake,
    names: Sequence[str],
    tasks: Refolding,
    say: Callable[[Progress], None],
) -> tuple[Lake, Rebuilt]:
    """The next generation, begun or continued, and what it was filled with: one that other rules began is no use."""
    target = lake.begin_generation(names)
    if any(_is_of_other_rules(target.tables[name]) for name in names if not SPECS[name].version):
        lake.drop_generation(target.generation)
        target = lake.begin_generation(names)
    lake.withdraw_generation(target.generation)
    return target, LakeRebuild(settings, epochs, lake, target, names, tasks, say).run()


def _is_of_other_rules(table: Table) -> bool:
    own = served_digests()
    return any(own.get(domain, digest) != digest for domain, digest in table.rules().items())


def _swap_by_the_stream(lake: Lake, target: Lake, wait: Callable[[], None]) -> None:
    lake.offer_generation(target.generation)
    while lake.generation < target.generation:
        wait()
        lake.refresh_pointer()


def _swapped_alone(settings: Settings, epochs: Epochs, lake: Lake, target: Lake) -> bool:
    """Swap, unless a stream has the lake; gives whether that was done."""
    try:
        with only_one(lake.path, "stream", hint="Wait for it.", storage_options=settings.lake.storage_options):
            _swap_offline(settings, epochs, lake, target)
    except StreamError as error:
        if error.code != "stream-runs":
            raise
        return False
    return True


def _swap_offline(settings: Settings, epochs: Epochs, lake: Lake, target: Lake) -> None:
    finish(settings, epochs, lake, target)
    refill(lake, target, {key: lake.journal.mark(key) for key in partitions_of(epochs)})
    journal = lake.journal  # the one that a stream would write; the swap may put another in its place
    version = journal.delta.version()
    lake.swap_to(target.generation)
    journal.refresh()
    if journal.delta.version() != version:
        raise StreamError(
            "A stream wrote to the lake while its tables were swapped.",
            code="second-writer",
            hint="Stop the stream, run `metajournal rebuild lake` again, and then start the stream.",
        )
    lake.retire_replaced()


def finish(settings: Settings, epochs: Epochs, lake: Lake, target: Lake) -> None:
    """Fold into a generation, in this process, what the journal table has got since it was filled.

    Args:
        lake: the live tables; nobody may write them meanwhile.
        target: the generation, as `Lake.begin_generation` gives it.
    """
    names = [
        name for name, table in target.tables.items() if table.uri != lake.tables[name].uri and not SPECS[name].version
    ]
    rest = LakeRebuild(settings, epochs, lake, target, names, InProcess())
    lake.journal.refresh()
    while rest.round(rest.live_marks()):
        pass


def take_offered(
    settings: Settings,
    epochs: Epochs,
    lake: Lake,
    hook: StepHook = passed,
    fill_first: Callable[[Lake], None] = lambda offered: None,
) -> int | None:
    """Put a filled generation in the place of the live tables, when one is offered; for the writer of the lake.

    What was folded since it was filled is folded into it first. The live history tables are not read, so that it mends
    damaged ones; nor are data files of the journal table where that is made anew too.

    Args:
        hook: as of `Lake.swap_to`.
        fill_first: told the generation where its derived tables do not reach the live ones' yet, so it waits.
    Returns:
        Its number; None where there was none, or it waits.
    Raises:
        DamagedTableError: the journal table is damaged; or the offered tables are, whose offer is then withdrawn.
    """
    offered = lake.offered_generation()
    if offered is None:
        return None
    epochs = epochs.whole
    try:
        finish(settings, epochs, lake, offered)
    except DamagedTableError as error:
        if not lake.is_live(error.uri):
            lake.withdraw_generation(offered.generation)  # the live tables are better than these
        raise
    if not reaches_live(lake, offered, partitions_of(epochs)):
        fill_first(offered)
        return None
    lake.swap_to(offered.generation, hook)
    return lake.generation


def _different(done: Rebuilt) -> StreamError:
    tables = [name for name, digest in done.live.items() if digest not in (None, done.digests[name])]
    events = [
        f"{topic}/{partition}/{position}" for (topic, partition), many in done.differing.items() for position in many
    ]
    what = [f"the rows of {', '.join(tables)}"] if tables else []
    what += [f"the outcome of {len(events)} events ({', '.join(events[:5])})"] if events else []
    return StreamError(
        f"The rebuilt tables differ from the live ones in {' and '.join(what)}.",
        code="rebuild-differs",
        hint="The live tables were changed by hand or by other rules. `metajournal rebuild lake --accept` uses the "
        "rebuilt ones instead; they are kept until then.",
        tables=tables,
        events=events,
    )


class LakeRebuild:
    """One rebuild of the history tables.

    Args:
        settings: names, the lake's store.
        epochs: the journal topics with epoch and number of partitions, and shelved positions.
        live: the lake; its history tables may be missing.
        target: the new generation, as `Lake.begin_generation` gives it.
        names: the tables that are made anew; with the journal table among them, records come from Kafka.
        tasks: where the folding runs.
        say: told after each round.
        only_compare: write no files beside derived tables.
    """

    def __init__(
        self,
        settings: Settings,
        epochs: Epochs,
        live: Lake,
        target: Lake,
        names: Sequence[str],
        tasks: Refolding,
        say: Callable[[Progress], None] = lambda progress: None,
        *,
        only_compare: bool = False,
    ) -> None:
        self._settings = settings
        self._epochs = epochs
        self._live = live
        self._view = target
        self._only_compare = only_compare
        self._target = {name: target.tables[name] for name in names if not SPECS[name].version}
        self._derived = [name for name in names if SPECS[name].version]
        self._generation = target.generation
        self._from_kafka = live.journal.name in names
        self._tasks = tasks
        self._say = say
        self._differing: dict[PartitionKey, list[int]] = {}
        self._folded = 0

    def run(self) -> Rebuilt:
        """Fold until the new tables hold what the journal table held when the last round began.

        Raises:
            StreamError: the journal table holds what this version cannot read.
        """
        with EarlyDigests() as early:
            return self._run(early)

    def _run(self, early: EarlyDigests) -> Rebuilt:
        started = time.monotonic()
        before = self._count(self._first(), self.marks())
        self._begin_digests(early)
        while True:
            self._live.refresh([self._live.journal.name])
            marks = self.live_marks()
            total = self._count(self._first(), marks)
            self._tell(before, total, time.monotonic() - started)
            if not self.round(marks):
                break
        reached = self.marks()
        if self._derived:
            for table in self._target.values():
                early.begin(table, reached)
        refilled = (
            refill(self._live, self._view, reached, only_compare=self._only_compare, beside=self._tasks.beside)
            if self._derived
            else Refilled()
        )
        below: dict[str, Marks] = dict.fromkeys(self._target, reached)
        below |= compared_marks(self._live, self._view, self._derived, reached)
        digests = {
            name: early.of(self._view.tables[name], marks) or table_digest(self._view.tables[name].delta, marks)
            for name, marks in below.items()
        }
        live, damaged = self._live_digests(below, early)
        took_s = time.monotonic() - started
        return Rebuilt(
            self._generation, before + self._folded, reached, digests, live, damaged, self._differing, took_s,
            refilled.differing,
        )  # fmt: skip

    def _begin_digests(self, early: EarlyDigests) -> None:
        """Begin with the digests of the live tables, as they most often will be asked for: nothing new comes."""
        marks = self.live_marks()
        with suppress(DamagedTableError):  # it is met again, and told of, in the end
            derived = compared_marks(self._live, self._live, self._derived, marks)
            for name, below in {**derived, **dict.fromkeys(self._target, marks)}.items():
                early.begin(self._live.tables[name], below)

    def _live_digests(
        self, reached: Mapping[str, Marks], early: EarlyDigests
    ) -> tuple[dict[str, str | None], dict[str, DamagedTableError]]:
        """The digests of the live tables below some marks of each, and why some of them cannot be read."""
        live: dict[str, str | None] = {}
        damaged: dict[str, DamagedTableError] = {}
        self._live.refresh_pointer()
        for name, marks in reached.items():
            try:
                live[name] = early.of(self._live.tables[name], marks) or _digest(self._live.tables[name], marks)
            except DamagedTableError as error:
                live[name], damaged[name] = None, error
        return live, damaged

    def round(self, marks: Marks, records: int = RECORDS_PER_ROUND) -> int:
        """Fold at most so many records of each partition, up to the marks; gives how many there were."""
        plan = self._plan(marks, records)
        if not plan.tasks:
            return 0
        parts = self._tasks.refold(plan)
        for part in parts:
            if part.stopped_by is not None:
                raise StreamError(
                    f"The journal table holds a record of an unknown schema at {part.key[0]}/{part.key[1]}/{part.end}.",
                    code="unknown-schema",
                    hint="Rebuild with the version of metajournal that folded it, or a newer one.",
                )
            if part.differing:
                self._differing.setdefault(part.key, []).extend(part.differing)
        marks, clocks = {part.key: part.end for part in parts}, {part.key: part.system_time for part in parts}
        for name, table in self._target.items():
            rules = {**served_digests(), **plan.rules} if name == self._live.journal.name else plan.rules
            files = [file for part in parts for file in part.files.get(name, ())]
            table.add_files(files, Reached(marks, clocks, rules))
        folded = sum(part.verdicts.total() for part in parts)
        self._folded += folded
        return max(folded, 1)

    def marks(self) -> dict[PartitionKey, int]:
        """Up to where every new table is filled."""
        first = self._first()
        return {
            key: min(max(table.mark(key), start) for table in self._target.values()) for key, start in first.items()
        }

    def _first(self) -> dict[PartitionKey, int]:
        return {
            (topic, partition): epoch.first(partition) if self._from_kafka else position(1, 0)
            for topic, epoch in self._epochs.items()
            for partition in range(epoch.partitions)
        }

    def live_marks(self) -> dict[PartitionKey, int]:
        marks = {key: max(self._live.journal.mark(key), start) for key, start in self._first().items()}
        if self._from_kafka:
            return {key: self._epochs[key[0]].reached(key[1], mark) for key, mark in marks.items()}
        return marks

    def _count(self, starts: Marks, ends: Marks) -> int:
        if self._from_kafka:
            return sum(max(0, offset_of(ends[key]) - offset_of(start)) for key, start in starts.items())
        return count_records(
            self._live.journal.delta, list(starts), list(starts.values()), [ends[key] for key in starts]
        )

    def _reached(self, key: PartitionKey, start: int, end: int, records: int) -> int:
        if self._from_kafka:
            return min(end, self._epochs[key[0]].position(key[1], offset_of(start) + records))
        return reached_after(self._live.journal.delta, key, start, end, records)

    def _plan(self, marks: Marks, records: int) -> Plan:
        tasks = {}
        for (topic, partition), start in self.marks().items():
            key = (topic, partition)
            end = self._reached(key, start, marks[key], records)
            if end <= start:
                continue
            shelved = frozenset(p for t, n, p in self._epochs.shelved if (t, n) == key)
            epoch = self._epochs[topic]
            domain = self._settings.journal.topics.domain_of(topic)
            moved, first = self._epochs.moved(topic, partition), self._epochs.first(topic)
            place = Place(topic, partition, epoch.partitions, domain, shelved, moved, first)
            table_marks = {name: table.mark(key) for name, table in self._target.items()}
            # That of the table which is least far: a kill between two commits leaves the others ahead of `start`.
            clock = min(self._target.values(), key=lambda table: table.mark(key)).clock(key)
            tasks[key] = Task(place, epoch.epoch, start, end, clock, table_marks, None, epoch.earlier)
        tables = {self._live.journal.name: self._live.journal, **self._target}
        pins = {name: _pin(table) for name, table in tables.items()}
        kafka = self._settings if self._from_kafka else None
        rules = digests_of_topics(task.place.domain for task in tasks.values())
        names, brought = self._settings.journal.topics, brought_by(self._epochs.outside)
        return Plan(tasks, pins, tuple(self._target), names, {}, None, rules, kafka, outside=brought)

    def _tell(self, before: int, total: int, seconds: float) -> None:
        # From Kafka only positions can be counted, and some of them hold no record: markers of transactions.
        done = self._count(self._first(), self.marks()) if self._from_kafka else before + self._folded
        rate = (done - before) / seconds if seconds else 0.0
        self._say(Progress(done, total, rate, (total - done) / rate if rate else None))


def _awaited(future: Future[Result], compute: Callable[[Given], Result], given: Given) -> Result:
    """What a process has computed; computed here where it has ended instead."""
    try:
        return future.result()
    except BrokenProcessPool:
        return compute(given)


def partitions_of(epochs: Epochs) -> list[PartitionKey]:
    """Every journal partition."""
    return [(topic, partition) for topic, epoch in epochs.items() for partition in range(epoch.partitions)]


def _imported() -> None:
    """To ask for it imports this module, and with it all that tasks need."""
    load_domains()


def _pin(table: Table) -> Pin:
    return Pin(table.name, table.uri, table.delta.version(), table.storage_options)


def _digest(table: Table, marks: Marks) -> str | None:
    if not table.exists():
        return None
    table.refresh()
    return table_digest(table.delta, marks)
