"""Rows of other tables than `entities` that an aggregate's events made: what the follower keeps of them.

Rows that rules read are few, and all of them are kept. Of tables that no rule reads there may be a thousand rows for
one event, so the number that is kept is bounded: the oldest events' rows are dropped, and `begin` says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ..schemas.positions import Position

MOST_UNREAD: Final = 50_000
"""Most rows of an aggregate that are kept of tables that no rule reads."""
_position_of: Final = attrgetter("logical_timestamp")


class AggregateRows(NamedTuple):
    """The rows that an aggregate's newest events made, besides those of `entities`.

    Attributes:
        begin: the rows of every event at or above this position's value are here; those below it stand in the lake, as
            soon as it holds everything below it.
        end: everything below this position is included.
        rows: for each table that was asked for the rows in the order of their events; a table without rows is missing.
            Of a key that several rows have, the last one counts.
    """

    begin: int
    end: Position
    rows: Mapping[str, list[Any]]


class KeptFacts:
    """The rows of one aggregate.

    Args:
        begin: position at and above which all of its events are taken in.
        most_unread: see MOST_UNREAD.
    """

    def __init__(self, begin: int, most_unread: int = MOST_UNREAD) -> None:
        self._begin = begin
        self._most_unread = most_unread
        self._read: dict[str, list[Any]] = {}
        self._unread: dict[str, list[Any]] = {}
        self._unread_begin = begin
        self._unread_events: deque[tuple[int, int]] = deque()
        """Position of each event that made rows which no rule reads, and how many."""
        self._unread_rows = 0

    def add(self, read: Mapping[str, Iterable[Any]], unread: Mapping[str, Iterable[Any]]) -> None:
        """Take in the rows of events above all those before.

        Args:
            read: rows of tables that rules read, in the order of their events, by table.
            unread: the same of tables that no rule reads.
        """
        for table, rows in read.items():
            self._read.setdefault(table, []).extend(rows)
        counts: dict[int, int] = defaultdict(int)
        for table, rows in unread.items():
            kept = self._unread.setdefault(table, [])
            before = len(kept)
            kept.extend(rows)
            for row in kept[before:]:
                counts[row.logical_timestamp] += 1
        self._unread_events.extend(sorted(counts.items()))
        self._unread_rows += sum(counts.values())
        if self._unread_rows > self._most_unread:
            self._drop()

    def _drop(self) -> None:
        """Drop whole events, the oldest first, until few enough rows are left."""
        while self._unread_rows > self._most_unread:
            value, number = self._unread_events.popleft()
            self._unread_rows -= number
            self._unread_begin = value + 1
        for rows in self._unread.values():
            del rows[: bisect_left(rows, self._unread_begin, key=_position_of)]

    def of(self, tables: Collection[str] | None) -> tuple[int, dict[str, list[Any]]]:
        """Copies of the rows of some tables, of all where None; and the position from which on they are complete."""
        asked = {
            table: [*rows]
            for kept in (self._read, self._unread)
            for table, rows in kept.items()
            if rows and (tables is None or table in tables)
        }
        whole = tables is not None and not self._unread.keys() & {*tables}
        return self._begin if whole else self._unread_begin, asked
