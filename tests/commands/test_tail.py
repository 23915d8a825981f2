"""`metajournal tail`: a line for each change for people, a JSON value for programs, and a clean end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from metajournal.commands.tailing import fact, record_line, tail
from metajournal.consumers.records import Change
from metajournal.domains.repositories.tail_commands import tail as repo_tail
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import InputError
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.stack.home import SETTINGS_FILE, settings_text, write_private
from metajournal.terminal.following import since_point
from tests.consumers.wire import START, Event, Wire
from tests.installation import CLI, Installation
from tests.wait import eventually


@pytest.fixture
def here(settings: Settings, tmp_path: Path) -> Installation:
    """A folder whose commands use this test's topics."""
    ensure_topics(settings)
    write_private(tmp_path / SETTINGS_FILE, settings_text(settings))
    return Installation(tmp_path)


@pytest.fixture
def wire(settings: Settings, here: Installation) -> Wire:
    wire = Wire(settings)
    wire.batch(
        [
            Event(0, 0, ("dataset:default/a",), ("USER",), tags=("pii",)),
            Event(0, 1, ("app:shop/b",), ("USER", "SYSTEM"), tenant="acme"),
            Event(2, 0, ("dataset:default/a\x1b".replace("\x1b", "%1B"),), ("USER",)),
        ]
    )
    wire.batch([Event(0, 0, ("dataset:default/a",), ("USER",), tags=("pii",))])  # published again
    return wire


def lines(here: Installation, *words: str, code: int = 0) -> list[Any]:
    done = here.metajournal("tail", "--json", "--timeout", "0.2", *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_change_is_one_json_value_on_one_line(here: Installation, wire: Wire) -> None:
    found = lines(here, "--since", "earliest", "--tenant", "*")
    assert len(found) == 4
    [first] = [one for one in found if one["urn"] == "dataset:default/a"]
    assert first["id"] == f"{wire.journal}/0/{START}/0/USER"
    assert Position.parse(first["position"]) == Position(wire.journal, 0, START)
    assert first["record"]["changes"]["additions"]["tags"] == ["pii"]
    assert {one["tenant"] for one in found} == {"default", "acme"}


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("", 2),
        ("--kind app", 0),
        ("--tenant acme", 2),
        ("--tenant * --kind app", 2),
        ("--tenant * --kind app --scope SYSTEM", 1),
        ("--tenant * --namespace shop --kind dataset", 0),
        ("--urn dataset:default/*", 2),
        ("--tenant acme --tenant default", 4),
        ("--tag pii", 1),
        ("--tenant * --limit 3", 3),
        ("--tenant * --state", 3),
        ("--state", 2),
    ],
)
def test_options_say_which_changes(here: Installation, wire: Wire, words: str, count: int) -> None:
    assert len(lines(here, "--since", "earliest", *words.split())) == count


def test_a_group_goes_on_where_it_ended(here: Installation, wire: Wire) -> None:
    assert len(lines(here, "--group", here.settings.journal.prefix, "--since", "earliest", "--tenant", "*")) == 4
    assert lines(here, "--group", here.settings.journal.prefix) == []
    wire.batch([Event(0, 2)])
    words = ("tail", "--timeout", "0.2", "--group", here.settings.journal.prefix, "--json")
    again = here.metajournal(*words, "--since", "earliest")
    assert len(again.stdout.splitlines()) == 2
    assert (
        f"note: The group {here.settings.journal.prefix} resumes where it stopped; --since only applies" in again.stderr
    )
    assert here.metajournal(*words).stderr == ""


def test_people_get_one_line_for_each_change(here: Installation, wire: Wire) -> None:
    words = ("--since", "earliest", "--scope", "user", "--tenant", "*")
    done = here.metajournal("tail", "--timeout", "0.2", *words)
    assert done.returncode == 0, done.stderr
    shown = [line.rstrip() for line in done.stdout.splitlines()]
    assert len(shown) == 3
    [tagged] = [line for line in shown if "+tag" in line]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \S+Z  dataset:default/a  USER    \+tag pii  by tests", tagged)
    assert any("app:shop/b (acme)" in line for line in shown)


def test_a_line_says_what_came_what_went_and_what_changed() -> None:
    position = Position("j", 0, START)
    added = {"properties": {"owner": "bob", "new": "1"}, "tags": ["a"]}
    gone = {"properties": {"owner": "alice", "old": "\x1b[2J"}, "tags": ["b\nc"]}
    record = {"changes": {"additions": added, "deletions": gone}, "updater": "carol\x07"}
    change = Change("dataset:default/a", position, 0, "USER", "t", 1_700_000_000_000, record, 0)
    assert record_line(change, "default").plain == (
        "2023-11-14 22:13:20.000Z  dataset:default/a  USER    +tag a, -tag b c, owner: alice → bob, +new, -old"
        "  by carol\\x07"
    )


@pytest.mark.parametrize("typed", ["yesterday", "5m", "a/b"])
def test_what_is_no_start_is_told_what_is(typed: str) -> None:
    with pytest.raises(InputError) as refused:
        since_point(typed)
    assert refused.value.hint.startswith("Give earliest, latest, a position (TOPIC/PARTITION/VALUE) or a time.")


@pytest.mark.parametrize("command", [tail, repo_tail])
def test_what_the_help_names_as_a_start_is_one(command: click.Command) -> None:
    (since,) = (one for one in command.params if one.name == "since")
    text = str(since.to_info_dict()["help"])
    named = re.findall(r"'(\w+)'|such as ([\w.:/-]+)", text)
    points = [since_point(edge or example) for edge, example in named]
    assert [type(point) for point in points] == [str, str, int, Position], text


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("--since yesterday", 2, "not-a-time"),
        ("--since x/0/5", 2, "bad-input"),
        ("--since /", 2, "invalid-position"),
        ("--domain nowhere", 2, "bad-input"),
        ("--kind Data", 2, "no-such-kind"),
        ("--tenant a*", 2, "no-such-tenant"),
        ("--urn dataset:x", 2, "invalid-urn"),
    ],
)
def test_wrong_words_are_usage_errors(here: Installation, wire: Wire, words: str, code: int, error: str) -> None:
    [said] = lines(here, *words.split(), code=code)
    assert said["error"]["code"] == error
    assert said["error"]["hint"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well_and_keeps_what_was_printed(
    here: Installation, wire: Wire, number: signal.Signals
) -> None:
    words = [*CLI, "tail", "--tenant", "*", "--group", here.settings.journal.prefix, "--since", "earliest", "--json"]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=here.folder,
        env=here.environment,
        preexec_fn=_interruptible,
    )
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(4)]
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")
    assert len({json.loads(line)["id"] for line in printed}) == 4
    assert lines(here, "--group", here.settings.journal.prefix) == []


_ENDED_EARLY = """
import os, signal
from metajournal.cli import main
from metajournal.terminal.options import Options
Options.journal = lambda self: os.kill(os.getpid(), signal.SIGTERM)
main(["tail"])
"""


def test_sigterm_before_the_first_line_ends_it_well_too() -> None:
    done = subprocess.run([sys.executable, "-c", _ENDED_EARLY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def _interruptible() -> None:
    """Ctrl-C works in the child also where the tests run in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_reader_that_goes_away_ends_it(here: Installation, wire: Wire) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [*CLI, "tail", "--since", "earliest", "--json"]
    process = subprocess.Popen(words, stdout=writing, stderr=subprocess.PIPE, cwd=here.folder, env=here.environment)
    os.close(writing)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (141, b"")


def test_what_happens_while_it_runs_is_printed_at_once(here: Installation, wire: Wire) -> None:
    words = [*CLI, "tail", "--tenant", "*", "--since", "earliest", "--json", "--limit", "6"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=here.folder, env=here.environment)
    assert process.stdout is not None
    for _ in range(4):
        process.stdout.readline()
    wire.batch([Event(3, 0, ("dataset:default/new",))])
    found = [json.loads(process.stdout.readline())["urn"] for _ in range(2)]
    assert found == ["dataset:default/new"] * 2
    eventually(lambda: process.poll() is not None, 10, "the end at its limit")
    process.stdout.close()
    assert process.returncode == 0


def test_a_fact_of_lineage_is_told_with_its_time_as_people_read_it() -> None:
    started = {"type": "RunStarted", "run": "run:a/b/spark/c/1", "at": 1_769_821_200_000}
    assert fact(started) == "RunStarted at 2026-01-31 01:00:00.000Z"
