"""What events of new and plain files give, as columns: rows of the tables, and the records to publish.

What all files of an event have in common comes from the rows that `rules.files` makes of its first file; only what
differs from file to file is filled in here. The texts are canonical JSON: of plain texts nothing needs an escape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake import file_records
from ..lake.columns import ENTITIES, FILE_RECORDS
from ..lake.entities import rows_to_arrow
from ..rules.entity import EntityRow
from ..rules.files_columns import days
from ..rules.files_rows import FileRecordRow
from ..schemas.cursor import Numbers
from ..schemas.events.files import RESERVED_WORK_ID
from ..schemas.file_columns import FileColumns
from ..schemas.topics import TopicNames
from . import file_documents
from .documents import DocumentColumns
from .folded import Judged
from .records import Place

_TEXT: Final = pa.string()


@dataclass(frozen=True)
class NewFiles:
    """Events of files that are all new and plain, behind each other, with the files of all of them as columns.

    Attributes:
        judged: each event, accepted; its header is without the entities.
        data_versions: of each event.
        examples: of each event the rows of its first file.
        ends: where in the columns each event's files end.
        urns: those of the files.
    """

    place: Place
    judged: Sequence[Judged]
    data_versions: Sequence[str]
    examples: Sequence[tuple[EntityRow, FileRecordRow]]
    ends: Numbers
    urns: pa.Array
    files: FileColumns

    def only(self, begin: int, end: int) -> NewFiles:
        """Some of the events."""
        first, last = (int(self.ends[at - 1]) if at else 0 for at in (begin, end))
        return NewFiles(
            self.place,
            self.judged[begin:end],
            self.data_versions[begin:end],
            self.examples[begin:end],
            self.ends[begin:end] - first,
            self.urns.slice(first, last - first),
            FileColumns(*[column.slice(first, last - first) for column in self.files]),
        )

    @cached_property
    def counts(self) -> Numbers:
        """How many files each event has."""
        return np.diff(self.ends, prepend=0)

    @cached_property
    def event(self) -> Numbers:
        """Number of each file's event."""
        return np.repeat(np.arange(len(self.ends)), self.counts)

    @cached_property
    def seq(self) -> Numbers:
        """Place of each file in its event."""
        found: Numbers = np.arange(len(self.event)) - (self.ends - self.counts)[self.event]
        return found

    @cached_property
    def keys(self) -> pa.Table:
        """Tenant and URN of each file, and `key`, both as one text."""
        tenants = self._of_event([row.tenant for row, _ in self.examples])
        key = pc.binary_join_element_wise(tenants, self.urns, "/")
        return pa.table({"tenant": tenants, "urn": self.urns, "key": key})

    @cached_property
    def metadata(self) -> pa.Array:
        """The source's document of each file. Source: `schemas.events.files.metadata_document`."""
        files, rows = self.files, [row for _, row in self.examples]
        path = pc.fill_null(_joined('"path":"', files.path, '",'), "")
        return _joined(
            '{"data-version":"', self._of_event(self.data_versions), '","end":', _number(files.end), ',"hash":"',
            files.hash, '","id":"', files.id, '",', path, '"start":', _number(files.start), ',"version":0,"what":"',
            self._of_event([row.file_what for row in rows]), '","where":"',
            self._of_event([row.file_where for row in rows]), '","work_id":', _quoted(files.work_id), "}",
        )  # fmt: skip

    def _of_event(self, values: Sequence[str]) -> pa.Array:
        return pa.array(values, _TEXT).take(pa.array(self.event))

    def entities(self) -> pa.Table:
        """Rows of the `entities` table, in the order of the files."""
        files = self.files
        record = _joined(
            '{"created":', _number(files.created), ',"metadata":', self.metadata, ',"size":', _number(files.size),
            ',"url":"', files.url, '","version":0}',
        )  # fmt: skip
        made = {"urn": self.urns, "name": files.id, "seq": pa.array(self.seq, pa.int32()), "record": record}
        shared = rows_to_arrow((row, self.place.domain, self.place.partition) for row, _ in self.examples)
        return _filled(ENTITIES, shared, self.event, made)

    def file_records(self) -> pa.Table:
        """Rows of the `file_records` table, in the order of `lake.file_records`."""
        files = self.files
        start = files.start.to_numpy()
        found = days(start, pc.coalesce(files.end, files.start).to_numpy(), self.event)
        event = self.event[found.file]
        order = np.lexsort((found.seq, event, start[found.file], found.bucket))
        file, event = pa.array(found.file[order]), event[order]
        bucket, name, work_id = pa.array(found.bucket[order]), files.id.take(file), files.work_id.take(file)
        rows = [row for _, row in self.examples]
        what, where = (
            pa.array([getattr(row, of) for row in rows], _TEXT).take(pa.array(event))
            for of in ("file_what", "file_where")
        )
        made = {
            "urn": self.urns.take(file),
            "bucket": bucket,
            "seq": pa.array(found.seq[order], pa.int32()),
            "file_id": name,
            "first_bucket": pa.array(found.first[order]),
            "start_ms": files.start.take(file),
            "end_ms": files.end.take(file),
            "created_ms": files.created.take(file),
            "size_bytes": files.size.take(file),
            "work_id": work_id,
            "url": files.url.take(file),
            "time_index_key": _joined(bucket.cast(_TEXT), ":", what),
            "work_id_index_key": _joined(pc.coalesce(work_id, _joined(RESERVED_WORK_ID, name)), ":", what),
            "range_key": _joined(where, ":", name),
            "metadata": self.metadata.take(file),
        }
        shared = file_records.unsorted((row, self.place.domain, self.place.partition) for row in rows)
        return _filled(FILE_RECORDS, shared, event, made)

    def documents(self, entities: pa.Table, names: TopicNames) -> Iterator[DocumentColumns]:
        """What is published of the files.

        Args:
            entities: their rows, as `entities` gives them.
        """
        starts = [0, *self.ends.tolist()]
        for number, (row, _) in enumerate(self.examples):
            held = entities.slice(starts[number], starts[number + 1] - starts[number])
            found = file_documents.records_of_new(self.place, row, held, names)
            assert found is not None  # a plain event's texts are no marks
            yield from found

    def named(self) -> pa.ListArray:
        """The entities of each event's header, as the journal table has them."""
        return pa.ListArray.from_arrays(pa.array([0, *self.ends.tolist()], pa.int32()), self.urns)


def _filled(schema: pa.Schema, shared: pa.Table, event: Numbers, made: dict[str, pa.Array]) -> pa.Table:
    """A table of the columns that are made, and of those that all rows of an event share."""
    rows = pa.array(event)
    columns = [made.get(one.name) if one.name in made else shared[one.name].take(rows) for one in schema]
    return pa.table(columns, schema=schema)


def _joined(*parts: Any) -> pa.Array:
    """Texts one behind the other, row by row; null where one is."""
    return pc.binary_join_element_wise(*parts, "")


def _number(numbers: pa.Array) -> pa.Array:
    return pc.fill_null(numbers.cast(_TEXT), "null")


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.fill_null(_joined('"', texts, '"'), "null")
