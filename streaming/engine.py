"""One batch through the fold's steps 2 to 6, in their order.

    1 (the source) records in position order    4 history tables, above the mark that each holds
    2 prior rows                                5 change, state and dead-letter records, then the outcomes
    3 fold                                      6 the journal table: the done mark; then the caches advance

Everything before step 6 may happen twice and changes nothing then: tables skip what they hold, subscribers drop what
they have seen. How records come here, and what is done when something fails, is the runner's matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from ..fold.prior import PriorRows
from ..fold.records import Place
from ..fold.steps import RowFolder, Share, fold_shares
from ..lake.tables import Lake, Reached
from ..producers.recorded.restored import GAP_HEADER
from ..producers.topics import Epochs
from ..rules.digest import digests_of_topics
from ..schemas.errors import StreamError, UnknownSchemaError
from ..schemas.positions import epoch_of, offset_of, position
from ..schemas.settings import Settings
from ..schemas.topics import TopicNames
from .batches import Batch, BatchHere, BatchOfTasks, Tasks, ends_of
from .crash import CrashPoints
from .outcomes import record
from .plan import Part, Pin, Plan, Task, brought_by
from .publish import Publisher
from .rebuild import take_offered
from .report import Laps, Report, joined, report_of
from .staging import Staging

PartitionKey = tuple[str, int]
_IN_COLUMNS = 300
"""Records of a partition from which on reading them in columns is faster than one by one."""
_PIECE_BYTES = 16 * 1024 * 1024


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
        self.lake = lake
        self._publisher = publisher
        self._prior = PriorRows(lake, settings.stream.cache_rows, marks=lambda: self.marks)
        self._crash = CrashPoints(settings.stream.crash_at)
        self.places = {(place.topic, place.partition): place for place in self._all_places()}
        self.marks = {key: self._reached(key, lake.journal.mark(key)) for key in self.places}
        self.clocks = {key: lake.journal.clock(key) for key in self.places}

    def _all_places(self) -> Iterator[Place]:
        for topic, epoch in self._epochs.items():
            for partition in range(epoch.partitions):
                shelved = frozenset(p for t, n, p in self._epochs.shelved if (t, n) == (topic, partition))
                domain = self.names.domain_of(topic)
                moved, first = self._epochs.moved(topic, partition), self._epochs.first(topic)
                yield Place(topic, partition, epoch.partitions, domain, shelved, moved, first)

    def _reached(self, key: PartitionKey, mark: int) -> int:
        return self._epochs[key[0]].reached(key[1], mark)

    def enter_epochs(self) -> None:
        """Have the journal table say where it stands in the present epochs: readers hold its marks against others'."""
        entered = {key: mark for key, mark in self.marks.items() if 0 < self.lake.journal.mark(key) < mark}
        if entered:
            self.lake.journal.append(self.lake.journal.schema.empty_table(), Reached(entered, {}, {}))

    @property
    def in_restored(self) -> bool:
        """Whether a partition goes on in an earlier epoch, whose records were restored: they are folded by `run`."""
        return any(mark < self._epochs[topic].start(number) for (topic, number), mark in self.marks.items())

    def starting_offsets(self) -> dict[PartitionKey, int]:
        """The offset of each journal partition's mark."""
        return {key: offset_of(mark) for key, mark in self.marks.items()}

    def check_rules(self) -> None:
        """Refuse to end a batch by other rules than those that began it; other domains' rules do not matter.

        Raises:
            StreamError: a table holds rows ahead of the journal table that other rules made.
        """
        for table in self.lake.histories:
            topics = {self.places[key].domain for key, mark in self.marks.items() if table.mark(key) > mark}
            rules = table.rules() if topics else {}
            for domain, own in digests_of_topics(topics).items():
                if rules.get(domain, own) != own:
                    raise StreamError(
                        f"Table {table.name!r} holds rows ahead of the journal table that were written under other "
                        f"rules of the domain {domain!r}.",
                        code="other-rules",
                        hint="Finish that batch with the version that started it, then upgrade.",
                    )

    def counts(self, ends: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
        """Offsets between the marks and the planned ends of each partition: an upper bound of a batch's events."""
        return {key: end - offset_of(self.marks[key]) for key, end in ends.items() if key in self.marks}

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
        reports = [
            self._commit(partial(self._fold_here, piece, upto))
            for rows, limits in self._by_epoch(table, ends)
            for piece, upto in self._pieces(rows, limits)
        ]
        self.enter_epochs()
        return replace(reports[0] if len(reports) == 1 else joined(reports), size_bytes=table.nbytes)

    def _by_epoch(
        self, table: pa.Table, ends: Mapping[PartitionKey, int]
    ) -> Iterator[tuple[pa.Table, Mapping[PartitionKey, int]]]:
        """A batch as several ones where an epoch ends in it, without the records that only fill an offset."""
        while limits := self._ends_of_epochs(ends):
            rows = table.select(["topic", "partition", "offset"]).to_pylist()
            headers = table["headers"].to_pylist()
            kept = [
                row["offset"] < limits.get((row["topic"], row["partition"]), 0)
                and row["offset"] >= offset_of(self.marks[row["topic"], row["partition"]])
                and not any(header["key"] == GAP_HEADER for header in many or ())
                for row, many in zip(rows, headers, strict=True)
            ]
            yield table.filter(pa.array(kept, pa.bool_())), limits
            done = [row["offset"] < offset_of(self.marks[row["topic"], row["partition"]]) for row in rows]
            table = table.filter(pc.invert(pa.array(done, pa.bool_())))
        yield table, ends

    def _ends_of_epochs(self, ends: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
        """Up to which offset the partitions that go on in an earlier epoch can be folded in one batch."""
        limits = {}
        for (topic, number), end in ends.items():
            mark, known = self.marks[topic, number], self._epochs[topic]
            if mark < known.start(number) and offset_of(mark) < end:
                limits[topic, number] = min(end, dict(known.earlier)[epoch_of(mark)][number])
        return limits

    def _pieces(
        self, table: pa.Table, ends: Mapping[PartitionKey, int]
    ) -> Iterator[tuple[pa.Table, Mapping[PartitionKey, int]]]:
        """A batch as several ones where its events are large, each with its ends.

        An event of a thousand files makes several thousand rows and documents, so few events can take much memory. The
        result does not depend on where batches end.
        """
        step = max(1, int(table.num_rows * _PIECE_BYTES / max(1, table.nbytes)))
        for row_end in range(step, table.num_rows, step):
            upto = {key: offset_of(mark) for key, mark in self.marks.items()}
            for row in table.slice(row_end - step, step).select(["topic", "partition", "offset"]).to_pylist():
                key = (row["topic"], row["partition"])
                upto[key] = max(upto.get(key, 0), row["offset"] + 1)
            yield table.slice(row_end - step, step), upto
        rest = table.num_rows % step or min(step, table.num_rows)
        yield table.slice(table.num_rows - rest), ends

    def run_wide(self, tasks: Tasks, ends: Mapping[PartitionKey, int]) -> Report:
        """Fold one batch by tasks, one for each journal partition; the steps and their order are those of `run`.

        Args:
            tasks: where the tasks run.
            ends: the planned end offset of each journal partition.
        Raises:
            as `run`.
        """
        staging = Staging(self.lake.path, self._settings.lake.storage_options)
        try:
            return self._commit(lambda clock: self._fold_by_tasks(tasks, ends, staging, clock))
        finally:
            staging.clear()

    def _commit(self, folding: Callable[[Laps], Batch]) -> Report:
        """One batch, from its records to the done mark."""
        self._check_pointer()
        clock = Laps()
        batch = folding(clock)  # 1, 2, 3
        self._crash.pass_point("before-history")
        for table in self.lake.histories:
            batch.append(table)  # 4
        clock.lap("history")
        self._crash.pass_point("after-history")
        published = batch.publish()  # 5
        clock.lap("publish")
        self._crash.pass_point("after-outcomes")
        batch.append(self.lake.journal)  # 6
        clock.lap("journal")
        self._crash.pass_point("after-journal")
        batch.advance(self._prior)
        for part in batch.parts:
            self.marks[part.key], self.clocks[part.key] = self._reached(part.key, part.end), part.system_time
        _stop_at_unknown(batch.parts)
        return report_of(batch.parts, published, clock.seconds)

    def _fold_here(self, table: pa.Table, ends: Mapping[PartitionKey, int], clock: Laps) -> Batch:
        folder = RowFolder(self._prior, columns_from=_IN_COLUMNS)
        made = fold_shares(folder, list(self._shares(table, ends)), clock.lap)
        return BatchHere(made, self._publisher, self.names, self._crash)

    def _fold_by_tasks(self, tasks: Tasks, ends: Mapping[PartitionKey, int], staging: Staging, clock: Laps) -> Batch:
        batch = BatchOfTasks(self._plan(ends, staging), tasks, self._publisher, self._crash)
        clock.lap("fold")
        return batch

    def _plan(self, ends: Mapping[PartitionKey, int], staging: Staging) -> Plan:
        tasks = {}
        for key, place in self.places.items():
            epoch = self._epochs[place.topic].epoch
            start, end = self.marks[key], position(epoch, ends.get(key, offset_of(self.marks[key])))
            if end > start:
                marks = {table.name: table.mark(key) for table in self.lake.histories}
                tasks[key] = Task(place, epoch, start, end, self.clocks[key], marks, self._prior.repeats(place, start))
        pins = {
            table.name: Pin(table.name, table.uri, table.delta.version(), table.storage_options)
            for table in (self.lake.journal, *self.lake.histories)
        }
        rules = digests_of_topics(task.place.domain for task in tasks.values())
        return Plan(
            tasks, pins, tuple(pins), self.names, self._publisher.partitions, staging, rules,
            outside=brought_by(self._epochs.outside),
        )  # fmt: skip

    def _shares(self, table: pa.Table, ends: Mapping[PartitionKey, int]) -> Iterator[Share]:
        """The records of each partition, in position order, from its mark to its planned end."""
        ordered = table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
        for key, place in self.places.items():
            start, epoch = self.marks[key], epoch_of(self.marks[key])
            end = position(epoch, ends.get(key, offset_of(start)))
            if end == start:
                continue
            mine = pc.and_(pc.equal(ordered["topic"], place.topic), pc.equal(ordered["partition"], place.partition))
            part = ordered.filter(mine)
            offsets = part["offset"]
            if len(offsets) and not offset_of(start) <= offsets[0].as_py() <= offsets[-1].as_py() < offset_of(end):
                raise StreamError(
                    f"A batch of {place.topic}/{place.partition} does not lie between its mark and its planned end.",
                    hint="Start the stream again: it starts at its marks with a new checkpoint.",
                )
            yield Share(place, part, epoch, start, end, self.clocks[key])

    def tidy(self, for_s: float = 0.0) -> bool:
        """Between two batches: one short piece of compaction, of one table, so that no pause adds up.

        Args:
            for_s: go on for so long; a large batch leaves more to do.
        Returns:
            Whether there was anything to do.
        """
        return self.lake.tidy(self._crash.pass_point, for_s=for_s)

    def take_over(self, fill_first: Callable[[Lake], None] = lambda offered: None) -> int | None:
        """Between two batches: put a rebuilt generation in the place of the live tables, when one is offered.

        What was folded since it was filled is folded into it first, so that it holds what the live tables hold.

        Args:
            fill_first: told the generation where its derived tables do not reach the live ones' yet, so it waits.
        Returns:
            Its number; None where there was none, or it waits.
        Raises:
            StreamError: somebody else has swapped the tables.
        """
        self._check_pointer()
        number = take_offered(self._settings, self._epochs, self.lake, self._crash.pass_point, fill_first)
        if number is not None:
            self._prior.forget_rows()
        return number

    def _check_pointer(self) -> None:
        """Rows that went to tables which are no longer the live ones would be missing in those for ever."""
        known = self.lake.generation
        self.lake.refresh_pointer()
        if self.lake.generation != known:
            raise StreamError(
                "Another process has replaced the tables that this stream writes by generation "
                f"{self.lake.generation} (`metajournal rebuild lake --offline` beside a running stream does that).",
                code="second-writer",
                hint="Start the stream again: it continues with the live tables. Then run `metajournal verify`.",
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
                ends_of(place, self._publisher, self.names),
                self.clocks[(place.topic, place.partition)],
                now_ms,
            )
            for place in places
        )


def _stop_at_unknown(parts: Iterable[Part]) -> None:
    for part in parts:
        if part.stopped_by is not None:
            raise UnknownSchemaError(*part.key, part.end, part.stopped_by)
