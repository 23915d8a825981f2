"""Events of recorded files as columns of bytes, without an object for any file.

On the wire a file whose texts are plain is nearly a regular expression: none of its texts holds a byte that can follow
it. So one search gives the fields of all files of an event, the forms of their texts included, and what a regular
expression cannot tell, that each length is that of its text, is held against it for all files at once. Whatever is not
exactly so (other texts, Avro in a form that nobody writes, damage) is left to `codec.decode`, which alone judges it.

Needs numpy and pyarrow (extra `lake`), and is imported by nothing that the light client needs.
Source: Avro specification 1.12, Binary Encoding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....schemas.encoding import wire
from ....schemas.encoding.codec import header_apart, single_object_prefix
from ....schemas.encoding.cursor import Numbers
from ....schemas.encoding.known import current_contracts
from ....schemas.errors import InvalidUrnError, NotSingleObject, Undecodable
from ....schemas.header import Header
from ....schemas.limits import MAX_BUCKETS, MAX_ENTRIES, MAX_EVENT_BYTES, MAX_FILE_TEXT_BYTES
from ..events import DAY_MS, RESERVED_WORK_ID, FilesRecorded
from ..urns import file_urn

_NUMBER: Final = rb"([\x80-\xff]{0,8}[\x00-\x7f])"
_LENGTH: Final = rb"([\x80-\xff]?[\x00-\x7f])"
_TEXT: Final = rb"[ !#-\[\]-~]"
"""Printable ASCII that JSON writes as it is."""
_OTHER_BYTES: Final = 7
"""Of a file beside the groups: version, the hash's length, and the branches of five nullable fields."""
_LONGEST_NAME: Final = 200
_NAME: Final = re.compile(rb"[a-z0-9_-]+")
_DATA_VERSION: Final = re.compile(rb"[A-Za-z0-9_-]+")
_RESERVED: Final = RESERVED_WORK_ID.encode()
_LONGEST_MS: Final = (MAX_BUCKETS - 2) * DAY_MS
"""A file may begin and end anywhere within its first and last day."""


@lru_cache(maxsize=512)
def _file(names_bytes: int) -> re.Pattern[bytes]:
    """A file whose where, what and data_version take so many bytes together, or all that is left where none stands.

    So a search ends at the first byte that is not as it should be; it would be tried at each byte behind it otherwise,
    and a long text read as often as it has bytes. No text is read twice either: none gives back what it has taken.
    """
    return re.compile(
        _LENGTH + rb"(" + _TEXT + rb"++)\x00" + _NUMBER + rb"(?:\x00|\x02" + _NUMBER + rb")"
        + rb"(.{%d})" % names_bytes
        + _LENGTH + rb"([A-Za-z0-9][A-Za-z0-9._-]*+)@([0-9a-fA-F]{32})"
        + rb"(?:\x00|\x02" + _LENGTH + rb"([a-z0-9_-]++))"
        + rb"(?:\x00|\x02" + _LENGTH + rb"(/" + _TEXT + rb"*+))"
        + rb"(?:\x00|\x02" + _NUMBER + rb")(?:\x00|\x02" + _NUMBER + rb")"
        + rb"|.+",
        re.DOTALL,
    )  # fmt: skip


class PlainEvent(NamedTuple):
    """One event whose files are plain.

    Attributes:
        header: its header without the entities, which are the files' URNs.
        start: of each of these, the text before the file's id.
        data_version: of all its files.
        files: the groups of each file.
    """

    header: Header
    start: str
    where: str
    what: str
    data_version: str
    files: list[tuple[bytes, ...]]


class FileColumns(NamedTuple):
    """The files of many events, an entry for each file: Arrow columns of texts and numbers, null where there is none.

    Attributes:
        hash: in lower case.
    """

    url: pa.Array
    start: pa.Array
    end: pa.Array
    id: pa.Array
    hash: pa.Array
    work_id: pa.Array
    path: pa.Array
    size: pa.Array
    created: pa.Array


def plain_event(value: bytes) -> PlainEvent | None:
    """The event of a value, or None where it is left to `codec.decode`."""
    if not value.startswith(_prefix()) or len(value) > MAX_EVENT_BYTES:
        return None
    try:
        return _read(value)
    except (IndexError, UnicodeDecodeError, InvalidUrnError, NotSingleObject, Undecodable):
        return None


@lru_cache(maxsize=1)
def _prefix() -> bytes:
    return single_object_prefix(current_contracts()[FilesRecorded.TYPE])


def _read(value: bytes) -> PlainEvent | None:
    header, named, offset = header_apart(value)
    count, offset = wire.read_long(value, offset)
    if not 0 < count <= MAX_ENTRIES or value[-1]:
        return None
    begin, end = _names_of_first(value, offset)
    where, what, data_version = _texts(value[begin:end])
    groups = _file(end - begin).findall(value, offset, len(value) - 1)
    if (
        len(groups) != count
        or len(b"".join(chain.from_iterable(groups))) + _OTHER_BYTES * count != len(value) - 1 - offset
    ):
        return None  # something stands before, between or behind them
    url_bytes, urls, _, _, names, id_bytes, ids, _, work_bytes, work_ids, path_bytes, paths, _, _ = zip(
        *groups, strict=True
    )
    if not (
        set(names) == {value[begin:end]}
        and _are_lengths(url_bytes, urls, MAX_FILE_TEXT_BYTES)
        and _are_lengths(id_bytes, ids, _LONGEST_NAME)
        and _are_lengths(work_bytes, work_ids, _LONGEST_NAME)
        and _are_lengths(path_bytes, paths, MAX_FILE_TEXT_BYTES)
        and not any(work_id.startswith(_RESERVED) for work_id in {*work_ids})
    ):
        return None
    start = file_urn(where, what, "x")[:-1]
    if value[named[0] : named[1]] != _entities(start.encode(), ids):
        return None
    return PlainEvent(header, start, where, what, data_version, groups)


def _names_of_first(value: bytes, offset: int) -> tuple[int, int]:
    """Where the first file's where, what and data_version begin, and where they end."""
    _, offset = wire.read_span(value, offset)
    _, offset = wire.read_long(value, offset + 1)
    _, offset = (None, offset + 1) if value[offset] == 0 else wire.read_long(value, offset + 1)
    end = offset
    for _ in range(3):
        _, end = wire.read_span(value, end)
    return offset, end


def _texts(names: bytes) -> tuple[str, str, str]:
    """Where, what and data_version. Raises: Undecodable: one is not there or has not its form."""
    texts, offset = [], 0
    for form in (_NAME, _NAME, _DATA_VERSION):
        start, offset = wire.read_span(names, offset)
        if not start < offset <= min(len(names), start + _LONGEST_NAME) or not form.fullmatch(names, start, offset):
            raise Undecodable("a name has another form")
        texts.append(names[start:offset].decode())
    where, what, data_version = texts
    return where, what, data_version


def _are_lengths(lengths: Sequence[bytes], texts: Sequence[bytes], most: int) -> bool:
    """Whether each length is that of its text, as Avro writes it; both are empty where there is none."""
    given = list(filter(None, lengths))
    sizes = list(map(len, filter(None, texts)))
    return given == list(map(wire.LENGTHS.__getitem__, sizes)) and max(sizes, default=0) <= most


def _entities(start: bytes, ids: Sequence[bytes]) -> bytes:
    """The URNs of files as a header has them."""
    lengths, behind = wire.LENGTHS, len(start)
    return lengths[len(ids)] + b"".join([lengths[behind + len(file_id)] + start + file_id for file_id in ids]) + b"\0"


def columns_of(events: Sequence[PlainEvent]) -> tuple[FileColumns, Numbers]:
    """The files of some events, one event's behind the other's, and which of the events have a number out of range."""
    groups = list(zip(*chain.from_iterable([event.files for event in events]), strict=True))
    _, urls, starts, ends, _, _, ids, hashes, _, work_ids, _, paths, sizes, created = groups
    start, (end, size, made) = _numbers(starts)[0], [_numbers(numbers) for numbers in (ends, sizes, created)]
    lasts = np.where(end[1], start, end[0])
    wrong = (lasts < start) | (lasts - start > _LONGEST_MS) | (size[0] < 0)
    columns = FileColumns(
        _text(urls), pa.array(start), _given(*end), _text(ids), pc.ascii_lower(_text(hashes)), _text(work_ids),
        _text(paths), _given(*size), _given(*made),
    )  # fmt: skip
    counts = [len(event.files) for event in events]
    return columns, np.unique(np.repeat(np.arange(len(events)), counts)[wrong])


def _text(values: Sequence[bytes]) -> pa.Array:
    """A column of ASCII texts; null where nothing stands."""
    given = pa.array(values, pa.binary())
    if not all(values):
        given = pc.if_else(pc.equal(pc.binary_length(given), 0), pa.scalar(None, pa.binary()), given)
    return given.cast(pa.string())


def _numbers(values: Sequence[bytes]) -> tuple[Numbers, Numbers]:
    """Numbers of Avro's bytes, and where nothing stands, which is 0 then."""
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    data = np.frombuffer(b"".join(values), np.uint8)
    starts = np.cumsum(sizes) - sizes
    numbers = np.zeros(len(values), np.uint64)
    for byte in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > byte)
        numbers[rows] |= (data[starts[rows] + byte] & 0x7F).astype(np.uint64) << np.uint64(7 * byte)
    return (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64), sizes == 0


def _given(numbers: Numbers, absent: Numbers) -> pa.Array:
    return pa.array(numbers, mask=absent)
