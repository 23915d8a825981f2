"""The command line without services: which commands there are, usage, settings, and what it must not import."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metajournal.cli import main
from metajournal.commands.refolding import _mends
from metajournal.stack.home import only_one
from metajournal.streaming.verify import Check
from tests.installation import CLI, Installation


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_help_lists_exactly_the_commands_that_are_there() -> None:
    listed = run("--help").stdout.partition("Commands:")[2]
    words = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    there = "access completion config demo doctor domains down emit files history index ingest lineage rebuild repo "
    there += "restore run runs search serve shelve show status stream suggest tail up verify why"
    assert words == there.split()
    for word in words:
        assert run(word, "--help").exit_code == 0


def test_a_second_stream_of_one_home_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAJOURNAL_HOME", str(tmp_path))
    with only_one(tmp_path, "stream"):
        refused = run("--set", "log.format=text", "stream")
        logged = run("stream")
    assert (refused.exit_code, refused.stderr.splitlines()[0]) == (
        1, f"error[already-running]: A stream of {tmp_path} is already running."
    )  # fmt: skip
    line = json.loads(logged.stderr)  # where no terminal is, the error is a line of the log like all others
    assert (line["level"], line["code"]) == ("error", "already-running")
    assert line["message"] == f"A stream of {tmp_path} is already running."
    assert line["hint"]
    with only_one(tmp_path, "stream"):
        pass


def test_every_reading_command_offers_json() -> None:
    for words in (
        "show",
        "history",
        "search",
        "suggest",
        "tail",
        "why",
        "status",
        "doctor",
        "demo",
        "emit",
        "config show",
        "files",
        "files latest",
        "files record",
        "lineage",
        "run",
        "runs",
    ):
        assert "--json" in run(*words.split(), "--help").stdout, words


@pytest.mark.parametrize("words", [["shw"], ["show"], ["emit"], ["search", "--kidn", "x"], ["show", "not-a-urn"]])
def test_wrong_usage_exits_with_2_and_says_what_to_try(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error[")
    assert "\n  next: " in result.stderr


def test_with_json_an_error_is_one_object_on_standard_output() -> None:
    result = run("emit", "TagsAdded", "dataset:a/b", "--property", "k=v", "--json")
    assert result.exit_code == 2
    assert result.stderr == ""
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "invalid-event"
    assert [fault["field"] for fault in error["faults"]] == ["properties", "tags"]


def test_help_and_usage_need_no_heavy_package() -> None:
    script = (
        "import sys\nfrom click.testing import CliRunner\nfrom metajournal.cli import main\n"
        "CliRunner().invoke(main, ['--help'])\n"
        "heavy = {'pyspark', 'deltalake', 'duckdb', 'pyarrow', 'polars', 'elasticsearch', 'confluent_kafka'}\n"
        "sys.stderr.write(', '.join(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).stderr == b""


def test_settings_before_the_command_win_and_say_so() -> None:
    shown = run("--set", "client.queue_events=7", "config", "show", "--origin", "--json")
    assert json.loads(shown.stdout)["client.queue_events"] == {"value": "7", "from": "argument"}
    wrong = run("--set", "client.queue_event=7", "config", "show")
    assert wrong.exit_code == 2
    assert "Did you mean client.queue_events?" in wrong.stderr


@pytest.mark.thorough
def test_where_nothing_runs_status_finds_a_problem_and_down_has_nothing_to_end(tmp_path: Path) -> None:
    here = Installation(tmp_path)
    status = here.metajournal("status", "--json")
    assert status.returncode == 1
    assert {one["state"] for one in json.loads(status.stdout)["components"]} == {"not started"}
    down = here.metajournal("down")
    assert (down.returncode, down.stdout) == (0, f"Nothing was running in {tmp_path}.\n")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], []),
        (["index"], ["rebuild index"]),
        (["table-entities", "index"], ["rebuild lake --accept", "rebuild index"]),
        (["outcomes", "table-entities"], ["rebuild lake --from kafka --accept"]),
        (["journal-in-kafka", "journal-once"], ["keep the lake"]),
    ],
)
def test_verify_says_what_mends_each_thing_that_does_not_hold(wrong: list[str], said: list[str]) -> None:
    names = ("journal-in-kafka", "journal-once", "units", "table-entities", "outcomes", "index")
    mends = list(_mends([Check(name, name not in wrong, "", ()) for name in names]))
    assert len(mends) == len(said)
    assert all(part in mend for part, mend in zip(said, mends, strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_watching_without_a_terminal_gives_a_line_a_look_and_ends_well_with_an_interrupt(
    tmp_path: Path, form: list[str]
) -> None:
    here = Installation(tmp_path)
    command = [*CLI, "status", "--watch", *form]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=here.environment, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    for line in lines:
        assert "not started" in line
        assert json.loads(line)["ok"] is False if form else "kafka not started, " in line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_completes_commands_in_each_shell(shell: str) -> None:
    script = run("completion", shell)
    assert script.exit_code == 0
    assert "_METAJOURNAL_COMPLETE" in script.stdout


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("metajournal wh", ["why"]),
        ("metajournal emit Tags", ["TagsAdded", "TagsRemoved"]),
        ("metajournal search --kind data", ["dataset"]),
        ("metajournal show str", ["stream:"]),
        ("metajournal show dataset:de", []),  # nobody answers, and nobody is told in the middle of a prompt
        ("metajournal tail --gro", ["--group"]),
    ],
)
def test_words_are_completed_that_only_metajournal_knows(tmp_path: Path, line: str, expected: list[str]) -> None:
    words = line.split()
    own = {
        **Installation(tmp_path).environment, "_METAJOURNAL_COMPLETE": "bash_complete", "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1), "METAJOURNAL__ELASTICSEARCH__URL": "http://127.0.0.1:1",
    }  # fmt: skip
    done = subprocess.run([str(Path(sys.executable).parent / "metajournal")], capture_output=True, text=True, env=own,
                          check=False, cwd=tmp_path)  # fmt: skip
    assert [one.partition(",")[2] for one in done.stdout.splitlines() if one] == expected, done.stderr
    assert done.stderr == ""
