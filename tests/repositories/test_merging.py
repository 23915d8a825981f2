"""What a commit contains, purely: layers, what stands in a staging area, merges by path, bases as git finds them."""

from __future__ import annotations

import random
import shutil
import subprocess
from array import array
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories.merging import bases
from metajournal.domains.repositories.merging.bases import (
    NO_PARENT,
    ParentColumns,
    Virtual,
    base_of,
    content_at,
    merge_bases,
)
from metajournal.domains.repositories.merging.paths import CONFLICT, DESTINATION, SOURCE, decided
from metajournal.domains.repositories.merging.roots import content_id, object_element, root_of
from metajournal.domains.repositories.merging.staging import Reset, covered_up_to, is_layer, standing
from metajournal.domains.repositories.merging.tiers import drops_tombstones, tier, to_join
from metajournal.domains.repositories.rows import content_of
from metajournal.schemas.lthash import NOTHING, LtHash16
from tests.properties import examples

Parents = list[list[int]]
Tree = dict[str, bytes]


# Roots


def test_the_vectors_of_roots() -> None:
    assert root_of(NOTHING).startswith("a9ad6cd0")
    one = LtHash16()
    one.add(object_element("a", content_of("c1", 3, None, {})))
    assert root_of(one.state).startswith("75cea58a")
    spelled_out = '["r",["p"],"é",{"a":"2","b":"1"}]'.encode()
    assert content_id("r", ["p"], "é", {"b": "1", "a": "2"}) == sha256(spelled_out).hexdigest()
    assert content_id("r", ["p"], "m", {}) != content_id("r", ["p", "p"], "m", {})


def test_a_path_and_its_content_do_not_run_into_each_other() -> None:
    assert object_element("ab", b"c" * 16) != object_element("a", b"bc" * 8)


TREES = st.dictionaries(st.text("ab/é", min_size=1, max_size=3), st.binary(min_size=16, max_size=16), max_size=6)


@settings(max_examples=examples(60), deadline=None)
@given(TREES, TREES)
def test_old_and_new_value_of_each_changed_path_bring_a_root_up_to_date(before: Tree, after: Tree) -> None:
    removed = [object_element(path, content) for path, content in before.items() if after.get(path) != content]
    added = [object_element(path, content) for path, content in after.items() if before.get(path) != content]
    updated = LtHash16(state_of(before))
    updated.update(added, removed)
    assert root_of(updated.state) == root_of(state_of(after))
    assert (root_of(state_of(before)) == root_of(updated.state)) == (before == after)


def state_of(tree: Tree) -> bytes:
    whole = LtHash16()
    whole.update(object_element(path, content) for path, content in tree.items())
    return whole.state


# Layers


def joined(rows: list[int], new: int) -> int:
    """Add a layer and join as told, nothing cancelling out; gives the rows that were written."""
    rows.append(new)
    written = 0
    while many := to_join(rows):
        written += sum(rows[-many:])
        rows[-many:] = [sum(rows[-many:])]
    return written


@given(st.lists(st.integers(1, 10**6), max_size=80))
def test_tiers_never_rise_and_none_has_more_than_three_layers(sizes: list[int]) -> None:
    rows: list[int] = []
    for size in sizes:
        joined(rows, size)
        tiers = [tier(one) for one in rows]
        assert tiers == sorted(tiers, reverse=True)
        assert all(tiers.count(one) <= 3 for one in tiers)
    assert sum(rows) == sum(sizes)


Changes = dict[int, int | None]
"""What a commit changes, by path: a value, or None for a deletion."""


def upon(layers: Sequence[Changes]) -> Changes:
    """What layers contain: of each path the newest value."""
    whole = {path: value for layer in layers for path, value in layer.items()}
    return {path: value for path, value in whole.items() if value is not None}


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 300), st.none() | st.integers(0, 3), min_size=1), max_size=40))
def test_layers_that_overwrite_and_delete_keep_their_order_of_tiers_and_their_content(commits: list[Changes]) -> None:
    """Where rows cancel out a join has fewer than its parts; one that deletes everything leaves no layer."""
    layers: list[Changes] = []
    for number, changes in enumerate(commits):
        layers.append(changes)
        while many := to_join([len(one) for one in layers]):
            parts = layers[-many:]
            whole = {path: value for part in parts for path, value in part.items()}
            layers[-many:] = [upon(parts) if drops_tombstones(len(layers), many) else whole]
            layers = [one for one in layers if one]
        tiers = [tier(len(one)) for one in layers]
        assert tiers == sorted(tiers, reverse=True)
        assert all(tiers.count(one) <= 3 for one in tiers)
        assert upon(layers) == upon(commits[: number + 1])


def test_deletions_are_kept_as_long_as_something_older_is_there() -> None:
    assert drops_tombstones(4, 4)
    assert not drops_tombstones(5, 4)


@pytest.mark.parametrize(("least", "most"), [(900, 1100), (1000, 1000), (1, 1000), (1, 100_000)])
def test_ten_thousand_commits_upon_a_million_objects_have_few_layers(least: int, most: int) -> None:
    """Nothing cancels out here; joins write fewer rows where it does. Without joins there would be 10,000 layers."""
    drawn = random.Random(5)
    rows, written, changed, layers = [1_000_000], 0, 0, []
    for _ in range(10_000):
        size = drawn.randint(least, most)
        written += size + joined(rows, size)
        changed += size
        layers.append(len(rows))
    assert 7 <= sum(layers) / len(layers) <= 11
    assert max(layers) <= 23
    assert 3 <= (written - changed) / changed <= 7  # times that a changed row is written once more


def test_a_tier_is_the_logarithm_to_the_base_four() -> None:
    assert [tier(one) for one in (1, 3, 4, 15, 16, 63, 64, 4**10 - 1, 4**10)] == [0, 0, 1, 1, 2, 2, 3, 9, 10]
    assert to_join([]) == to_join([5]) == to_join([5, 5, 5]) == 0
    assert to_join([5, 5, 5, 5]) == 4
    assert to_join([100, 3, 2, 7]) == 3


# Staging areas

TEXT = st.text(alphabet="ab/", max_size=4).map(str.encode)


@given(st.sets(TEXT, max_size=12), st.lists(st.builds(Reset, TEXT, st.booleans(), st.integers(0, 9)), max_size=12))
def test_what_resets_cover_is_what_looking_at_each_one_says(paths: set[bytes], resets: list[Reset]) -> None:
    given_paths = sorted(paths)
    plainly = [
        max(
            (one.position for one in resets if path == one.path or (one.is_prefix and path.startswith(one.path))),
            default=-1,
        )
        for path in given_paths
    ]
    assert covered_up_to(given_paths, resets) == plainly


ROWS = st.lists(st.tuples(TEXT, st.integers(0, 9)), max_size=20, unique=True)


@settings(max_examples=examples(200), deadline=None)
@given(ROWS, st.lists(st.builds(Reset, TEXT, st.booleans(), st.integers(0, 9)), max_size=6))
def test_what_stands_is_what_events_one_after_the_other_leave(
    rows: list[tuple[bytes, int]], resets: list[Reset]
) -> None:
    """An event writes or resets, so no row has a reset's position."""
    rows = [(path, 2 * position + 1) for path, position in rows]
    resets = [one._replace(position=2 * one.position) for one in resets]
    area: dict[bytes, int] = {}
    for position in range(20):
        for path, _, _ in (one for one in resets if one.position == position and not one.is_prefix):
            area.pop(path, None)
        for prefix, _, _ in (one for one in resets if one.position == position and one.is_prefix):
            area = {path: row for path, row in area.items() if not path.startswith(prefix)}
        area |= {path: row for row, (path, written) in enumerate(rows) if written == position}
    paths, positions = [path for path, _ in rows], [position for _, position in rows]
    assert standing(paths, positions, resets) == [area[path] for path in sorted(area)]


@pytest.mark.thorough
def test_a_hundred_thousand_resets_of_long_prefixes_take_the_time_of_sorting() -> None:
    """Each of them looked at for each path would be 10^10 comparisons of a thousand bytes."""
    deep = [b"a" * length for length in range(1, 1025)]
    resets = [Reset(deep[number % 1024], True, number) for number in range(100_000)]
    paths = sorted(b"a" * 1000 + str(number).encode() for number in range(100_000))
    assert set(covered_up_to(paths, resets)) == {max(one.position for one in resets if len(one.path) <= 1000)}


def test_an_area_is_a_layer_until_half_of_it_is_overwritten_or_a_reset_fell_into_it() -> None:
    assert is_layer(10, 6, 0)
    assert not is_layer(10, 5, 0)
    assert not is_layer(10, 10, 1)
    assert is_layer(1, 1, 0)


# Paths


@pytest.mark.parametrize(
    ("base", "destination", "source", "side", "conflict"),
    [
        (b"0", b"0", b"0", DESTINATION, False),
        (b"0", b"0", b"1", SOURCE, False),
        (b"0", b"1", b"0", DESTINATION, False),
        (b"0", b"1", b"1", DESTINATION, False),
        (b"0", None, None, DESTINATION, False),
        (b"0", None, b"0", DESTINATION, False),
        (b"0", b"0", None, SOURCE, False),
        (None, None, b"1", SOURCE, False),
        (None, b"1", b"1", DESTINATION, False),
        (None, b"1", b"2", None, True),
        (b"0", b"1", b"2", None, True),
        (b"0", None, b"2", None, True),
        (b"0", b"1", None, None, True),
        (CONFLICT, b"1", b"1", DESTINATION, False),
        (CONFLICT, b"1", b"2", None, True),
        (CONFLICT, None, b"2", None, True),
    ],
)
def test_a_path_is_merged_by_who_changed_it(
    base: Any, destination: Any, source: Any, side: Any, conflict: bool
) -> None:
    for strategy, winner in (("none", DESTINATION), ("dest-wins", DESTINATION), ("source-wins", SOURCE)):
        assert decided(base, destination, source, strategy) == (side or winner, conflict)
    back = decided(base, source, destination, "none")
    assert back.conflict == conflict


# Bases


def ancestors(parents: Sequence[Sequence[int]], starts: Iterator[int] | Sequence[int]) -> set[int]:
    found, waiting = set(), [*starts]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += parents[one]
    return found


def plainly(parents: Parents, left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Common ancestors that are no ancestor of another one."""
    common = ancestors(parents, left) & ancestors(parents, right)
    below = {one for commit in common for one in ancestors(parents, parents[commit])}
    return sorted(common - below, reverse=True)


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> Parents:
    parents: Parents = [[]]
    for number in range(1, draw(st.integers(1, most))):
        parents.append(draw(st.lists(st.integers(max(0, number - 6), number - 1), max_size=2, unique=True)))
    return parents


@settings(max_examples=examples(300), deadline=None)
@given(graphs(), st.data())
def test_bases_are_the_common_ancestors_that_are_none_of_another(parents: Parents, data: st.DataObject) -> None:
    some = st.sets(st.integers(0, len(parents) - 1), min_size=1, max_size=3).map(sorted)
    left, right = data.draw(some), data.draw(some)
    assert merge_bases(parents, left, right) == plainly(parents, left, right)
    assert merge_bases(parents, right, left) == merge_bases(parents, left, right)


def git(folder: Path, *arguments: str, given: str | None = None) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


def in_git(folder: Path, parents: Parents) -> list[str]:
    """Make a history in git; gives the ids of its commits."""
    lines = []
    for number, of in enumerate(parents):
        lines += [
            f"commit refs/heads/c{number}",
            f"mark :{number + 1}",
            f"committer a <a@b> {1_000_000_000 + number} +0000",
        ]
        lines += ["data 1", "m"]
        lines += [f"{'merge' if place else 'from'} :{parent + 1}" for place, parent in enumerate(of)]
        lines.append("")
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "fast-import", "--quiet", "--force", given="\n".join(lines) + "\n")
    found = git(folder, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads").split("\n")
    ids = dict(line.split() for line in found if line)
    return [ids[f"c{number}"] for number in range(len(parents))]


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_finds_the_same_bases(tmp_path: Path) -> None:
    """Also where branches cross, and with several roots."""
    drawn = random.Random(11)
    compared = several = 0
    for history in range(6):
        parents: Parents = [[]]
        for number in range(1, 60):
            many = drawn.choice([0, 1, 1, 2, 2, 2]) if number > 2 else 1
            near = range(max(0, number - 6), number)
            parents.append(drawn.sample(near, min(many, len(near))))
        folder = tmp_path / str(history)
        ids = in_git(folder, parents)
        numbers = {one: number for number, one in enumerate(ids)}
        for _ in range(25):
            left, right = drawn.sample(range(20, 60), 2)
            told = subprocess.run(
                ["git", "-C", str(folder), "merge-base", "--all", ids[left], ids[right]], capture_output=True, text=True
            ).stdout.split()
            mine = merge_bases(parents, [left], [right])
            assert mine == sorted((numbers[one] for one in told), reverse=True)
            compared, several = compared + 1, several + (len(mine) > 1)
    assert compared == 150
    assert several > 5


def criss_cross(deep: int, wide: int = 2) -> Parents:
    """Rows of commits, each with all of the row before it as parents."""
    parents: Parents = [[] for _ in range(wide)]
    for row in range(1, deep):
        parents += [[(row - 1) * wide + one for one in range(wide)] for _ in range(wide)]
    return parents


def test_a_history_that_crosses_ten_thousand_times_is_merged_in_bounded_steps() -> None:
    parents = criss_cross(10_000)
    ids = [f"{number:08}" for number in range(len(parents))]
    base = base_of(parents, ids, len(parents) - 2, len(parents) - 1)
    levels = 0
    while isinstance(base, Virtual):
        assert base.left == base.right - 1
        base, levels = base.base, levels + 1
    assert levels == bases.MAX_LEVELS
    assert base == len(parents) - 2 * bases.MAX_LEVELS - 3


def test_a_thousand_bases_are_not_merged_but_the_newest_counts() -> None:
    wide = 1000
    parents = [*([[]] * wide), [*range(wide)], [*range(wide)]]
    ids = [f"{number:08}" for number in range(len(parents))]
    assert base_of(parents, ids, wide, wide + 1) == wide - 1
    few = [*([[]] * 32), [*range(32)], [*range(32)]]
    merged = base_of(few, ids, 32, 33)
    assert isinstance(merged, Virtual)
    assert merged.commits == frozenset(range(32))


def test_many_bases_on_many_levels_are_merged_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 bases on each level all would be 20^8 merges."""
    parents = criss_cross(30, wide=20)
    ids = [f"{number:08}" for number in range(len(parents))]
    asked = []

    def counted(*of: Any) -> list[int]:
        asked.append(of)
        return merge_bases(*of)

    monkeypatch.setattr(bases, "merge_bases", counted)
    assert isinstance(base_of(parents, ids, len(parents) - 2, len(parents) - 1), Virtual)
    assert len(asked) <= 1 + bases.MAX_BASES * bases.MAX_LEVELS


class Counted(list[list[int]]):
    """A graph that counts what is looked up in it."""

    asked = 0

    def __getitem__(self, commit: Any) -> Any:
        self.asked += 1
        return super().__getitem__(commit)


@pytest.mark.thorough
def test_two_branches_far_apart_are_walked_once() -> None:
    apart = 100_000
    graph = Counted([[], *([number] for number in range(apart)), [0]])
    graph += [[number] for number in range(apart + 1, 2 * apart)]
    assert merge_bases(graph, [apart], [2 * apart]) == [0]
    assert graph.asked == 2 * apart + 1  # each commit once


def test_what_is_older_than_the_bases_is_not_walked() -> None:
    """Two branches of a long history cost what they have of their own."""
    old = 10_000
    graph = Counted([[], *([number] for number in range(old)), [old], [old]])
    assert merge_bases(graph, [old + 1], [old + 2]) == [old]
    assert graph.asked == 3


@given(graphs(), st.data())
def test_a_graph_in_columns_is_the_same_graph(parents: Parents, data: st.DataObject) -> None:
    first = array("q", (of[0] if of else NO_PARENT for of in parents))
    second = array("q", (of[1] if len(of) > 1 else NO_PARENT for of in parents))
    for columns in (ParentColumns(first, second), ParentColumns(memoryview(first), memoryview(second))):
        assert [[*columns[number]] for number in range(len(parents))] == parents
        left, right = (data.draw(st.integers(0, len(parents) - 1)) for _ in range(2))
        assert merge_bases(columns, [left], [right]) == merge_bases(parents, [left], [right])


def merged_contents(
    parents: Parents, ids: Sequence[str], left: int, right: int, trees: Sequence[Mapping[str, Any]]
) -> Any:
    base = base_of(parents, ids, left, right)
    return {
        path: content_at(base, [tree.get(path) for tree in trees]) for path in sorted({*trees[left], *trees[right]})
    }


def test_a_path_in_conflict_at_a_virtual_base_equals_neither_side() -> None:
    #  0 -- 1 -- 3      3 and 4 both merge 1 and 2, which changed p and q
    #   \-- 2 X- 4
    parents = [[], [0], [0], [1, 2], [2, 1]]
    ids = ["0", "b", "a", "3", "4"]
    trees = [
        {"p": "0", "q": "0", "same": "0"},
        {"p": "1", "q": "1", "same": "0"},
        {"p": "2", "q": "0", "same": "0"},
        {"p": "1", "q": "1", "same": "0"},
        {"p": "2", "q": "1", "same": "0"},
    ]
    base = base_of(parents, ids, 3, 4)
    assert base == Virtual(2, 1, 0)  # in the order of their ids
    found = merged_contents(parents, ids, 3, 4, trees)
    assert found["p"] is CONFLICT
    assert (found["q"], found["same"]) == ("1", "0")
    assert decided(found["p"], "1", "2", "none").conflict
    assert not decided(found["p"], "1", "1", "none").conflict


def test_unrelated_histories_have_the_empty_tree_as_base() -> None:
    assert base_of([[], []], ["0", "1"], 0, 1) is None
    assert content_at(None, ["x", "y"]) is None
