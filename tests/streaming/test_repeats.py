"""Ids of marked events in 8 bytes each: none is forgotten, and what merely looks like one is looked up."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.fold import hashes, repeats
from metajournal.fold.prior import PriorRows
from metajournal.fold.repeats import Repeats, ids_of
from tests.builders import header_for, record_of
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.streaming.harness import Fold, placed

PURCHASES = dataset("default", "purchases")
ids = st.sets(st.binary(min_size=16, max_size=16), max_size=8)


@given(st.lists(ids, max_size=5), ids, st.sampled_from([0, 3, 4_096]))
@settings(deadline=None, max_examples=examples(100))
def test_ids_that_were_added_are_hit_and_no_others(parts: list[set[bytes]], others: set[bytes], few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashes, "_FEW", few)
        patch.setattr(hashes, "_SHARE", 2)
        found, added = Repeats(), set[bytes]()
        for part in parts:
            before, had = found, set(added)
            found, added = found.plus(ids_of(part)), added | part
            assert hit(before, added | others) == had  # a value never changes
        assert hit(pickle.loads(pickle.dumps(found)), added | others) == added
        assert bool(found) == bool(added)


def hit(found: Repeats, some: set[bytes]) -> set[bytes]:
    ordered = sorted(some)
    return {one for one, is_hit in zip(ordered, found.hits(ids_of(ordered)), strict=True) if is_hit}


def test_an_id_takes_eight_bytes_however_many_there_are_and_however_they_come() -> None:
    chance = random.Random(1)
    found = Repeats()
    for _ in range(50):
        found = found.plus(ids_of([chance.randbytes(16) for _ in range(1_000)]))
    assert found.nbytes == 8 * 50_000


def copies(*numbers: int) -> list[JournalRecord]:
    """An entity, and then tags with the ids of these numbers: a negative one is marked."""
    events = [(TagsAdded(PURCHASES, [f"t{place}"]), number) for place, number in enumerate(numbers)]
    headers = [header_for(event, abs(number), repeat=number < 0) for event, number in events]
    tagged = [
        record_of(event, at, header=header)
        for at, ((event, _), header) in enumerate(zip(events, headers, strict=True), 1)
    ]
    return placed(
        [record_of(EntityRegistered(PURCHASES), 0, header=header_for(EntityRegistered(PURCHASES), 99)), *tagged], 1
    )


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The ids that were looked up in the journal table, for each time."""
    found: list[list[int]] = []
    earlier = PriorRows._earlier

    def noting(self: PriorRows, place: Any, start: int, keys: Any) -> Any:
        found.append([int.from_bytes(key[2], "big") for key in keys])
        return earlier(self, place, start, keys)

    monkeypatch.setattr(PriorRows, "_earlier", noting)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("restart", [True, False])
def test_only_an_id_that_was_marked_is_looked_up(
    tmp_path: Path, lookups: list[list[int]], wide: bool, restart: bool
) -> None:
    records = copies(1, 2, -1, 3, 4, 1, 5)
    fold = Fold(tmp_path, 1)
    told = []
    for end in (3, 4, 6, 8):
        fold.batch(records, until=records[:end], wide=wide)
        told.append([*lookups])
        lookups.clear()
        if restart:
            fold.start()
    assert told == [[], [[1]], [], [[1]]]
    assert [row["duplicate_of"] for row in fold.journal()] == [None] * 3 + [records[1].position, None, None] + [
        records[1].position, None]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("wide", [True, False])
def test_an_id_of_the_same_hash_is_looked_up_and_is_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lookups: list[list[int]], wide: bool
) -> None:
    monkeypatch.setattr(repeats, "hashes_of", lambda some: some[:, -1].astype("<u8") % 10)
    records = copies(1, -2, 12, 12, 13, 2)
    fold = Fold(tmp_path, 1)
    for end in (3, 4, 5, 7):
        fold.batch(records, until=records[:end], wide=wide)
    assert lookups == [[2], [12], [12], [2]]
    assert [row["duplicate_of"] for row in fold.journal()] == [*[None] * 6, records[2].position]
    assert [row["outcome"] for row in fold.journal()] == [one.outcome for one in Model.of(records).verdicts.values()]
