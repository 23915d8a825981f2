"""The event of the files domain: records about archived files, many of one program on one server at once.

The class is kept in step with its contract in `contracts/`. Values are taken strictly: a time is a whole number
of milliseconds, an id is there. Reading times from text, computing hashes and assigning ids is the client's
(`recording`). A file is given as a FileRecord, or as mappings of the same fields in the source's words, which is how it
stands in JSON; what does not fit stays as it was given, for `validate` to name all of it at once.

Source: docs/concepts.md; the source text's "Datalake Metadata".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple

from ...schemas.encoding.wire import MAX_LONG, MIN_LONG
from ...schemas.errors import Fault, InvalidEventError, InvalidUrnError
from ...schemas.events.base import as_tuple, text_fault
from ...schemas.events.checks import count_faults, empty_faults
from ...schemas.limits import MAX_BUCKETS, MAX_ENTRIES, MAX_FILE_TEXT_BYTES, MAX_KEY_BYTES, MAX_URN_BYTES
from ...schemas.urn import Urn, siblings
from .urns import file_urn

DAY_MS: Final = 86_400_000
RESERVED_WORK_ID: Final = "null"
"""How the key of a file without work_id begins; no work_id may."""

_NAME: Final = re.compile(r"[a-z0-9_-]+")
_DATA_VERSION: Final = re.compile(r"[A-Za-z0-9_-]+")
_HASH: Final = re.compile(r"[0-9a-fA-F]+")
_HASH_CHARACTERS: Final = 32
_PATH: Final = re.compile(r"/|[A-Za-z]:[\\/]")
_PLAIN_IDS: Final = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN_ID_CHARACTERS: Final = 200
_EXTENSION: Final = re.compile(r"[a-z0-9_-]+\.[A-Za-z0-9]+")

_set = object.__setattr__


class FileMetadata(NamedTuple):
    """The source's metadata document of version 0.

    Attributes:
        version: 0.
        start: first event in the file, milliseconds since the epoch.
        end: last event; None: the file stands for the instant `start`.
        where: the server, `[a-z0-9_-]+`.
        what: the program, `[a-z0-9_-]+`.
        data_version: `data-version` in the document, `[A-Za-z0-9_-]+`.
        id: any text, unique among the files of its where and what.
        hash: 32 hex digits: blake2b of the content with a 16-byte digest.
        work_id: `[a-z0-9_-]+`, not beginning with `null`; or None.
        path: the absolute path that the file had, or None.
    """

    version: int
    start: int
    end: int | None
    where: str
    what: str
    data_version: str
    id: str
    hash: str
    work_id: str | None = None
    path: str | None = None


class FileRecord(NamedTuple):
    """One archived file.

    Attributes:
        url: where it is.
        metadata: its document; FilesRecorded also takes the source's mapping.
        size: bytes, or None.
        created: milliseconds since the epoch, or None.
    """

    url: str
    metadata: FileMetadata
    size: int | None = None
    created: int | None = None


FILE_FIELDS: Final = FileRecord._fields
METADATA_FIELDS: Final = tuple(name.replace("data_version", "data-version") for name in FileMetadata._fields)
"""Names of a document's fields as the source writes them, in the order of FileMetadata."""


class _Entities:
    """A place for the event's URNs once they were asked for: it is no field of the event."""

    __slots__ = ("_entities",)
    _entities: tuple[Urn, ...]


@dataclass(frozen=True, slots=True, init=False)
class FilesRecorded(_Entities):
    """Files of one `where` and `what` are archived; a later record of a file replaces all of it.

    Args:
        files: 1 to 1,000 files, each once.
    """

    TYPE: ClassVar[str] = "files.FilesRecorded.1"
    NESTED: ClassVar[Mapping[str, type[Any]]] = {
        "metajournal.files.v1.FileRecord": FileRecord,
        "metajournal.files.v1.FileMetadata": FileMetadata,
    }
    IN_BULK: ClassVar[Collection[str]] = frozenset(NESTED)
    """Records of which an event has up to a thousand."""

    files: tuple[FileRecord, ...]

    def __init__(self, files: Iterable[FileRecord | Mapping[str, Any]]) -> None:
        given = as_tuple(files)
        _set(self, "files", tuple(map(as_file, given)) if type(given) is tuple else given)

    @classmethod
    def from_wire(cls, files: tuple[FileRecord, ...]) -> FilesRecorded:
        """The event from its contract's fields behind the header."""
        self = object.__new__(cls)
        _set(self, "files", files)
        return self

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The files' URNs. Raises: InvalidEventError: there is no file, or one has no URN."""
        found = getattr(self, "_entities", None)
        if found is None:
            found = self._find_entities()
            _set(self, "_entities", found)
        return found

    @property
    def aggregate(self) -> Urn:
        """The aggregate of the first file. Raises: InvalidEventError: as `entities`."""
        return self.entities[0].aggregate

    def _find_entities(self) -> tuple[Urn, ...]:
        try:
            metadata = [file.metadata for file in self.files]
            first = metadata[0]
            urn = file_urn(first.where, first.what, first.id)
            if len({(one.where, one.what) for one in metadata}) == 1:
                return siblings(urn, [one.id for one in metadata])
            return tuple([file_urn(one.where, one.what, one.id) for one in metadata])
        except (AttributeError, IndexError, TypeError, InvalidUrnError) as error:
            raise InvalidEventError(self.validate() or [Fault("files", f"has no URN: {error}")]) from error

    def validate(self) -> list[Fault]:
        """Every fault of every file, with its field (`files[3].metadata.start`); empty for a valid event."""
        if _plain(self.files):
            return []
        files: Any = self.files
        if not isinstance(files, tuple):
            return [Fault("files", f"must be a list of files, not {type(files).__name__}")]
        faults = empty_faults("files", files) + count_faults("files", len(files))
        for index, file in enumerate(files[:MAX_ENTRIES]):
            faults += file_faults(f"files[{index}]", file)
        return faults + _apart_faults(files[:MAX_ENTRIES])


def as_file(value: Any) -> Any:
    """A FileRecord of a mapping or of one whose metadata is a mapping, where their fields are known; else as it is."""
    if type(value) is not FileRecord:
        if not isinstance(value, Mapping) or not set(value).issubset(FILE_FIELDS):
            return value
        value = FileRecord(*[value.get(name) for name in FILE_FIELDS])  # type: ignore[arg-type]  # validate judges
    metadata: Any = value.metadata
    if isinstance(metadata, Mapping) and set(metadata).issubset(METADATA_FIELDS):
        return value._replace(metadata=_as_metadata(metadata))
    return value


def _as_metadata(document: Mapping[str, Any]) -> FileMetadata:
    """A document's fields; of what is absent, the version is 0 and all else null."""
    _, *names = METADATA_FIELDS
    return FileMetadata(document.get("version", 0), *map(document.get, names))  # type: ignore[arg-type]


def metadata_document(metadata: FileMetadata) -> dict[str, Any]:
    """The source's document, in one form: its null fields are there, but for the path; the hash in lower case."""
    version, start, end, where, what, data_version, file_id, content_hash, work_id, path = metadata
    document = {
        "version": version,
        "start": start,
        "end": end,
        "where": where,
        "what": what,
        "data-version": data_version,
        "id": file_id,
        "hash": content_hash.lower(),
        "work_id": work_id,
    }
    if path is not None:
        document["path"] = path
    return document


# The happy case, a column at a time: about a microsecond a file.


def _plain(files: Any) -> bool:
    """Whether all files are surely valid; False decides nothing."""
    if type(files) is not tuple or not 0 < len(files) <= MAX_ENTRIES or set(map(type, files)) != {FileRecord}:
        return False
    urls, metadata, sizes, created = zip(*files, strict=True)
    if set(map(type, metadata)) != {FileMetadata}:
        return False
    versions, starts, ends, wheres, whats, data_versions, ids, hashes, work_ids, paths = zip(*metadata, strict=True)
    return (
        set(map(type, (*versions, *starts))) == {int}
        and set(map(type, (*urls, *wheres, *whats, *data_versions, *ids, *hashes))) == {str}
        and set(map(type, (*ends, *sizes, *created))) <= {int, type(None)}
        and set(map(type, (*work_ids, *paths))) <= {str, type(None)}
        and set(versions) == {0}
        and _plain_times(starts, ends, sizes, created)
        and _plain_names({*wheres}, {*whats}, {*data_versions}, {*work_ids} - {None})
        and _plain_ids(ids)
        and set(map(len, hashes)) == {_HASH_CHARACTERS}
        and _HASH.fullmatch("".join(hashes)) is not None
        and _plain_texts(urls)
        and _plain_paths([path for path in paths if path is not None])
    )


def _plain_times(starts: Any, ends: Any, sizes: Any, created: Any) -> bool:
    if min(starts) < MIN_LONG or max(starts) > MAX_LONG:
        return False
    longest = (MAX_BUCKETS - 2) * DAY_MS  # may begin and end anywhere within its first and last day
    for start, end in zip(starts, ends, strict=True):
        if end is not None and not (0 <= end - start <= longest and end <= MAX_LONG):
            return False
    for size in sizes:
        if size is not None and not 0 <= size <= MAX_LONG:
            return False
    return all(one is None or MIN_LONG <= one <= MAX_LONG for one in created)


def _plain_names(wheres: set[str], whats: set[str], data_versions: set[str], work_ids: set[Any]) -> bool:
    if len(wheres) != 1 or len(whats) != 1:
        return False
    return (
        all(map(_NAME.fullmatch, (*wheres, *whats, *work_ids)))
        and all(map(_DATA_VERSION.fullmatch, data_versions))
        and not any(one.startswith(RESERVED_WORK_ID) for one in work_ids)
        and max(map(len, (*wheres, *whats, *data_versions, *work_ids))) <= _PLAIN_ID_CHARACTERS
    )


def _plain_ids(ids: tuple[str, ...]) -> bool:
    return (
        "" not in ids
        and len(set(ids)) == len(ids)
        and _PLAIN_IDS.fullmatch("".join(ids)) is not None
        and max(map(len, ids)) <= _PLAIN_ID_CHARACTERS
    )


def _plain_texts(texts: Any) -> bool:
    return "" not in texts and "".join(texts).isascii() and max(map(len, texts)) <= MAX_FILE_TEXT_BYTES


def _plain_paths(paths: list[str]) -> bool:
    return not paths or (_plain_texts(paths) and all(map(_PATH.match, paths)))


# Every fault, one by one.


def file_faults(field: str, file: Any) -> list[Fault]:
    """Every fault of one file by itself.

    Args:
        field: what it is called in the faults; "" for none.
        file: a FileRecord, a mapping of its fields, or anything.
    """
    dotted = f"{field}." if field else ""
    faults: list[Fault] = []
    if isinstance(file, Mapping):
        faults += _unknown_faults(dotted, file, FILE_FIELDS, "a file record")
        file = FileRecord(*[file.get(name) for name in FILE_FIELDS])  # type: ignore[arg-type]
    elif not isinstance(file, FileRecord):
        return [Fault(field or "file", f"must be a file record, not {type(file).__name__}")]
    faults += _text_faults(f"{dotted}url", file.url, MAX_FILE_TEXT_BYTES)
    faults += _metadata_faults(f"{dotted}metadata", file.metadata)
    faults += _whole_faults(f"{dotted}size", file.size, 0, "a number of bytes", optional=True)
    return faults + _whole_faults(f"{dotted}created", file.created, MIN_LONG, "milliseconds", optional=True)


def _unknown_faults(dotted: str, given: Mapping[Any, Any], known: tuple[str, ...], name: str) -> list[Fault]:
    unknown = islice((key for key in given if key not in known), MAX_ENTRIES)
    return [Fault(f"{dotted}{key}", f"{name} has no such field; it has {', '.join(known)}") for key in unknown]


def _metadata_faults(field: str, metadata: Any) -> list[Fault]:
    faults: list[Fault] = []
    if isinstance(metadata, Mapping):
        faults += _unknown_faults(f"{field}.", metadata, METADATA_FIELDS, "a document of version 0")
        metadata = _as_metadata(metadata)
    elif not isinstance(metadata, FileMetadata):
        return [Fault(field, _required(metadata) or f"must be a document, not {type(metadata).__name__}")]
    return [*faults, *(Fault(f"{field}.{name}", why) for name, why in _document_faults(metadata))]


def _document_faults(metadata: FileMetadata) -> list[tuple[str, str]]:
    """Name and sentence of every fault of a document."""
    version, start, end, where, what, data_version, file_id, content_hash, work_id, path = metadata
    found: list[tuple[str, str | None]] = [
        ("version", None if type(version) is int and version == 0 else f"must be 0, not {version!r:.80}"),
        ("start", _whole_fault(start, MIN_LONG, "milliseconds")),
        ("end", None if end is None else _end_fault(start, end)),
        ("where", _name_fault(where)),
        ("what", _what_fault(what)),
        ("data-version", _pattern_fault(data_version, _DATA_VERSION)),
        ("id", _id_fault(where, what, file_id)),
        ("hash", _hash_fault(content_hash)),
        ("work_id", None if work_id is None else _work_id_fault(work_id)),
        ("path", None if path is None else _path_fault(path)),
    ]
    return [(name, why) for name, why in found if why is not None]


def _required(value: Any) -> str | None:
    return "must be given, and not be null" if value is None else None


def _whole_fault(value: Any, least: int, what: str) -> str | None:
    if type(value) is not int:
        return _required(value) or f"must be a whole number ({what}), not {value!r:.80}"
    return None if least <= value <= MAX_LONG else f"must be a number ({what}) between {least} and {MAX_LONG}"


def _whole_faults(field: str, value: Any, least: int, what: str, *, optional: bool) -> list[Fault]:
    why = None if optional and value is None else _whole_fault(value, least, what)
    return [] if why is None else [Fault(field, why)]


def _end_fault(start: Any, end: Any) -> str | None:
    why = _whole_fault(end, MIN_LONG, "milliseconds")
    if why is not None or type(start) is not int:
        return why
    if end < start:
        return f"must not be before start, {start}"
    count = end // DAY_MS - start // DAY_MS + 1
    return None if count <= MAX_BUCKETS else f"the file touches {count:,} day buckets, the limit is {MAX_BUCKETS}"


def _text_faults(field: str, value: Any, limit_bytes: int) -> list[Fault]:
    why = _required(value) or text_fault(value, empty=False, limit_bytes=limit_bytes)
    return [] if why is None else [Fault(field, why)]


def _pattern_fault(value: Any, pattern: re.Pattern[str]) -> str | None:
    why = _required(value) or text_fault(value, empty=False, limit_bytes=MAX_KEY_BYTES)
    return why or (None if pattern.fullmatch(value) else f"must match {pattern.pattern}, not {value!r:.80}")


def _name_fault(value: Any) -> str | None:
    return _pattern_fault(value, _NAME)


def _what_fault(value: Any) -> str | None:
    why = _name_fault(value)
    if why is not None and isinstance(value, str) and _EXTENSION.fullmatch(value):
        return f"must not end in a file extension, and match {_NAME.pattern}, not {value!r:.80}"
    return why


def _id_fault(where: Any, what: Any, file_id: Any) -> str | None:
    why = _required(file_id) or text_fault(file_id, empty=False, limit_bytes=MAX_KEY_BYTES)
    if why is not None or _name_fault(where) is not None or _name_fault(what) is not None:
        return why
    try:
        file_urn(where, what, file_id)
    except InvalidUrnError:
        return f"makes the file's URN longer than {MAX_URN_BYTES} bytes"
    return None


def _hash_fault(value: Any) -> str | None:
    why = _required(value) or text_fault(value, empty=False)
    if why is not None or (len(value) == _HASH_CHARACTERS and _HASH.fullmatch(value)):
        return why
    return f"must be {_HASH_CHARACTERS} hex digits, not {value!r:.80}"


def _work_id_fault(value: Any) -> str | None:
    why = _name_fault(value)
    if why is None and value.startswith(RESERVED_WORK_ID):
        return f"must not begin with the reserved prefix {RESERVED_WORK_ID!r}; null itself says that there is none"
    return why


def _path_fault(value: Any) -> str | None:
    why = text_fault(value, empty=False, limit_bytes=MAX_FILE_TEXT_BYTES)
    if why is None and not _PATH.match(value):
        return f"must be absolute (/var/log/a or C:\\logs\\a), not {value!r:.80}"
    return why


def _apart_faults(files: tuple[Any, ...]) -> list[Fault]:
    """Faults of files beside each other: another where or what than the first file's, and the same file twice."""
    faults: list[Fault] = []
    seen: dict[Any, int] = {}
    first: tuple[Any, Any] | None = None
    for index, file in enumerate(files):
        if not isinstance(file, FileRecord) or not isinstance(file.metadata, FileMetadata):
            continue
        metadata: Any = file.metadata
        field = f"files[{index}].metadata"
        if not isinstance(metadata.where, str) or not isinstance(metadata.what, str):
            continue
        first = first or (metadata.where, metadata.what)
        for name, value, wanted in zip(("where", "what"), (metadata.where, metadata.what), first, strict=True):
            if value != wanted:
                faults.append(Fault(f"{field}.{name}", f"must be {wanted!r:.80}, as in the files before it"))
        if isinstance(metadata.id, str):
            earlier = seen.setdefault((metadata.where, metadata.what, metadata.id), index)
            if earlier != index:
                faults.append(Fault(f"{field}.id", f"is that of files[{earlier}]: an event has each file once"))
    return faults


EVENTS: Final[tuple[type[Any], ...]] = (FilesRecorded,)
