"""What git is asked, what it is not, and what an import refuses before anything is sent."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from metajournal.domains.repositories.git_history import git as git_module
from metajournal.domains.repositories.git_history import running
from metajournal.domains.repositories.git_history.known import NOTHING, Present, PresentBranch
from metajournal.domains.repositories.git_history.objects import Commit, Leaf, Signature, commit_of
from metajournal.domains.repositories.git_history.reading import History
from metajournal.domains.repositories.git_history.running import chosen
from metajournal.domains.repositories.git_history.survey import Survey
from metajournal.schemas.errors import InputError, UnavailableError
from tests.repositories import git_histories as gits
from tests.repositories.git_imports import NAME, GitRuns, Memory, imported

NOBODY = Signature("", None, "")
FILE = {"a": ("100644", "one")}


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """Two commits on main."""
    writer = gits.Writer()
    writer.commit(FILE | {"sub": ("160000", "5" * 40)})
    writer.commit({"b": ("100644", "two"), "sub": ("160000", "6" * 40)}, [0])
    writer.save(tmp_path / "git", {"main": 1})
    return tmp_path / "git"


def refused(folder: Path, *names: str) -> InputError:
    """Why an import is refused, and that nothing was sent."""
    memory = Memory()
    with pytest.raises(InputError) as caught:
        imported(folder, memory, names=names)
    assert memory.events == []
    return caught.value


def test_a_merge_of_three_is_refused_by_its_name(tmp_path: Path) -> None:
    writer = gits.Writer()
    sides = [writer.commit({f"{number}": ("100644", "x")}) for number in range(3)]
    writer.commit(FILE, sides)
    writer.save(tmp_path, {"main": 3, "side": 1})
    error = refused(tmp_path)
    assert (error.code, error.data["commits"]) == ("octopus-merge", [gits.heads(tmp_path)["main"]])
    assert error.message.startswith("1 commit has more than two parents: ")
    assert imported(tmp_path, Memory(), names=["side"]).counts.commits == 1


def test_the_branches_with_a_merge_of_three_are_named_and_those_without_one(tmp_path: Path) -> None:
    """Of all of git's branches, also where only one was to be imported."""
    writer = gits.Writer()
    sides = [writer.commit({f"{number}": ("100644", "x")}) for number in range(3)]
    octopus = writer.commit(FILE, sides)
    above = writer.commit({"z": ("100644", "z")}, [octopus])
    writer.save(tmp_path, {"main": above, "at-it": octopus, "side": 1, "other": 2})
    for names in ((), ("main",)):
        error = refused(tmp_path, *names)
        assert (error.data["branches"], error.data["importable"]) == (["at-it", "main"], ["other", "side"])
        assert "Branches of git that contain one: at-it, main. Nothing was sent." in error.message
        assert error.hint.endswith("by --branch. There are: other, side")


def test_where_every_branch_has_a_merge_of_three_none_is_named(tmp_path: Path) -> None:
    writer = gits.Writer()
    sides = [writer.commit({f"{number}": ("100644", "x")}) for number in range(3)]
    writer.save(tmp_path, {"main": writer.commit(FILE, sides)})
    assert refused(tmp_path).hint.endswith("There are: none")


def test_one_path_that_cannot_be_is_one(tmp_path: Path) -> None:
    writer = gits.Writer()
    writer.save(tmp_path, {"main": writer.commit({"d/" + "x" * 1024: ("100644", "y")})})
    assert refused(tmp_path).message.startswith("1 path cannot be in a repository: ")


@pytest.mark.parametrize("where", ["_present", "_send"])
def test_who_interrupts_an_import_learns_that_it_goes_on(
    line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    runs = GitRuns(tmp_path, monkeypatch)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running.GitImport, where, interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        runs.run(line)
    assert caught.value.__notes__ == ["Run it again: it goes on where it was."]


def test_paths_that_no_repository_can_have_are_refused_all_at_once_or_left_out(tmp_path: Path) -> None:
    writer = gits.Writer()
    bad = {"latin-\udce4": ("100644", "x"), "d/" + "x" * 1024: ("100644", "y")}
    writer.commit(FILE | bad)
    writer.commit(FILE, [0])
    writer.save(tmp_path, {"main": 1})
    error = refused(tmp_path)
    assert (error.code, len(error.data["paths"])) == ("bad-paths", 2)
    assert "is not UTF-8 (commit " in error.message
    assert "takes 1,026 bytes, the limit is 1,024" in error.message
    assert error.message.isascii()
    memory = Memory()
    importer = imported(tmp_path, memory, omits_paths=True)
    assert (importer.counts.written, importer.counts.deleted, importer.counts.commits) == (1, 0, 2)
    assert memory.events[-1][0].allow_empty


@pytest.mark.thorough
def test_a_path_as_long_as_can_be_and_many_of_them_make_events_that_fit(tmp_path: Path) -> None:
    writer = gits.Writer()
    writer.commit({f"{number:04}" + "ü" * 120 + "/" + "x" * 779: ("100644", "x") for number in range(1_100)})
    writer.commit({}, [0])
    writer.save(tmp_path, {"main": 1})
    memory = Memory()
    counts = imported(tmp_path, memory).counts
    assert (counts.written, counts.deleted, counts.events) == (1_100, 1_100, 8)


@pytest.mark.parametrize("kind", ["shallow", "partial", "grafted"])
def test_a_clone_that_has_not_all_of_its_history_is_refused(line: Path, tmp_path: Path, kind: str) -> None:
    copy = tmp_path / "copy"
    source = line.as_uri()
    gits.git(line, "config", "uploadpack.allowFilter", "true")
    options = {"shallow": ["--depth=1"], "partial": ["--filter=blob:none"], "grafted": []}[kind]
    gits.git(tmp_path, "clone", "--quiet", "--bare", *options, source, str(copy))
    if kind == "grafted":
        (copy / "info" / "grafts").write_text(gits.heads(line)["main"] + "\n")
    error = refused(copy)
    assert (error.code, kind[:5] in error.message) == ("incomplete-history", True)


def test_what_is_no_repository_or_has_no_commit_is_said(tmp_path: Path) -> None:
    assert refused(tmp_path).code == "no-git-repository"
    assert refused(tmp_path / "nothing").code == "no-git-repository"
    gits.git(tmp_path, "init", "--quiet")
    assert refused(tmp_path).code == "no-commits"


def test_a_branch_that_git_does_not_have_is_said(line: Path) -> None:
    error = refused(line, "mian")
    assert (error.code, error.hint) == ("unknown-branch", "Its branches are: main")


def test_a_machine_without_git_is_told_so(line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnavailableError, match="no executable `git`"):
        History(line)


def test_no_setting_and_no_replacement_changes_what_is_read(line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = gits.heads(line)["main"]
    tree = gits.git(line, "rev-parse", "main~1^{tree}").decode().strip()
    gits.git(line, "replace", head, gits.commit_tree(line, tree, [], "another"))
    settings = ("diff.renames=copies", "core.quotePath=true", "core.abbrev=4", "diff.ignoreSubmodules=all")
    for setting in (*settings, "submodule.sub.path=sub", "submodule.sub.ignore=all"):
        gits.git(line, "config", *setting.split("="))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "x")
    with History(line) as history:
        nodes = [*history.graph([head])]
        assert (len(nodes), nodes[-1].id, history.commit(head).message) == (2, head, "commit 1")
        assert {one.path for one in history.changes(head, nodes[0].id)} == {"a", "b", "sub"}


def test_git_reads_what_another_user_owns_where_this_one_allows_it(
    line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(git_module._SETTINGS, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    with pytest.raises(InputError, match="dubious ownership"):
        History(line)
    (tmp_path / "config").write_text(f"[safe]\n\tdirectory = {line}\n\tdirectory = /elsewhere\n")
    with History(line) as history:
        assert [*history.branches()] == ["main"]


def test_trusted_folders_are_in_a_file_of_settings_however_they_are_called(
    line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 2.38 git takes them from such files alone."""
    folders = ["/plain", "", ' two "words" ', "back\\slash; # no comment", "of\ntwo\tlines", "*", "/ü"]
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for folder in folders:
        gits.git(tmp_path, "config", "--file", "config", "--add", "safe.directory", folder)
    with History(line) as history:
        said = history.git.answer("config", "--global", "--null", "--get-all", "safe.directory")
        assert said.decode().split("\0")[:-1] == folders
        written = Path(history.git.answer("config", "--global", "--show-origin", "--list").decode()[5:].split("\t")[0])
        assert written.stat().st_mode & 0o777 == 0o600
    assert not written.exists()


def test_no_file_of_settings_is_left_by_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with pytest.raises(InputError):
        History(tmp_path)
    assert [*(tmp_path / "temporary").iterdir()] == []


@pytest.mark.thorough
def test_a_repository_of_another_history_is_refused_unless_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in "ab":
        writer = gits.Writer()
        writer.commit({"name": ("100644", folder)}, message=folder)
        writer.commit({"name": ("100644", folder * 2)}, [0])
        writer.save(tmp_path / folder / "docs", {"main": 1})
    first, second = tmp_path / "a" / "docs", tmp_path / "b" / "docs"
    runs = GitRuns(tmp_path, monkeypatch)
    runs.run(first)
    events = len(runs.memory.events)
    for dry in (False, True):
        with pytest.raises(InputError) as caught:
            runs.run(second, dry=dry)
        assert (caught.value.code, caught.value.data) == ("other-history", {"storage_namespace": first.as_uri()})
        assert "was made from another history, that of file:///" in caught.value.message
        assert "--repository NAME" in caught.value.hint
    assert len(runs.memory.events) == events
    done = runs.run(second, other_history=True)
    assert (done.counts.commits, done.elsewhere) == (2, [])
    assert runs.present_branches("default", NAME)["main"].head == done.branches["main"]["commit"]


@pytest.mark.thorough
def test_a_history_that_keeps_a_commit_is_no_other_one(
    line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = GitRuns(tmp_path, monkeypatch)
    runs.run(line)
    tree = gits.git(line, "rev-parse", "main^{tree}").decode().strip()
    first = gits.git(line, "rev-parse", "main~1").decode().strip()
    gits.git(line, "update-ref", "refs/heads/main", gits.commit_tree(line, tree, [first], "forced"))
    assert runs.run(line).counts.commits == 1
    gits.git(line, "update-ref", "refs/heads/pages", gits.commit_tree(line, tree, [], "of another beginning"))
    assert runs.run(line, "pages").counts.commits == 1


def test_ids_that_are_none_are_not_asked_of_git(line: Path) -> None:
    head = gits.heads(line)["main"]
    with History(line) as history:
        assert not history.has_any(["", "main", f"{head}\n{head}", head[:12], "ab" * 20, "cd" * 32])
        assert history.has_any([*(f"{number:040x}" for number in range(1_000)), head])
        assert history.commit(head).message == "commit 1"


def test_a_content_that_git_lacks_is_refused_before_anything_is_sent(line: Path) -> None:
    blob = gits.git(line, "rev-parse", "main:b").decode().strip()
    for objects in (line / ".git" / "objects" / "pack").iterdir():
        objects.rename(line / objects.name)
    for pack in line.glob("*.pack"):
        gits.git(line, "unpack-objects", "-q", given=pack.read_bytes())
    (line / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    error = refused(line)
    assert (error.code, error.data["object"]) == ("git-failed", blob)
    assert f"the content of 'b' in commit {gits.heads(line)['main'][:12]}. Nothing was sent." in error.message


def test_a_branch_at_a_tag_is_at_the_commit_that_it_names(line: Path) -> None:
    head, who = gits.heads(line)["main"], ("-c", "user.name=n", "-c", "user.email=e")
    gits.git(line, *who, "tag", "-m", "one", "one", head)
    gits.git(line, *who, "tag", "-m", "two", "two", "one")
    for name, named in {"tagged": "two", "tree": "main^{tree}"}.items():
        (line / ".git" / "refs" / "heads" / name).write_bytes(gits.git(line, "rev-parse", named))
    with History(line) as history:
        assert chosen(history, ["tagged", "main"]) == {"main": head, "tagged": head}
    error = refused(line)
    assert (error.code, error.data) == ("not-a-commit", {"branch": "tree"})
    assert imported(line, Memory(), names=["tagged"]).counts.commits == 2


def test_a_branch_that_somebody_has_committed_to_is_left_to_them(line: Path) -> None:
    memory = Memory()
    head = PresentBranch("ab" * 32, 0, "00" * 16)
    with pytest.raises(InputError) as caught:
        imported(line, memory, Present({"main": head}, (), 1))
    assert (caught.value.code, caught.value.data) == ("not-from-git", {"branch": "main", "head": "ab" * 32})
    assert memory.events == []


def test_more_branches_than_a_repository_takes_are_refused(line: Path) -> None:
    with History(line) as history:
        survey = Survey(history, dict.fromkeys(["main", "dev"], gits.heads(line)["main"]))
        full = Present({}, (), 9_998)
        assert survey.todo(full).commits == 2
        with pytest.raises(InputError, match="would have 10,001 branches and registered objects") as caught:
            survey.todo(full._replace(members=9_999))
    assert caught.value.code == "too-many"


def test_commits_that_are_not_on_a_branch_are_imported_where_they_are_checked_out(line: Path) -> None:
    first = gits.git(line, "rev-parse", "main~1").decode().strip()
    gits.git(line, "update-ref", "--no-deref", "HEAD", first)
    with History(line) as history:
        assert history.head() is None
        assert [*chosen(history)] == ["HEAD", "main"]
        assert chosen(history)["HEAD"] == first
    gits.git(line, "branch", "A", "main")
    with History(line) as history:
        assert [*chosen(history)] == ["HEAD", "A", "main"]


def test_the_branch_that_is_checked_out_comes_first(line: Path) -> None:
    gits.git(line, "branch", "a")
    with History(line) as history:
        assert [*chosen(history)] == ["main", "a"]
        assert [*chosen(history, ["a"])] == ["a"]


def test_branches_are_chosen_with_a_few_processes_of_git(line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        gits.git(line, "update-ref", f"refs/heads/b{number}", "main")
    with History(line) as history:
        asked: list[str] = []
        talk = history.git.talk

        def counted(*words: str) -> git_module.Talk:
            asked.append(words[0])
            return talk(*words)

        monkeypatch.setattr(history.git, "talk", counted)
        assert len(chosen(history)) == 51
        assert len(asked) <= 4


def test_sizes_are_those_of_contents_in_any_number(tmp_path: Path) -> None:
    writer = gits.Writer()
    writer.commit({f"{number}": ("100644", "x" * (number % 700)) for number in range(1_500)})
    writer.save(tmp_path, {"main": 0})
    with History(tmp_path) as history:
        changes = [*history.changes(gits.heads(tmp_path)["main"], None)]
        sizes = history.sizes([one.new for one in changes])
        assert {one.path: size for one, size in zip(changes, sizes, strict=True)} == {
            f"{number}": number % 700 for number in range(1_500)
        }
        assert history.sizes([None, Leaf("160000", "5" * 40)]) == [0, 0]
        with pytest.raises(InputError, match="does not have the object 5555"):
            history.sizes([Leaf("100644", "5" * 40)])


def test_a_damaged_repository_is_said_to_be(line: Path) -> None:
    tree = gits.git(line, "rev-parse", "main^{tree}").decode().strip()
    (line / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    error = refused(line)
    assert (error.code, "git diff-tree failed" in error.message) == ("git-failed", True)


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (
            b"tree 1\nauthor A <a> 5 +0100\ncommitter B <b> 6 +0000\ngpgsig x\n  y\n\nHi\n\nyou",
            Commit(Signature("A <a>", 5, "+0100"), Signature("B <b>", 6, "+0000"), "Hi\n\nyou"),
        ),
        (
            b"tree 1\nauthor \xc4 <a> 5 +0100\ncommitter nonsense\nencoding latin-1\n\n\xe4",
            Commit(Signature("Ä <a>", 5, "+0100"), Signature("nonsense", None, ""), "ä"),
        ),
        (
            b"author  <> -5 -0000\nencoding no-such\nencoding latin-1\n\n\xff",
            Commit(Signature(" <>", -5, "-0000"), NOBODY, "\ufffd"),
        ),
        (b"author A\nencoding unicode_escape\n\n\\ud800", Commit(Signature("A", None, ""), NOBODY, "?")),
        (b"", Commit(NOBODY, NOBODY, "")),
    ],
)  # fmt: skip
def test_a_commit_is_read_whatever_it_says(raw: bytes, read: Commit) -> None:
    assert commit_of(raw) == read


def test_a_survey_tells_how_far_it_is(line: Path) -> None:
    told: list[tuple[int, int]] = []
    with History(line) as history:
        survey = Survey(history, chosen(history), tell=lambda done, total: told.append((done, total)))
        survey.todo(NOTHING)
    assert told == [(1, 2), (2, 2)]
