"""The files of an object store, by their paths relative to a URL: each read and write that delta-rs does not do itself.

delta-rs commits; what stands beside its commits (our own Parquet files, staged records, the pointer, requests) passes
here, with the same client and the same options, so one set of settings reaches everything.
Invariants: putting an object replaces it as a whole; an object that is not there is a FileNotFoundError, and a store
that does not answer is another OSError, never a missing object.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

_CLIENTS = 64


def is_store(uri: str) -> bool:
    """Whether a path of a lake or a table names an object store, and no folder."""
    return "://" in uri


def store_files(uri: str, storage_options: Mapping[str, str] | None) -> Any:
    """The files below a URL, as a filesystem of pyarrow; asked again it is the same one, with its open connections.

    Args:
        uri: of a lake or a table.
        storage_options: of the store, as delta-rs names them.
    """
    return _files(os.getpid(), uri.rstrip("/"), tuple(sorted((storage_options or {}).items())))


def read_object(files: Any, name: str) -> bytes | None:
    """A whole object; None where there is none. One request fewer than to ask first whether it is there."""
    try:
        with files.open_input_stream(name) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None


def replace_object(files: Any, name: str, content: bytes) -> None:
    """Put an object, in the place of an earlier one."""
    with files.open_output_stream(name) as stream:
        stream.write(content)


def delete_object(files: Any, name: str) -> None:
    """Delete an object, if it is there."""
    with suppress(FileNotFoundError):
        files.delete_file(name)


def delete_below(files: Any, folder: str) -> None:
    """Delete all objects whose names begin with a folder's."""
    for info in files.get_file_info(pafs.FileSelector(folder, allow_not_found=True, recursive=True)):
        if info.type == pafs.FileType.File:
            delete_object(files, info.path)


@lru_cache(maxsize=_CLIENTS)
def _files(_process: int, uri: str, options: tuple[tuple[str, str], ...]) -> Any:
    """One client a place and process: no connection outlives a fork."""
    from deltalake.fs import DeltaStorageHandler

    class Handler(DeltaStorageHandler):
        """delta-rs's own takes bytes alone, and pyarrow writes buffers."""

        def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
            return pa.PythonFile(_Upload(self._handler.open_output_stream(path, metadata)), mode="w")

    return pafs.PyFileSystem(Handler(uri, dict(options)))


class _Upload:
    """An object that is being written; it comes to be when this is closed."""

    def __init__(self, upload: Any) -> None:
        self._upload = upload
        self._size_bytes = 0
        self.closed = False

    def write(self, content: Any) -> int:
        piece = bytes(content)
        self._upload.write(piece)
        self._size_bytes += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size_bytes

    def flush(self) -> None:
        """Nothing is there before the end."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._upload.close()
