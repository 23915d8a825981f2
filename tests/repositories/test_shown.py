"""What commands of repositories print of text from outside: a line is exactly the text that it stands for, or missing;
a word that is to be typed again gives a shell exactly that text; and what may still change is said."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from metajournal.cli import main
from metajournal.domains.repositories import commands, garbage_commands, http, read_commands
from metajournal.domains.repositories.answers import (
    AnswerList,
    BranchInfo,
    CommitInfo,
    DiffPage,
    ListPage,
    LogPage,
    ObjectInfo,
    RepositoryInfo,
)
from metajournal.domains.repositories.garbage import Block
from metajournal.domains.repositories.questions import NOT_FINAL
from metajournal.domains.repositories.urns import repository_urn
from metajournal.schemas.endpoints import Answer, Request, Rights
from metajournal.terminal import here
from metajournal.terminal.options import Options
from metajournal.terminal.rendering import is_plain, shell_word
from tests.shapes import check_json

HOSTILE = [
    "s3://b/x\ns3://b/live", "s3://b/tab\tstop", "s3://b/back\rover", "s3://b/\x1b[2J", "s3://b/trailing ", " s3://b/lead",
    "s3://b/\u2028line", "s3://b/\x85next", "s3://b/bidi\u202egpj", "s3://b/c1\x9b1m",
]  # fmt: skip
PLAIN = ["s3://b/ä", "s3://b/a b", "s3://b/back\\nslash", "s3://b/[red]x", "s3://b/'q'", "metajournal repo list"]
BASH = shutil.which("bash")


class Plan:
    """What nothing needs."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses

    def addresses(self) -> Iterator[Block]:
        return (Block(one, 1) for one in self._addresses)


@pytest.fixture
def _rewriting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in messages are rewritten, as in the process of a command."""
    monkeypatch.setattr(here, "_commands", None)
    here.rewrite_commands({"repo"})


@pytest.mark.usefixtures("_rewriting")
def test_the_list_of_unused_addresses_has_exactly_these_on_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    plan: Any = Plan([*HOSTILE, *PLAIN])
    assert garbage_commands._told(plan, "addresses", False) == 0
    out, err = capsys.readouterr()
    assert out.split("\n") == [*PLAIN, ""]
    assert f"{len(HOSTILE)}. Use --json" in err
    assert garbage_commands._told(plan, "addresses", True) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["address"] for line in out.split("\n")[:-1]] == [*HOSTILE, *PLAIN]
    assert err == ""


@pytest.mark.parametrize(
    ("rows", "commits", "line"),
    [(1, 1, "l1  1 path  named by 1 reachable commit"), (2, 0, "l1  2 paths  named by 0 reachable commits")],
)
def test_a_layer_of_one_path_that_one_commit_names_has_one(rows: int, commits: int, line: str) -> None:
    assert garbage_commands._line("layers", SimpleNamespace(layer="l1", rows=rows, commits=commits)) == line


def test_an_address_that_the_output_cannot_encode_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii", errors="backslashreplace"))
    assert [is_plain(one) for one in ("s3://b/a", "s3://b/ä")] == [True, False]
    assert shell_word("ä'") == "$'\\303\\244\\''"


@pytest.mark.skipif(BASH is None, reason="needs bash")
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_a_shell_reads_a_word_as_the_text_and_nothing_of_it_moves_the_cursor(text: str) -> None:
    word = shell_word(text)
    assert word.isprintable()
    assert BASH is not None
    done = subprocess.run([BASH, "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout.decode() == text


@pytest.mark.usefixtures("_rewriting")
@pytest.mark.parametrize(
    ("after", "word"),
    [
        ("raw/a.csv", "raw/a.csv"), ("it's", "'it'\"'\"'s'"), ("esc\x1b[2J", "$'esc\\033[2J'"),
        ("two\nlines", "$'two\\012lines'"), ("tab\tstop'", "$'tab\\011stop\\''"),
        ("\u202e\\", "$'\\342\\200\\256\\\\'"),
        ("metajournal repo list", "'metajournal repo list'"), ("ends ", "'ends '"),
    ],
)  # fmt: skip
def test_what_continues_a_listing_can_be_typed(capsys: pytest.CaptureFixture[str], after: str, word: str) -> None:
    read_commands._more(after)
    assert capsys.readouterr().out == f"more: --after {word}\n"


class Asked:
    """A repository that gives one answer to every question.

    Args:
        final: whether no later event can change it.
    """

    def __init__(self, final: bool) -> None:
        self.final = final

    def list(self, ref: str = "", **asked: Any) -> Any:
        if ref:
            return ListPage((), None, self.final)
        return AnswerList([RepositoryInfo("repo:r", "r", "main", "s3://b", 1, 1, self.final)], final=self.final)

    def diff(self, left: str, right: str, **asked: Any) -> DiffPage:
        return DiffPage((), None, self.final)

    def get(self, ref: str, path: str, **asked: Any) -> ObjectInfo:
        return ObjectInfo(path, 1, "c", "s3://b/1", (), None, {}, None, "00", self.final)

    def info(self, **asked: Any) -> RepositoryInfo:
        return RepositoryInfo("repo:r", "r", "main", "s3://b", 1, 1, self.final)

    def log(self, ref: str, **asked: Any) -> LogPage:
        commit = CommitInfo("commit:r/1", "1", "main", (), None, "m", {}, None, 1, 1, self.final)
        return LogPage((commit,), None, self.final)

    def branches(self, **asked: Any) -> AnswerList[BranchInfo]:
        return AnswerList([BranchInfo("branch:r/main", "main", None, 0, 0, "00", 1, self.final)], final=self.final)


class Connected:
    """A journal with such repositories."""

    def __init__(self, final: bool) -> None:
        self.repositories = Asked(final)


def typed(monkeypatch: pytest.MonkeyPatch, final: bool, *words: str) -> Result:
    @contextmanager
    def journal(_: Options) -> Iterator[Any]:
        yield Connected(final)

    monkeypatch.setattr(Options, "journal", journal)
    for module in (commands, read_commands):
        monkeypatch.setattr(module, "repository_named", lambda journal, _: journal.repositories)
    told = CliRunner().invoke(main, ["repo", *words])
    assert told.exit_code == 0, told.output
    check_json(["repo", *words], told.stdout)
    return told


def finals(value: Any) -> list[Any]:
    """What an answer, or each of a list, says of whether it is final."""
    return [one.get("final") for one in (value if isinstance(value, list) else [value])]


@pytest.mark.parametrize(
    "words",
    [
        ("list",), ("branches", "r"), ("log", "r", "main"), ("ls", "r", "main"), ("get", "r", "main", "a"),
        ("diff", "r", "main@", "main"),
    ],
)  # fmt: skip
def test_an_answer_as_at_a_time_says_whether_it_is_final(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    then = (*words, "--as-at", "2026-01-31T12:00Z")
    for final in (True, False):
        assert finals(json.loads(typed(monkeypatch, final, *then, "--json").stdout)) == [final]
        assert (NOT_FINAL in " ".join(typed(monkeypatch, final, *then).stderr.split())) == (not final)
        assert finals(json.loads(typed(monkeypatch, final, *words, "--json").stdout)) == [None]
        assert typed(monkeypatch, final, *words).stderr == ""


@pytest.mark.parametrize("words", [("log", "r"), ("ls", "r"), ("get", "r"), ("diff", "r", "main")])
def test_so_does_one_of_a_branch_as_at_a_time(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    then = (*words, "main@2026-01-31T12:00Z~1", *(["a"] if words[0] == "get" else []))
    assert finals(json.loads(typed(monkeypatch, False, *then, "--json").stdout)) == [False]
    assert NOT_FINAL in " ".join(typed(monkeypatch, False, *then).stderr.split())


class EveryRight(Rights):
    """Whoever has it may do anything."""

    grants = (("admin", "*"),)

    def may(self, action: str, urn: Any) -> bool:
        return True

    def whole(self, action: str, urn: Any) -> str:
        return action

    def anywhere(self, action: str) -> bool:
        return True

    def everywhere(self, action: str) -> bool:
        return True

    def within(self, action: str) -> Any:
        return ()

    def covers(self, other: Any) -> bool:
        return True


def answered(monkeypatch: pytest.MonkeyPatch, row: Any, final: bool, query: dict[str, str]) -> Answer:
    """What a row of HTTP answers where every answer is final, or is not."""
    asked: Any = Asked(final)
    journal: Any = Connected(final)
    queries: Any = type("Queried", (), {"repositories": lambda self, tenant, as_at: asked.list()})()
    monkeypatch.setattr(http, "queries_of", lambda _: queries)
    monkeypatch.setattr(http, "_asked", lambda journal, request: asked)
    request = Request({"r": "r"}, query, None, "default", "me", 0, urn=repository_urn("r"), rights=EveryRight())
    answer: Answer = row(journal, request)
    return answer


@pytest.mark.parametrize(
    ("row", "refs"),
    [
        (http.repositories_of, ()), (http.repository_of, ()), (http.branches_of, ()), (http.log_of, ("ref",)),
        (http.objects_of, ("ref",)), (http.diff_of, ("left", "right")),
    ],
)  # fmt: skip
def test_over_http_a_header_says_it_and_an_answer_that_is_an_object(
    monkeypatch: pytest.MonkeyPatch, row: Any, refs: tuple[str, ...]
) -> None:
    now = dict.fromkeys(refs, "main")
    of_time = [now | {name: "main@2026-01-31T12:00Z"} for name in refs]
    for final in (True, False):
        for query in ({**now, "as_at": "2026-01-31T12:00Z"}, *of_time):
            answer = answered(monkeypatch, row, final, query)
            assert answer.headers == {"Metajournal-Final": str(final).lower()}
            assert isinstance(answer.value, list) or answer.value["final"] == final
        answer = answered(monkeypatch, row, final, now)
        assert answer.headers == {}
        assert isinstance(answer.value, list) or "final" not in answer.value
