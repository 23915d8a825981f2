"""`metajournal repo import-git` on a running installation: killed and begun again, then held against git."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from metajournal import Journal
from metajournal.domains.repositories.client import Repository
from metajournal.domains.repositories.errors import StaleHeadError
from metajournal.domains.repositories.events import Committed, ObjectsWritten
from metajournal.domains.repositories.git_history import unconfirmed
from metajournal.domains.repositories.git_history.reading import History
from metajournal.domains.repositories.git_history.running import IMPORTING, GitImport, chosen
from metajournal.domains.repositories.urns import branch_urn
from tests.commands.test_on_services import said
from tests.installation import CLI, Installation
from tests.repositories import git_histories as gits
from tests.repositories.staying import entry

pytestmark = [pytest.mark.services, pytest.mark.long]
NAME = "from-git"
COMMITS = 320
WAIT_S = 180.0


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
    assert (done["ok"], done["readable"], done["commits"] + done["had_commits"]) == (True, True, COMMITS)
    assert said(installation, "repo", "ls", NAME, next(iter(done["branches"].values()))["name"] + "@", "--timeout", "5")
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
        assert_as_git_has_it(journal.repositories[NAME], git)


def assert_as_git_has_it(repository: Repository, git: Path) -> None:
    """Listing, difference to the first parent, and merge bases of what follows one another, at every commit."""
    logs = [repository.log(branch.name, limit=10_000) for branch in repository.branches(timeout_s=WAIT_S)]
    ours = {commit.metadata["git.id"]: commit.id for page in logs for commit in page.items}
    git_ids = {commit: git_id for git_id, commit in ours.items()}
    graph = gits.parents_of(git, *gits.heads(git).values())
    assert ours.keys() == graph.keys()
    listed = {git_id: gits.listing(git, git_id) for git_id in graph}
    for git_id, former in zip(graph, [*graph][1:], strict=False):
        commit = ours[git_id]
        found = repository.list(commit, limit=10_000, timeout_s=WAIT_S).objects
        assert {one.path: (one.metadata["mode"], one.checksum) for one in found} == listed[git_id]
        for parent in graph[git_id][:1]:
            both = listed[parent].keys() | listed[git_id].keys()
            differing = [one.path for one in repository.diff(ours[parent], commit, limit=10_000).items]
            wanted = [path for path in both if listed[parent].get(path) != listed[git_id].get(path)]
            assert differing == sorted(wanted, key=str.encode)
        bases = repository.merge_bases(commit, ours[former])
        assert {git_ids[one] for one in bases} == gits.bases(git, git_id, former)


def test_an_import_stops_where_others_commit_and_goes_on_once_that_is_undone(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unconfirmed, "ROUND_COMMITS", 8)
    name, commits, before = "raced-for", 200, 60
    writer = gits.Writer()
    for number in range(commits):
        writer.commit({"a": ("100644", f"{number}")}, [number - 1] if number else [])
    writer.save(tmp_path / name, {"main": commits - 1})
    main = branch_urn(name, "main")
    with Journal.connect(installation.settings) as journal, Journal.connect(installation.settings) as other:

        def tell(what: str, done: int, total: int) -> None:
            if (what, done) == (IMPORTING, before):
                other.emit(ObjectsWritten(main, [entry("theirs")]))
                other.emit(Committed(main, "theirs")).position  # noqa: B018  (waits)

        with History(tmp_path / name) as history, pytest.raises(StaleHeadError) as caught:
            GitImport(journal, history, name, chosen(history), storage="git:", timeout_s=WAIT_S, tell=tell).run()
    assert caught.value.data["dropped"] == ["main"]
    (branch,) = said(installation, "repo", "branches", name)
    assert (branch["head"], branch["dirty"]) == (caught.value.found, False)
    assert installation.metajournal("repo", "import-git", str(tmp_path / name)).returncode == 2  # not from git
    back = caught.value.hint.rpartition("metajournal ")[2].split()
    assert said(installation, "repo", "branch", name, "theirs", "--at", "main@")["ok"]
    assert said(installation, *back)["ok"]
    done = said(installation, "repo", "import-git", str(tmp_path / name))
    assert (done["ok"], done["had_commits"] + done["commits"]) == (True, commits)
    assert before <= done["had_commits"] < before + 8


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
