"""A folded batch, as the committer takes it: folded here in the driver, or by tasks into files.

Both tell the same of each journal partition, a `Part`; they differ in how rows reach a table and records reach Kafka.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from ..fold.prior import PriorRows
from ..fold.records import Place
from ..fold.steps import Made
from ..lake.columns import JOURNAL_TABLE
from ..lake.table import Reached, Table
from ..rules.digest import digests_of_topics, served_digests
from ..schemas.errors import StreamError
from ..schemas.topics import TopicNames
from .crash import PUBLISHING, CrashPoints
from .memory import give_back
from .outcomes import Ends, outcome_records
from .parts import staged
from .plan import Part, Plan, Published, empty_part
from .publish import Publisher


class Tasks(Protocol):
    """Where the tasks of the wide way run."""

    def fold(self, plan: Plan) -> list[Part]:
        """Fold every partition of a plan that has records."""

    def publish(self, plan: Plan, parts: Sequence[Part]) -> list[Published]:
        """Publish each part by exactly one task, all acknowledged."""


class Batch(Protocol):
    """A folded batch."""

    @property
    def parts(self) -> Sequence[Part]:
        """What became of each journal partition's share; none of those that have none."""

    def append(self, table: Table) -> None:
        """Add a table's new rows, with the marks that it reaches. A history table without any is left alone."""

    def publish(self) -> int:
        """Publish the records, wait for all acknowledgements, then the outcomes; gives the number of records."""

    def advance(self, prior: PriorRows) -> None:
        """Let the caches know: the batch is done."""


def reached_by(parts: Sequence[Part], table: Table, rules: Mapping[str, str]) -> Reached:
    """The marks that parts reach; the journal table also keeps the clocks, and the digests of all served domains.

    Args:
        rules: digests of the domains whose events stand in the topics of the parts.
    """
    marks = {part.key: part.end for part in parts}
    if table.name == JOURNAL_TABLE:
        return Reached(marks, {part.key: part.system_time for part in parts}, {**served_digests(), **rules})
    return Reached(marks, {}, rules)


class BatchHere:
    """A batch that was folded in the driver.

    Args:
        made: what each partition's share gave.
        publisher, names: where its records go.
        crash: points that publishing passes.
    """

    def __init__(self, made: Sequence[Made], publisher: Publisher, names: TopicNames, crash: CrashPoints) -> None:
        self._made = made
        self._folded = [task_made.folded for task_made in made]
        self._publisher = publisher
        self._names = names
        self._crash = crash
        self.parts = [_part_of(task_made) for task_made in made]
        self._rules = digests_of_topics(folded.place.domain for folded in self._folded)

    def append(self, table: Table) -> None:
        tables = []
        for made, part in zip(self._made, self.parts, strict=True):
            rows = made.rows(table.name, table.mark(part.key))
            if rows is not None:
                tables.append(rows)
                part.rows += 0 if table.name == JOURNAL_TABLE else rows.num_rows
        if tables or (table.name == JOURNAL_TABLE and self.parts):
            rows = pa.concat_tables(tables) if tables else table.schema.empty_table()
            table.append(rows, reached_by(self.parts, table, self._rules))

    def publish(self) -> int:
        count = self._publisher.publish(
            (record for folded in self._folded for record in staged(folded, self._names)),
            between=lambda: self._crash.pass_point("mid-publish"),
        )
        self._crash.pass_point("after-publish")
        now_ms = int(time.time() * 1000)
        self._publisher.publish(
            record
            for folded in self._folded
            for record in outcome_records(
                folded,
                self._names.outcomes(folded.place.domain),
                ends_of(folded.place, self._publisher, self._names),
                now_ms,
            )
        )
        return count

    def advance(self, prior: PriorRows) -> None:
        prior.advance(self._folded)


class BatchOfTasks:
    """A batch that tasks have folded into files.

    Args:
        plan: what the tasks were told.
        tasks: where they run.
        publisher: that of the batches that are folded here; it learns what the tasks published.
        crash: points that publishing passes.
    """

    def __init__(self, plan: Plan, tasks: Tasks, publisher: Publisher, crash: CrashPoints) -> None:
        self._plan = plan
        self._tasks = tasks
        self._publisher = publisher
        self._crash = crash
        self.parts = _complete(plan, tasks.fold(plan))

    def append(self, table: Table) -> None:
        files = [file for part in self.parts for file in part.files.get(table.name, ())]
        if files or table.name == JOURNAL_TABLE:
            table.add_files(files, reached_by(self.parts, table, self._plan.rules))

    def publish(self) -> int:
        point = next((name for name in PUBLISHING if self._crash.strikes(name)), None)
        plan = replace(self._plan, kill=None if point is None else (os.getpid(), point))
        published = self._tasks.publish(plan, self.parts)
        for part in published:
            self._publisher.learn(part.ends)
        if point is not None:
            os.kill(os.getpid(), signal.SIGKILL)  # there was nothing to publish
        return sum(part.records for part in published)

    def advance(self, prior: PriorRows) -> None:
        prior.forget_rows()
        for part in self.parts:
            prior.remember(part.key, part.marked)
        give_back()


def ends_of(place: Place, publisher: Publisher, names: TopicNames) -> Ends:
    """The partition and end offset of each topic that a journal partition's outcomes speak of."""
    return {topic: publisher.ends(topic, place.partition) for topic in names.published(place.domain)}


def _part_of(made: Made) -> Part:
    folded = made.folded
    part = Part((folded.place.topic, folded.place.partition), folded.start, folded.system_time)
    part.add(made)
    return part


def _complete(plan: Plan, parts: Sequence[Part]) -> list[Part]:
    """One part for each planned task: those without records tell nothing of themselves.

    Raises:
        StreamError: two tasks folded the same partition, so neither saw all of it in order.
    """
    parts_by_key = {part.key: part for part in parts}
    if len(parts_by_key) != len(parts):
        raise StreamError(
            "Spark split a journal partition over several tasks.",
            code="partition-split",
            hint="Remove options that split Kafka partitions (minPartitions, maxRecordsPerPartition).",
        )
    return [parts_by_key.get(key) or empty_part(task) for key, task in plan.tasks.items()]
