"""One batch through the fold's steps 2 to 6, in their order.

    1 (the source) records in position order    4 history tables, above the mark that each holds
    2 prior rows                                5 change, state and dead-letter records, then the outcomes
    3 fold                                      6 the journal table: the done mark; then the caches advance

Everything before step 6 may happen twice and changes nothing then: tables skip what they hold, subscribers drop what
they have seen. How records come here, and what is done when something fails, is the runner's matter.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ..fold.folded import Folded
from ..fold.journal import journal_table
from ..fold.judging import fold
from ..fold.prior import PriorRows
from ..fold.readings import Readings, read_all, read_table
from ..fold.records import Place, records_of
from ..lake.declared import made_arrow
from ..lake.tables import Lake, Reached
from ..producers.topics import Epochs
from ..rules.digest import RULES_DIGEST
from ..schemas.errors import StreamError, UnknownSchemaError
from ..schemas.positions import offset_of, position
from ..schemas.settings import Settings
from ..schemas.topics import TopicNames
from .crash import PUBLISHING, CrashPoints
from .folder import new_rows
from .memory import give_back
from .outcomes import outcome_records, record
from .parts import staged
from .plan import Part, Pin, Plan, Task, empty_part
from .publish import Publisher
from .rebuild import finish
from .report import Laps, Report, joined
from .staging import Staging

PartitionKey = tuple[str, int]
_IN_COLUMNS = 300
_PIECE_BYTES = 16 * 1024 * 1024
"""Records of a partition from which on reading them in columns is faster than one by one."""


class Tasks(Protocol):
    """Where the tasks of the wide way run."""

    def fold(self, plan: Plan) -> list[Part]:
        """Fold every partition of a plan that has records."""

    def publish(self, plan: Plan, parts: Sequence[Part]) -> int:
        """Publish each part by exactly one task, all acknowledged; gives the number of records but the outcomes."""


class Engine:
    """Folds batches into one lake and its topics.

    Args:
        settings: prefix, cache size, crash point.
        epochs: the journal topics with epoch and number of partitions, and shelved positions.
        lake: the tables; exist already.
        publisher: to the change, state, outcome and dead-letter topics.
    """

    def __init__(self, settings: Settings, epochs: Epochs, lake: Lake, publisher: Publisher) -> None:
        self._settings = settings
        self.names: TopicNames = settings.journal.topics
        self._epochs = epochs
        self._lake = lake
        self._publisher = publisher
        self._prior = PriorRows(lake, settings.stream.cache_rows, marks=lambda: self.marks)
        self._crash = CrashPoints(settings.stream.crash_at)
        self.places = {(place.topic, place.partition): place for place in self._all_places()}
        self.marks = {
            key: max(lake.journal.mark(key), self._first(key)) for key in self.places
        }  # a new epoch begins anew
        self.clocks = {key: lake.journal.clock(key) for key in self.places}

    def _all_places(self) -> Iterator[Place]:
        for topic, epoch in self._epochs.items():
            for partition in range(epoch.partitions):
                shelved = frozenset(p for t, n, p in self._epochs.shelved if (t, n) == (topic, partition))
                domain = self.names.domain_of(topic)
                yield Place(topic, partition, epoch.partitions, domain, shelved)

    def _first(self, key: PartitionKey) -> int:
        return position(self._epochs[key[0]].epoch, 0)

    def starting_offsets(self) -> dict[PartitionKey, int]:
        """The offset of each journal partition's mark."""
        return {key: offset_of(mark) for key, mark in self.marks.items()}

    def count(self, ends: Mapping[PartitionKey, int]) -> int:
        """Offsets between the marks and the planned ends: an upper bound of a batch's events."""
        return sum(end - offset_of(self.marks[key]) for key, end in ends.items() if key in self.marks)

    def run(self, table: pa.Table, ends: Mapping[PartitionKey, int]) -> Report:
        """Fold one batch.

        Args:
            table: columns topic, partition, offset, timestamp, key, value, headers, as Spark's Kafka source has them.
            ends: the planned end offset of each journal partition.
        Raises:
            UnknownSchemaError: a record's schema is not known; everything before it in each partition is done.
            KafkaUnavailableError: publishing failed; the batch is not done.
            StreamError: records stand below the marks, or somebody else writes or swaps the tables.
        """
        reports = [self._run(piece, upto) for piece, upto in self._pieces(table, ends)]
        return reports[0] if len(reports) == 1 else joined(reports)

    def _pieces(
        self, table: pa.Table, ends: Mapping[PartitionKey, int]
    ) -> Iterator[tuple[pa.Table, Mapping[PartitionKey, int]]]:
        """A batch as several ones where its events are large, each with its ends.

        An event of a thousand files makes several thousand rows and documents, so few events can take much memory. The
        result does not depend on where batches end.
        """
        step = max(1, int(table.num_rows * _PIECE_BYTES / max(1, table.nbytes)))
        for at in range(step, table.num_rows, step):
            upto = {key: offset_of(mark) for key, mark in self.marks.items()}
            for row in table.slice(at - step, step).select(["topic", "partition", "offset"]).to_pylist():
                key = (row["topic"], row["partition"])
                upto[key] = max(upto.get(key, 0), row["offset"] + 1)
            yield table.slice(at - step, step), upto
        rest = table.num_rows % step or min(step, table.num_rows)
        yield table.slice(table.num_rows - rest), ends

    def _run(self, table: pa.Table, ends: Mapping[PartitionKey, int]) -> Report:
        self._check_pointer()
        clock = Laps()
        readings = list(self._read(table, ends))
        clock.lap("read")
        prior = self._prior.fetch(readings)
        clock.lap("prior")
        folded = [
            fold(one, before, self.clocks[(one.place.topic, one.place.partition)])
            for one, before in zip(readings, prior, strict=True)
        ]
        clock.lap("fold")
        self._crash.at("before-history")
        rows = self._append_history(folded)
        clock.lap("history")
        self._crash.at("after-history")
        published = self._publish(folded)
        clock.lap("publish")
        self._crash.at("after-outcomes")
        self._append_journal(folded)
        clock.lap("journal")
        self._crash.at("after-journal")
        self._advance(folded)
        self._stop_at_unknown(folded)
        times = [record.append_time for one in readings for record, _ in one.items]
        verdicts = Counter(judged.verdict.outcome for one in folded for judged in one.judged)
        return Report(len(times), verdicts, rows, published, min(times, default=None), clock.seconds)

    def run_wide(self, tasks: Tasks, ends: Mapping[PartitionKey, int]) -> Report:
        """Fold one batch by tasks, one for each journal partition; the steps and their order are those of `run`.

        Args:
            tasks: where the tasks run.
            ends: the planned end offset of each journal partition.
        Raises:
            as `run`.
        """
        self._check_pointer()
        clock = Laps()
        staging = Staging(self._lake.path, self._settings.lake.storage_options)
        try:
            plan = self._plan(ends, staging)
            parts = _complete(plan, tasks.fold(plan))
            clock.lap("fold")
            self._crash.at("before-history")
            for table in self._lake.histories:
                self._add_files(table.name, parts, self._reached_by(parts, clocks=False))
            clock.lap("history")
            self._crash.at("after-history")
            point = next((one for one in PUBLISHING if self._crash.strikes(one)), None)
            plan = replace(plan, kill=None if point is None else (os.getpid(), point))
            published = tasks.publish(plan, parts)
            if point is not None:
                os.kill(os.getpid(), signal.SIGKILL)  # there was nothing to publish
            clock.lap("publish")
            self._crash.at("after-outcomes")
            self._add_files("journal", parts, self._reached_by(parts, clocks=True))
            clock.lap("journal")
            self._crash.at("after-journal")
        finally:
            staging.clear()
        self._advance_by(parts)
        give_back()
        self._stop_at(parts)
        verdicts = sum((part.verdicts for part in parts), Counter[str]())
        oldest = min((part.oldest_ms for part in parts if part.oldest_ms is not None), default=None)
        rows = sum(part.rows for part in parts)
        steps = sorted({step for part in parts for step in part.seconds})
        within = {f"task {step}": sum(part.seconds.get(step, 0.0) for part in parts) for step in steps}
        return Report(verdicts.total(), verdicts, rows, published, oldest, {**clock.seconds, **within})

    def _plan(self, ends: Mapping[PartitionKey, int], staging: Staging) -> Plan:
        tasks = {}
        for key, place in self.places.items():
            epoch = self._epochs[place.topic].epoch
            start, end = self.marks[key], position(epoch, ends.get(key, offset_of(self.marks[key])))
            if end > start:
                held = {table.name: table.mark(key) for table in self._lake.histories}
                tasks[key] = Task(place, epoch, start, end, self.clocks[key], held, self._prior.repeats(place, start))
        pins = {
            table.name: Pin(table.name, table.uri, table.delta.version(), table.storage_options)
            for table in self._lake.tables.values()
        }
        return Plan(tasks, pins, tuple(pins), self.names, self._publisher.partitions, staging)

    def _add_files(self, name: str, parts: Sequence[Part], reached: Reached) -> None:
        """A batch's new files of one table; only the journal table is committed also where there are none."""
        files = [file for part in parts for file in part.files.get(name, ())]
        table = self._lake.tables[name]
        if files or table is self._lake.journal:
            table.add_files(files, reached)

    def _reached_by(self, parts: Sequence[Part], *, clocks: bool) -> Reached:
        times = {part.key: part.system_time for part in parts}
        return Reached({part.key: part.end for part in parts}, times if clocks else {}, RULES_DIGEST)

    def _advance_by(self, parts: Sequence[Part]) -> None:
        self._prior.forget_rows()
        for part in parts:
            self._prior.remember(part.key, part.marked)
            self.marks[part.key], self.clocks[part.key] = part.end, part.system_time

    @staticmethod
    def _stop_at(parts: Sequence[Part]) -> None:
        for part in parts:
            if part.stopped_by is not None:
                raise UnknownSchemaError(*part.key, part.end, part.stopped_by)

    def _read(self, table: pa.Table, ends: Mapping[PartitionKey, int]) -> Iterator[Readings]:
        """Step 1: the records of each partition, in position order, from its mark to its planned end."""
        ordered = table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
        for key, place in self.places.items():
            epoch = self._epochs[place.topic].epoch
            start, end = self.marks[key], position(epoch, ends.get(key, offset_of(self.marks[key])))
            if end == start:
                continue
            mine = pc.and_(pc.equal(ordered["topic"], place.topic), pc.equal(ordered["partition"], place.partition))
            part = ordered.filter(mine)
            offsets = part["offset"]
            if len(offsets) and not offset_of(start) <= offsets[0].as_py() <= offsets[-1].as_py() < offset_of(end):
                raise StreamError(
                    f"A batch of {place.topic}/{place.partition} does not lie between its mark and its planned end.",
                    hint="Start the stream again: it begins at the marks with a fresh checkpoint.",
                )
            if part.num_rows >= _IN_COLUMNS:
                yield read_table(part, place, epoch, start, end)
            else:
                yield read_all(records_of(part, epoch), place, start, end)

    def _append_history(self, folded: Iterable[Folded]) -> int:
        """Step 4: rows above the mark that the table already holds; a table without new rows is left alone."""
        given, count = list(folded), 0
        for table in self._lake.histories:
            rows = [
                row
                for one in given
                for row in new_rows(one, table.name, table.mark((one.place.topic, one.place.partition)))
            ]
            if rows:
                table.append(made_arrow(table.name, rows), self._reached(given, clocks=False))
            count += len(rows)
        return count

    def _publish(self, folded: list[Folded]) -> int:
        """Step 5: everything that the outcomes speak of, acknowledged; then the outcomes."""
        count = self._publisher.publish(
            (record for part in folded for record in staged(part, self.names)),
            between=lambda: self._crash.at("mid-publish"),
        )
        self._crash.at("after-publish")
        now_ms = int(time.time() * 1000)
        self._publisher.publish(
            one
            for part in folded
            for one in outcome_records(part, self.names.outcomes(part.place.domain), self._ends(part.place), now_ms)
        )
        return count

    def _ends(self, place: Place) -> dict[str, tuple[int, int]]:
        topics = self.names.published(place.domain)
        return {topic: self._publisher.ends(topic, place.partition) for topic in topics}

    def _append_journal(self, folded: list[Folded]) -> None:
        """Step 6: the done mark, also where a range held no record."""
        if folded:
            rows = pa.concat_tables(journal_table(one) for one in folded)
            self._lake.journal.append(rows, self._reached(folded, clocks=True))

    def _reached(self, folded: Iterable[Folded], *, clocks: bool) -> Reached:
        marks = {(one.place.topic, one.place.partition): one.end for one in folded}
        times = {(one.place.topic, one.place.partition): one.system_time for one in folded}
        return Reached(marks, times if clocks else {}, RULES_DIGEST)

    def _advance(self, folded: list[Folded]) -> None:
        self._prior.advance(folded)
        for one in folded:
            key = (one.place.topic, one.place.partition)
            self.marks[key], self.clocks[key] = one.end, one.system_time

    def _stop_at_unknown(self, folded: Iterable[Folded]) -> None:
        for one in folded:
            if one.stopped_by is not None:
                place = one.place
                raise UnknownSchemaError(place.topic, place.partition, one.end, one.stopped_by.fingerprint)

    def tidy(self, for_s: float = 0.0) -> bool:
        """Between two batches: one short piece of compaction, of one table, so that no pause adds up.

        Args:
            for_s: go on for so long; a large batch leaves more to do.
        Returns:
            Whether there was anything to do.
        """
        return self._lake.tidy(self._crash.at, for_s=for_s)

    def take_over(self) -> int | None:
        """Between two batches: put a rebuilt generation in the place of the live tables, when one is offered.

        What was folded since it was filled is folded into it first, so that it holds what the live tables hold.

        Returns:
            Its number; None where there was none.
        Raises:
            StreamError: somebody else has swapped the tables.
        """
        self._check_pointer()
        offered = self._lake.offered_generation()
        if offered is None:
            return None
        finish(self._settings, self._epochs, self._lake, offered)
        self._lake.swap_to(offered.generation, self._crash.at)
        self._prior.forget_rows()
        return self._lake.generation

    def _check_pointer(self) -> None:
        """Rows that went to tables which are no longer the live ones would be missing in those for ever."""
        known = self._lake.generation
        self._lake.refresh_pointer()
        if self._lake.generation != known:
            raise StreamError(
                f"Somebody else has put generation {self._lake.generation} in the place of the tables that this stream "
                "writes (`metajournal rebuild lake --offline` beside a running stream does that).",
                code="second-writer",
                hint="Start the stream again: it goes on with the live tables. Then `metajournal verify`.",
            )

    def repeat_outcomes(self, keys: Iterable[PartitionKey]) -> None:
        """Say again how far idle partitions are."""
        now_ms = int(time.time() * 1000)
        places = [self.places[key] for key in keys]
        self._publisher.publish(
            record(
                place,
                self.names.outcomes(place.domain),
                self.marks[(place.topic, place.partition)],
                self.marks[(place.topic, place.partition)],
                (),
                self._ends(place),
                self.clocks[(place.topic, place.partition)],
                now_ms,
            )
            for place in places
        )


def _complete(plan: Plan, parts: Sequence[Part]) -> list[Part]:
    """One part for each planned task: those without records tell nothing of themselves.

    Raises:
        StreamError: two tasks folded the same partition, so neither saw all of it in order.
    """
    found = {part.key: part for part in parts}
    if len(found) != len(parts):
        raise StreamError(
            "Spark split a journal partition over several tasks.",
            code="partition-split",
            hint="Take options that split Kafka partitions (minPartitions, maxRecordsPerPartition) away.",
        )
    return [found.get(key) or empty_part(task) for key, task in plan.tasks.items()]
