"""Encoders as Python source, generated from a schema: they write what fastavro writes, byte for byte.

Whether a value is valid is left to `validate()`; one that does not fit its type raises and writes nothing. Maps are
written in their own order, in one block. A field or map with the schema attribute `recurring` holds texts that come
back in event after event; their encoded form is remembered (`wire.RECURRING`).

Source: Avro specification 1.12, Binary Encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from . import wire
from .avro import Schema
from .codegen import Code, Types
from .column_encoders import ColumnWriter

Encoder: TypeAlias = Callable[..., bytes]


def encoder_source(
    schema: Schema,
    *,
    prefix: bytes = b"",
    arguments: Mapping[str, str] | None = None,
    tuples: Collection[str] = (),
    columns: Collection[str] = (),
) -> str:
    """Source of `encode(...)`, which returns the prefix and the encoded record.

    Args:
        schema: expanded schema of a record.
        prefix: bytes in front, for example the single-object header.
        arguments: the parameter that each top-level field is an attribute of; a field that is a parameter itself
            maps to its own name. Nested records are read by attribute. None: one parameter `datum`, and records are
            mappings.
        tuples: names of records that are tuples of their fields in order, which is faster to read.
        columns: names of records that are tuples and come in long arrays, which are written field by field.
    """
    types, constants = Types(schema), list[str]()
    types.least_bytes(schema)
    function = _EncoderWriter(schema, arguments, tuples, columns, types, constants).source("encode", prefix)
    return "\n".join([*constants, function, ""])


def compile_encoder(
    schema: Schema,
    *,
    prefix: bytes = b"",
    arguments: Mapping[str, str] | None = None,
    tuples: Collection[str] = (),
    columns: Collection[str] = (),
) -> Encoder:
    """The function of `encoder_source`.

    Raises (the function):
        AttributeError, KeyError, TypeError, ValueError, OverflowError: a value does not fit the schema.
    """
    source = encoder_source(schema, prefix=prefix, arguments=arguments, tuples=tuples, columns=columns)
    names = dict(wire.ENCODER_NAMES)
    exec(compile(source, f"<encoder of {schema['name']}>", "exec"), names)  # source comes from our own contracts
    encoder: Encoder = names["encode"]
    return encoder


class _EncoderWriter:
    """Expressions for bytes wait in `_pending` and join the list `out` at the next statement that branches or loops."""

    def __init__(
        self,
        schema: Schema,
        arguments: Mapping[str, str] | None,
        tuples: Collection[str],
        columns: Collection[str],
        types: Types,
        constants: list[str],
    ) -> None:
        self._schema = schema
        self._types = types
        self._arguments = arguments
        self._tuples = frozenset((*tuples, *columns))
        self._columns = ColumnWriter(self._types, columns, self._function)
        self._code = Code()
        self._pending: list[str] = []
        self._constants = constants
        self._begun = False

    def _function(self, schema: Schema) -> str:
        """The name of a function of its own that writes one value."""
        name = f"write{len(self._constants)}"
        record = {"type": "record", "name": name, "fields": [{"name": "value", "type": schema}]}
        writer = _EncoderWriter(record, {"value": "value"}, self._tuples, (), self._types, self._constants)
        self._constants.append(writer.source(name))
        return name

    def source(self, name: str, prefix: bytes = b"") -> str:
        if prefix:
            self._put(repr(prefix))
        for field in self._schema["fields"]:
            self._value(field["type"], self._top(field["name"]), field.get("recurring", False))
        if not self._begun and not self._pending:
            self._code.add("out = []")
        self._flush()
        self._code.add('return b"".join(out)')
        parameters = "datum" if self._arguments is None else ", ".join(dict.fromkeys(self._arguments.values()))
        return "\n".join([f"def {name}({parameters}):", *self._code.lines])

    def _top(self, name: str) -> str:
        if self._arguments is None:
            return f"datum[{name!r}]"
        owner = self._arguments[name]
        return owner if owner == name else f"{owner}.{name}"

    def _put(self, *expressions: str) -> None:
        self._pending += expressions

    def _flush(self) -> None:
        if self._pending:
            pieces = ", ".join(self._pending)
            self._code.add(f"out += ({pieces},)" if self._begun else f"out = [{pieces}]")
            self._begun = True
            self._pending.clear()

    def _open(self, *lines: str) -> None:
        """Begin a branch or loop behind everything that came before it."""
        self._flush()
        if not self._begun:
            self._code.add("out = []")
            self._begun = True
        self._code.add(*lines)
        self._code.depth += 1

    def _close(self) -> None:
        self._flush()
        self._code.depth -= 1

    def _value(self, schema: Schema, value: str, recurring: bool = False) -> None:
        schema = self._types.definition(schema)
        match self._types.kind(schema):
            case "string" if not recurring:
                raw = self._assign("s", f"{value}.encode()")
                self._put(f"L[len({raw})]", raw)
            case "fixed":
                raw = self._assign("f", value)
                self._put(f"{raw} if len({raw}) == {schema['size']} else wrong_size({raw}, {schema['size']})")
            case "enum":
                self._put(f"{self._symbols(schema['symbols'])}[{value}]")
            case "union":
                self._nullable(self._types.nullable(schema), value, recurring)
            case "array" if self._columns.takes(schema["items"]):
                self._in_columns(schema["items"], value)
            case "array" | "map" as kind:
                self._blocks(kind, schema, value)
            case "record":
                self._record(schema, value)
            case kind:
                self._put(f"{kind}[{value}]" if kind in wire.TABLES else f"write_{kind}({value})")

    def _assign(self, start: str, value: str) -> str:
        name = self._code.name(start)
        self._code.add(f"{name} = {value}")
        return name

    def _symbols(self, symbols: list[str]) -> str:
        name = f"E{len(self._constants)}"
        table = {symbol: wire.write_long(index) for index, symbol in enumerate(symbols)}
        self._constants.append(f"{name} = {table!r}")
        return name

    def _record(self, schema: Any, value: str) -> None:
        names = [field["name"] for field in schema["fields"]]
        if schema["name"] in self._tuples:
            members = [self._code.name("m") for _ in names]
            self._code.add(f"{', '.join(members)}, = {value}")
        elif self._arguments is None:
            owner = self._assign("r", value)
            members = [f"{owner}[{name!r}]" for name in names]
        else:
            owner = self._assign("r", value)
            members = [f"{owner}.{name}" for name in names]
        for field, member in zip(schema["fields"], members, strict=True):
            self._value(field["type"], member, field.get("recurring", False))

    def _nullable(self, schema: Schema, value: str, recurring: bool) -> None:
        if schema == "string" and recurring:
            self._put(f"optional_string[{value}]")
            return
        given = self._assign("n", value)
        kind = self._types.kind(self._types.definition(schema))
        if kind in wire.WRITERS:
            self._put(f'b"\\0" if {given} is None else b"\\2" + write_{kind}({given})')
            return
        self._open(f"if {given} is None:")
        self._put('b"\\0"')
        self._close()
        self._open("else:")
        self._put('b"\\2"')
        self._value(schema, given)
        self._close()

    def _blocks(self, kind: str, schema: Any, value: str) -> None:
        items, item, key = self._assign("i", value), self._code.name("x"), self._code.name("k")
        self._open(f"if {items}:")
        self._put(f"L[len({items})]")
        self._open(f"for {key}, {item} in {items}.items():" if kind == "map" else f"for {item} in {items}:")
        if kind == "map":
            self._value("string", key, schema.get("recurring", False))
        self._value(schema["values" if kind == "map" else "items"], item)
        self._close()
        self._close()
        self._put('b"\\0"')

    def _in_columns(self, item: Schema, value: str) -> None:
        items = self._assign("i", value)
        self._open(f"if {items}:")
        self._put(f"L[len({items})]")
        self._put(self._columns.joined(item, items, self._code))
        self._close()
        self._put('b"\\0"')
