"""The command line without services: usage, errors and their exit codes, what is typed, what reaches a terminal."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner, Result

from metajournal.cli import main
from metajournal.commands import parsing, rendering, views
from metajournal.commands.emitting import WINDOW, Sending
from metajournal.commands.exits import ended
from metajournal.producers.verdicts import Accepted, Rejected
from metajournal.schemas.errors import (
    ConfigError,
    Fault,
    InputError,
    InvalidEventError,
    KafkaUnavailableError,
    MetajournalError,
    NotYetVisibleError,
    OutcomeUnknownError,
    SearchUnavailableError,
    StreamError,
    UnknownEntityError,
)
from metajournal.schemas.events.catalog import EntityRegistered, PropertiesSet, TagsAdded
from metajournal.schemas.positions import Position


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, words, input=stdin)


def raised(error: BaseException, *, as_json: bool = False) -> int:
    def command() -> None:
        raise error

    return ended(command, as_json=as_json)


def test_help_lists_exactly_the_commands_that_are_there() -> None:
    listed = run("--help").stdout.partition("Commands:")[2]
    words = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    there = "config demo doctor down emit history index search show status stream tail up"
    assert words == there.split()
    for word in words:
        assert run(word, "--help").exit_code == 0


def test_every_reading_command_offers_json() -> None:
    for words in ("show", "history", "search", "tail", "status", "doctor", "demo", "emit", "config show"):
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
    assert bool(said.err) == (code not in (130, 141))


def test_a_defect_names_itself_without_a_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert raised(ValueError("first line\nsecond line")) == 1
    said = capsys.readouterr().err
    assert said.startswith("error[internal]: ValueError: first line\n")
    assert "METAJOURNAL_TRACE=1" in said


def test_errors_carry_their_data_into_json(capsys: pytest.CaptureFixture[str]) -> None:
    raised(NotYetVisibleError({("topic", 2): 3}), as_json=True)
    assert json.loads(capsys.readouterr().out)["error"]["behind"] == {"topic/2": 3}


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = "import sys; from metajournal.cli import main; main(['--help'])"
    reading, writing = os.pipe()
    os.close(reading)
    ended_ = subprocess.run([sys.executable, "-c", script], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert ended_.returncode == 141
    assert ended_.stderr == b""


def test_help_and_usage_need_no_heavy_package() -> None:
    script = (
        "import sys\nfrom click.testing import CliRunner\nfrom metajournal.cli import main\n"
        "CliRunner().invoke(main, ['--help'])\n"
        "heavy = {'pyspark', 'deltalake', 'duckdb', 'pyarrow', 'polars', 'elasticsearch', 'confluent_kafka'}\n"
        "sys.stderr.write(', '.join(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).stderr == b""


def test_control_characters_and_markup_from_outside_stay_visible_text(capsys: pytest.CaptureFixture[str]) -> None:
    raised(InputError("evil \x1b[2J\x07 [red]not red[/red] \u202e", hint="\x9b1m"))
    said = capsys.readouterr().err
    assert "evil \\x1b[2J\\x07 [red]not red[/red] \\x202e" in said
    assert "\\x9b1m" in said
    out = io.StringIO()
    screen = rendering.console()
    screen.file = out
    screen.print(rendering.table(["[b]a"], [["\x1b]0;title\x07", ":smile:"][:1]]))
    screen.print(rendering.fields({"k\x1b": ":smile:"}))
    assert "\x1b" not in out.getvalue()
    assert "[b]a" in out.getvalue()
    assert ":smile:" in out.getvalue()


def test_options_become_the_event_that_they_say() -> None:
    assert parsing.typed_options("TagsAdded", "dataset:a/b", tags=["x", "y"], scope="system", actor="alice") == (
        TagsAdded("dataset:a/b", ["x", "y"], scope="SYSTEM"),
        {"actor": "alice"},
    )
    typed = parsing.typed_options(
        "catalog.PropertiesSet.1", "dataset:a/b", properties=["k=v=w", "empty="], expected=0, event_time="1970-01-01"
    )
    assert typed == (PropertiesSet("dataset:a/b", {"k": "v=w", "empty": ""}), {"expected": 0, "event_time": 0})
    data = '{"schema": [["id", "long"]], "tags": ["t"]}'
    assert parsing.typed_options("EntityRegistered", "dataset:a/b", data=data, description="d").event == (
        EntityRegistered("dataset:a/b", description="d", schema=[("id", "long")], tags=["t"])
    )


def test_a_wrong_type_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="Did you mean TagsAdded"):
        parsing.event_class("catalog.TagAdded")


def test_every_fault_of_the_typed_fields_is_named_at_once() -> None:
    with pytest.raises(InvalidEventError) as found:
        parsing.typed_event('{"type": "PropertiesSet", "tags": ["x"], "owner": 1}')
    assert [fault.field for fault in found.value.faults] == ["tags", "owner", "entity", "properties"]


@pytest.mark.parametrize("line", ["", "nonsense", "[]", '"x"', "{}", '{"type": 7}'])
def test_a_line_that_is_no_event_is_an_input_error(line: str) -> None:
    with pytest.raises(InputError):
        parsing.typed_event(line)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1441310434000", 1_441_310_434_000),
        ("2015-09-03T20:00:34Z", 1_441_310_434_000),
        ("2015-09-03 20:00:34", 1_441_310_434_000),
        ("2015-09-03T22:00:34.5+02:00", 1_441_310_434_500),
    ],
)
def test_times_are_milliseconds_or_iso_8601_in_utc(text: str, ms: int) -> None:
    assert parsing.point(text) == ms


def test_settings_before_the_command_win_and_say_so() -> None:
    shown = run("--set", "client.queue_events=7", "config", "show", "--origin", "--json")
    assert json.loads(shown.stdout)["client.queue_events"] == {"value": "7", "from": "argument"}
    wrong = run("--set", "client.queue_event=7", "config", "show")
    assert wrong.exit_code == 2
    assert "Did you mean client.queue_events?" in wrong.stderr


def test_a_point_with_slashes_is_a_position() -> None:
    assert parsing.point("t.journal.catalog/3/1099511627776") == Position("t.journal.catalog", 3, 1 << 40)
    for wrong in ("yesterday", "a/b/c", "t/1"):
        with pytest.raises(InputError):
            parsing.point(wrong)


@dataclass
class Sent:
    """The receipt of a journal that never fails."""

    event_id: str
    position: Position
    system_time: int = 0

    acknowledged: bool = True

    def outcome(self, timeout_s: float | None) -> Any:
        if self.position.value == 5:
            raise NotYetVisibleError({("t", 0): 1})
        refused = self.position.value % 3 == 2
        return Rejected(self.position, "unknown-entity", {"entity": "x"}) if refused else Accepted(self.position)


class Counting:
    """A journal that hands out receipts and counts them."""

    def __init__(self) -> None:
        self.sent = 0

    def emit(self, event: Any, **about: Any) -> Sent:
        if faults := event.validate():
            raise InvalidEventError(faults)
        self.sent += 1
        return Sent(f"id-{self.sent}", Position("t", 0, self.sent))


def test_many_lines_give_one_result_each_in_their_order_whatever_is_wrong_with_some() -> None:
    good = '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": ["x"]}'
    lines = [good, "nonsense", good, "", '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": []}', good]
    results = list(Sending(Counting(), outcome=True).lines(lines))  # type: ignore[arg-type]
    assert [result["line"] for result in results] == [1, 2, 3, 5, 6]
    assert [result["ok"] for result in results] == [True, False, False, False, True]
    assert results[2]["reason"] == "unknown-entity"
    assert results[3]["error"]["faults"] == [{"field": "tags", "message": "must not be empty"}]


def test_a_line_without_an_answer_in_time_is_told_and_the_rest_goes_on() -> None:
    good = '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": ["x"]}'
    results = list(Sending(Counting(), outcome=True).lines([good] * 6))  # type: ignore[arg-type]
    assert [result.get("outcome") for result in results] == [
        "accepted",
        "rejected",
        "accepted",
        "accepted",
        None,
        "accepted",
    ]
    assert (results[4]["position"], results[4]["error"]["code"]) == ("t/0/5", "not-yet-visible")
    assert str(views.result_line(results[4])).startswith("unknown  line 5  not-yet-visible")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("json_", [True, False])
def test_any_bytes_on_the_command_line_are_answered_in_any_encoding(encoding: str, json_: bool) -> None:
    words: list[str | bytes] = ["show", b"dataset:a/\xff\xe2\x9c\x93", *(["--json"] if json_ else [])]
    own = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-m", "metajournal.cli", *words], capture_output=True, env=own, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    if json_:
        assert json.loads(done.stdout)["error"]["code"] == "invalid-urn"


def test_a_pipe_without_end_holds_a_bounded_number_of_receipts() -> None:
    journal = Counting()

    def endless() -> Iterator[str]:
        while True:
            yield '{"type": "TagsAdded", "entity": "dataset:a/b", "tags": ["x"]}'

    results = Sending(journal, outcome=False).lines(endless())  # type: ignore[arg-type]
    assert [next(results)["line"] for _ in range(10)] == list(range(1, 11))
    assert journal.sent <= WINDOW + 10


def test_logs_are_json_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    kept, level = logging.root.handlers[:], logging.root.level
    try:
        rendering.start_logging()
        logging.getLogger("metajournal.stream").info("folded %s", "7")
        logging.getLogger("another.library").info("noise")
    finally:
        logging.root.handlers[:] = kept
        logging.root.setLevel(level)
        logging.getLogger("metajournal").setLevel(logging.NOTSET)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [
        ("info", "metajournal.stream", "folded 7")
    ]
