"""Lanes over many objects at once, against elements one by one; paths that a sieve lets through; the newest rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import kept_layers, lanes
from metajournal.domains.repositories.kept_layers import KeptLayers, Sought
from metajournal.domains.repositories.lanes import Lanes
from metajournal.domains.repositories.layers import newest
from metajournal.domains.repositories.merging.roots import object_element
from metajournal.fold.derived import Given, Pending, Result, at_once
from metajournal.schemas.lthash import NOTHING, LtHash16
from tests.properties import examples

PATHS = st.text("ab/é\U0001f600", min_size=1, max_size=5)
TREES = st.dictionaries(PATHS, st.binary(min_size=16, max_size=16), max_size=9)
Tree = dict[str, bytes]


class Later:
    """Computes what is asked for only when it is waited for, as a process that is late."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, compute: Callable[[Given], Result], given: Given) -> Pending[Result]:
        self.count += 1
        return lambda: compute(given)


def columns(tree: Tree) -> tuple[pl.Series, pl.Series]:
    return pl.Series([*tree], dtype=pl.String), pl.Series([*tree.values()], dtype=pl.Binary)


@settings(max_examples=examples(60), deadline=None)
@given(TREES, TREES, TREES, st.integers(1, 4), st.integers(0, 4))
def test_many_objects_at_once_give_what_each_alone_gives(
    before: Tree, added: Tree, removed: Tree, most: int, fewest: int
) -> None:
    plain = LtHash16()
    for tree, count in ((before, plain.add), (added, plain.add), (removed, plain.remove)):
        for path, content in tree.items():
            count(object_element(path, content))
    late = Later()
    for beside in (at_once, late):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lanes, "MOST_AT_ONCE", most)
            patch.setattr(lanes, "_FEWEST_BESIDE", fewest)
            first = Lanes(beside, NOTHING)
            first.add(*columns(before))
            second = Lanes(beside, first)
            second.add(*columns(added))
            second.remove(*columns(removed))
            assert second.state == second.state == plain.state
    parts = sum(len(range(0, len(tree), most)) for tree in (before, added, removed))
    assert late.count <= parts if fewest > 1 else late.count == parts


LAYERS = st.lists(st.dictionaries(PATHS, st.integers(0, 9), max_size=12), min_size=1, max_size=4)


def layer(rows: dict[str, int]) -> pl.DataFrame:
    ordered = dict(sorted(rows.items(), key=lambda item: item[0].encode()))
    return pl.DataFrame({"path": [*ordered], "size": [*ordered.values()]}, schema={"path": pl.String, "size": pl.Int64})


@settings(max_examples=examples(60), deadline=None)
@given(LAYERS, st.sets(PATHS, max_size=12), st.sampled_from([1, 2, 1 << 20]), st.sampled_from([0, 1 << 20]))
def test_a_sieve_lets_every_path_through_that_is_there(
    trees: list[dict[str, int]], asked: set[str], few: int, fewest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_layers, "_FEWEST_SIEVED", fewest)
        patch.setattr(kept_layers, "_FEW", few)
        kept = KeptLayers()
        sought = Sought(pl.Series("path", sorted(asked, key=str.encode), dtype=pl.String))
        for number, rows in enumerate(trees):
            held = kept.put(number, layer(rows))
            for _ in range(2):
                found = kept.at(number, held, sought)
                assert dict(found.iter_rows()) == {path: size for path, size in rows.items() if path in asked}
                assert found["path"].to_list() == sorted(found["path"], key=str.encode)
            absent = kept.at("another one", held, sought)
            assert absent.equals(found)


def test_what_a_sieve_takes_is_counted_and_goes_with_its_layer() -> None:
    rows = layer({f"{number:06}": number for number in range(4_000)})
    sought = Sought(pl.Series("path", [f"{number:06}" for number in range(0, 8_000, 2)]))
    kept = KeptLayers()
    held = kept.put("one", rows)
    empty = kept._size_bytes
    assert kept.at("one", held, sought).height == 2_000
    assert empty + 8_000 <= kept._size_bytes <= empty + 16_384
    kept.put("one", rows)
    assert kept._size_bytes == empty
    most = KeptLayers(empty + 100)
    assert most.at("one", most.put("one", rows), sought).height == 2_000
    most.put("two", rows)
    assert most.get("one") is None
    assert most._size_bytes == empty


ROWS = st.lists(st.tuples(PATHS, st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)), max_size=14, unique=True)


@settings(max_examples=examples(60), deadline=None)
@given(ROWS)
def test_the_newest_row_of_a_path_is_the_last_by_depth_position_and_sequence(rows: list[Any]) -> None:
    names = ["path", "_depth", "logical_timestamp", "seq"]
    schema = dict(zip(names, (pl.String, pl.Int32, pl.Int64, pl.Int32), strict=True))
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    plain: dict[str, Any] = {}
    for row in sorted(rows, key=lambda row: row[1:]):
        plain[row[0]] = row
    expected = [plain[path] for path in sorted(plain, key=str.encode)]
    assert newest(frame, "_depth").rows() == expected
