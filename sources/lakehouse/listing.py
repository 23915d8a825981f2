"""Lists a lakehouse folder by folder and says what each is: a table with a log of its own, or data files.

Below a Delta or Iceberg table nothing is listed. Hidden and temporary files are left out: names that begin with `_` or
`.` (but `_column=value`), and those that copies in progress have. A link to nothing, and a folder with nothing in it,
may stand for a disk that is not mounted: what was known below them is not gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from pyarrow import fs

from ..beside import threads
from ..found import Problem, Progress
from ..source import SourceError, Tell
from .places import Place

PARQUET: Final = "parquet"
CSV: Final = "csv"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
_LOG: Final = "_delta_log"
_METADATA: Final = "metadata"
HINT: Final = "version-hint.text"
_ICEBERG_FILE: Final = re.compile(r".*\.metadata\.json(\.gz)?|.*\.gz\.metadata\.json")
_DATA: Final = re.compile(r".*\.(?:(parquet|parq|pq)|(?:csv|tsv)(?:\.(?:gz|bz2|zst))?)", re.IGNORECASE)
_TEMPORARY: Final = re.compile(r".*(\.crc|\.tmp|\.temp|\.inprogress|\.pending|\.part|\._COPYING_)", re.IGNORECASE)
_HIVE: Final = re.compile(r"([^/=]+)=([^/]*)")
BESIDE: Final = 16
"""Requests to a store at a time."""
_LINK: Final = "it is a link to something that does not exist"
_Entries = dict[str, Any]
"""pyarrow's `FileInfo` of each entry of a folder, by its name; None: a link to something that does not exist."""


class DataFile(NamedTuple):
    """A data file.

    Attributes:
        path: in its file system.
        changed: when it was written; None: the store does not say.
    """

    path: str
    size_bytes: int
    changed: datetime | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(slots=True)
class Group:
    """The data files of one format below a folder and its partitions.

    Attributes:
        columns: the partition columns, outermost first, of every way of partitioning that occurs.
        partitions: the folders of partitions that hold files.
    """

    folder: str
    format: str
    files: list[DataFile] = field(default_factory=list)
    columns: set[tuple[str, ...]] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)

    @property
    def is_partitioned(self) -> bool:
        """Whether it has partitions."""
        return any(self.columns)


class Logged(NamedTuple):
    """A table that tells of itself by a log: its folder, its format, and of Iceberg its metadata files."""

    folder: str
    format: str
    files: tuple[DataFile, ...] = ()


class Listing:
    """Lists a place.

    Args:
        exclude: patterns of paths below the place to leave out.
    Raises:
        SourceError, SourceUnavailableError: as `Place.fail`; or the place is empty.
    """

    def __init__(self, place: Place, store: fs.FileSystem, exclude: Iterable[str] = ()) -> None:
        self.problems: list[Problem] = []
        self.logged: list[Logged] = []
        self.unsure: list[str] = []
        """Folders of which a part could not be listed."""
        self.empty: set[str] = set()
        """Folders with nothing in them."""
        self._place = place
        self._store = store
        self._exclude = tuple(exclude)
        self._groups: dict[tuple[str, str], Group] = {}

    @property
    def groups(self) -> list[Group]:
        """The data files outside of tables with a log, by folder."""
        return [self._groups[key] for key in sorted(self._groups)]

    def run(self, tell: Tell) -> None:
        """List everything."""
        folders, done = [self._place.path], 0
        with threads(BESIDE) as beside:
            while folders:
                further: list[str] = []
                for folder, entries in zip(folders, beside.map(self._listed, folders), strict=True):
                    done += 1
                    if done % BESIDE == 0:
                        tell(Progress("list folders", done))
                    further += self._sorted(folder, entries)
                folders = further
        tell(Progress("list folders", done))

    def _listed(self, folder: str) -> _Entries | Problem:
        is_root = folder == self._place.path
        try:
            infos = self._store.get_file_info(fs.FileSelector(folder or "", recursive=False))
            entries = {info.base_name: info for info in infos}  # a name that is not UTF-8 is an error, too
            entries |= dict.fromkeys(self._broken_links(folder) - entries.keys())  # which pyarrow omits
        except (OSError, ValueError) as error:
            if is_root or self._place.is_broken(error):
                self._place.fail(error)
            return Problem(self.below(folder), self._place.reason(error))
        if is_root and not entries:
            raise SourceError(
                f"{self._place.shown} is empty; nothing was changed.",
                code="source-not-found",
                hint="Check the path, and that what it stands for is mounted.",
            )
        return entries

    def _sorted(self, folder: str, entries: _Entries | Problem) -> Iterator[str]:
        """Note what a folder holds; gives the folders in it that are to be listed."""
        if isinstance(entries, Problem):
            self.problems.append(entries)
            self.unsure.append(folder)
            return
        if not entries:
            self.empty.add(folder)
            return
        for name in (_LOG, _METADATA):
            if _is_broken_link(name, entries) and not self._is_left_out(f"{folder}/{name}"):
                self._note_broken_link(folder, name)
                self.unsure.append(folder)  # whether it is a table is not known
                return
        if _is_folder(entries.get(_LOG)):
            self.logged.append(Logged(folder, DELTA))
            return
        if _is_folder(entries.get(_METADATA)):
            files = self._iceberg(entries[_METADATA].path)
            if files:
                self.logged.append(Logged(folder, ICEBERG, files))
            if files or files is None:
                return
        for name, info in sorted(entries.items(), key=_name_of):
            path = f"{folder}/{name}" if info is None else info.path.rstrip("/")
            if _is_hidden(name) or self._is_left_out(path):
                continue
            if info is None:
                self._note_broken_link(folder, name)
            elif info.type == fs.FileType.Directory:
                if not self._is_loop(path):
                    yield path
            elif info.type == fs.FileType.File and (kind := format_of(name)):
                self._add(DataFile(path, info.size or 0, info.mtime), kind)

    def _iceberg(self, folder: str) -> tuple[DataFile, ...] | None:
        """The metadata files of an Iceberg table, and its hint of the version; none: it is no such table.

        None: that cannot be known, as the folder cannot be listed.
        """
        entries = self._listed(folder)
        if isinstance(entries, Problem):
            self.problems.append(entries)
            self.unsure.append(folder.rpartition("/")[0])
            return None
        broken = [name for name in entries if _is_broken_link(name, entries) and _is_of_iceberg(name)]
        if broken:
            for name in broken:
                self._note_broken_link(folder, name)
            self.unsure.append(folder.rpartition("/")[0])
            return None
        files = {name: info for name, info in entries.items() if _is_file(info)}
        if not any(map(_ICEBERG_FILE.fullmatch, files)):
            return ()
        return tuple(
            DataFile(info.path, info.size or 0, info.mtime) for name, info in files.items() if _is_of_iceberg(name)
        )

    def _add(self, file: DataFile, kind: str) -> None:
        folder, partitions = split(file.path.rpartition("/")[0], self._place.path)
        group = self._groups.setdefault((folder, kind), Group(folder, kind))
        group.files.append(file)
        group.columns.add(tuple(column for column, _ in partitions))
        group.partitions.add(file.path.rpartition("/")[0])

    def below(self, path: str) -> str:
        """A path below the place, for people."""
        return path.removeprefix(self._place.path).strip("/") or self._place.shown

    def _is_left_out(self, path: str) -> bool:
        below = self.below(path)
        return any(fnmatchcase(below, pattern) for pattern in self._exclude)

    def _broken_links(self, folder: str) -> set[str]:
        """The names of links in a folder of this machine that lead to nothing."""
        if not self._place.is_local:
            return set()
        with os.scandir(folder or "/") as entries:
            return {entry.name for entry in entries if entry.is_symlink() and not Path(entry.path).exists()}

    def _note_broken_link(self, folder: str, name: str) -> None:
        """What it led to may be a file of this folder, or a folder of any tables."""
        path = f"{folder}/{name}".encode("utf-8", "replace").decode()
        self.problems.append(Problem(self.below(path)[:200], _LINK))
        self.unsure.append(folder if format_of(name) else path)

    def _is_loop(self, path: str) -> bool:
        """Whether a folder is a link to one that it stands in."""
        if not self._place.is_local:
            return False
        own = Path(path)
        return own.is_symlink() and own.resolve() in {parent.resolve() for parent in own.parents}

    def is_unsure(self, folder: str) -> bool:
        """Whether some of the files of a folder and its partitions could not be listed."""
        return any(folder in (unread, split(unread, self._place.path)[0]) for unread in self.unsure)


def format_of(name: str) -> str | None:
    """The format of a data file, by its name; None: it is none."""
    found = _DATA.fullmatch(name)
    return None if found is None else PARQUET if found[1] else CSV


def split(folder: str, root: str = "") -> tuple[str, list[tuple[str, str]]]:
    """A folder without its partitions, and those, outermost first: (column, value).

    Args:
        root: nothing at or above it is a partition.
    """
    partitions: list[tuple[str, str]] = []
    while folder != root:
        parent, _, name = folder.rpartition("/")
        found = _HIVE.fullmatch(name)
        if found is None:
            break
        partitions.insert(0, (unquote(found[1]), unquote(found[2])))
        folder = parent
    return folder, partitions


def _name_of(entry: tuple[str, Any]) -> str:
    return entry[0]


def _is_broken_link(name: str, entries: _Entries) -> bool:
    return name in entries and entries[name] is None


def _is_of_iceberg(name: str) -> bool:
    return name == HINT or _ICEBERG_FILE.fullmatch(name) is not None


def _is_folder(info: fs.FileInfo | None) -> bool:
    return info is not None and info.type == fs.FileType.Directory


def _is_file(info: fs.FileInfo | None) -> bool:
    return info is not None and info.type == fs.FileType.File


def _is_hidden(name: str) -> bool:
    if _TEMPORARY.fullmatch(name):
        return True
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
