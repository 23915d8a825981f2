"""What is read of a real Kafka, and of a registry: topics, settings, schemas; and what a failure leaves alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.naming import data
from metajournal.schemas.errors import ConfigError, InputError
from metajournal.sources.columns import comments_of, schema_of
from metajournal.sources.found import Found, Problem
from metajournal.sources.kafka.cluster import own_topics
from metajournal.sources.kafka.schemas import described
from metajournal.sources.kafka.source import Kafka
from metajournal.sources.plan import plan
from metajournal.sources.source import Identity, SourceError, SourceUnavailableError
from tests.builders import NOON
from tests.new_topics import delete_topics, make_topics
from tests.properties import examples
from tests.rules.harness import Catalog
from tests.sources.registry import Registry, running_registry
from tests.sources.test_plan import brought, held_of
from tests.wait import eventually

ORDER: dict[str, Any] = {
    "type": "record", "name": "Order", "namespace": "acme", "doc": "What was ordered", "fields": [
        {"name": "id", "type": "long", "doc": "the key"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "address", "type": ["null", {"type": "record", "name": "Address", "fields": [
            {"name": "city", "type": "string"},
        ]}]},
        {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
            {"name": "code", "type": "string"}, {"name": "at", "type": "Address"},
        ]}}},
        {"name": "of", "type": ["null", "Order"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["A", "B"]}},
        {"name": "either", "type": ["null", "string", "int"]},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip
PROTOBUF = 'syntax = "proto3";\nmessage Click {\n  string page = 1;\n}\n'


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


class Topics:
    """Topics of a test's own, in the run's broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.prefix = f"shop-{uuid4().hex[:8]}."
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def make(self, name: str, partitions: int = 1, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        make_topics(self.admin, [NewTopic(f"{self.prefix}{name}", partitions, 1, config=settings)])

    def read(self, **how: Any) -> tuple[dict[str, Found], list[Problem]]:
        """What is found, by the topic's name without the prefix; and what could not be read."""
        every = list(Kafka(self.bootstrap, topics=[f"{self.prefix}*"], **how).read(lambda _: None))
        found = {one.entity.name.removeprefix(self.prefix): one for one in every if isinstance(one, Found)}
        return found, [one for one in every if isinstance(one, Problem)]


@pytest.fixture
def topics(kafka: str) -> Topics:
    return Topics(kafka)


def test_a_topic_has_partitions_replication_and_the_settings_that_were_changed(topics: Topics) -> None:
    topics.make("orders", 3, cleanup_policy="compact", retention_ms="1000")
    topics.make("clicks")
    found, problems = topics.read()
    assert problems == []
    assert found["orders"].properties == {
        "type": "topic", "partitions": "3", "replication": "1", "setting.cleanup.policy": "compact",
        "setting.retention.ms": "1000",
    }  # fmt: skip
    assert found["clicks"].properties == {"type": "topic", "partitions": "1", "replication": "1"}
    host = topics.bootstrap.split(",")[0]
    assert found["orders"].entity == data(f"kafka://{host}", f"{topics.prefix}orders")


def test_a_topic_has_the_columns_of_its_value_and_what_the_registry_says(topics: Topics, registry: Registry) -> None:
    for name in ("orders", "clicks", "views"):
        topics.make(name)
    registry.register(f"{topics.prefix}orders-value", {**ORDER, "fields": ORDER["fields"][:1]})
    registry.register(f"{topics.prefix}orders-value", ORDER)
    registry.register(f"{topics.prefix}orders-key", '"string"')
    registry.compatibility[f"{topics.prefix}orders-value"] = "FULL_TRANSITIVE"
    registry.register(f"{topics.prefix}clicks-value", PROTOBUF, "PROTOBUF")
    registry.register(f"{topics.prefix}clicks-acme.Click", PROTOBUF, "PROTOBUF")
    registry.register("acme.of.no.topic", ORDER)
    schema = {
        "type": "object",
        "title": "A view",
        "properties": {"page": {"type": "string", "description": "its path"}},
    }
    registry.register(f"{topics.prefix}views-value", schema, "JSON")
    found, problems = topics.read(registry=registry.url)
    assert problems == []
    orders = found["orders"]
    assert orders.description == "What was ordered"
    assert orders.schema is not None
    assert orders.schema[:3] == (("id", "long"), ("amount", "decimal(10,2)"), ("address", "record"))
    told = {key: value for key, value in orders.properties.items() if key.startswith(("value", "key", "comment"))}
    assert json.loads(told.pop("value.schema")) == ORDER
    ids = told.pop("value.id"), told.pop("key.id")
    assert ids == ("2", "3")
    assert told == {
        "comment.id": "the key", "value.subject": f"{topics.prefix}orders-value", "value.format": "avro",
        "value.version": "2", "value.versions": "1, 2", "value.compatibility": "FULL_TRANSITIVE",
        "key.subject": f"{topics.prefix}orders-key", "key.format": "avro", "key.version": "1", "key.versions": "1",
        "key.compatibility": "BACKWARD", "key.schema": '"string"',
    }  # fmt: skip
    clicks = found["clicks"]
    assert (clicks.schema, clicks.properties["value.format"], clicks.properties["value.schema"]) == (
        None, "protobuf", PROTOBUF,
    )  # fmt: skip
    assert clicks.properties["subjects"] == f"{topics.prefix}clicks-acme.Click"
    assert (found["views"].schema, found["views"].description) == ((("page", "string"),), "A view")
    assert found["views"].properties["comment.page"] == "its path"


def test_internal_topics_and_those_of_metajournal_are_left_out(topics: Topics) -> None:
    own = [
        "epochs", "schemas", "journal.catalog", "changes.catalog.system", "state.files", "outcomes.files", "dlq",
        "audit",
    ]  # fmt: skip
    for name in [*own, "orders", "journal-of-somebody"]:
        topics.make(f"mj.{name}")
    found, _ = topics.read()
    assert {*found} == {"mj.orders", "mj.journal-of-somebody"}
    assert {*topics.read(own_topics=True)[0]} == {f"mj.{name}" for name in [*own, "orders", "journal-of-somebody"]}
    every = [one.entity.name for one in Kafka(topics.bootstrap).read(lambda _: None) if isinstance(one, Found)]
    assert not [name for name in every if name.startswith("__")]
    assert own_topics(["a.epochs", "a.schemas", "b.journal.x", "epochs"]) == set()


def test_a_subject_that_cannot_be_read_is_named_and_its_topic_keeps_what_was_known(
    topics: Topics, registry: Registry
) -> None:
    identity, ledger = Identity("kafka", "cluster", "kafka."), Catalog()
    topics.make("orders")
    topics.make("clicks")
    registry.register(subject := f"{topics.prefix}orders-value", ORDER)
    brought(ledger, identity, [*topics.read(registry=registry.url)[0].values()])
    before = dict(ledger.newest["default", str(topics.read()[0]["orders"].entity)].system_properties)
    registry.garbled[f"/subjects/{subject}/versions/latest"] = b"[]"
    delete_topics(topics.admin, [f"{topics.prefix}clicks"])
    found, problems = topics.read(registry=registry.url)
    assert [problem.what for problem in problems] == [subject]
    brought(ledger, identity, [*found.values()], whole=not problems)
    row = ledger.newest["default", str(found["orders"].entity)]
    assert dict(row.system_properties) == before
    assert not any(row.deleted for row in ledger.newest.values())


@pytest.mark.parametrize("broken", ["/subjects", "/config"])
def test_a_registry_that_dies_ends_the_read(topics: Topics, registry: Registry, broken: str) -> None:
    topics.make("orders")
    registry.register(f"{topics.prefix}orders-value", ORDER)
    registry.broken.add(broken)
    with pytest.raises(SourceUnavailableError):
        topics.read(registry=registry.url)
    registry.broken = {f"/subjects/{topics.prefix}orders-value/versions"}
    with pytest.raises(SourceUnavailableError):
        topics.read(registry=registry.url)
    with pytest.raises(SourceUnavailableError):
        topics.read(registry="http://127.0.0.1:1")
    with pytest.raises(SourceError):
        topics.read(registry=f"{registry.url}/elsewhere")


def test_a_registry_wants_a_user_whose_password_is_nowhere(topics: Topics) -> None:
    topics.make("orders")
    with running_registry("reader:ge:heim") as registry:
        registry.register(f"{topics.prefix}orders-value", ORDER)
        address = registry.url.replace("://", "://reader:ge%3Aheim@")
        found, _ = topics.read(registry=address)
        assert found["orders"].properties["value.version"] == "1"
        with pytest.raises(SourceError) as refused:
            topics.read(registry=registry.url.replace("://", "://reader:falsch@"))
        assert (refused.value.code, "falsch" in f"{refused.value}{refused.value.__dict__}") == (
            "not-authenticated",
            False,
        )
        source = Kafka(topics.bootstrap, registry=address)
        assert "heim" not in f"{source.identity}{source.systems}{vars(source)}{found}"


def test_a_cluster_that_does_not_answer_or_shows_nothing_is_an_error(kafka: str) -> None:
    with pytest.raises(SourceUnavailableError) as failed:
        list(Kafka("127.0.0.1:1", settings=["sasl.password=geheim"]).read(lambda _: None))
    assert "geheim" not in f"{failed.value}{failed.value.__dict__}"
    with pytest.raises(ConfigError):
        list(Kafka(kafka, settings=["no.such.key=geheim"]).read(lambda _: None))


@pytest.mark.parametrize(
    ("bootstrap", "how"),
    [
        ("", {}), ("user:geheim@broker:9092", {}), ("broker/geheim", {}), ("broker:9092", {"settings": ["geheim"]}),
        ("broker:9092", {"settings": ["bootstrap.servers=geheim"]}), ("broker:9092", {"registry": "geheim"}),
        ("broker:9092", {"registry": "ftp://u:geheim@host"}), ("broker:9092", {"registry": "http://u:geheim@host:x"}),
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_and_not_shown(bootstrap: str, how: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        Kafka(bootstrap, **how)
    assert "geheim" not in f"{refused.value}{refused.value.__dict__}"


def test_the_first_server_names_the_cluster() -> None:
    source = Kafka("Broker-1.acme,broker-2.acme:9093")
    assert (source.identity.id, source.systems) == (
        "kafka-broker-1.acme-9092",
        (data("kafka://broker-1.acme:9092", "/"),),
    )
    assert Kafka("b:1", namespace="kafka://broker.acme").systems == (data("kafka://broker.acme:9092", "/"),)


# Columns of schemas.


def columns_of(kind: str, schema: Any) -> dict[str, str]:
    return dict(schema_of(described(kind, json.dumps(schema))[0]))


def test_columns_of_an_avro_schema() -> None:
    assert columns_of("AVRO", ORDER) == {
        "id": "long", "amount": "decimal(10,2)", "address": "record", "address.city": "string",
        "items": "array<record>", "items.element": "record", "items.element.code": "string",
        "items.element.at": "record", "items.element.at.city": "string", "of": "record", "state": "enum",
        "either": "union<string, int>", "counts": "map<int>",
    }  # fmt: skip
    assert columns_of("AVRO", "string") == columns_of("AVRO", ["null", "long"]) == {}
    assert described("AVRO", "no schema") == ((), None)


def test_a_schema_that_is_nested_too_deep_has_no_columns() -> None:
    nested = '{"type": "array", "items": ' * 3_000 + '"int"' + "}" * 3_000
    record = {"type": "record", "name": "deep", "fields": [{"name": "a", "type": "A"}]}
    text = json.dumps(record).replace('"A"', nested)
    assert described("AVRO", text) == ((), None)
    assert described("JSON", text.replace("fields", "properties")) == ((), None)


def test_columns_of_a_json_schema() -> None:
    schema = {
        "$defs": {"node": {"type": "object", "description": "A node", "properties": {
            "next": {"$ref": "#/$defs/node"}, "name": {"type": ["string", "null"]},
        }}},
        "type": "object", "description": "A tree", "properties": {
            "root": {"$ref": "#/$defs/node"}, "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"type": "string"}}, "kind": {"enum": ["a"]},
            "more": {"oneOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}]},
            "odd": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "far": {"$ref": "http://elsewhere/x"},
        },
    }  # fmt: skip
    columns, description = described("JSON", json.dumps(schema))
    assert description == "A tree"
    assert dict(schema_of(columns)) == {
        "root": "object", "root.next": "object", "root.name": "string", "at": "date-time", "tags": "array<string>",
        "kind": "enum", "more": "array<object>", "more.element": "object", "more.element.next": "object",
        "more.element.name": "string", "odd": "integer | string", "far": "any",
    }  # fmt: skip
    assert comments_of(columns)["comment.root"] == "A node"


odd = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["record", "string", "R", "array", "object"]),
    lambda of: st.lists(of, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "type", "name", "fields", "items", "values", "properties", "$ref", "oneOf", "allOf", "logicalType",
        ]), of, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.sampled_from(["AVRO", "JSON"]), odd)
def test_whatever_a_registry_holds_has_columns_or_none(kind: str, schema: Any) -> None:
    columns, _ = described(kind, json.dumps(schema))
    assert all(isinstance(name, str) and isinstance(text, str) and text for name, text in schema_of(columns))


# Whatever changes between runs.

shapes = st.tuples(st.integers(1, 3), st.none() | st.lists(st.sampled_from(["id", "name"]), min_size=1, unique=True))
clusters = st.dictionaries(st.sampled_from(["orders", "clicks", "views-old"]), shapes, max_size=3)


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.tuples(clusters, st.none() | st.integers(0, 9)), min_size=1, max_size=3))
def test_whatever_changes_between_runs_the_catalog_ends_at_what_the_cluster_has(
    kafka: str, runs: list[tuple[dict[str, tuple[int, list[str] | None]], int | None]]
) -> None:
    """Topics added, changed, renamed, dropped, runs killed anywhere: what is there equals the cluster."""
    topics, ledger, identity = Topics(kafka), Catalog(), Identity("kafka", "cluster", "kafka.")
    topics.make("kept")
    there: dict[str, int] = {}
    with running_registry() as registry:
        for wanted, most in [*runs, (runs[-1][0], None)]:
            gone = [name for name in there if name not in wanted or wanted[name][0] < there[name]]
            delete_topics(topics.admin, [f"{topics.prefix}{name}" for name in gone])
            there = {name: count for name, count in there.items() if name not in gone}
            registry.subjects.clear()
            for name, (partitions, columns) in wanted.items():
                if name not in there:
                    topics.make(name, partitions)
                elif there[name] < partitions:
                    more = topics.admin.create_partitions([NewPartitions(f"{topics.prefix}{name}", partitions)])
                    more[f"{topics.prefix}{name}"].result()
                there[name] = partitions
                if columns is not None:
                    fields = [{"name": column, "type": "long"} for column in columns]
                    registry.register(f"{topics.prefix}{name}-value", {"type": "record", "name": "R", "fields": fields})
            found = settled(topics, registry, there)
            brought(ledger, identity, [*found.values()], most=most)
    live = {urn: row for (_, urn), row in ledger.newest.items() if row.kind == "dataset" and not row.deleted}
    host = kafka.split(",")[0]
    assert live.keys() == {data(f"kafka://{host}", f"{topics.prefix}{name}") for name in [*wanted, "kept"]}
    for name, (partitions, columns) in wanted.items():
        properties = live[data(f"kafka://{host}", f"{topics.prefix}{name}")].system_properties
        assert properties["kafka.partitions"] == str(partitions)
        schema = "[" + ",".join(f'["{column}","long"]' for column in columns or ()) + "]"
        assert properties.get("schema", "[]") == schema
    assert plan(identity, found.values(), held_of(ledger), whole=True, at_ms=NOON).steps == []


def settled(topics: Topics, registry: Registry, there: dict[str, int]) -> dict[str, Found]:
    """What is found once every broker knows of the topics that were made and deleted just now."""

    def read() -> dict[str, Found] | None:
        found, _ = topics.read(registry=registry.url)
        seen = {name: int(one.properties["partitions"]) for name, one in found.items()}
        return found if seen == {**there, "kept": 1} else None

    return eventually(read, 30, "the cluster's metadata")
