"""How the system of one folder goes: each component's state, and how fresh each stage of the way of an event is.

It only reads: processes by pid and start time, ports, and what the stream and the indexer say about themselves once a
second. Nothing is asked of Kafka or Elasticsearch beyond whether they answer.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..reporting import ending, signal_of
from ..schemas.positions import behind, cut_from_json
from .home import COMPONENTS, Entry, read_run
from .ports import HOST, answers
from .process import log_tail, read_state
from .supervisor import read_told

STALE_S: Final = 5.0
"""A component that writes its file every second and has not for so long is stuck."""
_NAMES: Final = {"kafka": "Kafka", "elasticsearch": "Elasticsearch", "stream": "the stream", "indexer": "the indexer"}
_TRACE: Final = re.compile(
    r"\s|Traceback \(|During handling of |The above exception |Caused by: |Exception ignored in"
    r"|[\w.$]+(Error|Exception)\b"
)
"""How lines begin that are a stack trace's, or the hint below an error: no cause by themselves."""
_TAIL_LINES, _TAIL_WIDTH, _SHOWN = 200, 8192, 300
"""Of a log's end: lines and characters of each that are looked at, and characters of a message that are shown."""
_LEAST_S: Final = 0.1
"""The least that is shown as something."""


@dataclass(frozen=True, slots=True)
class Component:
    """One of kafka, elasticsearch, stream, indexer."""

    name: str
    state: str
    """"running", "starting", "waiting", "failed", "stuck", "no answer", "ended" or "not started"."""
    pid: int | None = None
    since_ms: int | None = None
    endpoint: str | None = None
    log: str | None = None
    exit_code: int | None = None
    message: str = ""
    """What it waits for; when it ended, its own error, or how it ended and the last message of its log."""
    mend: str = ""
    """The command that helps; empty when nothing is wrong."""

    @property
    def fine(self) -> bool:
        return self.state in ("running", "starting")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the way of an event: how many seconds it lags behind the journal; None: not known now.

    What the stream has not folded no index shows, so the index is never fresher than the lake.
    """

    name: str
    freshness_s: float | None
    reached: Mapping[str, Any]
    """The next position by topic and partition, as the component says it."""


@dataclass(frozen=True, slots=True)
class Status:
    """What `metajournal status` shows."""

    home: Path
    lake: str
    components: tuple[Component, ...]
    stages: tuple[Stage, ...]
    verdicts: Mapping[str, int]
    """Events by outcome since the stream was started."""
    derived: tuple[Mapping[str, Any], ...] = ()
    """Derived tables as the stream tells of them; one that does not go on has `why`, where, and what mends it."""
    unserved: tuple[Mapping[str, Any], ...] = ()
    """Domains of this version that the stream does not serve: `name`, `why`, and what mends it (`mend`)."""

    @property
    def fine(self) -> bool:
        halted = any("why" in function for function in self.derived)
        return all(component.fine for component in self.components) and not halted and not self.unserved


def status(home: Path) -> Status:
    """Look at everything once."""
    home = home.expanduser().absolute()
    run = read_run(home)
    reports = {name: read_told(home / f"{name}.json") for name in ("stream", "indexer")}
    components = tuple(_component(name, run.components.get(name), reports.get(name, {})) for name in COMPONENTS)
    stages = _stages({component.name: component.state for component in components}, reports, time.time() * 1000)
    stream_report = reports["stream"]
    return Status(
        home,
        run.lake,
        components,
        stages,
        stream_report.get("verdicts") or {},
        tuple(stream_report.get("derived") or ()),
        tuple(stream_report.get("unserved") or ()),
    )


def _stages(states: Mapping[str, str], reports: Mapping[str, Mapping[str, Any]], now_ms: float) -> tuple[Stage, Stage]:
    """Lake and index, each as far behind as is known.

    Without Kafka nobody knows what the journal holds. A stream that waits counts from the batch in hand; an indexer
    that waits knows only what it had seen before.
    """
    stream, indexer = reports["stream"], reports["indexer"]
    kafka = states["kafka"] == "running"
    lake = _stage("lake", stream, "marks", kafka and states["stream"] in ("running", "waiting"))
    shown = kafka and states["elasticsearch"] == "running" and states["indexer"] == "running"
    return lake, _behind(_stage("index", indexer, "shows", shown), lake, _unshown_s(stream, indexer, now_ms))


def _stage(name: str, report: Mapping[str, Any], key: str, works: bool) -> Stage:
    freshness = report.get("freshness_s") if works else None
    return Stage(name, None if freshness is None else float(freshness), report.get(key) or {})


def _unshown_s(stream: Mapping[str, Any], indexer: Mapping[str, Any], now_ms: float) -> float | None:
    """Seconds for which the index has not shown what the stream has folded; 0.0 when it shows all, None: not known.

    The stream's marks beyond what the index shows are something that is not searchable, whatever the indexer says: it
    does not know of outcomes that it has not read. Both files are written once a second, so under load the marks are
    nearly always a little ahead, and "not known" would come and go. What is certain: the index did not show the last
    batch, or had not been asked since, so the age of that batch or of the indexer's word, whichever is older, is told.
    It is small under load, and grows while the indexer takes nothing. A stream that has folded nothing since its start
    does not know when it folded what is missing.
    """
    shows = dict(_shows(indexer))
    if not behind(shows, cut_from_json(stream.get("marks") or {})):
        return 0.0
    folded_ms = stream.get("last_batch_ms")
    if folded_ms is None:
        return None
    since_ms = min(float(folded_ms), float(indexer.get("written_ms", now_ms)))
    return max(_LEAST_S, (now_ms - since_ms) / 1000)


def _shows(indexer: Mapping[str, Any]) -> Iterator[tuple[tuple[str, int], int]]:
    for place, mark in (indexer.get("shows") or {}).items():
        topic, _, partition = place.rpartition("/")
        yield (topic, int(partition)), mark


def _behind(index: Stage, lake: Stage, unshown_s: float | None) -> Stage:
    """The index as far behind the journal as it is: the indexer only knows of what the stream has published."""
    if index.freshness_s is None or lake.freshness_s is None or unshown_s is None:
        return replace(index, freshness_s=None)
    return replace(index, freshness_s=max(index.freshness_s, lake.freshness_s, unshown_s))


def _component(name: str, entry: Entry | None, report: Mapping[str, Any]) -> Component:
    if entry is None:
        return Component(name, "not started", mend="metajournal up")
    kept = read_state(Path(entry.state))
    component = Component(name, "ended", since_ms=entry.since_ms, endpoint=entry.endpoint, log=entry.log)
    failure = report if report.get("state") == "failed" and report.get("written_ms", 0) >= entry.since_ms else {}
    again = f"read {entry.log}, then: metajournal down; metajournal up"
    if failure.get("mend"):
        again = f"{failure['mend']} To start again: metajournal down; metajournal up"
    if not entry.keeper.alive:
        how = failure.get("message") or _how_it_ended(_NAMES[name], Path(entry.log), kept)
        return replace(component, exit_code=kept.get("exit_code"), message=how, mend=again)
    state, message = _reported_state(entry, report) if entry.endpoint is None else _server_state(name, entry)
    mend = str(report.get("mend", "")) if state == "waiting" else "" if state in ("running", "starting") else again
    return replace(component, state=state, pid=kept.get("pid"), message=message, mend=mend)


def _how_it_ended(name: str, log: Path, kept: Mapping[str, Any]) -> str:
    """What ended and how, with the last message of its log; one of long before the end is not its cause."""
    code, ended_ms = kept.get("exit_code"), kept.get("ended_ms")
    if code is None or ended_ms is None:
        return (
            f"nothing says how {name} ended: it was killed with its keeper, the machine went down, or there was no "
            "room to write it down"
        )
    how = f"{name} {ending(code)}"
    if signal_of(code) is not None:
        return how
    tail = log_tail(log, _TAIL_LINES, width=_TAIL_WIDTH).strip().splitlines()
    quiet_s = ended_ms / 1000 - log.stat().st_mtime if tail else 0.0
    if quiet_s > STALE_S:
        return f"{how}; its log says nothing of the last {quiet_s:.0f} s before"
    if not tail:
        return f"{how}; its log is empty"
    message = next(filter(None, map(_message_of, reversed(tail))), "")
    if not message:
        return f"{how}; its log ends with a stack trace"
    return f"{how}; the last message of its log: {message[:_SHOWN]}"


def _message_of(line: str) -> str:
    """The message of a line of a log; empty where it is a part of a stack trace, or another library's."""
    try:
        record = json.loads(line)
    except ValueError:
        return "" if _TRACE.match(line) or line.startswith("{") else line
    if not isinstance(record, dict) or not str(record.get("logger", "")).startswith("metajournal"):
        return ""
    message, code = str(record.get("message", "")), record.get("code")
    return f"{code}: {message}" if code else message


def _reported_state(entry: Entry, report: Mapping[str, Any]) -> tuple[str, str]:
    written_ms = int(report.get("written_ms", 0))
    if written_ms < entry.since_ms:
        return "starting", ""
    if time.time() - written_ms / 1000 > STALE_S:
        return "stuck", f"has not said anything for {time.time() - written_ms / 1000:.0f} s"
    return str(report.get("state", "starting")), str(report.get("message", ""))


def _server_state(name: str, entry: Entry) -> tuple[str, str]:
    works = answers(entry.ports[0]) if name == "kafka" else _health(entry.ports[0])
    return ("running", "") if works else ("no answer", f"{entry.endpoint} does not answer")


def _health(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=3)
    try:
        connection.request("GET", "/_cluster/health?local=true&filter_path=status")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
