"""Long arrays of records, written field by field: each field of all records by one call, at half the price or less.

The part of `encoders` for records that are tuples, possibly of tuples, with fields that are plain numbers and texts, or
arrays and maps, which are empty in most records. What does not fit raises as there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from . import wire
from .avro import Schema
from .codegen import Code, Types


class ColumnWriter:
    """Writes the source for arrays of some records.

    Args:
        types: the contract's definitions.
        names: of the records, and of those within them.
        function: gives the name of a function that writes one value of a type.
    """

    def __init__(self, types: Types, names: Collection[str], function: Callable[[Schema], str]) -> None:
        self._types = types
        self._names = names
        self._function = function

    def takes(self, item: Schema) -> bool:
        """Whether arrays of this type are written field by field."""
        return self._is_record(self._types.definition(item)) and self._fits(item)

    def _fits(self, schema: Schema) -> bool:
        schema = self._types.definition(schema)
        if self._types.kind(schema) == "union":
            return self._types.kind(self._types.definition(self._types.nullable(schema))) in wire.WRITERS
        if self._is_record(schema):
            return all(self._fits(field["type"]) for field in schema["fields"])
        return self._types.kind(schema) in {*wire.WRITERS, *wire.TABLES, "array", "map"}

    def _is_record(self, schema: Any) -> bool:
        return self._types.kind(schema) == "record" and schema["name"] in self._names

    def joined(self, item: Schema, items: str, code: Code) -> str:
        """The expression for all bytes of some items, none of them missing; adds the lines that it needs.

        Args:
            items: the name of the sequence.
        """
        pieces = self._pieces(self._types.definition(item), items, False, code)
        return f'b"".join(chain(zip({", ".join(pieces)}, strict=True)))'

    def _pieces(self, schema: Any, values: str, recurring: bool, code: Code) -> Iterator[str]:
        """Expressions, each for a sequence with bytes of every item."""
        schema = self._types.definition(schema)
        match self._types.kind(schema):
            case "record":
                members = [code.name("m") for _ in schema["fields"]]
                code.add(f"{', '.join(members)}, = zip(*{values}, strict=True)")
                for field, member in zip(schema["fields"], members, strict=True):
                    yield from self._pieces(field["type"], member, field.get("recurring", False), code)
            case "string" if not recurring:
                raw = code.name("s")
                code.add(f"{raw} = list(map(to_utf8, {values}))")
                yield from (f"map(L.__getitem__, map(len, {raw}))", raw)
            case "union" if recurring and self._types.nullable(schema) == "string":
                yield f"map(optional_string.__getitem__, {values})"
            case "union" if self._types.nullable(schema) == "long":
                yield f"write_optional_longs({values})"
            case "union":
                kind, item = self._types.kind(self._types.nullable(schema)), code.name("n")
                yield f'[b"\\0" if {item} is None else b"\\2" + write_{kind}({item}) for {item} in {values}]'
            case "array" | "map":
                function, item = self._function(schema), code.name("x")
                yield f'[{function}({item}) if {item} else b"\\0" for {item} in {values}]'
            case "long":
                yield f"write_longs({values})"
            case kind:
                yield f"map({kind}.__getitem__, {values})" if kind in wire.TABLES else f"map(write_{kind}, {values})"
