"""What every event must pass before its rule reads a row. The fold trusts no producer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, PropertiesSet, TagsAdded
from metajournal.domains.catalog.urns import app, dataset, program
from metajournal.rules import UNCHANGED, Accepted, At, EntityRow, FactKey, Outcome, Rejected, apply
from metajournal.rules.admission import EARLIEST_MS, LATEST_MS, refusal
from metajournal.schemas.errors import Fault
from metajournal.schemas.limits import MAX_ENTITY_BYTES, MAX_ENTRIES, MAX_KEY_BYTES
from metajournal.schemas.urn import Urn
from tests.builders import NO_DIGEST, header_for
from tests.rules.harness import Catalog

PURCHASES = dataset("default", "purchases")
FLOW = program("default", "PurchaseHistory", "flow", "PurchaseFlow")


class Unread:
    """Rows that nobody may read."""

    def entity(self, urn: str) -> EntityRow | None:
        raise AssertionError(f"read {urn}")

    def members(self, aggregate: str, kinds: Collection[str]) -> list[EntityRow]:
        raise AssertionError(f"read {kinds} of {aggregate}")

    def fact(self, key: FactKey) -> Any:
        raise AssertionError(f"read {key} of {key.TABLE}")


def judged_unread(event: Any, **fields: Any) -> Outcome:
    """The outcome of an event that must be decided without any row."""
    return apply(header_for(event, **fields), event, At(1, 1, NO_DIGEST), Unread())


def test_every_fault_of_an_event_stands_in_the_rejection() -> None:
    event = PropertiesSet(PURCHASES, {"": "x", "creation_time": "0", "k" * (MAX_KEY_BYTES + 1): "y"}, scope="SYSTEM")
    assert Catalog().rejected(event) == (
        "invalid",
        [{"field": fault.field, "message": fault.message} for fault in event.validate()],
    )
    assert len(event.validate()) == 3


@pytest.mark.parametrize(
    "event",
    [
        PropertiesSet(PURCHASES, {}),
        PropertiesSet(PURCHASES, {str(n): "" for n in range(MAX_ENTRIES + 1)}),
        TagsAdded(PURCHASES, [""]),
        TagsAdded(PURCHASES, ["x"], scope="BOTH"),
        EntityRegistered(PURCHASES, schema=[("", "int")]),
    ],
)
def test_an_invalid_event_is_rejected_without_a_look_at_rows(event: Any) -> None:
    reason, faults = Catalog().rejected(event)
    assert reason == "invalid"
    assert faults
    assert judged_unread(event).reason == "invalid"  # type: ignore[union-attr]


def test_an_entity_that_is_no_urn_is_a_fault_and_no_crash() -> None:
    event = TagsAdded("no urn", ["t"])
    header = header_for(TagsAdded(PURCHASES, ["t"]), entities=("no urn",), aggregate="no urn")
    reason, (fault,) = Catalog().rejected(event, header=header)
    assert (reason, fault["field"]) == ("invalid", "entity")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", "catalog.TagsAdded.2"),
        ("type", "catalog.TagsRemoved.1"),
        ("tenant", ""),
        ("tenant", "Default"),
        ("tenant", "a/b"),
        ("tenant", "a\n"),
        ("tenant", "a" * 65),
        ("event_time", EARLIEST_MS - 1),
        ("event_time", LATEST_MS + 1),
    ],
)
def test_a_header_of_wrong_form_is_rejected(field: str, value: Any) -> None:
    """A type that is not the record's, a tenant that could not be a key, a time that no table can hold."""
    reason, faults = Catalog().rejected(EntityRegistered(PURCHASES), **{field: value})
    assert reason == "invalid"
    assert [fault["field"] for fault in faults] == [f"header.{field}"]
    assert all(fault["message"] for fault in faults)


def test_a_fault_says_what_would_be_right() -> None:
    """The words stand in the log for ever and in every rebuild's digest, so they are part of the rules."""
    _, faults = Catalog().rejected(
        EntityRegistered(PURCHASES), type="catalog.TagsAdded.1", tenant="A", event_time=LATEST_MS + 1
    )
    assert [fault["message"] for fault in faults] == [
        "must be catalog.EntityRegistered.1, as the record's schema says",
        "must match [a-z0-9][a-z0-9_-]{0,63}",
        "must be between -62135596800000 and 253402300799999 ms, years 1 to 9999",
    ]


def test_faults_of_event_and_header_stand_together() -> None:
    _, faults = Catalog().rejected(TagsAdded(PURCHASES, []), tenant="", event_time=LATEST_MS + 1)
    assert [fault["field"] for fault in faults] == ["tags", "header.tenant", "header.event_time"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("tenant", "0"), ("tenant", "a" * 64), ("event_time", EARLIEST_MS), ("event_time", LATEST_MS), ("event_time", 0)],
)
def test_a_header_at_the_edge_is_accepted(field: str, value: Any) -> None:
    assert isinstance(Catalog().judge(EntityRegistered(PURCHASES), **{field: value}), Accepted)


@pytest.mark.parametrize(
    "fields",
    [
        {"entities": ()},
        {"entities": (str(FLOW),)},
        {"entities": (str(PURCHASES), str(PURCHASES))},
        {"entities": (str(PURCHASES), str(FLOW))},
        {"aggregate": "dataset:default/other"},
        {"aggregate": ""},
    ],
)
def test_a_header_that_names_other_entities_is_rejected(fields: dict[str, Any]) -> None:
    """The header says what the fold fetches, so it must say what the event is about."""
    event = EntityRegistered(PURCHASES)
    outcome = Catalog().rejected(event, **fields)
    assert outcome == ("wrong-aggregate", {"aggregate": str(PURCHASES), "entities": [str(PURCHASES)]})
    judged_unread(event, **fields)


def test_an_event_about_nothing_is_refused() -> None:
    """No domain has such an event; one that had would slip through every look at its entities."""

    @dataclass
    class NothingHappened:
        TYPE = "catalog.NothingHappened.1"
        aggregate = PURCHASES
        entities: tuple[Urn, ...] = ()

        def validate(self) -> list[Fault]:
            return []

    header = header_for(EntityRegistered(PURCHASES), type=NothingHappened.TYPE, entities=())
    refused = refusal(header, NothingHappened())  # type: ignore[arg-type]
    assert refused == Rejected("wrong-aggregate", {"aggregate": str(PURCHASES), "entities": []})


def types_within(value: Any) -> set[type]:
    """The types of all values in a document."""
    if isinstance(value, dict):
        return {dict}.union(*(types_within(one) for pair in value.items() for one in pair))
    if isinstance(value, list):
        return {list}.union(*(types_within(one) for one in value))
    return {type(value)}


@pytest.mark.parametrize(
    "outcome",
    [
        Catalog().rejected(TagsAdded(PURCHASES, [])),
        Catalog().rejected(TagsAdded(PURCHASES, ["a"]), aggregate="x"),
        Catalog().rejected(TagsAdded(PURCHASES, ["a"]), expected=5),
        Catalog().rejected(TagsAdded(PURCHASES, ["a"])),
        Catalog().rejected(EntityRegistered(PURCHASES, "d" * MAX_ENTITY_BYTES)),
    ],
    ids=lambda outcome: outcome[0],
)
def test_a_detail_holds_values_of_json_only(outcome: tuple[str, Any]) -> None:
    """It goes into tables and topics; a URN that knows its parts would be pickled between Spark's processes."""
    assert types_within(outcome[1]) <= {dict, list, str, int}


def test_the_aggregate_of_a_program_is_its_app() -> None:
    """A program that claims to stand by itself would be folded beside its app's deletion."""
    reason, detail = Catalog().rejected(EntityRegistered(FLOW), aggregate=str(FLOW))
    assert (reason, detail["aggregate"]) == ("wrong-aggregate", str(app("default", "PurchaseHistory")))


def test_a_disagreement_is_found_before_a_stale_precondition_and_faults_before_both() -> None:
    """A precondition can only be held against rows that the event may read."""
    assert Catalog().rejected(EntityRegistered(PURCHASES), aggregate="x", expected=5)[0] == "wrong-aggregate"
    assert Catalog().rejected(TagsAdded(PURCHASES, []), aggregate="x", expected=5)[0] == "invalid"


# The precondition


def test_expected_is_the_newest_rows_timestamp() -> None:
    """'`expected` makes an event conditional on its target entity'."""
    catalog = Catalog()
    first = catalog.row(EntityRegistered(PURCHASES))
    second = catalog.row(TagsAdded(PURCHASES, ["a"]), expected=first.logical_timestamp)
    assert catalog.rejected(TagsAdded(PURCHASES, ["b"]), expected=first.logical_timestamp) == (
        "stale-entity",
        {"entity": str(PURCHASES), "expected": first.logical_timestamp, "found": second.logical_timestamp},
    )
    catalog.row(TagsAdded(PURCHASES, ["b"]), expected=second.logical_timestamp)


def test_unchanged_events_make_no_newer_row() -> None:
    catalog = Catalog()
    first = catalog.row(EntityRegistered(PURCHASES, tags=["a"]))
    assert catalog.judge(TagsAdded(PURCHASES, ["a"])) is UNCHANGED
    catalog.row(TagsAdded(PURCHASES, ["b"]), expected=first.logical_timestamp)


def test_expected_0_means_never_or_deleted() -> None:
    catalog = Catalog()
    first = catalog.row(EntityRegistered(PURCHASES), expected=0)
    assert catalog.rejected(EntityRegistered(PURCHASES), expected=0)[1]["found"] == first.logical_timestamp
    gone = catalog.row(EntityDeleted(PURCHASES), expected=first.logical_timestamp)
    reason, detail = catalog.rejected(EntityRegistered(PURCHASES), expected=gone.logical_timestamp)
    assert (reason, detail["found"]) == ("stale-entity", 0)
    catalog.row(EntityRegistered(PURCHASES), expected=0)


def test_the_precondition_is_judged_before_existence() -> None:
    """An unknown entity with a stale expectation is stale; only with the right one is it unknown."""
    catalog = Catalog()
    assert catalog.rejected(TagsAdded(PURCHASES, ["a"]), expected=5) == (
        "stale-entity",
        {"entity": str(PURCHASES), "expected": 5, "found": 0},
    )
    assert catalog.rejected(TagsAdded(PURCHASES, ["a"]), expected=0)[0] == "unknown-entity"
    assert catalog.rejected(EntityDeleted(PURCHASES), expected=5)[0] == "stale-entity"
    assert catalog.judge(EntityDeleted(PURCHASES), expected=0) is UNCHANGED


def test_the_precondition_is_judged_before_what_the_event_would_change() -> None:
    """Also an event that would change nothing is refused when it stands on an old row."""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, tags=["a"]))
    assert catalog.rejected(TagsAdded(PURCHASES, ["a"]), expected=0)[0] == "stale-entity"
    assert catalog.rejected(TagsAdded(PURCHASES, ["a"]), expected=-1)[0] == "stale-entity"


def test_the_target_of_a_program_event_is_the_program() -> None:
    """`expected` looks at the entity, not at its aggregate."""
    catalog = Catalog()
    catalog.row(EntityRegistered(app("default", "PurchaseHistory")))
    flow = catalog.row(EntityRegistered(FLOW), expected=0)
    tagged = catalog.row(TagsAdded(FLOW, ["a"]), expected=flow.logical_timestamp)
    assert (tagged.urn, tagged.user_tags) == (FLOW, ("a",))


def test_times_reach_from_year_1_to_9999() -> None:
    """What Delta, Arrow and Python's datetime can all hold."""
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    epoch, millisecond = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
    assert ((first - epoch) // millisecond, (last - epoch) // millisecond) == (EARLIEST_MS, LATEST_MS)
