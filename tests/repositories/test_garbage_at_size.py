"""Memory does not follow a repository: blocks that nothing holds are found in files where memory ends."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from metajournal.domains.repositories.graph import Graph
from tests.faults.test_envelopes import in_a_child
from tests.repositories.garbage_at_size import ENGINE_MIB

ROWS = 150_000
"""Their paths and addresses alone take 350 MB, more than the engine gets."""
MOST_MIB = ENGINE_MIB + 200
"""With an engine of any memory it is 690."""


@pytest.mark.long
@pytest.mark.thorough
def test_a_repository_that_does_not_fit_in_memory_is_looked_through_without_it(tmp_path: Path) -> None:
    """One area of long paths, written twice with nested resets between, and a tenth of it reset at the end."""
    in_a_child("tests.repositories.garbage_at_size", str(tmp_path), str(ROWS), timeout_s=300)
    said = in_a_child("tests.repositories.garbage_at_size", str(tmp_path), "0", timeout_s=300)
    blocks, unused, listed, taken_mib = map(int, said.split())
    assert blocks == ROWS + 1
    assert unused == listed == ROWS // 2 + ROWS // 20
    assert taken_mib < MOST_MIB


def test_commits_are_reached_as_walking_from_each_head_reaches_them() -> None:
    rng = random.Random(7)
    count = 20_000
    parents = [
        rng.sample(range(max(0, number - 50), number), min(number, rng.choice([0, 1, 1, 1, 2])))
        for number in range(count)
    ]
    ids = [number.to_bytes(32, "big") for number in range(count)]
    sides = [[ids[some[side]] if len(some) > side else None for some in parents] for side in (0, 1)]
    rows = pl.DataFrame(
        {"id": ids, "first": sides[0], "second": sides[1], "place": range(count), "time": range(count)},
        schema={"id": pl.Binary, "first": pl.Binary, "second": pl.Binary, "place": pl.Int64, "time": pl.Int64},
    )
    graph = Graph.empty().with_rows(rows)
    heads = rng.sample(range(count), 5)
    expected, waiting = set(), [*heads]
    while waiting:
        commit = waiting.pop()
        if commit not in expected:
            expected.add(commit)
            waiting += parents[commit]
    assert 0 < len(expected) < count
    assert {*graph.reached_from(heads).nonzero()[0].tolist()} == expected
    assert not graph.reached_from([]).any()
    assert Graph.empty().reached_from([]).tolist() == []
