"""What refs contain and how they differ, against plain dictionaries: whatever the lake, the tables of contents and the
rows in front of them hold of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import contents
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.contents import Contents
from metajournal.domains.repositories.queries import RepositoryQueries
from metajournal.domains.repositories.questions import Ref
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.lake.declared import made_row
from metajournal.lake.tables import Lake
from metajournal.schemas.errors import NotYetVisibleError, UnknownEntityError
from metajournal.schemas.positions import Position, position
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.derived.committing import commit, tables_of
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.functions import DERIVED
from metajournal.streaming.derived.making import Bounds, make_piece
from tests.builders import record_of
from tests.properties import examples
from tests.repositories.operations import operations
from tests.repositories.test_layers import Plain, Tree
from tests.repositories.test_merging import plainly
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
KEY = (TOPIC, 0)
REPO = repository_urn("r1")
OF_FOLD = ("branches", "commits", "objects", "resets", "entities")
State = dict[tuple[str, str], tuple[str, Tree]]


@dataclass
class Ahead:
    """What a follower has from a position on."""

    begin: int
    end: Position
    rows: Mapping[str, Any]


def state_of(plain: Plain) -> State:
    """Of each branch its head, and what is staged there."""
    return {key: (head, dict(plain._staged.get(key, {}))) for key, head in plain._heads().items()}


def begun(folder: str | Path, events: list[Any], until: int) -> Fold:
    """The lake of the first events."""
    fold = Fold(Path(folder), 1, topic=TOPIC, joined=("repositories",))
    fold.batch([record_of(event, number) for number, event in enumerate(events[:until])])
    fold.lake.refresh()
    return fold


def made_until(fold: Fold, count: int) -> None:
    """Make the derived tables of the first events."""
    owned, upto = DERIVED["trees"], {KEY: position(1, count)}
    tables = tables_of(owned, fold.lake)
    offer = make_piece(owned, tables, upto, StoredFiles(fold.lake.path, {}), bounds=Bounds(1_000_000))
    if offer is not None:
        assert commit(offer, tables)


def ahead_of(fold: Fold, begin: int, end: int) -> Ahead:
    """What a follower would have, taken from the lake of the whole journal."""
    rows: dict[str, Any] = {}
    for name in OF_FOLD:
        found = fold.lake.tables[name].query("*", f"logical_timestamp >= {position(1, begin)}")
        made = [made_row(name)(row) for row in found]
        rows[name] = sorted(made, key=lambda row: (row.logical_timestamp, row.seq))
    return Ahead(position(1, begin), Position(TOPIC, 0, position(1, end)), rows)


def queries_of(folder: str | Path) -> RepositoryQueries:
    return RepositoryQueries(Lake(str(folder)), TopicNames(), {TOPIC: 1})


def whole(queries: RepositoryQueries, repo: str, ref: str, limit: int = 3, **options: Any) -> list[Any]:
    """All items, page by page."""
    items: list[Any] = []
    after = None
    while True:
        page = queries.list_objects("default", repo, Ref.of(ref), after=after, limit=limit, **options)
        items += page.items
        after = page.after
        assert len(page.items) == limit or after is None
        if after is None:
            return items


def test_what_one_reader_knows_of_a_commit_is_not_what_one_sees_who_came_before(tmp_path: Path) -> None:
    plain, main, dev = Plain(), branch_urn("r1", "main"), branch_urn("r1", "dev")
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    plain.add(e.ObjectsWritten(main, [e.Entry("a", 1, "c", "x")]))
    first = plain.add(e.Committed(main, "first"))
    plain.add(e.BranchCreated(dev, commit_urn("r1", first)))
    heads = {}
    for branch, path in ((main, "m"), (dev, "d")):
        plain.add(e.ObjectsWritten(branch, [e.Entry(path, 1, "c", "x")]))
        heads[branch] = plain.add(e.Committed(branch, "more"))
    merged = plain.add(e.Merged(dev, main, heads[dev], heads[main]))
    count = len(plain.events)
    fold = begun(tmp_path, plain.events, count)
    made_until(fold, count - 1)
    queries = queries_of(tmp_path)
    before = queries._moment("default", "r1", None, None)
    made_until(fold, count)
    assert [one.path for one in queries.list_objects("default", "r1", Ref.of(merged)).items] == ["a", "d", "m"]
    with pytest.raises(NotYetVisibleError):
        Contents(before, queries._layers).levels(merged, None)


def test_a_long_line_of_commits_that_are_not_made_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would be looked up for each question, however long that takes."""
    monkeypatch.setattr(contents, "_MOST_PENDING", 3)
    plain, main = Plain(), branch_urn("r1", "main")
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    for number in range(5):
        plain.add(e.Committed(main, str(number), allow_empty=True))
    fold = begun(tmp_path, plain.events, len(plain.events))
    queries = queries_of(tmp_path)
    assert whole(queries, "r1", "main~2") == []
    with pytest.raises(NotYetVisibleError):
        whole(queries, "r1", "main")
    made_until(fold, len(plain.events))
    assert whole(queries, "r1", "main") == []


def told(tree: Tree, prefix: str = "", delimiter: str | None = None, after: str = "") -> list[str]:
    """What a listing names, from a dictionary."""
    names = set()
    for path in tree:
        if path.startswith(prefix) and path > after:
            place = -1 if delimiter is None else path.find(delimiter, len(prefix))
            name = path if place < 0 else path[: place + len(delimiter or "")]
            if place < 0 or name != after:
                names.add(name)
    return sorted(names)


def differing(left: Tree, right: Tree) -> list[tuple[str, str]]:
    changes = []
    for path in sorted(left.keys() | right.keys()):
        if path not in left:
            changes.append((path, "added"))
        elif path not in right:
            changes.append((path, "removed"))
        elif left[path] != right[path]:
            changes.append((path, "changed"))
    return changes


def laid(tree: Tree, staged: Tree) -> Tree:
    return {path: one for path, one in {**tree, **staged}.items() if one is not None}


def trees_of(plain: Plain, state: State, repo: str) -> dict[str, Tree]:
    """What each ref of a repository contains."""
    found: dict[str, Tree] = {}
    for (name, branch), (head, staged) in state.items():
        if name == repo:
            tree = plain.trees.get(head, {})
            found |= {branch: laid(tree, staged)} | ({f"{branch}@": tree} if head else {})
            if head:
                found[head] = tree
    return found


@pytest.mark.thorough
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_listings_objects_and_differences_are_those_of_plain_dictionaries(data: st.DataObject) -> None:
    plain, states = Plain(), []
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    states.append(state_of(plain))
    for _ in range(data.draw(st.integers(2, 40))):
        plain.add(data.draw(operations(plain.refs)))
        states.append(state_of(plain))
    count = len(plain.events)
    in_lake = data.draw(st.integers(1, count))
    made = data.draw(st.integers(0, in_lake))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        fold = begun(one, plain.events, in_lake)
        made_until(fold, made)
        every = begun(other, plain.events, count)
        ahead = ahead_of(every, data.draw(st.integers(0, in_lake)), count)
        made_until(every, count)
        _hold_against(data, queries_of(one), plain, states[-1], {"ahead": ahead})
        cut = data.draw(st.integers(1, count))
        as_at = {KEY: position(1, cut)}
        _hold_against(data, queries_of(other), plain, states[cut - 1], {"as_at": as_at})


def _hold_against(data: st.DataObject, queries: RepositoryQueries, plain: Plain, state: State, seen: Any) -> None:
    for repo in ("r1", "r2"):
        trees = trees_of(plain, state, repo)
        visible = {}
        for ref, tree in trees.items():
            with suppress(NotYetVisibleError):  # a merge that is not made yet
                items = whole(queries, repo, ref, **seen)
                assert [one.path for one in items] == told(tree)
                assert {one.path: (bytes.fromhex(one.content), one.size) for one in items} == tree
                visible[ref] = tree
        if seen.keys() == {"as_at"}:
            assert visible == trees
        for ref, tree in visible.items():
            prefix = data.draw(st.sampled_from(["", "a", "a/", "ä"]))
            delimiter = data.draw(st.sampled_from(["/", "b", "/b", None]))
            after = data.draw(st.sampled_from(["", "a", "a/", "a//", "x"]))
            page = queries.list_objects(
                "default", repo, Ref.of(ref), prefix=prefix, delimiter=delimiter, after=after, limit=100, **seen
            )
            assert [one.path for one in page.items] == told(tree, prefix, delimiter, after)
            path = data.draw(st.sampled_from(["a", "a/b", "z"]))
            if path in tree:
                assert bytes.fromhex(queries.get("default", repo, Ref.of(ref), path, **seen).content) == tree[path][0]
            else:
                with pytest.raises(UnknownEntityError):
                    queries.get("default", repo, Ref.of(ref), path, **seen)
        if visible:
            left, right = (data.draw(st.sampled_from(sorted(visible))) for _ in range(2))
            changes: list[tuple[str, str]] = []
            following: str | None = None
            while True:
                found = queries.diff("default", repo, Ref.of(left), Ref.of(right), after=following, limit=2, **seen)
                changes += [(one.path, one.change) for one in found.items]
                following = found.after
                if following is None:
                    break
            assert changes == differing(visible[left], visible[right])


@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_merge_bases_are_those_of_the_plain_definition(data: st.DataObject) -> None:
    plain = Plain()
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    for _ in range(data.draw(st.integers(10, 40))):
        plain.add(data.draw(operations(plain.refs)))
    heads = [head for (repo, _), head in plain._heads().items() if repo == "r1" and head]
    if not heads:
        return
    left, right = (data.draw(st.sampled_from(heads)) for _ in range(2))
    numbers = plain._numbers
    parents = [[*map(numbers.index, plain.said[one][0])] for one in numbers]
    expected = {numbers[one] for one in plainly(parents, [numbers.index(left)], [numbers.index(right)])}
    with tempfile.TemporaryDirectory() as folder:
        begun(folder, plain.events, len(plain.events))
        found = queries_of(folder).merge_bases("default", "r1", Ref.of(left), Ref.of(right))
    assert set(found) == expected
