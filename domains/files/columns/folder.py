"""Folding one journal partition of files: events of new and plain files in columns, all others one by one.

A backlog of files is mostly such events, and Python's price of a row for each file was most of theirs. What one way
makes, the other sees: a file that others name is not plain any more, and rows that were made in columns are made again,
by the rules and from the event itself, where the other way needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.folded import Judged
from ....fold.prior import PriorRows
from ....fold.records import Place, Record, digest_of
from ....fold.runs import Candidate, MadeInColumns, RunFolder
from ....fold.steps import Folder, FoldRequest, Made, Share
from ....lake.columns import ENTITIES_TABLE
from ....rules import Accepted, At, apply
from ....rules.entity import EntityRow
from ....schemas.encoding.codec import decode, decode_header_only
from ....schemas.encoding.cursor import Numbers
from ....schemas.errors import NotSingleObject, Undecodable
from .plain import NOTHING, candidates
from .rows import RECORDS_TABLE, NewFiles


class _Earlier(NamedTuple):
    """Earlier events that were folded in columns: keys of their files, where each event's end, and the events."""

    keys: pa.Array
    ends: Numbers
    judged: Sequence[Judged]


def folder_of(request: FoldRequest, prior: PriorRows) -> Folder | None:
    """What folds a task's share in columns; None where nothing that files give is asked for."""
    asked = {ENTITIES_TABLE, RECORDS_TABLE} & {*request.tables}
    return FileFolder(request, prior) if asked else None


class FileFolder(RunFolder[NewFiles]):
    """Folds the records of one journal partition of files."""

    def __init__(self, request: FoldRequest, prior: PriorRows) -> None:
        super().__init__(request, prior)
        self._named: set[str] = set()
        self._made: list[_Earlier] = []

    def candidates(
        self, records: Sequence[Record], system_times: Sequence[int], place: Place, first: int
    ) -> Iterable[Candidate[NewFiles]]:
        candidate = candidates(records, system_times, place, first)
        return () if candidate is None else (candidate,)

    def spoiled(self, share: Share, found: Sequence[Candidate[NewFiles]], others: pa.ChunkedArray) -> Collection[int]:
        """Numbers of those records whose files may not be new."""
        numbers = np.array([number for candidate in found for number in candidate.numbers], np.int64)
        keys = pa.concat_tables([candidate.events.keys for candidate in found]).combine_chunks()
        number = np.repeat(numbers, np.concatenate([candidate.events.counts for candidate in found]))
        same = keys["key"].combine_chunks().dictionary_encode().indices.to_numpy()
        spoiled = np.bincount(same)[same] > 1
        before = self.known.keys_before(keys.select(["tenant", "urn"]), share.place)
        known = [
            pa.array([*_named_by(others), *self._named], pa.string()),
            *(earlier.keys for earlier in self._made),
            _joined(before),
        ]
        for some in known:
            if len(some):
                spoiled |= pc.is_in(keys["key"], value_set=some).to_numpy()
        return frozenset(number[spoiled].tolist())

    def others_come(self, values: pa.ChunkedArray) -> None:
        named = _named_by(values)
        self._lend(named - self._named)
        self._named |= named

    def _lend(self, keys: Collection[str]) -> None:
        """Let the other way see the rows of these files, where they were made in columns."""
        wanted = pa.array(keys, pa.string())
        for made in self._made if keys else ():
            places = np.flatnonzero(pc.is_in(made.keys, value_set=wanted).to_numpy(zero_copy_only=False))
            for number in np.unique(np.searchsorted(made.ends, places, side="right")).tolist():
                rows = _rows_of(made.judged[number])
                self.known.put({(row.tenant, row.urn): row for row in rows if _key(row.tenant, row.urn) in keys})

    def advance(self, made: Made) -> None:
        super().advance(made)
        if isinstance(made, MadeInColumns):
            files: NewFiles = made.events
            self._made.append(_Earlier(files.keys["key"].combine_chunks(), files.ends, files.judged))


def _rows_of(judged: Judged) -> tuple[EntityRow, ...]:
    """The rows that an event of new files has made."""
    header, event, _ = decode(judged.record.value or b"")
    outcome = apply(header, event, At(judged.record.position, judged.system_time, digest_of(judged.record)), NOTHING)
    return outcome.rows if isinstance(outcome, Accepted) else ()


def _key(tenant: str, urn: str) -> str:
    return f"{tenant}/{urn}"


def _joined(keys: pa.Table) -> pa.Array:
    return pc.binary_join_element_wise(keys["tenant"], keys["urn"], "/").combine_chunks()


def _named_by(values: pa.ChunkedArray) -> set[str]:
    """Keys of the files that records name."""
    named: set[str] = set()
    for value in values.drop_null().to_pylist():
        with suppress(NotSingleObject, Undecodable):
            header = decode_header_only(value)
            named.update([_key(header.tenant, urn) for urn in header.entities])
    return named
