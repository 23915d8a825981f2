"""Records that wait to be published: written by the task that folded them, read by the task that publishes them.

One Arrow IPC file for each journal partition of a wide batch, beside the lake, in the order of publishing; gone when
the batch is done. A file that a crash left behind is never read again, since every batch has a folder of its own.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from .publish import Outgoing

FOLDER = "_staging"
_ROWS_PER_BATCH = 8_192
_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("journal_partition", pa.int32()),
        pa.field("key", pa.large_binary()),
        pa.field("value", pa.large_binary()),
        pa.field("time_ms", pa.int64()),
        pa.field("header_names", pa.list_(pa.string())),
        pa.field("header_values", pa.list_(pa.large_binary())),
    ]
)
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


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
            for batch in reader:
                yield from _from_arrow(batch)

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
        return "://" not in self.root

    def _store(self) -> Any:
        from deltalake.fs import DeltaStorageHandler

        return pa.fs.PyFileSystem(DeltaStorageHandler(self.root, self._options))

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
        store = self._store()
        for one in store.get_file_info(pa.fs.FileSelector(folder, allow_not_found=True, recursive=True)):
            if one.type == pa.fs.FileType.File:
                store.delete_file(one.path)


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
        while some := list(islice(rest, _ROWS_PER_BATCH)):
            if self._writer is None:
                self._sink = self._begin()
                self._writer = pa.ipc.new_stream(self._sink, _SCHEMA, options=_OPTIONS)
            self._writer.write_table(_to_arrow(some))
            self._count += len(some)

    def close(self) -> int:
        """Finish the file; gives the number of its records."""
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
        return self._count


def _to_arrow(records: list[Outgoing]) -> pa.Table:
    offsets, names, values = [0], [], []
    for one in records:
        for name, value in one.headers:
            names.append(name)
            values.append(value)
        offsets.append(len(names))
    at = pa.array(offsets, pa.int32())
    columns = [
        pa.array([one.topic for one in records], pa.string()),
        pa.array([one.journal_partition for one in records], pa.int32()),
        pa.array([one.key for one in records], pa.large_binary()),
        pa.array([one.value for one in records], pa.large_binary()),
        pa.array([one.time_ms for one in records], pa.int64()),
        pa.ListArray.from_arrays(at, pa.array(names, pa.string())),
        pa.ListArray.from_arrays(at, pa.array(values, pa.large_binary())),
    ]
    return pa.table(columns, schema=_SCHEMA)


def _from_arrow(batch: pa.RecordBatch) -> Iterator[Outgoing]:
    topics, partitions, keys, values, times, names, contents = (column.to_pylist() for column in batch.columns)
    for at, topic in enumerate(topics):
        headers = list(zip(names[at], contents[at], strict=True))
        yield Outgoing(topic, partitions[at], keys[at], values[at], headers, times[at])
