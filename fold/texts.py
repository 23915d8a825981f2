"""Texts of many values at once, out of the bytes that they stand in: Arrow columns instead of objects."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..schemas.encoding.cursor import Numbers, Source


class NotTextError(Exception):
    """A text among many is no UTF-8."""


def texts(source: Source, starts: Numbers, stops: Numbers) -> pa.Array:
    """The texts of spans that ascend. Raises: NotTextError."""
    try:
        return spans(source, starts, stops).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise NotTextError from error


def spans(source: Source, starts: Numbers, stops: Numbers) -> pa.Array:
    """The bytes of spans that ascend: taken out of an array that has what lies between them as every other value."""
    if not len(starts):
        return pa.array([], pa.binary())
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, stops
    whole = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(source.data)])
    return whole.take(pa.array(np.arange(0, len(bounds), 2)))


def chosen(values: pa.Array, numbers: Numbers) -> pa.Array:
    """The values of these numbers; null where a number is negative."""
    absent = numbers < 0
    return values.take(pa.array(numbers, mask=absent) if absent.any() else pa.array(numbers))


def id_texts(ids: Numbers) -> pa.Array:
    """The texts of ids, as `schemas.ids.id_text` writes each.

    Args:
        ids: bytes, 16 a row.
    """
    text = np.full((len(ids), 36), ord("-"), np.uint8)
    offset = 0
    for start, stop in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 16)):
        width = 2 * (stop - start)
        text[:, offset : offset + width] = _HEX[ids[:, start:stop]].reshape(len(ids), width)
        offset += width + 1
    bounds = np.arange(0, 36 * len(ids) + 1, 36, dtype=np.int32)
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(bounds), pa.py_buffer(text))


_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
