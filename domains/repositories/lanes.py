"""The lanes over the objects of a commit, of many objects at once; where somebody helps, beside what else is done.

What is hashed is said by `merging.roots.object_element`, of one object.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...fold.derived import Beside, Pending, at_once
from ...schemas.lthash_bulk import hashed, updated
from .merging.roots import LENGTH_BYTES, OBJECT

MOST_AT_ONCE: Final = 8_192
"""Objects that are hashed in one call: 40 ms."""
_FEWEST_BESIDE: Final = 512
"""To hash fewer costs less than to hand them over."""
_BYTES: Final = pa.large_binary()


class Lanes:
    """The lanes over some objects: those of a commit, and what is changed at it.

    Args:
        beside: where hashes may be made.
        before: 2,048 bytes, or lanes that are not counted any more.
    """

    def __init__(self, beside: Beside, before: Lanes | bytes) -> None:
        self._beside = beside
        self._before = before
        self._added: list[Pending[bytes]] = []
        self._removed: list[Pending[bytes]] = []

    def add(self, paths: pl.Series, contents: pl.Series) -> None:
        """Objects come to be: paths, and of each its content of 16 bytes."""
        self._added += self._sums(paths, contents)

    def remove(self, paths: pl.Series, contents: pl.Series) -> None:
        """Objects are no longer."""
        self._removed += self._sums(paths, contents)

    @property
    def state(self) -> bytes:
        """The lanes, 2,048 bytes."""
        before = self._before if isinstance(self._before, bytes) else self._before.state
        if self._added or self._removed:
            before = updated(before, [one() for one in self._added], [one() for one in self._removed])
            self._added, self._removed = [], []
        self._before = before
        return before

    def _sums(self, paths: pl.Series, contents: pl.Series) -> list[Pending[bytes]]:
        messages = messages_of(paths, contents)
        parts = [messages[start : start + MOST_AT_ONCE] for start in range(0, len(messages), MOST_AT_ONCE)]
        return [(self._beside if len(part) >= _FEWEST_BESIDE else at_once)(hashed, part) for part in parts]


def messages_of(paths: pl.Series, contents: pl.Series) -> list[bytes]:
    """What is hashed of each of some objects."""
    lengths = paths.str.len_bytes().to_numpy().astype("<u4")
    assert lengths.itemsize == LENGTH_BYTES
    sizes = pa.Array.from_buffers(
        _BYTES, len(lengths), [None, pa.py_buffer(np.arange(len(lengths) + 1) * LENGTH_BYTES), pa.py_buffer(lengths)]
    )
    texts, values = (one.to_arrow().cast(_BYTES) for one in (paths, contents))
    joined = pc.binary_join_element_wise(pa.scalar(OBJECT, _BYTES), sizes, texts, values, pa.scalar(b"", _BYTES))
    messages: list[bytes] = pl.Series(joined).to_list()
    return messages
