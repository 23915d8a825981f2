"""Repositories on a running installation: from Python and typed, what is changed is what is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metajournal import Journal, RejectedError
from metajournal.domains.repositories.errors import MergeConflictError
from metajournal.schemas.errors import InputError
from tests.commands.test_on_services import said
from tests.installation import Installation

pytestmark = pytest.mark.services
WAIT_S = 180.0


def entry(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "size": 3, "checksum": "c1", "address": f"s3://b/{path}", **more}


def test_a_repository_is_created_written_to_committed_and_read_from_python(installation: Installation) -> None:
    with Journal.connect(installation.settings) as journal:
        repo = journal.repositories.create("py-lake", storage_namespace="s3://b", timeout_s=WAIT_S)
        with pytest.raises(RejectedError) as refused:
            journal.repositories.create("py-lake", storage_namespace="s3://b", timeout_s=WAIT_S)
        assert refused.value.reason == "exists"
        main, dev = repo.branch("main"), repo.branch("dev")
        receipts = main.write(entry(f"raw/{number}.csv") for number in range(2_500))
        assert len(receipts) == 3
        first = main.commit("first load", {"by": "nightly"}, expected_head="", timeout_s=WAIT_S)
        assert (first.branch, first.parents, dict(first.metadata)) == ("main", (), {"by": "nightly"})
        dev.create(first.id).outcome(WAIT_S).raise_if_rejected()
        main.delete(["raw/7.csv"])
        with pytest.raises(RejectedError) as refused:
            main.commit("late", expected_head="", timeout_s=WAIT_S)
        detail: Any = refused.value.detail
        assert (refused.value.reason, detail["found"]) == ("stale-head", first.id)
        second = main.commit("without 7", expected_head=first.id, timeout_s=WAIT_S)
        again = main.commit("without 7", timeout_s=WAIT_S, allow_empty=True)
        assert again.parents == (second.id,)
        page = repo.list("main", delimiter="/", limit=1)
        assert [(type(one).__name__, one.path) for one in page.items] == [("PrefixInfo", "raw/")]
        assert len([*repo.list_all("main")]) == 2_499
        assert repo.get("main", "raw/8.csv").address == "s3://b/raw/8.csv"
        assert [(one.path, one.change) for one in repo.diff(first.id, "main").items] == [("raw/7.csv", "removed")]
        assert repo.merge_bases(first.id, "main") == [first.id]
        tree = repo.tree(second.id)
        assert (tree.objects, tree.removed, tree.size_bytes) == (2_499, 1, 3 * 2_499)
        main.write([entry("left")])
        assert [one.path for one in repo.diff("main@", "main").items] == ["left"]
        assert repo.list("main", limit=1).items[0].path == "left"
        reset = main.reset(prefix="le")
        journal.wait(reset, timeout_s=WAIT_S)
        assert (main.info().staged_events, main.info().head) == (0, again.id), "nothing else was staged"
        main.write([entry("left")])
        reverted = [main.reset(), main.revert(first.id, expected_head=again.id), dev.drop(expected_head=first.id)]
        assert [type(one.outcome(WAIT_S)).__name__ for one in reverted] == ["Accepted"] * 3
        journal.wait(reverted[-1], timeout_s=WAIT_S)
        assert [(one.name, one.head, one.staged_events) for one in repo.branches()] == [("main", first.id, 0)]
        assert [one.id for one in repo.log(again.id).items] == [again.id, second.id, first.id]
        assert repo.commit("main").message == "first load"
        [info] = [one for one in journal.repositories.list() if one.name == "py-lake"]
        assert (info.default_branch, info.storage_namespace, info.members) == ("main", "s3://b", 1)
        with pytest.raises(InputError, match="name must match"):
            journal.repositories["No Name"]


def test_the_same_typed(installation: Installation) -> None:
    def told(*words: str, **options: Any) -> Any:
        return said(installation, "repo", *words, **options)

    assert told("create", "typed-lake", "--storage", "s3://t")["outcome"] == "accepted"
    lines = "".join(json.dumps(entry(f"a/{number}")) + "\n" for number in range(3))
    assert told("write", "typed-lake", "main", "-", stdin=lines)["outcome"] == "accepted"
    first = told("commit", "typed-lake", "main", "-m", "first", "--metadata", "by=me", "--actor", "carol")
    assert (first["message"], first["metadata"], first["actor"]) == ("first", {"by": "me"}, "carol")
    assert told("branch", "typed-lake", "dev", "--at", first["id"][:8])["outcome"] == "accepted"
    refused = told("branch", "typed-lake", "dev", code=1)
    assert (refused["outcome"], refused["reason"]) == ("rejected", "exists")
    assert told("rm", "typed-lake", "dev", "a/1", "a/2")["outcome"] == "accepted"
    assert [one["path"] for one in told("ls", "typed-lake", "dev", "a/")["items"]] == ["a/0"]
    assert told("ls", "typed-lake", "dev")["items"] == [{"type": "prefix", "path": "a/"}]
    assert told("get", "typed-lake", "main", "a/1")["checksum"] == "c1"
    assert [one["change"] for one in told("diff", "typed-lake", "dev@", "dev")["items"]] == ["removed", "removed"]
    assert "a/1" in installation.metajournal("repo", "diff", "typed-lake", "main", "dev").stdout
    assert "2 paths in 1 event\n" in installation.metajournal("repo", "branches", "typed-lake").stdout
    second = told("commit", "typed-lake", "dev", "-m", "fewer")
    page = told("log", "typed-lake", "dev", "--limit", "1")
    assert [one["id"] for one in page["commits"]] == [second["id"]]
    page = told("log", "typed-lake", "dev", "--before", str(page["before"]))
    assert ([one["id"] for one in page["commits"]], page["before"]) == ([first["id"]], None)
    assert [(one["name"], one["head"]) for one in told("branches", "typed-lake")] == [
        ("dev", second["id"]), ("main", first["id"])
    ]  # fmt: skip
    drawn = installation.metajournal("repo", "log", "typed-lake", "dev").stdout
    assert f"{second['id'][:12]}" in drawn
    assert [one["id"] for one in told("log", "typed-lake")["commits"]] == [first["id"]]  # of the default branch
    missing = installation.metajournal("repo", "get", "typed-lake", "main", "a/9")
    assert "typed-lake has no object a/9 at main." in missing.stderr
    wrong = installation.metajournal("repo", "write", "typed-lake", "main", "-", stdin='{"path": ""}\n')
    assert wrong.returncode != 0
    assert "line 1" in wrong.stderr
    twice = "".join(json.dumps(entry(f"b/{number % 1_100}")) + "\n" for number in range(1_101))
    for word, lines in (("write", twice), ("rm", "b\n" * 1_100 + "x" * 2_000 + "\n")):
        wrong = installation.metajournal("repo", word, "typed-lake", "main", "-", stdin=lines)
        assert wrong.returncode != 0
        assert "line 1101" in wrong.stderr
    assert "nothing-staged" in installation.metajournal("repo", "commit", "typed-lake", "main", "-m", "x").stderr
    assert told("register", "typed-lake", "a/0")["outcome"] == "accepted"
    assert "typed-lake" in [one["name"] for one in told("list")]
    assert told("delete", "typed-lake")["outcome"] == "accepted"


def test_paths_of_any_characters_are_told_as_they_are_and_shown_without_harm(installation: Installation) -> None:
    paths = sorted(
        ["esc\x1b[2J", "bidi\u202egpj.exe", "two\nlines", "quo\"te's", "[red]markup", "tab\tstop", "c1\x9b1m"]
    )

    def shown(*words: str) -> str:
        return installation.metajournal("repo", *words).stdout

    said(installation, "repo", "create", "evil-lake", "--storage", "s3://e")
    lines = "".join(json.dumps(entry(path)) + "\n" for path in paths)
    said(installation, "repo", "write", "evil-lake", "main", "-", stdin=lines)
    said(installation, "repo", "commit", "evil-lake", "main", "-m", "evil \x1b[2J")
    assert [one["path"] for one in said(installation, "repo", "ls", "evil-lake", "main")["items"]] == paths
    assert said(installation, "repo", "get", "evil-lake", "main", paths[0])["path"] == paths[0]
    said(installation, "repo", "rm", "evil-lake", "main", *paths)
    for told in (
        shown("ls", "evil-lake", "main@"), shown("diff", "evil-lake", "main@", "main"),
        "".join(shown("get", "evil-lake", "main@", path) for path in paths),
    ):  # fmt: skip
        assert not {*told} & {"\x1b", "\u202e", "\x9b", "\t"}
        for part in (
            "esc\\x1b[2J",
            "bidi\\x202egpj.exe",
            "two\\nlines",
            "tab\\tstop",
            "quo\"te's",
            "[red]markup",
            "c1\\x9b1m",
        ):
            assert part in told
    assert "evil \\x1b[2J" in shown("log", "evil-lake", "main")
    refused = said(installation, "repo", "get", "evil-lake", "main", paths[0], code=1)["error"]
    assert refused["code"] == "unknown-entity"


def test_branches_are_merged_from_python_and_typed(installation: Installation) -> None:
    """Beside a stream that makes what merges contain: conflicts with a merge in the history are seen, too."""
    with Journal.connect(installation.settings) as journal:
        repo = journal.repositories.create("merge-lake", storage_namespace="s3://m", timeout_s=WAIT_S)
        main, dev = repo.branch("main"), repo.branch("dev")
        main.write([entry("a"), entry("b")])
        first = main.commit("first", timeout_s=WAIT_S)
        dev.create(first.id)
        dev.write([entry("a", checksum="c2"), entry("c")])
        on_dev = dev.commit("dev", timeout_s=WAIT_S)
        with repo.transaction("main", "in one go", timeout_s=WAIT_S) as tx:
            tx.write([entry("a", checksum="c3"), entry("d")])
            tx.delete(["b"])
        assert tx.merged is not None
        with pytest.raises(MergeConflictError) as clash:
            dev.merge_into("main", timeout_s=WAIT_S)
        assert [one.path for one in clash.value.conflicting] == ["a"]
        assert [one.path for one in repo.list("main").objects] == ["a", "d"]
        assert [one.name for one in repo.branches(transactions=True)] == ["dev", "main"]
    drawn = installation.metajournal("repo", "merge", "merge-lake", "dev", "main")
    assert drawn.returncode == 1
    assert "merge-conflict" in drawn.stderr
    assert drawn.stdout.split()[:5] == ["path", "base", "destination", "source", "a"]
    refused = said(installation, "repo", "merge", "merge-lake", "dev", "main", code=1)["error"]
    assert (refused["code"], refused["conflicts"], refused["conflicting"][0]["path"]) == ("merge-conflict", 1, "a")
    assert (refused["source_head"], refused["destination_head"]) == (on_dev.id, tx.merged.id)
    lines = json.dumps(entry("a", checksum="c4")) + "\n"
    said(installation, "repo", "write", "merge-lake", "main", "-", stdin=lines)
    made = said(
        installation, "repo", "merge", "merge-lake", "dev", "main", "--resolve", "-m", "both", "--actor", "carol"
    )
    assert (made["parents"], made["message"], made["actor"]) == ([tx.merged.id, on_dev.id], "both", "carol")
    listed = said(installation, "repo", "ls", "merge-lake", "main")["items"]
    assert {one["path"]: one["checksum"] for one in listed} == {"a": "c4", "c": "c1", "d": "c1"}
    again = installation.metajournal("repo", "merge", "merge-lake", "dev", "main")
    assert "nothing-to-merge" in again.stderr
