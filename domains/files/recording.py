"""Files to record: from what people and programs have at hand to valid events, and many of them at once.

Here times are read from text, hashes are taken of contents and ids are assigned, once and before the first send, so
that a file that is sent again stays the same file. What is valid the event's own class says; sending is the emitter's.
Invariant: files of one aggregate are sent in the order in which they came.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from uuid import uuid4

from ...producers.receipts import Receipt
from ...schemas.errors import Fault, InputError, InvalidEventError
from ...schemas.limits import MAX_ENTRIES
from ...schemas.times import time_ms
from .events import FileMetadata, FileRecord, FilesRecorded, as_file, file_faults
from .groups import Gathering

Content: TypeAlias = "bytes | str | os.PathLike[str]"
"""A file's content, or the path of the file."""

HASH_BYTES: Final = 16
_IN_FLIGHT: Final = 64
"""Most events that wait for their acknowledgement: some 16 MiB."""
_BLOCK_S: Final = 30.0
_TEXT: Final = {str}


def content_hash(content: Content) -> str:
    """The hash of a file: blake2b of its content with a 16-byte digest, as 32 hex digits.

    Raises:
        InputError: the file cannot be read.
    """
    make = partial(hashlib.blake2b, digest_size=HASH_BYTES)
    if isinstance(content, bytes):
        return make(content).hexdigest()
    try:
        with Path(content).open("rb") as file:
            return hashlib.file_digest(file, make).hexdigest()
    except OSError as error:
        raise InputError(f"{os.fspath(content)} cannot be read: {error.strerror}.", code="unreadable-file") from error


def file_record(
    url: str,
    metadata: Mapping[str, Any],
    *,
    content: Content | None = None,
    size: int | None = None,
    created: Any = None,
) -> FileRecord:
    """A file as it can be recorded.

    Args:
        url: where it is.
        metadata: the source's document of version 0. Times may be whole milliseconds, aware datetimes, ISO 8601 (UTC
            without a zone) or numbers as text (milliseconds above 1e11, seconds otherwise). Without an id it gets one.
        content: the content or a path; gives hash and size if they are not given.
        size: bytes.
        created: a time, as those of the metadata.
    Raises:
        InvalidEventError: lists every fault with its field (`metadata.start`).
        InputError: the content cannot be read.
    """
    faults: list[Fault] = []
    document: Any = metadata
    if isinstance(metadata, Mapping):
        document = {**metadata}
        for name in ("start", "end"):
            _read_time(document, name, f"metadata.{name}", faults)
        if document.get("id") is None:
            document["id"] = uuid4().hex
        if content is not None:
            _take_hash(document, content, faults)
    if content is not None and size is None:
        size = len(content) if isinstance(content, bytes) else Path(content).stat().st_size
    given = {"created": created}
    _read_time(given, "created", "created", faults)
    record: Any = as_file({"url": url, "metadata": document, "size": size, **given})
    faulty_fields = {fault.field for fault in faults}
    faults += [fault for fault in file_faults("", record) if fault.field not in faulty_fields]
    if faults:
        raise InvalidEventError(faults)
    return record  # type: ignore[no-any-return]  # of no fault follows that it is one


def _read_time(document: dict[str, Any], name: str, field: str, faults: list[Fault]) -> None:
    value = document.get(name)
    if value is None:
        return
    try:
        document[name] = time_ms(value)
    except ValueError as error:
        faults.append(Fault(field, str(error)))


def _take_hash(document: dict[str, Any], content: Content, faults: list[Fault]) -> None:
    own_hash, given_hash = content_hash(content), document.get("hash")
    if given_hash is None:
        document["hash"] = own_hash
    elif isinstance(given_hash, str) and given_hash.lower() != own_hash:
        faults.append(Fault("metadata.hash", f"is not the hash of the content, {own_hash}"))


def prepared(file: Any) -> Any:
    """A file as JSON has it (`{"url", "metadata", "size"?, "created"?}`), times read and the id assigned.

    What cannot be read stays as it is, for the event's own class to name.
    """
    if not isinstance(file, Mapping):
        return file
    made, left = dict(file), list[Fault]()
    _read_time(made, "created", "", left)
    if isinstance(file.get("metadata"), Mapping):
        document = made["metadata"] = dict(file["metadata"])
        for name in ("start", "end"):
            _read_time(document, name, "", left)
        if document.get("id") is None:
            document["id"] = uuid4().hex
    return made


def file_events(
    files: Iterable[FileRecord | Mapping[str, Any]], *, files_an_event: int = MAX_ENTRIES
) -> Iterator[FilesRecorded]:
    """Events of many files: up to 1,000 of one aggregate each, none of them too large.

    Args:
        files: of any aggregates, in any number; mappings as `prepared` takes them.
        files_an_event: maximum number of files per event, 1 to 1,000.
    Raises:
        InputError: `files_an_event` is no such number.
        InvalidEventError: a file is not valid; names it by its place among the files (`files[4711].url`). Events
            that were given before stand.
    """
    if type(files_an_event) is not int or not 1 <= files_an_event <= MAX_ENTRIES:
        raise InputError(f"files_an_event must be 1 to {MAX_ENTRIES:,}, not {files_an_event!r:.80}.")
    gathering, rest, number = Gathering(files_an_event, _readable), iter(files), 0
    while True:
        some, failure = _some(rest, gathering.room())
        yield from gathering.take(number, some)
        if failure is not None:
            raise failure
        if not some:
            break
        number += len(some)
    yield from gathering.rest()


def checked_files(files: Iterable[FileRecord | Mapping[str, Any]]) -> list[FileRecord]:
    """All of the files, ids assigned, once every one of them is known to be valid: for who sends all or none of them.

    Args:
        files: as `file_events` takes them; all are held.
    Raises:
        InvalidEventError: as `file_events`.
    """
    records = [_readable(number, file) for number, file in enumerate(files)]
    for _ in file_events(records):
        pass
    return records


def _some(rest: Iterator[Any], most: int) -> tuple[list[Any], Exception | None]:
    """The next files, and what their source failed with behind them."""
    some_files: list[Any] = []
    try:
        for file in islice(rest, most):
            some_files.append(file)
    except Exception as error:
        return some_files, error
    return some_files, None


def _readable(number: int, file: Any) -> FileRecord:
    """A file whose texts can be told; whether they are right, the event says. Raises: InvalidEventError."""
    record: Any = as_file(file if type(file) is FileRecord else prepared(file))
    metadata = record.metadata if type(record) is FileRecord else None
    if type(metadata) is FileMetadata:
        _, _, _, where, what, data_version, file_id, _, work_id, path = metadata
        optional_texts = "" if work_id is None else work_id, "" if path is None else path
        if {*map(type, (record.url, where, what, file_id, data_version, *optional_texts))} == _TEXT:
            return record  # type: ignore[no-any-return]
        needed = (record.url, where, what, file_id, data_version)
        optional = [text for text in (path, work_id) if text is not None]
        if all(isinstance(text, str) for text in (*needed, *optional)):
            return record  # type: ignore[no-any-return]
    raise InvalidEventError(file_faults(f"files[{number}]", record))


class _Emitting(Protocol):
    """What is needed of the emitter."""

    @property
    def emit(self) -> Callable[..., Receipt]: ...


def record_files(
    emitter: _Emitting,
    files: Iterable[FileRecord | Mapping[str, Any]],
    *,
    progress: Callable[[int], None] | None = None,
    files_an_event: int = MAX_ENTRIES,
    **emit_options: Any,
) -> list[Receipt]:
    """Emit events of many files, some in flight at a time, until Kafka has acknowledged all of them.

    Args:
        files: as `file_events` takes them.
        progress: called with the number of files acknowledged so far, after each event.
        files_an_event: maximum number of files per event, 1 to 1,000.
        emit_options: arguments of `Emitter.emit` that hold for every event.
    Returns:
        The receipt of each event, in the order of sending.
    Raises:
        InvalidEventError: as `file_events`; what was sent before stands, and the hint says how much.
        OutcomeUnknownError: an event is not acknowledged in time. Send the same files with the same ids again: what is
            recorded already changes nothing.
        others as `Emitter.emit`.
    """
    receipts: list[Receipt] = []
    flying: deque[tuple[int, Receipt]] = deque()
    done = sent = 0
    try:
        for event in file_events(files, files_an_event=files_an_event):
            receipts.append(emitter.emit(event, **{"block_s": _BLOCK_S, **emit_options}))
            sent += len(event.files)
            flying.append((len(event.files), receipts[-1]))
            if len(flying) >= _IN_FLIGHT:
                done = _landed(flying, done, progress)
    except InputError as error:
        if sent:
            error.advise(f"{sent:,} files were sent before and are recorded; send them again only with the same ids.")
        raise
    while flying:
        done = _landed(flying, done, progress)
    return receipts


def _landed(flying: deque[tuple[int, Receipt]], done: int, progress: Callable[[int], None] | None) -> int:
    """Wait for the oldest event; gives the number of files acknowledged."""
    count, receipt = flying.popleft()
    _ = receipt.position
    if progress is not None:
        progress(done + count)
    return done + count
