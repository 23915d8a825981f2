"""Decoders as Python source, generated from a schema: strict, and never allocating on a promise.

Every length and count is held against the bytes that remain before anything is made of it. A reader takes the
writer's data into the reader's shape (fields that the reader lacks are dropped, those it adds get their default), for
the pairs of schemas that `evolution` allows.

Source: Avro specification 1.12, Binary Encoding and Schema Resolution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from . import wire
from .avro import Schema
from .codegen import Code, Types, UnsupportedSchemaError

Reader: TypeAlias = Callable[[bytes, int, int], tuple[Any, int]]


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
        self._types = Types(writer)
        self._types.least_bytes(writer)
        self._reader_types = Types(reader)
        self._makers = makers
        self._code = Code()

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
            symbols = tuple(symbol if symbol in reader["symbols"] else reader["default"] for symbol in symbols)
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
        values = {name: self._default(field) for name, field in wanted.items() if "default" in field}
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

    def _default(self, field: Any) -> str:
        value, kind = field["default"], self._reader_types.kind(self._reader_types.definition(field["type"]))
        if kind in ("bytes", "fixed"):  # JSON writes them as text of code points 0 to 255
            return repr(value.encode("latin-1"))
        if kind == "record" or (value and kind in ("array", "map")):
            raise UnsupportedSchemaError(f"a default of {value!r} is not used in contracts")
        return "()" if kind == "array" else repr(value)

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
