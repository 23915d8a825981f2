"""What events of new and plain files give, as columns: rows of the tables, and the records to publish.

What all files of an event have in common comes from the rows that `rules.files` makes of its first file; only what
differs from file to file is filled in here, into texts that the rules have spelled. Of plain texts nothing needs an
escape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.documents import DocumentColumns
from ....fold.folded import Judged, KeyOfFact
from ....fold.json_texts import TEXT, Pattern, Template, joined, mark, text
from ....fold.records import Place
from ....lake.columns import ENTITIES, ENTITIES_TABLE
from ....lake.entities import rows_to_arrow
from ....lake.rows import filled
from ....rules.entity import EntityRow
from ....schemas.encoding.cursor import Numbers
from ....schemas.topics import TopicNames
from .. import tables as file_tables
from ..events import FileMetadata, FileRecord, metadata_document
from ..rows import FileRecordRow, index_keys
from ..rules import record_document
from . import documents as file_documents
from .decoding import FileColumns
from .judging import days

RECORDS_TABLE: Final = "file_records"
_MARKED: Final[Any] = {name: mark(name) for name in FileMetadata._fields}
_METADATA_WITH_PATH: Final = Template(metadata_document(FileMetadata(**_MARKED | {"version": 0})))
_METADATA: Final = Template(metadata_document(FileMetadata(**_MARKED | {"version": 0, "path": None})))
_FILE: Final[Any] = {name: mark(name) for name in FileRecord._fields} | {"metadata": FileMetadata(**_MARKED)}
_RECORD: Final = Template(record_document(FileRecord(**_FILE)) | {"metadata": mark("metadata")})
_TIME_KEY, _WORK_KEY, _RANGE_KEY = map(
    Pattern, index_keys(cast(int, mark("bucket")), mark("where"), mark("what"), mark("id"), mark("work_id"))
)
_, _NO_WORK_KEY, _ = map(Pattern, index_keys(0, "", mark("what"), mark("id"), None))


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
        first, last = (int(self.ends[stop - 1]) if stop else 0 for stop in (begin, end))
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
        within_event: Numbers = np.arange(len(self.event)) - (self.ends - self.counts)[self.event]
        return within_event

    @cached_property
    def keys(self) -> pa.Table:
        """Tenant and URN of each file, and `key`, both as one text."""
        tenants = self._of_event([row.tenant for row, _ in self.examples], self.urns.type)
        key = pc.binary_join_element_wise(tenants, self.urns, "/")
        return pa.table({"tenant": tenants, "urn": self.urns, "key": key})

    @cached_property
    def metadata(self) -> pa.Array:
        """The source's document of each file. Source: `schemas.events.files.metadata_document`."""
        files, rows = self.files, [row for _, row in self.examples]
        texts = {
            "start": _number(files.start),
            "end": _number(files.end),
            "where": self._of_event([f'"{row.file_where}"' for row in rows]),
            "what": self._of_event([f'"{row.file_what}"' for row in rows]),
            "data_version": self._of_event([f'"{version}"' for version in self.data_versions]),
            "id": _quoted(files.id),
            "hash": _quoted(files.hash),
            "work_id": _quoted(files.work_id),
        }
        if files.path.null_count == len(files.path):
            return _METADATA.filled(texts)
        with_path = _METADATA_WITH_PATH.filled(texts | {"path": _quoted(files.path)})
        return (
            pc.if_else(files.path.is_valid(), with_path, _METADATA.filled(texts))
            if files.path.null_count
            else with_path
        )

    def _of_event(self, values: Sequence[str], kind: pa.DataType = TEXT) -> pa.Array:
        return pa.array(values, kind).take(pa.array(self.event))

    @property
    def newest_facts(self) -> Mapping[KeyOfFact, Any]:
        """Rules read no other rows of files than those of `entities`."""
        return {}

    def rows(self, table: str) -> pa.Table | None:
        """The rows of a history table; None for none."""
        made = {ENTITIES_TABLE: self.entities, RECORDS_TABLE: self.file_records}
        return made[table]() if table in made else None

    def entities(self) -> pa.Table:
        """Rows of the `entities` table, in the order of the files."""
        files = self.files
        record = _RECORD.filled(
            {
                "url": _quoted(files.url),
                "metadata": self.metadata,
                "size": _number(files.size),
                "created": _number(files.created),
            }
        )
        made = {"urn": self.urns, "name": files.id, "seq": pa.array(self.seq, pa.int32()), "record": record}
        shared = rows_to_arrow((row, self.place.domain, self.place.partition) for row, _ in self.examples)
        return filled(ENTITIES, shared, self.event, made)

    def file_records(self) -> pa.Table:
        """Rows of the `file_records` table, in the order of `lake.file_records`."""
        files = self.files
        start = files.start.to_numpy()
        file_days = days(start, pc.coalesce(files.end, files.start).to_numpy(), self.event)
        event = self.event[file_days.file]
        order = np.lexsort((file_days.seq, event, start[file_days.file], file_days.bucket))
        file, event = pa.array(file_days.file[order]), event[order]
        bucket, name, work_id = pa.array(file_days.bucket[order]), files.id.take(file), files.work_id.take(file)
        rows = [row for _, row in self.examples]
        what, where = (
            pa.array([getattr(row, of) for row in rows], TEXT).take(pa.array(event))
            for of in ("file_what", "file_where")
        )
        keys = {"bucket": text(bucket), "where": where, "what": what, "id": text(name), "work_id": text(work_id)}
        made = {
            "urn": self.urns.take(file),
            "bucket": bucket,
            "seq": pa.array(file_days.seq[order], pa.int32()),
            "file_id": name,
            "first_bucket": pa.array(file_days.first[order]),
            "start_ms": files.start.take(file),
            "end_ms": files.end.take(file),
            "created_ms": files.created.take(file),
            "size_bytes": files.size.take(file),
            "work_id": work_id,
            "url": files.url.take(file),
            "time_index_key": _TIME_KEY.filled(keys),
            "work_id_index_key": pc.coalesce(_WORK_KEY.filled(keys), _NO_WORK_KEY.filled(keys)),
            "range_key": _RANGE_KEY.filled(keys),
            "metadata": self.metadata.take(file),
        }
        shared = file_tables.unsorted((row, self.place.domain, self.place.partition) for row in rows)
        return filled(file_tables.FILE_RECORDS, shared, event, made)

    def documents(self, tables: Mapping[str, pa.Table], names: TopicNames) -> Iterator[DocumentColumns]:
        """What is published of the files.

        Args:
            tables: with their rows, as `entities` gives them.
        """
        entities = tables[ENTITIES_TABLE]
        starts = [0, *self.ends.tolist()]
        for number, (row, _) in enumerate(self.examples):
            rows = entities.slice(starts[number], starts[number + 1] - starts[number])
            columns = file_documents.records_of_new(self.place, row, rows, names)
            assert columns is not None  # a plain event's texts are no marks
            yield from columns

    def named(self) -> pa.ListArray:
        """The entities of each event's header, as the journal table has them."""
        return pa.ListArray.from_arrays(pa.array([0, *self.ends.tolist()], pa.int32()), self.urns)


def _number(numbers: pa.Array) -> pa.Array:
    return pc.fill_null(text(numbers), "null")


def _quoted(texts: pa.Array) -> pa.Array:
    """Plain texts as JSON has them, null among them."""
    return pc.fill_null(joined('"', text(texts), '"'), "null")
