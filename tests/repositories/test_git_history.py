"""A history that git keeps is a repository with the same listings, differences and merge bases: git is asked."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from metajournal.domains.repositories.events import BranchReset, Committed, Merged, ObjectsWritten
from metajournal.domains.repositories.git_history.importing import Importer
from metajournal.domains.repositories.git_history.known import NOTHING, Present, known_of
from metajournal.domains.repositories.git_history.objects import Node
from metajournal.domains.repositories.merging.bases import merge_bases
from metajournal.domains.repositories.urns import commit_urn
from metajournal.terminal.rendering import time_text
from tests.repositories import git_histories as gits
from tests.repositories.git_imports import NAME, Contained, KilledError, Memory, folded, imported, queries_in

ROOT = Path(__file__).parents[2]


def own(folder: Path, most: int) -> Path:
    """The first commits of this project's history, or a generated one where this is no clone of it."""
    if not (ROOT / ".git").exists() or gits.git(ROOT, "rev-parse", "--is-shallow-repository") == b"true\n":
        gits.generated(folder, 8, min(most, 400))
        return folder
    commits = gits.git(ROOT, "rev-list", "--topo-order", "--reverse", "HEAD").decode().split()
    return gits.clone(ROOT, folder, {"main": commits[:most][-1]})


def present_in(lake: Path) -> Present:
    return queries_in(lake).present("default", NAME)


def assert_as_git_has_it(git: Path, lake: Path, memory: Memory, importer: Importer) -> None:
    """Every commit, its parents and its listing, branches, and merge bases of any two."""
    contained = Contained(folded(lake, memory))
    graph = gits.parents_of(git, *gits.heads(git).values())
    present = present_in(lake)
    known = known_of(present, [Node(commit, tuple(parents)) for commit, parents in graph.items()])
    assert {*known.git_ids} == graph.keys()
    assert importer.heads == {name: branch.head or "" for name, branch in present.branches.items()}
    listed = {git_id: gits.listing(git, git_id) for git_id in known.git_ids}
    for git_id in known.git_ids:
        ours = known.id_of(git_id)
        assert contained.listing(ours) == listed[git_id], git_id
        before = listed[graph[git_id][0]] if graph[git_id] else {}
        assert contained.counts(ours) == _counts(before, listed[git_id]), git_id
    numbers = {git_id: number for number, git_id in enumerate(known.git_ids)}
    parents = [[numbers[parent] for parent in graph[git_id]] for git_id in known.git_ids]
    rng = random.Random(1)
    for left, right in [rng.sample(known.git_ids, 2) for _ in range(60)]:
        ours_of_both = merge_bases(parents, {numbers[left]}, {numbers[right]})
        assert {known.git_ids[number] for number in ours_of_both} == gits.bases(git, left, right)


def _counts(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> tuple[int, int, int]:
    changed = sum(before[path] != after[path] for path in before.keys() & after.keys())
    return len(after.keys() - before.keys()), changed, len(before.keys() - after.keys())


@pytest.mark.thorough
def test_a_generated_history_of_every_kind_is_what_git_says(tmp_path: Path) -> None:
    git, memory = tmp_path / "git", Memory()
    gits.generated(git, 1, 320)
    importer = imported(git, memory)
    assert_as_git_has_it(git, tmp_path / "lake", memory, importer)
    paths = {path for commit in importer.known.git_ids for path in gits.listing(git, commit)}
    assert paths > {"two\nlines", 'say "hi"', "שלום"}
    assert any(f"{path}/inside" in paths for path in paths)
    kinds = Counter(type(event).__name__ for event, _ in memory.events)
    assert kinds["Committed"] + kinds["Merged"] == 320
    assert kinds["Merged"] > 60
    assert 30 < importer.counts.resolved < kinds["Merged"]
    waiting = Counter(type(memory.events[number][0]).__name__ for number, _ in memory.confirmed)
    assert waiting == {name: kinds[name] for name in ("BranchCreated", "Merged")}


@pytest.mark.thorough
@pytest.mark.parametrize("most", [150, pytest.param(100_000, marks=pytest.mark.long)])
def test_this_projects_own_history_is_what_git_says(tmp_path: Path, most: int) -> None:
    git, memory = own(tmp_path / "git", most), Memory()
    importer = imported(git, memory)
    assert importer.counts.commits == len(gits.parents_of(git, *gits.heads(git).values()))
    assert_as_git_has_it(git, tmp_path / "lake", memory, importer)


def has_events(memory: Memory, number: int) -> bool:
    return len(memory.events) >= number


def staged_last(memory: Memory) -> bool:
    return bool(memory.events) and isinstance(memory.events[-1][0], ObjectsWritten)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [2, 3])
def test_an_import_that_is_killed_anywhere_goes_on_and_ends_the_same(tmp_path: Path, seed: int) -> None:
    git, memory, rng = tmp_path / "git", Memory(), random.Random(seed)
    gits.generated(git, seed, 50)
    present = NOTHING
    for number in range(4):
        stop = len(memory.events) + rng.randint(1, 40)
        # First behind what is staged for a commit, then anywhere.
        memory.ends = partial(has_events, memory, stop) if number else partial(staged_last, memory)
        with pytest.raises(KilledError):
            imported(git, memory, present)
        folded(tmp_path / f"lake{number}", memory, trees=False)
        present = present_in(tmp_path / f"lake{number}")
    memory.ends = lambda: False
    importer = imported(git, memory, present)
    assert_as_git_has_it(git, tmp_path / "lake", memory, importer)
    assert any(isinstance(event, BranchReset) for event, _ in memory.events)
    ids = [event.metadata["git.id"] for event, _ in memory.events if isinstance(event, Committed | Merged)]
    assert sorted(ids) == sorted(gits.parents_of(git, *gits.heads(git).values()))


@pytest.mark.thorough
def test_an_import_of_what_is_there_sends_nothing_and_later_what_is_new(tmp_path: Path) -> None:
    git, memory = tmp_path / "git", Memory()
    gits.generated(git, 4, 40)
    imported(git, memory)
    folded(tmp_path / "lake1", memory, trees=False)
    before = len(memory.events)
    imported(git, memory, present_in(tmp_path / "lake1"))
    assert len(memory.events) == before
    old = gits.git(git, "rev-list", "--topo-order", "main").decode().split()[5]
    tree = gits.git(git, "rev-parse", "dev^{tree}").decode().strip()
    anew = gits.commit_tree(git, tree, [old], "from before")
    orphan = gits.commit_tree(git, tree, [], "a beginning")
    merge = gits.commit_tree(git, tree, [anew, orphan], "both")
    for branch, commit in {"main": anew, "dev": orphan, "merged": merge}.items():
        gits.git(git, "update-ref", f"refs/heads/{branch}", commit)
    importer = imported(git, memory, present_in(tmp_path / "lake1"))
    assert importer.counts.commits == 3
    assert_as_git_has_it(git, tmp_path / "lake", memory, importer)


def test_a_commit_says_who_made_it_and_when_as_git_does(tmp_path: Path) -> None:
    writer, git, memory = gits.Writer(), tmp_path / "git", Memory()
    tree = {"a": ("100755", "one"), "sub": ("160000", "5" * 40), "link": ("120000", "a")}
    writer.commit(tree, message="Läuft\n\nviel", author="Ä <ä@b>", when="86400 -0330")
    writer.commit(tree, [0], message="x" * 70_000, when="999999999999999 +0000")
    writer.save(git, {"main": 1})
    imported(git, memory)
    head = gits.heads(git)["main"]
    first, second = [(event, header) for event, header in memory.events if isinstance(event, Committed)]
    assert (first[0].message, first[1].event_time) == ("Läuft\n\nviel", 86_400_000)
    assert first[0].metadata["git.author"] == "Ä <ä@b>"
    assert first[0].metadata["git.authored"] == "86400 -0330"
    assert first[0].metadata["git.committer"] == "C O Mitter <c@example.org>"
    assert (second[0].metadata["git.id"], second[0].metadata["git.message_bytes"]) == (head, "70000")
    assert (len(second[0].message), second[0].allow_empty) == (65_536, True)
    assert second[1].event_time == 253_402_300_799_999
    assert time_text(second[1].event_time) == "9999-12-31 23:59:59.999Z"
    (written,) = [event for event, _ in memory.events if type(event).__name__ == "ObjectsWritten"]
    blob = gits.git(git, "rev-parse", "main:a").decode().strip()
    assert {one.path: (one.size, one.checksum, dict(one.metadata)) for one in written.entries} == {
        "a": (3, blob, {"mode": "100755"}),
        "link": (1, gits.git(git, "rev-parse", "main:link").decode().strip(), {"mode": "120000"}),
        "sub": (0, "5" * 40, {"mode": "160000"}),
    }


@pytest.mark.thorough
def test_of_several_commits_that_stand_for_one_of_gits_the_first_with_these_parents_counts(tmp_path: Path) -> None:
    git, memory = tmp_path / "git", Memory()
    gits.generated(git, 6, 12)
    imported(git, memory)
    folded(tmp_path / "lake", memory, trees=False)
    present = present_in(tmp_path / "lake")
    graph = [Node(one, tuple(two)) for one, two in gits.parents_of(git, *gits.heads(git).values()).items()]
    again = [commit._replace(id="ff" * 32) for commit in present.commits]
    lost = [commit._replace(id="ee" * 32, parents=["dd" * 32]) for commit in present.commits]
    found = known_of(present._replace(commits=[*lost, *present.commits, *again]), graph)
    assert found.ids == known_of(present, graph).ids == [commit.id for commit in present.commits]
    assert str(commit_urn(NAME, found.ids[0])).startswith(f"commit:{NAME}/")
