"""What reaches a terminal or a log: text from outside is only ever text."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import RenderableType

from metajournal.commands.search_views import facets_view, without_filters
from metajournal.commands.trace_views import trace_view
from metajournal.gateway.templates import visible
from metajournal.indexer.search.results import Count
from metajournal.schemas.settings import LogSettings
from metajournal.terminal import rendering
from metajournal.terminal.logs import Lines, start_logging
from metajournal.terminal.views import entity_view
from metajournal.tracing import NOT_FOLDED


def test_control_characters_and_markup_from_outside_stay_visible_text(capsys: pytest.CaptureFixture[str]) -> None:
    rendering.print_error("evil", "evil \x1b[2J\x07 [red]not red[/red] \u202e", "\x9b1m", as_json=False)
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


@pytest.mark.parametrize("unseen", [*"\u00ad\u061c\u200b\u200f\u2060\u2065\u206a\u206f\ufeff\U000e0041\u3164"])
def test_names_that_differ_in_what_nobody_sees_look_different(unseen: str) -> None:
    """What the pages make visible, the command line does too."""
    assert rendering.safe(f"raw/a{unseen}.csv") == f"raw/a\\x{ord(unseen):02x}.csv"
    assert rendering.named(f"raw/a{unseen}.csv") != rendering.named("raw/a.csv")
    assert not rendering.is_plain(f"raw/a{unseen}.csv")
    assert visible(f"a{unseen}b") == f"a⟨U+{ord(unseen):04X}⟩b"


def test_a_name_of_several_lines_makes_no_line_of_its_own() -> None:
    lines = shown(rendering.fields({"k\nentity  dataset:a/forged\t": "v"}, indent=2)).splitlines()
    assert lines == ["  k\\nentity  dataset:a/forged\\t  v"]
    facets = {"namespace": [Count("a\nerror[forged]: b", 3)]}
    assert without_filters(SimpleNamespace(total=3, facets=facets), ["--namespace"]).endswith(
        "namespace a\\nerror[forged]: b (3)."
    )


def test_facets_say_how_many_values_are_not_shown() -> None:
    facets = {"kind": [Count("dataset", 9)], "tag": [Count(f"t{number}", 1) for number in range(12)]}
    lines = shown(facets_view(facets)).splitlines()
    assert [line.split() for line in lines if "t9" in line] == [["t9", "1"]]
    assert [line for line in lines if "t10" in line or "more" in line] == [lines[-1]]
    assert "(2 more in --json)" in lines[-1]


def test_json_has_nothing_that_a_terminal_obeys_and_is_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    obeyed = "\x7f\x80\x85\x9b\x9f\u2028\u2029\u202a\u202e\u2066\u2069"
    value = {f"k{obeyed}": f"é\x1b{obeyed}\\u202e ✓"}
    rendering.print_json(value)
    printed = capsys.readouterr().out
    assert json.loads(printed) == value
    assert not set(printed.rstrip("\n")) & {*obeyed, "\x1b"}
    assert "é" in printed
    assert "✓" in printed


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("json_", [True, False])
def test_any_bytes_on_the_command_line_are_answered_in_any_encoding(encoding: str, json_: bool) -> None:
    words: list[str | bytes] = ["show", b"dataset:a/\xff\xe2\x9c\x93", *(["--json"] if json_ else [])]
    own = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-m", "metajournal.cli", *words], capture_output=True, env=own, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    if json_:
        assert json.loads(done.stdout)["error"]["code"] == "usage"


def test_logs_are_json_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert start_logging()
    logging.getLogger("metajournal.stream").info("folded %s", "7")
    logging.getLogger("another.library").warning("noise")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [
        ("info", "metajournal.stream", "folded 7")
    ]


def test_lines_of_a_pipe_end_without_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    rendering.console().print(rendering.table(["name", "long header"], [["a", "b"], ["longer name", ""]]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert [line for line in lines if line != line.rstrip()] == []


def test_form_and_level_of_the_log_are_settings_and_lines_for_people_are_only_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not start_logging(LogSettings("text", "warning"))
    logging.getLogger("metajournal.stream").info("not shown")
    logging.getLogger("metajournal.stream").warning("of %s", "\x1b[2J")
    assert start_logging(LogSettings("json", "debug"))
    logging.getLogger("metajournal.stream").debug("batch", extra={"data": {"events": 7}})
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("WARNING of \\x1b[2J")
    assert json.loads(second)["events"] == 7
    assert Lines().format(logging.LogRecord("a", 20, "", 1, "b\x07", (), None)).endswith("b\\x07")


LOGGING = """
import logging, resource, sys
from metajournal.terminal.exits import leave
from metajournal.terminal.logs import start_logging
def room(size_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))
start_logging()
log = logging.getLogger("metajournal.stream")
{body}
sys.stdout.write("worked")
leave(0)
"""
MANY = 'for number in range(2000):\n    log.warning("line %d %s", number, "x" * 100)'


def logged(body: str, stderr: int, unbuffered: str = "") -> tuple[int, bytes]:
    command, own = [sys.executable, "-c", LOGGING.format(body=body)], {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, env=own, check=False)
    return done.returncode, done.stdout


@pytest.mark.thorough
def test_a_log_that_nobody_takes_stops_nothing() -> None:
    with Path("/dev/full").open("wb") as full:
        assert logged(MANY, full.fileno()) == (0, b"worked")
    reading, writing = os.pipe()
    os.close(reading)
    assert logged(MANY, writing) == (0, b"worked")
    os.close(writing)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_log_goes_on_with_room_and_holds_no_stack_trace_of_its_own(tmp_path: Path, unbuffered: str) -> None:
    body = f'log.warning("first")\nroom(200)\n{MANY}\nroom(resource.RLIM_INFINITY)\nlog.warning("last")'
    with (tmp_path / "log").open("wb") as file:
        assert logged(body, file.fileno(), unbuffered) == (0, b"worked")
    text = (tmp_path / "log").read_text()
    lines = text.splitlines()
    assert [json.loads(line)["message"] for line in (lines[0], lines[-1])] == ["first", "last"]
    assert "Traceback" not in text
    assert "Logging error" not in text


def test_a_closed_log_is_nobodys_error() -> None:
    assert logged('sys.stderr.close()\nlog.warning("unheard")', subprocess.DEVNULL) == (0, b"worked")


def shown(view: RenderableType) -> str:
    screen = rendering.console()
    screen.file = out = io.StringIO()
    screen.print(view)
    return out.getvalue()


@pytest.mark.parametrize(
    ("behind", "text"),
    [(1, "pending: the stream is 1 event behind"), (4_000, "pending: the stream is 4,000 events behind")],
)
def test_an_event_that_is_not_folded_yet_is_pending_with_the_streams_distance(behind: int, text: str) -> None:
    place = dict.fromkeys(("type", "aggregate", "tenant", "actor", "append_time", "event_time", "reason", "detail"))
    place |= {"topic": "journal", "partition": 0, "offset": 7, "position": "journal/0/7", "original": None}
    place |= {"outcome": NOT_FOLDED, "behind": behind, "rows": [], "entities": [], "index": {"said": "-", "name": None}}
    assert text in shown(trace_view({"event_id": None, "made_at": None, "places": [place]}))


def test_an_entity_whose_last_event_names_no_actor_says_so() -> None:
    scope: dict[str, object] = {"properties": {}, "tags": []}
    entity = {
        "urn": "dataset:a/b",
        "system_time": 0,
        "actor": "",
        "logical_timestamp": 1,
        "user": scope,
        "system": scope,
    }
    assert "1970-01-01 00:00:00.000Z by (no actor given)" in shown(entity_view(entity))
