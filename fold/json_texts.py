"""Texts of many rows at once, as columns; most are JSON documents, as `lake.spelling.spelled` writes each.

A document is spelled once, with marks where rows differ, and columns of texts go where the marks are. So what a
document says stands with whoever makes it, and its spelling in one place. The same goes for any other text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.spelling import spelled, spelled_all
from ..schemas.encoding.cursor import Numbers

TEXT: Final = pa.large_string()
_MARK: Final = re.compile(r'"\\u0000([a-z_]+)"(?::0)?')
_BARE_MARK: Final = re.compile(r"\0([a-z_]+)")
_QUOTE, _BACKSLASH, _SPACE = 0x22, 0x5C, 0x20


def mark(name: str) -> str:
    """Stands in a document for a value of any kind, in a list for all of its entries."""
    return f"\0{name}"


def marked_map(name: str) -> dict[str, Any]:
    """A map with a mark for all of its entries."""
    return {mark(name): 0}


class Pattern:
    """A text with marks in it."""

    def __init__(self, text: str) -> None:
        self._pieces = _BARE_MARK.split(text)

    @property
    def marks(self) -> list[str]:
        """The names of the marks, in their order."""
        return self._pieces[1::2]

    def filled(self, columns: Mapping[str, Any]) -> pa.Array:
        """The text of each row; null where one of its columns is.

        Args:
            columns: by the names of the marks what stands there, of type TEXT.
        """
        return joined(*[columns[piece] if number % 2 else piece for number, piece in enumerate(self._pieces)])


class Template(Pattern):
    """A document with marks in it; the columns that fill it are JSON texts."""

    def __init__(self, document: Any) -> None:
        self._pieces = _MARK.split(spelled(document).decode())


def joined(*parts: Any) -> pa.Array:
    """Texts one behind the other, row by row, null where one is; what is the same in each row may be a str."""
    scalars = [pa.scalar(part, TEXT) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar("", TEXT))


def text(column: Any) -> pa.Array:
    """A column as one array of type TEXT: numbers and booleans as JSON has them."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.cast(TEXT)


def quoted(column: Any) -> pa.Array:
    """Texts as JSON has them, null among them."""
    texts = text(column)
    array = joined('"', _escaped(texts), '"')
    return array.fill_null("null") if array.null_count else array


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts as JSON has them between its quotes: nearly all of them as they are."""
    rows = _special(texts)
    if not len(rows):
        return texts
    chosen = texts.take(pa.array(rows)).dictionary_encode()
    right = [spelling[1:-1].decode() for spelling in spelled_all(chosen.dictionary.to_pylist())]
    mask = np.zeros(len(texts), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(right, TEXT).take(chosen.indices))


def _special(texts: pa.Array) -> Numbers:
    """The rows that hold a character which JSON escapes: a quote, a backslash, or a control character."""
    if not len(texts):
        return np.zeros(0, np.int64)
    _, bounds, data = texts.buffers()
    starts = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data is None or starts[0] == starts[-1]:
        return np.zeros(0, np.int64)
    data_bytes = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]
    offsets = np.flatnonzero((data_bytes < _SPACE) | (data_bytes == _QUOTE) | (data_bytes == _BACKSLASH)) + starts[0]
    held_by = np.searchsorted(starts, offsets, side="right") - 1
    rows: Numbers = held_by[np.diff(held_by, prepend=-1) > 0]
    return rows[texts.take(pa.array(rows)).is_valid().to_numpy(zero_copy_only=False)] if texts.null_count else rows


def lists(row_numbers: Numbers, entries: pa.Array, rows: int) -> pa.Array:
    """The entries of each row, parted by commas.

    Args:
        row_numbers: the row of each entry, ascending.
        rows: how many there are.
    """
    bounds = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row_numbers, minlength=rows), out=bounds[1:])
    return pc.binary_join(pa.LargeListArray.from_arrays(pa.array(bounds), entries), pa.scalar(",", TEXT))
