"""The merge of whole commits, range by range, is that of each path alone, however the ranges are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories.merging.bases import Base, Virtual, content_at
from metajournal.domains.repositories.merging.paths import CONFLICT, SOURCE, decided
from metajournal.domains.repositories.merging.ranges import (
    PathConflict,
    SortedRange,
    aligned,
    commits_of,
    contents_at,
    merged,
)
from tests.properties import examples

Tree = dict[str, bytes]
PATHS = st.text(alphabet="ab/\U0001f600é\uffff", min_size=1, max_size=3)
TREES = st.dictionaries(PATHS, st.sampled_from([b"0", b"1", b"2"]), max_size=12)
STRATEGIES = st.sampled_from(["none", "source-wins", "dest-wins"])
BASES = st.recursive(st.integers(0, 5), lambda inner: st.builds(Virtual, inner, st.integers(0, 5), st.none() | inner))


def cut(tree: Tree, ends: Sequence[str]) -> Iterator[SortedRange]:
    """A commit's paths in ranges that end before some paths; some ranges are empty."""
    rows = sorted(tree.items())
    for start, end in pairwise(["", *sorted(ends), None]):
        part = [one for one in rows if one[0] >= (start or "") and (end is None or one[0] < end)]
        yield SortedRange([path for path, _ in part], [content for _, content in part])


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(TREES, st.lists(PATHS, max_size=4)), min_size=1, max_size=4))
def test_aligned_ranges_hold_every_path_of_every_commit_once_in_the_order_of_bytes(
    commits: list[tuple[Tree, list[str]]],
) -> None:
    ranges = list(aligned([cut(tree, ends) for tree, ends in commits]))
    paths = [path for one in ranges for path in one.paths]
    assert paths == sorted({path for tree, _ in commits for path in tree}, key=str.encode)
    for number, (tree, _) in enumerate(commits):
        contents = [content for one in ranges for content in one.columns[number]]
        assert contents == [tree.get(path) for path in paths]


@pytest.mark.thorough
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(TREES, min_size=6, max_size=6), st.none() | BASES, STRATEGIES, st.lists(PATHS, max_size=6), st.data())
def test_a_merge_in_ranges_says_of_each_path_what_is_said_of_it_alone(
    trees: list[Tree], base: Base | None, strategy: str, ends: list[str], data: st.DataObject
) -> None:
    some_ends = st.lists(st.sampled_from(ends), unique=True) if ends else st.just([])
    destination, source = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))
    ranges = list(merged(lambda one: cut(trees[one], data.draw(some_ends)), base, destination, source, strategy))
    taken: list[Any] = []
    conflicts: list[Any] = []
    for path in sorted({path for tree in trees for path in tree}):
        before = content_at(base, [tree.get(path) for tree in trees])
        held, given_content = trees[destination].get(path), trees[source].get(path)
        side, conflict = decided(before, held, given_content, strategy)
        if side == SOURCE:
            taken.append((path, given_content))
        if conflict:
            conflicts.append((path, shown(before), held, given_content))
    assert [pair for one in ranges for pair in zip(one.paths, one.contents, strict=True)] == taken
    told = [one for part in ranges for one in part.conflicts]
    assert [(one.path, shown(one.base), one.destination, one.source) for one in told] == conflicts


@given(st.lists(st.lists(st.sampled_from([None, b"0", b"1"]), min_size=3, max_size=3), min_size=6, max_size=6), BASES)
def test_a_base_in_columns_is_that_of_each_path(columns: list[list[bytes | None]], base: Base) -> None:
    """Only the commits that `commits_of` names are read."""
    needed = {one: columns[one] for one in commits_of(base)}
    by_path = [content_at(base, contents) for contents in zip(*columns, strict=True)]
    assert [*map(shown, contents_at(base, needed, 3))] == [*map(shown, by_path)]


def shown(content: Any) -> Any:
    """A content that can be compared: CONFLICT equals nothing, not even itself."""
    return "conflict" if content is CONFLICT else content


def test_what_a_merge_takes_keeps_and_calls_a_conflict() -> None:
    trees = [
        {"both": b"0", "deleted": b"0", "edited": b"0", "mine": b"0", "theirs": b"0"},
        {"both": b"1", "deleted": b"0", "mine": b"1", "theirs": b"0", "new": b"1"},
        {"both": b"2", "edited": b"2", "mine": b"0", "theirs": b"2", "new": b"1"},
    ]
    both = PathConflict("both", b"0", b"1", b"2")
    edited = PathConflict("edited", b"0", None, b"2")
    for strategy, won in (("none", []), ("dest-wins", []), ("source-wins", [("both", b"2"), ("edited", b"2")])):
        [one] = merged(lambda number: cut(trees[number], []), 0, 1, 2, strategy)
        taken = sorted([("deleted", None), ("theirs", b"2"), *won])
        assert list(zip(one.paths, one.contents, strict=True)) == taken
        assert one.conflicts == [both, edited]


def test_of_each_commit_one_range_is_read_ahead() -> None:
    """A merge of a million changes holds one range of each commit, whatever its size."""
    ahead = [0, 0]

    def ranges(number: int, step: int) -> Iterator[SortedRange]:
        for start in range(0, 1000, step):
            ahead[number] += step
            paths = [f"{path:04}" for path in range(start, start + step)]
            yield SortedRange(paths, [b"0"] * step)

    done = 0
    for one in aligned([ranges(0, 10), ranges(1, 200)]):
        done += len(one.paths)
        assert ahead[0] <= done + 10
        assert ahead[1] <= done + 200
    assert done == 1000


def test_ranges_out_of_order_are_refused() -> None:
    """Their paths would be given twice, or compared with the wrong ones."""
    wrong = [SortedRange(["b"], [b"0"]), SortedRange(["b", "c"], [b"0", b"0"])]
    with pytest.raises(ValueError, match="begins at 'b', the one before ends at 'b'"):
        list(aligned([wrong]))
    assert list(aligned([[], [SortedRange([], [])]])) == []
