"""Records that wait to be published: written by the task that folded them, read by the task that publishes them.

One file for each journal partition of a wide batch, beside the lake, in the order of publishing; gone when the batch
is done. A file that a crash left behind is never read again, since every batch has a folder of its own. Documents are
kept without their headers, which follow from a few columns; two records of every event pass here.
"""

from __future__ import annotations

import marshal
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from ..fold.documents import DocumentColumns, Documents, Outgoing, headers_of, headers_of_many
from ..fold.records import bytes_of_array
from ..lake.storage.store import delete_below, is_store, store_files

FOLDER = "_staging"
_new = tuple.__new__  # past the class's own slower constructor
_RECORDS_PER_BLOCK = 4_096
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("journal_partition", pa.int32()),
        pa.field("key", pa.large_binary()),
        pa.field("value", pa.large_binary()),
        pa.field("time_ms", pa.int64()),
        pa.field("source", pa.string()),  # the journal topic of a document; null for any other record
        pa.field("identity", pa.large_binary()),
        pa.field("type", pa.string()),
        pa.field("headers", pa.large_binary()),  # of any other record, as marshal spells them
    ]
)


class Staging:
    """The folder of one batch's staged records.

    Args:
        root: the lake's path or URI; every task must reach it.
        storage_options: options of an object store.
        name: of a batch; a new one where None.
    """

    def __init__(self, root: str, storage_options: Mapping[str, str] | None = None, name: str | None = None) -> None:
        self.root = root.rstrip("/")
        self.name = name or uuid.uuid4().hex
        self._options = dict(storage_options or {})

    def writer(self, file: str) -> StagedFile:
        """A file to write records to, bit by bit."""
        return StagedFile(lambda: self._output(file))

    def write(self, file: str, records: Iterable[Outgoing]) -> int:
        """Write records as one file; gives their number, and writes no file where there is none."""
        writer = self.writer(file)
        writer.write(records)
        return writer.close()

    def read(self, file: str) -> Iterator[Outgoing]:
        """The records of a file, in their order."""
        with self._input(file) as source, pa.ipc.open_stream(source) as reader:
            yield from chain.from_iterable(map(_records, reader))

    def clear(self) -> None:
        """Remove this batch's folder."""
        self._remove(f"{FOLDER}/{self.name}")

    def clear_all(self) -> None:
        """Remove what earlier runs left behind; only where no other stream works on this lake."""
        self._remove(FOLDER)

    def _path(self, file: str) -> str:
        return f"{FOLDER}/{self.name}/{file}"

    @property
    def _local(self) -> bool:
        return not is_store(self.root)

    def _store(self) -> Any:
        return store_files(self.root, self._options)

    def _output(self, file: str) -> Any:
        if not self._local:
            return self._store().open_output_stream(self._path(file))
        target = Path(self.root) / self._path(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(str(target), "wb")

    def _input(self, file: str) -> Any:
        if not self._local:
            return self._store().open_input_stream(self._path(file))
        return pa.OSFile(str(Path(self.root) / self._path(file)), "rb")

    def _remove(self, folder: str) -> None:
        if self._local:
            shutil.rmtree(Path(self.root) / folder, ignore_errors=True)
            return
        delete_below(self._store(), folder)


class StagedFile:
    """One file of staged records; it comes to be with the first one."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._sink: Any = None
        self._writer: Any = None
        self._count = 0

    def write(self, records: Iterable[Outgoing]) -> None:
        """Add records, in the order in which they shall be published."""
        rest = iter(records)
        while some := list(islice(rest, _RECORDS_PER_BLOCK)):
            topics, partitions, keys, values, headers, times = zip(*some, strict=True)
            spelled = [marshal.dumps(record_headers) for record_headers in headers]
            self._write(
                (topics, partitions, keys, values, times, [None] * len(some), [None] * len(some), None, spelled)
            )

    def write_documents(self, documents: Documents) -> None:
        """Add the documents of one journal partition, in their order."""
        place = documents.place
        for start in range(0, len(documents.records), _RECORDS_PER_BLOCK):
            part = documents.records[start : start + _RECORDS_PER_BLOCK]
            count = len(part)
            topics, types, keys, values, ids, times = zip(*part, strict=True)
            columns = (topics, [place.partition] * count, keys, values, times, [place.topic] * count, ids, types, None)
            self._write(columns)

    def write_columns(self, columns: DocumentColumns) -> None:
        """Add records that are columns already."""
        count = len(columns.keys)
        if not count:
            return
        keys, values, ids = (
            column.cast(pa.large_binary()) for column in (columns.keys, columns.values, columns.identities)
        )
        place = columns.place
        self._write(
            (
                _repeated(columns.topic, pa.string(), count),
                _repeated(place.partition, pa.int32(), count),
                keys,
                values,
                _repeated(columns.time_ms, pa.int64(), count),
                _repeated(place.topic, pa.string(), count),
                ids,
                _repeated(columns.type, pa.string(), count),
                None,
            )
        )

    def _write(self, columns: Sequence[Any]) -> None:
        if self._writer is None:
            self._sink = self._begin()
            self._writer = pa.ipc.new_stream(self._sink, _SCHEMA, options=_OPTIONS)
        count = len(columns[0])
        arrays = [
            column if isinstance(column, pa.Array) else _array(column, field.type, count)
            for field, column in zip(_SCHEMA, columns, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=_SCHEMA))
        self._count += count

    def close(self) -> int:
        """Finish the file; gives the number of its records."""
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
        return self._count

    def abandon(self) -> None:
        """Let go of the file without finishing it."""
        if self._sink is not None:
            with suppress(OSError):
                self._sink.close()


def _array(column: Sequence[Any] | None, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if column is None else pa.array(column, kind)


def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """A column that is the same for all records, or is told for each."""
    return value if isinstance(value, pa.Array) else pa.repeat(pa.scalar(value, kind), count)


def _records(batch: pa.RecordBatch) -> Iterable[Outgoing]:
    topics, partitions, keys, values, times, sources, ids, types, others = batch.columns
    if sources.null_count:
        headers = [marshal.loads(text) for text in others.to_pylist()]
        given = (column.to_pylist() for column in (topics, partitions, keys, values))
        return map(Outgoing, *given, headers, times.to_pylist())
    texts, names, identities = (cast(list[bytes], bytes_of_array(column)) for column in (values, keys, ids))
    shared: Any = topics, partitions, times, sources, types
    if all(len(pc.unique(column)) == 1 for column in shared):
        topic, partition, time_ms, source, kind = (column[0].as_py() for column in shared)
        headers = headers_of_many(source, partition, identities, kind, names, time_ms)
        columns: Any = repeat(topic), repeat(partition), names, texts, headers, repeat(time_ms)
    else:
        topic, partition, time_ms, source, kind = (column.to_pylist() for column in shared)
        headers = list(map(headers_of, source, partition, identities, kind, names, time_ms))
        columns = topic, partition, names, texts, headers, time_ms
    return map(_new, repeat(Outgoing), zip(*columns))  # noqa: B905  (what is repeated has no end)
