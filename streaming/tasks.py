"""The work of one task of the wide way: fold a partition's records into files, and later publish what was staged.

The same partition function as the short way's, in slices of bounded size, so that neither many nor large records take
more memory than a slice. Each slice finds the rows of the slices before it in memory and all others in the lake, at
the version that the driver has pinned. Nothing that a task writes counts before the driver commits it, so a task may
fail and run again.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ..lake.faults import writing
from ..lake.files import DataFile, TableFiles
from ..lake.histories import HISTORIES
from ..lake.tables import Table
from ..schemas.errors import StreamError
from ..schemas.hashing import canonical_json
from ..schemas.positions import position
from ..schemas.settings import Settings
from ..schemas.topics import TopicNames
from .catalog import documents, outgoing
from .deadletters import dead_letter
from .fold import SHELVED, Folded, IdKey, Verdict, fold, read_table
from .journal import journal_table
from .outcomes import outcome_records, record
from .prior import PriorRows
from .publish import Outgoing
from .records import Place
from .replay import journal_slices, kafka_slices
from .staging import Staging

PartitionKey = tuple[str, int]
ENTITIES = "entities"
_SLICE_ROWS = 50_000
_SLICE_BYTES = 128 * 1024 * 1024
_BIT_ROWS = 8_192
_BIT_BYTES = 16 * 1024 * 1024  # an event of a thousand files makes several thousand rows and documents
_MOST_DIFFERING = 100


@dataclass(frozen=True, slots=True)
class Pin:
    """A table at one version."""

    name: str
    uri: str
    version: int
    storage_options: Mapping[str, str]

    def open(self) -> Table:
        return _Pinned(self)


class _Pinned(Table):
    def __init__(self, pin: Pin) -> None:
        super().__init__(pin.name, pin.uri, pin.storage_options)
        self._table = DeltaTable(pin.uri, version=pin.version, storage_options=dict(pin.storage_options))


class _Opened(dict[str, Table]):
    """Tables by name, each opened when it is first asked for: most batches touch few."""

    def __init__(self, pins: Mapping[str, Pin]) -> None:
        super().__init__()
        self._pins = pins

    def __missing__(self, name: str) -> Table:
        self[name] = self._pins[name].open()
        return self[name]


class PinnedLake:
    """The tables that prior rows are looked up in, as the driver saw them when it planned the batch."""

    def __init__(self, pins: Mapping[str, Pin]) -> None:
        self.tables: Mapping[str, Table] = _Opened(pins)

    @property
    def journal(self) -> Table:
        return self.tables["journal"]


@dataclass(frozen=True, slots=True)
class Task:
    """One journal partition's share of a batch.

    Attributes:
        start: its mark.
        end: the planned end.
        system_time: the running system_time at the mark, milliseconds UTC.
        held: up to where each history table holds it already.
        marked: earlier events of it that were marked `repeat`, with their originals; None: look them up.
    """

    place: Place
    epoch: int
    start: int
    end: int
    system_time: int
    held: Mapping[str, int]
    marked: Mapping[IdKey, tuple[int, Verdict]] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What every task of a batch is told.

    Attributes:
        pins: the tables to look prior rows up in.
        written: those that the tasks write files for.
        targets: number of partitions of every topic that is published to.
        staging: where records wait to be published; None: nothing is.
        kafka: where a rebuild reads the records; None: in the journal table.
        kill: process to end, and the point of publishing at which, for crash tests.
    """

    tasks: Mapping[PartitionKey, Task]
    pins: Mapping[str, Pin]
    written: tuple[str, ...]
    names: TopicNames
    targets: Mapping[str, int]
    staging: Staging | None
    kafka: Settings | None = None
    kill: tuple[int, str] | None = None


@dataclass(slots=True)
class Part:
    """What became of one journal partition's share.

    Attributes:
        end: positions below it are judged; lower than planned where an unknown schema stands there.
        stopped_by: fingerprint of that schema.
        files: new files by table.
        staged: whether there are records to publish.
        oldest_ms: append time of the oldest record, milliseconds UTC.
        seconds: processor time of each step, and "wait", the time until the records were there.
        differing: positions whose outcome is not what the journal table says (at most 100), where it was asked.
    """

    key: PartitionKey
    end: int
    system_time: int
    stopped_by: int | None = None
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    staged: bool = False
    verdicts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    oldest_ms: int | None = None
    marked: dict[IdKey, tuple[int, Verdict]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    differing: list[int] = field(default_factory=list)


def fold_batch(plan: Plan, batches: Iterable[pa.RecordBatch]) -> list[Part]:
    """Fold the records that one task was given: those of one journal partition, or of several, whole.

    Args:
        plan: the batch.
        batches: columns as Spark's Kafka source has them, in offset order per partition.
    """
    with without_collector():
        lake = PinnedLake(plan.pins)
        folders: dict[PartitionKey, _PartitionFolder] = {}
        with _discarded_on_failure(folders.values()):
            waited: dict[str, float] = defaultdict(float)
            for rows in _slices(_waited_for(batches, waited)):
                for key, own in _by_partition(rows):
                    if key not in folders:
                        folders[key] = _PartitionFolder(plan, plan.tasks[key], lake)
                    folders[key].take(own, plan.tasks[key].epoch)
            parts = [folder.close() for folder in folders.values()]
            for part in parts[:1]:
                part.seconds.update(waited)
            return parts


def refold(plan: Plan, key: PartitionKey) -> Part:
    """Fold one journal partition's records again: as the journal table holds them, or as Kafka does."""
    with without_collector():
        task = plan.tasks[key]
        lake = PinnedLake(plan.pins)
        folder = _PartitionFolder(plan, task, lake)
        if plan.kafka is None:
            slices = journal_slices(lake.journal.delta, key, task.start, task.end, _SLICE_ROWS)
        else:
            slices = kafka_slices(plan.kafka, key, task.start, task.end, _SLICE_ROWS)
        with _discarded_on_failure([folder]):
            for epoch, rows in slices:
                folder.take(rows, epoch)
            return folder.close()


def _waited_for(batches: Iterable[pa.RecordBatch], seconds: dict[str, float]) -> Iterator[pa.RecordBatch]:
    """The batches; how long each took to come is added up."""
    rest = iter(batches)
    while True:
        started = time.perf_counter()
        batch = next(rest, None)
        seconds["wait"] += time.perf_counter() - started
        if batch is None:
            return
        yield batch


@contextmanager
def _discarded_on_failure(folders: Iterable[_PartitionFolder]) -> Iterator[None]:
    """Leave nothing of a task that fails: on a full disk each attempt would leave less room."""
    try:
        yield
    except Exception:
        for folder in folders:
            folder.discard()
        raise


@contextmanager
def without_collector() -> Iterator[None]:
    """Without the collector of cycles: a task makes millions of values and no cycle, and each look costs seconds.

    What the block took goes back to the machine behind it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
        give_back()


def give_back() -> None:
    """Return free memory to the machine: the allocator keeps what a backlog took, for hours of small batches."""
    pa.default_memory_pool().release_unused()
    if _libc is not None:
        _libc.malloc_trim(0)


def _with_malloc_trim() -> Any:
    """The C library, where it is glibc."""
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None


_libc: Final = _with_malloc_trim()


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _SLICE_ROWS or size >= _SLICE_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _by_partition(rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
    pairs = rows.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([]).to_pylist()
    for pair in pairs:
        key = (pair["topic"], pair["partition"])
        if len(pairs) == 1:
            yield key, rows
        else:
            yield key, rows.filter(pc.and_(pc.equal(rows["topic"], key[0]), pc.equal(rows["partition"], key[1])))


class _PartitionFolder:
    """Folds the slices of one journal partition, one after the other."""

    def __init__(self, plan: Plan, task: Task, lake: PinnedLake) -> None:
        self._task = task
        self._names = plan.names
        self._prior = PriorRows(lake, cache_rows=None, below=task.start)
        if task.marked is not None:
            self._prior.remember((task.place.topic, task.place.partition), task.marked)
        pins = {name: plan.pins[name] for name in plan.written}
        self._root = next(iter(pins.values())).uri if pins else ""
        self._files = {name: TableFiles(pin.name, pin.uri, pin.storage_options) for name, pin in pins.items()}
        self._staged = None if plan.staging is None else _Staged(plan.staging, task.place)
        self._waiting: tuple[pa.Table, int] | None = None
        self._next = task.start
        self._part = Part((task.place.topic, task.place.partition), task.start, task.system_time)

    def take(self, rows: pa.Table, epoch: int) -> None:
        """Fold a slice as soon as the next one says where it ends.

        Raises:
            StreamError: it does not stand behind the one before (or the mark) and before the planned end.
        """
        first, last = (position(epoch, rows["offset"][at].as_py()) for at in (0, -1))
        if not self._next <= first <= last < self._task.end:
            place = self._task.place
            raise StreamError(
                f"A batch of {place.topic}/{place.partition} does not lie between its mark and its planned end.",
                hint="Start the stream again: it begins at the marks with a fresh checkpoint.",
            )
        self._next = last + 1
        if self._waiting is not None:
            self._fold(*self._waiting, position(epoch, rows["offset"][0].as_py()))
        self._waiting = rows, epoch

    def close(self) -> Part:
        part = self._part
        if self._waiting is not None:
            self._fold(*self._waiting, self._task.end)
        else:
            part.end = self._task.end
        with writing(self._root):
            part.files = {name: files.close() for name, files in self._files.items()}
            part.staged = self._staged is not None and self._staged.close()
        return part

    def discard(self) -> None:
        """Delete the files that were written; what is staged goes with its batch."""
        for files in self._files.values():
            files.discard()
        if self._staged is not None:
            self._staged.discard()

    def _fold(self, rows: pa.Table, epoch: int, end: int) -> None:
        """Look up all aggregates of a slice at once, then fold it in bits that stay in the processor's caches."""
        with self._timed("prior"):
            self._prior.prefetch(rows["key"], self._task.place)
        step = max(1, min(_BIT_ROWS, int(rows.num_rows * _BIT_BYTES / max(1, rows.nbytes))))
        for at in range(0, rows.num_rows, step):
            bit, following = rows.slice(at, step), at + step
            last = following >= rows.num_rows
            self._fold_bit(bit, epoch, end if last else position(epoch, rows["offset"][following].as_py()))

    def _fold_bit(self, rows: pa.Table, epoch: int, end: int) -> None:
        part, task = self._part, self._task
        if part.stopped_by is not None:
            return
        with self._timed("read"):
            readings = read_table(rows, task.place, epoch, part.end, end)
        with self._timed("prior"):
            (prior,) = self._prior.fetch([readings])
        with self._timed("fold"):
            folded = fold(readings, prior, part.system_time)
        self._prior.advance([folded])
        if "outcome" in rows.column_names:
            self._hold_against(rows["outcome"].to_pylist(), folded)
        with writing(self._root):
            with self._timed("write"):
                self._write(folded)
            if self._staged is not None:
                with self._timed("stage"):
                    self._staged.write(folded, self._names)
        self._tell(folded)

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.thread_time()
        yield
        self._part.seconds[step] += time.thread_time() - started

    def _write(self, folded: Folded) -> None:
        for name, history in HISTORIES.items():
            if name not in self._files:
                continue
            rows = list(new_rows(folded, name, self._task.held.get(name, 0)))
            self._part.rows += len(rows)
            if rows:
                self._files[name].write(history.to_arrow(rows))
        if "journal" in self._files and folded.judged:
            self._files["journal"].write(journal_table(folded))

    def _tell(self, folded: Folded) -> None:
        part = self._part
        part.end, part.system_time = folded.end, folded.system_time
        part.stopped_by = None if folded.stopped_by is None else folded.stopped_by.fingerprint
        part.verdicts.update(judged.verdict.outcome for judged in folded.judged)
        part.marked.update({key: value for key, value in folded.marked.items() if key not in part.marked})
        times = [judged.record.append_time for judged in folded.judged]
        part.oldest_ms = min([*times, *([] if part.oldest_ms is None else [part.oldest_ms])], default=None)

    def _hold_against(self, outcomes: list[str], folded: Folded) -> None:
        """Note where the journal table says another outcome than its own bytes give."""
        found = [one.record.position for one, said in zip(folded.judged, outcomes, strict=False)
                 if one.verdict.outcome != said]  # fmt: skip
        self._part.differing = (self._part.differing + found)[:_MOST_DIFFERING]


def new_rows(folded: Folded, table: str, mark: int) -> Iterator[tuple[Any, str, int]]:
    """The rows that a partition adds to a history table above the mark that it holds, as `to_arrow` wants them."""
    changes: Iterable[Any] = folded.changes if table == ENTITIES else folded.facts.get(table, ())
    domain, partition = folded.place.domain, folded.place.partition
    for change in changes:
        after = change[1]
        if after.logical_timestamp >= mark:
            yield after, domain, partition


class _Staged:
    """What one partition publishes, as files: its records, and its outcomes, which come after them."""

    def __init__(self, staging: Staging, place: Place) -> None:
        self._staging = staging
        self._place = place
        self._records = staging.writer(f"records-{_slug(place)}")
        self._said: list[Outgoing] = []

    def write(self, folded: Folded, names: TopicNames) -> None:
        self._records.write_documents(self._place, documents(folded, names))
        self._records.write(dead_letters(folded, names))
        self._said += outcome_records(folded, names.outcomes(self._place.domain), {}, 0)

    def close(self) -> bool:
        """Whether there are records besides the outcomes."""
        self._staging.write(f"outcomes-{_slug(self._place)}", self._said)
        return self._records.close() > 0

    def discard(self) -> None:
        self._records.abandon()


def _slug(place: Place) -> str:
    return f"{place.topic}-{place.partition}"


def staged(folded: Folded, names: TopicNames) -> Iterator[Outgoing]:
    """All that a partition publishes before its outcomes, in (position, seq) order per topic."""
    yield from outgoing(folded, names)
    yield from dead_letters(folded, names)


def dead_letters(folded: Folded, names: TopicNames) -> Iterator[Outgoing]:
    """Copies of the shelved records."""
    if any(judged.verdict.outcome == SHELVED for judged in folded.judged):
        for judged in folded.judged:
            if judged.verdict.outcome == SHELVED:
                yield dead_letter(folded.place, judged, names.dlq)


class Publishing(Protocol):
    """What publishing needs: see publish.Publisher."""

    def publish(self, records: Iterable[Outgoing], between: Callable[[], None] = ...) -> int: ...

    def ends(self, topic: str, journal_partition: int) -> tuple[int, int]: ...


def publish_part(plan: Plan, part: Part, publisher: Publishing, now_ms: int) -> int:
    """Publish one partition's records, wait for all acknowledgements, then its outcomes; gives their number.

    Raises:
        KafkaUnavailableError: not all is acknowledged.
    """
    task = plan.tasks[part.key]
    place = task.place
    staging = plan.staging
    assert staging is not None  # a plan without it is never published
    count = 0
    if part.staged:
        count = publisher.publish(staging.read(f"records-{_slug(place)}"), between=lambda: _pass(plan, "mid-publish"))
    _pass(plan, "after-publish")
    ends = {topic: publisher.ends(topic, place.partition) for topic in plan.names.published(place.domain)}
    topic = plan.names.outcomes(place.domain)
    if part.verdicts:
        publisher.publish(_told(staging.read(f"outcomes-{_slug(place)}"), ends, now_ms))
    else:
        publisher.publish([record(place, topic, task.start, part.end, (), ends, part.system_time, now_ms)])
    return count


def _told(records: Iterable[Outgoing], ends: Mapping[str, tuple[int, int]], now_ms: int) -> Iterator[Outgoing]:
    """Outcome records with what is known only now: the end offsets, and the time of writing."""
    for one in records:
        value: dict[str, Any] = json.loads(one.value or b"{}")
        value["ends"] = {name: {str(partition): offset} for name, (partition, offset) in ends.items()}
        value["written"] = now_ms
        time_ms = one.time_ms or now_ms
        yield Outgoing(one.topic, one.journal_partition, one.key, canonical_json(value), one.headers, time_ms)


def _pass(plan: Plan, point: str) -> None:
    if plan.kill is not None and plan.kill[1] == point:
        os.kill(plan.kill[0], signal.SIGKILL)


def empty_part(task: Task) -> Part:
    """A share without records: the markers of transactions moved its end."""
    return Part((task.place.topic, task.place.partition), task.end, task.system_time)
