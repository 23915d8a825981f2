"""Questions about lineage over real tables, held against a naive reading of the facts themselves."""

from __future__ import annotations

import base64
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal import (
    AccessesRecorded,
    EntityDeleted,
    EntityRegistered,
    ExternalWrite,
    RunStarted,
    RunStopped,
    TagsAdded,
    Urn,
    app,
    dataset,
    program,
    run,
    stream,
)
from metajournal.domains.lineage import relations as lineage_relations
from metajournal.domains.lineage.cursors import OF_ACCESSES, OF_RUNS, read_cursor
from metajournal.domains.lineage.queries import LineageQueries
from metajournal.domains.lineage.questions import LineageQuestion, RunQuestion, RunsQuestion, WriteQuestion
from metajournal.domains.lineage.values import LineagePage, RunList, accesses_json
from metajournal.lake.reading import LakeReader
from metajournal.lake.tables import Lake
from metajournal.schemas.errors import InputError, NotFinalError, UnknownEntityError
from metajournal.schemas.positions import Position
from metajournal.schemas.topics import TopicNames
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord
from tests.properties import examples
from tests.streaming.harness import TOPIC, Fold, placed

PARTITIONS = 2
RAW, CLEAN, REPORT = (dataset("shop", name) for name in ("raw", "clean", "report"))
CLICKS = stream("shop", "clicks")
WASH = program("shop", "Nightly", "spark", "wash")
PRINT = program("shop", "Weekly", "workflow", "print")
DAY_MS = 86_400_000


def run_of(of: str, number: int | str) -> str:
    return f"run:{of.partition(':')[2]}/r{number}"


def records_of(events: Iterable[Any], **fields: Any) -> list[JournalRecord]:
    """Events in order, each in its partition, appended a second after the one before."""
    made = [
        record_of(event, number, header=header_for(event, number + 1, **fields)) for number, event in enumerate(events)
    ]
    return placed(made, PARTITIONS)


def folded(folder: Path, events: Sequence[Any]) -> Fold:
    fold = Fold(folder, PARTITIONS)
    fold.batch(records_of(events))
    return fold


class Reader:
    """Puts the questions that its arguments make."""

    def __init__(self, queries: LineageQueries) -> None:
        self._queries = queries

    def lineage(
        self, tenant: str, data: Urn, start_ms: int, end_ms: int, *, as_at: Any = None, final_only: bool = False,
        **asked: Any,
    ) -> dict[str, Any]:  # fmt: skip
        question = LineageQuestion.of(data, start_ms, end_ms, **asked)
        return self._queries.of(tenant, question, as_at=as_at, final_only=final_only)

    def run(self, tenant: str, run: Urn, *, as_of: Any = None, as_at: Any = None) -> dict[str, Any]:
        return self._queries.run(tenant, RunQuestion.of(run, as_of=as_of), as_at=as_at)

    def runs(self, tenant: str, program: Urn, *window: int, as_of: Any = None, **how: Any) -> LineagePage:
        return self._queries.runs(tenant, RunsQuestion.of(program, *window, as_of=as_of), **how)

    def accesses(self, tenant: str, run: Urn, *, as_of: Any = None, **how: Any) -> LineagePage:
        return self._queries.accesses(tenant, RunQuestion.of(run, as_of=as_of), **how)

    def runs_in(self, tenant: str, data: Urn, *window: int, as_at: Any = None, **asked: Any) -> RunList:
        return self._queries.runs_in(tenant, LineageQuestion.of(data, *window, **asked), as_at=as_at)

    def latest_write(self, tenant: str, data: Urn, *, as_of: Any = None) -> dict[str, Any] | None:
        return self._queries.latest_write(tenant, WriteQuestion.of(data, as_of=as_of))


def reader(fold: Fold) -> Reader:
    return Reader(LineageQueries(Lake(str(fold.path)), TopicNames(), PARTITIONS))


NIGHTLY = [
    RunStarted(run_of(WASH, 1), 100),
    AccessesRecorded(run_of(WASH, 1), [(RAW, "read", 110, "reader"), (CLEAN, "write", 120, "writer")]),
    RunStopped(run_of(WASH, 1), 200, "COMPLETED"),
    RunStarted(run_of(WASH, 2), 300),
    AccessesRecorded(run_of(WASH, 2), [(RAW, "read", 310, "other"), (CLEAN, "write", 320)]),
    AccessesRecorded(run_of(PRINT, 1), [(CLEAN, "read", 400), (REPORT, "write", 410), (CLEAN, "unknown", 420, "x")]),
    RunStopped(run_of(PRINT, 1), 500, "FAILED"),
    ExternalWrite(CLICKS, "browser", 50),
]


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Fold:
    return folded(tmp_path_factory.mktemp("nightly"), NIGHTLY)


def told(answer: dict[str, Any]) -> set[tuple[Any, ...]]:
    """Relations, each as data, program, access, runs and components."""
    return {
        (one["data"].rpartition(".")[2], one["program"].rpartition(".")[2], one.get("access"), *one["runs"])
        for one in answer["relations"]
    }


def test_lineage_goes_from_data_to_programs_to_data(nightly: Fold) -> None:
    first = reader(nightly).lineage("default", RAW, 0, 1_000, levels=1)
    assert told(first) == {("raw", "wash", "read", "r1", "r2"), ("clean", "wash", "write", "r1", "r2")}
    whole = reader(nightly).lineage("default", RAW, 0, 1_000)
    assert told(whole) == {
        *told(first),
        ("clean", "print", "read", "r1"),
        ("clean", "print", None, "r1"),
        ("report", "print", "write", "r1"),
    }
    assert [one["component"] for one in whole["relations"] if "component" in one] == [
        ["writer"], ["x"], ["other", "reader"],
    ]  # fmt: skip
    assert list(whole) == ["start", "end", "relations", "programs", "data"]
    assert (whole["start"], whole["end"]) == ("0", "1000")
    assert list(whole["programs"]) == ["spark.shop.Nightly.wash", "workflow.shop.Weekly.print"]
    assert whole["programs"]["workflow.shop.Weekly.print"]["id"]["type"] == "workflow"
    assert list(whole["data"]) == ["dataset.shop.clean", "dataset.shop.raw", "dataset.shop.report"]


@pytest.mark.thorough
@pytest.mark.parametrize("levels", [1, 2, 10])
def test_relations_that_are_too_many_to_be_held_are_looked_up_with_the_same_answer(
    nightly: Fold, monkeypatch: pytest.MonkeyPatch, levels: int
) -> None:
    held = [reader(nightly).lineage("default", root, 0, 1_000, levels=levels) for root in (RAW, CLEAN, REPORT, CLICKS)]
    monkeypatch.setattr(lineage_relations, "MOST_HELD", -1)
    monkeypatch.setattr(lineage_relations, "Near", None)  # would fail where it was made
    for root, answer in zip((RAW, CLEAN, REPORT, CLICKS), held, strict=True):
        assert reader(nightly).lineage("default", root, 0, 1_000, levels=levels) == answer


@pytest.mark.parametrize(
    ("start", "end", "runs"),
    [
        (0, 100, []),  # the first begins at the end, which is outside
        (0, 101, ["r1"]),
        (200, 300, ["r1"]),  # it stopped at the start, which is inside
        (201, 300, []),
        (201, 301, ["r2"]),
        (10_000, 20_000, ["r2"]),  # it has not stopped
    ],
)
def test_a_run_counts_in_a_window_that_it_touches(nightly: Fold, start: int, end: int, runs: list[str]) -> None:
    answer = reader(nightly).lineage("default", RAW, start, end, levels=1)
    assert [one["runs"] for one in answer["relations"]] == ([runs, runs] if runs else [])


def test_directions_follow_what_was_written_from_what(nightly: Fold) -> None:
    up = reader(nightly).lineage("default", CLEAN, 0, 1_000, direction="upstream")
    assert told(up) == {
        ("clean", "wash", "write", "r1", "r2"), ("raw", "wash", "read", "r1", "r2"), ("clean", "print", None, "r1"),
        ("clean", "print", "read", "r1"),
    }  # fmt: skip
    down = reader(nightly).lineage("default", CLEAN, 0, 1_000, direction="downstream")
    assert told(down) == {
        ("clean", "print", "read", "r1"), ("clean", "print", None, "r1"), ("report", "print", "write", "r1"),
    }  # fmt: skip


def test_a_node_limit_says_that_the_answer_is_partial(nightly: Fold) -> None:
    answer = reader(nightly).lineage("default", RAW, 0, 1_000, limit=3)
    assert told(answer) == {("raw", "wash", "read", "r1", "r2"), ("clean", "wash", "write", "r1", "r2")}
    assert (answer["partial"], answer["why"]) == (
        True,
        "there are more than 3 nodes; only the nearest ones are included",
    )


def test_the_runs_in_a_lineage_say_where_a_limit_left_some_out(nightly: Fold) -> None:
    some = reader(nightly).runs_in("default", RAW, 0, 1_000, limit=3)
    assert [(run["run"], len(accesses)) for run, accesses in some] == [(run_of(WASH, 1), 2), (run_of(WASH, 2), 2)]
    assert some.partial == "there are more than 3 nodes; only the nearest ones are included"
    every = reader(nightly).runs_in("default", RAW, 0, 1_000)
    assert ([run["run"] for run, _ in every][2:], every.partial) == ([run_of(PRINT, 1)], None)


def test_cycles_end(tmp_path: Path) -> None:
    events = [AccessesRecorded(run_of(WASH, 1), [(RAW, "read", 1), (RAW, "write", 2), (CLEAN, "read", 3)])]
    events += [AccessesRecorded(run_of(PRINT, 1), [(CLEAN, "write", 4), (RAW, "read", 5)])]
    answer = reader(folded(tmp_path, events)).lineage("default", RAW, 0, 10, levels=1_000)
    assert len(answer["relations"]) == 5


def test_tenants_see_their_own_lineage(tmp_path: Path) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(records_of(NIGHTLY, tenant="acme"))
    assert reader(fold).lineage("default", RAW, 0, 1_000)["relations"] == []
    assert len(reader(fold).lineage("acme", RAW, 0, 1_000)["relations"]) == 5
    with pytest.raises(UnknownEntityError):
        reader(fold).run("default", run("shop", "Nightly", "spark", "wash", "r1"))
    assert reader(fold).runs("default", WASH, 0, 1_000).items == []
    assert reader(fold).latest_write("default", CLEAN) is None


@pytest.mark.thorough
def test_deleting_an_app_its_programs_runs_or_data_removes_no_lineage(tmp_path: Path) -> None:
    nightly = app("shop", "Nightly")
    registered = [EntityRegistered(one) for one in (nightly, WASH, RAW, CLEAN)]
    fold = folded(tmp_path, [*registered, *NIGHTLY])
    before = reader(fold).lineage("default", RAW, 0, 1_000)
    runs = reader(fold).runs("default", WASH, 0, 1_000)
    gone = [EntityDeleted(one) for one in (nightly, RAW, CLEAN, run_of(WASH, 1))]
    fold.batch(records_of([*registered, *NIGHTLY, *gone]))
    with pytest.raises(UnknownEntityError):
        LakeReader(Lake(str(fold.path)), TopicNames(), PARTITIONS).current("default", RAW)
    assert reader(fold).lineage("default", RAW, 0, 1_000) == before
    assert reader(fold).runs("default", WASH, 0, 1_000) == runs


def test_a_run_tells_times_status_and_recorded_metadata_by_scope(tmp_path: Path) -> None:
    early = {"user": {"properties": {"owner": "ali", "a": "1"}, "tags": ["b"]}, "system": {"tags": ["s"]}}
    late = {"user": {"properties": {"owner": "bea"}, "tags": ["a"]}}
    wash = run_of(WASH, 1)
    events = [
        AccessesRecorded(wash, [(RAW, "read", 20, None, late), (CLEAN, "write", 10, None, early), (REPORT, "read", 5)]),
        RunStopped(wash, 90, "KILLED"),
        RunStarted(run_of(WASH, "%20/2".replace("/", "%2F")), 7),
        TagsAdded(wash, ["not recorded"]),
        RunStopped(run_of(PRINT, 1), 66, "FAILED"),
    ]
    known = reader(folded(tmp_path, events))
    assert known.run("default", Urn.parse(wash)) == {
        "run": wash, "program": WASH, "id": "r1", "start": 5, "stop": 90, "status": "KILLED",
        "metadata": {
            "user": {"properties": {"a": "1", "owner": "bea"}, "tags": ["a", "b"]},
            "system": {"properties": {}, "tags": ["s"]},
        },
    }  # fmt: skip
    other = known.run("default", run("shop", "Nightly", "spark", "wash", "r /2"))
    assert (other["id"], other["start"], other["stop"], other["status"]) == ("r /2", 7, -1, None)
    stopped = known.run("default", run("shop", "Weekly", "workflow", "print", "r1"))
    assert (stopped["start"], stopped["stop"]) == (None, 66)
    assert [one["id"] for one in known.runs("default", PRINT, 66, 67).items] == ["r1"]
    assert known.runs("default", PRINT, 0, 66).items == []
    with pytest.raises(UnknownEntityError):
        known.run("default", run("shop", "Weekly", "workflow", "print", "never"))


def test_metadata_of_an_access_that_another_took_the_place_of_is_not_told_in_whatever_order(tmp_path: Path) -> None:
    stale = {"user": {"properties": {"k": "stale"}, "tags": ["stale"]}}
    earlier, later = (RAW, "read", 5, "c"), (RAW, "read", 10, "c", stale)
    events = [AccessesRecorded(run_of(WASH, 1), [one]) for one in (later, earlier)]
    events += [AccessesRecorded(run_of(WASH, 2), [one]) for one in (earlier, later)]
    known = reader(folded(tmp_path, events))
    nothing: dict[str, Any] = {"properties": {}, "tags": []}
    for number in (1, 2):
        told = known.run("default", Urn.parse(run_of(WASH, number)))
        assert (told["start"], told["metadata"]) == (5, {"user": nothing, "system": nothing})
    before = known.run("default", Urn.parse(run_of(WASH, 1)), as_of=9)
    assert (before["start"], before["metadata"]["user"]) == (5, nothing)


def test_an_instant_is_a_window(nightly: Fold) -> None:
    going = reader(nightly).runs("default", WASH, 45, 45).items
    assert {one["id"] for one in going} == {
        one["id"] for one in reader(nightly).runs("default", WASH, 0, 1_000).items
        if one["start"] < 45 and (one["stop"] == -1 or one["stop"] >= 45)
    }  # fmt: skip
    with pytest.raises(InputError, match="starts at 46 and ends at 45"):
        reader(nightly).runs("default", WASH, 46, 45)


def test_accesses_of_a_run_are_told_once_each_in_pages(tmp_path: Path) -> None:
    wash = run_of(WASH, 1)
    many = [(dataset("shop", f"d{number:02}"), "read", number, "c" if number % 2 else None) for number in range(7)]
    again = [(dataset("shop", "d03"), "read", 1, "c", {"user": {"tags": ["first"]}}), (RAW, "write", 9)]
    fold = folded(
        tmp_path, [AccessesRecorded(wash, many), AccessesRecorded(wash, again), RunStarted(run_of(WASH, 2), 1)]
    )
    known, one = reader(fold), Urn.parse(wash)
    whole = known.accesses("default", one)
    assert whole.cursor is None
    assert [row["data"] for row in whole.items] == [*(str(data) for data, *_ in many), str(RAW)]
    assert whole.items[3] == {
        "data": "dataset:shop/d03", "access": "read", "at": 1, "component": "c",
        "metadata": {"user": {"properties": {}, "tags": ["first"]}, "system": {"properties": {}, "tags": []}},
    }  # fmt: skip
    assert whole.items[0] == {
        "data": "dataset:shop/d00", "access": "read", "at": 0, "component": None, "metadata": None,
    }  # fmt: skip
    pages, cursor = [], None
    while True:
        page = known.accesses("default", one, limit=3, cursor=cursor)
        pages.append(len(page.items))
        assert whole.items[: len(page.items)] == page.items
        del whole.items[: len(page.items)]
        cursor = page.cursor
        if cursor is None:
            break
    assert (pages, whole.items) == ([3, 3, 2], [])
    assert known.accesses("default", Urn.parse(run_of(WASH, 2))).items == []
    with pytest.raises(UnknownEntityError):
        known.accesses("default", Urn.parse(run_of(WASH, 3)))


def test_a_cursor_of_another_machine_is_refused_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fold = folded(tmp_path / "lake", [RunStarted(run_of(WASH, number), number) for number in range(3)])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "here"))
    cursor = reader(fold).runs("default", WASH, 0, 1_000, limit=1).cursor
    assert len(reader(fold).runs("default", WASH, 0, 1_000, cursor=cursor).items) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "there"))
    with pytest.raises(InputError, match="not known on this machine: it was created on another one") as refused:
        reader(fold).runs("default", WASH, 0, 1_000, cursor=cursor)
    assert refused.value.code == "unknown-cursor"


def test_runs_come_last_begun_first_and_pages_skip_and_double_nothing_while_facts_arrive(tmp_path: Path) -> None:
    started = [RunStarted(run_of(WASH, number), 10 * (number // 2)) for number in range(9)]
    fold = folded(tmp_path, started)
    wanted = [f"r{number}" for number in (8, 6, 7, 4, 5, 2, 3, 0, 1)]
    page = reader(fold).runs("default", WASH, 0, 1_000, limit=4)
    found = [one["id"] for one in page.items]
    later = [RunStarted(run_of(WASH, 5), 500), RunStarted(run_of(WASH, 2), 0), RunStarted(run_of(WASH, 99), 15)]
    fold.batch(records_of([*started, *later]))
    while page.cursor is not None:
        assert len(page.cursor) <= 60
        page = reader(fold).runs("default", WASH, 0, 1_000, limit=4, cursor=page.cursor)
        found += [one["id"] for one in page.items]
    assert found == wanted
    assert "r99" in [one["id"] for one in reader(fold).runs("default", WASH, 0, 1_000).items]


def test_runs_of_a_program_are_not_those_of_a_program_with_a_longer_name(tmp_path: Path) -> None:
    other = program("shop", "Nightly", "spark", "wash.2")
    known = reader(folded(tmp_path, [RunStarted(run_of(WASH, 1), 1), RunStarted(run_of(other, 2), 1)]))
    assert [one["id"] for one in known.runs("default", WASH, 0, 9).items] == ["r1"]
    assert [one["id"] for one in known.runs("default", other, 0, 9).items] == ["r2"]


def test_the_latest_write_is_told_with_its_program_or_source(tmp_path: Path) -> None:
    events = [
        *NIGHTLY,
        AccessesRecorded(run_of(PRINT, 2), [(CLICKS, "write", 60), (CLEAN, "write", 319), (CLEAN, "read", 900)]),
        ExternalWrite(CLICKS, "sensor", DAY_MS),
        ExternalWrite(CLICKS, "sensor", DAY_MS + 5),
    ]
    known = reader(folded(tmp_path, events))
    written = {"at": 320, "program": str(WASH), "run": run_of(WASH, 2), "source": None}
    assert known.latest_write("default", CLEAN) == written
    assert known.latest_write("default", CLICKS) == {"at": DAY_MS, "program": None, "run": None, "source": "sensor"}
    assert known.latest_write("default", RAW) is None
    assert known.latest_write("default", dataset("shop", "nowhere")) is None


def test_what_writes_by_its_definition_alone_has_not_written(tmp_path: Path) -> None:
    """A view's lineage says where its data comes from, from when on; nobody wrote anything then."""
    view = [
        RunStarted(run_of(WASH, 1).replace("/r1", "/definition-1"), 100),
        AccessesRecorded(run_of(WASH, 1).replace("/r1", "/definition-1"), [(RAW, "read", 100), (CLEAN, "write", 100)]),
    ]
    assert reader(folded(tmp_path / "defined", view)).latest_write("default", CLEAN) is None
    built = AccessesRecorded(run_of(WASH, 2), [(CLEAN, "write", 90)])
    known = reader(folded(tmp_path / "built", [*view, built]))
    assert known.latest_write("default", CLEAN) == {
        "at": 90, "program": str(WASH), "run": run_of(WASH, 2), "source": None,
    }  # fmt: skip
    assert told(known.lineage("default", RAW, 0, 1_000)) == {
        ("raw", "wash", "read", "definition-1"), ("clean", "wash", "write", "definition-1", "r2"),
    }  # fmt: skip


def test_lineage_as_at_an_earlier_point_is_what_the_journal_told_then(nightly: Fold) -> None:
    known, records = reader(nightly), records_of(NIGHTLY)
    place = {number: Position(TOPIC, one.partition, one.position) for number, one in enumerate(records)}
    after_first = known.lineage("default", RAW, 0, 1_000, as_at=place[1])
    assert told(after_first) == {("raw", "wash", "read", "r1"), ("clean", "wash", "write", "r1")}
    assert "final" not in after_first
    assert known.lineage("default", RAW, 0, 1_000, as_at=place[0])["relations"] == []
    by_time = known.lineage("default", RAW, 0, 1_000, as_at=NOON + 1_000)
    assert told(by_time) == told(after_first)
    assert known.run("default", Urn.parse(run_of(WASH, 1)), as_at=place[1])["stop"] == -1
    cut = {(TOPIC, records[1].partition): records[1].position + 1}
    assert told(known.lineage("default", RAW, 0, 1_000, as_at=cut)) == told(after_first)
    assert [one["id"] for one in known.runs("default", WASH, 0, 1_000, as_at=place[1]).items] == ["r1"]


@pytest.mark.thorough
def test_a_reader_that_stays_open_sees_later_facts(tmp_path: Path) -> None:
    fold = folded(tmp_path, NIGHTLY[:2])
    known = reader(fold)
    assert len(known.lineage("default", RAW, 0, 1_000)["relations"]) == 2
    assert known.run("default", Urn.parse(run_of(WASH, 1)))["stop"] == -1
    fold.batch(records_of(NIGHTLY))
    assert len(known.lineage("default", RAW, 0, 1_000)["relations"]) == 5
    assert known.run("default", Urn.parse(run_of(WASH, 1)))["stop"] == 200


def test_a_time_that_is_not_over_is_told_as_not_final(nightly: Fold) -> None:
    later = NOON + 1_000_000
    assert reader(nightly).lineage("default", RAW, 0, 1_000, as_at=later)["final"] is False
    with pytest.raises(NotFinalError):
        reader(nightly).lineage("default", RAW, 0, 1_000, as_at=later, final_only=True)
    with pytest.raises(NotFinalError):
        reader(nightly).lineage("default", RAW, 0, 1_000, as_at=Position(TOPIC, 0, (1 << 40) + 99))
    with pytest.raises(NotFinalError):
        reader(nightly).lineage("default", RAW, 0, 1_000, as_at={(TOPIC, 0): (1 << 40) + 99})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"start_ms": 6, "end_ms": 5}, "ends at 5"),
        ({"start_ms": -1}, "start"),
        ({"end_ms": "noon"}, "end"),
        ({"levels": 0}, "levels"),
        ({"limit": 0}, "limit"),
        ({"limit": True}, "limit"),
        ({"direction": "sideways"}, "direction"),
        ({"data": WASH}, "starts at data"),
    ],
)
def test_bad_questions_are_refused(nightly: Fold, asked: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"data": RAW, "start_ms": 0, "end_ms": 1_000, **asked}
    with pytest.raises(InputError, match=words):
        reader(nightly).lineage("default", **given)


@pytest.mark.parametrize("wrong", ["1e999", "-1", "1" + "0" * 30, "0.5", '"1"', '""', "[]", "{}", "false", "0.0"])
@pytest.mark.parametrize("bound", ["[{}, 9, null]", "[0, {}, null]", "[0, 9, {}]"])
def test_a_cursor_with_a_number_that_no_bound_can_be_is_refused(wrong: str, bound: str) -> None:
    text = f'["own", [{bound.format(wrong)}], [1, "run:a/b/flow/c/d"]]'
    with pytest.raises(InputError, match="belongs to another query"):
        read_cursor(base64.urlsafe_b64encode(text.encode()).decode(), "own", "metajournal.journal.lineage", OF_RUNS)


@pytest.mark.parametrize(
    "text",
    [
        '["own", [], [1, "run:a/b/flow/c/d"]]',
        '["own", {}, [1, "run:a/b/flow/c/d"]]',
        '["own", "", [1, "run:a/b/flow/c/d"]]',
        r'["own", [[0, 9, null]], [1, "\ud800"]]',
        r'["own", [[0, 9, null]], ["dataset:a/b", "\udfff", ""]]',
        '["own", [[0, 9, null]], [1000000000000000000000, "run:a/b/flow/c/d"]]',
        '["own", [[0, 9, null]], {"1": 1}]',
        '["own", [[0, 9, null]], 1]',
    ],
)
@pytest.mark.parametrize("place", [OF_RUNS, OF_ACCESSES])
def test_a_cursor_with_a_place_or_bounds_that_none_has_is_refused(text: str, place: tuple[type, ...]) -> None:
    with pytest.raises(InputError, match="belongs to another query"):
        read_cursor(base64.urlsafe_b64encode(text.encode()).decode(), "own", "metajournal.journal.lineage", place)


@pytest.mark.parametrize("place", [OF_RUNS, OF_ACCESSES])
def test_a_cursor_has_a_place_of_what_its_question_gives(place: tuple[type, ...]) -> None:
    after = [1, "run:a/b/flow/c/d"] if place is OF_ACCESSES else ["dataset:a/b", "read", ""]
    cursor = base64.urlsafe_b64encode(json.dumps(["own", [[0, 9, None]], after]).encode()).decode()
    with pytest.raises(InputError, match="belongs to another query"):
        read_cursor(cursor, "own", "metajournal.journal.lineage", place)


def test_pages_and_kinds_are_checked(nightly: Fold) -> None:
    known = reader(nightly)
    wash = Urn.parse(run_of(WASH, 1))
    for ask in (
        lambda: known.run("default", RAW),
        lambda: known.accesses("default", WASH),
        lambda: known.runs("default", wash, 0, 9),
        lambda: known.runs("default", WASH, 9, 0),
        lambda: known.runs("default", WASH, 0, 9, limit=1_001),
        lambda: known.accesses("default", wash, limit=0),
        lambda: known.accesses("default", wash, cursor="?"),
        lambda: known.accesses("default", wash, cursor="W10"),
        lambda: known.accesses("default", wash, cursor="W" * 5000),
    ):
        with pytest.raises(InputError):
            ask()
    cursor = known.runs("default", WASH, 0, 1_000, limit=1).cursor
    assert cursor is not None
    assert [one["id"] for one in known.runs("default", WASH, 0, 1_000, cursor=cursor).items] == ["r1"]
    for question in ((PRINT, 0, 1_000), (WASH, 0, 999)):
        with pytest.raises(InputError, match="belongs to another query"):
            known.runs("default", *question, cursor=cursor)
    with pytest.raises(InputError, match="belongs to another query"):
        known.accesses("default", wash, cursor=cursor)


# Held against a naive reading

_DATA = [RAW, CLEAN, REPORT, CLICKS]
_RUNS = [run_of(of, number) for of in (WASH, PRINT, program("shop", "Nightly", "flow", "x")) for number in (1, 2)]
_ACCESS = st.tuples(
    st.sampled_from(_DATA),
    st.sampled_from(["read", "write", "unknown"]),
    st.integers(0, 9),
    st.sampled_from([None, "c"]),
)
_FACTS = st.one_of(
    st.builds(RunStarted, st.sampled_from(_RUNS), st.integers(0, 9)),
    st.builds(RunStopped, st.sampled_from(_RUNS), st.integers(0, 9), st.just("X")),
    st.builds(AccessesRecorded, st.sampled_from(_RUNS), st.lists(_ACCESS, min_size=1, max_size=3)),
    st.builds(AccessesRecorded, st.sampled_from(_RUNS), st.lists(_ACCESS, min_size=1, max_size=3)),
)


@pytest.mark.thorough
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(_FACTS, min_size=1, max_size=14), st.sampled_from(_DATA), st.integers(0, 9), st.integers(1, 9),
    st.integers(1, 4), st.data(),
)  # fmt: skip
def test_lineage_is_what_a_naive_reading_of_the_facts_gives(
    events: list[Any], root: Any, start: int, width: int, levels: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(events)))
    with tempfile.TemporaryDirectory() as folder:
        fold = Fold(Path(folder), PARTITIONS)
        records = records_of(events)
        fold.batch(records, until=records[:cut])
        fold.batch(records)
        known = reader(fold)
        for told_by, at in ((events, None), (events[:cut], NOON + 1_000 * (cut - 1))):
            answer = known.lineage("default", root, start, start + width, levels=levels, as_at=at)
            assert answer["relations"] == naive(told_by, root, start, start + width, levels)


def naive(events: Sequence[Any], root: Any, start: int, end: int, levels: int) -> list[dict[str, Any]]:
    """The relations as a reader of the page would write them down, run by run."""
    starts, firsts, stops = defaultdict(list), defaultdict(list), defaultdict(list)
    touched = set()
    for event in events:
        if isinstance(event, RunStarted):
            starts[event.run].append(event.at)
        elif isinstance(event, RunStopped):
            stops[event.run].append(event.at)
        else:
            for one in event.accesses:
                firsts[event.run].append(one.at)
                touched.add((event.run, one.data, one.access, one.component))
    counted = {
        one for one in firsts if min(starts[one] or firsts[one]) < end and (not stops[one] or max(stops[one]) >= start)
    }
    relations: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for who, what, access, component in touched:
        known = {kind for a, b, kind, c in touched if (a, b, c) == (who, what, component)}
        if who in counted and (access != "unknown" or known == {"unknown"}):
            relations[what, who.rpartition("/")[0].replace("run:", "program:"), access].append((who, component))
    data, programs = {root}, set()
    for _ in range(levels):
        programs |= {of for what, of, _ in relations if what in data}
        data |= {what for what, of, _ in relations if of in programs}
    shown = []
    for (what, of, access), who in relations.items():
        if of in programs:
            kind, path = what.split(":")
            namespace, application, program_type, name = of.partition(":")[2].split("/")
            line: dict[str, Any] = {
                "data": f"{kind}.{path.replace('/', '.')}",
                "program": f"{program_type}.{namespace}.{application}.{name}",
            }
            line |= {"access": access} if access != "unknown" else {}
            line["runs"] = sorted({run.rpartition("/")[2] for run, _ in who})
            components = sorted({component for _, component in who if component})
            shown.append({**line, "component": components} if components else line)
    return sorted(shown, key=lambda one: (one["data"], one["program"], one.get("access", "")))


def by_then(events: Iterable[Any], as_of: int) -> list[Any]:
    """The facts about a time or an earlier one."""
    kept: list[Any] = []
    for event in events:
        if isinstance(event, AccessesRecorded):
            some = [access for access in event.accesses if access.at <= as_of]
            kept += [AccessesRecorded(event.run, some)] if some else []
        elif event.at <= as_of:
            kept.append(event)
    return kept


@pytest.mark.thorough
@pytest.mark.parametrize("as_of", [99, 100, 110, 199, 200, 310, 405, 410, 420, 499, 500])
def test_as_of_a_time_is_what_the_facts_by_that_time_tell_alone(nightly: Fold, tmp_path: Path, as_of: int) -> None:
    known, alone = reader(nightly), reader(folded(tmp_path, [*by_then(NIGHTLY, as_of), EntityRegistered(RAW)]))
    for root in (RAW, CLEAN, REPORT):
        asked = known.lineage("default", root, 0, 1_000, as_of=as_of)
        assert asked == alone.lineage("default", root, 0, 1_000)
    late = known.lineage("default", CLEAN, 200, 1_000, as_of=as_of)
    assert late == alone.lineage("default", CLEAN, 200, 1_000)
    for of in (WASH, PRINT):
        assert known.runs("default", of, 0, 1_000, as_of=as_of) == alone.runs("default", of, 0, 1_000)
    for one in map(Urn.parse, [run_of(WASH, 1), run_of(WASH, 2), run_of(PRINT, 1)]):
        assert run_told(known, one, as_of=as_of) == run_told(alone, one)


def run_told(known: Reader, one: Urn, **asked: Any) -> Any:
    """A run and its accesses, or that it is unknown."""
    try:
        return known.run("default", one, **asked), known.accesses("default", one, **asked).items
    except UnknownEntityError as error:
        return error.code


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, -1])
def test_a_run_has_not_stopped_as_of_a_time_before_its_stop_in_whatever_order_stops_were_told(
    tmp_path: Path, order: int
) -> None:
    one = run_of(WASH, 1)
    facts = [RunStarted(one, 1), RunStopped(one, 5, "KILLED"), RunStopped(one, 10, "COMPLETED")]
    known = reader(folded(tmp_path, facts[::order]))
    stops = {as_of: known.run("default", Urn.parse(one), as_of=as_of)["stop"] for as_of in (4, 7, 10)}
    assert stops == {4: -1, 7: -1, 10: 10}
    assert known.run("default", Urn.parse(one), as_of=7)["status"] is None


def test_as_at_and_as_of_together_are_what_was_known_then_about_a_time(nightly: Fold) -> None:
    second = records_of(NIGHTLY)[4]
    at = Position(TOPIC, second.partition, second.position)
    found = reader(nightly).lineage("default", RAW, 0, 1_000, as_at=at, as_of=250)
    assert told(found) == {("raw", "wash", "read", "r1"), ("clean", "wash", "write", "r1")}
    assert told(reader(nightly).lineage("default", RAW, 0, 1_000, as_at=at)) != told(found)


def test_the_latest_write_as_of_a_time_is_the_latest_by_then(nightly: Fold) -> None:
    known = reader(nightly)
    found = {as_of: known.latest_write("default", CLEAN, as_of=as_of) for as_of in (119, 120, 319, 320, 999)}
    assert {as_of: one and one["at"] for as_of, one in found.items()} == {
        119: None, 120: 120, 319: 120, 320: 320, 999: 320,
    }  # fmt: skip
    assert known.latest_write("default", CLICKS, as_of=49) is None
    assert known.latest_write("default", CLICKS, as_of=50) == known.latest_write("default", CLICKS)


def test_pages_as_of_a_time_are_of_that_question_alone(nightly: Fold) -> None:
    known = reader(nightly)
    first = known.runs("default", WASH, 0, 1_000, limit=1, as_of=400)
    assert [one["id"] for one in first.items] == ["r2"]
    rest = known.runs("default", WASH, 0, 1_000, limit=1, as_of=400, cursor=first.cursor)
    assert [one["id"] for one in rest.items] == ["r1"]
    with pytest.raises(InputError, match="cursor belongs to another query"):
        known.runs("default", WASH, 0, 1_000, limit=1, as_of=401, cursor=first.cursor)


@pytest.mark.parametrize("as_of", [-1, "monday", True, 253_402_300_800_000])
def test_an_as_of_that_is_no_time_is_refused(nightly: Fold, as_of: Any) -> None:
    for ask in (
        lambda: reader(nightly).lineage("default", RAW, 0, 1_000, as_of=as_of),
        lambda: reader(nightly).run("default", Urn.parse(run_of(WASH, 1)), as_of=as_of),
        lambda: reader(nightly).runs("default", WASH, 0, 1_000, as_of=as_of),
        lambda: reader(nightly).accesses("default", Urn.parse(run_of(WASH, 1)), as_of=as_of),
    ):
        with pytest.raises(InputError, match="as_of"):
            ask()


@pytest.mark.parametrize(("as_at", "final"), [(NOON + 10_000_000, False), (NOON + 1_000, True), (None, True)])
def test_runs_and_accesses_as_at_a_time_say_on_every_page_whether_it_is_over(
    nightly: Fold, as_at: int | None, final: bool
) -> None:
    known, first = reader(nightly), Urn.parse(run_of(WASH, 1))
    assert known.run("default", first, as_at=as_at).get("final", True) is final
    page = known.runs("default", WASH, 0, 1_000, limit=1, as_at=as_at)
    assert page.final is final
    pages = [known.accesses("default", first, limit=1, as_at=as_at)]
    while (cursor := pages[-1].cursor) is not None:
        pages.append(known.accesses("default", first, limit=1, cursor=cursor, as_at=as_at))
    assert [page.final for page in pages] == [final, final]
    assert ("final" in accesses_json(pages[-1])) is (not final)


def test_a_time_to_come_is_refused_and_one_not_passed_is_not_final(nightly: Fold) -> None:
    with pytest.raises(NotFinalError, match=r"2100-01-01T00:00:00\.000Z is in the future"):
        reader(nightly).lineage("default", RAW, 0, 1_000, as_at=4_102_444_800_000)
    with pytest.raises(NotFinalError, match="milliseconds since 1970"):
        reader(nightly).lineage("default", RAW, 0, 1_000, as_at=1 << 50)
    assert reader(nightly).lineage("default", RAW, 0, 1_000, as_at=NOON + 10_000_000)["final"] is False
