"""Entities exist from registration to deletion. Each test quotes the sentence of the catalog's page that it holds."""

from __future__ import annotations

import pytest

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
from metajournal.rules import UNCHANGED, Accepted
from metajournal.schemas.urn import Urn, urn
from tests.builders import NOON
from tests.rules.harness import Catalog, given

PURCHASES = dataset("default", "purchases")
HISTORY = app("default", "PurchaseHistory")
FLOW = program("default", "PurchaseHistory", "flow", "PurchaseFlow")
BUILDER = program("default", "PurchaseHistory", "mapreduce", "Builder")
RUN = run("default", "PurchaseHistory", "flow", "PurchaseFlow", "run-1")

ANNOTATIONS = [
    PropertiesSet(PURCHASES, {"owner": "alice"}),
    PropertiesRemoved(PURCHASES, ["owner"]),
    PropertiesRemoved(PURCHASES, all=True),
    TagsAdded(PURCHASES, ["pii"]),
    TagsRemoved(PURCHASES, ["pii"]),
    TagsRemoved(PURCHASES, all=True),
    MetadataCleared(PURCHASES, "BOTH"),
]


@pytest.mark.parametrize(
    ("entity", "kind", "namespace", "name", "aggregate"),
    [
        (PURCHASES, "dataset", "default", "purchases", PURCHASES),
        (stream("default", "log"), "stream", "default", "log", stream("default", "log")),
        (HISTORY, "app", "default", "PurchaseHistory", HISTORY),
        (FLOW, "program", "default", "PurchaseFlow", HISTORY),
        (RUN, "run", "default", "run-1", HISTORY),
        (urn("team", "data science"), "team", None, "data science", urn("team", "data science")),
        (urn("topic", "a/b", "c"), "topic", "a/b", "c", urn("topic", "a/b", "c")),
    ],
)
def test_a_row_names_its_entity(entity: Urn, kind: str, namespace: str | None, name: str, aggregate: Urn) -> None:
    """'An entity is anything that can carry metadata. It is named by a URN `kind:path`', and its aggregate."""
    catalog = Catalog()
    row = catalog.row(EntityRegistered(entity), actor="bob", tenant="acme", event_time=7)
    assert (row.urn, row.kind, row.namespace, row.name, row.aggregate) == (entity, kind, namespace, name, aggregate)
    assert (row.tenant, row.actor, row.event_time, row.deleted, row.seq) == ("acme", "bob", 7, False, 0)
    assert (row.logical_timestamp, row.system_time) == catalog.at[:2] == ((1 << 40) + 1, NOON + 1000)
    assert row.event_id == "00000000-0000-0000-0000-000000000001"


def test_registration_states_all_it_is_given() -> None:
    """'EntityRegistered {entity, description?, schema?, properties?, tags?}'; 'added in scope USER'."""
    event = EntityRegistered(PURCHASES, "What was bought", '{"type":"string"}', {"b": "2", "a": "1"}, ["z", "k", "z"])
    row = Catalog().row(event)
    assert row.user_properties == {"a": "1", "b": "2"}
    assert row.user_tags == ("k", "z")
    assert given(row.system_properties) == {"description": "What was bought", "schema": '{"type":"string"}'}
    assert row.system_tags == ()


def test_the_schema_is_avro_text_or_a_list() -> None:
    """'The schema is an Avro schema or a list of (name, type)': text stays as it is, a list is canonical JSON."""
    row = Catalog().row(EntityRegistered(PURCHASES, schema=[("b", "int"), ("ä", "string")]))
    assert row.system_properties["schema"] == '[["b","int"],["ä","string"]]'
    row = Catalog().row(EntityRegistered(PURCHASES, schema=' { "type": "no schema" '))
    assert row.system_properties["schema"] == ' { "type": "no schema" '
    assert "schema" not in Catalog().row(EntityRegistered(PURCHASES)).system_properties


def test_empty_texts_are_stated_texts() -> None:
    """Only None is "not given": an empty description or list of fields is what somebody said."""
    row = Catalog().row(EntityRegistered(PURCHASES, description="", schema=[]))
    assert given(row.system_properties) == {"description": "", "schema": "[]"}


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (EntityRegistered(PURCHASES, description="new"), ({"a": "1"}, ("k",), {"description": "new", "schema": "s"})),
        (EntityRegistered(PURCHASES, schema="t"), ({"a": "1"}, ("k",), {"description": "old", "schema": "t"})),
        (
            EntityRegistered(PURCHASES, properties={"a": "2", "0": "3"}),
            ({"0": "3", "a": "2"}, ("k",), {"description": "old", "schema": "s"}),
        ),
        (EntityRegistered(PURCHASES, tags=["b"]), ({"a": "1"}, ("b", "k"), {"description": "old", "schema": "s"})),
    ],
)
def test_registering_again_updates(again: EntityRegistered, expected: object) -> None:
    """'Registering again updates': each part alone is news, and what is not named stays."""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, "old", "s", {"a": "1"}, ["k"]))
    row = catalog.row(again)
    assert (row.user_properties, row.user_tags, given(row.system_properties)) == expected


@pytest.mark.parametrize(
    "again",
    [
        EntityRegistered(PURCHASES),
        EntityRegistered(PURCHASES, "old", "s", {"a": "1"}, ["k"]),
        EntityRegistered(PURCHASES, properties={"a": "1"}),
    ],
)
def test_registering_again_with_nothing_new_changes_nothing(again: EntityRegistered) -> None:
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, "old", "s", {"a": "1", "b": "2"}, ["k", "l"]))
    assert catalog.judge(again) is UNCHANGED


def test_registering_the_first_time_is_news_even_when_empty() -> None:
    assert isinstance(Catalog().judge(EntityRegistered(PURCHASES)), Accepted)


@pytest.mark.parametrize("entity", [FLOW, RUN])
def test_a_program_or_run_needs_no_registered_app(entity: Urn) -> None:
    """'A program or run needs no registered app.'"""
    assert Catalog().row(EntityRegistered(entity)).urn == entity


@pytest.mark.parametrize("event", ANNOTATIONS)
def test_annotating_what_was_never_registered_is_rejected(event: PropertiesSet) -> None:
    """'Annotating an entity that was never registered … is `Rejected(unknown-entity)`.'"""
    assert Catalog().rejected(event) == ("unknown-entity", {"entity": "dataset:default/purchases"})


@pytest.mark.parametrize("event", ANNOTATIONS)
def test_annotating_what_is_deleted_is_rejected(event: PropertiesSet) -> None:
    """'Annotating an entity that … is deleted, is `Rejected(unknown-entity)`.'"""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES))
    catalog.row(EntityDeleted(PURCHASES))
    assert catalog.rejected(event) == ("unknown-entity", {"entity": "dataset:default/purchases"})


def test_entities_of_an_unserved_domain_are_unknown() -> None:
    """'a file exists from its record': none is there before that domain is served, so annotating is rejected."""
    file = urn("file", "s3", "bucket", "2024-01-01")
    reason, detail = Catalog().rejected(TagsAdded(file, ["pii"]))
    assert (reason, detail) == ("unknown-entity", {"entity": str(file)})


@pytest.mark.parametrize("event", [EntityRegistered, EntityDeleted])
def test_kinds_of_another_domain_begin_and_end_by_its_events_only(event: type[EntityDeleted]) -> None:
    """'Kinds that another domain owns (`file:`, `repo:` …) end by that domain's events only.'"""
    reason, (fault,) = Catalog().rejected(event(urn("repo", "lake")))
    assert (reason, fault["field"]) == ("invalid", "entity")


def test_annotations_go_with_their_entity() -> None:
    """'EntityDeleted {entity}: its annotations go with it.'"""
    catalog = Catalog()
    before = catalog.row(EntityRegistered(PURCHASES, "text", "s", {"a": "1"}, ["k"]))
    catalog.row(TagsAdded(PURCHASES, ["t"], scope="SYSTEM"))
    row = catalog.row(EntityDeleted(PURCHASES), actor="bob")
    assert (row.user_properties, row.user_tags, row.system_properties, row.system_tags) == ({}, (), {}, ())
    assert (row.deleted, row.actor, row.logical_timestamp, row.system_time) == (True, "bob", *catalog.at[:2])
    assert row[:6] == before[:6]


def test_deleting_the_unknown_changes_nothing() -> None:
    """'(an unknown entity: unchanged)', never registered or deleted already."""
    catalog = Catalog()
    assert catalog.judge(EntityDeleted(PURCHASES)) is UNCHANGED
    catalog.row(EntityRegistered(PURCHASES))
    catalog.row(EntityDeleted(PURCHASES))
    assert catalog.judge(EntityDeleted(PURCHASES)) is UNCHANGED


def test_what_is_registered_anew_starts_empty() -> None:
    """A deleted entity's name is free; nothing of the former one comes back."""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, "text", "s", {"a": "1"}, ["k"]), actor="alice")
    catalog.row(EntityDeleted(PURCHASES))
    row = catalog.row(EntityRegistered(PURCHASES, tags=["new"]), actor="bob")
    assert (row.user_properties, row.user_tags, row.system_tags, row.deleted) == ({}, ("new",), (), False)
    assert row.system_properties == {
        "created_by": "bob",
        "creation_time": str(NOON + 3000),
        "last_update_time": str(NOON + 3000),
        "last_updated_by": "bob",
    }


def test_deleting_an_app_takes_its_programs_along() -> None:
    """'deleting an app takes its programs along', app first, then programs by URN; runs and other apps' stay."""
    catalog = Catalog()
    twin = app("default", "PurchaseHistory2")
    others = [RUN, twin, program("default", "PurchaseHistory2", "flow", "F"), PURCHASES]
    for entity in [BUILDER, *others, FLOW, HISTORY]:
        catalog.row(EntityRegistered(entity, tags=["t"]))
    rows = catalog.rows(EntityDeleted(HISTORY), actor="bob")
    assert [row.urn for row in rows] == [HISTORY, FLOW, BUILDER]
    assert [row.seq for row in rows] == [0, 1, 2]
    assert {row.aggregate for row in rows} == {HISTORY}
    assert {(row.deleted, row.actor, row.logical_timestamp, row.user_tags) for row in rows} == {
        (True, "bob", catalog.at.position, ())
    }
    assert not any(catalog.newest["default", entity].deleted for entity in others)


def test_an_app_takes_only_living_programs_of_its_tenant() -> None:
    catalog = Catalog()
    for entity in [HISTORY, FLOW, BUILDER]:
        catalog.row(EntityRegistered(entity))
    catalog.row(EntityRegistered(BUILDER), tenant="acme")
    catalog.row(EntityDeleted(BUILDER))
    assert [row.urn for row in catalog.rows(EntityDeleted(HISTORY))] == [HISTORY, FLOW]


def test_programs_of_an_unregistered_app_stay() -> None:
    """An unknown app is unchanged, so nothing goes along with it."""
    catalog = Catalog()
    catalog.row(EntityRegistered(FLOW))
    assert catalog.judge(EntityDeleted(HISTORY)) is UNCHANGED
    assert not catalog.newest["default", FLOW].deleted


def test_deleting_a_program_leaves_its_app() -> None:
    catalog = Catalog()
    for entity in [HISTORY, FLOW, BUILDER]:
        catalog.row(EntityRegistered(entity))
    assert catalog.row(EntityDeleted(FLOW)).urn == FLOW


def test_tenants_share_no_entity() -> None:
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES), tenant="acme")
    assert catalog.rejected(TagsAdded(PURCHASES, ["t"]), tenant="default")[0] == "unknown-entity"
