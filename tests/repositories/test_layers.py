"""What each commit contains, as the derived tables have it, against plain dictionaries; and in any pieces."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import derived, kept_layers, layers, partial
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.layers import Contents, Layer
from metajournal.domains.repositories.merging.paths import CONFLICT, DESTINATION, decided
from metajournal.domains.repositories.merging.roots import content_id, object_element, root_of
from metajournal.domains.repositories.rows import content_of
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import digest
from metajournal.schemas.lthash import LtHash16
from metajournal.streaming.derived.committing import commit, fill, tables_of
from metajournal.streaming.derived.earlier import EarlierRows
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.functions import DERIVED
from metajournal.streaming.derived.making import Bounds, make_piece
from tests.builders import header_for, record_of
from tests.properties import examples
from tests.repositories.operations import operations
from tests.repositories.plain_model import Refs
from tests.repositories.test_merging import plainly
from tests.streaming.harness import Fold

changed = pytest.MonkeyPatch.context
TOPIC = "metajournal.journal.repositories"
KEY = (TOPIC, 0)
REPO = repository_urn("r1")
Tree = dict[str, Any]


class Plain:
    """A journal's repositories with their contents: dictionaries, and merges path by path."""

    def __init__(self) -> None:
        self.refs = Refs()
        self.events: list[Any] = []
        self.trees: dict[str, Tree] = {}
        """By commit; (content, size) of each path."""
        self.changes: dict[str, tuple[int, int, int]] = {}
        self.conflicts: dict[str, list[list[Any]]] = {}
        self.said: dict[str, tuple[list[str], str, dict[str, str]]] = {}
        self._ids: dict[str, str] = {}
        self._numbers: list[str] = []
        self._staged: dict[tuple[str, str], Tree] = {}

    def add(self, event: Any) -> str:
        """The next event; gives the head of its branch after it."""
        before = self._heads()
        encoded = codec.encode(event, header_for(event, len(self.events)))
        outcome = self.refs.judge(event, digest(encoded))
        self.events.append(event)
        branch = getattr(event, "destination", None) or getattr(event, "branch", None)
        if outcome == "accepted":
            self._apply(event, branch, before)
        return "" if branch is None else self._heads().get((branch.parts[0], branch.parts[1]), "")

    def _heads(self) -> dict[tuple[str, str], str]:
        return {
            (name, branch): one.head
            for name, repository in self.refs.repositories.items()
            for branch, one in repository.branches.items()
        }

    def _apply(self, event: Any, branch: Any, before: dict[tuple[str, str], str]) -> None:
        if branch is None:
            name = event.aggregate.name
            if not isinstance(event, e.ObjectsRegistered | e.ObjectsUnregistered):
                self._staged = {key: held for key, held in self._staged.items() if key[0] != name}
            return
        key = branch.parts[0], branch.parts[1]
        staged = self._staged.setdefault(key, {})
        match event:
            case e.ObjectsWritten():
                for one in event.entries:
                    content = content_of(one.checksum, one.size, one.content_type, one.metadata)
                    staged[one.path] = (content, one.size)
            case e.ObjectsDeleted():
                staged.update(dict.fromkeys(event.paths))
            case e.BranchReset() if event.path is not None:
                staged.pop(event.path, None)
            case e.BranchReset():
                prefix = event.prefix or ""
                self._staged[key] = {path: one for path, one in staged.items() if not path.startswith(prefix)}
            case e.Committed() | e.Merged():
                self._commit(event, key, before.get(key, ""))
            case _:
                self._staged.pop(key, None)

    def _commit(self, event: Any, key: tuple[str, str], former: str) -> None:
        head = self._heads()[key]
        parents = [former] if former else []
        below = self.trees.get(former, {})
        conflicts: list[list[Any]] = []
        over: Tree = {}
        if isinstance(event, e.Merged):
            parents.append(event.source_head)
            if former:
                over, conflicts = self._merge(former, event.source_head, event.strategy)
            else:
                below = self.trees[event.source_head]
        over |= self._staged.pop(key, {})
        tree = {path: one for path, one in (below | over).items() if one is not None}
        self.trees[head] = tree
        both = tree.keys() & below.keys()
        changed = sum(tree[one] != below[one] for one in both)
        self.changes[head] = (len(tree.keys() - below.keys()), changed, len(below.keys() - tree.keys()))
        self.conflicts[head] = conflicts
        self.said[head] = (parents, event.message, {**event.metadata})
        self._numbers.append(head)

    def _merge(self, destination: str, source: str, strategy: str) -> tuple[Tree, list[list[Any]]]:
        base = self._base({destination}, {source})
        over, conflicts = {}, []
        for path in sorted(base.keys() | self.trees[destination].keys() | self.trees[source].keys()):
            at = base.get(path), self.trees[destination].get(path), self.trees[source].get(path)
            side, conflict = decided(*at, strategy)
            if side != DESTINATION:
                over[path] = at[2]
            if conflict:
                conflicts.append([path, *map(_told, at)])
        return over, conflicts

    def _base(self, left: set[str], right: set[str]) -> Tree:
        parents = [[*map(self._numbers.index, self.said[one][0])] for one in self._numbers]
        numbers = [[self._numbers.index(one) for one in some] for some in (left, right)]
        bases = sorted(self._numbers[one] for one in plainly(parents, *numbers))
        if not bases:
            return {}
        merged, made_of = self.trees[bases[0]], {bases[0]}
        for other in bases[1:]:
            below, taken = self._base(made_of, {other}), self.trees[other]
            merged = {path: self._at(below.get(path), merged.get(path), taken.get(path))
                      for path in below.keys() | merged.keys() | taken.keys()}  # fmt: skip
            made_of = made_of | {other}
        return merged

    @staticmethod
    def _at(below: Any, left: Any, right: Any) -> Any:
        side, conflict = decided(below, left, right, "none")
        return CONFLICT if conflict else left if side == DESTINATION else right

    def root(self, tree: Tree) -> str:
        state = LtHash16()
        state.update(object_element(path, content) for path, (content, _) in tree.items())
        return root_of(state.state)

    def content_id(self, head: str) -> str:
        if head not in self._ids:
            parents, message, metadata = self.said[head]
            before = [self.content_id(one) for one in parents]
            self._ids[head] = content_id(self.root(self.trees[head]), before, message, metadata)
        return self._ids[head]


def _told(one: Any) -> Any:
    return "conflict" if one is CONFLICT else None if one is None else one[0].hex()


def begun(folder: str | Path, plain: Plain) -> Fold:
    fold = Fold(Path(folder), 1, topic=TOPIC, joined=("repositories",))
    fold.batch([record_of(event, number) for number, event in enumerate(plain.events)])
    fold.lake.refresh()
    return fold


def made_in_pieces(fold: Fold, sizes: Sequence[int]) -> None:
    """Make the tables in pieces of these numbers of rows, and the rest at once."""
    owned, upto = DERIVED["trees"], {KEY: fold.lake.journal.mark(KEY)}
    for size in sizes:
        tables = tables_of(owned, fold.lake)
        offer = make_piece(owned, tables, upto, StoredFiles(fold.lake.path, {}), bounds=Bounds(size))
        if offer is not None:
            assert commit(offer, tables)
    fill(fold.lake, {"trees": upto}, StoredFiles(fold.lake.path, {}))


def rows(fold: Fold, name: str) -> list[Any]:
    key = "commit, logical_timestamp" if name == "commit_trees" else "layer, path"
    found: list[Any] = fold.lake.tables[name].query("*", f"true order by tenant, {key}")
    return found


def assert_as_told(fold: Fold, plain: Plain) -> None:
    """Every commit contains what the dictionaries say, and says the same of itself."""
    found = {row["commit"]: row for row in rows(fold, "commit_trees") if "/staged-" not in row["commit"]}
    named = {str(commit_urn(name, head)): head for name in ("r1", "r2") for head in plain.trees}
    heads = {named[urn]: row for urn, row in found.items()}
    assert heads.keys() == plain.trees.keys()
    owned = DERIVED["trees"]
    reads = EarlierRows(owned.derived, tables_of(owned, fold.lake), KEY, 1 << 62, 1 << 62)
    for head, tree in plain.trees.items():
        row = heads[head]
        held = [Layer.of(*one) for one in zip(row["layers"], row["layer_rows"], strict=True)]
        repo = row["aggregate"].removeprefix("repo:")
        content = Contents(reads, "default", repo).overlaid(held, ["content", "size"])
        there = {one["path"]: (one["content"], one["size"]) for one in content.to_dicts() if not one["deleted"]}
        assert there == tree
        assert content["path"].to_list() == sorted(content["path"])
        assert (row["added"], row["changed"], row["removed"]) == plain.changes[head]
        assert (row["objects"], row["bytes"]) == (len(tree), sum(size for _, size in tree.values()))
        assert row["conflicts"] == len(plain.conflicts[head])
        assert orjson.loads(row["conflicting"]) == plain.conflicts[head][:100]
        assert (row["root"], row["content_id"]) == (plain.root(tree), plain.content_id(head))


@pytest.mark.thorough
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_operations_in_any_pieces_give_what_plain_dictionaries_give(data: st.DataObject) -> None:
    plain = Plain()
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    for _ in range(data.draw(st.integers(4, 45))):
        plain.add(data.draw(operations(plain.refs)))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other, changed() as patch:
        patch.setattr(partial, "PARTIAL_ROWS", data.draw(st.sampled_from([2, 3, 5, 1 << 18])))
        again = begun(other, plain)
        made_in_pieces(again, [])
        patch.setattr(derived, "MOST_WORK", data.draw(st.sampled_from([1, 100, 1 << 18])))
        patch.setattr(layers, "RANGE_ROWS", data.draw(st.sampled_from([1, 3, 1 << 16])))
        patch.setattr(kept_layers, "_MOST_ROWS", data.draw(st.sampled_from([0, 2, 1 << 20])))
        fold = begun(one, plain)
        made_in_pieces(fold, data.draw(st.lists(st.integers(1, 8), max_size=6)))
        assert_as_told(fold, plain)
        for name in ("trees", "commit_trees"):
            assert rows(again, name) == rows(fold, name)


def history(seed: int, commits: int, paths: int) -> Plain:
    """Two branches that change, delete, reset and merge each other's paths."""
    rng = random.Random(seed)
    plain = Plain()
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    main, dev = branch_urn("r1", "main"), branch_urn("r1", "dev")
    names = [f"{number % 7}/{number:03}" for number in range(paths)]
    plain.add(e.ObjectsWritten(main, [_object(path, rng) for path in names]))
    plain.add(e.BranchCreated(dev, commit_urn("r1", plain.add(e.Committed(main, "first")))))
    for number in range(commits):
        branch, other = rng.sample([main, dev], 2)
        for _ in range(rng.randint(1, 3)):
            some = rng.sample(names, rng.choice([1, 2, 5, 20]))
            if rng.random() < 0.4:
                plain.add(e.ObjectsDeleted(branch, some))
            else:
                plain.add(e.ObjectsWritten(branch, [_object(path, rng) for path in some]))
        if rng.random() < 0.2:
            plain.add(e.BranchReset(branch, prefix=f"{number % 7}/"))
        plain.add(e.Committed(branch, str(number)))
        if rng.random() < 0.3:
            heads = [plain.refs.repositories["r1"].branches[one.parts[1]].head for one in (other, branch)]
            plain.add(e.Merged(other, branch, heads[0], heads[1], rng.choice(e.STRATEGIES), message="m"))
    return plain


def _object(path: str, rng: random.Random) -> e.Entry:
    return e.Entry(path, rng.randint(0, 3), rng.choice(["c1", "c2", "c3"]), "s3://b/1")


@pytest.mark.thorough
@pytest.mark.parametrize("range_rows", [7, 1 << 18])
def test_a_long_history_is_the_same_however_narrow_the_ranges_of_paths_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, range_rows: int
) -> None:
    monkeypatch.setattr(layers, "RANGE_ROWS", range_rows)
    plain = history(5, 60, 120)
    fold = begun(tmp_path, plain)
    made_in_pieces(fold, [150, 40])
    assert_as_told(fold, plain)
    told = rows(fold, "commit_trees")
    assert sum(row["conflicts"] for row in told) > 10
    assert any(name.startswith("trees/") for row in told for name in row["layers"])
    assert max(len(row["layers"]) for row in told) < 12
    before = rows(fold, "trees")
    fold.lake.tables["trees"].compact()
    assert rows(fold, "trees") == before


@pytest.mark.parametrize("staged", [3, 6])
@pytest.mark.parametrize("pieces", [[], [1, 1, 1, 1, 1, 1]])
def test_a_merge_into_a_branch_without_commit_has_its_source_however_much_is_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, staged: int, pieces: list[int]
) -> None:
    """What was made ahead of the staged rows stands on nothing; the merge stands on its source."""
    monkeypatch.setattr(partial, "PARTIAL_ROWS", 4)
    plain = Plain()
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    main, fresh = branch_urn("r1", "main"), branch_urn("r1", "fresh")
    plain.add(e.ObjectsWritten(main, [e.Entry(f"m{number}", 1, "c", "s3://b/1") for number in range(3)]))
    head = plain.add(e.Committed(main, "first"))
    plain.add(e.BranchCreated(fresh))
    plain.add(e.ObjectsWritten(fresh, [e.Entry(f"f{number}", 1, "c", "s3://b/1") for number in range(staged)]))
    digest_seen = plain.refs.repositories["r1"].branches["fresh"].digest
    merged = plain.add(e.Merged(main, fresh, head, "", "none", "resolve", digest_seen, "merge"))
    assert len(plain.trees[merged]) == 3 + staged
    fold = begun(tmp_path, plain)
    made_in_pieces(fold, pieces)
    assert_as_told(fold, plain)


def test_a_merge_stands_on_the_commits_that_its_client_has_seen_where_an_id_comes_again(tmp_path: Path) -> None:
    """A repository that was deleted and made again by the very same events has the same commits once more."""
    main, dev, refs = branch_urn("r1", "main"), branch_urn("r1", "dev"), Refs()
    sent: list[tuple[Any, int]] = []

    def add(event: Any, number: int) -> None:
        assert refs.judge(event, digest(codec.encode(event, header_for(event, number)))) == "accepted"
        sent.append((event, number))

    def head(branch: str) -> str:
        return refs.repositories["r1"].branches[branch].head

    first = [
        (e.RepositoryCreated(REPO, "main", "s3://b"), 1),
        (e.ObjectsWritten(main, [e.Entry(path, 1, "c1", "s3://b/1") for path in "pq"]), 2),
        (e.Committed(main, "one"), 3),
    ]
    for one in (*first, (e.RepositoryDeleted(REPO), 4), *first):
        add(*one)
    add(e.BranchCreated(dev, commit_urn("r1", head("main"))), 5)
    add(e.ObjectsWritten(dev, [e.Entry("p", 1, "c2", "s3://b/2")]), 6)
    add(e.Committed(dev, "two"), 7)
    add(e.Merged(dev, main, head("dev"), head("main"), "none", "refuse", None, "m"), 8)
    fold = Fold(tmp_path, 1, topic=TOPIC, joined=("repositories",))
    fold.batch([record_of(one, at, header=header_for(one, number)) for at, (one, number) in enumerate(sent)])
    fold.lake.refresh()
    made_in_pieces(fold, [])
    (merged,) = (row for row in rows(fold, "commit_trees") if row["commit"].endswith(head("main")))
    assert (merged["added"], merged["changed"], merged["removed"], merged["conflicts"]) == (0, 1, 0, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("sizes", [[], [3, 1, 2, 1, 1]])
def test_sizes_whose_sum_is_too_large_stop_nothing_and_the_largest_sum_is_told(
    tmp_path: Path, sizes: list[int]
) -> None:
    most = 2**63 - 1
    main = branch_urn("r1", "main")
    plain = Plain()
    plain.add(e.RepositoryCreated(REPO, "main", "s3://b"))
    for paths in (["a"], ["b", "c"], ["d"]):  # the first sum is the largest already
        plain.add(e.ObjectsWritten(main, [e.Entry(path, most, "c", "s3://b/1") for path in paths]))
        plain.add(e.Committed(main, "more"))
    plain.add(e.ObjectsDeleted(main, ["b", "c", "d"]))
    plain.add(e.Committed(main, "less"))
    plain.add(e.ObjectsWritten(main, [e.Entry("b", 5, "c", "s3://b/1")]))
    plain.add(e.Committed(main, "counted on"))
    fold = begun(tmp_path, plain)
    made_in_pieces(fold, sizes)
    told = sorted(rows(fold, "commit_trees"), key=lambda row: row["logical_timestamp"])
    assert [(row["objects"], row["bytes"]) for row in told] == [(1, most), (3, most), (4, most), (1, most), (2, most)]


@given(st.text(min_size=1, max_size=6).filter(lambda one: "\0" not in one), st.text(min_size=1, max_size=6))
def test_no_path_stands_between_a_path_and_the_end_of_the_range_before_it(path: str, other: str) -> None:
    assert (other < path) == (other <= layers.before(path))
