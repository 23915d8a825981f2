"""Lineage facts through the engine: tables and topic are the same whatever the batches, restarts and ways."""

from __future__ import annotations

import tempfile
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
    dataset,
    program,
    run,
    stream,
)
from metajournal.rules.tables import KEYS
from metajournal.schemas.hashing import partition_of
from tests.builders import header_for, record_of
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.streaming.harness import Fold, placed

PARTITIONS = 3
FACTS, STATES = "metajournal.changes.lineage", "metajournal.state.catalog"
RUNS = [run("shop", name, "spark", "job", number) for name in ("Nightly", "Weekly") for number in ("1", "2")]
RAW, CLEAN, CLICKS = dataset("shop", "raw"), dataset("shop", "clean"), stream("shop", "clicks")

_ACCESS = st.tuples(
    st.sampled_from([RAW, CLEAN, CLICKS]),
    st.sampled_from(["read", "write", "unknown"]),
    st.integers(0, 3),
    st.sampled_from([None, "c"]),
    st.sampled_from([None, {"user": {"properties": {"ä": "ß"}, "tags": ["t"]}}]),
)
_RUN = st.sampled_from(RUNS)
_EVENTS = st.one_of(
    st.builds(RunStarted, _RUN, st.integers(0, 3)),
    st.builds(RunStopped, _RUN, st.integers(0, 3), st.sampled_from(["A", "B"])),
    st.builds(AccessesRecorded, _RUN, st.lists(_ACCESS, min_size=1, max_size=3)),
    st.builds(ExternalWrite, st.just(CLICKS), st.sampled_from(["x", "y"]), st.integers(0, 3)),
    st.builds(TagsAdded, _RUN, st.just(["t"])),
    st.builds(EntityRegistered, st.one_of(_RUN, st.just(RAW))),
    st.builds(EntityDeleted, st.one_of(_RUN, st.just(RAW), st.just(RUNS[0].aggregate))),
)


def journal(events: list[Any], again: list[int]) -> list[JournalRecord]:
    """Events in order, some of them told again at the end, marked or not; the last one is of another tenant."""
    headers = [header_for(event, number) for number, event in enumerate(events, 1)]
    headers += [headers[one]._replace(repeat=one % 2 == 0) for one in again]
    told = [*events, *(events[one] for one in again)]
    headers[-1] = headers[-1]._replace(tenant="acme")
    return placed(
        [
            record_of(event, number, header=header)
            for number, (event, header) in enumerate(zip(told, headers, strict=True))
        ],
        PARTITIONS,
    )


@st.composite
def journals(draw: st.DrawFn) -> list[JournalRecord]:
    events = draw(st.lists(_EVENTS, min_size=1, max_size=14))
    return journal(events, draw(st.lists(st.integers(0, len(events) - 1), max_size=4)))


def stands(rows: list[Any]) -> list[Any]:
    """Rows by their place in the log."""
    by_place = {}
    for row in rows:
        partition = partition_of(f"{row.tenant}/{row.aggregate}".encode(), PARTITIONS)
        by_place[partition, row.logical_timestamp, row.seq] = row
    return [by_place[place] for place in sorted(by_place)]


def assert_equal(fold: Fold, model: Model) -> None:
    for table in ("entities", *(KEYS.keys() & fold.lake.tables.keys())):
        assert fold.rows(table) == stands(model.tables.get(table, [])), table
    assert [one[-1]["record"] for one in fold.topics.seen(STATES)] == [
        one.document["record"] for one in sorted(model.states, key=lambda one: one[:3])
    ]
    assert [one[-1] for one in fold.topics.seen(FACTS)] == told(model)


def told(model: Model) -> list[dict[str, Any]]:
    """The facts that stood, in the order of the log: every row but those that merely follow from others."""
    facts = []
    runs: dict[tuple[str, str], Any] = {}
    for row in stands(model.tables.get("runs", [])):
        before, runs[row.tenant, row.run] = runs.get((row.tenant, row.run)), row
        if row.start != (before and before.start):
            facts.append((row, {"type": "RunStarted", "run": row.run, "at": row.start}))
        elif (row.stop, row.status) != ((before.stop, before.status) if before else (None, None)):
            facts.append((row, {"type": "RunStopped", "run": row.run, "at": row.stop, "status": row.status}))
    for row in model.tables.get("accesses", []):
        fact = {"type": "AccessRecorded", "run": row.run, "data": row.data, "access": row.access}
        fact |= {"at": row.happened_at, "component": row.component or None, "metadata": row.metadata}
        facts.append((row, fact))
    for row in model.tables.get("external_writes", []):
        fact = {"type": "ExternalWrite", "stream": row.stream, "source": row.source, "at": row.happened_at}
        facts.append((row, fact))

    def place(told: Any) -> tuple[int, int, int]:
        row = told[0]
        partition = partition_of(f"{row.tenant}/{row.aggregate}".encode(), PARTITIONS)
        return partition, row.logical_timestamp, row.seq

    return [fact for _, fact in sorted(facts, key=place)]


@pytest.mark.thorough
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(journals(), st.lists(st.integers(0, 18), max_size=3), st.booleans())
def test_facts_stand_the_same_in_any_batches_with_restarts_on_both_ways(
    records: list[JournalRecord], cuts: list[int], wide: bool
) -> None:
    model = Model.of(records)
    with tempfile.TemporaryDirectory() as folder:
        fold = Fold(Path(folder), PARTITIONS, cache_rows=2)
        for cut in [*sorted(cuts), len(records)]:
            fold.batch(records, until=records[:cut], wide=wide)
            fold.start()
        assert_equal(fold, model)


def test_the_facts_topic_carries_what_stood_with_its_headers(tmp_path: Path) -> None:
    events = [
        RunStarted(RUNS[0], 5),
        RunStarted(RUNS[0], 9),
        AccessesRecorded(RUNS[0], [(RAW, "in", 7, "c", {"user": {"tags": ["t"]}}), (CLICKS, "write", 6)]),
        ExternalWrite(CLICKS, "browser", 8),
        RunStopped(RUNS[0], 20, "COMPLETED"),
    ]
    fold = Fold(tmp_path, 1)
    fold.batch(placed([record_of(event, number) for number, event in enumerate(events)], 1))
    seen = fold.topics.seen(FACTS)
    metadata = {"user": {"properties": {}, "tags": ["t"]}, "system": {"properties": {}, "tags": []}}
    assert [one[-1] for one in seen] == [
        {"type": "RunStarted", "run": RUNS[0], "at": 5},
        {
            "type": "AccessRecorded", "run": RUNS[0], "data": RAW, "access": "read", "at": 7, "component": "c",
            "metadata": metadata,
        },
        {
            "type": "AccessRecorded", "run": RUNS[0], "data": CLICKS, "access": "write", "at": 6, "component": None,
            "metadata": None,
        },
        {"type": "ExternalWrite", "stream": CLICKS, "source": "browser", "at": 8},
        {"type": "RunStopped", "run": RUNS[0], "at": 20, "status": "COMPLETED"},
    ]  # fmt: skip
    assert [one[3] for one in seen] == [f"default/{one}" for one in (RUNS[0], RUNS[0], RUNS[0], CLICKS, RUNS[0])]
    (published,) = (records for (topic, _), records in fold.topics.records.items() if topic == FACTS)
    headers = [dict(one.headers) for one in published]
    assert {(one["ce_type"], one["ce_domain"]) for one in headers} == {(b"metajournal.lineage.Fact", b"lineage")}
    assert [one["ce_subject"].decode() for one in headers][3] == CLICKS
    assert len({one["ce_id"] for one in headers}) == 5
    others = {dict(one.headers)["ce_type"] for (topic, _), records in fold.topics.records.items()
              if topic == STATES for one in records}  # fmt: skip
    assert others == {b"metajournal.state.Entity"}
    (registered,) = fold.rows("relations")[:1]
    assert registered.program == program("shop", "Nightly", "spark", "job")
