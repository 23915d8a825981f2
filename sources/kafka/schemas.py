"""Columns of Avro and JSON schemas; a Protobuf schema stays a text. Pure.

Names are resolved within a schema, also of a record that contains itself, which is not expanded again. A union with
null is the other type. Source: the Avro specification, "Schema Declaration"; JSON Schema, draft 7 and 2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ..columns import ELEMENT, MAX_DEPTH, VALUE, Column

_NO_MORE: Final = 10_000
"""Maximum number of columns: nested records that use each other multiply."""


def described(kind: str, text: str) -> tuple[tuple[Column, ...], str | None]:
    """A schema's columns, and what it says of itself; no columns if it is none of records."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return (), None  # Avro's primitives may stand there without quotes, Protobuf is no JSON
    try:
        if kind == "AVRO":
            return _Avro().described(schema)
        return _Json().described(schema) if kind == "JSON" else ((), None)
    except RecursionError:
        return (), None


class _Avro:
    """Reads one Avro schema."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._left = _NO_MORE

    def described(self, schema: Any) -> tuple[tuple[Column, ...], str | None]:
        schema = _without_null(schema)
        if not isinstance(schema, Mapping) or schema.get("type") not in ("record", "error"):
            return (), None
        column = self._column("", schema, "", (), None)
        return column.children, _text(schema.get("doc"))

    def _column(self, name: str, schema: Any, space: str, within: tuple[str, ...], comment: str | None) -> Column:
        """A column of a type; `within` are the names of the records that it stands in."""
        schema = _without_null(schema)
        self._left -= 1
        if isinstance(schema, str):
            schema = self._named.get(_full(schema, space), self._named.get(schema, schema))
        if isinstance(schema, str) or self._left < 0 or len(within) > MAX_DEPTH:
            return Column(name, schema if isinstance(schema, str) else "record", comment)
        if isinstance(schema, list):
            types = [self._column("", of, space, within, None).type for of in schema]
            return Column(name, f"union<{', '.join(types)}>", comment)
        if not isinstance(schema, Mapping):
            return Column(name, "unknown", comment)
        kind = schema.get("type")
        if logical := _logical(schema):
            return Column(name, logical, comment)
        if kind in ("record", "error", "enum", "fixed"):
            own = _full(str(schema.get("name")), str(schema.get("namespace") or space))
            self._named.setdefault(own, schema)
            if kind not in ("record", "error"):
                return Column(name, f"fixed({schema.get('size')})" if kind == "fixed" else "enum", comment)
            return Column(name, "record", comment, () if own in within else self._fields(schema, own, within))
        if kind == "array":
            element = self._column(ELEMENT, schema.get("items"), space, within, None)
            return Column(name, f"array<{element.type}>", comment, (element,) if element.children else ())
        if kind == "map":
            value = self._column(VALUE, schema.get("values"), space, within, None)
            return Column(name, f"map<{value.type}>", comment, (value,) if value.children else ())
        return self._column(name, kind, space, within, comment)

    def _fields(self, record: Mapping[str, Any], own: str, within: tuple[str, ...]) -> tuple[Column, ...]:
        fields = record.get("fields")
        return tuple(
            self._column(
                str(field.get("name")),
                field.get("type"),
                own.rpartition(".")[0],
                (*within, own),
                _text(field.get("doc")),
            )
            for field in (fields if isinstance(fields, list) else ())
            if isinstance(field, Mapping)
        )


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _without_null(schema: Any) -> Any:
    if not isinstance(schema, list):
        return schema
    rest = [of for of in schema if of != "null"]
    return rest[0] if len(rest) == 1 else rest or "null"


def _logical(schema: Mapping[str, Any]) -> str | None:
    logical = _text(schema.get("logicalType"))
    if logical == "decimal":
        return f"decimal({schema.get('precision')},{schema.get('scale', 0)})"
    return logical


class _Json:
    """Reads one JSON schema."""

    def __init__(self) -> None:
        self._root: Any = {}
        self._left = _NO_MORE

    def described(self, schema: Any) -> tuple[tuple[Column, ...], str | None]:
        self._root = schema
        column = self._column("", schema, ())
        about = schema if isinstance(schema, Mapping) else {}
        return column.children if column.type == "object" else (), _text(about.get("description") or about.get("title"))

    def _column(self, name: str, schema: Any, within: tuple[str, ...]) -> Column:
        """A column of a type; `within` are the references that it stands in."""
        self._left -= 1
        if not isinstance(schema, Mapping) or self._left < 0 or len(within) > MAX_DEPTH:
            return Column(name, "any")
        comment = _text(schema.get("description"))
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in within:
                return Column(name, "object", comment)
            column = self._column(name, self._resolved(reference), (*within, reference))
            return column._replace(comment=comment or column.comment)
        for key in ("oneOf", "anyOf", "allOf"):
            if isinstance(schema.get(key), list) and "properties" not in schema:
                parts = [of for of in schema[key] if not (isinstance(of, Mapping) and of.get("type") == "null")]
                columns = [self._column(name, of, (*within, key)) for of in parts]
                if len(columns) == 1:
                    return columns[0]._replace(comment=comment or columns[0].comment)
                types = sorted({column.type for column in columns})
                children = tuple(child for column in columns for child in column.children) if key == "allOf" else ()
                return Column(name, "object" if children else " | ".join(types) or "any", comment, children)
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
        kinds = [kind for kind in kinds if isinstance(kind, str) and kind != "null"]
        if isinstance(schema.get("properties"), Mapping):
            children = tuple(
                self._column(child, of, (*within, "properties")) for child, of in schema["properties"].items()
            )
            return Column(name, "object", comment, children)
        if kinds == ["array"]:
            element = self._column(ELEMENT, schema.get("items"), (*within, "items"))
            return Column(name, f"array<{element.type}>", comment, (element,) if element.children else ())
        kind = " | ".join(kinds) or ("enum" if "enum" in schema else "const" if "const" in schema else "any")
        return Column(name, _text(schema.get("format")) or kind, comment)

    def _resolved(self, reference: str) -> Any:
        """What a reference within the schema names; None: it is elsewhere."""
        found = self._root
        if reference.partition("#")[0]:
            return None
        for part in reference.partition("#")[2].strip("/").split("/") if reference != "#" else ():
            part = part.replace("~1", "/").replace("~0", "~")
            found = found.get(part) if isinstance(found, Mapping) else None
        return found


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
