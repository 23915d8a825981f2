"""Events of written and deleted objects as columns, without a Python object for any of them.

An event's entries are read together with those of others (`fold.avro_columns`), and held against what `events` says of
a valid one, a column at a time. What is not surely valid, in bytes or in content, is left to `codec.decode` and the
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.avro_columns import AvroColumns
from ....fold.json_texts import TEXT, joined, lists, quoted, text
from ....schemas.encoding import wire
from ....schemas.encoding.codec import decode, encode, header_apart, single_object_prefix
from ....schemas.encoding.cursor import Numbers
from ....schemas.encoding.known import current_contracts
from ....schemas.errors import InvalidEventError, InvalidUrnError, NotSingleObject, Undecodable
from ....schemas.header import Header
from ....schemas.limits import MAX_ENTRIES, MAX_EVENT_BYTES, MAX_KEY_BYTES
from ....schemas.urn import Urn
from ..events import MAX_ENTRY_METADATA_BYTES, ObjectsDeleted, ObjectsWritten
from ..urns import MAX_PATH_BYTES

_NO_MAP: Final = pa.scalar("{}", TEXT)


class PlainEvent(NamedTuple):
    """One event whose entries, or paths, are still to be read.

    Attributes:
        entries: how many there are.
        start: where in the value the first of them begins; the last one ends before the value's last byte.
    """

    header: Header
    branch: Urn
    entries: int
    value: bytes
    start: int


class Objects(NamedTuple):
    """What is written to or deleted from the paths of some events, an entry for each: Arrow columns.

    Attributes:
        path: of type TEXT, as all texts here.
        size, mtime: numbers; null where there is none.
        blocks, metadata: their canonical JSON; null of a deleted path, and where there are no blocks.
    """

    path: pa.Array
    size: pa.Array
    checksum: pa.Array
    address: pa.Array
    blocks: pa.Array
    content_type: pa.Array
    metadata: pa.Array
    mtime: pa.Array

    def slice(self, first: int, count: int) -> Objects:
        """Some of them."""
        return Objects(*[column.slice(first, count) for column in self])


class _Form(NamedTuple):
    """How the events of one type are read.

    Attributes:
        prefix: the bytes in front of each body.
        columns: reads their entries.
        objects: these as they go into tables, and which of them are wrong.
    """

    prefix: bytes
    columns: AvroColumns
    objects: Callable[[pa.Table], tuple[Objects, Numbers]]


@lru_cache(maxsize=1)
def _forms() -> dict[str, _Form]:
    def form(event_type: str, objects: Callable[[pa.Table], tuple[Objects, Numbers]]) -> _Form:
        contract = current_contracts()[event_type]
        items = contract.schema["fields"][-1]["type"]["items"]
        if items == "string":
            items = {"type": "record", "name": "Path", "fields": [{"name": "path", "type": items}]}
        return _Form(single_object_prefix(contract), AvroColumns(items), objects)

    return {
        ObjectsWritten.TYPE: form(ObjectsWritten.TYPE, _written),
        ObjectsDeleted.TYPE: form(ObjectsDeleted.TYPE, _deleted),
    }


def type_of(value: bytes) -> str | None:
    """Which of the two events a value begins as, if any."""
    return next((event_type for event_type, form in _forms().items() if value.startswith(form.prefix)), None)


def plain_event(value: bytes) -> PlainEvent | None:
    """The event of a value that begins as one of the two, or None where it is left to `codec.decode`."""
    if len(value) > MAX_EVENT_BYTES:
        return None
    try:
        return _apart(value)
    except (IndexError, UnicodeDecodeError, InvalidUrnError, NotSingleObject, Undecodable):
        return None


def _apart(value: bytes) -> PlainEvent | None:
    header, named, offset = header_apart(value)
    start, offset = wire.read_span(value, offset)
    branch = Urn.parse(value[start:offset].decode())
    entities = (str(branch), str(branch.aggregate))
    count, offset = wire.read_long(value, offset)
    spelled = wire.LENGTHS[len(entities)] + b"".join(map(wire.write_text, entities)) + b"\0"
    if not 0 < count <= MAX_ENTRIES or value[-1] or value[named[0] : named[1]] != spelled:
        return None
    return PlainEvent(header._replace(entities=entities), branch, count, value, offset)


def objects_of(event_type: str, events: Sequence[PlainEvent]) -> tuple[list[int], Objects | None]:
    """The objects of those among some events of one type that are surely valid, and the numbers of these events.

    Whatever is wrong with one does not concern the others: where their bytes cannot be read together, the codec says
    which of them are at fault, once.
    """
    form, numbers = _forms()[event_type], [*range(len(events))]
    table = _table(form, events)
    if table is None:
        numbers = [number for number in numbers if _is_spelled_as_ever(events[number].value)]
        table = _table(form, [events[number] for number in numbers])
    if table is None:
        return [], None
    objects, wrong = form.objects(table)
    counts = [events[number].entries for number in numbers]
    refused = {
        *np.unique(np.repeat(numbers, counts)[wrong]).tolist(),
        *_with_a_path_twice(objects.path, numbers, counts),
    }
    if not refused:
        return numbers, objects
    fine = [number for number in numbers if number not in refused]
    kept = pa.array(np.isin(np.repeat(numbers, counts), fine))
    return fine, Objects(*[column.filter(kept) for column in objects]) if fine else None


def _table(form: _Form, events: Sequence[PlainEvent]) -> pa.Table | None:
    if not events:
        return None
    return form.columns.read([event.value[event.start : -1] for event in events], [event.entries for event in events])


def _is_spelled_as_ever(value: bytes) -> bool:
    """Whether a value is what the codec writes."""
    try:
        header, event, _ = decode(value)
        return encode(event, header) == value
    except (Undecodable, InvalidEventError):
        return False


def _with_a_path_twice(paths: pa.Array, numbers: Sequence[int], counts: Sequence[int]) -> Iterator[int]:
    """Numbers of those events that name a path twice."""
    if pc.count_distinct(paths).as_py() == len(paths):
        return
    first = 0
    for number, count in zip(numbers, counts, strict=True):
        if pc.count_distinct(paths.slice(first, count)).as_py() < count:
            yield number
        first += count


# Columns of a type, and where they are wrong. Source: `events.entry_faults`.


def _written(table: pa.Table) -> tuple[Objects, Numbers]:
    column = {name: table[name].combine_chunks() for name in table.column_names}
    blocks, wrong_blocks = _blocks(column["blocks"])
    metadata, wrong_metadata = _maps(column["metadata"])
    size, address = column["size"], column["address"]
    wrong = _wrong_paths(column["path"]) | (size.to_numpy() < 0) | _wrong_texts(column["checksum"])
    wrong |= _wrong_texts(address) | _wrong_texts(column["content_type"]) | wrong_blocks | wrong_metadata
    wrong |= _flags(pc.equal(address.is_valid(), blocks.is_valid()))  # one of the two
    made = Objects(
        column["path"], size, column["checksum"], address, blocks, column["content_type"], metadata, column["mtime"]
    )
    return made, wrong


def _deleted(table: pa.Table) -> tuple[Objects, Numbers]:
    path = table["path"].combine_chunks()
    number, nothing = pa.nulls(len(path), pa.int64()), pa.nulls(len(path), TEXT)
    return Objects(path, number, nothing, nothing, nothing, nothing, nothing, number), _wrong_paths(path)


def _wrong_paths(paths: pa.Array) -> Numbers:
    return _wrong_texts(paths, MAX_PATH_BYTES) | _flags(pc.match_substring(paths, "\0"))


def _wrong_texts(texts: pa.Array, most: int = MAX_KEY_BYTES) -> Numbers:
    """Where a text is empty or too long."""
    lengths = pc.fill_null(pc.binary_length(texts), 1).to_numpy()
    wrong: Numbers = (lengths == 0) | (lengths > most)
    return wrong


def _flags(column: pa.Array) -> Numbers:
    flags: Numbers = column.to_numpy(zero_copy_only=False)
    return flags


def _blocks(column: pa.Array) -> tuple[pa.Array, Numbers]:
    """Lists of blocks as JSON, null where there is none; and where one is wrong."""
    rows, counts = len(column), pc.list_value_length(column).to_numpy()
    if not counts.any():
        return pa.nulls(rows, TEXT), np.zeros(rows, np.bool_)
    address, size, checksum = column.flatten().flatten()
    owners = np.repeat(np.arange(rows), counts)
    wrong = counts > MAX_ENTRIES
    wrong[owners[_wrong_texts(address) | _wrong_texts(checksum) | (size.to_numpy() < 0)]] = True
    each = joined("[", quoted(address), ",", text(size), ",", quoted(checksum), "]")
    texts = joined("[", lists(owners, each, rows), "]")
    return pc.if_else(pa.array(counts > 0), texts, pa.scalar(None, TEXT)), wrong


def _maps(column: pa.Array) -> tuple[pa.Array, Numbers]:
    """Maps as canonical JSON; and where one is wrong, or names a key twice."""
    rows, counts = len(column), pc.list_value_length(column).to_numpy()
    if not counts.any():
        return pa.repeat(_NO_MAP, rows), np.zeros(rows, np.bool_)
    owners = np.repeat(np.arange(rows), counts)
    names, values, same = _sorted_by_key(owners, *column.flatten().flatten())
    wrong = counts > MAX_ENTRIES
    wrong[owners[_wrong_texts(names) | same]] = True
    texts = joined("{", lists(owners, joined(quoted(names), ":", quoted(values)), rows), "}")
    return texts, wrong | (pc.binary_length(texts).to_numpy() > MAX_ENTRY_METADATA_BYTES)


def _sorted_by_key(owners: Numbers, names: Any, values: Any) -> tuple[pa.Array, pa.Array, Numbers]:
    """Entries of maps by map and key, and which of them have the key of the one before.

    Args:
        owners: number of each entry's map, ascending.
    """
    inside = owners[1:] == owners[:-1]
    if (inside & ~_flags(pc.less(names[:-1], names[1:]))).any():
        by = [("owner", "ascending"), ("name", "ascending")]
        order = pc.sort_indices(pa.table({"owner": owners, "name": names}), by)
        names, values = names.take(order), values.take(order)
    same = np.zeros(len(owners), np.bool_)
    same[1:] = inside & _flags(pc.equal(names[:-1], names[1:]))
    return names, values, same
