"""Many records of one Avro schema as Arrow columns, and the proof that they are what the bytes say.

Their bytes, one record behind the other, are the block of an object container in memory, which polars reads several
times as fast as anything in Python. It is lenient where `schemas.encoding` is strict: it takes any number for the
branch of a union, and numbers of more than 64 bits. So what it has read is written again, in the one form that our
encoders write, and counts only where that gives the same bytes: these have one meaning. Everything else is left to
`codec.decode`, which alone judges it.

Schemas are records of texts, longs, these or null, and arrays, maps and records of them.
Source: Avro specification 1.12, Binary Encoding, Object Container Files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PanicException, PolarsError

from ..schemas.encoding import wire
from ..schemas.encoding.cursor import Numbers

BYTES: Final = pa.large_binary()
_MARK: Final = bytes(16)
_NONE: Final = pa.scalar(b"\0", BYTES)
_SOME: Final = pa.scalar(b"\2", BYTES)
_NOTHING: Final = pa.scalar(b"", BYTES)
_SHORT: Final = pa.array([wire.write_long(length) for length in range(2048)], BYTES)
"""Lengths and counts as Avro writes them."""


class AvroColumns:
    """Reads records of one schema.

    Args:
        schema: expanded, of a record; each map in it is read as an array of records of `key` and `value`.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = _as_read(schema)
        text = json.dumps(self._schema)
        entries = b"".join(map(wire.write_text, ("avro.schema", text, "avro.codec", "null")))
        self._head = b"Obj\x01" + wire.write_long(2) + entries + b"\0" + _MARK

    def read(self, lists: Sequence[bytes], counts: Sequence[int]) -> pa.Table | None:
        """The columns of some lists of records; None where the bytes are not those that an encoder of ours would write.

        Args:
            lists: the records of each, one behind the other.
            counts: how many there are in each.
        """
        data, count = b"".join(lists), sum(counts)
        parts = (self._head, wire.write_long(count), wire.write_long(len(data)), data, _MARK)
        try:
            frame = pl.read_avro(BytesIO(b"".join(parts)))
        except (PolarsError, OSError, PanicException):
            return None
        table = frame.to_arrow().combine_chunks()
        if table.num_rows != count:
            return None
        ends, written = self._written(table)
        is_same = written == data and (ends[np.cumsum(counts)] == np.cumsum([*map(len, lists)])).all()
        return table if is_same else None

    def _written(self, table: pa.Table) -> tuple[Numbers, bytes]:
        """Records as we write them, and where each begins, and where the last one ends."""
        fields = [(field["type"], table[field["name"]].combine_chunks()) for field in self._schema["fields"]]
        whole = _joined([part for kind, column in fields for part in _parts(kind, column)], table.num_rows)
        _, bounds, data = whole.buffers()
        ends = np.frombuffer(bounds, np.int64, len(whole) + 1, whole.offset * 8)
        return ends, b"" if data is None else data.to_pybytes()


def _as_read(schema: Any) -> Any:
    """A schema without maps: on the wire they are arrays of keys and values."""
    if isinstance(schema, list):
        return [_as_read(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    match schema["type"]:
        case "record":
            fields = [{"name": field["name"], "type": _as_read(field["type"])} for field in schema["fields"]]
            return {"type": "record", "name": schema["name"].rpartition(".")[2], "fields": fields}
        case "array":
            return {"type": "array", "items": _as_read(schema["items"])}
        case "map":
            fields = [{"name": "key", "type": "string"}, {"name": "value", "type": _as_read(schema["values"])}]
            return {"type": "array", "items": {"type": "record", "name": "Pair", "fields": fields}}
        case _:
            return _as_read(schema["type"])


# What was read, written again: parts that stand behind each other in each row.


def _parts(kind: Any, column: pa.Array) -> Iterator[Any]:
    if isinstance(kind, list):
        yield from _optional(kind, column)
    elif kind == "string":
        texts = column.cast(BYTES)
        yield from (_lengths(pc.binary_length(texts)), texts)
    elif kind == "long":
        yield longs(column.to_numpy())
    elif kind["type"] == "record":
        for field, values in zip(kind["fields"], column.flatten(), strict=True):
            yield from _parts(field["type"], values)
    else:
        yield _list(kind["items"], column)


def _optional(kind: Any, column: pa.Array) -> Iterator[Any]:
    """A value or null, which has to be the first branch."""
    _, given = kind
    if column.null_count == len(column):
        yield _NONE
    elif not column.null_count:
        yield _SOME
        yield from _parts(given, column)
    else:
        rows = column.is_valid()
        written = _joined([_SOME, *_parts(given, column.drop_null())], len(column) - column.null_count)
        yield pc.replace_with_mask(pa.repeat(_NONE, len(column)), rows, written)


def _list(kind: Any, column: pa.Array) -> Any:
    """Count, items, and the end of it; nothing but the end where there are none."""
    counts, items = pc.list_value_length(column), column.flatten()
    if not len(items):
        return _NONE
    written = _joined([*_parts(kind, items)], len(items))
    bounds = np.zeros(len(column) + 1, np.int64)
    np.cumsum(counts.to_numpy(), out=bounds[1:])
    each = pc.binary_join(pa.LargeListArray.from_arrays(pa.array(bounds), written), _NOTHING)
    return pc.if_else(pc.equal(counts, 0), _NONE, _joined([_lengths(counts), each, _NONE], len(column)))


def _joined(parts: list[Any], rows: int) -> pa.Array:
    if all(isinstance(part, pa.Scalar) for part in parts):
        return pa.repeat(pa.scalar(b"".join(part.as_py() for part in parts), BYTES), rows)
    return pc.binary_join_element_wise(*parts, _NOTHING)


def _lengths(lengths: Any) -> pa.Array:
    if not len(lengths) or pc.max(lengths).as_py() < len(_SHORT):
        return _SHORT.take(lengths)
    return longs(lengths.to_numpy())


def longs(values: Numbers) -> pa.Array:
    """Numbers of 64 bits as zigzag varints."""
    signed = values.astype(np.int64)
    rest = (signed << 1 ^ signed >> 63).view(np.uint64)
    sizes, width = np.ones(len(rest), np.int64), 1
    while len(rest) and width < 10 and int(rest.max()) >> 7 * width:
        sizes += rest >= np.uint64(1 << 7 * width)
        width += 1
    digits = np.empty((len(rest), width), np.uint8)
    for byte in range(width):
        digits[:, byte] = (rest >> np.uint64(7 * byte)).astype(np.uint8) | 0x80
    digits[np.arange(len(rest)), sizes - 1] &= 0x7F
    bounds = np.zeros(len(rest) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    data = digits[np.arange(width) < sizes[:, None]]
    return pa.Array.from_buffers(BYTES, len(rest), [None, pa.py_buffer(bounds), pa.py_buffer(data)])
