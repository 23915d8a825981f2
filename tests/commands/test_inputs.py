"""Arguments and standard input that are no text are refused, whatever the locale; so are outputs that are closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from metajournal.cli import main
from metajournal.schemas.errors import EventTooLargeError
from metajournal.terminal.options import Options
from tests.producers.test_openlineage import EVENT

NOBODY = "kafka.bootstrap.servers=127.0.0.1:1"
NO_TEXT = os.fsdecode(b"a\xff")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def metajournal(
    *words: str, stdin: bytes = b"", closed: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, some of its descriptors closed by the shell."""
    command = [sys.executable, "-m", "metajournal.cli", "--set", NOBODY, *words]
    closing = ["sh", "-c", f'exec "$@" {closed}', "sh"] if closed else []
    return subprocess.run(
        [*closing, *command], input=stdin, capture_output=True, env={**os.environ, **(env or {})}, check=False
    )


@pytest.mark.parametrize(
    "words",
    [
        ("files", "--work-id", NO_TEXT),
        ("files", "latest", NO_TEXT, "a"),
        ("files", "--where", NO_TEXT, "--from", "0", "--to", "1"),
        ("emit", "TagsAdded", "dataset:a/b", "--tag", NO_TEXT),
        ("show", NO_TEXT),
    ],
)
def test_an_argument_that_is_no_text_is_refused_by_every_command(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error[usage]: Argument {words.index(NO_TEXT) + 1} cannot be read as UTF-8")


@pytest.mark.parametrize("env", [{}, ASCII], ids=["as-it-is", "ascii"])
def test_a_line_that_is_no_text_is_refused_with_its_number(env: dict[str, str]) -> None:
    done = metajournal("files", "record", "-", "--json", stdin=b'\n{"url": "\xff"}\n', env=env)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"], error["message"]) == (
        2, "bad-input", "Line 2 is not JSON: it is not UTF-8."
    )  # fmt: skip


class _Journal:
    """A journal that takes events, but not too many."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __enter__(self) -> _Journal:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def emit(self, event: Any, **_: Any) -> None:
        if len(self.events) == 1:
            raise EventTooLargeError(2, 1, "facets")
        self.events.append(event)

    def flush(self) -> None:
        return


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> _Journal:
    made = _Journal()
    monkeypatch.setattr(Options, "journal", lambda _: made)
    return made


def test_run_events_that_are_no_text_or_too_large_are_told_and_the_rest_goes_on(journal: _Journal) -> None:
    lines = b"\xff\n" + b"\n".join([json.dumps(EVENT).encode()] * 2)
    result = CliRunner().invoke(main, ["lineage", "import", "-", "--json"], input=lines)
    told = json.loads(result.stdout)
    assert (result.exit_code, told["facts"]) == (1, len(journal.events))
    assert told["refused"][0] == {"line": 1, "message": "it is not JSON: it is not UTF-8"}
    assert "the limit is" in told["refused"][1]["message"]


@pytest.mark.thorough
@pytest.mark.parametrize("words", [("emit", "-"), ("emit", "--unit", "-"), ("files", "record", "-")])
def test_a_closed_standard_input_is_told(words: tuple[str, ...]) -> None:
    done = metajournal(*words, closed="<&-")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, b"error[usage]: Standard input is closed.")


def test_nothing_is_done_where_standard_output_is_closed() -> None:
    done = metajournal("config", "show", closed=">&-")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, b"error[usage]: Standard output is closed.")


@pytest.mark.thorough
def test_a_closed_standard_error_changes_nothing_but_what_stands_there() -> None:
    assert metajournal("config", "show", closed="2>&-").returncode == 0
    assert metajournal("shwo", closed="2>&-").returncode == 2
