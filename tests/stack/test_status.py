"""What `status` makes of what processes left behind, and of services that it asks."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from metajournal.indexer.fill.progress import Progress
from metajournal.schemas.settings import Settings
from metajournal.stack.doctor import Check
from metajournal.stack.home import Entry, Run, write_run
from metajournal.stack.keeper import NOTE
from metajournal.stack.ports import HOST, free_ports
from metajournal.stack.process import ProcessId
from metajournal.stack.status import START_S, Component, Stage, Status, _behind, _component, _stages, status
from metajournal.stack.supervisor import _environment
from metajournal.terminal.views import doctor_json, doctor_view, status_json, status_view


@pytest.mark.parametrize(
    ("lake_s", "index_s", "expected_s"),
    [(40.0, 0.0, 40.0), (0.5, 3.0, 3.0), (None, 0.0, None), (0.5, None, None)],
)
def test_the_index_is_never_said_to_be_fresher_than_the_lake(
    lake_s: float | None, index_s: float | None, expected_s: float | None
) -> None:
    """Nothing comes to the indexer while the stream hangs, so by itself it would say that all is shown."""
    stage = _behind(Stage("index", index_s, {"t/0": 7}), Stage("lake", lake_s, {}), 0.0)
    assert stage == Stage("index", expected_s, {"t/0": 7})


NOW_MS = 1_800_000_000_000
RUNNING = dict.fromkeys(("kafka", "elasticsearch", "stream", "indexer"), "running")
STREAM = {"freshness_s": 0.0, "marks": {"t": {"0": 7, "1": 1 << 40}}, "last_batch_ms": NOW_MS - 90_000}
INDEXER = {"freshness_s": 0.0, "shows": {"t/0": 7}, "written_ms": NOW_MS - 400}


def seconds_behind(
    states: Mapping[str, str], stream: Mapping[str, object], indexer: Mapping[str, object]
) -> list[object]:
    return [stage.freshness_s for stage in _stages(states, {"stream": stream, "indexer": indexer}, NOW_MS)]


def test_an_index_that_shows_all_that_is_folded_is_not_behind() -> None:
    assert seconds_behind(RUNNING, STREAM, INDEXER) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("component", "state", "expected"),
    [
        ("elasticsearch", "no answer", [0.0, None]),
        ("indexer", "waiting", [0.0, None]),
        ("indexer", "ended", [0.0, None]),
        ("kafka", "ended", [None, None]),
        ("stream", "stuck", [None, None]),
        ("stream", "waiting", [0.0, 0.0]),
    ],
)
def test_a_stage_whose_service_is_away_is_not_said_to_be_up_to_date(
    component: str, state: str, expected: list[object]
) -> None:
    """A stream that waits says by itself what it knows."""
    assert seconds_behind({**RUNNING, component: state}, STREAM, INDEXER) == expected


@pytest.mark.parametrize(
    ("last_batch_ms", "written_ms", "index_s"),
    [
        pytest.param(NOW_MS - 90_000, NOW_MS - 400, 90.0, id="the indexer takes nothing"),
        pytest.param(NOW_MS - 200, NOW_MS - 700, 0.7, id="steady load"),
        pytest.param(NOW_MS, NOW_MS, 0.1, id="both of this moment"),
        pytest.param(None, NOW_MS - 400, None, id="nothing folded since the start"),
    ],
)
def test_an_index_that_lacks_what_is_folded_is_behind_whatever_the_indexer_says(
    last_batch_ms: int | None, written_ms: int, index_s: float | None
) -> None:
    stream = {**STREAM, "marks": {"t": {"0": 8}}, "last_batch_ms": last_batch_ms}
    assert seconds_behind(RUNNING, stream, {**INDEXER, "written_ms": written_ms}) == [0.0, index_s]


ENDED_MS = 1_800_000_000_000
SHELVE = "Upgrade metajournal, or `metajournal shelve t 0 7`."


def component_of(
    folder: Path, kept: Mapping[str, object], *, log: str, log_age_s: float, report: dict[str, object]
) -> Component:
    """An indexer whose keeper is gone, as `status` shows it."""
    state, path = folder / "indexer.state", folder / "indexer.log"
    state.write_text(json.dumps(kept))
    path.write_text(log)
    os.utime(path, (0, ENDED_MS / 1000 - log_age_s))
    entry = Entry(ProcessId(2**22 + 1, "1"), ENDED_MS - 600_000, str(path), str(state))
    return _component("indexer", entry, report)


WARNING = "12:00:00 WARNING Elasticsearch is away; waiting for it."


def test_an_old_warning_in_the_log_is_not_told_as_the_cause_of_an_end(tmp_path: Path) -> None:
    ended = {"exit_code": 1, "ended_ms": ENDED_MS}
    old = component_of(tmp_path, ended, log=WARNING, log_age_s=480, report={})
    assert (old.state, old.message) == (
        "ended",
        "the indexer ended with exit code 1; its log has no entry of the last 480 s before",
    )
    fresh = component_of(tmp_path, ended, log=WARNING, log_age_s=1, report={})
    assert fresh.message == f"the indexer ended with exit code 1; the last message of its log: {WARNING}"
    asked = component_of(tmp_path, {**ended, "exit_code": 143}, log=WARNING, log_age_s=1, report={})
    assert asked.message == "the indexer ended with exit code 143 (SIGTERM)"
    killed = component_of(tmp_path, {"exit_code": None, "ended_ms": None}, log=WARNING, log_age_s=480, report={})
    assert "how the indexer ended is not known" in killed.message
    assert killed.mend == f"See {killed.log}, then run: metajournal up"


TRACE = """Traceback (most recent call last):
  File "clientserver.py", line 535, in send_command
    raise Py4JNetworkError("Answer from Java side is empty")
py4j.protocol.Py4JNetworkError: Answer from Java side is empty

During handling of the above exception, another exception occurred:

java.net.SocketException: Connection reset
\tat java.base/sun.nio.ch.NioSocketImpl.implRead(NioSocketImpl.java:318)
\t... 12 more
Caused by: java.io.EOFException
  next: This is a bug in metajournal: please report it with the output of METAJOURNAL_TRACE=1.
"""
LAST = "the last message of its log: "


@pytest.mark.parametrize(
    ("code", "log", "message"),
    [
        pytest.param(-9, TRACE, "was killed by signal 9 (SIGKILL)", id="killed"),
        pytest.param(137, TRACE, "ended with exit code 137 (SIGKILL)", id="its child killed"),
        pytest.param(1, TRACE, "ended with exit code 1; its log ends with a stack trace", id="a trace alone"),
        pytest.param(
            1,
            f"error[internal]: Py4JError: away\n{TRACE}",
            f"ended with exit code 1; {LAST}error[internal]: Py4JError: away",
            id="a message before the trace",
        ),
        pytest.param(
            1,
            json.dumps({"level": "error", "logger": "metajournal", "message": "It hurts. " * 60, "code": "pain"})
            + "\n"
            + json.dumps({"level": "error", "logger": "py4j.clientserver", "message": "Exception while sending"})
            + f"\n{TRACE}",
            f"ended with exit code 1; {LAST}" + f"pain: {'It hurts. ' * 60}"[:300],
            id="a record of the log",
        ),
    ],
)
def test_what_died_and_how_is_told_and_no_line_of_a_stack_trace(
    tmp_path: Path, code: int, log: str, message: str
) -> None:
    component = component_of(tmp_path, {"exit_code": code, "ended_ms": ENDED_MS}, log=log, log_age_s=1, report={})
    assert component.message == f"the indexer {message}"
    assert component.mend == f"See {component.log}, then run: metajournal up"


def test_a_component_that_failed_shows_its_own_error_and_next_step_but_none_of_an_earlier_run(tmp_path: Path) -> None:
    ended = {"exit_code": 1, "ended_ms": ENDED_MS}
    failed: dict[str, object] = {"state": "failed", "message": "unknown-schema: The record at t/0/7 …", "mend": SHELVE}
    own = component_of(tmp_path, ended, log=WARNING, log_age_s=1, report={**failed, "written_ms": ENDED_MS})
    assert own.message == failed["message"]
    assert own.mend == f"{SHELVE} To start again, run: metajournal up"
    earlier = component_of(tmp_path, ended, log=WARNING, log_age_s=1, report={**failed, "written_ms": 1})
    assert earlier.message.endswith(f"; the last message of its log: {WARNING}")
    assert SHELVE not in earlier.mend


def test_a_component_that_waits_to_be_started_again_shows_how_it_ended_and_when(tmp_path: Path) -> None:
    """What its keeper has written into the log since is not taken for the component's own last message."""
    alive = ProcessId.of(os.getpid())
    assert alive is not None
    log, state = tmp_path / "indexer.log", tmp_path / "indexer.state"
    log.write_text(f"{WARNING}\n{NOTE}exit code 1; restarting in 64 s\n")
    now_ms = int(time.time() * 1000)
    kept = {"exit_code": 1, "ended_ms": now_ms, "logged_ms": now_ms, "again_ms": now_ms + 64_000, "restarts": 6}
    state.write_text(json.dumps(kept))
    waiting = _component("indexer", Entry(alive, 0, str(log), str(state)), {})
    assert (waiting.state, waiting.restarts, waiting.fine, waiting.pid) == ("restarting", 6, False, None)
    how = f"the indexer ended with exit code 1; the last message of its log: {WARNING}; restarting in "
    assert waiting.message.startswith(how)
    assert waiting.mend == f"See {log}, then run: metajournal up"
    state.write_text(json.dumps({**kept, "logged_ms": now_ms - 480_000}))
    quiet = _component("indexer", Entry(alive, 0, str(log), str(state)), {})
    assert "; its log has no entry of the last 480 s before; restarting in " in quiet.message


def test_a_server_that_comes_up_again_by_itself_needs_nothing_until_it_fails_to(tmp_path: Path) -> None:
    alive, (port,) = ProcessId.of(os.getpid()), free_ports(1)
    assert alive is not None
    log, state = tmp_path / "elasticsearch.log", tmp_path / "elasticsearch.state"
    entry = Entry(alive, 0, str(log), str(state), f"http://{HOST}:{port}", (port,))
    now_ms = int(time.time() * 1000)
    kept = {"pid": 7, "exit_code": None, "restarts": 1, "last_exit_code": -9, "started_ms": now_ms - 5_000}
    state.write_text(json.dumps(kept))
    starting = _component("elasticsearch", entry, {})
    assert (starting.state, starting.fine, starting.pid, starting.mend) == ("starting", True, 7, "")
    how = "Elasticsearch was killed by signal 9 (SIGKILL) and is being started again (once since up)"
    assert starting.message == how
    state.write_text(json.dumps({**kept, "started_ms": now_ms - int(START_S * 1000) - 1}))
    away = _component("elasticsearch", entry, {})
    assert (away.state, away.message) == ("no answer", f"http://{HOST}:{port} does not answer")
    assert away.mend == f"See {log}, then run: metajournal down; metajournal up"


def test_a_component_that_waits_shows_what_ends_the_waiting(tmp_path: Path) -> None:
    alive = ProcessId.of(os.getpid())
    assert alive is not None
    (tmp_path / "stream.state").write_text("{}")
    entry = Entry(alive, 0, str(tmp_path / "stream.log"), str(tmp_path / "stream.state"))
    report = {"state": "waiting", "message": "table-damaged: …", "written_ms": int(time.time() * 1000)}
    shown = _component("stream", entry, {**report, "mend": "`metajournal rebuild lake`"})
    assert (shown.state, shown.mend) == ("waiting", "`metajournal rebuild lake`")
    assert _component("stream", entry, report).mend == ""


def test_an_indexer_knows_how_far_behind_it_is_once_it_has_read_the_outcomes_that_were_there_at_its_start() -> None:
    progress = Progress({}, {("outcomes", 0): 3, ("state", 0): 9}, frozenset({"state"}))
    assert not progress.has_read({}), "the topics were not looked at yet"
    assert not progress.has_read({("outcomes", 0): 4, ("outcomes", 1): 0, ("state", 0): 9})
    progress.reached(("outcomes", 0), 4)
    assert progress.has_read({("outcomes", 0): 4, ("outcomes", 1): 0, ("state", 0): 50})


def test_a_home_cannot_slip_modules_under_what_is_started_in_it(tmp_path: Path) -> None:
    """`python -m` looks in the folder that it is started in first, and a home may be a stranger's folder."""
    (tmp_path / "click.py").write_text("raise SystemExit('a stranger ran')")
    command = [sys.executable, "-m", "metajournal.cli", "--version"]
    environment = _environment(tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_derived_tables_that_do_not_go_on_are_told_with_place_reason_and_next_step(tmp_path: Path) -> None:
    told = {"name": "writes", "tables": ["writes"], "marks": {}, "complete": False, "lacking": 1_234}
    fault = {"why": "ValueError: no", "mend": "Start again.", "place": "t/0", "start": 5, "end": 9}
    drawn = {}
    for name, one in {"behind": told, "failed": told | fault, "fine": told | {"complete": True}}.items():
        (tmp_path / "stream.json").write_text(json.dumps({"derived": [one]}))
        found = status(tmp_path)
        shown = status_json(found)
        assert shown["derived"] == [one]
        assert any("why" in each for each in found.derived) == (name == "failed")
        console = Console(width=200, file=io.StringIO())
        console.print(status_view(shown))
        drawn[name] = console.file.getvalue()  # type: ignore[attr-defined]
    assert "derived tables" not in drawn["fine"]
    assert "1,234 positions behind" in drawn["behind"]
    assert all(text in drawn["failed"] for text in ("t/0, positions 5 to 9", "ValueError: no. Start again."))


def test_a_home_whose_derived_tables_stand_still_is_not_fine() -> None:
    assert Status(Path(), "", (), (), {}, ({"complete": False},)).fine
    assert not Status(Path(), "", (), (), {}, ({"complete": False, "why": "no"},)).fine


def test_a_gateway_that_up_has_started_before_is_listed_after_down(tmp_path: Path) -> None:
    home = tmp_path.absolute()
    write_run(home, Run(ports={"kafka": (1,)}))
    assert [one.name for one in status(home).components] == ["kafka", "elasticsearch", "stream", "indexer"]
    write_run(home, Run(ports={"kafka": (1,), "gateway": (2, 3)}))
    assert [(one.name, one.state, one.mend) for one in status(home).components][-2:] == [
        ("indexer", "not started", "metajournal up"), ("gateway", "not started", "metajournal up"),
    ]  # fmt: skip


def test_services_that_up_did_not_start_are_asked_where_they_are_configured(settings: Settings, tmp_path: Path) -> None:
    seen = {component.name: component for component in status(tmp_path, settings).components}
    assert [seen[name].state for name in ("kafka", "elasticsearch")] == ["running", "running"]
    assert seen["kafka"].endpoint == settings.kafka["bootstrap.servers"]
    assert [seen[name].state for name in ("stream", "indexer")] == ["not started", "not started"]
    assert status(tmp_path, settings).lake == settings.lake.path
    away = replace(
        settings,
        kafka={"bootstrap.servers": "kafka.invalid:9092"},
        elasticsearch=replace(settings.elasticsearch, url="http://user:word@search.invalid:9200"),
    )
    kafka, search, *_ = status(tmp_path, away).components
    assert (kafka.state, kafka.endpoint) == ("no answer", "kafka.invalid:9092")
    assert "kafka.bootstrap.servers" in kafka.mend
    assert search.state == "no answer"
    assert "word" not in f"{search.endpoint}{search.message}{search.mend}"
    assert not status(tmp_path, away).fine


def test_a_stream_that_was_started_by_itself_is_seen_as_long_as_it_lives(tmp_path: Path) -> None:
    def state(pid: int, age_s: float = 0.0) -> str:
        report = {"state": "running", "pid": pid, "written_ms": int((time.time() - age_s) * 1000)}
        (tmp_path / "stream.json").write_text(json.dumps(report))
        return next(component.state for component in status(tmp_path).components if component.name == "stream")

    assert state(os.getpid()) == "running"
    assert state(os.getpid(), 60) == "not started"
    assert state(2**22 + 1) == "not started"


def test_doctor_says_what_mends_several_parts_once_below_the_last_of_them() -> None:
    extra = "pip install 'metajournal[lake]'"
    checks = [
        Check("pyarrow", "not installed", "any", "missing", extra),
        Check("polars", "not installed", "any", "note", extra),
        Check("ports", "can be bound", "any", "fine"),
        Check("Kafka", "no answer", "an answer", "note", "metajournal up"),
    ]
    out = io.StringIO()
    Console(file=out, width=120).print(doctor_view(doctor_json(checks)))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert [line.count(extra) for line in lines] == [0, 0, 0, 1, 0, 0, 0]
    assert lines[-1].endswith("metajournal up")
