"""Fields of schemas, whatever the schema's text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from metajournal.indexer.schema_fields import SchemaField, schema_fields

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["type", "record", "fields", "items", "string", "name"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["type", "fields", "items", "values", "name", "logicalType"]), inner)
    ),
    max_leaves=20,
)


@given(st.text() | _json.map(json.dumps))
def test_any_text_gives_fields_or_none(text: str) -> None:
    fields = schema_fields(text)
    assert fields is None or all(isinstance(field, SchemaField) for field in fields)


def test_pairs_are_fields() -> None:
    assert schema_fields('[["id","int"],["at","timestamp"]]') == [
        SchemaField("id", "id", "int"),
        SchemaField("at", "at", "timestamp"),
    ]


def test_unions_arrays_and_maps_are_followed() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "deep", "type": "long"}]}
    for kind in (["null", inner], {"type": "array", "items": inner}, {"type": "map", "values": ["null", inner]}):
        schema = {"type": "record", "name": "O", "fields": [{"name": "outer", "type": kind}]}
        assert SchemaField("deep", "outer.deep", "long") in (schema_fields(json.dumps(schema)) or [])


def test_what_is_no_schema_is_none() -> None:
    for text in ("CREATE TABLE x", "", "3", '"string"', '{"a": 1}', "[" * 100_000, '{"type": "weird"}'):
        assert schema_fields(text) is None


def test_a_hostile_schema_does_not_grow() -> None:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(15_000)]
    inner = {"type": "record", "name": "I", "fields": fields}
    schema = {"type": "record", "name": "O", "fields": [{"name": "n" * 900, "type": inner}]}
    paths = schema_fields(json.dumps(schema)) or []
    assert len(paths) == 15_001
    assert sum(len(field.path) for field in paths) < 600_000


def test_a_map_s_keys_are_followed_and_a_union_of_several_types_says_so() -> None:
    line = {"type": "record", "name": "OrderLine", "fields": [{"name": "amount", "type": ["null", "int", "long"]}]}
    order = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "lines", "type": {"type": "map", "keys": line, "values": ["null", "string"]}},
            {"name": "note", "type": ["null", "string"]},
        ],
    }
    assert schema_fields(json.dumps(["null", order])) == [
        SchemaField("lines", "lines", "map<null|string>"),
        SchemaField("amount", "lines.amount", "union null|int|long"),
        SchemaField("note", "note", "null|string"),
    ]
