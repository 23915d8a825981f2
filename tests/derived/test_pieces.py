"""Derived tables hold the same rows wherever pieces end, whatever is killed, compacted or vacuumed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.fold.derived import Derived, File, Rows
from metajournal.lake.declared import SPECS
from metajournal.lake.digest import table_digest
from metajournal.lake.tables import Lake
from metajournal.streaming.crash import DERIVING
from metajournal.streaming.derived.committing import commit, fill, tables_of
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.functions import DERIVED, Owned
from metajournal.streaming.derived.making import Bounds, FunctionFailed, discard, make_piece
from tests.derived import toys
from tests.model import JournalRecord
from tests.properties import examples
from tests.strategies import journals
from tests.streaming.harness import TOPIC, Crash, EndsAt, Fold
from tests.streaming.test_engine import PURCHASES, journal_of

PARTITIONS = 3
KEYS = [(TOPIC, partition) for partition in range(PARTITIONS)]


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    toys.declared(monkeypatch)


def marks(lake: Lake) -> dict[tuple[str, int], int]:
    lake.refresh()
    return {key: lake.journal.mark(key) for key in KEYS}


def filled(lake: Lake, bounds: Bounds | None = None, at: Any = lambda point: None) -> None:
    fill(lake, {"toy": marks(lake)}, StoredFiles(lake.path, {}), bounds=bounds or Bounds(), hook=at)


def digests(lake: Lake) -> dict[str, str]:
    return {name: table_digest(lake.tables[name].delta, marks(lake)) for name in toys.TABLES}


BOUNDS = st.builds(Bounds, st.integers(1, 9), st.sampled_from([1, 400, 1 << 20]))


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS), st.data())
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
def test_any_cut_into_pieces_and_any_kill_gives_the_same_rows_and_files(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS)
    for end in [*sorted(data.draw(st.lists(st.integers(0, len(journal)), max_size=2))), len(journal)]:
        fold.batch(journal, until=journal[:end])
        for point in data.draw(st.lists(st.sampled_from(DERIVING), max_size=2)):
            with suppress(Crash):
                filled(Lake(str(fold.path)), data.draw(BOUNDS), killed_at(point, data.draw(st.integers(1, 3))))
        if data.draw(st.booleans()):
            filled(fold.lake, data.draw(BOUNDS))
            for name in toys.TABLES:
                fold.lake.tables[name].compact()
                fold.lake.tables[name].vacuum(1)
        fold.start()
    filled(fold.lake, data.draw(BOUNDS))
    assert toys.held(fold.lake) == toys.told(fold.lake)
    toys.files_held(fold.lake)
    assert all(
        fold.lake.tables[name].mark(key) == mark for name in toys.TABLES for key, mark in marks(fold.lake).items()
    )
    with fold.lake.aside(toys.TABLES) as aside:
        filled(aside)
        assert digests(aside) == digests(fold.lake)


def killed_at(point: str, number: int) -> Any:
    left = [number]

    def at(passed: str) -> None:
        left[0] -= passed == point
        if not left[0]:
            raise Crash

    return at


@pytest.fixture
def folded(tmp_path: Path) -> Fold:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(journal_of(EntityRegistered(PURCHASES), *(TagsAdded(PURCHASES, [f"t{n}"]) for n in range(6))))
    return fold


def offered(lake: Lake, rows: int = 3) -> Any:
    tables = tables_of(DERIVED["toy"], lake)
    return make_piece(DERIVED["toy"], tables, marks(lake), StoredFiles(lake.path, {}), bounds=Bounds(rows))


@pytest.mark.thorough
def test_a_piece_counts_once_and_only_at_the_marks_and_tables_that_it_was_made_for(folded: Fold) -> None:
    lake = folded.lake
    first, same = offered(lake), offered(lake)
    assert first.more
    assert commit(first, tables_of(DERIVED["toy"], lake))
    assert not commit(same, tables_of(DERIVED["toy"], lake))
    before = {name: len(list(Path(lake.tables[name].uri).glob("*.parquet"))) for name in toys.TABLES}
    discard(same)
    assert {name: len(list(Path(lake.tables[name].uri).glob("*.parquet"))) for name in toys.TABLES} == {
        name: count - 1 for name, count in before.items()
    }
    late = offered(lake)
    view = lake.begin_generation([*toys.TABLES])
    assert not commit(late, tables_of(DERIVED["toy"], view))
    lake.swap_to(view.generation)
    assert not commit(late, tables_of(DERIVED["toy"], lake))
    filled(lake)
    assert toys.held(lake) == toys.told(lake)


def test_derived_tables_never_hold_more_than_the_journal_table(folded: Fold) -> None:
    """Rows of a batch that was killed before its last step stand in the tables that are read."""
    folded.engine._crash = EndsAt("after-history")
    with pytest.raises(Crash):
        folded.batch(journal_of(*(TagsAdded(PURCHASES, [f"u{n}"]) for n in range(9))))
    folded.start()
    assert any(folded.lake.tables["entities"].mark(key) > mark for key, mark in marks(folded.lake).items())
    filled(folded.lake)
    assert toys.held(folded.lake) == toys.told(folded.lake)
    assert all(folded.lake.tables["toy_counts"].mark(key) <= mark for key, mark in marks(folded.lake).items())


def _gives(*made: Any) -> Any:
    def derive(*_: Any) -> Iterator[Any]:
        yield from made

    return derive


BEYOND = {"tenant": "t", "urn": "u", "aggregate": "a", "domain": "catalog", "journal_partition": 0,
          "logical_timestamp": 1, "seq": 0, "system_time": 0, "event_time": 0, "event_id": "e",
          "deleted": False}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("derive", "why"),
    [
        (_gives(Rows("entities", pa.table({}))), "none of its tables"),
        (_gives(Rows("toy_counts", pa.Table.from_pylist([BEYOND], toys.COUNTS.schema))), "follow from no row"),
        (_gives(File("t", "../../tables.json", b"")), "names a file"),
        (_gives(File("", "a", b"")), "names a file"),
        (lambda piece, earlier: iter([earlier.rows("accesses", {})]), "does not say that it reads 'accesses'"),
    ],
)
def test_a_function_that_reaches_beyond_its_piece_fails_and_leaves_nothing(
    folded: Fold, monkeypatch: pytest.MonkeyPatch, derive: Any, why: str
) -> None:
    monkeypatch.setitem(
        DERIVED, "toy", Owned(Derived("toy", toys.TABLES, toys.TOY.reads, derive), "catalog", "catalog")
    )
    with pytest.raises(FunctionFailed) as failed:
        offered(folded.lake)
    assert why in failed.value.why
    assert failed.value.key in KEYS
    assert not [path for name in toys.TABLES for path in Path(folded.lake.tables[name].uri).glob("*.parquet")]
    assert not (folded.path / "catalog").exists()


def test_no_table_stands_where_files_of_a_domain_do() -> None:
    from metajournal.schemas.registry import domains

    assert not {domain.name for domain in domains()} & {name for name, spec in SPECS.items() if spec.version}
