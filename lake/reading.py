"""Reading entities from the lake without Spark: current, AS AT a position or a time, and the whole history.

Every read is cut at the journal table's marks, so a reader never sees rows of a batch that the stream has not
finished, whatever state a crash left the tables in. An answer says from which position it speaks and whether it is
final, so that "not there yet" is never mistaken for "nothing found".
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from deltalake.exceptions import TableNotFoundError

from ..rules.entity import EntityRow
from ..schemas.errors import (
    InvalidPositionError,
    NotFinalError,
    NotYetVisibleError,
    UnavailableError,
    UnknownEntityError,
)
from ..schemas.hashing import partition_of
from ..schemas.positions import Cut, Position, behind, behind_text
from ..schemas.registry import served_domains
from ..schemas.times import time_shown
from ..schemas.topics import TopicNames
from ..schemas.urn import Urn
from .columns import JOURNAL_TABLE
from .cuts import time_text, to_come
from .entities import milliseconds, row_from_dict
from .lookup import rows_of_key
from .tables import Lake, PartitionKey, quoted

_BEFORE_ALL_MS = 0
_POLL_S = 0.02


@dataclass(frozen=True)
class Answer:
    """What the lake says of one entity.

    Attributes:
        urn: the entity.
        row: its row, or None where it did not exist at that point.
        held_to: the lake holds its journal partition up to (not including) this position.
        final: no event still to come can change this answer.
    """

    urn: Urn
    row: EntityRow | None
    held_to: Position
    final: bool


class LakeReader:
    """Look-ups of entities; each reads the few files and row groups that can hold the key.

    Args:
        lake: where the tables are.
        names: topic names, to find an entity's journal partition.
        partitions: number of partitions per journal topic.
    """

    def __init__(self, lake: Lake, names: TopicNames, partitions: Mapping[str, int] | int) -> None:
        self._lake = lake
        self._names = names
        self._partitions = partitions

    def current(self, tenant: str, urn: Urn) -> Answer:
        """The newest row of an entity at the lake's marks.

        Raises:
            UnknownEntityError: the entity has no live row; `held_to` in its data says how far the lake has looked.
        """
        return self.live(self._newest(tenant, urn, None, None))

    def as_at(self, tenant: str, urn: Urn, at: Position | Cut | int, *, final_only: bool = False) -> Answer:
        """The entity as the log told it at a position of its partition, or at a system_time in milliseconds UTC.

        Args:
            at: a Position (that event included), a cut (the entity's partition stands at its own position in it, or at
                the latest of their times), or milliseconds UTC (events appended at that time included).
            final_only: refuse an answer that an event still to come could change.
        Raises:
            UnknownEntityError: it did not exist then; the message says since when it does.
            NotFinalError: the lake has not passed that point (a position), the time is still to come, or `final_only`
                and it is not final.
        """
        if isinstance(at, Mapping):
            answer = self._at_cut(tenant, urn, at)
        elif isinstance(at, Position):
            answer = self._at_position(tenant, urn, at)
        else:
            answer = self._newest(tenant, urn, None, at)
            if not answer.final and at > time.time() * 1000:
                raise to_come(at, answer.held_to, urn)
        if final_only and not answer.final:
            raise _not_final(urn, answer.held_to)
        if answer.row is None or answer.row.deleted:
            raise self._unknown_then(tenant, answer, at)
        return answer

    def _unknown_then(self, tenant: str, answer: Answer, at: Position | Cut | int) -> UnknownEntityError:
        """Why an entity was not there at a point: never yet, or deleted before it; or there is none at all.

        A time is told as it was read, and the journal's word with its position: a logical timestamp alone is taken for
        milliseconds, and would lead back here.
        """
        then, held_to = f"at {time_shown(at)}" if isinstance(at, int) else "then", answer.held_to
        if answer.row is not None:
            said = f"There was no {answer.urn} {then}: it was deleted at {_placed(answer.row, held_to)}."
        else:
            below = f"logical_timestamp < {answer.held_to.value}"
            rows = self._rows(tenant, answer.urn, f"{below} order by logical_timestamp, seq limit 1")
            if not rows:
                return _unknown(answer.urn, answer.held_to)
            said = f"There was no {answer.urn} {then}: the journal speaks of it since {_placed(rows[0], held_to)}."
        return UnknownEntityError(
            str(answer.urn),
            said,
            code="unknown-then",
            hint=f"Ask for another point; `metajournal history URN` lists them all, here of {answer.urn}. "
            "A position is TOPIC/PARTITION/VALUE; a number alone is a time.",
            held_to=str(answer.held_to),
        )

    def history(self, tenant: str, urn: Urn, *, limit: int | None = None, before: int | None = None) -> list[EntityRow]:
        """Rows of an entity, oldest first.

        Args:
            limit: so many of the newest; None: all.
            before: only rows below this logical timestamp; that of a page's first row gives the page before it.
        Raises:
            UnknownEntityError: the lake holds no row of it.
        """
        key, mark = self._held(tenant, urn)
        below = mark if before is None else min(mark, before)
        rows = self._newest_rows(tenant, urn, below, limit)
        if not rows and (below == mark or not self._newest_rows(tenant, urn, mark, 1)):
            raise _unknown(urn, Position(*key, mark))
        return rows[::-1]

    def place(self, tenant: str, urn: Urn) -> tuple[str, int]:
        """The journal topic and partition that an entity's events stand in."""
        topic = self._names.journal(urn.domain)
        return topic, partition_of(f"{tenant}/{urn.aggregate}".encode(), self._count(topic))

    def _newest_rows(self, tenant: str, urn: Urn, below: int, limit: int | None) -> list[EntityRow]:
        most = "" if limit is None else f" limit {int(limit)}"
        return self._rows(
            tenant, urn, f"logical_timestamp < {int(below)} order by logical_timestamp desc, seq desc{most}"
        )

    def wait(self, wanted: Cut, timeout_s: float) -> None:
        """Wait until the journal table holds everything below some positions.

        Args:
            wanted: next position per (journal topic, partition).
        Raises:
            NotYetVisibleError: it did not get there in time; `behind` says how much it lacks.
            UnavailableError: there is no lake, nor was one made in time.
        """
        end = time.monotonic() + timeout_s
        for topic, partition in wanted:
            if topic not in map(self._names.journal, served_domains()) or not 0 <= partition < self._count(topic):
                raise InvalidPositionError(f"This journal has no {topic}/{partition}.", text=f"{topic}/{partition}")
        while True:
            late = time.monotonic() >= end
            try:
                self._refresh((JOURNAL_TABLE,))
                marks = {key: self._lake.journal.mark(key) for key in wanted}
                lacking = behind({key: mark for key, mark in marks.items() if mark}, wanted)
            except UnavailableError:
                if late:
                    raise
            else:
                if not lacking:
                    return
                if late:
                    said = f"The lake is behind the asked position after {timeout_s:.3g} s: {behind_text(lacking)}"
                    raise NotYetVisibleError(lacking, f"{said} positions.")
            time.sleep(_POLL_S)

    def tables(self) -> Lake | None:
        """The lake as it stands now; None where nothing was written yet."""
        try:
            self._lake.refresh()
        except TableNotFoundError:
            return None
        return self._lake

    def _at_cut(self, tenant: str, urn: Urn, cut: Cut) -> Answer:
        key, _ = self._held(tenant, urn)
        times = [self._time_of(Position(*one, value)) for one, value in cut.items()]
        if key in cut:
            return self._at_position(tenant, urn, Position(*key, cut[key]))
        return self._newest(tenant, urn, None, max(times))

    def _at_position(self, tenant: str, urn: Urn, at: Position) -> Answer:
        key, mark = self._held(tenant, urn)
        if (at.topic, at.partition) != key:
            return self._newest(tenant, urn, None, self._time_of(at))
        if at.value >= mark:
            raise _not_final(urn, Position(*key, mark))
        return self._newest(tenant, urn, at.value, None)

    def _time_of(self, at: Position) -> int:
        """The running system_time of another partition's position, milliseconds UTC; 0 before its first record."""
        where = f"topic = {quoted(at.topic)} and journal_partition = {at.partition}"
        if at.topic not in map(self._names.journal, served_domains()) or at.partition >= self._count(at.topic):
            raise InvalidPositionError(f"{at} is no position of this journal.", text=str(at))
        mark = self._lake.journal.mark((at.topic, at.partition))
        if at.value >= mark:
            raise _not_final(None, Position(at.topic, at.partition, mark))
        rows = self._lake.journal.query(
            "system_time",
            f"{where} and logical_timestamp <= {at.value} order by logical_timestamp desc limit 1",
        )
        return milliseconds(rows[0]["system_time"]) if rows else _BEFORE_ALL_MS

    def _newest(self, tenant: str, urn: Urn, position: int | None, time_ms: int | None) -> Answer:
        key, mark = self._held(tenant, urn)
        where = f"logical_timestamp < {mark if position is None else min(mark, position + 1)}"
        if time_ms is not None:
            where += f" and epoch_us(system_time) <= {int(time_ms) * 1000}"
        rows = self._rows(tenant, urn, f"{where} order by logical_timestamp desc, seq desc limit 1")
        final = position is not None or (time_ms is not None and self._lake.journal.clock(key) > time_ms)
        return Answer(urn, rows[0] if rows else None, Position(*key, mark), final)

    def _held(self, tenant: str, urn: Urn) -> tuple[PartitionKey, int]:
        """The journal partition of an entity and the journal table's mark there."""
        self._refresh()
        key = self.place(tenant, urn)
        return key, self._lake.journal.mark(key)

    TABLES: ClassVar[tuple[str, ...]] = ("entities",)
    """What is read besides the journal table."""

    def _refresh(self, names: tuple[str, ...] | None = None) -> None:
        """See what the stream has written. Raises: UnavailableError: there is no lake."""
        try:
            self._lake.refresh(names or (JOURNAL_TABLE, *self.TABLES))
        except TableNotFoundError as error:
            raise UnavailableError(
                f"There is no lake at {self._lake.path}.",
                code="no-lake",
                hint="Start the stream (`metajournal up`, or `metajournal stream`), or point [lake] path at it.",
                path=self._lake.path,
            ) from error

    def _count(self, topic: str) -> int:
        """Number of partitions of a journal topic."""
        return self._partitions if isinstance(self._partitions, int) else self._partitions[topic]

    def _rows(self, tenant: str, urn: Urn, rest: str) -> list[EntityRow]:
        found = rows_of_key(self._lake.tables["entities"].delta, {"tenant": tenant, "urn": str(urn)}, f"and {rest}")
        return [row_from_dict(row) for row in found.to_pylist(maps_as_pydicts="strict")]

    @staticmethod
    def live(answer: Answer) -> Answer:
        """An answer, if its entity is there. Raises: UnknownEntityError."""
        if answer.row is None or answer.row.deleted:
            raise _unknown(answer.urn, answer.held_to, answer.row)
        return answer


def _shown(row: EntityRow) -> str:
    """When a row was written, and its logical timestamp."""
    return f"{time_text(row.system_time)} (logical timestamp {row.logical_timestamp})"


def _placed(row: EntityRow, held_to: Position) -> str:
    """When a row was written, and its position."""
    return f"{time_text(row.system_time)} (position {replace(held_to, value=row.logical_timestamp)})"


def _unknown(urn: Urn, held_to: Position, gone: EntityRow | None = None) -> UnknownEntityError:
    if gone is not None:
        said = f"There is no entity {urn} any more: it was deleted at {_shown(gone)}."
        return UnknownEntityError(
            str(urn), said, hint="Ask for an earlier time (as_at), or register it again.", held_to=str(held_to)
        )
    return UnknownEntityError(
        str(urn),
        hint="Check the spelling with `metajournal search`; if it was just emitted, ask for at_least its position"
        " (`--at-least POSITION`).",
        held_to=str(held_to),
    )


def _not_final(urn: Urn | None, held_to: Position) -> NotFinalError:
    """The error of a point that the lake has not passed."""
    return NotFinalError(
        f"That point is not final yet: the lake holds {held_to.topic}/{held_to.partition} up to {held_to.value}.",
        code="not-final",
        hint="Ask again when the stream has passed it (`metajournal status` shows how far it is).",
        urn=None if urn is None else str(urn),
        held_to=str(held_to),
    )
