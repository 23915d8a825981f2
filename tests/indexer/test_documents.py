"""Index documents: what is in them, what is kept apart, and that the largest entities fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.domains.catalog.urns import dataset
from metajournal.indexer import terms
from metajournal.indexer.documents import document_id, entries, index_document, reduced_document
from metajournal.indexer.fill.bulk import item_of
from metajournal.indexer.mapping import PROPERTIES
from metajournal.schemas.domain import Named
from metajournal.schemas.hashing import canonical_json
from metajournal.schemas.limits import MAX_ENTITY_BYTES
from metajournal.schemas.registry import domains, role
from metajournal.schemas.urn import urn
from tests.indexer.corpus import CORPUS, State, state

ENTITY = dataset("default", "things")


def _terms(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [term for item in value.values() for term in _terms(item)]
    if isinstance(value, list):
        return [term for item in value for term in _terms(item)]
    return [value] if isinstance(value, str) else []


def _bytes(state: State) -> int:
    return len(canonical_json({"user": state["user"], "system": state["system"]}))


def test_scopes_share_no_field() -> None:
    document = index_document(state(ENTITY, user={"a": "mine"}, system={"b": "theirs"}, tags=["t"]))
    assert any("mine" in term for term in _terms(document["user"]))
    assert not any("theirs" in term for term in _terms(document["user"]))
    assert not any("mine" in term for term in _terms(document["system"]))


def test_no_entity_is_found_by_the_name_of_another_one_that_its_reader_may_not_know() -> None:
    named = [(domain.name, one) for domain in domains() for one in domain.names]
    assert ("repositories", Named("repo", "default_branch", "branch")) in named
    for domain, one in named:
        words: Any = role(domain, "words")
        for value in ("hidden", ["hidden"]):
            assert words is None or list(words.words({one.field: value})) == [], one


def test_documents_have_declared_fields_only() -> None:
    for entity in CORPUS.values():
        for document in (index_document(entity), reduced_document(entity, "why")):
            assert set(document) <= set(PROPERTIES)
            for scope in ("user", "system"):
                assert set(document.get(scope, {})) <= set(PROPERTIES[scope]["properties"])


_signs = st.text(alphabet="aAbB é\u0301ßﬁ½™℡.-٣東", max_size=12) | st.text(max_size=12)


@given(_signs | _signs.map(lambda text: "x" * 63 + text))
def test_what_begins_a_whole_and_is_one_word_begins_a_word_of_it_or_the_whole_is_odd(text: str) -> None:
    document = index_document(state(ENTITY, user={"k": text}))["user"]
    words = " ".join(document["words"]).split(" ")
    for whole in document["whole"]:
        for end in range(1, len(whole) + 1):
            start = whole[:end]
            if terms.readings(start) == [([start], True)] and start.isalnum():
                assert any(word.startswith(start) for word in words) or whole in document["odd_whole"]


def test_a_deleted_entity_is_a_tombstone_without_terms() -> None:
    document = index_document(state(ENTITY, tags=["pii"], deleted=True))
    assert document["deleted"] is True
    assert set(document) == {
        *("tenant", "urn", "kind", "namespace", "name", "deleted", "logical_timestamp", "entity"),
    }


def test_a_long_value_has_words_and_no_whole() -> None:
    document = index_document(state(ENTITY, user={"text": "word " * 1000}))
    assert document["user"]["whole"] == []
    assert document["user"]["words"] == [("word " * 1000).strip()]


def test_the_reduced_document_keeps_names_and_says_why() -> None:
    document = reduced_document(state(ENTITY, user={"secret": "x"}), "no room")
    assert document["entity"]["unindexed"] == "no room"
    assert document["name"] == "things"
    assert "user" not in document
    assert "secret" not in json.dumps(document["entity"]["user"])


def test_a_files_record_is_found_like_its_metadata_and_shown_as_it_is() -> None:
    record = {
        "url": "s3://lake/web01/access.log",
        "metadata": {"what": "nginx", "where": "web01", "work_id": None, "path": "/var/log/access.log", "start": 5},
    }
    file = {**state(urn("file", "web01", "nginx", "0f"), user={"url": "mine"}), "record": record}
    texts = {(entry.scope, entry.key): entry.text for entry in entries(file) if entry.sort == "property"}
    document = index_document(file)
    assert texts == {
        ("USER", "url"): "mine",
        ("SYSTEM", "creation_time"): file["system"]["properties"]["creation_time"],
        ("SYSTEM", "url"): "s3://lake/web01/access.log",
        ("SYSTEM", "path"): "/var/log/access.log",
        ("SYSTEM", "what"): "nginx",
        ("SYSTEM", "where"): "web01",
    }
    assert "path=/var/log/access.log" in document["system"]["pairs"]
    assert "path" in document["system"]["keys"]
    assert document["entity"]["record"] == record
    other = {**file, "kind": "dataset"}
    assert index_document(other)["system"]["keys"] == ["creation_time"]


@given(st.dictionaries(st.text(max_size=9), st.none() | st.integers() | st.text(max_size=9) | st.lists(st.text())))
def test_any_record_is_taken(record: dict[str, Any]) -> None:
    for each_record in (record, {"metadata": record}, {"url": record, "metadata": record}):
        document = index_document({**state(urn("file", "web01", "nginx", "0f")), "record": each_record})
        assert document["entity"]["record"] == each_record


def test_ids_differ_by_tenant_and_urn() -> None:
    assert len({document_id("a", "x:1"), document_id("b", "x:1"), document_id("a", "x:2")}) == 3


def worst_cases() -> dict[str, State]:
    """Entities close to the journal's limit, each hard on another field."""
    wide_key = "ключ" * 14
    fields = [{"name": f"f{number}", "type": "int"} for number in range(12_000)]
    nested: dict[str, Any] = {"type": "record", "name": "R", "fields": fields}
    outer = {"type": "record", "name": "O", "fields": [{"name": "n" * 900, "type": nested}]}
    return {
        "one value of short words": state(ENTITY, user={wide_key: "a b " * 130_000}),
        "many properties": state(ENTITY, user={f"k{number}": "v" for number in range(40_000)}),
        "many values of words under wide keys": state(
            ENTITY, user={f"{wide_key}{number}": "x y " * 250 for number in range(450)}
        ),
        "many tags": state(ENTITY, tags=[f"tag-{number}" for number in range(40_000)]),
        "a schema of many fields under a long path": state(ENTITY, system={"schema": json.dumps(outer)}),
        "signs that grow when folded": state(ENTITY, user={"ﷺ" * 341: "ﷺ" * 1024, "*" * 1024: "% " * 500}),
        "a value of humps": state(ENTITY, user={wide_key: "cD " * 170_000}),
        "many values of humps under wide keys": state(
            ENTITY, user={f"{wide_key}{number}": "xY " * 330 for number in range(450)}
        ),
        "small values of humps under wide keys": state(
            ENTITY, user={f"{wide_key}{number}": "xY " for number in range(1_600)}
        ),
        "a small schema of humps": state(ENTITY, system={"schema": json.dumps([["aB " * 160, "ﷺ " * 200]])}),
        "one endless word": state(ENTITY, user={"text": "x" * 520_000}),
    }


@pytest.mark.thorough
def test_the_largest_entities_give_documents_of_bounded_size() -> None:
    for name, worst in worst_cases().items():
        assert _bytes(worst) <= MAX_ENTITY_BYTES * 1.01, name
        assert len(item_of(worst).lines) < 16 * 1024 * 1024, name


def test_entries_show_nested_schema_fields_with_paths_and_types() -> None:
    fields = {(entry.key, entry.type) for entry in entries(CORPUS["customerOrders"]) if entry.sort == "schema"}
    assert fields == {
        ("customerId", "long"),
        ("e_mail", "null|string"),
        ("address", "record Address"),
        ("address.street", "string"),
        ("address.geoPoint", "map<double>"),
        ("orders", "array<record Order>"),
        ("orders.total-amount", "bytes decimal"),
    }
