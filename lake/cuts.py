"""What a reading of one domain's rows sees: a bound for each journal partition, of a position and maybe of a time.

Every reading is cut at the journal table's marks, so nobody sees rows of a batch that the stream has not finished. AS
AT a position, a cut or a time only draws the bound closer. Bounds are values: a cursor carries them from page to page,
so that all pages of an answer speak of one moment.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..schemas.encoding.wire import MAX_LONG
from ..schemas.errors import InputError, InvalidPositionError, NotFinalError
from ..schemas.positions import BEGIN, Cut, Position, cut_of
from ..schemas.registry import served_domains
from ..schemas.topics import TopicNames
from ..schemas.urn import Urn
from . import scan
from .columns import TIMESTAMP
from .table import quoted
from .views.table import MarkedView

At = Position | int | Cut
"""A position (that event included), milliseconds UTC (events appended then included), or a cut: the next position of
each of several partitions (the others stand at the latest of the times of what it holds)."""
SEEN_BY: Final = ("journal_partition", "logical_timestamp", "system_time")
"""Columns that say whether a row is seen."""
_FARTHEST: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Bounds:
    """Which rows of a topic are seen.

    Attributes:
        topic: a journal topic.
        below: next position of each partition; rows at it and above are not seen.
        until_ms: system_time in milliseconds UTC up to which rows are seen, of those partitions that have one.
        final: no event still to come can change what is seen.
    """

    topic: str
    below: Mapping[int, int]
    until_ms: Mapping[int, int]
    final: bool

    @property
    def held_to(self) -> dict[tuple[str, int], int]:
        """The bounds as a cut: next position by topic and partition."""
        return {(self.topic, partition): value for partition, value in self.below.items()}

    def sql(self) -> str:
        """The condition of a row of a history table that is seen."""
        parts = []
        for partition, below in sorted(self.below.items()):
            until = self.until_ms.get(partition)
            by = "" if until is None else f" and epoch_us(system_time) <= {until * 1000}"
            parts.append(f"journal_partition = {partition} and logical_timestamp < {below}{by}")
        return f"({' or '.join(parts)})"

    def seen(self, rows: pa.Table) -> pa.Array:
        """Which rows of a history table are seen: the same as `sql`, over some rows that are read already.

        Args:
            rows: with the columns `SEEN_BY`; `system_time` may be missing where no partition has a time.
        """
        mask = pa.repeat(pa.scalar(False), rows.num_rows)
        for partition, below in self.below.items():
            here = pc.and_(pc.equal(rows["journal_partition"], partition), pc.less(rows["logical_timestamp"], below))
            until = self.until_ms.get(partition)
            if until is not None:
                last = pa.scalar(max(-_FARTHEST, min(until * 1000, _FARTHEST)), TIMESTAMP)
                here = pc.and_(here, pc.less_equal(rows["system_time"], last))
            mask = pc.or_(mask, here)
        return mask

    def to_json(self) -> list[list[int | None]]:
        """Partition, next position and time of each partition."""
        return [[partition, below, self.until_ms.get(partition)] for partition, below in sorted(self.below.items())]

    @classmethod
    def from_json(cls, topic: str, bounds: Any, final: bool) -> Bounds:
        """The bounds of `to_json`. Raises: ValueError, TypeError: it is something else."""
        below, until = {}, {}
        if not isinstance(bounds, list) or not bounds:
            raise ValueError("bounds are of one partition at least")
        for partition, position, limit in bounds:
            numbers = (partition, position) if limit is None else (partition, position, limit)
            if not all(type(number) is int and 0 <= number <= MAX_LONG for number in numbers):
                raise ValueError("a bound is not a number, or too large")
            below[partition] = position
            if limit is not None:
                until[partition] = limit
        return cls(topic, below, until, final)


class Cuts:
    """Finds bounds in a view of the lake.

    Args:
        journal: the view's journal table.
        names: topic names.
        partitions: number of partitions per journal topic.
    """

    def __init__(self, journal: MarkedView, names: TopicNames, partitions: Mapping[str, int] | int) -> None:
        self._journal = journal
        self._names = names
        self._partitions = partitions

    def bounds(self, domain: str, point: At | None = None) -> Bounds:
        """What a reading of a domain sees now, or as at a point.

        Args:
            domain: a served domain.
            point: see `At`; None: all that the lake holds.
        Raises:
            NotFinalError: the lake has not reached that position, or the time is in the future.
            InvalidPositionError: it is not a position of this journal.
            InputError: it is none of what `At` says.
        """
        topic = self._names.journal(domain)
        marks = {partition: self._journal.mark((topic, partition)) for partition in range(self._count(topic))}
        if point is None:
            return Bounds(topic, marks, {}, False)
        if isinstance(point, Position):
            point = cut_of([point])
        if isinstance(point, Mapping):
            return self._at_cut(topic, marks, point)
        if not isinstance(point, int) or isinstance(point, bool):
            raise InputError(
                f"{point!r:.80} is not a position, cut or time.", hint="Give a Position or milliseconds UTC."
            )
        bounds = self._until(topic, marks, marks, point)
        if not bounds.final and point > time.time() * 1000:
            raise to_come(point, Position(topic, 0, marks[0]))
        return bounds

    def check(self, bounds: Bounds) -> None:
        """Refuse bounds that the lake has not reached (or that have other partitions). Raises: NotFinalError."""
        for partition, below in bounds.below.items():
            if partition >= self._count(bounds.topic) or below > self._reached(bounds.topic, partition):
                raise self._not_final(Position(bounds.topic, partition, below))

    def _at_cut(self, topic: str, marks: Mapping[int, int], cut: Cut) -> Bounds:
        if not cut:
            raise InputError("The cut is empty.", hint="Give a position for at least one partition.")
        times = [self._time_below(Position(*key, value)) for key, value in cut.items()]
        named = {partition: value for (named_topic, partition), value in cut.items() if named_topic == topic}
        rest = {partition: mark for partition, mark in marks.items() if partition not in named}
        return self._until(topic, {**marks, **named}, rest, max(times))

    def _until(self, topic: str, below: Mapping[int, int], timed: Mapping[int, int], time_ms: int) -> Bounds:
        """Bounds with a time for some of the partitions; final once the log has passed it in each of them."""
        passed = [self._journal.clock((topic, partition)) > time_ms for partition in timed]
        return Bounds(topic, below, dict.fromkeys(timed, time_ms), all(passed))

    def _reached(self, topic: str, partition: int) -> int:
        """The mark of a partition; where nothing was ever written, the beginning of all of them: it lacks nothing."""
        return max(BEGIN, self._journal.mark((topic, partition)))

    def _is_journal(self, topic: str) -> bool:
        if isinstance(self._partitions, int):
            return topic in map(self._names.journal, served_domains())
        return topic in self._partitions

    def _time_below(self, position: Position) -> int:
        """The running system_time in front of a next position, milliseconds UTC; 0 before the first record."""
        if not self._is_journal(position.topic) or not 0 <= position.partition < self._count(position.topic):
            raise InvalidPositionError(f"{position} is not a position of this journal.", text=str(position))
        if position.value > self._reached(position.topic, position.partition):
            raise self._not_final(position)
        return time_below(self._journal, position)

    def _not_final(self, position: Position) -> NotFinalError:
        mark = (
            self._journal.mark((position.topic, position.partition))
            if position.partition < self._count(position.topic)
            else 0
        )
        return NotFinalError(
            f"That point is not final yet: the lake contains {position.topic}/{position.partition} below {mark}.",
            hint="Ask again when the stream has passed it (`metajournal status` shows how far it is).",
            held_to=str(Position(position.topic, position.partition, mark)),
        )

    def _count(self, topic: str) -> int:
        return self._partitions if isinstance(self._partitions, int) else self._partitions[topic]


def time_below(journal: MarkedView, position: Position) -> int:
    """The running system_time in front of a next position, milliseconds UTC; 0 before the first record.

    It never falls within a partition, so it is the greatest below. Of the files those are read that can hold the last
    row: not those that end where another one is known to go on.
    """
    paths = _last_below(journal, position)
    if not paths:
        return 0
    with scan.cursor() as cursor:
        rows = cursor.sql(
            f"select epoch_ms(max(system_time)) from {scan.source(cursor, journal, paths)} where topic = "
            f"{quoted(position.topic)} and journal_partition = {int(position.partition)} "
            f"and logical_timestamp < {int(position.value)}"
        ).fetchall()
    return int(rows[0][0] or 0)


def _last_below(journal: MarkedView, position: Position) -> list[str]:
    """The files that can hold the last row of a partition below a position."""
    possible, reached = [], 0
    for file in journal.listed:
        least, most = file.get("min.logical_timestamp"), file.get("max.logical_timestamp")
        bounds = [(file.get(f"min.{name}"), file.get(f"max.{name}")) for name in ("topic", "journal_partition")]
        values = (position.topic, position.partition)
        if (least is not None and least >= position.value) or not all(map(_spans, bounds, values)):
            continue
        possible.append((file["path"], most))
        if least is not None and most is not None and all(map(_is_only, bounds, values)):
            reached = max(reached, most if most < position.value else least)
    return [path for path, most in possible if most is None or most >= reached]


def _spans(bounds: tuple[Any, Any], value: Any) -> bool:
    """Whether a value can lie between two bounds; one that is missing is open."""
    return (bounds[0] is None or bounds[0] <= value) and (bounds[1] is None or bounds[1] >= value)


def _is_only(bounds: tuple[Any, Any], value: Any) -> bool:
    return bounds == (value, value)


def to_come(at_ms: int, held_to: Position, urn: Urn | None = None) -> NotFinalError:
    """The error of a time that has not passed.

    Args:
        at_ms: the time, milliseconds UTC.
        held_to: how far the lake holds a partition of what was asked about.
        urn: what was asked about, where that is one thing.
    """
    what = "the answer" if urn is None else f"{urn}"
    return NotFinalError(
        f"{_shown_ms(at_ms)} is in the future, so {what} cannot be known yet.",
        code="not-final",
        hint="Ask for a past time, or omit it for the current state.",
        urn=None if urn is None else str(urn),
        held_to=str(held_to),
    )


def time_text(time_ms: int) -> str:
    """A time in UTC to the millisecond."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown_ms(at_ms: int) -> str:
    try:
        return time_text(at_ms)
    except (OverflowError, ValueError, OSError):  # beyond the year 9999
        return f"The time {at_ms} (milliseconds since 1970)"
