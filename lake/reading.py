"""Reading entities from the lake without Spark: current, AS AT a point, AS OF a time, and the whole history.

Every read is cut at the journal table's marks, so a reader never sees rows of a batch that the stream has not
finished, whatever state a crash left the tables in. An answer says from which position it speaks and whether it is
final, so that "not there yet" is never mistaken for "nothing found".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from ..rules.admission import EARLIEST_MS, LATEST_MS
from ..rules.entity import EntityRow
from ..schemas.errors import (
    InputError,
    InvalidPositionError,
    NotFinalError,
    NotYetVisibleError,
    UnavailableError,
    UnknownEntityError,
)
from ..schemas.hashing import partition_of
from ..schemas.kinds import kind_advice, kinds_from_outside
from ..schemas.positions import BEGIN, Cut, Position, behind, behind_text, cut_of
from ..schemas.registry import owner_of_undeclared, served_domains
from ..schemas.times import time_shown
from ..schemas.topics import TopicNames
from ..schemas.urn import Urn
from .as_of import rows_as_of, tables_of
from .columns import ENTITIES_TABLE
from .cuts import At, time_below, time_text, to_come
from .entities import rows_from_arrow
from .lookup import rows_of_key
from .queries import KEPT_BYTES, Queries
from .table import quoted
from .tables import Lake
from .views.table import MarkedView, PartitionKey
from .views.views import View, Views, asked_anew, views_of, whole_view

Q = TypeVar("Q", bound=Queries)
_T = TypeVar("_T")
POLL_S = 0.02
"""Seconds between two looks at the lake by who waits for it."""


@dataclass(frozen=True)
class Answer:
    """What the lake contains about one entity.

    Attributes:
        urn: the entity.
        row: its row, or None where it did not exist at that point.
        held_to: the lake contains its journal partition up to (not including) this position.
        final: no event that arrives later can change this answer.
    """

    urn: Urn
    row: EntityRow | None
    held_to: Position
    final: bool


class _Seen(NamedTuple):
    """What is seen of an entity's history: below `below` (next position), and by a time where there is one."""

    view: View
    key: PartitionKey
    mark: int
    below: int
    until_ms: int | None
    final: bool

    @property
    def held_to(self) -> Position:
        return Position(*self.key, self.mark)

    def sql(self) -> str:
        until = "" if self.until_ms is None else f" and epoch_us(system_time) <= {self.until_ms * 1000}"
        return f"logical_timestamp < {self.below}{until}"


class LakeReader:
    """Look-ups of entities; each reads the few files and row groups that can hold the key.

    Args:
        lake: where the tables are, or the views of it that other readers share.
        names: topic names, to find an entity's journal partition.
        partitions: number of partitions per journal topic.
        firsts: of the topics of domains that took kinds over, the position below which rows of their entities are those
            of the topic of before; all of these were judged when the domain was added.
        kept_bytes: what the questions of a domain may keep of the lake in memory.
        short_cursors: whether cursors get short names, which this machine keeps.
    """

    def __init__(
        self,
        lake: Lake | Views,
        names: TopicNames,
        partitions: Mapping[str, int] | int,
        *,
        firsts: Mapping[str, int] | None = None,
        kept_bytes: int = KEPT_BYTES,
        short_cursors: bool = True,
    ) -> None:
        self.kept_bytes = kept_bytes
        self._short_cursors = short_cursors
        self.views = views_of(lake)
        self._names = names
        self._partitions = partitions
        self._firsts = firsts or {}

    def beside(self, queries: Callable[[Views, TopicNames, Mapping[str, int] | int], Q]) -> Q:
        """The queries of a domain over the same lake."""
        made = queries(self.views, self._names, self._partitions)
        if not self._short_cursors:
            made.keep_cursors_whole()
        return made

    @asked_anew
    def current(self, tenant: str, urn: Urn) -> Answer:
        """The newest row of an entity at the lake's marks.

        Raises:
            UnknownEntityError: the entity has no live row; `held_to` in its data says how far the lake has looked.
        """
        return self.live(self._newest(tenant, urn, self._seen_at(self._view(), tenant, urn, None)))

    @asked_anew
    def as_at(self, tenant: str, urn: Urn, point: At, *, final_only: bool = False) -> Answer:
        """The entity as the log told it at a position of its partition, or at a system_time in milliseconds UTC.

        Args:
            point: see `cuts.At`. Where a cut does not name the entity's partition, that stands at the latest of the
                times of what the cut holds.
            final_only: refuse an answer that an event still to come could change.
        Raises:
            UnknownEntityError: it did not exist then; the message says since when it does.
            NotFinalError: the lake has not passed that point (a position), the time is still to come, or `final_only`
                and it is not final.
        """
        view = self._view()
        seen = self._seen_at(view, tenant, urn, point)
        answer = self._newest(tenant, urn, seen)
        if final_only and not answer.final:
            raise _not_final(urn, answer.held_to)
        if answer.row is None or answer.row.deleted:
            raise self._unknown_then(view, tenant, answer, point)
        return answer

    @asked_anew
    def as_of(self, tenant: str, urn: Urn, as_of_ms: int, point: At | None = None) -> Answer:
        """The entity as its events up to a time make it, in the order of their own times (see `as_of`).

        Args:
            as_of_ms: the time, milliseconds UTC.
            point: only events that the journal had at that point; see `as_at`.
        Raises:
            UnknownEntityError: it did not exist then.
            InputError: the time is none of the years 1 to 9999.
            NotFinalError: as `as_at`.
            OperatorError: as `as_of.rows_as_of`.
        """
        seen, rows = self._rows_as_of(tenant, urn, as_of_ms, point)
        if not rows or rows[-1].deleted:
            raise self._unknown_as_of(tenant, urn, as_of_ms, seen, rows)
        return Answer(urn, rows[-1], seen.held_to, point is not None and seen.final)

    @asked_anew
    def history_as_of(
        self, tenant: str, urn: Urn, as_of_ms: int, *, limit: int | None = None, before: int | None = None
    ) -> list[EntityRow]:
        """The rows that an entity's events up to a time make, in the order in which they took effect.

        Args:
            limit: so many of the last ones; None: all.
            before: only rows in front of the one with this logical timestamp, which need not ascend here.
        Raises:
            UnknownEntityError: no event speaks of it by then.
            InputError: none of the rows has that logical timestamp. Else as `as_of`.
        """
        seen, rows = self._rows_as_of(tenant, urn, as_of_ms, None)
        if not rows:
            raise self._unknown_as_of(tenant, urn, as_of_ms, seen, rows)
        if before is not None:
            rows = rows[: _place_of(rows, before)]
        return rows if limit is None else rows[-limit:]

    def _rows_as_of(self, tenant: str, urn: Urn, as_of_ms: int, point: At | None) -> tuple[_Seen, list[EntityRow]]:
        _check_time(as_of_ms)
        view = self._view(tables_of(urn))
        seen = self._seen_at(view, tenant, urn, point)
        # Rows of when another topic took its kind's events have no place among the events of this one.
        own = f" and domain = {quoted(urn.domain)}" if urn.kind in kinds_from_outside() else ""
        return seen, rows_as_of(view, seen.key, tenant, urn, seen.sql() + own, as_of_ms)

    def _unknown_as_of(
        self, tenant: str, urn: Urn, as_of_ms: int, seen: _Seen, rows: Sequence[EntityRow]
    ) -> UnknownEntityError:
        """Why an entity was not there as of a time: not by then, or deleted by then; or there is none at all."""
        seen_rows = f"logical_timestamp < {seen.mark} order by event_time limit 1"
        first = [] if rows else self._rows(seen.view, tenant, urn, seen_rows)
        if not rows and not first:
            return unknown_entity(urn, seen.held_to)
        if rows:
            why = f"it was deleted at {time_text(rows[-1].event_time)}"
        elif first[0].event_time <= as_of_ms:
            why = "it was not registered by then, and what was said of it before counts from its registration on"
        else:
            why = "there is no accepted event about it by then"
        return UnknownEntityError(
            str(urn),
            f"There was no {urn} as of {time_shown(as_of_ms)}: {why}.",
            code="unknown-then",
            hint=f"Ask as of another time; `metajournal history {urn} --json` shows the event time of every change.",
            held_to=str(seen.held_to),
        )

    def _unknown_then(self, view: View, tenant: str, answer: Answer, point: At) -> UnknownEntityError:
        """Why an entity was not there at a point: never yet, or deleted before it; or there is none at all.

        A time is told as it was read, and the journal's word with its position: a logical timestamp alone is taken for
        milliseconds, and would lead back here.
        """
        then, held_to = f"at {time_shown(point)}" if isinstance(point, int) else "then", answer.held_to
        if answer.row is not None:
            text = f"There was no {answer.urn} {then}: it was deleted at {_placed(answer.row, held_to)}."
        else:
            below = f"logical_timestamp < {answer.held_to.value}"
            rows = self._rows(view, tenant, answer.urn, f"{below} order by logical_timestamp, seq limit 1")
            if not rows:
                return unknown_entity(answer.urn, answer.held_to, final=answer.final)
            text = (
                f"There was no {answer.urn} {then}: the journal's first event about it is of "
                f"{_placed(rows[0], held_to)}."
            )
        return UnknownEntityError(
            str(answer.urn),
            text,
            code="unknown-then",
            hint=f"Ask for another point; `metajournal history {answer.urn}` lists all its changes. A position is "
            "TOPIC/PARTITION/VALUE; a number alone is a time.",
            held_to=str(answer.held_to),
            final=answer.final,
        )

    @asked_anew
    def history(self, tenant: str, urn: Urn, *, limit: int | None = None, before: int | None = None) -> list[EntityRow]:
        """Rows of an entity, oldest first.

        Args:
            limit: at most this many of the newest; None: all.
            before: only rows below this logical timestamp; that of a page's first row gives the page before it.
        Raises:
            UnknownEntityError: the lake holds no row of it.
        """
        view = self._view()
        key, mark = self._key_and_mark(view, tenant, urn)
        below = mark if before is None else min(mark, before)
        rows = self._newest_rows(view, tenant, urn, below, limit)
        if not rows and (below == mark or not self._newest_rows(view, tenant, urn, mark, 1)):
            raise unknown_entity(urn, Position(*key, mark))
        return rows[::-1]

    def place(self, tenant: str, urn: Urn) -> tuple[str, int]:
        """The journal topic and partition that an entity's events stand in."""
        topic = self._names.journal(urn.domain)
        return topic, partition_of(f"{tenant}/{urn.aggregate}".encode(), self._count(topic))

    def position_of(self, row: EntityRow) -> Position:
        """Where the event stands that made a row; of a kind that was taken over maybe in the topic of before."""
        topic = self._names.journal(Urn(row.urn).domain)
        if row.logical_timestamp < self._firsts.get(topic, 0):
            topic = self._names.journal(owner_of_undeclared())
        partition = partition_of(f"{row.tenant}/{row.aggregate}".encode(), self._count(topic))
        return Position(topic, partition, row.logical_timestamp)

    def _newest_rows(self, view: View, tenant: str, urn: Urn, below: int, limit: int | None) -> list[EntityRow]:
        most = "" if limit is None else f" limit {int(limit)}"
        return self._rows(
            view, tenant, urn, f"logical_timestamp < {int(below)} order by logical_timestamp desc, seq desc{most}"
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
        self.check_cut(wanted)
        while True:
            late = time.monotonic() >= end
            try:
                self.check_held(self.views.take(()).journal, wanted, timeout_s)
                return
            except (NotYetVisibleError, UnavailableError):
                if late:
                    raise
            time.sleep(POLL_S)

    def check_cut(self, wanted: Cut) -> None:
        """Raises: InvalidPositionError: a cut names a partition that is none of this journal."""
        for topic, partition in wanted:
            if not self._is_journal(topic) or not 0 <= partition < self._count(topic):
                raise InvalidPositionError(f"This journal has no {topic}/{partition}.", text=f"{topic}/{partition}")

    @staticmethod
    def check_held(journal: MarkedView, wanted: Cut, waited_s: float) -> None:
        """Raises: NotYetVisibleError: the journal table does not hold everything below some positions."""
        marks = {key: journal.mark(key) for key in wanted}
        lacking = behind({key: mark for key, mark in marks.items() if mark}, wanted)
        if lacking:
            text = f"The lake is behind the requested position after {waited_s:.3g} s: {behind_text(lacking)}"
            raise NotYetVisibleError(lacking, f"{text} positions.")

    @asked_anew
    def of_all_tables(self, ask: Callable[[View | None], _T]) -> _T:
        """What a question answers to a view of all tables; None where nothing was written yet."""
        return ask(whole_view(self.views))

    def _seen_at(self, view: View, tenant: str, urn: Urn, point: At | None) -> _Seen:
        """What is seen of an entity now, or as at a point. Raises: as `as_at`."""
        key, mark = self._key_and_mark(view, tenant, urn)
        if point is None:
            return _Seen(view, key, mark, mark, None, False)
        if isinstance(point, int):
            final = view.journal.clock(key) > point
            if not final and point > time.time() * 1000:
                raise to_come(point, Position(*key, mark), urn)
            return _Seen(view, key, mark, mark, point, final)
        cut = cut_of([point]) if isinstance(point, Position) else point
        self._check_reached(view, urn, cut)
        if key in cut:
            return _Seen(view, key, mark, cut[key], None, True)
        until_ms = max(time_below(view.journal, Position(*key, below)) for key, below in cut.items())
        return _Seen(view, key, mark, mark, until_ms, view.journal.clock(key) > until_ms)

    def _check_reached(self, view: View, urn: Urn, cut: Cut) -> None:
        """Refuse a cut that names no partition of the journal, or that the lake has not reached."""
        for (topic, partition), below in cut.items():
            if not self._is_journal(topic) or not 0 <= partition < self._count(topic):
                raise InvalidPositionError(f"This journal has no {topic}/{partition}.", text=f"{topic}/{partition}")
            mark = view.journal.mark((topic, partition))
            if below > max(mark, BEGIN):
                raise _not_final(urn, Position(topic, partition, mark))

    def _newest(self, tenant: str, urn: Urn, seen: _Seen) -> Answer:
        rows = self._rows(seen.view, tenant, urn, f"{seen.sql()} order by logical_timestamp desc, seq desc limit 1")
        return Answer(urn, rows[0] if rows else None, seen.held_to, seen.final)

    def _key_and_mark(self, view: View, tenant: str, urn: Urn) -> tuple[PartitionKey, int]:
        """The journal partition of an entity and the journal table's mark there."""
        key = self.place(tenant, urn)
        return key, max(view.journal.mark(key), self._firsts.get(key[0], 0))

    def _view(self, names: Sequence[str] = ()) -> View:
        """What a question about an entity reads, with further tables. Raises: UnavailableError: there is no lake."""
        return self.views.take((ENTITIES_TABLE, *names))

    def _is_journal(self, topic: str) -> bool:
        if isinstance(self._partitions, int):
            return topic in map(self._names.journal, served_domains())
        return topic in self._partitions

    def _count(self, topic: str) -> int:
        """Number of partitions of a journal topic."""
        return self._partitions if isinstance(self._partitions, int) else self._partitions[topic]

    def _rows(self, view: View, tenant: str, urn: Urn, rest: str) -> list[EntityRow]:
        rows = rows_of_key(view.tables[ENTITIES_TABLE], {"tenant": tenant, "urn": str(urn)}, f"and {rest}")
        return rows_from_arrow(rows)

    @staticmethod
    def live(answer: Answer) -> Answer:
        """An answer, if its entity is there. Raises: UnknownEntityError."""
        if answer.row is None or answer.row.deleted:
            raise unknown_entity(answer.urn, answer.held_to, answer.row)
        return answer


def _shown(row: EntityRow) -> str:
    """When a row was written, and its logical timestamp."""
    return f"{time_text(row.system_time)} (logical timestamp {row.logical_timestamp})"


def _placed(row: EntityRow, held_to: Position) -> str:
    """When a row was written, and its position."""
    return f"{time_text(row.system_time)} (position {replace(held_to, value=row.logical_timestamp)})"


def unknown_entity(
    urn: Urn, held_to: Position, gone: EntityRow | None = None, *, final: bool = False
) -> UnknownEntityError:
    """The error of an entity that is not there.

    Args:
        held_to: the position up to which events were looked at.
        gone: its row, where it was deleted.
        final: whether no event to come can change that.
    """
    if gone is not None:
        text = f"The entity {urn} no longer exists: it was deleted at {_shown(gone)}."
        return UnknownEntityError(
            str(urn),
            text,
            hint="Ask for an earlier time with as_at (`--as-at TIME`), or register it again.",
            held_to=str(held_to),
            deleted_at=gone.system_time,
        )
    return UnknownEntityError(
        str(urn),
        hint=f"{kind_advice(urn.kind)}Check the spelling with `metajournal search`; if it was just emitted, pass its "
        "position as at_least (`--at-least POSITION`).",
        held_to=str(held_to),
        final=final,
    )


def _place_of(rows: Sequence[EntityRow], before: int) -> int:
    """Where the row of a logical timestamp stands. Raises: InputError: none has it."""
    for place, row in enumerate(rows):
        if row.logical_timestamp == before:
            return place
    raise InputError(
        f"No change up to that time has the logical timestamp {before}.",
        code="no-such-change",
        hint="With as_of, `before` is the logical timestamp of the first row of a page, and returns the page before "
        "it.",
    )


def _check_time(as_of_ms: int) -> None:
    if type(as_of_ms) is not int or not EARLIEST_MS <= as_of_ms <= LATEST_MS:
        raise InputError(
            f"as_of must be a time of the years 1 to 9999, not {as_of_ms!r:.60}.",
            code="wrong-type",
            hint="Give an aware datetime, its text with a zone, or milliseconds since 1970.",
            argument="as_of",
        )


def _not_final(urn: Urn | None, held_to: Position) -> NotFinalError:
    """The error of a point that the lake has not passed."""
    return NotFinalError(
        f"That point is not final yet: the lake contains {held_to.topic}/{held_to.partition} below {held_to.value}.",
        code="not-final",
        hint="Ask again when the stream has passed it (`metajournal status` shows how far it is).",
        urn=None if urn is None else str(urn),
        held_to=str(held_to),
    )
