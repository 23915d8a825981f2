"""Why a table's log cannot be read, as an error that says so; and where the files of a table are.

Every engine has its own words for a damaged file, and some name no file. So it is not the words that are read: after a
failure the log's files are looked at, first whether they are there, then what stands in them.
Whoever opens a table with delta-rs does so in an `opening` block.
Source: Delta transaction log protocol, "Delta Log Entries" and "Checkpoints".
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ...schemas.errors import DamagedTableError
from ..columns import JOURNAL_TABLE
from .faults import as_read_error, asking, is_delta_error
from .store import is_store, store_files

GONE, CUT_SHORT, NOT_READABLE = "gone", "cut short", "not readable"
LOG: Final = "_delta_log"
COMMIT: Final = re.compile(r"(\d{20})\.json")
CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
HINT: Final = "_last_checkpoint"
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN, errno.ETIMEDOUT})
"""Errors of a process or a network that say nothing of a file."""
_BATCH_ROWS: Final = 1_024
_SHOWN: Final = 300

_REBUILD: Final = (
    "`metajournal rebuild lake` rebuilds the history tables from the journal table; the stream may keep running."
)
_REBUILD_JOURNAL: Final = (
    "`metajournal rebuild lake --from kafka` rebuilds all tables from the journal topics; the stream may keep "
    "running. Or restore the file from a copy of the lake."
)
_RESTORE_JOURNAL: Final = (
    "Restore the file from a copy of the lake. Without one, stop the stream, move the lake's folder away and start "
    "the stream again: it folds the journal topics from the beginning into a new lake."
)


class NoTableError(Exception):
    """No table stands at a place: nothing was ever committed there."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"there is no table at {uri}")
        self.uri = uri


@contextmanager
def opening(uri: str, storage_options: Mapping[str, str]) -> Iterator[None]:
    """Open a table: read its log.

    Raises:
        DamagedTableError: a file of the log is damaged.
        NoTableError: there is no table.
    """
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or is_delta_error(error)):
            raise
        if type(error).__name__ == "TableNotFoundError":
            raise NoTableError(uri) from error
        if away := as_read_error(error, uri):
            raise away from error
        if isinstance(error, OSError):
            raise
        damage = damage_of_log(uri, storage_options, str(error))
        if damage is None:
            raise
        raise damage from error


def damage_of_log(uri: str, storage_options: Mapping[str, str], cause: str) -> DamagedTableError | None:
    """What is wrong with a log that cannot be read; None where that may be the store's fault.

    Args:
        cause: what reading it failed with.
    """
    folder = local_folder_of(uri)
    files = _files(uri, folder, storage_options)
    try:
        infos = files.get_file_info(pafs.FileSelector(LOG))
        wrong = next(
            _faults_of_log(files, {info.base_name: info.size for info in infos}, local=folder is not None), None
        )
    except OSError:
        return None
    if wrong is None:
        return None if folder is None else damage_at(uri, LOG, NOT_READABLE, cause)
    return damage_at(uri, f"{LOG}/{wrong[0]}", wrong[1], cause)


def has_log(uri: str, storage_options: Mapping[str, str]) -> bool:
    """Whether there is a table, be it damaged. Raises: UnavailableError: the store does not answer."""
    with asking(uri):
        infos = files_below(uri, storage_options).get_file_info(pafs.FileSelector(LOG, allow_not_found=True))
    return any(COMMIT.fullmatch(info.base_name) or CHECKPOINT.fullmatch(info.base_name) for info in infos)


def empty_commit(uri: str) -> DamagedTableError | None:
    """The error of a local log with a commit that is an empty file, as a power failure may leave it.

    delta-rs reads such a commit as one that adds nothing, so rows would be missing without a word. What stands in the
    newest checkpoint is not read from the commits before it.
    """
    folder = local_folder_of(uri)
    if folder is None:
        return None
    log = Path(folder) / LOG
    with os.scandir(log) as entries:  # a tenth of what `Path.iterdir` takes: a log has hundreds of files
        names = [entry.name for entry in entries]
    newest = max((match[1] for match in map(CHECKPOINT.fullmatch, names) if match), default="")
    commits = [match[0] for match in map(COMMIT.fullmatch, names) if match and match[1] > newest]
    empty = [name for name in sorted(commits) if not (log / name).stat().st_size]
    return damage_at(uri, f"{LOG}/{empty[0]}", CUT_SHORT) if empty else None


def missing(uri: str) -> DamagedTableError:
    """The error of a table that is gone as a whole."""
    return damage_at(uri, LOG, GONE)


def local_folder_of(uri: str) -> str | None:
    """The folder of a table on this machine; None where it is in a store."""
    if not is_store(uri):
        return uri.rstrip("/")
    parts = urlsplit(uri)
    return unquote(parts.path).rstrip("/") if parts.scheme == "file" else None


def place_of(uri: str) -> str:
    """Where a table is, written in one way however it was named."""
    folder = local_folder_of(uri)
    return uri.rstrip("/") if folder is None else os.path.realpath(folder)


def damage_at(uri: str, file: str, problem: str, cause: str = "") -> DamagedTableError:
    place = place_of(uri)
    table = place.rpartition("/")[2]
    hint = _REBUILD
    if table == JOURNAL_TABLE:
        hint = _RESTORE_JOURNAL if file.startswith(LOG) else _REBUILD_JOURNAL
    return DamagedTableError(table, place, file, problem, cause=cause[:_SHOWN], hint=hint)


def files_below(uri: str, storage_options: Mapping[str, str]) -> Any:
    """The files of a table (a filesystem of pyarrow), by their paths relative to its folder."""
    return _files(uri, local_folder_of(uri), storage_options)


def _files(uri: str, folder: str | None, storage_options: Mapping[str, str] | None) -> Any:
    """The files of a table, by their paths relative to its folder."""
    if folder is not None:
        return pafs.SubTreeFileSystem(folder, pafs.LocalFileSystem())
    return store_files(uri, storage_options)


def unreadable(files: Any, name: str, *, local: bool) -> str:
    """Why a Parquet file cannot be read, all of it; empty where it can be, or where that is not the file's fault."""
    try:
        with files.open_input_file(name) as source, pq.ParquetFile(source, pre_buffer=False) as parquet:
            for _ in parquet.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
                pass
    except (pa.ArrowException, OSError) as error:
        is_passing = isinstance(error, MemoryError) or getattr(error, "errno", None) in _PASSING
        of_store = not local and "Generic " in str(error)
        return "" if is_passing or of_store else f"{type(error).__name__}: {error}"
    return ""


def _faults_of_log(files: Any, sizes: Mapping[str, int], *, local: bool) -> Iterator[tuple[str, str]]:
    """Names of a log's files with what is wrong with them: the newest checkpoint, then every commit behind it."""
    hinted = last_checkpoint(files) if HINT in sizes else None
    checkpoints = {int(match[1]): match[0] for match in map(CHECKPOINT.fullmatch, sizes) if match}
    newest = max(checkpoints, default=-1)
    if hinted is not None and hinted > newest:
        yield f"{hinted:020}.checkpoint.parquet", GONE
    if newest >= 0:
        name = checkpoints[newest]
        if unreadable(files, f"{LOG}/{name}", local=local):
            yield name, NOT_READABLE if _ends_with(files, f"{LOG}/{name}", b"PAR1") else CUT_SHORT
    commits = {int(match[1]): match[0] for match in map(COMMIT.fullmatch, sizes) if match}
    for version in range(newest + 1, max(commits, default=-1) + 1):
        if version not in commits:
            yield f"{version:020}.json", GONE
        elif not _is_commit(files, f"{LOG}/{commits[version]}"):
            yield commits[version], NOT_READABLE if _ends_with(files, f"{LOG}/{commits[version]}", b"}") else CUT_SHORT


def last_checkpoint(files: Any) -> int | None:
    """The version of the checkpoint that the log says is its last one."""
    try:
        with files.open_input_file(f"{LOG}/{HINT}") as source:
            return int(json.loads(source.read())["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None  # a reader does without the hint


def _is_commit(files: Any, path: str) -> bool:
    try:
        with files.open_input_file(path) as source:
            actions = [json.loads(line) for line in source.read().splitlines() if line.strip()]
    except ValueError:
        return False
    return bool(actions) and all(isinstance(action, dict) for action in actions)


def _ends_with(files: Any, path: str, end: bytes) -> bool:
    with files.open_input_file(path) as source:
        return bool(source.read().rstrip().endswith(end))
