"""Facts about runs: which stand, what a run says of itself, and that the order of their arrival does not matter."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal import (
    AccessesRecorded,
    EntityDeleted,
    EntityRegistered,
    ExternalWrite,
    PropertiesSet,
    RunStarted,
    RunStopped,
    TagsAdded,
    app,
    dataset,
    program,
    run,
    stream,
)
from metajournal.domains.lineage.events import utc_day
from metajournal.domains.lineage.rows import AccessKey, AccessRow, ExternalWriteKey, RelationKey, RunKey
from metajournal.rules import UNCHANGED, Accepted, Reads, Rejected, reads
from metajournal.schemas.ids import id_text
from tests.builders import header_for
from tests.properties import examples
from tests.rules.facts import Facts, accessed

RUN = run("default", "History", "flow", "Flow", "r-1")
OTHER = run("default", "History", "flow", "Flow", "r-2")
FLOW = program("default", "History", "flow", "Flow")
PURCHASES = dataset("default", "purchases")
EVENTS = stream("default", "events")
DAY_MS = 86_400_000


def id_of(number: int) -> str:
    return id_text(number.to_bytes(16, "big"))


def test_a_run_starts_at_its_least_start() -> None:
    facts = Facts()
    for at, changes in ((50, True), (60, False), (50, False), (40, True)):
        assert isinstance(facts.judge(RunStarted(RUN, at)), Accepted) == changes
    assert facts.only("runs").start == 40
    assert facts.only("runs").started == 40


def test_a_run_without_a_start_starts_at_its_first_access() -> None:
    facts = Facts()
    facts.judge(accessed(RUN, (PURCHASES, "read", 70), (EVENTS, "read", 60)))
    assert (facts.only("runs").start, facts.only("runs").first_access, facts.only("runs").started) == (None, 60, 60)
    facts.judge(accessed(RUN, (dataset("a", "b"), "read", 30)))
    assert facts.only("runs").started == 30
    facts.judge(RunStarted(RUN, 90))
    assert (facts.only("runs").started, facts.only("runs").first_access) == (90, 30)


def test_a_run_stops_at_its_greatest_stop_and_of_those_at_the_greatest_status() -> None:
    facts = Facts()
    wanted = ((10, "FAILED", True), (10, "COMPLETED", False), (9, "KILLED", False), (10, "KILLED", True))
    for at, status, changes in (*wanted, (11, "COMPLETED", True), (11, "COMPLETED", False)):
        assert isinstance(facts.judge(RunStopped(RUN, at, status)), Accepted) == changes, (at, status)
    assert (facts.only("runs").stop, facts.only("runs").status) == (11, "COMPLETED")


def test_of_several_facts_about_one_access_the_one_with_the_least_time_then_id_stands() -> None:
    facts = Facts()
    facts.judge(accessed(RUN, (PURCHASES, "read", 50, None, {"user": {"tags": ["later"]}})), number=5)
    assert facts.judge(accessed(RUN, (PURCHASES, "read", 51)), number=1) is UNCHANGED
    assert facts.judge(accessed(RUN, (PURCHASES, "read", 50)), number=5) is UNCHANGED
    assert facts.judge(accessed(RUN, (PURCHASES, "read", 50)), number=6) is UNCHANGED
    assert isinstance(facts.judge(accessed(RUN, (PURCHASES, "read", 50)), number=4), Accepted)
    assert (facts.only("accesses").event_id, facts.only("accesses").metadata) == (id_of(4), None)
    facts.judge(accessed(RUN, (PURCHASES, "read", 49)), number=9)
    assert (facts.only("accesses").event_id, facts.only("accesses").happened_at) == (id_of(9), 49)


def test_of_one_access_told_twice_in_one_event_the_least_time_stands_then_the_first() -> None:
    facts = Facts()
    twice = [(PURCHASES, "read", 9), (PURCHASES, "read", 8, None, {"user": {"tags": ["x"]}}), (PURCHASES, "read", 8)]
    facts.judge(accessed(RUN, *twice))
    assert (facts.only("accesses").happened_at, facts.only("accesses").metadata["user"]["tags"]) == (8, ["x"])


def test_each_kind_of_access_and_each_component_has_a_fact_of_its_own() -> None:
    facts = Facts()
    told = [("read", None), ("write", None), ("unknown", None), ("read", "a"), ("read", "b")]
    facts.judge(accessed(RUN, *[(PURCHASES, access, 10, component) for access, component in told]))
    held = {(row.access, row.component) for row in facts.tables["accesses"].values()}
    assert held == {(access, component or "") for access, component in told}
    assert facts.only("runs").first_access == 10
    assert list(facts.tables["relations"]) == [("default", PURCHASES, FLOW)]


def test_a_relation_of_program_and_data_is_written_once_over_all_runs() -> None:
    facts = Facts()
    facts.judge(accessed(RUN, (PURCHASES, "read", 10), (EVENTS, "write", 10)))
    facts.judge(accessed(OTHER, (PURCHASES, "write", 20)))
    assert sorted(key[1] for key in facts.tables["relations"]) == [PURCHASES, EVENTS]
    made = [row for row in facts.history if type(row).__name__ == "RelationRow"]
    assert [(row.data, row.program, row.seq) for row in made] == [(PURCHASES, FLOW, 0), (EVENTS, FLOW, 1)]


def test_recorded_metadata_is_kept_by_scope_in_one_form() -> None:
    facts = Facts()
    metadata = {"user": {"properties": {"b": "2", "a": "1"}, "tags": ["z", "a", "z"]}}
    facts.judge(accessed(RUN, (PURCHASES, "read", 10, "c", metadata)))
    user = {"properties": {"a": "1", "b": "2"}, "tags": ["a", "z"]}
    assert facts.only("accesses").metadata == {"user": user, "system": {"properties": {}, "tags": []}}
    assert list(facts.only("accesses").metadata["user"]["properties"]) == ["a", "b"]


def test_an_external_write_stands_once_for_each_stream_source_and_day() -> None:
    facts = Facts()
    facts.judge(ExternalWrite(EVENTS, "crawler", DAY_MS + 5), number=5)
    assert facts.judge(ExternalWrite(EVENTS, "crawler", 2 * DAY_MS - 1), number=1) is UNCHANGED
    assert facts.judge(ExternalWrite(EVENTS, "crawler", DAY_MS + 5), number=6) is UNCHANGED
    assert isinstance(facts.judge(ExternalWrite(EVENTS, "crawler", DAY_MS + 5), number=4), Accepted)
    assert isinstance(facts.judge(ExternalWrite(EVENTS, "crawler", DAY_MS), number=9), Accepted)
    assert facts.only("external_writes").happened_at == DAY_MS
    facts.judge(ExternalWrite(EVENTS, "crawler", 2 * DAY_MS))
    facts.judge(ExternalWrite(EVENTS, "sensor", DAY_MS))
    facts.judge(ExternalWrite(stream("default", "other"), "crawler", DAY_MS))
    keys = sorted(key[1:] for key in facts.tables["external_writes"])
    assert keys == [
        (EVENTS, "crawler", "1970-01-02"),
        (EVENTS, "crawler", "1970-01-03"),
        (EVENTS, "sensor", "1970-01-02"),
        ("stream:default/other", "crawler", "1970-01-02"),
    ]


def test_days_are_utc_and_times_out_of_range_make_no_error() -> None:
    assert [utc_day(ms) for ms in (0, DAY_MS - 1, DAY_MS, 253_402_300_799_999)] == [
        "1970-01-01", "1970-01-01", "1970-01-02", "9999-12-31",
    ]  # fmt: skip
    assert [utc_day(ms) for ms in (-(1 << 63), (1 << 63) - 1)] == ["1970-01-01", "9999-12-31"]


def test_a_run_comes_into_being_by_its_first_fact_and_says_its_times() -> None:
    facts = Facts()
    (row,) = _accepted(facts.judge(accessed(RUN, (PURCHASES, "read", 30)))).rows
    assert (row.urn, row.kind, row.namespace, row.name, row.aggregate) == (RUN, "run", "default", "r-1", RUN.aggregate)
    assert row.record == {"start": 30, "stop": -1, "status": None}
    assert (row.logical_timestamp, row.seq, row.event_id) == ((1 << 40) + 1, 0, id_of(1))
    kept = {"created_by": "alice", "creation_time": str(row.system_time)}
    assert row.system_properties == {
        **kept, "last_update_time": str(row.system_time), "last_updated_by": "alice",
    }  # fmt: skip
    assert list(row.system_properties) == sorted(row.system_properties)
    assert (row.user_properties, row.user_tags, row.system_tags, row.deleted) == ({}, (), (), False)
    (row,) = _accepted(facts.judge(RunStopped(RUN, 60, "FAILED"))).rows
    assert row.record == {"start": 30, "stop": 60, "status": "FAILED"}
    assert row.system_properties["creation_time"] == kept["creation_time"]
    assert (row.logical_timestamp, row.seq) == ((1 << 40) + 2, 0)


def test_a_run_without_an_actor_was_made_by_nobody() -> None:
    (row,) = _accepted(Facts().judge(RunStarted(RUN, 1), actor=None)).rows
    assert set(row.system_properties) == {"creation_time", "last_update_time"}


def test_a_fact_that_leaves_the_times_of_a_run_writes_no_row_of_the_run() -> None:
    facts = Facts()
    facts.judge(RunStarted(RUN, 10))
    outcome = _accepted(facts.judge(accessed(RUN, (PURCHASES, "read", 30))))
    assert outcome.rows == ()
    assert [type(row).__name__ for row in outcome.facts] == ["RunRow", "AccessRow", "RelationRow"]
    outcome = _accepted(facts.judge(accessed(RUN, (EVENTS, "read", 31))))
    assert [type(row).__name__ for row in outcome.facts] == ["AccessRow", "RelationRow"]


def test_a_runs_annotations_stay_when_facts_arrive_and_its_record_when_annotations_do() -> None:
    facts = Facts()
    facts.judge(RunStarted(RUN, 10))
    facts.judge(PropertiesSet(RUN, {"owner": "alice"}))
    facts.judge(RunStopped(RUN, 20, "COMPLETED"))
    row = facts.entities["default", RUN]
    assert row.user_properties == {"owner": "alice"}
    facts.judge(PropertiesSet(RUN, {"owner": "bob"}))
    assert facts.entities["default", RUN].record == {"start": 10, "stop": 20, "status": "COMPLETED"}


def test_a_run_that_was_registered_before_gets_its_record_by_the_first_fact() -> None:
    facts = Facts()
    facts.judge(EntityRegistered(RUN, "a nightly run"))
    assert facts.entities["default", RUN].record is None
    facts.judge(RunStarted(RUN, 10))
    row = facts.entities["default", RUN]
    assert (row.record, row.system_properties["description"]) == (
        {"start": 10, "stop": -1, "status": None}, "a nightly run",
    )  # fmt: skip


def test_a_deleted_run_is_not_revived_and_its_lineage_still_counts() -> None:
    facts = Facts()
    facts.judge(RunStarted(RUN, 10))
    facts.judge(EntityDeleted(RUN))
    outcome = _accepted(facts.judge(accessed(RUN, (PURCHASES, "read", 5))))
    assert outcome.rows == ()
    assert facts.entities["default", RUN].deleted
    assert (facts.entities["default", RUN].record, facts.only("runs").first_access) == (None, 5)
    assert facts.only("accesses").data == PURCHASES


def test_a_run_registered_anew_says_its_times_again_with_its_next_fact() -> None:
    facts = Facts()
    for event in (RunStarted(RUN, 10), EntityDeleted(RUN), EntityRegistered(RUN)):
        facts.judge(event)
    outcome = _accepted(facts.judge(RunStarted(RUN, 12)))
    assert (len(outcome.rows), outcome.facts) == (1, ())
    assert outcome.rows[0].record == {"start": 10, "stop": -1, "status": None}


@pytest.mark.parametrize("gone", [app("default", "History"), PURCHASES, FLOW])
def test_deleting_an_app_a_program_or_data_removes_no_lineage(gone: Any) -> None:
    facts = Facts()
    facts.judge(EntityRegistered(gone))
    facts.judge(EntityRegistered(FLOW))
    facts.judge(accessed(RUN, (PURCHASES, "write", 10)))
    before = {name: dict(rows) for name, rows in facts.tables.items()}
    assert isinstance(facts.judge(EntityDeleted(gone)), Accepted)
    assert facts.tables == before
    assert not facts.entities["default", RUN].deleted


def test_facts_of_one_tenant_say_nothing_of_anothers() -> None:
    facts = Facts()
    facts.judge(RunStarted(RUN, 10))
    assert isinstance(facts.judge(RunStarted(RUN, 20), tenant="acme"), Accepted)
    assert {key[0]: row.start for key, row in facts.tables["runs"].items()} == {"default": 10, "acme": 20}


def test_a_fact_has_no_precondition() -> None:
    outcome = Facts().judge(RunStarted(RUN, 10), expected=0)
    message = [{"field": "header.expected", "message": "a fact has no precondition"}]
    assert outcome == Rejected("invalid", message)


def test_facts_are_held_against_their_header_and_form() -> None:
    facts = Facts()
    wrong = facts.judge(RunStarted(RUN, 10), aggregate="app:default/Other")
    assert isinstance(wrong, Rejected)
    assert (wrong.reason, wrong.detail) == ("wrong-aggregate", {"aggregate": RUN.aggregate, "entities": [RUN]})
    invalid = facts.judge(AccessesRecorded(RUN, [(PURCHASES, "rw", -5)]))
    assert isinstance(invalid, Rejected)
    named = [fault["field"] for fault in invalid.detail if isinstance(fault, dict)]
    assert (invalid.reason, named) == ("invalid", ["accesses[0].access", "accesses[0].at"])
    assert facts.history == []


def test_what_a_rule_may_read_is_announced_and_nothing_else() -> None:
    def asked(event: Any) -> list[Any]:
        announced = reads(header_for(event), event)
        assert not announced.members
        return [(type(key), *key) for key in announced.facts]

    assert asked(TagsAdded(PURCHASES, ["x"])) == []
    assert asked(RunStarted(RUN, -1)) == []  # refused by its form
    assert asked(RunStarted(RUN, 1)) == [(RunKey, RUN)]
    assert asked(ExternalWrite(EVENTS, "x", DAY_MS)) == [(ExternalWriteKey, EVENTS, "x", "1970-01-02")]
    assert asked(accessed(RUN, (PURCHASES, "read", 1), (PURCHASES, "write", 1, "c"))) == [
        (RunKey, RUN),
        (AccessKey, RUN, PURCHASES, "read", ""),
        (RelationKey, PURCHASES, FLOW),
        (AccessKey, RUN, PURCHASES, "write", "c"),
        (RelationKey, PURCHASES, FLOW),
    ]


def test_the_end_of_an_app_asks_for_its_programs_and_that_of_others_for_nothing() -> None:
    history, purchases = EntityDeleted(RUN.aggregate), EntityDeleted(PURCHASES)
    assert reads(header_for(history), history) == Reads(members=("program",))
    assert reads(header_for(purchases), purchases) == Reads()


def test_rows_say_where_they_come_from() -> None:
    facts = Facts()
    facts.judge(accessed(RUN, (PURCHASES, "read", 10), (EVENTS, "write", 11)), number=77, event_time=123, actor="bob")
    rows = [row for row in facts.history if isinstance(row, AccessRow)]
    for seq, row in enumerate(rows):
        origin = (row.aggregate, row.seq, row.event_time, row.event_id, row.actor, row.deleted)
        assert origin == (RUN.aggregate, seq, 123, id_of(77), "bob", False)
        assert (row.logical_timestamp, row.program) == ((1 << 40) + 1, FLOW)


_ACCESSES = st.tuples(
    st.sampled_from([PURCHASES, EVENTS]),
    st.sampled_from(["read", "write", "unknown"]),
    st.integers(0, 3),
    st.sampled_from([None, "c"]),
    st.sampled_from([None, {"user": {"tags": ["a"]}}, {"user": {"tags": ["b"]}}]),
)
_FACTS = st.one_of(
    st.builds(RunStarted, st.sampled_from([RUN, OTHER]), st.integers(0, 3)),
    st.builds(RunStopped, st.sampled_from([RUN, OTHER]), st.integers(0, 3), st.sampled_from(["A", "B"])),
    st.builds(AccessesRecorded, st.sampled_from([RUN, OTHER]), st.lists(_ACCESSES, min_size=1, max_size=3)),
    st.builds(ExternalWrite, st.just(EVENTS), st.sampled_from(["x", "y"]), st.integers(DAY_MS - 2, DAY_MS + 2)),
)


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(_FACTS, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_any_order_of_the_same_facts_leaves_the_same_standing(events: list[Any], chance: Any) -> None:
    numbered = list(enumerate(events, 1))
    first = _standing(numbered)
    others = list(permutations(numbered)) if len(numbered) < 4 else [chance.sample(numbered, len(numbered))] * 4
    for order in others:
        assert _standing(order) == first


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(_FACTS, min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=4))
def test_facts_told_again_change_nothing(events: list[Any], again: list[int]) -> None:
    facts = Facts()
    for number, event in enumerate(events, 1):
        facts.judge(event, number=number)
    for place in again:
        number = place % len(events)
        assert facts.judge(events[number], number=number + 1) is UNCHANGED


def _standing(events: Any) -> dict[str, Any]:
    """What stands after some facts: values by key; of accesses and outside writes also whose fact it is."""
    facts = Facts()
    for number, event in events:
        facts.judge(event, number=number)
    whose = {
        name: {key: row.event_id for key, row in facts.tables[name].items()} for name in ("accesses", "external_writes")
    }
    records = {key: row.record for key, row in facts.entities.items()}
    return {"whose": whose, "records": records, **{name: facts.values(name) for name in facts.tables}}


def _accepted(outcome: Any) -> Accepted:
    assert isinstance(outcome, Accepted), outcome
    return outcome
