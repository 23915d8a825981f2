"""Validation lists every fault at once, with its field, and finds none in valid events."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from metajournal import (
    EntityDeleted,
    EntityRegistered,
    InvalidEventError,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
    Urn,
    program,
    urn,
)
from metajournal.schemas.limits import MAX_ENTRIES, MAX_KEY_BYTES, RESERVED_PROPERTIES
from tests.schemas.builders import PURCHASES

SURROGATE = "\ud800"
MANY = [str(index) for index in range(MAX_ENTRIES + 1)]
FILE = urn("file", "w", "h", "1")


def fields(event: Any) -> list[str]:
    return [fault.field for fault in event.validate()]


@pytest.mark.parametrize(
    "event",
    [
        EntityRegistered(PURCHASES),
        EntityRegistered(PURCHASES, "what was bought", '{"type": "rec', {"k": ""}, ["é"]),
        EntityRegistered(PURCHASES, schema=[("id", "long"), ("naïve", "string")]),
        EntityRegistered(PURCHASES, schema=[]),
        EntityRegistered(program("d", "a", "spark", "p")),
        EntityDeleted(PURCHASES),
        PropertiesSet(PURCHASES, {"k": "v", "ключ": "значение"}),
        PropertiesSet(PURCHASES, {"description": "d"}, scope="SYSTEM"),
        PropertiesSet(PURCHASES, dict.fromkeys(RESERVED_PROPERTIES, "mine")),
        PropertiesSet(FILE, {"k": "v"}),
        PropertiesSet(PURCHASES, {"k" * MAX_KEY_BYTES: "v"}),
        PropertiesRemoved(PURCHASES, ["k"]),
        PropertiesRemoved(PURCHASES, all=True, scope="SYSTEM"),
        TagsAdded(PURCHASES, MANY[:MAX_ENTRIES]),
        TagsAdded(PURCHASES, {"b", "a"}, scope="SYSTEM"),
        TagsAdded(PURCHASES, (tag for tag in ("a", "b"))),
        TagsRemoved(PURCHASES, ["a", "a"]),
        TagsRemoved(PURCHASES, all=True),
        MetadataCleared(PURCHASES),
        MetadataCleared(FILE, "BOTH"),
    ],
)
def test_valid_events_have_no_faults(event: Any) -> None:
    assert event.validate() == []
    assert event.aggregate == event.entity.aggregate
    assert event.entities == (event.entity,)


NOT_URN: Any = "dataset:"
WRONG: Any = 7


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (EntityRegistered(FILE), ["entity"]),
        (EntityRegistered(urn("repo", "r")), ["entity"]),
        (EntityDeleted(urn("table", "a", "b")), ["entity"]),
        (EntityDeleted(WRONG), ["entity"]),
        (EntityRegistered(PURCHASES, WRONG, WRONG, WRONG, WRONG), ["description", "schema", "properties", "tags"]),
        (EntityRegistered(PURCHASES, SURROGATE, SURROGATE), ["description", "schema"]),
        (EntityRegistered(PURCHASES, schema=["ab", ("a", 1), ("", "x"), ("a",)]), None),  # type: ignore[list-item]
        (EntityRegistered(PURCHASES, schema=[("a", "b")] * (MAX_ENTRIES + 1)), ["schema"]),
        (
            PropertiesSet(NOT_URN, {"": "v", "k": WRONG, SURROGATE: "v", "l": SURROGATE}, scope="user"),
            ["entity", "scope", "properties['']", "properties['k']", "properties['\\ud800']", "properties['l']"],
        ),
        (PropertiesSet(PURCHASES, {}), ["properties"]),
        (PropertiesSet(PURCHASES, WRONG), ["properties"]),
        (PropertiesSet(PURCHASES, {WRONG: "v"}), ["properties[7]"]),
        (PropertiesSet(PURCHASES, dict.fromkeys(MANY, "v")), ["properties"]),
        (PropertiesSet(PURCHASES, {"a": "b"}, scope="BOTH"), ["scope"]),
        (PropertiesSet(PURCHASES, {"a": "b"}, scope=WRONG), ["scope"]),
        (PropertiesSet(PURCHASES, {"k" * (MAX_KEY_BYTES + 1): "v"}), None),
        (PropertiesSet(PURCHASES, {"é" * (MAX_KEY_BYTES // 2 + 1): "v"}), None),
        (
            PropertiesSet(PURCHASES, dict.fromkeys(sorted(RESERVED_PROPERTIES), "v"), scope="SYSTEM"),
            [f"properties[{name!r}]" for name in sorted(RESERVED_PROPERTIES)],
        ),
        (PropertiesRemoved(PURCHASES, ["x", "created_by"], scope="SYSTEM"), ["keys[1]"]),
        (PropertiesRemoved(PURCHASES), ["keys"]),
        (PropertiesRemoved(PURCHASES, ["k"], all=True), ["all"]),
        (PropertiesRemoved(PURCHASES, ["k", ""], all=WRONG), ["keys[1]", "all"]),
        (PropertiesRemoved(PURCHASES, "k"), ["keys"]),
        (TagsAdded(PURCHASES, []), ["tags"]),
        (TagsAdded(PURCHASES, "pii"), ["tags"]),
        (TagsAdded(PURCHASES, ["ok", "", WRONG, SURROGATE]), ["tags[1]", "tags[2]", "tags[3]"]),
        (TagsAdded(PURCHASES, MANY), ["tags"]),
        (TagsAdded(PURCHASES, ["a"], scope="BOTH"), ["scope"]),
        (TagsRemoved(PURCHASES), ["tags"]),
        (TagsRemoved(PURCHASES, ["a"], all=True, scope="x"), ["scope", "all"]),
        (MetadataCleared(PURCHASES, "ALL"), ["scope"]),
        (MetadataCleared(NOT_URN, WRONG), ["entity", "scope"]),
    ],
)
def test_every_fault_is_listed_with_its_field(event: Any, expected: list[str] | None) -> None:
    faulty = fields(event)
    assert faulty if expected is None else faulty == expected


def test_the_message_of_several_faults_is_one_sentence() -> None:
    event = TagsAdded("orders", [""])
    assert InvalidEventError(event.validate()).message == (
        "The event is not valid: entity: 'orders' is not a valid URN: it is not kind:part/part with every other byte "
        "percent-encoded; tags[0]: must not be empty."
    )


def test_faults_of_schema_fields_are_placed() -> None:
    event = EntityRegistered(PURCHASES, schema=[("a", "int"), "ab", ("a", 1), ("", "x"), ("a",)])  # type: ignore[list-item]
    assert fields(event) == ["schema[1]", "schema[2].type", "schema[3].name", "schema[4]"]


def test_long_keys_are_cut_in_the_fault() -> None:
    (fault,) = PropertiesSet(PURCHASES, {"k" * 5000: "v"}).validate()
    assert len(fault.field) < 120
    assert "5,000 bytes, the limit is 1,024" in fault.message


def test_texts_are_parsed_into_urns() -> None:
    event = TagsAdded("dataset:default/purchases", ["pii"])
    assert type(event.entity) is Urn
    assert event == TagsAdded(PURCHASES, ("pii",))
    assert event.TYPE == "catalog.TagsAdded.1"


def test_an_event_without_a_urn_has_no_entities() -> None:
    with pytest.raises(InvalidEventError) as caught:
        _ = TagsAdded(NOT_URN, ["a"]).entities
    assert [fault.field for fault in caught.value.faults] == ["entity"]


def test_events_keep_their_own_copy_and_are_frozen() -> None:
    given = {"k": "v"}
    event = PropertiesSet(PURCHASES, given)
    given["l"] = "w"
    assert event.properties == {"k": "v"}
    with pytest.raises(FrozenInstanceError):
        event.scope = "SYSTEM"  # type: ignore[misc]
    for twin in (pickle.loads(pickle.dumps(event)), copy.deepcopy(event)):
        assert twin == event


def test_sets_become_tuples_in_one_order() -> None:
    assert TagsAdded(PURCHASES, {"c", "a", "b"}).tags == ("a", "b", "c")
