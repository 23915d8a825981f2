"""Sorted tables that are set aside for a while: in memory up to a bound, the others in a file that has no name.

So whoever makes much before anybody may see it holds little of it, and a process that is killed leaves nothing.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple, Self

import pyarrow as pa

from .group_rows import Span

MOST_BYTES: Final = 32 * 1024 * 1024
"""What is held in memory."""


class _Chunk(NamedTuple):
    """Some rows: themselves, or where they stand in the file."""

    span: Span
    rows: pa.Table | None
    offset: int
    size_bytes: int


class Spool:
    """Tables by number, each in chunks that follow each other in the order of one column.

    Args:
        column: by which the rows are sorted; never null.
        most_bytes: held in memory.
    """

    def __init__(self, column: str, most_bytes: int = MOST_BYTES) -> None:
        self._column = column
        self._room = most_bytes
        self._chunks: dict[int, list[_Chunk]] = {}
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Forget everything; chunks that somebody still has stay whole."""
        self._chunks.clear()
        if self._file is not None:
            self._file.close()

    def add(self, number: int, rows: pa.Table) -> None:
        """Set rows aside, all behind those of this number that are here."""
        if not rows.num_rows:
            return
        values = rows[self._column]
        span = Span(values[0].as_py(), values[rows.num_rows - 1].as_py(), rows.num_rows)
        if rows.nbytes <= self._room:
            self._room -= rows.nbytes
            chunk = _Chunk(span, rows, 0, rows.nbytes)
        else:
            chunk = _Chunk(span, None, *self._written(rows))
        self._chunks.setdefault(number, []).append(chunk)

    def drop(self, number: int) -> None:
        """Forget a table."""
        for chunk in self._chunks.pop(number, ()):
            self._room += chunk.size_bytes if chunk.rows is not None else 0

    def rename(self, number: int, to: int) -> None:
        """Have a table take another number, in the place of what has that."""
        self.drop(to)
        if number in self._chunks:
            self._chunks[to] = self._chunks.pop(number)

    def spans(self, number: int) -> list[Span]:
        """The bounds of each chunk of a table."""
        return [chunk.span for chunk in self._chunks.get(number, ())]

    def chunks(self, number: int, least: Any = None, greatest: Any = None) -> Iterator[pa.Table]:
        """The chunks of a table that can hold a value between two, both included; all where none is given."""
        for span, rows, offset, size_bytes in self._chunks.get(number, ()):
            if (least is None or span.greatest >= least) and (greatest is None or span.least <= greatest):
                yield self._read(offset, size_bytes) if rows is None else rows

    def _written(self, rows: pa.Table) -> tuple[int, int]:
        """Write rows behind all others; gives where they begin, and how many bytes they take."""
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed at the end)
        end = self._file.seek(0, 2)
        offset = -(-end // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self._file.seek(offset)
        with pa.ipc.new_stream(self._file, rows.schema) as writer:
            writer.write_table(rows)
        self._file.flush()
        return offset, self._file.tell() - offset

    def _read(self, offset: int, size_bytes: int) -> pa.Table:
        """Rows of the file, which are read when they are looked at."""
        assert self._file is not None
        mapped = mmap.mmap(self._file.fileno(), size_bytes, access=mmap.ACCESS_READ, offset=offset)
        return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()
