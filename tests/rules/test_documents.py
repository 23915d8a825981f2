"""Change records and state documents, exactly as the catalog's page and the state topic's readers have them."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from metajournal.domains.catalog.documents import change_records
from metajournal.domains.catalog.events import (
    EntityDeleted,
    EntityRegistered,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)
from metajournal.domains.catalog.urns import app, dataset, program, run, stream
from metajournal.rules import EntityRow
from metajournal.rules.documents import state_document
from metajournal.schemas.limits import RESERVED_PROPERTIES
from metajournal.schemas.urn import Urn, urn
from tests.builders import NOON
from tests.rules.harness import Catalog

PURCHASES = dataset("default", "purchases")
NOTHING: dict[str, Any] = {"properties": {}, "tags": []}


@pytest.fixture
def catalog() -> Catalog:
    """A dataset with a description, two properties and two tags."""
    filled = Catalog()
    filled.row(EntityRegistered(PURCHASES, "text", properties={"b": "2", "a": "1"}, tags=["z", "k"]))
    return filled


def test_a_change_record_has_exactly_these_fields(catalog: Catalog) -> None:
    """'Exactly these fields', in this order, to the letter."""
    records = catalog.changes(PropertiesSet(PURCHASES, {"a": "9", "c": "3"}), actor="bob")
    assert list(records) == ["USER"]
    assert json.dumps(records["USER"]) == json.dumps(
        {
            "previous": {"properties": {"a": "1", "b": "2"}, "tags": ["k", "z"]},
            "updated": {"properties": {"a": "9", "b": "2", "c": "3"}, "tags": ["k", "z"]},
            "changes": {
                "additions": {"properties": {"a": "9", "c": "3"}, "tags": []},
                "deletions": {"properties": {"a": "1"}, "tags": []},
            },
            "targetId": {"type": "dataset", "namespace": "default", "id": "purchases"},
            "updateTime": NOON + 2000,
            "updater": "bob",
        }
    )


def test_each_scope_has_its_own_record() -> None:
    """'one change record for each entity **and scope** whose metadata changed'; they 'hold that scope only'."""
    records = Catalog().changes(EntityRegistered(PURCHASES, "text", properties={"a": "1"}, tags=["k"]))
    assert list(records) == ["USER", "SYSTEM"]
    assert records["USER"]["previous"] == records["SYSTEM"]["previous"] == NOTHING
    assert records["USER"]["updated"] == {"properties": {"a": "1"}, "tags": ["k"]}
    assert records["SYSTEM"]["updated"] == {"properties": {"description": "text"}, "tags": []}


def test_kept_properties_alone_give_no_record() -> None:
    """'the four kept properties alone give none', at registration, at an update and at the end."""
    catalog = Catalog()
    assert catalog.changes(EntityRegistered(PURCHASES)) == {}
    assert list(catalog.changes(TagsAdded(PURCHASES, ["a"]), actor="bob")) == ["USER"]
    assert list(catalog.changes(TagsRemoved(PURCHASES, ["a"]), actor=None)) == ["USER"]
    assert catalog.changes(EntityDeleted(PURCHASES)) == {}


def test_a_user_property_of_a_kept_name_is_a_change() -> None:
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES))
    records = catalog.changes(PropertiesSet(PURCHASES, {"created_by": "me"}))
    assert records["USER"]["changes"]["additions"]["properties"] == {"created_by": "me"}


def test_subscribers_see_description_and_schema_change(catalog: Catalog) -> None:
    """'`description` and `schema` are SYSTEM properties of those names, so subscribers see them change.'"""
    records = catalog.changes(EntityRegistered(PURCHASES, "other", "s"))
    assert list(records) == ["SYSTEM"]
    assert records["SYSTEM"]["changes"] == {
        "additions": {"properties": {"description": "other", "schema": "s"}, "tags": []},
        "deletions": {"properties": {"description": "text"}, "tags": []},
    }


def test_a_change_within_one_millisecond_of_the_last_one_shows(catalog: Catalog) -> None:
    """Of the kept properties nothing moves then, so they cannot tell that something else did."""
    before = catalog.newest["default", PURCHASES]
    after = before._replace(system_properties={**before.system_properties, "description": "other"})
    ((scope, record),) = change_records(before, after)
    assert (scope, record["updated"]["properties"]) == ("SYSTEM", {"description": "other"})
    assert change_records(after, after._replace(seq=1)) == []


def test_a_row_without_kept_properties_has_its_changes_told() -> None:
    """Records are made of rows alone, whatever these are."""
    row = Catalog().row(EntityRegistered(PURCHASES))
    before, after = row._replace(system_properties={"a": "1"}), row._replace(system_properties={"a": "2"})
    ((scope, record),) = change_records(before, after)
    assert (scope, record["changes"]["deletions"]["properties"]) == ("SYSTEM", {"a": "1"})


NAMES = [*"abcd", *sorted(RESERVED_PROPERTIES)]
MAPS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("123"), max_size=6).map(
    lambda held: dict(sorted(held.items()))
)
TAGS = st.sets(st.sampled_from("abcdefghijkl")).map(lambda held: tuple(sorted(held)))
METADATA = st.tuples(MAPS, TAGS)


Metadata = tuple[dict[str, str], tuple[str, ...]]
PARTS = ("previous", "updated", "changes")


def with_metadata(row: EntityRow, user: Metadata, system: Metadata) -> EntityRow:
    return row._replace(user_properties=user[0], user_tags=user[1], system_properties=system[0], system_tags=system[1])


def stated(metadata: Metadata) -> Metadata:
    """Without what the fold keeps."""
    return {name: value for name, value in metadata[0].items() if name not in RESERVED_PROPERTIES}, metadata[1]


def told(previous: Metadata, updated: Metadata) -> list[dict[str, Any]]:
    """previous, updated and changes by their definition."""
    additions, deletions = lacking(updated, previous), lacking(previous, updated)
    return [*map(document, (previous, updated)), {"additions": document(additions), "deletions": document(deletions)}]


def lacking(metadata: Metadata, others: Metadata) -> Metadata:
    properties = dict(metadata[0].items() - others[0].items())
    return properties, tuple(sorted({*metadata[1]} - {*others[1]}))


def document(metadata: Metadata) -> dict[str, Any]:
    return {"properties": metadata[0], "tags": [*metadata[1]]}


@hypothesis.settings(deadline=None)
@hypothesis.given(METADATA, METADATA, METADATA, METADATA)
def test_records_of_any_two_rows_are_those_of_the_definition(
    user: Metadata, new_user: Metadata, system: Metadata, new_system: Metadata
) -> None:
    """Also where one event would take and give at once, which none of today's does."""
    base = Catalog().row(EntityRegistered(PURCHASES))
    before, after = with_metadata(base, user, system), with_metadata(base, new_user, new_system)
    wanted = {"USER": told(user, new_user), "SYSTEM": told(stated(system), stated(new_system))}
    found = [(scope, [record[part] for part in PARTS]) for scope, record in change_records(before, after)]
    assert found == [(scope, record) for scope, record in wanted.items() if record[0] != record[1]]


def test_tags_are_sorted_and_differ_by_what_came_and_went(catalog: Catalog) -> None:
    """'tags are sorted.'"""
    added = catalog.changes(TagsAdded(PURCHASES, ["y", "b", "a", "k"]))["USER"]
    assert added["updated"]["tags"] == ["a", "b", "k", "y", "z"]
    assert added["changes"] == {"additions": {"properties": {}, "tags": ["a", "b", "y"]}, "deletions": NOTHING}
    removed = catalog.changes(TagsRemoved(PURCHASES, ["z", "b"]))["USER"]
    assert removed["changes"] == {"additions": NOTHING, "deletions": {"properties": {}, "tags": ["b", "z"]}}


@pytest.mark.parametrize("count", [1, 7, 8, 9, 60])
def test_many_tags_differ_as_few_do(count: int) -> None:
    """Half of them go, as many come, all sorted; and the same in either direction."""
    names = [f"{number * 37 % 100:02}" for number in range(count)]
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, tags=[f"old{name}" for name in names]))
    added = catalog.changes(TagsAdded(PURCHASES, [f"new{name}" for name in names]))["USER"]["changes"]
    assert added["additions"]["tags"] == sorted(f"new{name}" for name in names)
    assert added["deletions"] == NOTHING
    going = [f"old{name}" for name in names[: count // 2 + 1]]
    removed = catalog.changes(TagsRemoved(PURCHASES, going))["USER"]["changes"]
    assert removed["deletions"]["tags"] == sorted(going)
    assert removed["additions"] == NOTHING


def test_system_tags_alone_are_a_change(catalog: Catalog) -> None:
    records = catalog.changes(TagsAdded(PURCHASES, ["t"], scope="SYSTEM"))
    assert list(records) == ["SYSTEM"]
    assert records["SYSTEM"]["updated"] == {"properties": {"description": "text"}, "tags": ["t"]}


def test_each_record_goes_on_where_the_one_before_it_ended(catalog: Catalog) -> None:
    """'`previous` of a record equals `updated` of the one before it', also over an end and a new beginning."""
    events = [
        TagsAdded(PURCHASES, ["n"]),
        PropertiesRemoved(PURCHASES, ["a"]),
        MetadataCleared(PURCHASES, "BOTH"),
        PropertiesSet(PURCHASES, {"x": "1"}),
        EntityDeleted(PURCHASES),
        EntityRegistered(PURCHASES, properties={"y": "1"}),
    ]
    records = [catalog.changes(event)["USER"] for event in events]
    assert [one["previous"] for one in records[1:]] == [one["updated"] for one in records[:-1]]
    assert records[4]["updated"] == records[5]["previous"] == NOTHING


def test_an_end_deletes_what_was_there(catalog: Catalog) -> None:
    records = catalog.changes(EntityDeleted(PURCHASES))
    assert records["USER"]["changes"]["deletions"] == {"properties": {"a": "1", "b": "2"}, "tags": ["k", "z"]}
    assert records["SYSTEM"]["changes"]["deletions"] == {"properties": {"description": "text"}, "tags": []}


def test_the_updater_is_null_without_an_actor(catalog: Catalog) -> None:
    """'`updater` is null without an actor'; '`updateTime` is the system_time in milliseconds'."""
    record = catalog.changes(TagsAdded(PURCHASES, ["n"]), actor=None, event_time=5)["USER"]
    assert (record["updater"], record["updateTime"]) == (None, NOON + 2000)


@pytest.mark.parametrize(
    ("entity", "target"),
    [
        (PURCHASES, {"type": "dataset", "namespace": "default", "id": "purchases"}),
        (dataset("n s", "a/b"), {"type": "dataset", "namespace": "n s", "id": "a/b"}),
        (stream("default", "é"), {"type": "stream", "namespace": "default", "id": "é"}),
        (app("default", "My App"), {"type": "app", "namespace": "default", "id": "My App"}),
        (
            program("n/s", "My App", "mapreduce", "a:b"),
            {"type": "mapreduce", "namespace": "n/s", "application": "My App", "id": "a:b"},
        ),
        (run("ns", "a", "flow", "f", "r 1"), {"type": "run", "id": "ns/a/flow/f/r%201"}),
        (urn("team", "data science"), {"type": "team", "id": "data%20science"}),
        (urn("topic", "a/b", "c"), {"type": "topic", "id": "a%2Fb/c"}),
        (urn("topic", "a", "b/c"), {"type": "topic", "id": "a/b%2Fc"}),
    ],
)
def test_the_target_names_its_entity(entity: Urn, target: dict[str, str]) -> None:
    """'`targetId` of a program adds "application", with `type` the program's type; other kinds: kind and path'.

    Names are decoded where they stand alone; a path stays as written, so that no two entities read the same.
    """
    record = Catalog().changes(EntityRegistered(entity, tags=["t"]))["USER"]
    assert json.dumps(record["targetId"]) == json.dumps(target)


def test_rows_that_come_from_a_table_give_the_same_records(catalog: Catalog) -> None:
    """There the URN is plain text."""
    flow = program("default", "A", "flow", "F")
    row = catalog.row(EntityRegistered(flow, tags=["t"]))
    assert change_records(None, row._replace(urn=str(flow))) == change_records(None, row)
    assert state_document(row._replace(urn=str(flow)), 1) == state_document(row, 1)


def test_a_state_document_has_exactly_these_fields(catalog: Catalog) -> None:
    row = catalog.row(TagsAdded(PURCHASES, ["t"], scope="SYSTEM"), actor=None, tenant="default", event_time=5)
    assert json.dumps(state_document(row, 3)) == json.dumps(
        {
            "tenant": "default",
            "urn": "dataset:default/purchases",
            "kind": "dataset",
            "namespace": "default",
            "name": "purchases",
            "domain": "catalog",
            "aggregate": "dataset:default/purchases",
            "partition": 3,
            "position": (1 << 40) + 2,
            "seq": 0,
            "logical_timestamp": (1 << 40) + 2,
            "system_time": NOON + 2000,
            "event_time": 5,
            "event_id": "00000000-0000-0000-0000-000000000002",
            "actor": None,
            "deleted": False,
            "record": None,
            "user": {"properties": {"a": "1", "b": "2"}, "tags": ["k", "z"]},
            "system": {
                "properties": {
                    "created_by": "alice",
                    "creation_time": str(NOON + 1000),
                    "description": "text",
                    "last_update_time": str(NOON + 2000),
                },
                "tags": ["t"],
            },
        }
    )


def test_the_document_of_a_deleted_program_says_so() -> None:
    """'a deleted one is a document that says so, not a null'; its `seq` is its place among the event's rows."""
    catalog = Catalog()
    catalog.row(EntityRegistered(app("default", "A")))
    catalog.row(EntityRegistered(program("default", "A", "flow", "F"), "text", tags=["t"]))
    _, row = catalog.rows(EntityDeleted(app("default", "A")))
    document = state_document(row, 0)
    assert (document["deleted"], document["seq"], document["aggregate"]) == (True, 1, "app:default/A")
    assert document["user"] == document["system"] == NOTHING


def test_a_name_without_namespace_has_null() -> None:
    document = state_document(Catalog().row(EntityRegistered(urn("team", "t"))), 0)
    assert (document["namespace"], document["name"], document["domain"]) == (None, "t", "catalog")


def test_the_domain_follows_the_kind(catalog: Catalog) -> None:
    row = catalog.newest["default", PURCHASES]._replace(kind="file")
    assert state_document(row, 0)["domain"] == "files"
