"""Records that wait to be published: written by the task that folded them, read by the task that publishes them.

One file for each journal partition of a wide batch, beside the lake, in the order of publishing; gone when the batch
is done. A file that a crash left behind is never read again, since every batch has a folder of its own. Both ends are
this version of this package on one version of Python, so the records stand there as Python's own values (marshal,
compressed in blocks): a third of what a column for each header costs, for two records of every event.
"""

from __future__ import annotations

import marshal
import shutil
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from .publish import Outgoing

FOLDER = "_staging"
_RECORDS_PER_BLOCK = 4_096
_CODEC = "lz4"
_SIZES = struct.Struct("<QQ")
"""Before each block: its size in bytes, and that of what it unfolds to."""


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
        with self._input(file) as source:
            while sizes := source.read(_SIZES.size):
                packed, size = _SIZES.unpack(sizes)
                block = pa.decompress(source.read(packed), decompressed_size=size, codec=_CODEC, asbytes=True)
                yield from map(Outgoing._make, marshal.loads(block))

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
        self._count = 0

    def write(self, records: Iterable[Outgoing]) -> None:
        """Add records, in the order in which they shall be published."""
        rest = iter(records)
        while some := list(map(tuple, islice(rest, _RECORDS_PER_BLOCK))):
            if self._sink is None:
                self._sink = self._begin()
            block = marshal.dumps(some)
            packed = pa.compress(block, codec=_CODEC, asbytes=True)
            self._sink.write(_SIZES.pack(len(packed), len(block)))
            self._sink.write(packed)
            self._count += len(some)

    def close(self) -> int:
        """Finish the file; gives the number of its records."""
        if self._sink is not None:
            self._sink.close()
        return self._count
