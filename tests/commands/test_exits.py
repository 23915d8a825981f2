"""How commands end: exit codes, and errors as a code, one sentence and the next step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from metajournal.schemas.errors import (
    ConfigError,
    Fault,
    InvalidEventError,
    KafkaUnavailableError,
    MetajournalError,
    NotYetVisibleError,
    OutcomeUnknownError,
    SearchUnavailableError,
    StreamError,
    UnknownEntityError,
)
from metajournal.schemas.settings import LogSettings
from metajournal.terminal.exits import ended
from metajournal.terminal.logs import start_logging


def raised(error: BaseException, *, as_json: bool = False) -> int:
    def command() -> None:
        raise error

    return ended(command, as_json=as_json)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaUnavailableError("away"), 3),
        (SearchUnavailableError("away"), 3),
        (MetajournalError("no", code="not-allowed"), 4),
        (KafkaUnavailableError("no", code="not-allowed"), 4),
        (UnknownEntityError("dataset:a/b"), 1),
        (NotYetVisibleError({("t", 0): 3}), 1),
        (OutcomeUnknownError("?"), 1),
        (StreamError("broken"), 1),
        (ConfigError("wrong"), 2),
        (InvalidEventError([Fault("tags", "must not be empty")]), 2),
        (ValueError("a defect"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raised(error) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.out == ""
    assert bool(said.err) == (code != 141)


@pytest.mark.parametrize("as_json", [False, True])
def test_who_interrupts_a_command_is_told_so_and_what_is_left_to_do(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raised(KeyboardInterrupt(), as_json=as_json) == 130
    assert capsys.readouterr() == ("", "Interrupted.\n")
    noted = KeyboardInterrupt()
    noted.add_note("  Run it again: it goes on \x1b[2Jwhere it was.")
    assert raised(noted, as_json=as_json) == 130
    assert capsys.readouterr() == ("", "Interrupted. Run it again: it goes on \\x1b[2Jwhere it was.\n")


def test_in_a_log_of_json_lines_an_interruption_is_a_line_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert start_logging(LogSettings("json", "info"))

    def command() -> None:
        raise KeyboardInterrupt

    assert ended(command, as_json=False, logged=lambda: True) == 130
    [line] = capsys.readouterr().err.splitlines()
    assert (json.loads(line)["message"], json.loads(line)["code"]) == ("Interrupted.", "interrupted")


def test_a_defect_names_itself_without_a_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert raised(ValueError("first line\nsecond line")) == 1
    said = capsys.readouterr().err
    assert said.startswith("error[internal]: ValueError: first line\n")
    assert "METAJOURNAL_TRACE=1" in said


def test_errors_carry_their_data_into_json(capsys: pytest.CaptureFixture[str]) -> None:
    raised(NotYetVisibleError({("topic", 2): 3}), as_json=True)
    assert json.loads(capsys.readouterr().out)["error"]["behind"] == {"topic/2": 3}


SAYING = {
    "help": "import click; click.echo('x' * 9)",
    "json": "from metajournal.terminal.rendering import print_json; print_json('x' * 20_000)",
    "text": "from metajournal.terminal.rendering import console; console().print('x' * 20_000)",
    "late": "import sys; sys.stdout.write('x' * 20)",
}
"""Ways in which commands print."""


def says(how: str, *, as_json: bool = False) -> list[str]:
    """A process that prints like that and ends as a command does."""
    script = f"""
import sys
from metajournal.terminal.exits import ended
def run():
    {SAYING[how]}
sys.exit(ended(run, as_json={as_json}))"""
    return [sys.executable, "-c", script]


@pytest.mark.parametrize("how", SAYING)
def test_a_reader_that_goes_away_is_no_error(how: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(says(how), stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.thorough
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("how", SAYING)
def test_output_that_cannot_be_written_is_told_as_that(how: str, as_json: bool) -> None:
    with Path("/dev/full").open("wb") as full:
        command, buffered = says(how, as_json=as_json), {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error[output-not-written]: The output could not be written: No space left")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["search", "--help"]])
def test_help_that_cannot_be_written_is_told_as_that(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "metajournal.cli", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr[:26]) == (1, "error[output-not-written]:")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_where_standard_error_takes_nothing_either_the_exit_code_tells(unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        command, own = [sys.executable, "-m", "metajournal.cli", "shwo"], {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        assert subprocess.run(command, stdout=full, stderr=full, env=own, check=False).returncode == 2


@pytest.mark.parametrize("module", ["click", "metajournal.terminal.rendering", "metajournal.domains.files.commands"])
def test_who_interrupts_while_python_reads_the_commands_meets_no_stack_trace(module: str) -> None:
    script = f"""
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from metajournal.cli import program
program()"""
    done = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"Interrupted.\n")


@pytest.mark.parametrize("words", [[], ["config"]])
def test_a_group_without_a_command_shows_its_help(words: list[str]) -> None:
    command = [sys.executable, "-m", "metajournal.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: ")
    assert "Commands:" in done.stderr
    assert "error[" not in done.stderr


def test_a_settings_file_that_is_not_there_is_called_by_the_name_it_was_given() -> None:
    command = [sys.executable, "-m", "metajournal.cli", "--config", "no/such.toml", "config", "show"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error[config]: --config names no/such.toml" in done.stderr


def test_the_stack_trace_of_a_program_ends_with_what_to_do() -> None:
    told = traceback.format_exception(StreamError("broken", hint="Mend it."))
    assert "".join(told).endswith("StreamError: broken\n  next: Mend it.\n")
