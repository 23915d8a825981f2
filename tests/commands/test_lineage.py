"""Lineage on the command line: facts that are typed or imported are drawn, listed, exported and told as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Collection
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from metajournal import ExternalWrite, Journal, RunStarted, dataset, stream
from metajournal.cli import main
from metajournal.domains.lineage import views as lineage_views
from metajournal.domains.lineage.openlineage import facts_of
from metajournal.domains.lineage.values import LineagePage, RunList, lineage_json
from metajournal.domains.lineage.walk import Direction, Relation, walk
from metajournal.schemas.errors import UnknownEntityError
from metajournal.schemas.urn import Urn
from metajournal.terminal import parsing
from metajournal.terminal.options import Options
from metajournal.terminal.rendering import console
from tests.installation import Installation
from tests.producers.test_openlineage import EVENT
from tests.wait import eventually

RAW, CLEAN, REPORT = (dataset("typed-lineage", name) for name in ("raw", "clean", "report"))
WASH = "program:typed-lineage/Nightly/spark/wash"
RUN = "run:typed-lineage/Nightly/spark/wash/r1"


def drawn(view: Any) -> str:
    out, screen = io.StringIO(), console()
    screen.file = out
    screen.print(view, crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def relation(data: str, program: str, access: str | None, *runs: str) -> dict[str, Any]:
    how = {} if access is None else {"access": access}
    return {"data": f"dataset.d.{data}", "program": f"spark.d.app.{program}", **how, "runs": list(runs)}


def answer(*relations: dict[str, Any], **more: Any) -> dict[str, Any]:
    named: dict[str, Any] = {
        "programs": {one["program"]: {"urn": f"program:d/app/spark/{one['program'][12:]}"} for one in relations},
        "data": {one["data"]: {"urn": f"dataset:d/{one['data'][10:]}"} for one in relations},
    }
    return {"start": "0", "end": "1", "relations": list(relations), **named, **more}


def test_a_lineage_is_drawn_as_a_tree_with_each_node_unfolded_once() -> None:
    told = answer(
        relation("raw", "wash", "read", "1", "2"),
        relation("clean", "wash", "write", "1", "2"),
        relation("clean", "print", "read", "3"),
        relation("clean", "print", "write", "3"),
        relation("raw", "print", None, "3"),
    )
    assert drawn(lineage_views.lineage_view(told, dataset("d", "raw"))).splitlines() == [
        "dataset:d/raw",
        "├── – accessed by program:d/app/spark/print  1 run",
        "│   └── ← reads, → writes dataset:d/clean  1 run",
        "│       └── ← written by program:d/app/spark/wash  2 runs  (shown elsewhere)",
        "└── → read by program:d/app/spark/wash  2 runs",
        "    └── → writes dataset:d/clean  2 runs  (shown elsewhere)",
        "2 programs, 2 data, 5 relations",
    ]


def test_a_definition_is_named_and_counts_as_no_run() -> None:
    told = answer(
        relation("raw", "view", "read", "definition-1"),
        relation("clean", "view", "write", "definition-1", "7"),
    )
    assert drawn(lineage_views.lineage_view(told, dataset("d", "raw"))).splitlines() == [
        "dataset:d/raw",
        "└── → read by program:d/app/spark/view  by definition",
        "    └── → writes dataset:d/clean  by definition, 1 run",
        "1 program, 2 data, 2 relations",
    ]


DASHBOARD = (
    relation("orders", "load", "read", "1"),
    relation("mart", "load", "write", "1"),
    relation("mart", "export", "read", "2"),
    relation("dashboard", "export", "read", "2"),
    relation("file", "export", "write", "2"),
    relation("mart", "show", "read", "3"),
    relation("dashboard", "show", "write", "3"),
)


def test_downstream_no_branch_goes_upstream() -> None:
    """The dashboard is what `show` writes, and no child of the export that also reads it."""
    view = lineage_views.lineage_view(answer(*DASHBOARD), dataset("d", "orders"), direction="downstream")
    assert drawn(view).splitlines() == [
        "dataset:d/orders",
        "└── → read by program:d/app/spark/load  1 run",
        "    └── → writes dataset:d/mart  1 run",
        "        ├── → read by program:d/app/spark/export  1 run",
        "        │   └── → writes dataset:d/file  1 run",
        "        └── → read by program:d/app/spark/show  1 run",
        "            └── → writes dataset:d/dashboard  1 run",
        "                └── → read by program:d/app/spark/export  1 run  (shown elsewhere)",
        "3 programs, 4 data, 7 relations",
    ]


@pytest.mark.parametrize(
    ("direction", "there", "back"), [("downstream", "→ read by", "→ writes"), ("upstream", "← written by", "← reads")]
)
def test_a_program_that_writes_what_it_reads_is_drawn_with_both_in_each_direction(
    direction: Direction, there: str, back: str
) -> None:
    told = answer(relation("a", "p", "read", "1"), relation("a", "p", "write", "1"))
    shown = drawn(lineage_views.lineage_view(told, dataset("d", "a"), direction=direction)).splitlines()
    assert shown[1:3] == [
        f"└── {there} program:d/app/spark/p  1 run",
        f"    └── {back} dataset:d/a  1 run  (shown elsewhere)",
    ]


class Known:
    """The relations of a walk, in memory."""

    def __init__(self, relations: list[Relation]) -> None:
        self.relations = relations

    def programs(self, data: Collection[str]) -> set[str]:
        return {relation.program for relation in self.relations if relation.data in data}

    def of(self, programs: Collection[str]) -> list[Relation]:
        return [relation for relation in self.relations if relation.program in programs]


ACCESSES = st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(["read", "write", "unknown"]))
ALONG = {"upstream": ("← reads", "← written by"), "downstream": ("→ read by", "→ writes")}


@given(st.sets(ACCESSES, max_size=20), st.sampled_from(["upstream", "downstream", "both"]))
def test_every_node_is_drawn_and_in_one_direction_every_relation_once(
    accesses: set[tuple[int, int, str]], direction: Direction
) -> None:
    relations = [
        Relation(f"dataset:d/d{data}", f"program:d/a/spark/p{program}", access, ["run:d/a/spark/p/1"], ())
        for data, program, access in sorted(accesses)
    ]
    walked = walk("dataset:d/d0", Known(relations), levels=20, limit=100, direction=direction)
    told = lineage_json(walked, start_ms=0, end_ms=1)
    text = drawn(lineage_views.lineage_view(told, dataset("d", "d0"), direction=direction))
    urns = {shown["urn"] for side in ("programs", "data") for shown in told[side].values()}
    assert {word for word in text.split() if word.startswith(("dataset:", "program:"))} == {"dataset:d/d0", *urns}
    for one_way, words in ALONG.items():
        count = sum(text.count(word) for word in words)
        if direction == one_way:
            assert count == len([relation for relation in walked.relations if relation.access != "unknown"])
        elif direction != "both":
            assert count == 0


def test_what_is_not_all_or_not_final_is_said() -> None:
    told = answer(relation("raw", "w\x1b[2J", "read", "1"), partial=True, why="there are more", final=False)
    text = drawn(lineage_views.lineage_view(told, dataset("d", "raw")))
    assert "incomplete: there are more; not final: facts that arrive later may change it" in text
    assert "program:d/app/spark/w\\x1b[2J" in text
    nothing = drawn(lineage_views.lineage_view(answer(), dataset("d", "raw")))
    assert nothing.splitlines() == ["dataset:d/raw", "no access to it is known"]
    nothing = drawn(lineage_views.lineage_view(answer(), dataset("d", "raw"), within=True))
    assert nothing.splitlines() == ["dataset:d/raw", "no access to it is known in this window"]


def test_a_fact_is_typed_like_any_event() -> None:
    typed = parsing.typed_options("RunStarted", RUN, data='{"at": 5}')
    assert typed.event == RunStarted(RUN, 5)
    line = '{"type": "ExternalWrite", "stream": "stream:a/b", "source": "x", "at": "1970-01-01T00:00:01Z"}'
    assert parsing.typed_event(line).event == ExternalWrite(stream("a", "b"), "x", 1_000)


@pytest.mark.services
def test_lineage_is_emitted_drawn_listed_imported_and_exported(installation: Installation) -> None:
    accesses = [
        {"data": str(RAW), "access": "in", "at": 110, "component": "reader"},
        {"data": str(CLEAN), "access": "out", "at": 120, "metadata": {"user": {"tags": ["nightly"]}}},
    ]
    lines: list[dict[str, Any]] = [
        {"type": "EntityRegistered", "entity": str(CLEAN)},
        {"type": "RunStarted", "run": RUN, "at": 100},
        {"type": "AccessesRecorded", "run": RUN, "accesses": accesses},
        {"type": "RunStopped", "run": RUN, "at": 200, "status": "COMPLETED"},
    ]
    results = [json.loads(line) for line in said(installation, "emit", "-", stdin="\n".join(map(json.dumps, lines)))]
    assert [one["outcome"] for one in results] == ["accepted"] * 4
    assert results[1]["entity"] == RUN
    told = json_of(installation, "lineage", str(RAW))
    assert [(one["data"], one["access"], one["runs"]) for one in told["relations"]] == [
        ("dataset.typed-lineage.clean", "write", ["r1"]), ("dataset.typed-lineage.raw", "read", ["r1"]),
    ]  # fmt: skip
    assert json_of(installation, "lineage", str(RAW), "--to", "0.1")["relations"] == []  # seconds
    before = json_of(installation, "lineage", str(RAW), "--as-at", results[1]["position"])
    assert before["relations"] == []
    assert f"→ read by {WASH}  1 run" in "\n".join(said(installation, "lineage", str(RAW)))
    assert json_of(installation, "runs", WASH)["runs"] == [
        {"run": RUN, "program": WASH, "id": "r1", "start": 100, "stop": 200, "status": "COMPLETED"}
    ]
    run = json_of(installation, "run", RUN)
    assert run["metadata"]["user"]["tags"] == ["nightly"]
    assert [one["data"] for one in run["accesses"]] == [str(CLEAN), str(RAW)]
    assert "COMPLETED" in "\n".join(said(installation, "run", RUN))
    written = {"at": 120, "program": WASH, "run": RUN, "source": None}
    assert json_of(installation, "show", str(CLEAN))["latest_write"] == written
    assert json_of(installation, "show", RUN)["record"] == {"start": 100, "stop": 200, "status": "COMPLETED"}

    tailed = "\n".join(
        said(installation, "tail", "--domain", "lineage", "--since", results[1]["position"], "--limit", "2")
    )
    assert "access read, at 1970-01-01 00:00:00.110Z, component reader" in tailed
    exported = [json.loads(line) for line in said(installation, "lineage", "export", str(RAW))]
    assert [one["eventType"] for one in exported] == ["START", "COMPLETE"]
    assert facts_of(exported[0])[0] == RunStarted(RUN, 100)
    foreign = json.dumps({**EVENT, "outputs": [{"namespace": "typed-lineage", "name": "report"}]})
    imported = installation.metajournal("lineage", "import", "-", "--json", stdin=f"{foreign}\n{{}}\n")
    assert imported.returncode == 1
    assert json.loads(imported.stdout)["facts"] == 2
    assert [one["line"] for one in json.loads(imported.stdout)["refused"]] == [2]
    eventually(lambda: json_of(installation, "lineage", str(REPORT))["relations"], timeout_s=60)


@pytest.mark.services
def test_the_client_tells_lineage_and_the_facts_topic(installation: Installation) -> None:
    raw, run = dataset("client-lineage", "raw"), "run:client-lineage/App/flow/f/1"
    with Journal.connect(installation.settings) as journal:
        first = journal.emit(RunStarted(run, 5))
        since = first.position
        receipt = journal.emit(ExternalWrite(stream("client-lineage", "s"), "x", 7))
        event = parsing.event_of("AccessesRecorded", {"run": run, "accesses": [[str(raw), "write", 6]]})
        for one in (first, receipt, journal.emit(event)):
            assert one.outcome(60).word == "accepted"
        assert journal.emit(RunStarted(run, 9)).outcome(60).word == "unchanged"
        assert journal.lineage.of(raw)["data"].keys() == {"dataset.client-lineage.raw"}
        assert journal.lineage.run(run)["start"] == 5
        assert [one["data"] for one in journal.lineage.accesses(run).items] == [raw]
        assert [one["id"] for one in journal.lineage.runs("program:client-lineage/App/flow/f", 0, 10).items] == ["1"]
        assert [len(accesses) for _, accesses in journal.lineage.runs_in(raw)] == [1]
        registered = journal.emit(parsing.event_of("EntityRegistered", {"entity": str(raw)}))
        journal.search("", at_least=registered.position, timeout_s=60)  # the index shows what the lake holds
        system = journal.metadata(raw)["SYSTEM"].properties
        assert (system["latest_write_time"], system["latest_write_program"]) == (
            "6", "program:client-lineage/App/flow/f",
        )  # fmt: skip
        facts = journal.changes("lineage", since=since, timeout_s=60, limit=1, urn=run)
        assert [one.record["type"] for one in facts] == ["AccessRecorded"]


def said(installation: Installation, *words: str, stdin: str | None = None) -> list[str]:
    """The lines that a command prints."""
    json_ = ["--json"] if words[0] == "emit" else []
    done = installation.metajournal(*words, *json_, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def json_of(installation: Installation, *words: str) -> Any:
    done = installation.metajournal(*words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


class _NoRuns:
    """A journal that knows no run, some entities, and lineage of some data outside of every window."""

    def __init__(self, *known: str, touched: str = "") -> None:
        self.known, self.touched = known, touched
        self.lineage = self

    def __enter__(self) -> _NoRuns:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def runs(self, program: Urn, **_: Any) -> LineagePage:
        return LineagePage([], None)

    def of(self, data: Urn, **window: Any) -> dict[str, Any]:
        touched = data in self.touched and "start" not in window
        return answer(*[relation("buoys", "wash", "read", "1")] * touched)

    def show(self, program: Urn) -> None:
        if program not in self.known:
            raise UnknownEntityError(program)


@pytest.mark.parametrize("known", [True, False])
def test_of_a_program_that_nobody_knows_it_is_said(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    monkeypatch.setattr(Options, "journal", lambda _: _NoRuns(*["program:a/b/spark/d"] * known))
    result = CliRunner().invoke(main, ["runs", "program:a/b/spark/d", "--json"])
    assert (result.exit_code, json.loads(result.stdout)["runs"]) == (0, [])
    assert result.stderr == ("" if known else "note: No lineage is known of program:a/b/spark/d: check the spelling.\n")


def test_of_data_that_was_deleted_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = _NoRuns()
    monkeypatch.setattr(journal, "show", _deleted)
    monkeypatch.setattr(Options, "journal", lambda _: journal)
    result = CliRunner().invoke(main, ["lineage", "dataset:w/buoys"])
    assert (
        result.stderr == "note: No lineage is known of dataset:w/buoys: it was deleted at 1970-01-01 00:00:00.007Z.\n"
    )


PARTIAL = "there are more than 2 nodes; only the nearest ones are included"


@pytest.mark.parametrize(("partial", "code"), [(PARTIAL, 1), (None, 0)])
def test_an_export_of_a_part_says_so(monkeypatch: pytest.MonkeyPatch, partial: str | None, code: int) -> None:
    asked = dict[str, Any]()

    def runs_in(_: Urn, **how: Any) -> RunList:
        asked.update(how)
        told = {"run": RUN, "program": WASH, "id": "r1", "start": 100, "stop": 200, "status": "COMPLETED"}
        return RunList([(told, [])], partial=partial)

    journal = _NoRuns()
    monkeypatch.setattr(journal, "runs_in", runs_in, raising=False)
    monkeypatch.setattr(Options, "journal", lambda _: journal)
    result = CliRunner().invoke(main, ["lineage", "export", "dataset:w/buoys", "--limit", "2"])
    assert [json.loads(line)["eventType"] for line in result.stdout.splitlines()] == ["START", "COMPLETE"]
    assert (result.exit_code, asked["limit"]) == (code, 2)
    said = f"note: This is not the whole lineage: {PARTIAL}. --limit says how many to follow.\n"
    assert result.stderr == (said if partial else "")


@pytest.mark.parametrize("final", [True, False])
def test_runs_as_at_a_time_that_is_not_over_say_so(monkeypatch: pytest.MonkeyPatch, final: bool) -> None:
    journal = _NoRuns(WASH)
    monkeypatch.setattr(journal, "runs", lambda *_, **__: LineagePage([], None, final=final))
    monkeypatch.setattr(Options, "journal", lambda _: journal)
    words = ["runs", WASH, "--as-at", "2026-01-01"]
    shown: dict[str, Any] = {"runs": [], "cursor": None, **({} if final else {"final": False})}
    assert json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout) == shown
    lines = CliRunner().invoke(main, words).stdout.splitlines()
    assert lines == ["no runs"] + ["not final: facts that arrive later may change it"] * (not final)


def test_names_of_runs_and_components_make_no_line_of_their_own() -> None:
    forged = "r1\nr2  1970-01-01"
    told = {"run": RUN, "program": WASH, "id": forged, "start": 100, "stop": 200, "status": "COMPLETED"}
    lines = drawn(lineage_views.runs_view({"runs": [told], "cursor": None})).splitlines()
    assert (len(lines), lines[1].partition("  ")[0]) == (2, "r1\\nr2")
    touched = [{"access": "read", "data": str(RAW), "component": forged, "at": 1}]
    shown = {**told, "accesses": touched, "metadata": {}, "cursor": None}
    assert "r1\\nr2" in drawn(lineage_views.run_view(shown)).splitlines()[-1]


def _deleted(entity: Urn) -> None:
    raise UnknownEntityError(entity, "It was deleted.", deleted_at=7)


@pytest.mark.parametrize(
    ("known", "touched", "noted"), [("dataset:w/buoys", "", False), ("", "dataset:w/buoys", False), ("", "", True)]
)
def test_of_data_that_nobody_knows_it_is_said(
    monkeypatch: pytest.MonkeyPatch, known: str, touched: str, noted: bool
) -> None:
    monkeypatch.setattr(Options, "journal", lambda _: _NoRuns(known, touched=touched))
    result = CliRunner().invoke(main, ["lineage", "dataset:w/buoys", "--from", "2026-01-01"])
    assert result.stdout.splitlines()[-1] == "no access to it is known in this window"
    assert result.stderr == ("note: No lineage is known of dataset:w/buoys: check the spelling.\n" if noted else "")
