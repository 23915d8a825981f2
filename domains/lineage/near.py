"""Which programs are near: the relations of data and programs in memory, so that a walk asks for many programs at once.

A question to the tables for each level is dear where there are many levels. Relations are few (one for each pair,
whatever the number of runs), so below a size they are read once, and the programs that a walk may come to next are
known before their accesses are read. Only a guess of what to fetch together: what a walk finds does not depend on it.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

MOST_HELD = 200_000
"""Relations that are read at once, about 40 ms; of more, only those of the data at hand are looked up."""


class Near:
    """Relations held in memory.

    Args:
        relations: columns `data` and `program`, texts; pairs may come twice.
    """

    def __init__(self, relations: pa.Table) -> None:
        self._data, self._data_names = _coded(relations["data"])
        self._programs, self._program_names = _coded(relations["program"])

    def programs(self, data: Collection[str]) -> list[str]:
        """The programs that ever touched any of these data, in any order."""
        return self._named(self._over(_codes(data, self._data_names)))

    def around(self, programs: Collection[str], levels: int, most: int) -> list[str]:
        """These programs, and the nearest others up to a number.

        Args:
            levels: how often to go from programs to data to programs.
            most: most programs, unless more are given.
        """
        reached = _codes(programs, self._program_names)
        newest = reached
        while levels > 0 and len(newest) and len(reached) < most:
            data = pc.unique(pc.filter(self._data, pc.is_in(self._programs, value_set=newest)))
            near = self._over(data)
            newest = pc.filter(near, pc.invert(pc.is_in(near, value_set=reached)))
            reached = pa.concat_arrays([reached, newest])
            levels -= 1
        return self._named(reached[: max(most, len(programs))])

    def _over(self, data: pa.Array) -> pa.Array:
        return pc.unique(pc.filter(self._programs, pc.is_in(self._data, value_set=data)))

    def _named(self, codes: pa.Array) -> list[str]:
        names: list[str] = self._program_names.take(codes).to_pylist()
        return names


def _coded(column: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Numbers in the place of texts, and the text of each number."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks() if encoded.num_chunks else None
    if encoded is None:
        return pa.array([], pa.int32()), pa.array([], pa.string())
    return encoded.indices, encoded.dictionary


def _codes(texts: Collection[str], names: pa.Array) -> pa.Array:
    """The numbers of texts; those without one are left away."""
    return pc.drop_null(pc.index_in(pa.array(sorted(texts), names.type), value_set=names))
