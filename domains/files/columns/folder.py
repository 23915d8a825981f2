"""Folding one journal partition of files: events of new and plain files in columns, all others one by one.

A backlog of files is mostly such events, and Python's price of a row for each file was most of theirs. The records keep
their order: runs of plain events and runs of others are folded behind each other. What one way makes, the other sees: a
file that others name is not plain any more, and rows that were made in columns are made again, by the rules and from
the event itself, where the other way needs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.documents import DocumentColumns, Documents
from ....fold.folded import Folded, IdKey, Judged, Prior
from ....fold.journal import journal_table
from ....fold.prior import PriorRows
from ....fold.readings import Readings
from ....fold.records import digest_of, records_of
from ....fold.repeats import ids_of
from ....fold.steps import Folder, FoldRequest, Lap, Made, MadeOfRows, RowFolder, Share, bits
from ....lake.columns import ENTITIES_TABLE, JOURNAL_TABLE
from ....rules import Accepted, At, apply
from ....rules.entity import EntityRow
from ....schemas.encoding.codec import decode, decode_header_only
from ....schemas.encoding.cursor import Numbers
from ....schemas.errors import NotSingleObject, Undecodable
from ....schemas.topics import TopicNames
from .plain import NOTHING, Candidate, candidates, runs
from .rows import NewFiles

_RECORDS = "file_records"


class _Earlier(NamedTuple):
    """Earlier events that were folded in columns: keys of their files, where each event's end, and the events."""

    keys: pa.Array
    ends: Numbers
    judged: list[Judged]


def folder_of(request: FoldRequest, prior: PriorRows) -> Folder | None:
    """What folds a task's share in columns; None where not all that files give is asked for."""
    all_is_asked = request.publishes and {ENTITIES_TABLE, _RECORDS, JOURNAL_TABLE} <= {*request.tables}
    return FileFolder(request, prior) if all_is_asked else None


class FileFolder:
    """Folds the records of one journal partition of files, all of whose rows and records are asked for."""

    def __init__(self, request: FoldRequest, prior: PriorRows) -> None:
        self._prior = prior
        self._others = RowFolder(prior)
        self._start = request.start
        self._held = max(request.marks.values(), default=0)
        self._named: set[str] = set()
        self._made: list[_Earlier] = []

    def pieces(self, share: Share, lap: Lap) -> Iterator[Share]:
        found_candidates = list(_candidates(share))
        lap("read")
        spoiled = self._spoiled(share, found_candidates)
        lap("prior")
        behind = 0
        for number, files in runs(found_candidates, spoiled):
            if behind < number:
                yield from self._pieces_of_others(share.cut(behind, number), lap)
            behind = number + len(files.judged)
            yield share.cut(number, behind)._replace(known=files)
        if behind < len(share.records):
            yield from self._pieces_of_others(share.cut(behind, len(share.records)), lap)

    def _spoiled(self, share: Share, found_candidates: Sequence[Candidate]) -> Collection[int]:
        """Numbers of those records whose files may not be new, or which may be somebody's second copy."""
        place, rows = share.place, share.records
        numbers = np.array([number for candidate in found_candidates for number in candidate.numbers], np.int64)
        others = np.delete(np.arange(rows.num_rows), numbers)
        named, marked = _named_by(rows["value"].take(pa.array(others)))
        if not found_candidates or share.start < self._held:
            return frozenset(numbers.tolist())
        judged = [_identity(event) for candidate in found_candidates for event in candidate.files.judged]
        copies = {number for number, identity in zip(numbers.tolist(), judged, strict=True) if identity in marked}
        repeats = self._prior.repeats(place, self._start)
        copies.update(numbers[repeats.hits(ids_of([event_id for _, _, event_id in judged]))].tolist())
        keys = pa.concat_tables([candidate.files.keys for candidate in found_candidates]).combine_chunks()
        number = np.repeat(numbers, np.concatenate([candidate.files.counts for candidate in found_candidates]))
        same = keys["key"].combine_chunks().dictionary_encode().indices.to_numpy()
        spoiled = np.bincount(same)[same] > 1
        before = self._prior.keys_before(keys.select(["tenant", "urn"]), place)
        known = [
            pa.array([*named, *self._named], pa.string()),
            *(earlier.keys for earlier in self._made),
            _joined(before),
        ]
        for some in known:
            if len(some):
                spoiled |= pc.is_in(keys["key"], value_set=some).to_numpy()
        return copies.union(number[spoiled].tolist())

    def _pieces_of_others(self, share: Share, lap: Lap) -> Iterator[Share]:
        named, _ = _named_by(share.records["value"])
        self._lend(named - self._named)
        self._named |= named
        yield from self._others.pieces(share, lap)

    def _lend(self, keys: Collection[str]) -> None:
        """Let the other way see the rows of these files, where they were made in columns."""
        wanted = pa.array(keys, pa.string())
        for made in self._made if keys else ():
            places = np.flatnonzero(pc.is_in(made.keys, value_set=wanted).to_numpy(zero_copy_only=False))
            for number in np.unique(np.searchsorted(made.ends, places, side="right")).tolist():
                rows = _rows_of(made.judged[number])
                self._prior.put({(row.tenant, row.urn): row for row in rows if _key(row.tenant, row.urn) in keys})

    def read(self, share: Share) -> NewFiles | Readings:
        new: NewFiles | None = share.known
        return self._others.read(share) if new is None else new

    def prior(self, read: Sequence[NewFiles | Readings]) -> list[Prior | None]:
        return [None if isinstance(reading, NewFiles) else self._others.prior([reading])[0] for reading in read]

    def fold(self, share: Share, read: NewFiles | Readings, prior: Prior | None) -> Made:
        if isinstance(read, NewFiles):
            return _MadeOfNew(read, share)
        assert prior is not None  # `prior` says so
        return self._others.fold(share, read, prior)

    def advance(self, made: Made) -> None:
        if isinstance(made, _MadeOfNew):
            judged = made.folded.judged
            self._prior.put_events(
                (_identity(judged_record), (judged_record.record.position, judged_record.verdict))
                for judged_record in judged
            )
            self._made.append(_Earlier(made.files.keys["key"].combine_chunks(), made.files.ends, judged))
        else:
            self._others.advance(made)


class _MadeOfNew:
    """What events of new files gave: each is accepted, and above the mark of every table."""

    def __init__(self, files: NewFiles, share: Share) -> None:
        self.files = files
        judged = list(files.judged)
        self.folded = Folded(share.place, share.start, share.end, judged[-1].system_time, judged, columns=share.records)

    @property
    def verdicts(self) -> Counter[str]:
        return MadeOfRows(self.folded).verdicts

    @property
    def oldest_ms(self) -> int | None:
        return MadeOfRows(self.folded).oldest_ms

    def rows(self, table: str, mark: int) -> pa.Table | None:
        if table == JOURNAL_TABLE:
            journal = journal_table(self.folded)
            column = journal.column_names.index("entities")
            return journal.set_column(column, journal.schema.field(column), self.files.named())
        made = {ENTITIES_TABLE: self.files.entities, _RECORDS: self.files.file_records}
        return made[table]() if table in made else None

    def blocks(self, names: TopicNames, tables: Mapping[str, pa.Table]) -> Iterable[Documents | DocumentColumns]:
        return self.files.documents(tables[ENTITIES_TABLE], names)

    def with_spoken(self) -> Folded:
        return self.folded

    def differing(self, outcomes: pa.ChunkedArray) -> list[int]:
        return MadeOfRows(self.folded).differing(outcomes)


def _candidates(share: Share) -> Iterator[Candidate]:
    """The events that look plain, in bits."""
    system_time, first = share.system_time, 0
    for bit in bits(share):
        records = list(records_of(bit.records, share.epoch))
        _, *times = accumulate((record.append_time for record in records), max, initial=system_time)
        candidate = candidates(records, times, share.place, first)
        system_time, first = times[-1], first + len(records)
        if candidate is not None:
            yield candidate


def _identity(judged: Judged) -> IdKey:
    assert judged.header is not None  # it is an event
    return judged.header.tenant, judged.header.aggregate, judged.header.event_id


def _rows_of(judged: Judged) -> tuple[EntityRow, ...]:
    """The rows that an event of new files has made."""
    header, event, _ = decode(judged.record.value or b"")
    outcome = apply(header, event, At(judged.record.position, judged.system_time, digest_of(judged.record)), NOTHING)
    return outcome.rows if isinstance(outcome, Accepted) else ()


def _key(tenant: str, urn: str) -> str:
    return f"{tenant}/{urn}"


def _joined(keys: pa.Table) -> pa.Array:
    return pc.binary_join_element_wise(keys["tenant"], keys["urn"], "/").combine_chunks()


def _named_by(values: pa.ChunkedArray) -> tuple[set[str], set[IdKey]]:
    """Keys of the files that records name, and the identities of those records that are marked `repeat`."""
    named: set[str] = set()
    marked: set[IdKey] = set()
    for value in values.drop_null().to_pylist():
        with suppress(NotSingleObject, Undecodable):
            header = decode_header_only(value)
            named.update([_key(header.tenant, urn) for urn in header.entities])
            if header.repeat:
                marked.add((header.tenant, header.aggregate, header.event_id))
    return named, marked
