"""Encoders and decoders as Python source, generated from a schema: twice as fast as walking the schema for each event.

The encoder writes what fastavro writes, byte for byte. The decoder is strict and never allocates on a promise: every
length and count is held against the bytes that remain. It reads the writer's data into the reader's shape (fields the
reader lacks are dropped, those it adds get their default), for the pairs that `evolution` allows. Recursive types,
items that take no bytes, and unions other than ["null", X] are refused when the code is generated.

Source: Avro specification 1.12, Binary Encoding and Schema Resolution.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import Any, Final

from . import wire
from .avro import PRIMITIVES, Schema, named_types

Encoder = Callable[..., bytes]
Reader = Callable[[bytes, int, int], tuple[Any, int]]

_FIXED_MIN: Final = {"boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class UnsupportedSchemaError(ValueError):
    """The schema uses what contracts may not use."""


class _Code:
    """Lines of one function, with names that are free."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self._numbers = count()

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    def name(self, start: str) -> str:
        return f"{start}{next(self._numbers)}"


class _Types:
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


# ------------------------------------------------------------------------------------------------ encoding


def encoder_source(
    schema: Schema,
    *,
    prefix: bytes = b"",
    arguments: Mapping[str, str] | None = None,
    tuples: Collection[str] = (),
) -> str:
    """Source of `encode(...)`, which returns the prefix and the encoded record.

    Args:
        schema: expanded schema of a record.
        prefix: bytes in front, for example the single-object header.
        arguments: the parameter that each top-level field is an attribute of; a field that is a parameter itself
            maps to its own name. Nested records are read by attribute. None: one parameter `datum`, and records are
            mappings.
        tuples: names of records that are tuples of their fields in order, which is faster to read.
    """
    return _EncoderWriter(schema, arguments, tuples).source(prefix)


def compile_encoder(
    schema: Schema,
    *,
    prefix: bytes = b"",
    arguments: Mapping[str, str] | None = None,
    tuples: Collection[str] = (),
) -> Encoder:
    """The function of `encoder_source`.

    Raises (the function):
        AttributeError, KeyError, TypeError, ValueError, OverflowError: a value does not fit the schema.
    """
    source = encoder_source(schema, prefix=prefix, arguments=arguments, tuples=tuples)
    names = dict(wire.ENCODER_NAMES)
    exec(compile(source, f"<encoder of {schema['name']}>", "exec"), names)  # source comes from our own contracts
    encoder: Encoder = names["encode"]
    return encoder


class _EncoderWriter:
    """Expressions for bytes wait in `_pending` and join the list `out` at the next statement that branches or loops."""

    def __init__(self, schema: Schema, arguments: Mapping[str, str] | None, tuples: Collection[str]) -> None:
        self._schema = schema
        self._types = _Types(schema)
        self._types.least_bytes(schema)
        self._arguments = arguments
        self._tuples = tuples
        self._code = _Code()
        self._pending: list[str] = []
        self._constants: list[str] = []
        self._begun = False

    def source(self, prefix: bytes) -> str:
        if prefix:
            self._put(repr(prefix))
        for field in self._schema["fields"]:
            self._value(field["type"], self._top(field["name"]), field.get("recurring", False))
        if not self._begun and not self._pending:
            self._code.add("out = []")
        self._flush()
        self._code.add('return b"".join(out)')
        parameters = "datum" if self._arguments is None else ", ".join(dict.fromkeys(self._arguments.values()))
        return "\n".join([*self._constants, f"def encode({parameters}):", *self._code.lines, ""])

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


# ------------------------------------------------------------------------------------------------ decoding


def reader_source(writer: Schema, reader: Schema | None = None, *, makers: Mapping[str, str] | None = None) -> str:
    """Source of `read(data, at, end)`, which returns the record of the reader's shape and the place behind it.

    Args:
        writer: expanded schema of a record: what the bytes follow.
        reader: the wanted shape; the writer's own where None.
        makers: by record name the name of the callable that takes the reader's fields in order; records without one
            become dicts.
    """
    return _ReaderWriter(writer, writer if reader is None else reader, makers or {}).source()


def compile_reader(
    writer: Schema, reader: Schema | None = None, *, makers: Mapping[str, Callable[..., Any]] | None = None
) -> Reader:
    """The function of `reader_source`.

    Args:
        makers: callable by record name, given the reader's fields in order; records without one become dicts.
    Raises (the function):
        Undecodable: the bytes do not follow the schema.
        IndexError: they end too early. UnicodeDecodeError: a text is not UTF-8.
    """
    callables = {f"make{index}": maker for index, maker in enumerate((makers or {}).values())}
    names: dict[str, Any] = {
        "long": wire.read_long,
        "span": wire.read_span,
        "refuse": wire.refuse,
        "read_float": wire.unpack_float,
        "read_double": wire.unpack_double,
        **callables,
    }
    source = reader_source(writer, reader, makers=dict(zip(makers or {}, callables, strict=True)))
    exec(compile(source, f"<reader of {writer['name']}>", "exec"), names)  # source comes from our own contracts
    read: Reader = names["read"]
    return read


class _ReaderWriter:
    def __init__(self, writer: Schema, reader: Schema, makers: Mapping[str, str]) -> None:
        self._writer = writer
        self._reader = reader
        self._types = _Types(writer)
        self._types.least_bytes(writer)
        self._reader_types = _Types(reader)
        self._makers = makers
        self._code = _Code()

    def source(self) -> str:
        result = self._value(self._writer, self._reader)
        self._code.add(f"return {result}, at")
        return "\n".join(["def read(data, at, end):", *self._code.lines, ""])

    def _value(self, writer: Schema, reader: Schema | None) -> str:
        """Code that reads one value; returns the expression of it. A reader of None: read and drop."""
        writer = self._types.definition(writer)
        reader = None if reader is None else self._reader_types.definition(reader)
        if reader is not None and self._types.kind(writer) != self._reader_types.kind(reader):
            raise UnsupportedSchemaError(f"{reader!r} is not read from {writer!r}")
        match self._types.kind(writer):
            case "record":
                return self._record(writer, reader)
            case "array" | "map" as kind:
                return self._blocks(kind, writer, reader)
            case "union":
                return self._nullable(writer, reader)
            case "enum":
                return self._enum(writer, reader)
            case "fixed":
                return self._fixed(writer["size"], "data[{0}:at]")
            case "string":
                return self._sized("data[{0}:at].decode()")
            case "bytes":
                return self._sized("data[{0}:at]")
            case kind:
                return self._number(kind)

    def _long(self) -> str:
        name = self._code.name("n")
        self._code.add(
            f"{name} = data[at]",
            f"if {name} & 129: {name}, at = long(data, at)",  # negative, or longer than one byte
            "else:",
            f"    {name} >>= 1",
            "    at += 1",
        )
        return name

    def _fixed(self, size: int, expression: str) -> str:
        start = self._code.name("a")
        self._code.add(f"{start} = at", f"at += {size}")
        return self._taken(start, expression)

    def _sized(self, expression: str) -> str:
        start, length = self._code.name("a"), self._code.name("n")
        self._code.add(
            f"{start} = at + 1",
            f"{length} = data[at]",
            f"if {length} & 129: {start}, at = span(data, at)",
            f"else: at = {start} + ({length} >> 1)",
        )
        return self._taken(start, expression)

    def _taken(self, start: str, expression: str) -> str:
        value = self._code.name("v")
        self._code.add("if at > end: refuse('it ends too early')", f"{value} = {expression.format(start)}")
        return value

    def _number(self, kind: str) -> str:
        match kind:
            case "long":
                return self._long()
            case "int":
                value = self._long()
                self._code.add(
                    f"if not {wire.MIN_INT} <= {value} <= {wire.MAX_INT}: refuse('an int has more than 32 bits')"
                )
                return value
            case "boolean":
                value = self._code.name("v")
                self._code.add(f"{value} = data[at]", "at += 1")
                self._code.add(f"if {value} > 1: refuse('a boolean is neither 0 nor 1')", f"{value} = {value} == 1")
                return value
            case _:
                return self._fixed(4 if kind == "float" else 8, f"read_{kind}(data, {{0}})[0]")

    def _enum(self, writer: Any, reader: Any) -> str:
        index, value = self._long(), self._code.name("v")
        symbols = tuple(writer["symbols"])
        self._code.add(f"if not 0 <= {index} < {len(symbols)}: refuse('an enum index is out of range')")
        if reader is not None:
            symbols = tuple(one if one in reader["symbols"] else reader["default"] for one in symbols)
        self._code.add(f"{value} = {symbols!r}[{index}]")
        return value

    def _nullable(self, writer: Any, reader: Any) -> str:
        inner = None if reader is None else self._reader_types.nullable(reader)
        branch, value = self._long(), self._code.name("v")
        self._code.add(f"if {branch} == 0:", f"    {value} = None", f"elif {branch} == 1:")
        self._code.depth += 1
        self._code.add(f"{value} = {self._value(self._types.nullable(writer), inner)}")
        self._code.depth -= 1
        self._code.add("else: refuse('a union index is out of range')")
        return value

    def _record(self, writer: Any, reader: Any) -> str:
        wanted = {} if reader is None else {field["name"]: field for field in reader["fields"]}
        values = {name: repr(field["default"]) for name, field in wanted.items() if "default" in field}
        for field in writer["fields"]:
            target = wanted.get(field["name"])
            value = self._value(field["type"], None if target is None else target["type"])
            if target is not None:
                values[field["name"]] = value
        if reader is None:
            return "None"
        maker = self._makers.get(reader["name"])
        if maker is None:
            return "{" + ", ".join(f"{name!r}: {values[name]}" for name in wanted) + "}"
        made = self._code.name("v")
        self._code.add(f"{made} = {maker}({', '.join(values[name] for name in wanted)})")
        return made

    def _blocks(self, kind: str, writer: Any, reader: Any) -> str:
        inner = "values" if kind == "map" else "items"
        least = self._types.least_item_bytes(writer[inner]) + (1 if kind == "map" else 0)
        result, stop = self._code.name("c"), self._code.name("e")
        self._code.add(f"{result} = {{}}" if kind == "map" else f"{result} = []", "while True:")
        self._code.depth += 1
        number = self._long()
        self._code.add(f"if {number} == 0: break", f"{stop} = -1", f"if {number} < 0:")
        self._code.depth += 1
        self._code.add(f"{number} = -{number}", f"at, {stop} = span(data, at)")
        self._code.depth -= 1
        self._code.add(f"if {number} * {least} > end - at: refuse('a count exceeds what is left')")
        self._code.add(f"for _ in range({number}):")
        self._code.depth += 1
        key = self._value("string", "string") if kind == "map" else ""
        value = self._value(writer[inner], None if reader is None else reader[inner])
        if reader is not None:
            self._code.add(f"{result}[{key}] = {value}" if kind == "map" else f"{result}.append({value})")
        self._code.depth -= 1
        self._code.add(f"if {stop} >= 0 and {stop} != at: refuse('a block has another size than it says')")
        self._code.depth -= 1
        return result if kind == "map" else f"tuple({result})"
