"""Lineage events: spellings become the log's own, every fault is named, and what no event can be is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from metajournal import (
    Access,
    AccessesRecorded,
    ExternalWrite,
    InvalidEventError,
    RunStarted,
    RunStopped,
    dataset,
    program,
    run,
    stream,
    urn,
)
from metajournal.domains.lineage.events import LATEST_AT_MS, Annotations, Recorded, program_of
from metajournal.schemas.limits import MAX_ENTRIES, MAX_KEY_BYTES, MAX_URN_BYTES

RUN = run("default", "History", "flow", "Flow", "r 1/2")
PURCHASES = dataset("default", "purchases")
WRONG: Any = object()


def fields(event: Any) -> list[str]:
    return [fault.field for fault in event.validate()]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("read", "read"), ("write", "write"), ("unknown", "unknown"),
        ("in", "read"), ("out", "write"),
        ("IN", "read"), ("OUT", "write"), ("UNKNOWN", "unknown"), ("Read", "read"),
    ],
)  # fmt: skip
def test_spellings_of_an_access_become_the_logs_own(given: str, written: str) -> None:
    event = AccessesRecorded(RUN, [(PURCHASES, given, 5)])
    assert (event.accesses[0].access, event.validate()) == (written, [])


def test_an_access_is_the_same_from_fields_in_order_by_name_and_as_json_has_them() -> None:
    metadata = Recorded(Annotations({"k": "v"}, ("t",)))
    whole = Access(PURCHASES, "read", 1_000, "c", metadata)
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    spelled = {"user": {"properties": {"k": "v"}, "tags": ["t"]}}
    named = {"data": "dataset:default/purchases", "access": "in", "at": moment, "component": "c", "metadata": spelled}
    listed = ["dataset:default/purchases", "READ", 1_000, "c", {**spelled, "system": None}]
    spellings: list[Any] = [whole, named, listed]
    for given in spellings:
        assert AccessesRecorded(RUN, [given]).accesses == (whole,)
    assert AccessesRecorded(RUN, [(PURCHASES, "read", 5)]).accesses == (Access(PURCHASES, "read", 5),)


@pytest.mark.parametrize(
    "event",
    [
        AccessesRecorded(RUN, [(PURCHASES, "read", 0)] * MAX_ENTRIES),
        AccessesRecorded(RUN, [(urn("file", "s3", "b", "p/1"), "unknown", LATEST_AT_MS, "c" * MAX_KEY_BYTES)]),
        AccessesRecorded(RUN, [(urn("topic", "clicks"), "write", 1, "één")]),
        RunStarted(RUN, 0),
        RunStarted(RUN, datetime(2026, 1, 1, tzinfo=UTC)),
        RunStarted(RUN, "2026-01-01T00:00:00+02:00"),
        RunStopped(RUN, 5, "COMPLETED"),
    ],
)
def test_valid_facts_have_no_faults_and_belong_to_the_runs_app(event: Any) -> None:
    assert event.validate() == []
    assert event.aggregate == "app:default/History"
    assert event.entities[0] == RUN


def test_times_are_milliseconds_however_they_are_given() -> None:
    """To the millisecond, exactly, and whatever the zone."""
    given: list[Any] = [1_767_225_600_123, datetime(2026, 1, 1, 0, 0, 0, 123_999, UTC), "2026-01-01T01:00:00.123+01:00"]
    assert {RunStarted(RUN, time).at for time in given} == {1_767_225_600_123}


def test_the_entities_of_accesses_are_the_run_and_its_program() -> None:
    event = AccessesRecorded(RUN, [(PURCHASES, "read", 0)])
    assert event.entities == (RUN, program("default", "History", "flow", "Flow"))
    assert RunStarted(RUN, 0).entities == RunStopped(RUN, 0, "x").entities == (RUN,)


def test_an_external_write_belongs_to_its_stream() -> None:
    event = ExternalWrite("stream:default/clicks", "crawler", 5)
    assert (event.validate(), event.aggregate, event.entities) == (
        [], stream("default", "clicks"), (stream("default", "clicks"),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (RunStarted(PURCHASES, -1), ["run", "at"]),
        (RunStarted(WRONG, True), ["run", "at"]),
        (RunStarted(RUN, LATEST_AT_MS + 1), ["at"]),
        (RunStarted(RUN, datetime(2026, 1, 1)), ["at"]),
        (RunStopped(RUN, 1.5, ""), ["at", "status"]),  # type: ignore[arg-type]
        (RunStopped(RUN, 5, "x" * (MAX_KEY_BYTES + 1)), ["status"]),
        (ExternalWrite(PURCHASES, "", -1), ["stream", "source", "at"]),
        (ExternalWrite("stream:a", WRONG, WRONG), ["stream", "source", "at"]),
        (AccessesRecorded(PURCHASES, []), ["run", "accesses"]),
        (AccessesRecorded(RUN, WRONG), ["accesses"]),
        (AccessesRecorded(RUN, [(PURCHASES, "read", 0)] * (MAX_ENTRIES + 1)), ["accesses"]),
        (AccessesRecorded(RUN, [WRONG, (PURCHASES, "read"), {"data": PURCHASES, "role": "in"}]),
         ["accesses[0]", "accesses[1]", "accesses[2]"]),
        (AccessesRecorded(RUN, [("nothing", "rw", "noon", "", {"USER": {}})]),
         ["accesses[0].data", "accesses[0].access", "accesses[0].at", "accesses[0].component", "accesses[0].metadata"]),
        (AccessesRecorded(RUN, [(PURCHASES, 5, None)]), ["accesses[0].access", "accesses[0].at"]),
        (AccessesRecorded(RUN, [(PURCHASES, "read", 1, "\ud800")]), ["accesses[0].component"]),
        (AccessesRecorded(RUN, [(PURCHASES, "read", 1, None, {"user": {"properties": {"": 5}, "tags": [""]}})]),
         ["accesses[0].metadata.user.properties['']"] * 2 + ["accesses[0].metadata.user.tags[0]"]),
        (AccessesRecorded(RUN, [(PURCHASES, "read", 1, None, {"system": {"tag": ["x"]}})]),
         ["accesses[0].metadata.system"]),
        *[(AccessesRecorded(RUN, [(entity, "read", 1)]), ["accesses[0].data"])
          for entity in (RUN, RUN.aggregate, program("default", "History", "flow", "Flow"))],
    ],
)  # fmt: skip
def test_every_fault_is_named_with_its_field(event: Any, expected: list[str]) -> None:
    assert fields(event) == expected


@pytest.mark.parametrize("event", [RunStarted(PURCHASES, 1), AccessesRecorded(WRONG, []), ExternalWrite(RUN, "x", 1)])
def test_an_event_of_another_kind_has_no_aggregate(event: Any) -> None:
    with pytest.raises(InvalidEventError):
        _ = event.aggregate
    with pytest.raises(InvalidEventError):
        _ = event.entities


def test_a_run_whose_program_has_no_urn_is_refused() -> None:
    """A program's URN is longer than a run's with an id of one character."""
    fits = MAX_URN_BYTES - len("program:d/a/flow/")
    longest, over = run("d", "a", "flow", "p" * fits, "r"), run("d", "a", "flow", "p" * (fits + 1), "r")
    assert len(program_of(longest)) == MAX_URN_BYTES
    assert RunStarted(longest, 1).validate() == []
    assert fields(RunStarted(over, 1)) == ["run"]
    with pytest.raises(InvalidEventError):
        _ = AccessesRecorded(over, [(PURCHASES, "read", 1)]).entities


def test_no_more_accesses_are_looked_at_than_an_event_may_carry() -> None:
    event = AccessesRecorded(RUN, [(PURCHASES, "rw", 0)] * (MAX_ENTRIES + 50))
    assert len(event.validate()) == MAX_ENTRIES + 1
