"""Layers in memory, as far as there is room: what a commit changes is looked up in the layers of the one before it.

A layer never changes, so what is kept of it is right as long as it is kept. A thousand paths among a million are found
in 2 ms; reading the row groups that can hold them takes 250. Threads share it, and read one layer at a time: several at
once would take more memory while they are read than all that is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

KEPT_COLUMNS: Final = frozenset({"content", "size"})
"""Of an object, besides its path, whether it is deleted, and its place."""
_MOST_ROWS: Final = 1 << 20
_MOST_BYTES: Final = 160 * 1024 * 1024
"""A layer of a million paths of 40 bytes takes 97 MB; it would else be read anew for each question."""
_ROW_BYTES: Final = 57
_FEW: Final = 64
_BYTE, _BIT = np.uint64(3), np.uint64(7)
_FEWEST_SIEVED: Final = 2_048
"""A smaller layer is looked through."""
_BITS_OF_PATH: Final = 16
"""At least so many bits has a sieve for each path."""
_PLACES: Final = tuple(map(np.uint64, (0, 20, 40)))
"""Where in its number stand the three places of a path: of 170 that are not there one is let through, or fewer."""


class Sought:
    """Paths that are looked for.

    Args:
        paths: sorted, each once.
    """

    def __init__(self, paths: pl.Series) -> None:
        self.paths = paths

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """A number of each path."""
        return _hashes(self.paths)


class _Sieve:
    """Says of most paths that a layer lacks them, without comparing texts: some bits for each (a Bloom filter).

    A path is looked for in each of a commit's layers, and most often none has it.
    """

    def __init__(self, paths: pl.Series) -> None:
        slots = 1 << (len(paths) * _BITS_OF_PATH).bit_length()
        self._mask = np.uint64(slots - 1)
        taken = np.zeros(slots, bool)
        hashes = _hashes(paths)
        for place in _PLACES:
            taken[hashes >> place & self._mask] = True
        self._bits = np.packbits(taken, bitorder="little")

    @property
    def size_bytes(self) -> int:
        return self._bits.nbytes

    def may_have(self, sought: Sought) -> pl.Series:
        """Which of some paths the layer may have; those that it has are among them."""
        found = np.ones(len(sought.paths), bool)
        for place in _PLACES:
            slots = sought.hashes >> place & self._mask
            found &= (self._bits[slots >> _BYTE] >> (slots & _BIT).astype(np.uint8) & np.uint8(1)).astype(bool)
        return pl.Series(found)


def _hashes(paths: pl.Series) -> npt.NDArray[np.uint64]:
    return paths.hash().to_numpy()


class KeptLayers:
    """The layers that were asked for last.

    Args:
        most_bytes: they may take.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._held: OrderedDict[Hashable, pl.DataFrame] = OrderedDict()
        self._sieves: dict[Hashable, _Sieve] = {}
        self._most_bytes = most_bytes
        self._size_bytes = 0
        self._lock = threading.Lock()
        self._reading = threading.Lock()

    def takes(self, rows: int) -> bool:
        """Whether a layer of so many rows is kept: where there is hardly room for it, it would be read for nothing."""
        return rows <= _MOST_ROWS and rows * _ROW_BYTES * 2 <= self._most_bytes

    def get(self, key: Hashable) -> pl.DataFrame | None:
        """The rows of a layer, if they are here."""
        with self._lock:
            rows = self._held.get(key)
            if rows is not None:
                self._held.move_to_end(key)
            return rows

    def at(self, key: Hashable, rows: pl.DataFrame, sought: Sought) -> pl.DataFrame:
        """As `at_paths`, of a layer that may be here.

        Args:
            rows: all of the layer, as `get` or `put` has given them.
        """
        few = len(sought.paths) * _FEW <= rows.height
        sieve = None if few or rows.height < _FEWEST_SIEVED else self._sieve(key, rows)
        paths = sought.paths if sieve is None else sought.paths.filter(sieve.may_have(sought))
        return at_paths(rows, paths) if len(paths) else rows.clear()

    def _sieve(self, key: Hashable, rows: pl.DataFrame) -> _Sieve | None:
        """The sieve of a layer, made when it is first asked for; None where the layer is not here."""
        with self._lock:
            sieve, is_here = self._sieves.get(key), key in self._held
        if sieve is not None or not is_here:
            return sieve
        sieve = _Sieve(rows["path"])
        with self._lock:
            if key in self._held and key not in self._sieves:
                self._sieves[key] = sieve
                self._size_bytes += sieve.size_bytes
        return sieve

    def get_or_read(self, key: Hashable, read: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The rows of a layer; read where they are not here, by one thread for all, and kept."""
        rows = self.get(key)
        if rows is not None:
            return rows
        with self._reading:
            rows = self.get(key)
            return self.put(key, read()) if rows is None else rows

    def put(self, key: Hashable, rows: pl.DataFrame) -> pl.DataFrame:
        """Keep the rows of a layer, as long as there is room for them; gives them as they are kept."""
        rows = _compact(rows)
        with self._lock:
            if key in self._held:
                self._forget(key)
            self._size_bytes += _size_bytes(rows)
            self._held[key] = rows
            while self._size_bytes > self._most_bytes and self._held:
                self._forget(next(iter(self._held)))
        return rows

    def _forget(self, key: Hashable) -> None:
        self._size_bytes -= _size_bytes(self._held.pop(key))
        sieve = self._sieves.pop(key, None)
        self._size_bytes -= 0 if sieve is None else sieve.size_bytes


def _size_bytes(rows: pl.DataFrame) -> int:
    """What rows take: of each text and of each bytes 16, besides themselves, which polars leaves out."""
    return rows.height * _ROW_BYTES + int(rows["path"].str.len_bytes().sum())


def _compact(rows: pl.DataFrame) -> pl.DataFrame:
    """The same rows in memory of their own: texts else keep all that was read with them."""
    made = pl.from_arrow(rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
    assert isinstance(made, pl.DataFrame)
    return made.rechunk()


def at_paths(rows: pl.DataFrame, paths: pl.Series) -> pl.DataFrame:
    """Those of a layer's rows that have one of some paths.

    Args:
        rows: by path, each once.
        paths: sorted, each once.
    """
    if len(paths) * _FEW > rows.height:
        return rows.filter(rows["path"].is_in(paths.implode()))
    places = rows["path"].search_sorted(paths, "left")
    there = places < rows.height
    found = rows[places.filter(there)]
    return found.filter(found["path"] == paths.filter(there))


def at_paths_of(layers: Mapping[int, pl.DataFrame], paths: pl.Series, number: str) -> pl.DataFrame:
    """As `at_paths`, of some layers at once: those that are small beside the paths are looked through together.

    Args:
        layers: rows by the number of their layer; at least one.
        number: the column that tells it.
    """
    small = {one for one, rows in layers.items() if len(paths) * _FEW > rows.height}
    frames = [
        (rows if one in small else at_paths(rows, paths)).lazy().with_columns(pl.lit(one, pl.Int64).alias(number))
        for one, rows in layers.items()
    ]
    return pl.concat(frames).filter(pl.col("path").is_in(paths.implode())).collect()
