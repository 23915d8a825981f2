"""Properties and tags in two scopes, and what the fold itself keeps."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal.domains.catalog.events import (
    EntityRegistered,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesReplaced,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)
from metajournal.domains.catalog.urns import dataset
from metajournal.rules import UNCHANGED, Outcome
from metajournal.schemas.limits import RESERVED_PROPERTIES
from tests.builders import NOON
from tests.rules.harness import Catalog, given, kept

PURCHASES = dataset("default", "purchases")
Scopes = tuple[dict[str, str], tuple[str, ...], dict[str, str], tuple[str, ...]]


@pytest.fixture
def catalog() -> Catalog:
    """One dataset with the same metadata in both scopes."""
    filled = Catalog()
    filled.row(EntityRegistered(PURCHASES, properties={"a": "1", "b": "2"}, tags=["k", "l"]))
    filled.row(PropertiesSet(PURCHASES, {"a": "1", "b": "2"}, scope="SYSTEM"))
    filled.row(TagsAdded(PURCHASES, ["k", "l"], scope="SYSTEM"))
    return filled


def scopes(catalog: Catalog) -> Scopes:
    """What producers have said of the dataset: USER properties and tags, SYSTEM properties and tags."""
    row = catalog.newest["default", PURCHASES]
    return dict(row.user_properties), row.user_tags, given(row.system_properties), row.system_tags


def scoped(scope: str, properties: dict[str, str], tags: tuple[str, ...]) -> Scopes:
    """The fixture's metadata with one scope changed."""
    base: Scopes = ({"a": "1", "b": "2"}, ("k", "l"), {"a": "1", "b": "2"}, ("k", "l"))
    return (properties, tags, *base[2:]) if scope == "USER" else (*base[:2], properties, tags)


BOTH_SCOPES = pytest.mark.parametrize("scope", ["USER", "SYSTEM"])


@BOTH_SCOPES
@pytest.mark.parametrize(
    ("event", "fields", "properties", "tags"),
    [
        (PropertiesSet, {"properties": {"c": "3"}}, {"a": "1", "b": "2", "c": "3"}, ("k", "l")),
        (PropertiesSet, {"properties": {"a": "9"}}, {"a": "9", "b": "2"}, ("k", "l")),
        (PropertiesSet, {"properties": {"a": "1", "b": ""}}, {"a": "1", "b": ""}, ("k", "l")),
        (PropertiesReplaced, {"properties": {"c": "3", "a": "1"}}, {"a": "1", "c": "3"}, ("k", "l")),
        (PropertiesReplaced, {"properties": {"b": "3"}}, {"b": "3"}, ("k", "l")),
        (PropertiesReplaced, {"properties": {}}, {}, ("k", "l")),
        (PropertiesRemoved, {"keys": ["a"]}, {"b": "2"}, ("k", "l")),
        (PropertiesRemoved, {"keys": ["a", "zz"]}, {"b": "2"}, ("k", "l")),
        (PropertiesRemoved, {"all": True}, {}, ("k", "l")),
        (TagsAdded, {"tags": ["z", "c", "k"]}, {"a": "1", "b": "2"}, ("c", "k", "l", "z")),
        (TagsRemoved, {"tags": ["k", "zz"]}, {"a": "1", "b": "2"}, ("l",)),
        (TagsRemoved, {"all": True}, {"a": "1", "b": "2"}, ()),
        (MetadataCleared, {}, {}, ()),
    ],
)
def test_an_event_changes_its_scope_and_no_other(
    catalog: Catalog, scope: str, event: Any, fields: Any, properties: dict[str, str], tags: tuple[str, ...]
) -> None:
    """'new keys are added, existing ones updated' … 'Scopes are USER and SYSTEM and never mix'."""
    catalog.row(event(PURCHASES, scope=scope, **fields))
    assert scopes(catalog) == scoped(scope, properties, tags)


@BOTH_SCOPES
@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (PropertiesSet, {"properties": {"a": "1"}}),
        (PropertiesSet, {"properties": {"b": "2", "a": "1"}}),
        (PropertiesReplaced, {"properties": {"b": "2", "a": "1"}}),
        (PropertiesRemoved, {"keys": ["zz"]}),
        (TagsAdded, {"tags": ["l", "k"]}),
        (TagsRemoved, {"tags": ["zz"]}),
    ],
)
def test_an_event_that_says_nothing_new_changes_nothing(catalog: Catalog, scope: str, event: Any, fields: Any) -> None:
    before = dict(catalog.newest)
    assert catalog.judge(event(PURCHASES, scope=scope, **fields)) is UNCHANGED
    assert catalog.newest == before


@pytest.mark.parametrize(
    "event",
    [
        PropertiesRemoved(PURCHASES, all=True),
        PropertiesRemoved(PURCHASES, all=True, scope="SYSTEM"),
        TagsRemoved(PURCHASES, all=True),
        TagsRemoved(PURCHASES, all=True, scope="SYSTEM"),
        MetadataCleared(PURCHASES, "USER"),
        MetadataCleared(PURCHASES, "SYSTEM"),
        MetadataCleared(PURCHASES, "BOTH"),
    ],
)
def test_clearing_what_is_empty_changes_nothing(event: MetadataCleared) -> None:
    """Not even the kept properties: nothing but them is there to go."""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES))
    assert catalog.judge(event) is UNCHANGED


def test_both_scopes_are_cleared_at_once(catalog: Catalog) -> None:
    """'MetadataCleared {entity, scope | both}'."""
    catalog.row(MetadataCleared(PURCHASES, "BOTH"))
    assert scopes(catalog) == ({}, (), {}, ())


@pytest.mark.parametrize(
    "event",
    [
        PropertiesSet(PURCHASES, {"u": "1"}),
        TagsAdded(PURCHASES, ["u"]),
        PropertiesSet(PURCHASES, {"u": "1"}, scope="SYSTEM"),
        TagsAdded(PURCHASES, ["u"], scope="SYSTEM"),
    ],
)
def test_clearing_both_scopes_is_news_when_anything_is_there(event: Any) -> None:
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES))
    catalog.row(event)
    catalog.row(MetadataCleared(PURCHASES, "BOTH"))
    assert scopes(catalog) == ({}, (), {}, ())


def test_user_is_the_default_scope() -> None:
    """'USER is the default, SYSTEM only when a program or the platform asks for it.'"""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES))
    catalog.row(PropertiesSet(PURCHASES, {"a": "1"}))
    catalog.row(TagsAdded(PURCHASES, ["t"]))
    assert scopes(catalog) == ({"a": "1"}, ("t",), {}, ())


def test_description_and_schema_are_system_properties_like_others() -> None:
    """'`description` and `schema` are SYSTEM properties of those names': other events set and remove them too."""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, "text", "s"))
    catalog.row(PropertiesSet(PURCHASES, {"description": "other"}, scope="SYSTEM"))
    catalog.row(PropertiesRemoved(PURCHASES, ["schema"], scope="SYSTEM"))
    assert scopes(catalog) == ({}, (), {"description": "other"}, ())


def test_maps_and_tags_of_a_row_are_sorted() -> None:
    """So that equal metadata has one form, whatever way it came about."""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, "d", "s", {"b": "1", "ä": "2", "B": "3"}, ["b", "B"]))
    catalog.row(PropertiesSet(PURCHASES, {"a": "0", "z": "1"}), actor=None)
    row = catalog.row(PropertiesSet(PURCHASES, {"x": "1", "a": "2"}, scope="SYSTEM"))
    assert list(row.user_properties) == ["B", "a", "b", "z", "ä"]
    assert list(row.system_properties) == sorted(row.system_properties)
    assert len(row.system_properties) == 8
    assert row.user_tags == ("B", "b")


# The four kept properties


def moments(catalog: Catalog) -> dict[str, str]:
    return kept(catalog.newest["default", PURCHASES].system_properties)


def test_the_fold_keeps_who_and_when() -> None:
    """'The fold itself keeps the SYSTEM properties creation_time, created_by, last_update_time, last_updated_by'."""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES), actor="alice")
    assert moments(catalog) == {
        "creation_time": str(NOON + 1000),
        "created_by": "alice",
        "last_update_time": str(NOON + 1000),
        "last_updated_by": "alice",
    }
    catalog.row(TagsAdded(PURCHASES, ["t"]), actor="bob")
    assert moments(catalog) == {
        "creation_time": str(NOON + 1000),
        "created_by": "alice",
        "last_update_time": str(NOON + 2000),
        "last_updated_by": "bob",
    }


def test_without_an_actor_nobody_is_named() -> None:
    """A name is left out when nobody is given, and an earlier one is not passed off as the last one's."""
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, "d"), actor=None)
    assert moments(catalog) == {"creation_time": str(NOON + 1000), "last_update_time": str(NOON + 1000)}
    catalog.row(TagsAdded(PURCHASES, ["t"]), actor="bob")
    assert moments(catalog).keys() == {"creation_time", "last_update_time", "last_updated_by"}
    row = catalog.row(TagsAdded(PURCHASES, ["u"]), actor=None)
    assert moments(catalog) == {"creation_time": str(NOON + 1000), "last_update_time": str(NOON + 3000)}
    assert list(row.system_properties) == sorted(row.system_properties)


def test_an_empty_actor_is_an_actor() -> None:
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES), actor="")
    assert moments(catalog)["created_by"] == moments(catalog)["last_updated_by"] == ""


def test_what_changes_nothing_is_no_update() -> None:
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES, tags=["t"]))
    before = moments(catalog)
    assert catalog.judge(TagsAdded(PURCHASES, ["t"]), actor="bob") is UNCHANGED
    assert moments(catalog) == before


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES))
def test_no_producer_can_set_or_remove_them(catalog: Catalog, name: str) -> None:
    """'no producer can set these four'; the rules look again, whatever a client let through."""
    reason, faults = catalog.rejected(PropertiesSet(PURCHASES, {"x": "1", name: "0"}, scope="SYSTEM"))
    assert (reason, [fault["field"] for fault in faults]) == ("invalid", [f"properties['{name}']"])
    reason, faults = catalog.rejected(PropertiesRemoved(PURCHASES, ["x", name], scope="SYSTEM"))
    assert (reason, [fault["field"] for fault in faults]) == ("invalid", ["keys[1]"])


@pytest.mark.parametrize(
    "event",
    [
        PropertiesRemoved(PURCHASES, all=True, scope="SYSTEM"),
        MetadataCleared(PURCHASES, "SYSTEM"),
        MetadataCleared(PURCHASES, "BOTH"),
    ],
)
def test_removing_all_leaves_them(catalog: Catalog, event: Any) -> None:
    created = moments(catalog)["creation_time"]
    row = catalog.row(event, actor="carol")
    assert row.system_properties == {
        "creation_time": created,
        "created_by": "alice",
        "last_update_time": str(catalog.at.system_time),
        "last_updated_by": "carol",
    }


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES))
def test_in_scope_user_their_names_are_free(catalog: Catalog, name: str) -> None:
    """'Scopes … never mix': a USER property of such a name is the user's own, to set and to remove."""
    assert catalog.row(PropertiesSet(PURCHASES, {name: "mine"})).user_properties[name] == "mine"
    assert name not in catalog.row(PropertiesRemoved(PURCHASES, [name])).user_properties
    catalog.row(PropertiesSet(PURCHASES, {name: "mine"}))
    assert catalog.row(PropertiesRemoved(PURCHASES, all=True)).user_properties == {}
    catalog.row(PropertiesSet(PURCHASES, {name: "mine"}))
    assert catalog.row(MetadataCleared(PURCHASES)).user_properties == {}


def test_rows_before_an_event_stay_as_they_were(catalog: Catalog) -> None:
    """Rows are values: an event makes new ones and touches neither the old ones nor itself."""
    before = catalog.newest["default", PURCHASES]
    copy = (dict(before.user_properties), before.user_tags, dict(before.system_properties), before.system_tags)
    said = PropertiesSet(PURCHASES, {"n": "1"}), PropertiesSet(PURCHASES, {"n": "1"}, scope="SYSTEM")
    events = [
        *said,
        PropertiesRemoved(PURCHASES, ["n"], scope="SYSTEM"),
        EntityRegistered(PURCHASES, "d", properties={"m": "1"}, tags=["n"]),
        MetadataCleared(PURCHASES, "BOTH"),
    ]
    outcomes: list[Outcome] = [catalog.judge(event) for event in events]
    assert UNCHANGED not in outcomes
    assert (before.user_properties, before.user_tags, before.system_properties, before.system_tags) == copy
    assert [event.properties for event in said] == [{"n": "1"}, {"n": "1"}]
