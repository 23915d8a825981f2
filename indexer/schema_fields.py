"""Fields of an entity's schema: Avro JSON with everything nested in it, or a JSON list of (name, type).

Any text is taken: what is neither gives None and is searched as words. Pure; never recurses deeper than the JSON does
and never gives a field twice for the same path.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from .spelling import read

MAX_DEPTH: Final = 64
"""Deepest nesting that is followed; what is deeper gives no fields."""

MAX_PATH_CHARACTERS: Final = 512 * 1024
"""Most characters that all paths of a schema take together, and 1,024 for one of them."""

_COMPLEX: Final = frozenset({"record", "error", "enum", "array", "map", "fixed"})


class SchemaField(NamedTuple):
    """One field: its own name, the dotted path to it, and its type in words (`union` members joined by `|`)."""

    name: str
    path: str
    type: str


def schema_fields(text: str) -> list[SchemaField] | None:
    """The fields of a schema text, nested ones after their parent; None where it is no schema."""
    try:
        data = read(text)
    except (ValueError, RecursionError):
        return None
    pairs = _as_pairs(data)
    if pairs is not None:
        return [SchemaField(name, name, kind) for name, kind in pairs]
    if not _is_schema(data):
        return None
    return _bounded(list(dict.fromkeys(_walk(data, "", 0)))) or None


def _bounded(fields: list[SchemaField]) -> list[SchemaField]:
    """The fields with their paths, or with their names for paths where the paths would outgrow the schema."""
    if sum(len(field.path) for field in fields) <= MAX_PATH_CHARACTERS:
        return fields
    return [field._replace(path=field.name) for field in fields]


def _as_pairs(data: Any) -> list[tuple[str, str]] | None:
    if not isinstance(data, list) or not data:
        return [] if data == [] else None
    if set(map(type, data)) != {list} or set(map(len, data)) != {2}:
        return None
    pairs = list(map(tuple, data))
    return pairs if set(map(type, chain.from_iterable(pairs))) == {str} else None


def _is_schema(data: Any) -> bool:
    if isinstance(data, dict):
        return "type" in data
    return isinstance(data, list) and any(isinstance(entry, dict) and "type" in entry for entry in data)


def _walk(schema: Any, path: str, depth: int) -> Iterator[SchemaField]:
    """Fields of a schema and of all that is nested in it."""
    if depth > MAX_DEPTH:
        return
    if isinstance(schema, list):
        for branch in schema:
            yield from _walk(branch, path, depth + 1)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if isinstance(kind, (dict, list)):
            yield from _walk(kind, path, depth + 1)
        for nested in ("items", "keys", "values"):
            if nested in schema:
                yield from _walk(schema[nested], path, depth + 1)
        fields = schema.get("fields")
        for field in fields if isinstance(fields, list) else ():
            yield from _field(field, path, depth)


def _field(field: Any, path: str, depth: int) -> Iterator[SchemaField]:
    if not isinstance(field, dict) or not isinstance(field.get("name"), str):
        return
    name: str = field["name"]
    inside = f"{path}.{name}" if path else name
    inside = inside if len(inside) <= 1024 else name
    yield SchemaField(name, inside, type_name(field.get("type"), 0))
    yield from _walk(field.get("type"), inside, depth + 1)


def type_name(schema: Any, depth: int = 0) -> str:
    """A type in words: `long`, `timestamp-millis`, `array<string>`, `null|string`, a record's own name.

    A union of more than one type besides null says so: `union null|int|long`.
    """
    if isinstance(schema, str):
        return schema
    if depth > MAX_DEPTH:
        return ""
    if isinstance(schema, list):
        branches = "|".join(filter(None, (type_name(branch, depth + 1) for branch in schema)))
        return f"union {branches}" if len(schema) - schema.count("null") > 1 else branches
    if not isinstance(schema, dict):
        return ""
    return _named_type(schema, depth)


def _named_type(schema: dict[str, Any], depth: int) -> str:
    kind = schema.get("type")
    if isinstance(kind, (dict, list)):
        return type_name(kind, depth + 1)
    if not isinstance(kind, str):
        return ""
    inner = {"array": "items", "map": "values"}.get(kind)
    if inner is not None:
        return f"{kind}<{type_name(schema.get(inner), depth + 1)}>"
    logical, name = schema.get("logicalType"), schema.get("name")
    if isinstance(logical, str):
        return f"{kind} {logical}"
    return f"{kind} {name}" if kind in _COMPLEX and isinstance(name, str) else kind
