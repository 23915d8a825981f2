"""Conditions: each one narrows, several of one kind widen, and what cannot be is refused."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal.consumers.filters import Filter
from metajournal.schemas.errors import InputError, InvalidUrnError

TYPE = "metajournal.catalog.MetadataChangeRecord"


def record(added: dict[str, Any] | None = None, removed: dict[str, Any] | None = None) -> dict[str, Any]:
    nothing: dict[str, Any] = {"properties": {}, "tags": []}
    return {"changes": {"additions": nothing | (added or {}), "deletions": nothing | (removed or {})}}


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, True),
        ({"kinds": "dataset"}, True),
        ({"kinds": ["app", "dataset"]}, True),
        ({"kinds": ["app"]}, False),
        ({"namespace": "a b"}, True),
        ({"namespace": "a"}, False),
        ({"urn": "dataset:a%20b/orders"}, True),
        ({"urn": ["dataset:a/b", "dataset:a%20b/*"]}, True),
        ({"urn": "dataset:a%20b/order"}, False),
        ({"urn": "dataset:a%20b/z*"}, False),
        ({"urn": "*"}, True),
        ({"tenant": "t1"}, True),
        ({"tenant": ["t2", "t3"]}, False),
        ({"tenant": "*"}, True),
        ({"tenant": ["t2", "*"]}, True),
        ({"types": TYPE}, True),
        ({"types": "other"}, False),
        ({"kinds": "dataset", "tenant": "t2"}, False),
    ],
)
def test_headers_are_enough_for_most_conditions(asked: dict[str, Any], wanted: bool) -> None:
    chosen = Filter.of(**asked)
    assert chosen.wants("dataset:a%20b/orders", "t1", TYPE) is wanted
    assert not chosen.reads_records


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"tags": "pii"}, True),
        ({"tags": ["x", "old"]}, True),
        ({"tags": "x"}, False),
        ({"keys": "owner"}, True),
        ({"keys": "level"}, False),
        ({"tags": "pii", "keys": "level"}, False),
        ({"tags": "old", "touches": "deletions"}, True),
        ({"tags": "old", "touches": "additions"}, False),
        ({"touches": "deletions"}, True),
    ],
)
def test_a_change_is_asked_for_by_what_it_touches(asked: dict[str, Any], wanted: bool) -> None:
    chosen = Filter.of(**asked)
    assert chosen.reads_records
    touched = record({"tags": ["pii"], "properties": {"owner": "alice"}}, {"tags": ["old"]})
    assert chosen.wants_change(touched) is wanted


def test_what_takes_nothing_away_has_no_deletions() -> None:
    assert not Filter.of(touches="deletions").wants_change(record({"tags": ["pii"]}))


def test_a_state_is_asked_for_by_what_it_carries_in_the_asked_scopes() -> None:
    document = {"user": {"properties": {"owner": "x"}, "tags": ["pii"]}, "system": {"properties": {}, "tags": ["s"]}}
    assert Filter.of(tags="pii", keys="owner").wants_state(document)
    assert Filter.of(tags="s").wants_state(document)
    assert not Filter.of(tags="pii", scope="SYSTEM").wants_state(document)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"kinds": "Data Set"}, "is not a valid kind"),
        ({"scope": "BOTH"}, "USER or SYSTEM"),
        ({"urn": "dataset:*/x"}, "is only allowed at the end"),
        ({"touches": "both"}, "additions or deletions"),
        ({"tenant": "t*"}, "not a valid tenant name"),
        ({"tenant": ["acme", "Acme Inc."]}, "not a valid tenant name"),
        ({"tags": [3]}, "a text or several texts"),
        ({"tags": 3.5}, "a text or several texts"),
        ({"urn": [["dataset:a/b"]]}, "a text or several texts"),
    ],
)
def test_a_condition_that_cannot_be_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Filter.of(**asked)


def test_a_text_that_is_no_urn_is_refused() -> None:
    with pytest.raises(InvalidUrnError):
        Filter.of(urn="dataset:only-one-part")
