"""Canonical form, fingerprint and the evolution check agree with the Avro specification and with fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.schema import fingerprint as reference_fingerprint
from fastavro.schema import to_parsing_canonical_form

from metajournal.schemas.encoding.avro import canonical, expand, fingerprint, fingerprint_of, named_types
from metajournal.schemas.encoding.evolution import full_transitive_faults, resolution_faults
from metajournal.schemas.encoding.known import all_contracts

VECTORS = [  # share/test/data/schema-tests.txt of Apache Avro
    ('"null"', 7195948357588979594),
    ('"boolean"', -6970731678124411036),
    ('"int"', 8247732601305521295),
    ('"long"', -3434872931120570953),
    ('"float"', 5583340709985441680),
    ('"double"', -8181574048448539266),
    ('"bytes"', 5746618253357095269),
    ('"string"', -8142146995180207161),
    ("[]", -1241056759729112623),
    ('["int"]', -5232228896498058493),
    ('{"type":"fixed","name":"foo","size":15}', 1756455273707447556),
]


@pytest.mark.parametrize(("text", "expected"), VECTORS)
def test_fingerprints_are_those_of_the_specification(text: str, expected: int) -> None:
    assert fingerprint(expand(json.loads(text))) == expected % 2**64


def test_the_empty_fingerprint_is_the_specifications_constant() -> None:
    assert fingerprint_of(b"") == 0xC15D213AA4D7A795


@pytest.mark.parametrize(
    "contract", all_contracts(), ids=lambda contract: f"{contract.event_type}-r{contract.revision}"
)
def test_contracts_have_fastavros_canonical_form_and_fingerprint(contract: Any) -> None:
    reference = to_parsing_canonical_form(fastavro.parse_schema(json.loads(contract.text)))
    assert contract.canonical == reference
    little_endian = bytes.fromhex(reference_fingerprint(reference, "CRC-64-AVRO"))
    assert contract.fingerprint == int.from_bytes(little_endian, "little")


def test_primitive_objects_docs_and_defaults_leave_the_canonical_form() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "namespace": "a.b",
        "doc": "d",
        "fields": [
            {"name": "x", "type": {"type": "int"}, "default": 1, "doc": "d"},
            {"name": "y", "type": {"type": "map", "values": {"type": "string"}, "recurring": True}},
            {"name": "z", "type": {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}},
        ],
    }
    assert canonical(expand(schema)) == (
        '{"name":"a.b.R","type":"record","fields":[{"name":"x","type":"int"},'
        '{"name":"y","type":{"type":"map","values":"string"}},'
        '{"name":"z","type":{"name":"a.b.E","type":"enum","symbols":["A"]}}]}'
    )


def test_expanding_needs_every_name_once() -> None:
    with pytest.raises(ValueError, match="unknown type"):
        expand({"type": "array", "items": "Missing"})
    twice = [{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}]
    with pytest.raises(ValueError, match="defined twice"):
        expand(twice)
    assert list(named_types(expand(["null", twice[0]]))) == ["F"]


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string"}
B_DEFAULT = {"name": "b", "type": "string", "default": "x"}


def enum(*symbols: str, **more: str) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


CASES: list[tuple[Any, Any, Any, bool]] = [  # writer, reader, a telling datum, readable
    (record(A), record(A), {"a": 1}, True),
    (record(A), record(A, B_DEFAULT), {"a": 1}, True),
    (record(A), record(A, B), {"a": 1}, False),
    (record(A, B), record(A), {"a": 1, "b": "x"}, True),
    (record(A), record({"name": "a", "type": "long"}), {"a": 1}, True),
    (record({"name": "a", "type": "long"}), record(A), {"a": 1}, False),
    (record({"name": "a", "type": "long"}), record({"name": "a", "type": "double"}), {"a": 1}, True),
    (record(A), record({"name": "a", "type": "string"}), {"a": 1}, False),
    (record(B), record({"name": "b", "type": "bytes"}), {"b": "x"}, True),
    (record({"name": "b", "type": "bytes"}), record(B), {"b": b"x"}, True),
    (record(A), record({"name": "a", "type": ["null", "int"]}), {"a": 1}, True),
    (record({"name": "a", "type": ["null", "int"]}), record(A), {"a": None}, False),
    (record({"name": "a", "type": ["null", "int"]}), record({"name": "a", "type": ["null", "long"]}), {"a": 1}, True),
    (record(A), record({"name": "a", "type": ["null", "string"]}), {"a": 1}, False),
    (record({"name": "e", "type": enum("A")}), record({"name": "e", "type": enum("A", "B")}), {"e": "A"}, True),
    (record({"name": "e", "type": enum("A", "B")}), record({"name": "e", "type": enum("A")}), {"e": "B"}, False),
    (
        record({"name": "e", "type": enum("A", "B")}),
        record({"name": "e", "type": enum("A", default="A")}),
        {"e": "B"},
        True,
    ),
    (
        record({"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}}),
        record({"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}}),
        {"f": b"ab"},
        False,
    ),
    (
        record({"name": "l", "type": {"type": "array", "items": "int"}}),
        record({"name": "l", "type": {"type": "array", "items": "string"}}),
        {"l": [1]},
        False,
    ),
    (
        record({"name": "l", "type": {"type": "map", "values": "int"}}),
        record({"name": "l", "type": {"type": "map", "values": "long"}}),
        {"l": {"k": 1}},
        True,
    ),
    (
        record({"name": "n", "type": record(A, name="N")}),
        record({"name": "n", "type": record(A, B_DEFAULT, name="N")}),
        {"n": {"a": 1}},
        True,
    ),
    (
        record({"name": "n", "type": record(A, name="N")}),
        record({"name": "n", "type": record(A, B, name="N")}),
        {"n": {"a": 1}},
        False,
    ),
]


@pytest.mark.parametrize(("writer", "reader", "datum", "readable"), CASES)
def test_the_check_says_what_fastavro_does(writer: Any, reader: Any, datum: Any, readable: bool) -> None:
    assert (not resolution_faults(expand(writer), expand(reader))) is readable
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), datum)
    out.seek(0)
    if readable:
        fastavro.schemaless_reader(out, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    else:
        with pytest.raises(Exception):  # noqa: B017  (fastavro raises several kinds)
            fastavro.schemaless_reader(out, fastavro.parse_schema(writer), fastavro.parse_schema(reader))


def test_full_transitive_compares_all_versions_both_ways() -> None:
    first, second, third = record(A), record(A, B_DEFAULT), record(A, B)
    assert full_transitive_faults([first, second]) == []
    assert full_transitive_faults([second, third]) == []
    assert full_transitive_faults([first, second, third]) == [
        "version 2 reading version 0: b: it has no default and is not written"
    ]


def test_renamed_and_aliased_types_are_refused() -> None:
    assert resolution_faults(record(A), record(A, name="S"))
    assert resolution_faults(record(A), record(A) | {"aliases": ["Q"]})
    assert resolution_faults(record(A), record(A | {"aliases": ["q"]}))


def test_recursive_types_are_judged_once() -> None:
    tree = record(A, {"name": "below", "type": ["null", "R"]})
    assert resolution_faults(expand(tree), expand(tree)) == []
