"""Where each microsecond of the fold goes: one process, one journal partition, no service.

`python -m bench.fold` folds a generated journal from Arrow records to Parquet and prints microseconds per event for
each part, the best of several rounds. The rounds go through all parts in turn, since a machine's speed drifts.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench import source
from bench.workload import journal
from metajournal.domains.catalog.columns import documents as catalog_documents
from metajournal.domains.catalog.columns.columnar import Columnar, Made
from metajournal.domains.catalog.columns.journal_columns import journal_columns
from metajournal.domains.catalog.columns.plain import Plain
from metajournal.fold.folded import Folded, Prior
from metajournal.fold.journal import journal_table
from metajournal.fold.judging import fold
from metajournal.fold.prior import KnownOriginals, PriorRows
from metajournal.fold.published import documents
from metajournal.fold.readings import Readings, read_table
from metajournal.fold.records import SOURCE, Place
from metajournal.fold.repeats import Repeats
from metajournal.lake.columns import ENTITIES as SCHEMA
from metajournal.lake.entities import rows_to_arrow
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import digest
from metajournal.schemas.header import Header
from metajournal.schemas.topics import TopicNames
from metajournal.schemas.urn import Urn
from metajournal.streaming.staging import Staging

EVENTS: Final = 200_000
ENTITIES: Final = 60_000
ROUNDS: Final = 5
TOPIC: Final = "metajournal.journal.catalog"
PLACE: Final = Place(TOPIC, 0, 1, "catalog", frozenset())
NAMES: Final = TopicNames("metajournal")
_BIT_ROWS: Final = 16_384
_START_MS: Final = 1_760_000_000_000
_WRITE: Final = {"compression": "zstd", "compression_level": 1, "row_group_size": 16_384}


def records(events: int = EVENTS, entities: int = ENTITIES) -> pa.Table:
    """The journal as Spark's Kafka source gives one partition of it."""
    rows = [_record(offset, *event) for offset, event in enumerate(journal(events, entities))]
    return pa.Table.from_pylist(rows, schema=SOURCE)


def _record(offset: int, tenant: str, entity: Urn, event: Any) -> dict[str, Any]:
    time_ms = _START_MS + offset // 20
    identity = source.identity(offset, time_ms)
    header = Header(identity, tenant, event.TYPE, str(entity), (str(entity),), f"user-{offset % 200}", time_ms)
    return source.record(TOPIC, 0, offset, header, event)


class Nothing(dict[Any, Any]):
    """Prior rows of an empty lake."""

    def __missing__(self, key: Any) -> None:
        return None


class NoPrior(PriorRows):
    """The same for the columnar way."""

    def __init__(self) -> None:
        super().__init__(None, None, 0)  # type: ignore[arg-type]

    def repeats(self, *_: Any) -> Repeats:
        return Repeats()

    def newest_of(self, *_: Any) -> pa.Table:
        return SCHEMA.empty_table()


def parts(table: pa.Table, folder: Path) -> Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """Each part: its name, and a function of what the parts before it made."""
    end = (1 << 40) + table.num_rows
    yield "digest", lambda _: [digest(value) for value in table["value"].to_pylist()]
    yield "decode one by one", lambda _: [codec.decode(value) for value in table["value"].to_pylist()]
    yield "read", lambda _: read_table(table, PLACE, 1, 1 << 40, end)
    yield "needs", lambda made: made["read"].needs()
    yield "fold", lambda made: _folded(made["read"])
    yield "documents, staged", lambda made: _published(made["fold"], folder)
    yield "entity rows", lambda made: rows_to_arrow((change.after, "catalog", 0) for change in made["fold"].changes)
    yield "journal rows", lambda made: journal_table(made["fold"])
    yield "entities, Parquet", lambda made: pq.write_table(made["entity rows"], folder / "entities", **_WRITE)
    yield "journal, Parquet", lambda made: pq.write_table(made["journal rows"], folder / "journal", **_WRITE)
    bits = [table.slice(start, _BIT_ROWS) for start in range(0, table.num_rows, _BIT_ROWS)]
    yield "columns: keys", lambda _: _keyed(table)
    yield "columns: read", lambda made: [made["columns: keys"].plain(bit, 1) for bit in bits]
    yield "columns: fold", lambda made: _in_columns(made["columns: keys"], bits, made["columns: read"])
    yield "columns, Parquet", lambda made: pq.write_table(_rows(made["columns: fold"]), folder / "columns", **_WRITE)
    yield "columns: journal", lambda made: _journal(bits, made["columns: fold"])
    yield "columns: journal, Parquet", lambda made: pq.write_table(made["columns: journal"], folder / "both", **_WRITE)
    yield "columns: documents, staged", lambda made: _staged(made["columns: fold"], folder)


def _keyed(table: pa.Table) -> Columnar:
    columns = Columnar(PLACE, 1 << 40, NoPrior())
    columns.prefetch(table["key"])
    return columns


def _in_columns(columns: Columnar, bits: list[pa.Table], plain: list[Plain]) -> list[Made]:
    made = [columns.fold(folded, _times(bit)[folded.row]) for folded, bit in zip(plain, bits, strict=True)]
    assert sum(len(folded.plain.row) for folded in made) == sum(map(len, bits)), "not all of the journal is plain"
    return made


def _times(bit: pa.Table) -> Any:
    return bit["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()


def _rows(made: list[Made]) -> pa.Table:
    return pa.concat_tables([folded.rows for folded in made])


def _journal(bits: list[pa.Table], made: list[Made]) -> pa.Table:
    rows = [journal_columns(PLACE, bit, _times(bit), folded) for bit, folded in zip(bits, made, strict=True)]
    return pa.concat_tables(rows)


def _staged(made: list[Made], folder: Path) -> int:
    file = Staging(str(folder)).writer("records")
    for folded in made:
        for block in catalog_documents.blocks(Folded(PLACE, 0, 0, 0), folded, NAMES):
            file.write_columns(block)
    return file.close()


def _folded(readings: Readings) -> Folded:
    return fold(readings, Prior(Nothing(), {}, KnownOriginals({}, {})), 0)


def _published(folded: Folded, folder: Path) -> int:
    file = Staging(str(folder)).writer("one-by-one")
    for start in range(0, len(folded.changes), _BIT_ROWS):
        file.write_documents(documents(replace(folded, changes=folded.changes[start : start + _BIT_ROWS]), NAMES))
    return file.close()


ONE_BY_ONE: Final = ("read", "needs", "fold", "entity rows", "entities, Parquet")
REBUILD: Final = ("columns: keys", "columns: read", "columns: fold", "columns, Parquet")
CATCH_UP: Final = (*ONE_BY_ONE, "documents, staged", "journal rows", "journal, Parquet")
CATCH_UP_IN_COLUMNS: Final = (
    *REBUILD, "columns: journal", "columns: journal, Parquet", "columns: documents, staged"
)  # fmt: skip
SUMS: Final = {
    "rebuild, one by one": ONE_BY_ONE,
    "rebuild, in columns": REBUILD,
    "catch-up, one by one": CATCH_UP,
    "catch-up, in columns": CATCH_UP_IN_COLUMNS,
}


def measure(rounds: int = ROUNDS, events: int = EVENTS, entities: int = ENTITIES) -> dict[str, float]:
    """Microseconds per event of each part, the best of some rounds."""
    table = records(events, entities)
    return best_of(rounds, events, lambda folder: parts(table, folder))


def best_of(
    rounds: int, count: int, parts_in: Callable[[Path], Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]]
) -> dict[str, float]:
    """Microseconds of processor time of each part, for one of `count`: the best of some rounds through all of them.

    Args:
        parts_in: the parts, given a folder of the round's own: of each its name, and a function of what the parts
            before it made.
    """
    best: dict[str, float] = {}
    for _ in range(rounds):
        made: dict[str, Any] = {}
        with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
            for name, run in parts_in(Path(folder)):
                gc.collect()
                gc.disable()
                start = time.process_time()
                made[name] = run(made)
                best[name] = min(best.get(name, 1e9), (time.process_time() - start) / count * 1e6)
                gc.enable()
    return best


def main() -> None:
    """Print the table. Arguments: rounds, events."""
    given = [int(argument) for argument in sys.argv[1:]]
    best = measure(*given)
    for name, cost_us in best.items():
        print(f"{name:28} {cost_us:6.2f}")
    for name, names in SUMS.items():
        print(f"{name:28} {sum(best[part] for part in names):6.2f} us per event and core")


if __name__ == "__main__":
    main()
