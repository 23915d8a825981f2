"""The files of the running Python environment as records of archived files: size, time and content hash of each.

A file that a distribution's RECORD names is `file:python/<distribution>/<id>`: it starts when it was last written, and
its id follows from its absolute path alone, so that whoever records the same environment again changes nothing.

Left to whom: what is installed `python_environment` reads; sending is the caller's. Invariant: a file that is not
there, cannot be read or has a name that no record can hold is left out; it never ends the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from ..domains.files.events import FileMetadata, FileRecord, file_faults
from ..domains.files.recording import HASH_BYTES, content_hash
from ..schemas.errors import InputError
from .python_environment import Installed

WHERE: Final = "python"
_LONGEST_WHAT: Final = 200
_THREADS: Final = 2
_AT_ONCE: Final = 256


class FileOf(NamedTuple):
    """A file that a distribution has, before it is read."""

    what: str
    path: str


def files_of(installed: Iterable[Installed]) -> list[FileOf]:
    """Every file that is there, by distribution and path; each once in a distribution."""
    return [FileOf(what_of(dist.canonical), path) for dist in installed for path in sorted(_paths(dist))]


def what_of(canonical: str) -> str:
    """A distribution's name as the `what` of its files, `[a-z0-9_-]+`."""
    return re.sub(r"[^a-z0-9_-]+", "-", canonical).strip("-")[:_LONGEST_WHAT] or "unnamed"


def file_id(path: str) -> str:
    """The id of a file, from its path alone: 32 hex digits."""
    return blake2b(os.fsencode(path), digest_size=HASH_BYTES).hexdigest()


def read_files(files: Iterable[FileOf]) -> Iterator[FileRecord]:
    """The records of files, in their order; some are read at a time, for hashing leaves the interpreter free."""
    waiting = list(files)
    with ThreadPoolExecutor(_THREADS) as pool:
        for begin in range(0, len(waiting), _AT_ONCE):
            yield from filter(None, pool.map(_read, waiting[begin : begin + _AT_ONCE]))


def _paths(dist: Installed) -> set[str]:
    """Absolute paths; links are not followed, so that a file is called what its distribution calls it."""
    paths = set()
    for named in dist.record:
        try:
            path = os.path.abspath(str(dist.distribution.locate_file(named)))  # noqa: PTH100  (resolve follows links)
            if Path(path).is_file():
                paths.add(path)
        except (OSError, ValueError):  # no system can hold such a name
            continue
    return paths


def _read(file: FileOf) -> FileRecord | None:
    try:
        about = Path(file.path).stat()
        digest = content_hash(file.path)
        url = Path(file.path).as_uri()
    except (OSError, ValueError, InputError):
        return None
    metadata = FileMetadata(
        version=0, start=about.st_mtime_ns // 1_000_000, end=None, where=WHERE, what=file.what, data_version="0",
        id=file_id(file.path), hash=digest, path=file.path,
    )  # fmt: skip
    record = FileRecord(url, metadata, about.st_size)
    return None if file_faults("", record) else record
