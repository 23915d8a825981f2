"""What Parquet and CSV files say: of Parquet the footers, of CSV the first lines. No data is read beyond that.

The columns of several files are one schema: a column has the type that all its files' types fit into, else all of them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyarrow import fs

from ..columns import Column
from .listing import CSV, PARQUET, DataFile
from .types import of_arrow

SAMPLE_BYTES: Final = 65_536
"""Number of bytes read of a CSV file, uncompressed."""
_DELIMITERS: Final = ",;\t|"
_BLANK_LINES: Final = re.compile(r"\s*\n")
_NUMBER: Final = re.compile(r"\s*[+-]?\d[\d.,:T -]*\s*")


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file says.

    Attributes:
        schema: its columns.
        rows: number of rows; None: not known, as not all of it was read.
        delimiter: of a CSV file.
    """

    schema: pa.Schema
    rows: int | None
    delimiter: str | None = None

    @property
    def likeness(self) -> frozenset[tuple[str, str]]:
        """What files of one table have in common: their columns, of CSV the names alone, as types are guessed there."""
        if self.delimiter is not None:
            return frozenset((name, self.delimiter) for name in self.schema.names)
        return frozenset((field.name, str(field.type)) for field in self.schema)


def of_parquet(store: fs.FileSystem, file: DataFile) -> Contents:
    """A Parquet file's footer. Raises: OSError, pyarrow.ArrowException: it cannot be read, or is no Parquet file."""
    with store.open_input_file(file.path) as opened:
        footer = pyarrow.parquet.ParquetFile(opened)
        return Contents(footer.schema_arrow.remove_metadata(), footer.metadata.num_rows)


def of_csv(store: fs.FileSystem, file: DataFile) -> Contents:
    """A CSV file's columns, by its first lines. Raises: OSError, pyarrow.ArrowException: it cannot be read."""
    with store.open_input_stream(file.path, compression="detect") as stream:
        read = _read(stream, SAMPLE_BYTES + 1)
    is_whole = len(read) <= SAMPLE_BYTES
    text = _decoded(read[:SAMPLE_BYTES])
    sample = text if is_whole else _whole_records(text)
    if (blank := _BLANK_LINES.match(sample)) is not None:  # they are neither header nor rows
        sample = sample[blank.end() :]
    first = sample.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    if not first.strip():
        return Contents(pa.schema([]), 0 if is_whole else None, delimiter)
    names = next(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter))
    table = pyarrow.csv.read_csv(
        pa.BufferReader(sample.encode()),
        read_options=pyarrow.csv.ReadOptions(
            autogenerate_column_names=not _is_header(names), use_threads=False, block_size=4 * SAMPLE_BYTES + 1024
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
        ),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
    )
    return Contents(table.schema, table.num_rows if is_whole else None, delimiter)


READERS: Final = {PARQUET: of_parquet, CSV: of_csv}


def columns_of(schemas: Iterable[pa.Schema]) -> tuple[Column, ...]:
    """The columns of several files, in the order in which they first occur."""
    fields: dict[str, dict[pa.Field, None]] = {}
    for schema in dict.fromkeys(schemas):
        for field in schema:
            fields.setdefault(field.name, {})[field] = None
    return tuple(_column(name, [*of]) for name, of in fields.items())


def _column(name: str, fields: list[pa.Field]) -> Column:
    try:
        whole = pa.unify_schemas([pa.schema([field]) for field in fields], promote_options="permissive")
        return of_arrow(whole)[0]
    except pa.ArrowException:
        columns = [of_arrow(pa.schema([field]))[0] for field in fields]
        return Column(name, " | ".join(sorted({column.type for column in columns})))


def _read(stream: pa.NativeFile, limit: int) -> bytes:
    """The first bytes; a stream may give fewer at a time than it is asked for."""
    pieces = bytearray()
    while len(pieces) < limit and (piece := stream.read(limit - len(pieces))):
        pieces += piece
    return bytes(pieces)


def _decoded(text: bytes) -> str:
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return text.decode("utf-16", "replace")
    return text.decode("utf-8-sig", "replace").replace("\0", "")


def _whole_records(text: str) -> str:
    """A text that was cut anywhere, up to the end of its last whole record: a quoted value may hold line ends."""
    end, position, quotes = 0, 0, 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        quotes += line.count('"')
        if quotes % 2 == 0 and line.endswith(("\n", "\r")):
            end = position
    return text[:end] or text


def _is_header(names: list[str]) -> bool:
    """Whether a first line names columns: each name occurs once, and none is empty or a number."""
    return len({*names}) == len(names) and not any(not name.strip() or _NUMBER.fullmatch(name) for name in names)
