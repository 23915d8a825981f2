"""Runs of events that are folded in columns and of all others, behind each other, in the order of the log.

A domain says which of its events are *plain*: surely valid, accepted, and nobody's second copy as far as they say; and
what such events give as columns. Here is what is the same for every domain: records are looked at in parts, runs of
consecutive plain events and runs of others follow each other, copies of marked events go one by one, and each way sees
what the other has made before. So nothing is merged, and where in doubt an event is not plain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from ..lake.columns import JOURNAL_TABLE
from ..schemas.encoding.codec import decode_header_only
from ..schemas.errors import NotSingleObject, Undecodable
from ..schemas.positions import position
from ..schemas.topics import TopicNames
from .documents import DocumentColumns, Documents
from .folded import Folded, IdKey, Judged, KeyOfFact, Prior
from .journal import journal_table
from .prior import PriorRows
from .readings import Readings
from .records import Place, Record, records_of
from .repeats import ids_of
from .steps import FoldRequest, Lap, Made, MadeOfRows, RowFolder, Share, bits


class PlainEvents(Protocol):
    """Plain events that stand behind each other, with what they give."""

    @property
    def judged(self) -> Sequence[Judged]:
        """Each event, accepted."""

    @property
    def newest_facts(self) -> Mapping[KeyOfFact, Any]:
        """The newest row that they make of each key of a table that rules read."""

    def only(self, begin: int, end: int) -> Self:
        """Some of the events."""

    def rows(self, table: str) -> pa.Table | None:
        """The rows that they add to a history table, in the order of the log; None for none."""

    def named(self) -> pa.Array | None:
        """The entities that each names, as the journal table has them; None: as their headers say."""

    def documents(self, tables: Mapping[str, pa.Table], names: TopicNames) -> Iterable[DocumentColumns]:
        """What is published of them.

        Args:
            tables: what `rows` gave.
        """


E = TypeVar("E", bound=PlainEvents)


class Candidate(NamedTuple, Generic[E]):
    """Events of some records that look plain, and the numbers of their records among those of a share."""

    numbers: list[int]
    events: E


class RunFolder(Generic[E]):
    """Folds the records of one journal partition: plain events in columns, all others one by one.

    A domain's folder is based on it, and says which events are plain (`candidates`), in what parts they are looked for
    (`parts`), and which of them others spoil (`spoiled`, `settled`, `others_come`).
    """

    def __init__(self, request: FoldRequest, prior: PriorRows) -> None:
        self.request = request
        self.known = prior
        self._others = RowFolder(prior)
        self._held = max(request.marks.values(), default=0)

    # What a domain says.

    def parts(self, share: Share) -> Iterator[Share]:
        """The parts of a share in which plain events are looked for: each when the one before it is folded."""
        yield share

    def candidates(
        self, records: Sequence[Record], system_times: Sequence[int], place: Place, first: int
    ) -> Iterable[Candidate[E]]:
        """The events among some records that look plain.

        Args:
            records: some records of a partition, behind each other.
            system_times: that of each.
            first: number of the first of them.
        """
        raise NotImplementedError

    def spoiled(self, share: Share, found: Sequence[Candidate[E]], others: pa.ChunkedArray) -> Collection[int]:
        """Numbers of those records of a part that have to go one by one, besides copies.

        Args:
            others: values of the records that are no candidates.
        """
        return ()

    def settled(self, events: E) -> E:
        """Those of the first of some events that can be folded in columns now, all before them being folded."""
        return events

    def others_come(self, values: pa.ChunkedArray) -> None:
        """Records of these values are about to be folded one by one."""

    # What is the same for all: see `fold.steps.Folder`.

    def pieces(self, share: Share, lap: Lap) -> Iterator[Share]:
        system_time = share.system_time
        for part in self.parts(share):
            found, system_time = self._found(part._replace(system_time=system_time))
            lap("read")
            left_out = self._left_out(part, found)
            lap("prior")
            yield from self._runs(part, found, left_out, lap)

    def _found(self, share: Share) -> tuple[list[Candidate[E]], int]:
        """The events that look plain, in bits; and the system_time behind the share."""
        system_time, first, found = share.system_time, 0, list[Candidate[E]]()
        for bit in bits(share):
            records = list(records_of(bit.records, share.epoch))
            _, *times = accumulate((record.append_time for record in records), max, initial=system_time)
            found += self.candidates(records, times, share.place, first)
            system_time, first = times[-1], first + len(records)
        return found, system_time

    def _left_out(self, share: Share, found: Sequence[Candidate[E]]) -> Collection[int]:
        """Numbers of the candidates' records that go one by one all the same."""
        numbers = np.array([number for candidate in found for number in candidate.numbers], np.int64)
        if not len(numbers):
            return ()
        if position(share.epoch, share.records["offset"][0].as_py()) < self._held:
            return frozenset(numbers.tolist())  # a table has some of their rows already
        others = share.records["value"].take(pa.array(np.delete(np.arange(share.records.num_rows), numbers)))
        return {*self._copies(share, found, numbers, others), *self.spoiled(share, found, others)}

    def _copies(
        self, share: Share, found: Sequence[Candidate[E]], numbers: Any, others: pa.ChunkedArray
    ) -> Iterator[int]:
        """Numbers of the candidates' records that may be copies of events that were marked `repeat`."""
        marked = marked_in(others)
        identities = [identity_of(judged) for candidate in found for judged in candidate.events.judged]
        if marked:
            yield from (number for number, one in zip(numbers.tolist(), identities, strict=True) if one in marked)
        repeats = self.known.repeats(share.place, self.request.start)
        yield from numbers[repeats.hits(ids_of([event_id for _, _, event_id in identities]))].tolist()

    def _runs(
        self, share: Share, found: Sequence[Candidate[E]], left_out: Collection[int], lap: Lap
    ) -> Iterator[Share]:
        """Runs of plain events and of others, each looked for once the one before it is folded."""
        behind = 0
        for number, events in runs(found, left_out):
            first, rest = number, events
            while rest.judged:
                if behind < first:
                    yield from self._pieces_of_others(share.cut(behind, first), lap)
                    behind = first
                taken = self.settled(rest)
                count = len(taken.judged)
                if count:
                    behind = first + count
                    yield share.cut(first, behind)._replace(known=taken)
                first += max(1, count)
                rest = rest.only(max(1, count), len(rest.judged))
        if behind < share.records.num_rows:
            yield from self._pieces_of_others(share.cut(behind, share.records.num_rows), lap)

    def _pieces_of_others(self, share: Share, lap: Lap) -> Iterator[Share]:
        self.others_come(share.records["value"])
        yield from self._others.pieces(share, lap)

    def read(self, share: Share) -> E | Readings:
        plain: E | None = share.known
        return self._others.read(share) if plain is None else plain

    def prior(self, read: Sequence[E | Readings]) -> list[Prior | None]:
        return [self._others.prior([one])[0] if isinstance(one, Readings) else None for one in read]

    def fold(self, share: Share, read: E | Readings, prior: Prior | None) -> Made:
        if not isinstance(read, Readings):
            return MadeInColumns(read, share)
        assert prior is not None  # `prior` says so
        return self._others.fold(share, read, prior)

    def advance(self, made: Made) -> None:
        self.known.advance([made.folded])


class MadeInColumns(Generic[E]):
    """What plain events gave: each is accepted, and above the mark of every table."""

    def __init__(self, events: E, share: Share) -> None:
        self.events = events
        judged = list(events.judged)
        self.folded = Folded(
            share.place, share.start, share.end, judged[-1].system_time, judged,
            current_facts=dict(events.newest_facts), columns=share.records,
        )  # fmt: skip

    @property
    def verdicts(self) -> Counter[str]:
        return MadeOfRows(self.folded).verdicts

    @property
    def oldest_ms(self) -> int | None:
        return MadeOfRows(self.folded).oldest_ms

    def rows(self, table: str, mark: int) -> pa.Table | None:
        if table != JOURNAL_TABLE:
            return self.events.rows(table)
        journal, named = journal_table(self.folded), self.events.named()
        if named is None:
            return journal
        column = journal.column_names.index("entities")
        return journal.set_column(column, journal.schema.field(column), named)

    def blocks(self, names: TopicNames, tables: Mapping[str, pa.Table]) -> Iterable[Documents | DocumentColumns]:
        return self.events.documents(tables, names)

    def with_spoken(self) -> Folded:
        return self.folded

    def differing(self, outcomes: pa.ChunkedArray) -> list[int]:
        return MadeOfRows(self.folded).differing(outcomes)


def runs(found: Iterable[Candidate[E]], left_out: Collection[int]) -> Iterator[tuple[int, E]]:
    """The events of candidates in runs of consecutive records, in order, with the number of each run's first record.

    Args:
        left_out: numbers of records that are in no run.
    """
    cuts = [cut for candidate in found for cut in _runs_of(candidate, left_out)]
    for number, begin, end, events in sorted(cuts, key=lambda cut: cut[0]):
        yield number, events.only(begin, end)


def _runs_of(candidate: Candidate[E], left_out: Collection[int]) -> Iterator[tuple[int, int, int, E]]:
    """First record, begin and end of each run of one candidate's events."""
    numbers, events = candidate
    begin = 0
    for following, number in enumerate(numbers, 1):
        goes_on = (
            following < len(numbers)
            and numbers[following] == number + 1
            and (number in left_out) == (number + 1 in left_out)
        )
        if not goes_on:
            if number not in left_out:
                yield numbers[begin], begin, following, events
            begin = following


def identity_of(judged: Judged) -> IdKey:
    """The identity of a record that is an event."""
    assert judged.header is not None
    return judged.header.tenant, judged.header.aggregate, judged.header.event_id


def marked_in(values: pa.ChunkedArray) -> set[IdKey]:
    """The identities of those records that are marked `repeat`."""
    marked: set[IdKey] = set()
    for value in values.drop_null().to_pylist():
        with suppress(NotSingleObject, Undecodable):
            header = decode_header_only(value)
            if header.repeat:
                marked.add((header.tenant, header.aggregate, header.event_id))
    return marked
