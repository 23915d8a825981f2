"""Columns of Arrow, Delta and Iceberg schemas, each with the types of its own format. Pure.

Source: the Delta protocol, "Schema Serialization Format"; the Iceberg specification, appendix C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from ..columns import ELEMENT, KEY, MAX_DEPTH, VALUE, Column


def of_arrow(schema: pa.Schema) -> tuple[Column, ...]:
    """The columns of an Arrow schema, which is that of a Parquet or CSV file."""
    return tuple(_arrow(field) for field in schema)


def _arrow(field: pa.Field, name: str | None = None) -> Column:
    comment = (field.metadata or {}).get(b"comment")
    text = comment.decode("utf-8", "replace") if comment else None
    return Column(field.name if name is None else name, *_arrow_type(field.type, text))


def _arrow_type(kind: pa.DataType, comment: str | None) -> tuple[str, str | None, tuple[Column, ...]]:
    if pa.types.is_struct(kind):
        return "struct", comment, tuple(_arrow(kind.field(number)) for number in range(kind.num_fields))
    if pa.types.is_map(kind):
        key, item = _arrow(kind.key_field, KEY), _arrow(kind.item_field, VALUE)
        return f"map<{key.type}, {item.type}>", comment, _nested(key, item)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _arrow(kind.value_field, ELEMENT)
        return f"list<{element.type}>", comment, _nested(element)
    if pa.types.is_dictionary(kind):
        return _arrow_type(kind.value_type, comment)
    return str(kind), comment, ()


class _Format(NamedTuple):
    """How a format's JSON spells nested types, and where a field's comment stands."""

    list: str
    element: str
    key: str
    value: str
    comment: Callable[[Mapping[str, Any]], Any]


def _delta_comment(field: Mapping[str, Any]) -> Any:
    metadata = field.get("metadata")
    return metadata.get("comment") if isinstance(metadata, Mapping) else None


_DELTA = _Format("array", "elementType", "keyType", "valueType", _delta_comment)
_ICEBERG = _Format("list", "element", "key", "value", lambda field: field.get("doc"))


def of_delta(fields: Any) -> tuple[Column, ...]:
    """The columns of a Delta schema's `fields`."""
    return tuple(_field(_DELTA, field, 0) for field in _mappings(fields))


def of_iceberg(fields: Any) -> tuple[Column, ...]:
    """The columns of an Iceberg schema's `fields`."""
    return tuple(_field(_ICEBERG, field, 0) for field in _mappings(fields))


def _field(own: _Format, field: Mapping[str, Any], depth: int) -> Column:
    comment = own.comment(field)
    return _column(own, str(field.get("name")), field.get("type"), comment if isinstance(comment, str) else None, depth)


def _column(own: _Format, name: str, kind: Any, comment: str | None, depth: int) -> Column:
    if not isinstance(kind, Mapping) or depth > MAX_DEPTH:
        return Column(name, str(kind) if isinstance(kind, str) else "unknown", comment)
    match kind.get("type"):
        case "struct":
            fields = tuple(_field(own, field, depth + 1) for field in _mappings(kind.get("fields")))
            return Column(name, "struct", comment, fields)
        case own.list:
            element = _column(own, ELEMENT, kind.get(own.element), None, depth + 1)
            return Column(name, f"{own.list}<{element.type}>", comment, _nested(element))
        case "map":
            key = _column(own, KEY, kind.get(own.key), None, depth + 1)
            value = _column(own, VALUE, kind.get(own.value), None, depth + 1)
            return Column(name, f"map<{key.type}, {value.type}>", comment, _nested(key, value))
        case other:
            return Column(name, str(other), comment)


def _nested(*columns: Column) -> tuple[Column, ...]:
    """Of the parts of a list or map those that have columns themselves; the others stand in its type."""
    return tuple(column for column in columns if column.children)


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []
