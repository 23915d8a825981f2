"""Why a read of the lake failed: a table's file that is gone, cut short or not readable, as an error that says so.

Every engine has its own words for a damaged file, and some name no file. So it is not the words that are read: after a
failure the files are looked at, first whether they are there and as long as the table's log says, then what stands in
them. Where all of them are whole, the failure was another one and is raised as it is.
Whoever reads files does so in a `reading` block.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar
from urllib.parse import unquote

import pyarrow.fs as pafs

from ...schemas.errors import DamagedTableError, MetajournalError, StaleReadError, UnavailableError
from ..views.log import TableLog
from ..views.table import Readable, TableView, frozen
from .faults import as_read_error
from .log_damage import (
    CUT_SHORT,
    GONE,
    LOG,
    NOT_READABLE,
    NoTableError,
    damage_at,
    files_below,
    local_folder_of,
    unreadable,
)  # fmt: skip

_P = ParamSpec("_P")
_R = TypeVar("_R")


@contextmanager
def reading(table: Readable, paths: Sequence[str] | None = None) -> Iterator[None]:
    """Read files of one table.

    Args:
        table: a handle; its version is the one that is read.
        paths: relative to the table's folder and in URL form; None: all files of that version.
    Raises:
        DamagedTableError: one of the files is damaged.
        StaleReadError: one is gone, and rightly so: the newest version does without it.
    """
    with reading_all([(table, paths)]):
        yield


@contextmanager
def reading_all(read: Sequence[tuple[Readable, Sequence[str] | None]]) -> Iterator[None]:
    """The same of several tables, each with its paths; some may be added while the block runs."""
    try:
        yield
    except MetajournalError:
        raise
    except Exception as error:
        for table, _ in read:
            if away := as_read_error(error, frozen(table).uri):
                raise away from error
        for table, paths in read:
            for damage in damages(table, paths):
                if damage.problem == GONE and not _is_live(frozen(table), damage.file):
                    raise StaleReadError(damage.table, damage.file) from error
                raise damage from error
        raise


def damages(table: Readable, paths: Sequence[str] | None = None) -> Iterator[DamagedTableError]:
    """What is wrong with some files of a table: what their lengths tell first, then what reading them tells.

    Args:
        table, paths: as of `reading`.
    """
    view = frozen(table)
    folder = local_folder(view)
    files = files_below(view.uri, view.storage_options)
    rest = []
    for path, size_bytes in _sizes(view, paths).items():
        info = files.get_file_info(unquote(path))
        if info.type == pafs.FileType.NotFound:
            yield damage_at(view.uri, unquote(path), GONE)
        elif size_bytes is not None and info.size < size_bytes:
            cause = f"{info.size:,} bytes of {size_bytes:,}"
            yield damage_at(view.uri, unquote(path), CUT_SHORT, cause)
        else:
            rest.append(unquote(path))
    for name in rest:
        if cause := unreadable(files, name, local=folder is not None):
            yield damage_at(view.uri, name, NOT_READABLE, cause)


def is_mended(error: DamagedTableError, storage_options: Mapping[str, str]) -> bool:
    """Whether the damaged file is whole again, or its table does without it now."""
    try:
        table = TableLog("", error.uri, storage_options).look()
        if error.file.startswith(LOG):
            return True
        named = [path for path in _sizes(table, None) if unquote(path) == error.file]
        return next(damages(table, named), None) is None
    except (DamagedTableError, NoTableError, UnavailableError, OSError):
        return False


def asked_again(ask: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have a question that looks at the tables anew each time asked once more where its view was stale."""

    @functools.wraps(ask)
    def ask_again(*args: _P.args, **given: _P.kwargs) -> _R:
        try:
            return ask(*args, **given)
        except StaleReadError:
            return ask(*args, **given)

    return ask_again


def local_folder(table: Readable) -> str | None:
    """The folder of a table on this machine; None where it is in a store."""
    return local_folder_of(table.uri if isinstance(table, TableView) else table.table_uri)


def _sizes(table: TableView, paths: Sequence[str] | None) -> dict[str, int | None]:
    """How long files must be, by the table's log; None where it does not name them."""
    sizes = dict(zip(table.files["path"].to_pylist(), table.files["size_bytes"].to_pylist(), strict=True))
    return {path: sizes.get(path) for path in (sizes if paths is None else paths)}


def _is_live(table: TableView, name: str) -> bool:
    """Whether the newest version of a table has a file."""
    try:
        newest = TableLog("", table.uri, table.storage_options).look()
    except NoTableError:
        return False
    except (DamagedTableError, UnavailableError, OSError):
        return True
    return name in map(unquote, _sizes(newest, None))
