"""One piece of the derived tables of one function: read at pinned versions, derived, written into files, offered.

Where a piece ends depends on its start, on what stands in the journal and on the bounds alone. Nothing that is written
here counts before the driver commits it (`committing`), so a process that makes pieces may die at any point.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...fold.derived import Beside, Derived, EndsBefore, File, Made, Piece, Rows, at_once
from ...lake.columns import JOURNAL_TABLE
from ...lake.declared import SPECS
from ...lake.ranges import rows_between, weights
from ...lake.storage.compaction import StepHook, passed
from ...lake.storage.files import DataFile, TableFiles
from ...lake.storage.store import is_store
from ...lake.tables import PartitionKey, Table
from ...schemas.errors import DamagedTableError, UnavailableError
from .earlier import EarlierRows, Memories, Memory
from .files import Files, path_of
from .functions import Owned

PIECE_ROWS: Final = 20_000
"""Most rows of a partition in a piece, of all tables that are read; one position is never cut."""
PIECE_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of binary columns (payloads of events) in it, with some for each row."""
_PLACE: Final = ("tenant", "journal_partition", "logical_timestamp", "seq", "system_time")
_PLACE_OF_JOURNAL: Final = ("tenant", "journal_partition", "logical_timestamp", "system_time", "outcome")


@dataclass(frozen=True)
class Bounds:
    """How large a piece is."""

    rows: int = PIECE_ROWS
    size_bytes: int = PIECE_BYTES


USUAL: Final = Bounds()


@dataclass(frozen=True)
class Offer:
    """A piece that waits to be committed.

    Attributes:
        name: of the function.
        uris: the folder of each table.
        begins: each table's marks that its rows begin at.
        ends: the marks that it reaches.
        files: those of each table, in the order of commits.
        more: there was more than a piece.
    """

    name: str
    uris: Mapping[str, str]
    begins: Mapping[str, Mapping[PartitionKey, int]]
    ends: Mapping[PartitionKey, int]
    files: Mapping[str, Sequence[DataFile]]
    more: bool


class FunctionFailed(Exception):  # noqa: N818  (what it says)
    """A function raised an error, or gave what it may not.

    Attributes:
        key, start, end: the piece.
        why: one sentence.
    """

    def __init__(self, key: PartitionKey, start: int, end: int, why: str) -> None:
        super().__init__(key, start, end, why)
        self.key, self.start, self.end, self.why = key, start, end, why


def make_piece(
    owned: Owned,
    tables: Mapping[str, Table],
    upto: Mapping[PartitionKey, int],
    files: Files,
    *,
    bounds: Bounds = USUAL,
    hook: StepHook = passed,
    memories: Memories | None = None,
    beside: Beside = at_once,
) -> Offer | None:
    """Make the next piece.

    Args:
        owned: the function.
        tables: those that it reads and makes, refreshed, what is read before the journal's marks were taken not at all.
        upto: the position of each journal partition to stop at, none above the mark of what is read.
        files: where files beside tables go.
        bounds: how large it is, for each partition.
        hook: called at "derive-before-files" and "derive-after-files".
        memories: what functions have kept of earlier pieces; it changes no row.
        beside: where the function may have something computed.
    Returns:
        None where the tables hold all below `upto`.
    Raises:
        FunctionFailed: the function did; nothing of the piece is left.
        DamagedTableError: a table that is read is damaged.
    """
    derived = owned.derived
    begins = {name: {key: tables[name].mark(key) for key in upto} for name in derived.tables}
    starts = {key: min(begins[name][key] for name in derived.tables) for key in upto}
    behind = [key for key, end in upto.items() if starts[key] < end]
    if not behind:
        return None
    hook("derive-before-files")
    written = {name: TableFiles(name, tables[name].uri, tables[name].storage_options) for name in derived.tables}
    ends: dict[PartitionKey, int] = {}
    with _discarded_on_failure(written):
        for key in behind:
            ends[key] = _end_of(derived, tables, key, starts[key], upto[key], bounds)
            piece = _read(owned, tables, key, starts[key], ends[key])
            kept = (memories or Memories()).of(derived.name, tables, key)
            for made in _derived(owned, piece, tables, key, kept, beside):
                if isinstance(made, File):
                    files.put(owned.domain, made)
                elif isinstance(made, EndsBefore):
                    ends[key] = made.position
                else:
                    rows = _from(made.rows, max(begins[made.table][key], starts[key]))
                    written[made.table].write(rows)
        done = {name: table_files.close() for name, table_files in written.items()}
    hook("derive-after-files")
    uris = {name: tables[name].uri for name in derived.tables}
    ahead = {name: {key: marks[key] for key in ends} for name, marks in begins.items()}
    return Offer(derived.name, uris, ahead, ends, done, any(ends[key] < upto[key] for key in ends))


def discard(offer: Offer) -> None:
    """Delete the files of an offer that nobody takes; in a store the vacuum does."""
    for name, files in offer.files.items():
        uri = offer.uris[name]
        for file in files if not is_store(uri) else ():
            (Path(uri) / file.path).unlink(missing_ok=True)


@contextmanager
def _discarded_on_failure(written: Mapping[str, TableFiles]) -> Iterator[None]:
    try:
        yield
    except Exception:
        for files in written.values():
            files.discard()
        raise


def _end_of(
    derived: Derived, tables: Mapping[str, Table], key: PartitionKey, start: int, upto: int, bounds: Bounds
) -> int:
    """The position after the last one of a piece: as many whole positions as the bounds allow, one at least."""
    piece_weights = [
        weights(tables[name].delta, key, start, upto, columns, bounds.rows + 1, _long_texts(name, columns))
        for name, columns in derived.reads.items()
    ]
    weight_sums = (
        pa.concat_tables(piece_weights)
        .group_by("place")
        .aggregate([("rows", "sum"), ("bytes", "sum")])
        .sort_by("place")
    )
    if not weight_sums.num_rows:
        return upto
    rows, sizes = pc.cumulative_sum(weight_sums["rows_sum"]), pc.cumulative_sum(weight_sums["bytes_sum"])
    fits = pc.and_(pc.less_equal(rows, bounds.rows), pc.less_equal(sizes, bounds.size_bytes))
    count = max(1, pc.sum(fits).as_py())
    return upto if count >= weight_sums.num_rows else int(weight_sums["place"][count].as_py())


def _long_texts(name: str, columns: Sequence[str]) -> set[str]:
    """The texts among some columns of a table that are neither looked up nor the same in many rows."""
    spec = SPECS[name]
    found = {column for column in columns if pa.types.is_string(spec.schema.field(column).type)}
    return found - set(spec.statistics) - spec.repeating


def _read(owned: Owned, tables: Mapping[str, Table], key: PartitionKey, start: int, end: int) -> Piece:
    rows = {}
    for name, columns in owned.derived.reads.items():
        place = _PLACE_OF_JOURNAL if name == JOURNAL_TABLE else _PLACE
        named = [*place, *(column for column in columns if column not in place)]
        rows[name] = rows_between(tables[name].delta, key, start, end, named)
    return Piece(owned.journal, key[1], start, end, rows)


def _derived(
    owned: Owned, piece: Piece, tables: Mapping[str, Table], key: PartitionKey, kept: Memory, beside: Beside
) -> Iterator[Made]:
    """What the function makes of a piece; whatever goes wrong in it is its own fault, but damage of the lake."""
    earlier = EarlierRows(owned.derived, tables, key, piece.start, piece.end, kept, beside)
    made = _called(owned.derived, piece, earlier)
    last = -1
    while True:
        try:
            output = next(made, None)
            if isinstance(output, Rows):
                output = Rows(output.table, _checked(owned, piece, tables, output))
                last = max(last, pc.max(output.rows["logical_timestamp"]).as_py() or -1)
            elif isinstance(output, File):
                path_of(owned.domain, output)
            elif isinstance(output, EndsBefore):
                _check_end(output, piece, last)
                made.close()
        except (DamagedTableError, UnavailableError):
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            raise FunctionFailed(key, piece.start, piece.end, why) from error
        if output is None:
            return
        yield output


def _check_end(end: EndsBefore, piece: Piece, last: int) -> None:
    """Hold an early end against the piece, and against the last position that rows were made of."""
    if not max(piece.start, last) < end.position <= piece.end:
        raise ValueError(f"it ends before {end.position}, which is not behind its rows and within the piece")


def _called(derived: Derived, piece: Piece, earlier: EarlierRows) -> Generator[Made]:
    """Call a function with the first row that is asked for, so that it fails there and not before."""
    yield from derived.derive(piece, earlier)


def _checked(owned: Owned, piece: Piece, tables: Mapping[str, Table], made: Rows) -> pa.Table:
    """Rows as their table has them, if they stand within the piece."""
    if made.table not in owned.derived.tables:
        raise ValueError(f"{made.table!r} is none of its tables")
    rows = made.rows.select(tables[made.table].schema.names).cast(tables[made.table].schema)
    if rows.num_rows:
        places = pc.min_max(rows["logical_timestamp"]).as_py()
        within = piece.start <= places["min"] and places["max"] < piece.end
        own = (pc.unique(rows["domain"]).to_pylist(), pc.unique(rows["journal_partition"]).to_pylist())
        if not within or own != ([piece.domain], [piece.partition]):
            raise ValueError(f"rows of {made.table!r} follow from no row of the piece")
    return rows


def _from(rows: pa.Table, mark: int) -> pa.Table:
    """Those of some rows that a table does not hold yet: a kill between two commits leaves one table ahead."""
    if not rows.num_rows or pc.min(rows["logical_timestamp"]).as_py() >= mark:
        return rows
    return rows.filter(pc.greater_equal(rows["logical_timestamp"], mark))
