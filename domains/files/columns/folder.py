"""Folding one journal partition of files: events of new and plain files in columns, all others one by one.

A backlog of files is mostly such events, and Python's price of a row for each file was most of theirs. The records keep
their order: runs of plain events and runs of others are folded behind each other. What one way makes, the other sees: a
file that others name is not plain any more, and rows that were made in columns are made again, by the rules and from
the event itself, where the other way needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.folded import Folded, IdKey, Judged
from ....fold.journal import journal_table
from ....fold.records import digest_of, records_of
from ....fold.repeats import ids_of
from ....lake.storage.faults import writing
from ....rules import Accepted, At, apply
from ....rules.entity import EntityRow
from ....schemas.encoding.codec import decode, decode_header_only
from ....schemas.encoding.cursor import Numbers
from ....schemas.errors import NotSingleObject, Undecodable
from ....schemas.positions import position
from ....streaming.folder import ENTITIES, PartitionFolder
from ....streaming.plan import PinnedLake, Plan, Task
from .plain import NOTHING, Candidate, candidates, runs
from .rows import NewFiles

_RECORDS, _JOURNAL = "file_records", "journal"


class _Made(NamedTuple):
    """Events that were folded in columns: keys of their files, where each event's end, and the events."""

    keys: pa.Array
    ends: Numbers
    judged: list[Judged]


def folder_of(plan: Plan, task: Task) -> type[PartitionFolder] | None:
    """What folds a task's share in columns; None where not all that files give is asked for."""
    all_is_asked = plan.staging is not None and {ENTITIES, _RECORDS, _JOURNAL} <= {*plan.written}
    return FileFolder if all_is_asked else None


class FileFolder(PartitionFolder):
    """Folds the slices of one journal partition of files, all of whose rows and records are asked for."""

    def __init__(self, plan: Plan, task: Task, lake: PinnedLake) -> None:
        super().__init__(plan, task, lake)
        self._held = max(task.held.values(), default=0)
        self._named: set[str] = set()
        self._made: list[_Made] = []

    def _fold(self, rows: pa.Table, epoch: int, end: int) -> None:
        with self._timed("read"):
            found = list(self._candidates(rows, epoch))
        with self._timed("prior"):
            spoiled = self._spoiled(rows, found)
        at = 0
        for number, files in runs(found, spoiled):
            if at < number:
                self._fold_others(rows.slice(at, number - at), epoch, files.judged[0].record.position)
            at = number + len(files.judged)
            behind = end if at == rows.num_rows else position(epoch, rows["offset"][at].as_py())
            self._fold_new(files, rows.slice(number, at - number), behind)
        if at < rows.num_rows:
            self._fold_others(rows.slice(at), epoch, end)

    def _candidates(self, rows: pa.Table, epoch: int) -> Iterator[Candidate]:
        """The events that look plain, in bits."""
        system_time, step = self._part.system_time, self._step(rows)
        for at in range(0, rows.num_rows, step):
            records = list(records_of(rows.slice(at, step), epoch))
            _, *times = accumulate((one.append_time for one in records), max, initial=system_time)
            found = candidates(records, times, self._task.place, at)
            system_time = times[-1]
            if found is not None:
                yield found

    def _spoiled(self, rows: pa.Table, found: Sequence[Candidate]) -> Collection[int]:
        """Numbers of those records whose files may not be new, or which may be somebody's second copy."""
        place = self._task.place
        numbers = np.array([number for one in found for number in one.numbers], np.int64)
        others = np.delete(np.arange(rows.num_rows), numbers)
        named, marked = _named_by(rows["value"].take(pa.array(others)))
        if not found or self._part.end < self._held:
            return frozenset(numbers.tolist())
        judged = [_identity(event) for one in found for event in one.files.judged]
        copies = {at for at, identity in zip(numbers.tolist(), judged, strict=True) if identity in marked}
        repeats = self._prior.repeats(place, self._task.start)
        copies.update(numbers[repeats.hits(ids_of([event_id for _, _, event_id in judged]))].tolist())
        keys = pa.concat_tables([one.files.keys for one in found]).combine_chunks()
        number = np.repeat(numbers, np.concatenate([one.files.counts for one in found]))
        same = keys["key"].combine_chunks().dictionary_encode().indices.to_numpy()
        spoiled = np.bincount(same)[same] > 1
        before = self._prior.keys_before(keys.select(["tenant", "urn"]), place)
        known = [pa.array([*named, *self._named], pa.string()), *(one.keys for one in self._made), _joined(before)]
        for some in known:
            if len(some):
                spoiled |= pc.is_in(keys["key"], value_set=some).to_numpy()
        return copies.union(number[spoiled].tolist())

    def _fold_others(self, rows: pa.Table, epoch: int, end: int) -> None:
        named, _ = _named_by(rows["value"])
        self._lend(named - self._named)
        self._named |= named
        super()._fold(rows, epoch, end)

    def _lend(self, keys: Collection[str]) -> None:
        """Let the other way see the rows of these files, where they were made in columns."""
        wanted = pa.array(keys, pa.string())
        for made in self._made if keys else ():
            places = np.flatnonzero(pc.is_in(made.keys, value_set=wanted).to_numpy(zero_copy_only=False))
            for number in np.unique(np.searchsorted(made.ends, places, side="right")).tolist():
                rows = _rows_of(made.judged[number])
                self._prior.put({(row.tenant, row.urn): row for row in rows if _key(row.tenant, row.urn) in keys})

    def _fold_new(self, files: NewFiles, rows: pa.Table, end: int) -> None:
        part, task = self._part, self._task
        if part.stopped_by is not None:
            return
        judged = list(files.judged)
        folded = Folded(task.place, part.end, end, judged[-1].system_time, judged, columns=rows)
        with writing(self._root):
            with self._timed("write"):
                entities = self._write_new(files, folded)
            assert self._staged is not None  # `folder_of` says so
            with self._timed("stage"):
                self._staged.write_blocks(files.documents(entities, self._names), folded, self._names)
        part.add(folded)
        self._prior.put_events((_identity(one), (one.record.position, one.verdict)) for one in judged)
        self._made.append(_Made(files.keys["key"].combine_chunks(), files.ends, judged))

    def _write_new(self, files: NewFiles, folded: Folded) -> pa.Table:
        """Add the rows to the files; gives those of `entities`."""
        journal = journal_table(folded)
        place = journal.column_names.index("entities")
        made = {
            ENTITIES: files.entities(),
            _RECORDS: files.file_records(),
            _JOURNAL: journal.set_column(place, journal.schema.field(place), files.named()),
        }
        for name, table in made.items():
            self._files[name].write(table)
        self._part.rows += made[ENTITIES].num_rows + made[_RECORDS].num_rows
        return made[ENTITIES]


def _identity(one: Judged) -> IdKey:
    assert one.header is not None  # it is an event
    return one.header.tenant, one.header.aggregate, one.header.event_id


def _rows_of(one: Judged) -> tuple[EntityRow, ...]:
    """The rows that an event of new files has made."""
    header, event, _ = decode(one.record.value or b"")
    outcome = apply(header, event, At(one.record.position, one.system_time, digest_of(one.record)), NOTHING)
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
