"""Which of a partition's records are events of new and plain files, so that they can be folded in columns.

An event is taken when `schemas.file_columns` can read it, the rules accept its first file, nothing is asked of earlier
events (no mark, no precondition), and none of its files has a row yet or is named by any other record here. All files
of such an event are new, whatever the order; where in doubt the record is left to `fold`, which judges it as ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.folded import ACCEPTED, Judged, Verdict
from ....fold.records import Place, Placed, Record, digest_of, is_whole
from ....fold.runs import Candidate
from ....rules import Accepted, At, apply
from ....rules.entity import EntityRow, FactKey
from ....schemas.encoding.cursor import Numbers
from ....schemas.header import Header
from ....schemas.urn import Urn
from ..events import FileMetadata, FileRecord, FilesRecorded
from ..rows import FileRecordRow
from .decoding import FileColumns, PlainEvent, columns_of, plain_event
from .rows import NewFiles

_ACCEPTED: Final = Verdict(ACCEPTED)


class _Nothing:
    """The rows of files that nobody has recorded yet (rules.entity.RowReader)."""

    def entity(self, _urn: str) -> None:
        return None

    def members(self, _aggregate: str, _kinds: Collection[str]) -> Iterable[EntityRow]:
        return ()

    def fact(self, _key: FactKey) -> None:
        return None


NOTHING: Final = _Nothing()


class _Read(NamedTuple):
    """An event that may be plain, and where it stands."""

    number: int
    record: Record
    system_time: int
    event: PlainEvent


def candidates(
    records: Sequence[Record], system_times: Sequence[int], place: Place, first: int
) -> Candidate[NewFiles] | None:
    """The events among some records that are plain, whether or not their files are new; None where there are none.

    Args:
        records: some records of a partition, behind each other.
        system_times: that of each.
        first: number of the first of them.
    """
    placed, reads = Placed(records, place), []
    for number, (record, system_time) in enumerate(zip(records, system_times, strict=True), first):
        event = plain_event(record.value or b"") if is_whole(record, place) else None
        if event is not None and placed.holds(record, event.header) and _asks_nothing(event.header):
            reads.append(_Read(number, record, system_time, event))
    return _side_by_side(reads, place) if reads else None


def _asks_nothing(header: Header) -> bool:
    """Whether no earlier event matters, and its actor is no mark of `file_documents`."""
    return header.expected is None and not header.repeat and "\0" not in (header.actor or "")


def _side_by_side(some: Sequence[_Read], place: Place) -> Candidate[NewFiles] | None:
    files, wrong = columns_of([read.event for read in some])
    ends = np.cumsum([len(read.event.files) for read in some])
    urns = _urns(some, ends, files)
    examples = [_example(read, files, urns, row) for read, row in zip(some, [0, *ends.tolist()], strict=False)]
    refused = {*wrong.tolist(), *(row for row, rows in enumerate(examples) if rows is None)}
    if refused:
        rest = [read for row, read in enumerate(some) if row not in refused]
        return _side_by_side(rest, place) if rest else None
    judged = [Judged(read.record, read.system_time, read.event.header, _ACCEPTED) for read in some]
    versions = [read.event.data_version for read in some]
    made = NewFiles(place, judged, versions, [rows for rows in examples if rows], ends, urns, files)
    return Candidate([read.number for read in some], made)


def _urns(some: Sequence[_Read], ends: Numbers, files: FileColumns) -> pa.Array:
    starts = pa.array([read.event.start for read in some], pa.string())
    event = np.repeat(np.arange(len(some)), np.diff(ends, prepend=0))
    return pc.binary_join_element_wise(starts.take(pa.array(event)), files.id, "")


def _example(read: _Read, files: FileColumns, urns: pa.Array, row: int) -> tuple[EntityRow, FileRecordRow] | None:
    """What the rules make of an event's first file, were it alone; None where they refuse it."""
    event = read.event
    of_file = FileColumns(*[column[row].as_py() for column in files])
    metadata = FileMetadata(
        0, of_file.start, of_file.end, event.where, event.what, event.data_version, of_file.id, of_file.hash,
        of_file.work_id, of_file.path,
    )  # fmt: skip
    alone = FilesRecorded.from_wire((FileRecord(of_file.url, metadata, of_file.size, of_file.created),))
    header = event.header._replace(entities=(Urn.parse(urns[row].as_py()),))
    outcome = apply(header, alone, At(read.record.position, read.system_time, digest_of(read.record)), NOTHING)
    if not isinstance(outcome, Accepted):
        return None
    return outcome.rows[0], outcome.facts[0]
