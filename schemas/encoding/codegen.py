"""What the generators of encoders and decoders share: lines of source, and the types that contracts may use.

Code generated from a schema is two to three times as fast as walking the schema for each event. Recursive types,
items that take no bytes, and unions other than ["null", X] are refused when the code is generated, so no body can
make its decoder recurse or allocate on a promise.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from .avro import PRIMITIVES, Schema, named_types

_FIXED_MIN: Final = {"boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class UnsupportedSchemaError(ValueError):
    """The schema uses what contracts may not use."""


class Code:
    """Lines of one function, with names that are free."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self._numbers = count()

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    def name(self, start: str) -> str:
        return f"{start}{next(self._numbers)}"


class Types:
    """The definitions of one schema, and the rules that contracts keep."""

    def __init__(self, schema: Schema) -> None:
        self._named = named_types(schema)

    def definition(self, schema: Schema) -> Any:
        if isinstance(schema, str) and schema not in PRIMITIVES:
            return self._named[schema]
        return schema

    def kind(self, schema: Schema) -> str:
        if isinstance(schema, list):
            return "union"
        return schema if isinstance(schema, str) else str(schema["type"])

    def nullable(self, schema: list[Schema]) -> Schema:
        if len(schema) != 2 or schema[0] != "null" or schema[1] == "null" or isinstance(schema[1], list):
            raise UnsupportedSchemaError(f"a union must be ['null', X], not {schema!r}")
        return schema[1]

    def least_bytes(self, schema: Schema, inside: tuple[str, ...] = ()) -> int:
        """Fewest bytes that a value takes."""
        schema = self.definition(schema)
        match self.kind(schema):
            case "fixed":
                return int(schema["size"])
            case "enum":
                return 1
            case "array" | "map" as kind:
                self.least_bytes(schema["items" if kind == "array" else "values"], inside)
                return 1
            case "union":
                self.least_bytes(self.nullable(schema), inside)
                return 1
            case "record":
                if schema["name"] in inside:
                    raise UnsupportedSchemaError(f"{schema['name']} is recursive")
                inside = (*inside, schema["name"])
                return sum(self.least_bytes(field["type"], inside) for field in schema["fields"])
            case kind if kind in _FIXED_MIN:
                return _FIXED_MIN[kind]
            case kind:
                raise UnsupportedSchemaError(f"the type {kind} is not used in contracts")

    def least_item_bytes(self, schema: Schema) -> int:
        least = self.least_bytes(schema)
        if least == 0:
            raise UnsupportedSchemaError("items must take at least one byte")
        return least
