"""Restoring lost topics: the journal's records back from the journal table, into a new epoch.

    1 what is lost, and whether the lake has all of it below its marks     5 the journal table's marks: the new epoch
    2 empty topics, and a note of what they will be                        6 the epochs topic: from now on they count
    3 the records, each at its former offset                               7 the copy in the lake; the note goes
    4 the broker's clock for what comes

Until step 6 the recorded topics are the lost ones, so nobody emits, folds or follows; a kill at any moment is resumed.
Old events keep their positions, since a topic's record tells which of its offsets belong to which epoch; new ones get
positions of the new epoch, behind all of them. What Kafka acknowledged and the journal table does not contain is lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ...lake.storage.kept_epochs import KeptEpochs
from ...lake.storage.locks import only_one
from ...lake.table import Reached
from ...lake.tables import Lake
from ...producers.answers import Administrator
from ...producers.compacted import write_all
from ...producers.recorded.differences import mismatch
from ...producers.recorded.served import require_packages
from ...producers.recorded.topic_admin import Wanted, await_topics, configure, create, delete, described, has_records
from ...producers.topics import Epochs, ensure_topics, topics_of, wanted_topics
from ...schemas.errors import StreamError
from ...schemas.positions import Cut, behind_text
from ...schemas.registry import owner_of_undeclared
from ...schemas.settings import Settings
from ..crash import CrashPoints
from ..publish import watermarks
from ..rebuild import Progress, Refolding, rebuild_lake
from ..verify import Check, check_tables
from .loss import BEGUN, Loss, TopicLoss, look
from .refill import refill, target_end

_TIMEOUT_S: Final = 60.0
_TIME: Final = "message.timestamp.type"
_WRITER: Final = {_TIME: "CreateTime"}
"""While records are written back they bring their own append time."""
_BROKER: Final = {_TIME: "LogAppendTime"}
_HINT: Final = (
    "Stop it, and every producer, indexer and subscriber too: on one machine `metajournal down`, then `metajournal up "
    "--servers`, which starts the servers alone."
)


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, or would be.

    Attributes:
        loss: what was lost.
        records: written back, those of an earlier try included.
        seconds: how long this run took.
        torn_units: units of which the journal table has a part only: the rest was acknowledged, and is lost.
        ahead: journal partitions of which history tables held more than the journal table, with the number of
            positions: a batch was under way. Those rows are removed; what was published of them cannot be taken back.
        marks: the next position of every journal partition: what was acknowledged above it in the lost topics is lost.
    """

    loss: Loss
    records: int
    seconds: float
    torn_units: int
    ahead: Cut
    marks: Cut


def restore_topics(
    settings: Settings,
    tasks: Refolding,
    *,
    dry_run: bool = False,
    accept: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    say: Callable[[Progress], None] = lambda progress: None,
    checking: Callable[[Progress], None] = lambda progress: None,
) -> Restored:
    """Restore the journal topics, the schemas topic and the epochs topic, as far as they are lost.

    Args:
        settings: names, how to reach Kafka, the lake.
        tasks: where the journal table is folded again, to check it.
        dry_run: only say what is lost and would be restored.
        accept: restore even if the lake's tables are not what the journal table gives.
        tell: told of each step.
        say: told how many offsets are written.
        checking: told how far the check of the lake is.
    Raises:
        StreamError: there is no journal table, a stream or rebuild runs, a topic still holds records, it is not known
            what was recorded of the topics, or the lake is not consistent.
        DamagedTableError: the journal table is damaged.
        KafkaUnavailableError: Kafka does not answer; the next call goes on.
    """
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    if not lake.journal.exists():
        raise StreamError(
            f"There is no journal table at {lake.path}.",
            code="no-lake",
            hint="Point [lake] path at the lake: the records are restored from its table `journal`.",
        )
    started = time.monotonic()
    options = settings.lake.storage_options
    with only_one(lake.path, "stream", hint=_HINT, storage_options=options):
        with only_one(lake.path, "rebuild", hint="Wait until it ends, or stop it.", storage_options=options):
            restoring = _Restoring(settings, lake, tell, say)
            ahead, torn = _ahead(lake, restoring.loss), _torn_units(lake)
            if restoring.loss.lost and not dry_run:
                _check(settings, restoring.loss.epochs, lake, tasks, accept, checking)
        if dry_run:
            return restoring.result(started, torn, ahead)
        if ahead:  # no topic will ever hold those events, so no later batch would put the rows right
            tell("remove rows of a batch that was under way: rebuild the tables from the journal table")
            rebuild_lake(settings, restoring.loss.epochs, tasks, offline=True, accept=accept, say=checking)
            lake.refresh_pointer()
        with only_one(lake.path, "rebuild", hint="Wait until it ends, or stop it.", storage_options=options):
            restoring.run()
    return restoring.result(started, torn, ahead)


def _ahead(lake: Lake, loss: Loss) -> dict[tuple[str, int], int]:
    """By how many positions of lost topics history tables are ahead of the journal table."""
    tables = [table for table in lake.histories if table.exists()]
    ahead = {}
    for topic in loss.lost:
        known = loss.epochs.topics[topic.topic]
        for number in range(known.partitions):
            key = (topic.topic, number)
            most = max((table.mark(key) for table in tables), default=0)
            mark = max(lake.journal.mark(key), known.start(number))
            if most > mark:
                ahead[key] = most - mark
    return ahead


def _torn_units(lake: Lake) -> int:
    rows = lake.journal.sql(
        "select count(*) as number from (select tenant, unit_id from journal where unit_id is not null "
        "group by tenant, unit_id having max(unit_count) > count(distinct unit_index)) as torn"
    )
    return int(rows["number"][0].as_py())


def _check(
    settings: Settings, epochs: Epochs, lake: Lake, tasks: Refolding, accept: bool, say: Callable[[Progress], None]
) -> None:
    """Refuse where the journal table is not whole: it is about to become the only truth.

    Raises:
        StreamError: it does not give the other tables.
    """
    wrong = [check for check in check_tables(settings, epochs, lake, tasks, say, settled=False) if not check.ok]
    if wrong and not (accept and all(check.name not in _NEEDED for check in wrong)):
        raise StreamError(
            f"The lake is not consistent, so its journal table may lack events: {_said(wrong)}.",
            code="lake-inconsistent",
            hint="Restore the lake from a copy. If only other tables than the journal's are wrong, --accept restores "
            "the topics from the journal table as it is.",
            checks=[check.name for check in wrong],
        )


_NEEDED: Final = ("journal-once",)


def _said(checks: list[Check]) -> str:
    return "; ".join(f"{check.name}: {check.text}" for check in checks)


class _Restoring:
    """One run."""

    def __init__(
        self, settings: Settings, lake: Lake, tell: Callable[[str], None], say: Callable[[Progress], None]
    ) -> None:
        self._settings = settings
        self._lake = lake
        self._tell = tell
        self._say = say
        self._crash = CrashPoints(settings.stream.crash_at)
        self._kept = KeptEpochs(lake.path, settings.lake.storage_options)
        self._admin = Administrator(settings).connect(_TIMEOUT_S)
        self.loss = look(settings, self._admin, lake, self._kept, _TIMEOUT_S)
        require_packages(self.loss.epochs.outside)

    def run(self) -> None:
        made = self._topics()  # 2
        self._crash.pass_point("restore-made")
        self._fill(made)  # 3
        self._crash.pass_point("restore-filled")
        configure(self._admin, list(made), _BROKER, _TIMEOUT_S)  # 4
        self._move_marks(made)  # 5
        self._crash.pass_point("restore-marked")
        records = self._record(made)  # 6
        self._crash.pass_point("restore-recorded")
        epochs = ensure_topics(self._settings, timeout_s=_TIMEOUT_S)
        if epochs.refused:
            raise mismatch([text for texts in epochs.refused.values() for text in texts])
        self._kept.keep(records)  # 7
        self._kept.finish()

    def _topics(self) -> dict[str, tuple[TopicLoss, str]]:
        """Have empty topics in the place of the lost ones; gives each with its id."""
        begun = {topic.topic: topic for topic in self.loss.lost if topic.state == BEGUN}
        fresh = {topic.topic: topic for topic in self.loss.lost if topic.state != BEGUN}
        made = {name: (topic, str(topic.topic_id)) for name, topic in begun.items()}
        if fresh:
            self._tell(f"create {', '.join(fresh)}")
            there = described(self._admin, list(fresh), _TIMEOUT_S)
            for description in there.values():
                if has_records(self._admin, description, _TIMEOUT_S):
                    raise StreamError(
                        f"Somebody is writing to {description.name}.",
                        code="topic-holds-records",
                        hint="Stop every producer, delete the topic, and restore it again.",
                    )
            # Whoever knows the empty topic that is there may still write to it: only another id keeps them out.
            delete(self._admin, list(there), _TIMEOUT_S)
            create(self._admin, [self._wanted(topic) for topic in fresh.values()], _TIMEOUT_S)
            for name, description in await_topics(self._admin, list(fresh), _TIMEOUT_S).items():
                made[name] = fresh[name], str(description.topic_id)
        if made:
            self._kept.note_down({name: self.loss.record(topic, topic_id) for name, (topic, topic_id) in made.items()})
        return made

    def _wanted(self, topic: TopicLoss) -> Wanted:
        domain = self._settings.journal.topics.domain_of(topic.topic)
        wanted = topics_of(self._settings, domain, topic.target.partitions, ())[0]
        return replace(wanted, config={**wanted.config, **_WRITER})

    def _fill(self, made: dict[str, tuple[TopicLoss, str]]) -> None:
        places = [(name, number) for name, (topic, _) in made.items() for number in range(topic.target.partitions)]
        ends = {place: high for place, (_, high) in watermarks(self._settings, places).items()} if places else {}
        total = sum(target_end(made[name][0].target, number) for name, number in places)
        begun_at = done = sum(ends.values())
        started = time.monotonic()

        def more(offsets: int) -> None:
            nonlocal done
            done += offsets
            self._crash.pass_point("restore-writing")
            seconds = time.monotonic() - started
            rate = (done - begun_at) / seconds if seconds else 0.0
            self._say(Progress(done, total, rate, (total - done) / rate if rate else None))

        for name, (topic, _) in made.items():
            self._tell(f"write {topic.positions:,} offsets of {name}")
            own = {number: end for (of, number), end in ends.items() if of == name}
            refill(self._settings, self._lake, topic.target, own, more)
        self._check_ends(made, places)

    def _check_ends(self, made: dict[str, tuple[TopicLoss, str]], places: list[tuple[str, int]]) -> None:
        ends = watermarks(self._settings, places) if places else {}
        wrong = [
            f"{name}/{number} ends at {high}, not {target_end(made[name][0].target, number)}"
            for (name, number), (_, high) in ends.items()
            if high != target_end(made[name][0].target, number)
        ]
        if wrong:
            raise StreamError(
                f"Somebody else wrote to a topic while it was restored: {', '.join(wrong)}.",
                code="topic-holds-records",
                hint="Stop every producer, delete these topics, and restore them again.",
            )

    def _move_marks(self, made: dict[str, tuple[TopicLoss, str]]) -> None:
        """Have the journal table say that it holds everything below the new epoch."""
        marks = {
            (name, number): topic.target.start(number)
            for name, (topic, _) in made.items()
            for number in range(topic.target.partitions)
        }
        if any(self._lake.journal.mark(key) < mark for key, mark in marks.items()):
            self._lake.journal.append(self._lake.journal.schema.empty_table(), Reached(marks, {}, {}))

    def _record(self, made: dict[str, tuple[TopicLoss, str]]) -> dict[str, bytes]:
        """Write the epochs topic, and the schemas topic; gives the former's records."""

        names = self._settings.journal.topics
        special = (names.schemas, names.epochs)
        wanted = [topic for topic in wanted_topics(self._settings) if topic.topic in special]
        there = described(self._admin, list(special), _TIMEOUT_S)
        create(self._admin, [topic for topic in wanted if topic.topic not in there], _TIMEOUT_S)
        await_topics(self._admin, list(special), _TIMEOUT_S)
        if self.loss.schemas_lost:
            self._tell(f"write {len(self.loss.schemas)} schemas to {names.schemas}")
            write_all(self._settings, names.schemas, self.loss.schemas, timeout_s=_TIMEOUT_S)
        new = {name: json.dumps(self.loss.record(topic, topic_id)).encode() for name, (topic, topic_id) in made.items()}
        records = {**self.loss.records, **new}
        if new or self.loss.epochs_lost:
            self._tell(f"record the topics in {names.epochs}")
            # The owner of annotations last: who sees it recorded sees all others, and nothing is served without it.
            owner = names.journal(owner_of_undeclared())
            ordered = {key: records[key] for key in sorted(records, key=lambda key: key == owner)}
            removed: dict[str, bytes | None] = dict.fromkeys(self.loss.foreign)
            write_all(self._settings, names.epochs, removed | ordered, timeout_s=_TIMEOUT_S)
        return records

    def result(self, started: float, torn: int, ahead: dict[tuple[str, int], int]) -> Restored:
        marks = {
            (topic.topic, number): self._lake.journal.mark((topic.topic, number))
            for topic in self.loss.topics
            for number in range(topic.target.partitions)
        }
        records = sum(topic.records for topic in self.loss.lost)
        return Restored(self.loss, records, time.monotonic() - started, torn, ahead, marks)


def lost_text(restored: Restored) -> str:
    """Which records cannot be restored, for people."""
    text = "Whatever Kafka acknowledged above the marks of the journal table is lost; emitters still have what they "
    text += "did not get acknowledged."
    if restored.ahead:
        text += f" At least: {behind_text(restored.ahead)}."
    if restored.torn_units:
        text += f" {restored.torn_units:,} units lack events."
    return text
