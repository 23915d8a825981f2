"""`metajournal repo import-git` on a running installation: killed and begun again, then held against git."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from metajournal import Journal
from metajournal.domains.repositories.answers import ListPage
from metajournal.domains.repositories.client import _queries
from metajournal.domains.repositories.questions import Ref
from metajournal.schemas.errors import NotYetVisibleError
from tests.commands.test_on_services import said
from tests.installation import CLI, Installation
from tests.repositories import git_histories as gits
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]
NAME = "from-git"
COMMITS = 320


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history") / NAME
    gits.generated(folder, 12, COMMITS)
    return folder


def killed_at(installation: Installation, git: Path, commits: int) -> None:
    """An import that is killed once it says that it has sent so many commits; or that comes to its end before."""
    command = (*CLI, "repo", "import-git", str(git))
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=installation.folder,
        env=installation.environment,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            told = line.split(": ")
            if told[1] == "importing" and int(told[2].split(" ")[0].replace(",", "")) >= commits:
                process.kill()


def test_a_history_is_imported_over_several_kills_and_is_what_git_has(installation: Installation, git: Path) -> None:
    foreseen = said(installation, "repo", "import-git", str(git), "--dry-run")
    assert (foreseen["commits"], foreseen["had_commits"], foreseen["events"]) == (COMMITS, 0, 0)
    for _ in range(3):
        killed_at(installation, git, 20)
    done = said(installation, "repo", "import-git", str(git))
    assert (done["ok"], done["commits"] + done["had_commits"]) == (True, COMMITS)
    assert 0 < done["had_commits"] < COMMITS
    again = said(installation, "repo", "import-git", str(git))
    assert (again["commits"], again["events"], again["branches"]) == (0, 0, done["branches"])
    heads = gits.heads(git)
    assert {name: one["git_id"] for name, one in done["branches"].items()} == heads
    branches = {one["name"]: one for one in said(installation, "repo", "branches", NAME)}
    assert {name: one["head"] for name, one in branches.items()} == {
        one["name"]: one["commit"] for one in done["branches"].values()
    }
    assert not any(one["dirty"] for one in branches.values())
    with Journal.connect(installation.settings) as journal:
        assert_as_git_has_it(journal, git)


def assert_as_git_has_it(journal: Journal, git: Path) -> None:
    """Listing, difference to the first parent, and merge bases of neighbours, at every commit."""
    queries: Any = _queries(journal)
    branches = queries.branches("default", NAME)
    ours = {
        commit.metadata["git.id"]: commit
        for branch in branches
        for commit in queries.log("default", NAME, Ref.of(branch.name), limit=10_000).items
    }
    graph = gits.parents_of(git, *gits.heads(git).values())
    assert ours.keys() == graph.keys()
    newest = max(ours.values(), key=lambda commit: commit.logical_timestamp)
    eventually(lambda: is_made(queries, Ref.of(newest.id)), timeout_s=120)
    listed = {git_id: gits.listing(git, git_id) for git_id in graph}
    git_ids = {commit.id: git_id for git_id, commit in ours.items()}
    former = ""
    for git_id, parents in graph.items():
        ref = Ref.of(ours[git_id].id)
        page: ListPage = queries.list_objects("default", NAME, ref, limit=10_000)
        assert {one.path: (one.metadata["mode"], one.checksum) for one in page.objects} == listed[git_id]
        if parents:
            differing = queries.diff("default", NAME, Ref.of(ours[parents[0]].id), ref, limit=10_000).items
            before = listed[parents[0]]
            both = before.keys() | listed[git_id].keys()
            assert [one.path for one in differing] == sorted(
                path for path in both if before.get(path) != listed[git_id].get(path)
            )
        if former:
            bases = queries.merge_bases("default", NAME, ref, Ref.of(ours[former].id))
            assert {git_ids[one] for one in bases} == gits.bases(git, git_id, former)
        former = git_id


def is_made(queries: Any, ref: Ref) -> bool:
    """Whether the lake knows what a commit contains, and so what those before it do."""
    try:
        return bool(queries.tree("default", NAME, ref))
    except NotYetVisibleError:
        return False


def test_what_cannot_be_imported_is_said_and_nothing_is_created(installation: Installation, tmp_path: Path) -> None:
    writer = gits.Writer()
    sides = [writer.commit({f"{number}": ("100644", "x")}) for number in range(3)]
    writer.commit({}, sides)
    writer.save(tmp_path / "octopus", {"main": 3})
    done = installation.metajournal("repo", "import-git", str(tmp_path / "octopus"), "--json")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["commits"]) == ("octopus-merge", [gits.heads(tmp_path / "octopus")["main"]])
    assert "octopus" not in [one["name"] for one in said(installation, "repo", "list")]
