"""How the system of one folder goes: each component's state, and how fresh each stage of an event's flow is.

It only reads: processes by pid and start time, ports, and what the stream and the indexer say about themselves once a
second. Services that `up` has not started in the folder may run elsewhere: the configured endpoints are checked.
Nothing is asked of Kafka or Elasticsearch beyond whether they answer.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..reporting import ending, signal_of
from ..schemas.positions import behind, cut_from_json
from ..schemas.setting_keys import hidden_texts, value_shown
from ..schemas.settings import Settings
from .home import COMPONENTS, Entry, Run, read_run
from .keeper import NOTE as KEEPER_NOTE
from .ports import HOST, answers
from .process import ProcessId, log_tail, read_state
from .reach import ANSWERS, endpoint, words
from .supervisor import LABELS, read_told

START_S: Final = 120.0
"""A server that has not answered for so long after its start does not come up by itself; `up` waits as long."""
STALE_S: Final = 5.0
"""A component that writes its file every second and has not for so long is stuck."""
_TRACE: Final = re.compile(
    r"\s|Traceback \(|During handling of |The above exception |Caused by: |Exception ignored in"
    r"|[\w.$]+(Error|Exception)\b"
)
"""How lines begin that are a stack trace's, or the hint below an error: no cause by themselves."""
_TAIL_LINES, _TAIL_WIDTH, _SHOWN = 200, 8192, 300
"""Of a log's end: lines and characters of each that are looked at, and characters of a message that are shown."""
_LOCAL: Final = re.compile(r"(^|/|@)(127\.0\.0\.1|localhost|\[::1\])(:|/|$)")
_OPTIONAL: Final = frozenset({"gateway"})
"""Components that are shown where `up` has started them, and until it starts the others without them; nothing is
missing without them elsewhere."""
_KEYS: Final = {"kafka": "kafka.bootstrap.servers", "elasticsearch": "elasticsearch.url"}
_LEAST_S: Final = 0.1
"""The least that is shown as something."""


@dataclass(frozen=True, slots=True)
class Component:
    """One of kafka, elasticsearch, stream, indexer, gateway."""

    name: str
    state: str
    """"running", "starting", "waiting", "failed", "stuck", "no answer", "restarting", "ended" or "not started"."""
    pid: int | None = None
    since_ms: int | None = None
    endpoint: str | None = None
    log: str | None = None
    exit_code: int | None = None
    message: str = ""
    """What it waits for; when it ended, its own error, or how it ended and the last message of its log."""
    mend: str = ""
    """The command that helps; empty when nothing is wrong."""
    restarts: int = 0
    """How often it was restarted automatically since `up`."""

    @property
    def fine(self) -> bool:
        return self.state in ("running", "starting")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of an event's flow: how many seconds it lags behind the journal; None: not known now.

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


def status(home: Path, settings: Settings | None = None) -> Status:
    """Look at everything once.

    Args:
        settings: name the services to ask where `up` has not started them here; None: nobody else is asked.
    """
    home = home.expanduser().absolute()
    run = read_run(home)
    reports = {name: read_told(home / f"{name}.json") for name in ("stream", "indexer", "gateway")}
    elsewhere = (
        {} if settings is None else _elsewhere([name for name in ANSWERS if name not in run.components], settings)
    )
    components = tuple(
        elsewhere.get(name) or _component(name, run.components.get(name), reports.get(name, {}))
        for name in COMPONENTS
        if name not in _OPTIONAL or _was_started(name, run)
    )
    stages = _stages({component.name: component.state for component in components}, reports, time.time() * 1000)
    stream_report = reports["stream"]
    return Status(
        home,
        run.lake or ("" if settings is None else value_shown("lake.path", settings.lake.path)),
        components,
        stages,
        stream_report.get("verdicts") or {},
        tuple(stream_report.get("derived") or ()),
        tuple(stream_report.get("unserved") or ()),
    )


def _was_started(name: str, run: Run) -> bool:
    """Whether `up` has started a component that it need not: now or, where `down` has ended everything, the last time
    (its ports are kept)."""
    return name in run.components or (not run.components and name in run.ports)


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


def _elsewhere(names: Sequence[str], settings: Settings) -> dict[str, Component]:
    """Services that `up` has not started here, according to the configured endpoints."""
    if not names:
        return {}
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(lambda name: _asked(name, settings), names), strict=True))


def _asked(name: str, settings: Settings) -> Component:
    place = endpoint(name, settings)
    try:
        ANSWERS[name](settings)
        return Component(name, "running", endpoint=place)
    except Exception as error:
        if _LOCAL.search(place):  # on this machine `up` starts it
            return Component(name, "not started", mend="metajournal up")
        why = f"no answer: {words(error, hidden_texts(settings))}"
        mend = f"start it, or correct {_KEYS[name]}; then: metajournal doctor"
        return Component(name, "no answer", endpoint=place, message=why, mend=mend)


def _component(name: str, entry: Entry | None, report: Mapping[str, Any]) -> Component:
    if entry is None:
        return _unkept(name, report)
    kept = read_state(Path(entry.state))
    entry = replace(entry, since_ms=kept.get("started_ms") or entry.since_ms)
    component = Component(
        name, "ended", since_ms=entry.since_ms, endpoint=entry.endpoint, log=entry.log, restarts=kept.get("restarts", 0)
    )
    failure = report if report.get("state") == "failed" and report.get("written_ms", 0) >= entry.since_ms else {}
    steps = f"{failure['mend']} To start again, run:" if failure.get("mend") else f"See {entry.log}, then run:"
    again_ms = kept.get("again_ms")
    if not entry.keeper.alive or again_ms is not None:
        how = failure.get("message") or _how_it_ended(LABELS[name], Path(entry.log), kept)
        ended = replace(component, exit_code=kept.get("exit_code"), message=how, mend=f"{steps} metajournal up")
        return ended if again_ms is None else _restarting(ended, again_ms)
    state, message = _server_state(name, entry) if name in _KEYS else _reported_state(entry, report)
    if state in ("running", "starting"):
        told = message or _restarted(component, kept, starting=state == "starting")
        return replace(component, state=state, pid=kept.get("pid"), message=told)
    mend = str(report.get("mend", "")) if state == "waiting" else f"{steps} metajournal down; metajournal up"
    return replace(component, state=state, pid=kept.get("pid"), message=message, mend=mend)


def _unkept(name: str, report: Mapping[str, Any]) -> Component:
    """A component that `up` has not started here; one that was started separately (`metajournal stream`) reports so."""
    pid = report.get("pid")
    fresh = time.time() - int(report.get("written_ms", 0)) / 1000 <= STALE_S
    if fresh and isinstance(pid, int) and ProcessId.of(pid) is not None:
        mend = str(report.get("mend", "")) if report.get("state") == "waiting" else ""
        state, message = str(report.get("state", "starting")), str(report.get("message", ""))
        return Component(name, state, pid=pid, message=message, mend=mend)
    return Component(name, "not started", mend="metajournal up")


def _restarting(ended: Component, again_ms: int) -> Component:
    """A component whose keeper is about to restart it."""
    wait_s = max(0.0, again_ms / 1000 - time.time())
    return replace(ended, state="restarting", message=f"{ended.message}; restarting in {wait_s:.0f} s")


def _restarted(component: Component, kept: Mapping[str, Any], *, starting: bool) -> str:
    """A sentence that a component was or is being restarted, and why; empty if it was not."""
    if not component.restarts or kept.get("last_exit_code") is None:
        return ""
    times = "once" if component.restarts == 1 else f"{component.restarts} times"
    verb = "is being started again" if starting else "was restarted"
    return f"{LABELS[component.name]} {ending(kept['last_exit_code'])} and {verb} ({times} since up)"


def _how_it_ended(name: str, log: Path, kept: Mapping[str, Any]) -> str:
    """What ended and how, with the last message of its log; one of long before the end is not its cause."""
    code, ended_ms = kept.get("exit_code"), kept.get("ended_ms")
    if code is None or ended_ms is None:
        return (
            f"how {name} ended is not known: it was killed together with its keeper, the machine went down, or the "
            "disk was full"
        )
    how = f"{name} {ending(code)}"
    if signal_of(code) is not None:
        return how
    tail = log_tail(log, _TAIL_LINES, width=_TAIL_WIDTH).strip().splitlines()
    logged_s = kept["logged_ms"] / 1000 if kept.get("logged_ms") else log.stat().st_mtime if tail else 0.0
    quiet_s = ended_ms / 1000 - logged_s if tail else 0.0
    if quiet_s > STALE_S:
        return f"{how}; its log has no entry of the last {quiet_s:.0f} s before"
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
        return "" if _TRACE.match(line) or line.startswith(("{", KEEPER_NOTE)) else line
    if not isinstance(record, dict) or not str(record.get("logger", "")).startswith("metajournal"):
        return ""
    message, code = str(record.get("message", "")), record.get("code")
    return f"{code}: {message}" if code else message


def _reported_state(entry: Entry, report: Mapping[str, Any]) -> tuple[str, str]:
    written_ms = int(report.get("written_ms", 0))
    if written_ms < entry.since_ms:
        return "starting", ""
    if time.time() - written_ms / 1000 > STALE_S:
        return "stuck", f"has not reported for {time.time() - written_ms / 1000:.0f} s"
    return str(report.get("state", "starting")), str(report.get("message", ""))


def _server_state(name: str, entry: Entry) -> tuple[str, str]:
    if answers(entry.ports[0]) if name == "kafka" else _health(entry.ports[0]):
        return "running", ""
    if time.time() - entry.since_ms / 1000 <= START_S:
        return "starting", ""
    return "no answer", f"{entry.endpoint} does not answer"


def _health(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=3)
    try:
        connection.request("GET", "/_cluster/health?local=true&filter_path=status")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
