"""A batch's steps 1 to 3, and what follows from them to be written: one spelling for whoever folds.

    1 read     records of one journal partition, in position order
    2 prior    what stood before them
    3 fold     each judged in its order; then what it makes: rows of tables, records to publish, verdicts

The stream's short way, its tasks, a rebuild, `verify` and the follower all go through `fold_shares`. How records are
judged is a `Folder`'s matter: one by one here (`RowFolder`), in columns where a domain's file `columns.folder` has one
for what is asked. Where rows and records go, and when they count, is the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from ..lake.columns import ENTITIES_TABLE, JOURNAL_TABLE
from ..lake.declared import made_arrow
from ..schemas.positions import position
from ..schemas.topics import TopicNames
from .documents import DocumentColumns, Documents
from .folded import Folded, Prior
from .journal import journal_table
from .judging import fold
from .prior import PriorRows
from .published import blocks
from .readings import Readings, read_all, read_table
from .records import Place, named_in, records_of

_BIT_ROWS: Final = 8_192
_BIT_BYTES: Final = 4 * 1024 * 1024  # an event of a thousand files makes several thousand rows and documents

Lap = Callable[[str], None]
"""Told at the end of each step which one it was."""


class Share(NamedTuple):
    """Consecutive records of one journal partition.

    Attributes:
        records: a table as Spark's Kafka source has it, in offset order, or a list of `Record`.
        epoch: of the topic, where they are a table.
        start: the next position to judge.
        end: all positions below it are judged with these records.
        system_time: the running system_time before them, milliseconds UTC.
        known: what a folder knows of them already.
    """

    place: Place
    records: Any
    epoch: int
    start: int
    end: int
    system_time: int
    known: Any = None

    def cut(self, first: int, behind: int) -> Share:
        """Some of its rows, up to where the next one stands; what came before them is the caller's to say."""
        rows = self.records
        last = behind >= rows.num_rows
        end = self.end if last else position(self.epoch, rows["offset"][behind].as_py())
        return self._replace(records=rows.slice(first, behind - first), end=end)


class Made(Protocol):
    """What some records gave."""

    @property
    def folded(self) -> Folded:
        """Up to where, and what stopped them; what was folded one by one of them."""

    @property
    def verdicts(self) -> Counter[str]:
        """How many records have each outcome."""

    @property
    def oldest_ms(self) -> int | None:
        """Append time of the oldest record, milliseconds UTC; None where there are none."""

    def rows(self, table: str, mark: int) -> pa.Table | None:
        """The rows that it adds to a table, those of a history table above the mark that it holds; None for none."""

    def blocks(self, names: TopicNames, tables: Mapping[str, pa.Table]) -> Iterable[Documents | DocumentColumns]:
        """The change and state records.

        Args:
            tables: what `rows` gave.
        """

    def with_spoken(self) -> Folded:
        """The same as `folded` with every record that outcomes or dead letters speak of, in order."""

    def differing(self, outcomes: pa.ChunkedArray) -> list[int]:
        """Positions of records that the journal table says another outcome of, given that of each record."""


class Folder(Protocol):
    """Folds the records of a journal partition, share after share; its steps may take those of several at once."""

    def pieces(self, share: Share, lap: Lap) -> Iterator[Share]:
        """What to fold at once: pieces that stay in the processor's caches, whose rows were looked up together.

        Each is asked for when the one before it is folded; whoever folds it says its start and its system_time.
        """

    def read(self, share: Share) -> Any:
        """Step 1."""

    def prior(self, read: Sequence[Any]) -> Sequence[Any]:
        """Step 2, of what `read` gave."""

    def fold(self, share: Share, read: Any, prior: Any) -> Made:
        """Step 3, of one share."""

    def advance(self, made: Made) -> None:
        """Let the following shares see what these records have made."""


@dataclass(frozen=True, slots=True)
class FoldRequest:
    """What is asked of a journal partition's records.

    Attributes:
        start: the position of the first one; the lake is looked at below it.
        tables: the tables whose rows are to be made.
        marks: up to where each of them holds the partition already.
        publishes: whether records are to be published.
    """

    place: Place
    start: int
    tables: Collection[str]
    marks: Mapping[str, int]
    publishes: bool


def passed(_: str) -> None:
    """Nobody asks how long a step took."""


def fold_shares(folder: Folder, shares: Sequence[Share], lap: Lap = passed) -> list[Made]:
    """Steps 1 to 3: read the records, look up what stood before them, judge them."""
    read = [folder.read(share) for share in shares]
    lap("read")
    prior = folder.prior(read)
    lap("prior")
    made = [folder.fold(share, *given) for share, *given in zip(shares, read, prior, strict=True)]
    lap("fold")
    return made


def bits(share: Share, most_rows: int | None = None) -> Iterator[Share]:
    """A share in bits of bounded rows and bytes."""
    rows = share.records
    most = min(most_rows or _BIT_ROWS, int(rows.num_rows * _BIT_BYTES / max(1, rows.nbytes)))
    step = max(1, most)
    for first in range(0, rows.num_rows, step):
        yield share.cut(first, first + step)


class RowFolder:
    """Folds records one by one.

    Args:
        prior: where rows from before are looked up.
        columns_from: fewer records than these are read one by one, which is faster where they are small.
    """

    def __init__(self, prior: PriorRows, columns_from: int = 0) -> None:
        self._prior = prior
        self._columns_from = columns_from

    def pieces(self, share: Share, lap: Lap) -> Iterator[Share]:
        self._prior.prefetch(named_in(share.records, share.place), share.place)
        lap("prior")
        yield from bits(share)

    def read(self, share: Share) -> Readings:
        place, records, epoch, start, end, *_ = share
        if not isinstance(records, pa.Table):
            return read_all(records, place, start, end)
        if records.num_rows < self._columns_from:
            return read_all(records_of(records, epoch), place, start, end)
        return read_table(records, place, epoch, start, end)

    def prior(self, read: Sequence[Readings]) -> list[Prior]:
        return self._prior.fetch(read)

    def fold(self, share: Share, read: Readings, prior: Prior) -> MadeOfRows:
        return MadeOfRows(fold(read, prior, share.system_time))

    def advance(self, made: Made) -> None:
        self._prior.advance([made.folded])


@dataclass(frozen=True, slots=True)
class MadeOfRows:
    """What records gave that were folded one by one."""

    folded: Folded

    @property
    def verdicts(self) -> Counter[str]:
        return Counter(judged.verdict.outcome for judged in self.folded.judged)

    @property
    def oldest_ms(self) -> int | None:
        return min((judged.record.append_time for judged in self.folded.judged), default=None)

    def rows(self, table: str, mark: int) -> pa.Table | None:
        if table == JOURNAL_TABLE:
            return journal_table(self.folded) if self.folded.judged else None
        rows = list(_new_rows(self.folded, table, mark))
        return made_arrow(table, rows) if rows else None

    def blocks(self, names: TopicNames, tables: Mapping[str, pa.Table]) -> Iterable[Documents | DocumentColumns]:
        return blocks(self.folded, names, tables.get(ENTITIES_TABLE))

    def with_spoken(self) -> Folded:
        return self.folded

    def differing(self, outcomes: pa.ChunkedArray) -> list[int]:
        judged = zip(self.folded.judged, outcomes.to_pylist(), strict=False)  # an unknown schema may end them earlier
        return [judgement.record.position for judgement, outcome in judged if judgement.verdict.outcome != outcome]


def _new_rows(folded: Folded, table: str, mark: int) -> Iterator[tuple[Any, str, int]]:
    """The rows that a partition adds to a history table above the mark that it holds, as `to_arrow` wants them."""
    changes: Iterable[Any] = folded.changes if table == ENTITIES_TABLE else folded.facts.get(table, ())
    domain, partition = folded.place.domain, folded.place.partition
    for change in changes:
        after = change[1]
        if after.logical_timestamp >= mark:
            yield after, domain, partition
