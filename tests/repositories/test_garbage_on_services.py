"""What nothing needs, and the changes of one repository, on a running installation: from Python and typed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metajournal import Journal
from metajournal.schemas.errors import UnknownEntityError
from tests.commands.test_on_services import said
from tests.installation import Installation
from tests.repositories.test_on_services import WAIT_S, entry

pytestmark = pytest.mark.services


@pytest.fixture
def repository(installation: Installation, request: pytest.FixtureRequest) -> Any:
    """A commit that a revert has left behind, one that stands, an overwritten and a reset writing."""
    name = f"gc-{request.node.name.split('[')[0][-20:].strip('_').replace('_', '-')}"
    with Journal.connect(installation.settings) as journal:
        repo = journal.repositories.create(name, storage_namespace="s3://b", timeout_s=WAIT_S)
        main = repo.branch("main")
        main.write([entry("a", address="s3://b/overwritten")])
        main.write([entry("a", address="s3://b/stands")])
        first = main.commit("first", timeout_s=WAIT_S)
        main.write([entry("b", address="s3://b/left"), {**entry("c"), "address": None,
                    "blocks": [{"address": "s3://b/left-too", "size": 3, "checksum": "x"}]}])  # fmt: skip
        second = main.commit("second", timeout_s=WAIT_S)
        main.revert(first.id).outcome(WAIT_S).raise_if_rejected()
        repo.branch("_tx/1").create(first.id).outcome(WAIT_S).raise_if_rejected()
        main.write([entry("d/1", address="s3://b/reset"), entry("e", address="s3://b/staged")])
        journal.wait(main.reset(prefix="d/"), timeout_s=WAIT_S)
        yield repo, first, second


def test_a_plan_says_what_no_live_branch_needs(installation: Installation, repository: Any) -> None:
    repo, _, second = repository
    plan = repo.gc_plan(older_than_s=0)
    unused = ["left", "left-too", "overwritten", "reset"]
    assert [one.address for one in plan.addresses()] == [f"s3://b/{name}" for name in unused]
    assert [one.id for one in plan.commits()] == [second.id]
    assert [one.name for one in plan.branches()] == ["_tx/1"]
    counts = plan.counts()
    assert (counts.blocks, counts.unused_blocks, counts.commits, counts.unreached_commits) == (6, 4, 2, 1)
    assert [*repo.gc_plan().addresses()] == []  # none is a day old
    with pytest.raises(UnknownEntityError):
        next(iter(repo._journal.repositories["never-was"].gc_plan().addresses()))

    def told(*words: str, **options: Any) -> Any:
        return said(installation, "repo", "gc", repo.name, *words, **options)

    typed = told("--dry-run", "--older-than", "0s")
    assert (typed["unused_blocks"], typed["old_transactions"]) == (4, 1)
    assert told("--dry-run")["unused_blocks"] == 0
    listed = installation.metajournal("repo", "gc", repo.name, "--dry-run", "--older-than", "0s", "--list", "addresses")
    assert listed.stdout.split() == [f"s3://b/{name}" for name in unused]
    lines = installation.metajournal(
        "repo", "gc", repo.name, "--dry-run", "--older-than", "0s", "--list", "commits", "--json"
    )
    assert [json.loads(line)["id"] for line in lines.stdout.splitlines()] == [second.id]
    drawn = installation.metajournal("repo", "gc", repo.name, "--dry-run", "--older-than", "0s").stdout
    assert [line.split() for line in drawn.splitlines() if line.startswith("blocks")] == [["blocks", "6", "4"]]
    refused = installation.metajournal("repo", "gc", repo.name)
    assert refused.returncode == 2
    assert "only-dry-run" in refused.stderr


def test_its_changes_alone_are_told(installation: Installation, repository: Any) -> None:
    repo, first, _ = repository
    types = [
        "RepositoryCreated", "ObjectsWritten", "ObjectsWritten", "Committed", "ObjectsWritten", "Committed",
        "BranchReverted", "BranchCreated", "ObjectsWritten", "BranchReset",
    ]  # fmt: skip
    with repo.changes(since="earliest", limit=len(types), timeout_s=WAIT_S) as changes:
        assert [one.record["event_type"] for one in changes] == types

    def told(command: str, *words: str) -> list[str]:
        limited = ("--since", "earliest", "--timeout", "20")
        return installation.metajournal(*command.split(), *limited, *words).stdout.splitlines()

    of_main = [json.loads(line) for line in told("repo tail", repo.name, "main", "--limit", "8", "--json")]
    expected = [name for name in types if name not in ("RepositoryCreated", "BranchCreated")]
    assert [one["record"]["event_type"] for one in of_main] == expected
    shown = told("repo tail", repo.name, "--limit", str(len(types)))
    commit = f"branch:{repo.name}/main  committed {first.id[:12]}: first"
    assert len(shown) == len(types)
    assert [line for line in shown if commit in line] == [shown[3]]
    mistyped = installation.metajournal("repo", "tail", repo.name, "mian", "--timeout", "0.5")
    assert (mistyped.stdout, "mian" in mistyped.stderr, "Waiting" in mistyped.stderr) == ("", True, True)
    general = told("tail", "--domain", "repositories", "--urn", f"branch:{repo.name}/*", "--limit", "3")
    assert commit in general[2]
