"""A set of 64-bit hashes that grows: most of them sorted, and the newest sorted by themselves.

Invariant: a value never changes; what is added makes a new one, which shares what is old.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ..schemas.encoding.cursor import Numbers

_NONE: Final = np.empty(0, np.uint64)
_FEW: Final = 4_096
_SHARE: Final = 16
"""New hashes are sorted into the others when there is one of them for so many, so that adding stays cheap."""


class Hashes:
    """A set of hashes, 8 bytes each.

    Args:
        many: sorted, without repetitions.
        new: the same; the newest.
    """

    __slots__ = ("_many", "_new")

    def __init__(self, many: Numbers = _NONE, new: Numbers = _NONE) -> None:
        self._many = many
        self._new = new

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return int(self._many.nbytes + self._new.nbytes)

    def __len__(self) -> int:
        """How many there are; one that was added again counts twice until it is sorted in."""
        return len(self._many) + len(self._new)

    def plus(self, hashes: Numbers) -> Hashes:
        """The set with more hashes."""
        if not len(hashes):
            return self
        new = np.union1d(self._new, hashes)
        if len(new) <= max(_FEW, len(self._many) // _SHARE):
            return Hashes(self._many, new)
        return Hashes(np.union1d(self._many, new))

    def hits(self, hashes: Numbers) -> Numbers:
        """Which of some hashes are in the set."""
        return _among(self._many, hashes) | _among(self._new, hashes)


def _among(ordered: Numbers, hashes: Numbers) -> Numbers:
    if not len(ordered):
        return np.zeros(len(hashes), np.bool_)
    places = np.minimum(np.searchsorted(ordered, hashes), len(ordered) - 1)
    among: Numbers = ordered[places] == hashes
    return among


def hashes_of_rows(rows: pa.Table) -> Numbers:
    """64-bit hashes of rows: the same for the same values of the same types as long as this process lives."""
    import polars as pl  # 16 MiB and four threads, which a process that follows single entities does without

    columns = {
        name: pl.Series(pl.from_arrow(column)) for name, column in zip(rows.column_names, rows.columns, strict=True)
    }
    hashes: Numbers = pl.DataFrame(columns).hash_rows(seed=0).to_numpy()
    return hashes
