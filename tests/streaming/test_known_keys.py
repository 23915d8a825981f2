"""Facts that are new are not looked for: the hashes of a table's keys are known, and no key that it has is missed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.lineage.rows import RelationKey, RelationRow
from metajournal.fold import known_keys, prior
from metajournal.fold.folded import Folded, KeyOfFact
from metajournal.fold.hashes import hashes_of_rows
from metajournal.fold.known_keys import KnownKeys
from metajournal.fold.prior import PriorRows
from metajournal.fold.records import Place
from metajournal.lake.declared import made_arrow
from metajournal.lake.lookup import newest_rows_below
from metajournal.lake.tables import Lake, Reached
from metajournal.rules.tables import key_of
from tests.lake.test_tables import lake_at
from tests.properties import examples

TABLE = RelationKey.TABLE
TOPIC = "metajournal.journal.lineage"
PARTITIONS = 2
HIGH = 1 << 50
Asked = tuple[Collection[KeyOfFact], int, int]


def relation(number: int, at: int = 1, tenant: str = "default") -> RelationRow:
    """A row of the key with a number; even and odd ones stand in different partitions."""
    data, program = f"dataset:default/d{number}", "program:default/p"
    return RelationRow(tenant, data, program, data, at, 0, 5, 5, "id", None, False)


def key(row: RelationRow) -> KeyOfFact:
    return TABLE, row.tenant, key_of(row)


def partition_of(row: RelationRow) -> int:
    return int(row.data[-1]) % PARTITIONS


def append(lake: Lake, rows: Iterable[RelationRow]) -> None:
    made = [(row, "lineage", partition_of(row)) for row in rows]
    reached = {(TOPIC, partition): HIGH for partition in range(PARTITIONS)}
    lake.tables[TABLE].append(made_arrow(TABLE, made), Reached(reached, {}, {"lineage": "rules-1"}))


def place(partition: int) -> Place:
    return Place(TOPIC, partition, PARTITIONS, "lineage", frozenset())


def kept(lake: Lake, cache_rows: int = 100) -> PriorRows:
    return PriorRows(lake, cache_rows, marks=dict)


class Driver:
    """A stream's driver that folds batch after batch, beside what it has made.

    Args:
        cache_rows: how many facts stay in its memory.
    """

    def __init__(self, lake: Lake, cache_rows: int) -> None:
        self.lake = lake
        self.prior = kept(lake, cache_rows)
        self.newest: dict[KeyOfFact, RelationRow] = {}
        self.at = 1

    def ask(self, numbers: Sequence[int]) -> None:
        """Look up as a batch does that begins where the last one ended; what stands is found, in each partition."""
        rows = [relation(number) for number in numbers]
        groups = [[key(row) for row in rows if partition_of(row) == partition] for partition in range(PARTITIONS)]
        self.prior._look_facts_up((keys, partition, self.at) for partition, keys in enumerate(groups))
        for partition, keys in enumerate(groups):
            found = self.prior.facts(keys, place(partition), self.at)
            assert found == {one: self.newest.get(one) for one in keys}

    def make(self, numbers: Sequence[int], *, finished: bool) -> None:
        """Make a row of each number; a batch that does not finish leaves them in the table all the same."""
        rows = [relation(number, self.at) for number in dict.fromkeys(numbers)]
        if rows:
            append(self.lake, rows)
        if finished:
            self.prior.advance(self._folded(rows, partition) for partition in range(PARTITIONS))
            self.prior._shrink()
            self.newest.update((key(row), row) for row in rows)
            self.at += 1

    def _folded(self, rows: Sequence[RelationRow], partition: int) -> Folded:
        own = {key(row): row for row in rows if partition_of(row) == partition}
        return Folded(place(partition), self.at, self.at + 1, 0, current_facts=dict(own))

    def spread(self, numbers: Sequence[int]) -> None:
        """Others fold a batch."""
        rows = [relation(number, self.at) for number in dict.fromkeys(numbers)]
        if rows:
            append(self.lake, rows)
        self.prior.forget_rows()
        self.newest.update((key(row), row) for row in rows)
        self.at += 1


numbers = st.lists(st.integers(0, 9), max_size=6)
steps = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "make", "fail", "spread"]), numbers), min_size=1, max_size=8
)  # fmt: skip


@pytest.mark.thorough
@given(steps, st.integers(1, 12), st.sampled_from([1, 3, 1_000]), st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_what_stands_is_found_whatever_is_known_forgotten_or_half_written(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], cache_rows: int, many: int, alike: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prior, "_MANY_MISSING", many)
        patch.setattr(prior, "_HASHES_PER_ROW", 2)
        if alike:
            real = hashes_of_rows
            patch.setattr(known_keys, "hashes_of_rows", lambda rows: real(rows) % 2)
        driver = Driver(lake_at(tmp_path_factory.mktemp("lake")), cache_rows)
        does: dict[str, Callable[[list[int]], None]] = {
            "ask": driver.ask,
            "make": lambda some: driver.make(some, finished=True),
            "fail": lambda some: driver.make(some, finished=False),
            "spread": driver.spread,
        }
        for name, some in steps:
            driver.ask(some)
            does[name](some)
            if name == "fail":  # what it left is written again by the batch that comes after it
                driver.make(some, finished=True)
        driver.ask(range(10))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys each pass over a table looked up."""
    counts: list[int] = []
    look_up = newest_rows_below

    def counted(table: Any, keys: pa.Table) -> pa.Table:
        counts.append(keys.num_rows)
        return look_up(table, keys)

    monkeypatch.setattr(prior, "newest_rows_below", counted)
    return counts


def facts_of(rows: PriorRows, numbers: Iterable[int]) -> dict[KeyOfFact, Any]:
    return rows.facts([key(relation(number)) for number in numbers], place(0), HIGH)


def test_new_facts_are_not_looked_for_once_the_keys_are_known(tmp_path: Path, passes: list[int]) -> None:
    lake = lake_at(tmp_path)
    append(lake, [relation(number) for number in range(0, 20, 2)])
    rows = kept(lake, cache_rows=1_000)
    assert not any(facts_of(rows, range(1_000, 1_063)).values())
    assert passes == [63]
    assert not any(facts_of(rows, range(2_000, 2_100)).values())
    assert not any(facts_of(rows, [3_000]).values())
    assert passes == [63]
    assert facts_of(rows, [4, 4_000]) == {key(relation(4)): relation(4), key(relation(4_000)): None}
    assert passes == [63, 1]


def test_facts_of_all_partitions_are_looked_up_in_one_pass(tmp_path: Path, passes: list[int]) -> None:
    lake = lake_at(tmp_path)
    append(lake, [relation(1), relation(2)])
    rows = kept(lake)
    rows._look_facts_up([([key(relation(2))], 0, HIGH), ([key(relation(1))], 1, HIGH), ([key(relation(4))], 0, HIGH)])
    assert passes == [3]
    assert rows.facts([key(relation(1))], place(1), HIGH) == {key(relation(1)): relation(1)}
    assert facts_of(rows, [2, 4]) == {key(relation(2)): relation(2), key(relation(4)): None}
    assert passes == [3]


def test_a_table_with_too_many_rows_is_looked_into(
    tmp_path: Path, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prior, "_HASHES_PER_ROW", 1)
    lake = lake_at(tmp_path)
    append(lake, [relation(number) for number in range(0, 202, 2)])
    rows = kept(lake, cache_rows=100)
    for first in (1_000, 2_000):
        assert not any(facts_of(rows, range(first, first + 70)).values())
    assert passes == [70, 70]


def test_keys_are_no_longer_kept_when_they_become_too_many(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    append(lake, [relation(0), relation(2)])
    known = KnownKeys.load(lake.tables[TABLE].readable, ["tenant", "data", "program"], most=3)
    assert known is not None
    more = known.plus(pa.table({"tenant": ["a"], "data": ["b"], "program": ["c"]}))
    assert more is not None
    assert more.plus(pa.table({"tenant": ["a"], "data": ["b"], "program": ["d"]})) is None


def test_a_task_reads_no_keys(tmp_path: Path, passes: list[int]) -> None:
    rows = PriorRows(lake_at(tmp_path), cache_rows=None, below=HIGH)
    assert not any(facts_of(rows, range(100)).values())
    assert passes == [100]
    assert rows._known_keys == {}
