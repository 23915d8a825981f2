"""A lakehouse as a source: the tables and data files below a folder become entities, named by their paths.

A Delta or Iceberg table is one data set. So are the Parquet or CSV files of a folder with partitions (`year=2026/`), of
one whose files are named as engines number them (`part-00000…`, `0.parquet`), and of one in which all have the same
columns; of any other folder each file is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from ...domains.catalog.naming import namespace_of
from ...schemas.errors import InvalidUrnError
from ...schemas.times import time_ms
from ...schemas.urn import Urn
from ..beside import threads
from ..columns import comments_of, schema_of
from ..found import Found, Problem, Progress
from ..source import Identity, Tell, checked_id, id_of
from .files import READERS, SAMPLE_BYTES, Contents, columns_of
from .listing import BESIDE, CSV, DELTA, DataFile, Group, Listing, Logged, split
from .places import Place
from .tables import UnreadableTableError, changed_text, delta_table, iceberg_table

KIND: Final = "lakehouse"
PREFIX: Final = "lakehouse."
SAMPLED_FILES: Final = 16
"""Maximum number of CSV files of one data set whose first lines are read."""
_NUMBERED: Final = re.compile(
    r"(part|data|file|chunk|batch|run)?[-_.]?\d.*|part[-_.].*|[0-9a-f]{8}-[0-9a-f]{4}-.*", re.IGNORECASE | re.DOTALL
)
_TELL_EVERY: Final = 100
_READ: Final = frozenset({"rows", "schema", "delimiter", "sampled", "comment.*"})
"""What only the files themselves say."""


class Lakehouse:
    """A folder of this machine or of an object store.

    Args:
        path: `/data/lake`, `s3://bucket/lake`.
        exclude: patterns of paths below it to leave out; `*` matches anything.
        storage: options of the object store as delta-rs names them, `KEY=VALUE`; never shown or stored.
        namespace: the store's name in lineage, if it has another one there.
        id: the source's; None: one derived from the path.
    Raises:
        InputError: the path, an option or the id is not valid.
    """

    lists_all: Final = True

    def __init__(
        self, path: str, *, exclude: Sequence[str] = (), storage: Sequence[str] = (), namespace: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:  # fmt: skip
        self._place = Place.of(path, storage, None if namespace is None else namespace_of(namespace))
        self._exclude = tuple(exclude)
        own = id_of(f"{self._place.namespace.replace('://', '-')}-{self._place.path}") if id is None else id
        self.identity = Identity(KIND, checked_id(own), PREFIX)
        self._empty: set[str] = set()
        """Of the latest read."""

    @property
    def systems(self) -> tuple[Urn, ...]:
        """The folder."""
        return (self._place.urn_of(self._place.path),)

    def selects(self, entity: Urn, properties: Mapping[str, str]) -> bool:
        """As `Source.selects`: a path of this place, and neither it nor a folder above it is left out or empty."""
        if entity.parts[0] != self._place.namespace:
            return False
        root, path = self._place.path, "" if entity.name == "/" else entity.name
        if path == root:
            return True
        if root and not path.startswith(f"{root.rstrip('/')}/"):
            return False
        parts = path.removeprefix(root).strip("/").split("/")
        paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        if any(f"{root.rstrip('/')}/{path}".removeprefix("" if root else "/") in self._empty for path in paths):
            return False  # a disk may not be mounted there
        return not any(fnmatchcase(path, pattern) for path in paths for pattern in self._exclude)

    def read(self, tell: Tell) -> Iterator[Found | Problem]:
        """As `Source.read`."""
        tell(Progress("list folders"))
        store = self._place.opened()
        listing = Listing(self._place, store, self._exclude)
        listing.run(tell)
        self._empty = listing.empty
        yield from listing.problems
        reading = _Reading(self._place, store, listing)
        with threads(BESIDE) as beside:
            for done, answer in enumerate(beside.map(reading.table, listing.logged)):
                if done % _TELL_EVERY == 0:
                    tell(Progress("read tables", done, len(listing.logged)))
                yield answer
            total = sum(len(group.files) for group in listing.groups)
            done = 0
            formats = _formats(listing.groups)
            for group in listing.groups:
                tell(Progress("read files", done, total))
                yield from reading.group(group, beside, is_only_format=len(formats[group.folder]) == 1)
                done += len(group.files)


class _Reading:
    """Turns tables and groups of files into what is found."""

    def __init__(self, place: Place, store: fs.FileSystem, listing: Listing) -> None:
        self._place = place
        self._store = store
        self._listing = listing

    def table(self, table: Logged) -> Found | Problem:
        """Raises: SourceUnavailableError: the store stopped answering."""
        try:
            if table.format == DELTA:
                return delta_table(self._place, table)
            return iceberg_table(self._place, self._store, table)
        except (UnreadableTableError, InvalidUrnError) as error:
            return Problem(self._listing.below(table.folder)[:200], str(error))
        except Exception as error:  # delta-rs raises errors of many kinds
            return self._problem(table.folder, error)

    def group(self, group: Group, beside: ThreadPoolExecutor, *, is_only_format: bool) -> Iterator[Found | Problem]:
        """One data set of a group's files, or one each.

        Raises:
            SourceUnavailableError: the store stopped answering.
        """
        is_whole = is_only_format and (group.is_partitioned or all(map(_is_numbered, group.files)))
        files = group.files[:SAMPLED_FILES] if is_whole and group.format == CSV else group.files
        contents: dict[str, Contents] = {}
        for file, answer in zip(files, beside.map(lambda file: self._read(group, file), files), strict=True):
            if isinstance(answer, Problem):
                yield answer
            else:
                contents[file.path] = answer
        is_complete = len(contents) == len(files)
        is_unsure = self._listing.is_unsure(group.folder)
        if is_only_format and not is_whole and (len(files) > 1 or is_unsure):
            is_whole = len({read.likeness for read in contents.values()}) <= 1
            if is_whole and not is_complete:
                return  # whether they are one data set depends on what could not be read
        if is_whole and is_unsure:
            return  # some of its files are not known
        if is_whole:
            yield self._named(group.folder, lambda: self._folder(group, [*contents.values()], is_complete=is_complete))
            return
        for file in files:
            if (read := contents.get(file.path)) is not None:
                yield self._named(file.path, partial(self._file, group, file, read))

    def _named(self, path: str, make: Callable[[], Found]) -> Found | Problem:
        """What is made of a path; a problem if its name does not fit into a URN."""
        try:
            return make()
        except InvalidUrnError as error:
            return Problem(self._listing.below(path)[:200], error.message)

    def _read(self, group: Group, file: DataFile) -> Contents | Problem:
        try:
            return READERS[group.format](self._store, file)
        except (OSError, ValueError, pa.ArrowException) as error:
            return self._problem(file.path, error)

    def _problem(self, path: str, error: Exception) -> Problem:
        if self._place.is_broken(error):
            self._place.fail(error)
        return Problem(self._listing.below(path)[:200], self._place.reason(error))

    def _folder(self, group: Group, contents: list[Contents], *, is_complete: bool) -> Found:
        columns = columns_of(read.schema for read in contents)
        schema = schema_of(columns)
        partition_columns = _partition_columns(group, self._place.path)
        schema += tuple(column for column in partition_columns if column[0] not in {name for name, _ in schema})
        rows = [read.rows for read in contents]
        is_all = is_complete and len(contents) == len(group.files)
        properties = {
            "type": "folder",
            **self._common(group, group.files, contents),
            "rows": sum(filter(None, rows)) if is_all and None not in rows else None,
            "partitioned_by": ", ".join(name for name, _ in partition_columns),
            "partitions": len(group.partitions) if partition_columns else None,
            **comments_of(columns),
        }
        if is_complete:
            return Found(self._place.urn_of(group.folder), None, schema or None, _texts(properties))
        known = {key: value for key, value in properties.items() if key not in _READ and not key.startswith("comment.")}
        return Found(self._place.urn_of(group.folder), properties=_texts(known), keeps=_READ)

    def _file(self, group: Group, file: DataFile, read: Contents) -> Found:
        columns = columns_of([read.schema])
        properties = {"type": "file", **self._common(group, [file], [read]), "rows": read.rows, **comments_of(columns)}
        return Found(self._place.urn_of(file.path), None, schema_of(columns) or None, _texts(properties))

    def _common(self, group: Group, files: Sequence[DataFile], contents: Sequence[Contents]) -> dict[str, Any]:
        changed = [time_ms(file.changed) for file in files if file.changed is not None]
        delimiters = {read.delimiter for read in contents if read.delimiter not in (None, ",")}
        return {
            "format": group.format,
            "files": len(files),
            "bytes": sum(file.size_bytes for file in files),
            "last_change": changed_text(max(changed)) if changed else None,
            "delimiter": " ".join(sorted(filter(None, delimiters))).replace("\t", "tab"),
            "sampled": _sampled(len(files), contents) if group.format == CSV else None,
        }


def _sampled(files: int, contents: Sequence[Contents]) -> str | None:
    """Of how much of the files columns and types are known; None: of all."""
    if len(contents) == files and all(read.rows is not None for read in contents):
        return None
    return f"columns and types are those of the first {SAMPLE_BYTES // 1024} KiB of {len(contents)} of {files} files"


def _is_numbered(file: DataFile) -> bool:
    """Whether a file is named as engines name the files of a table."""
    return _NUMBERED.fullmatch(file.name) is not None


def _formats(groups: Iterable[Group]) -> dict[str, set[str]]:
    formats: dict[str, set[str]] = {}
    for group in groups:
        formats.setdefault(group.folder, set()).add(group.format)
    return formats


def _partition_columns(group: Group, root: str) -> list[tuple[str, str]]:
    """The partition columns with their types: `int64` if all values are whole numbers, else `string`."""
    values: dict[str, set[str]] = {}
    for folder in sorted(group.partitions):
        for name, value in split(folder, root)[1]:
            values.setdefault(name, set()).add(value)
    return [(name, "int64" if all(map(_is_whole_number, of)) else "string") for name, of in values.items()]


def _is_whole_number(text: str) -> bool:
    return text == "__HIVE_DEFAULT_PARTITION__" or re.fullmatch(r"-?\d{1,18}", text) is not None


def _texts(properties: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in properties.items() if value not in (None, "")}
