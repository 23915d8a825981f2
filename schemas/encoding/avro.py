"""Avro schemas as values: names made whole, the canonical form, its fingerprint.

A schema is parsed JSON. `expand` turns one that refers to others into one that stands by itself: full names
everywhere, each named type defined where it is first used. All other functions take expanded schemas.

Source: Avro specification 1.12, Names, Parsing Canonical Form for Schemas, Schema Fingerprints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

Schema: TypeAlias = Any
"""Parsed JSON: a name, a list (union) or an object."""

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "enum", "fixed"})
_CANONICAL_ORDER: Final = ("name", "type", "fields", "symbols", "items", "values", "size")
_EMPTY: Final = 0xC15D213AA4D7A795


def expand(schema: Schema, definitions: Mapping[str, Schema] | None = None) -> Schema:
    """The schema with full names, each named type defined at its first use and referred to afterwards.

    Args:
        schema: parsed JSON of one `.avsc`.
        definitions: other schemas that it may refer to, by full name.
    Raises:
        ValueError: a name is unknown or defined twice.
    """
    return _expand(schema, "", definitions or {}, set())


def _expand(schema: Schema, space: str, definitions: Mapping[str, Schema], seen: set[str]) -> Schema:
    if isinstance(schema, list):
        return [_expand(branch, space, definitions, seen) for branch in schema]
    if isinstance(schema, str):
        return _expand_name(schema, space, definitions, seen)
    kind = schema["type"]
    if kind in NAMED:
        return _expand_named(schema, space, definitions, seen)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {**schema, inner: _expand(schema[inner], space, definitions, seen)}
    return _expand(kind, space, definitions, seen)


def _expand_name(name: str, space: str, definitions: Mapping[str, Schema], seen: set[str]) -> Schema:
    if name in PRIMITIVES:
        return name
    full = _full_name(name, space)
    if full in seen:
        return full
    if full not in definitions:
        raise ValueError(f"unknown type {full!r}")
    return _expand(definitions[full], "", definitions, seen)


def _expand_named(schema: Schema, space: str, definitions: Mapping[str, Schema], seen: set[str]) -> Schema:
    full = _full_name(schema["name"], schema.get("namespace", space))
    if full in seen:
        raise ValueError(f"type {full!r} is defined twice")
    seen.add(full)
    result = {key: value for key, value in schema.items() if key != "namespace"} | {"name": full}
    if schema["type"] == "record":
        inner = full.rpartition(".")[0]
        result["fields"] = [
            {**field, "type": _expand(field["type"], inner, definitions, seen)} for field in schema["fields"]
        ]
    return result


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def named_types(schema: Schema) -> dict[str, Schema]:
    """Definition of each named type in an expanded schema, by full name."""
    return {definition["name"]: definition for definition in _walk(schema) if definition["type"] in NAMED}


def _walk(schema: Schema) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for branch in schema:
            yield from _walk(branch)
    elif isinstance(schema, dict):
        yield schema
        for field in schema.get("fields", ()):
            yield from _walk(field["type"])
        for inner in ("items", "values"):
            yield from _walk(schema.get(inner))


def canonical(schema: Schema) -> str:
    """Parsing canonical form: what the fingerprint is taken of; docs and defaults are not in it."""
    return json.dumps(_canonical(schema), separators=(",", ":"), ensure_ascii=False)


def _canonical(schema: Schema) -> Schema:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return [_canonical(branch) for branch in schema]
    if schema["type"] in PRIMITIVES:
        return schema["type"]
    kept = {key: schema[key] for key in _CANONICAL_ORDER if key in schema}
    if "fields" in kept:
        kept["fields"] = [{"name": field["name"], "type": _canonical(field["type"])} for field in kept["fields"]]
    for inner in ("items", "values"):
        if inner in kept:
            kept[inner] = _canonical(kept[inner])
    return kept


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY & -(value & 1))
        table.append(value)
    return tuple(table)


_TABLE: Final = _crc_table()


def fingerprint_of(data: bytes) -> int:
    """CRC-64-AVRO of bytes, unsigned."""
    crc = _EMPTY
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


def fingerprint(schema: Schema) -> int:
    """CRC-64-AVRO of an expanded schema's canonical form, unsigned; little-endian in single-object headers."""
    return fingerprint_of(canonical(schema).encode())
