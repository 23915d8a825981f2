"""Files of many aggregates, gathered into events: up to a thousand of one aggregate each, none of them too large.

Files that come behind each other are mostly of one aggregate, so they are looked at by column where that is so: the
events are those that the files give one by one. Whether a file is valid the event says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from ...schemas.errors import Fault, InvalidEventError
from ...schemas.limits import MAX_EVENT_BYTES
from .events import FileMetadata, FileRecord, FilesRecorded

_EVENT_BYTES: Final = MAX_EVENT_BYTES * 7 // 8
_FILE_BYTES: Final = 160
"""What a file takes in an event beside its texts."""
_HELD_FILES: Final = 50_000
"""Most files that wait for others of their aggregate."""
_TEXT: Final = {str}


class Gathering:
    """Files that wait for others of their aggregate.

    Args:
        most: files of an event.
        readable: a file of its number and of what was given for it; raises InvalidEventError.
    """

    def __init__(self, most: int, readable: Callable[[int, Any], FileRecord]) -> None:
        self._most = most
        self._readable = readable
        self._waiting: dict[tuple[str, str], _Group] = {}
        self._held = 0
        self._latest: tuple[str, str] | None = None

    def room(self) -> int:
        """How many files the group that files came for last still takes; of a full one, how many the next takes."""
        group = None if self._latest is None else self._waiting.get(self._latest)
        return self._most if group is None else self._most - len(group.files) % self._most

    def take(self, number: int, files: Sequence[Any]) -> Iterator[FilesRecorded]:
        """Add files; gives the events that are full by then.

        Args:
            number: that of the first of them.
        """
        run = _run_of(files) if self._held + len(files) < _HELD_FILES else None
        if run is not None and (group := self._waiting.get(run.key)) is not None and len(group.files) >= self._most:
            yield self._full(run.key)
        if run is not None and self._group(run.key).takes(run, self._most):
            self._waiting[run.key].add(number, files, run)
            self._held += len(files)
            return
        for index, file in enumerate(files, number):
            yield from self._take_one(index, self._readable(index, file))

    def _take_one(self, number: int, file: FileRecord) -> Iterator[FilesRecorded]:
        metadata = file.metadata
        run = _Run((metadata.where, metadata.what), {metadata.id}, _size_bytes(file))
        if not self._group(run.key).takes(run, self._most):
            yield self._full(run.key)
        self._group(run.key).add(number, (file,), run)
        self._held += 1
        if self._held >= _HELD_FILES:
            yield self._full(max(self._waiting, key=lambda key: len(self._waiting[key].files)))

    def _group(self, key: tuple[str, str]) -> _Group:
        """The group of an aggregate, a new one where none waits."""
        self._latest = key
        return self._waiting.get(key) or self._waiting.setdefault(key, _Group())

    def _full(self, key: tuple[str, str]) -> FilesRecorded:
        group = self._waiting.pop(key)
        self._held -= len(group.files)
        return group.event()

    def rest(self) -> Iterator[FilesRecorded]:
        """The events of what is left."""
        for group in self._waiting.values():
            yield group.event()


class _Run(NamedTuple):
    """Files of one aggregate: its where and what, the files' ids, and what they take in an event."""

    key: tuple[str, str]
    ids: set[str]
    size_bytes: int


def _run_of(files: Sequence[Any]) -> _Run | None:
    """Files as one run, by column; None where they are not of one aggregate, not plain, or named twice."""
    if {*map(type, files)} != {FileRecord}:
        return None
    urls, metadata, _, _ = zip(*files, strict=True)
    if {*map(type, metadata)} != {FileMetadata}:
        return None
    _, _, _, wheres, whats, versions, ids, _, work_ids, paths = zip(*metadata, strict=True)
    optional = [text for text in (*work_ids, *paths) if text is not None]
    if {*map(type, (*urls, *wheres, *whats, *versions, *ids, *optional))} != _TEXT:
        return None
    texts, distinct, named = "".join((*urls, *versions, *optional)), {*ids}, "".join(ids)
    if len({*wheres}) > 1 or len({*whats}) > 1 or len(distinct) < len(ids) or not (texts.isascii() and named.isascii()):
        return None
    each = _FILE_BYTES + 4 * (len(wheres[0]) + len(whats[0]))
    return _Run((wheres[0], whats[0]), distinct, each * len(files) + len(texts) + 4 * len(named))


class _Group:
    """Files of one aggregate that wait for more."""

    def __init__(self) -> None:
        self.files: list[FileRecord] = []
        self._numbers: list[int] = []
        self._ids: set[str] = set()
        self._bytes = 0

    def takes(self, run: _Run, most: int) -> bool:
        """Whether so many more fit; the same file again does not: it comes in a later event."""
        if not self.files and len(run.ids) == 1:
            return True  # too large by itself, the emitter refuses it
        fits = self._bytes + run.size_bytes <= _EVENT_BYTES and len(self.files) + len(run.ids) <= most
        return fits and self._ids.isdisjoint(run.ids)

    def add(self, number: int, files: Sequence[FileRecord], run: _Run) -> None:
        self.files += files
        self._numbers += range(number, number + len(files))
        self._ids |= run.ids
        self._bytes += run.size_bytes

    def event(self) -> FilesRecorded:
        """The files as one event. Raises: InvalidEventError: with the files' own numbers."""
        event = FilesRecorded(tuple(self.files))
        faults = event.validate()
        if faults:
            raise InvalidEventError([self._numbered(fault) for fault in faults])
        return event

    def _numbered(self, fault: Fault) -> Fault:
        index, _, field = fault.field.removeprefix("files[").partition("]")
        return Fault(f"files[{self._numbers[int(index)]}]{field}", fault.message)


def _size_bytes(file: FileRecord) -> int:
    """At least what a file takes in an event, its URN in the header included (where any byte may take three)."""
    url, metadata = file.url, file.metadata
    texts = f"{url}{metadata.path or ''}{metadata.work_id or ''}{metadata.data_version}"
    size = len(texts) if texts.isascii() else len(texts.encode("utf-8", "surrogatepass"))
    named = len(metadata.id) if metadata.id.isascii() else len(metadata.id.encode("utf-8", "surrogatepass"))
    return _FILE_BYTES + size + 4 * named + 4 * (len(metadata.where) + len(metadata.what))
