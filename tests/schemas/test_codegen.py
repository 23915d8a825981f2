"""Generated encoders write fastavro's bytes; generated readers read them, into another version's shape too."""

from __future__ import annotations

import io
from itertools import count
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.schemas.encoding.avro import expand
from metajournal.schemas.encoding.codegen import UnsupportedSchemaError
from metajournal.schemas.encoding.decoders import compile_reader
from metajournal.schemas.encoding.encoders import compile_encoder
from metajournal.schemas.encoding.wire import (
    RECURRING,
    read_long,
    write_int,
    write_long,
    write_longs,
    write_optional_longs,
)
from metajournal.schemas.errors import Undecodable
from tests.schemas.builders import texts

LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=200)),
    ("string", texts(max_size=100)),
]


class Shape:
    """A schema and the values that fit it."""

    def __init__(self, schema: Any, values: st.SearchStrategy[Any]) -> None:
        self.schema = schema
        self.values = values


@st.composite
def shapes(draw: st.DrawFn, names: Any, depth: int = 3) -> Shape:
    kind = draw(st.sampled_from(["leaf", "leaf", "fixed", "enum"] + ["null", "array", "map", "record"] * (depth > 0)))
    match kind:
        case "leaf":
            return Shape(*draw(st.sampled_from(LEAVES)))
        case "fixed":
            size = draw(st.integers(1, 20))
            schema = {"type": "fixed", "name": f"F{next(names)}", "size": size}
            return Shape(schema, st.binary(min_size=size, max_size=size))
        case "enum":
            symbols = [f"S{index}" for index in range(draw(st.integers(1, 70)))]
            return Shape({"type": "enum", "name": f"E{next(names)}", "symbols": symbols}, st.sampled_from(symbols))
        case "record":
            return draw(records(names, depth - 1))
    inner = draw(shapes(names, depth - 1))
    if kind == "null":
        if isinstance(inner.schema, list):
            return inner
        return Shape(["null", inner.schema], st.one_of(st.none(), inner.values))
    if kind == "array":
        return Shape({"type": "array", "items": inner.schema}, st.lists(inner.values, max_size=4))
    schema = {"type": "map", "values": inner.schema, "recurring": draw(st.booleans())}
    return Shape(schema, st.dictionaries(texts(max_size=5), inner.values, max_size=4))


@st.composite
def records(draw: st.DrawFn, names: Any, depth: int = 3) -> Shape:
    parts = {f"f{index}": draw(shapes(names, depth)) for index in range(draw(st.integers(1, 5)))}
    fields = [{"name": name, "type": part.schema, "recurring": draw(st.booleans())} for name, part in parts.items()]
    schema = {"type": "record", "name": f"R{next(names)}", "fields": fields}
    return Shape(schema, st.fixed_dictionaries({name: part.values for name, part in parts.items()}))


@st.composite
def schemas_and_values(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    shape = draw(records(count()))
    return shape.schema, draw(st.lists(shape.values, min_size=1, max_size=3))


def reference(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, tuple | list) else value


@settings(deadline=None)
@given(schemas_and_values())
def test_bytes_are_fastavros_and_read_back(case: tuple[Any, list[Any]]) -> None:
    schema, values = case
    encode, read = compile_encoder(expand(schema)), compile_reader(expand(schema))
    for value in values:
        body = encode(value)
        assert body == reference(schema, value)
        decoded, end = read(body, 0, len(body))
        assert end == len(body)
        assert as_lists(decoded) == value


@pytest.mark.thorough
@settings(deadline=None)
@given(schemas_and_values(), st.data())
def test_every_cut_of_the_bytes_is_refused(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    schema, values = case
    body = reference(schema, values[0])
    cut = data.draw(st.integers(0, len(body) - 1)) if body else 0
    with pytest.raises((Undecodable, IndexError)):
        compile_reader(expand(schema))(body[:cut], 0, cut)


@settings(deadline=None)
@given(schemas_and_values(), st.data())
def test_fields_come_and_go_as_fastavro_resolves_them(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    schema, values = case
    kept = data.draw(st.lists(st.sampled_from(schema["fields"]), unique_by=lambda field: field["name"]))
    added = [
        {"name": "new", "type": "string", "default": "x"},
        {"name": "none", "type": ["null", "int"], "default": None},
    ]
    reader = {**schema, "fields": data.draw(st.permutations(kept + added))}
    body = reference(schema, values[0])
    expected = fastavro.schemaless_reader(
        io.BytesIO(body), fastavro.parse_schema(schema), fastavro.parse_schema(reader)
    )
    decoded, end = compile_reader(expand(schema), expand(reader))(body, 0, len(body))
    assert end == len(body)
    assert as_lists(decoded) == expected


def test_unknown_symbols_become_the_readers_default() -> None:
    writer = record({"type": "enum", "name": "E", "symbols": ["A", "B"]})
    reader = record({"type": "enum", "name": "E", "symbols": ["A", "C"], "default": "C"})
    read = compile_reader(writer, reader)
    assert [read(body, 0, 1)[0]["f"] for body in (b"\0", b"\2")] == ["A", "C"]


def record(schema: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema}]}


@pytest.mark.parametrize(
    ("schema", "body", "value"),
    [
        ({"type": "array", "items": "string"}, b"\x03\x08\x02a\x02b\x02\x02c\x00", ("a", "b", "c")),
        ({"type": "array", "items": "string"}, b"\x00", ()),
        ({"type": "map", "values": "long"}, b"\x01\x06\x02k\x02\x00", {"k": 1}),
        ({"type": "map", "values": "long"}, b"\x02\x02k\x02\x02\x02k\x04\x00", {"k": 2}),
        ("long", b"\x82\x00", 1),
        ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -(2**63)),
        ("int", b"\xff\xff\xff\xff\x0f", -(2**31)),
    ],
)
def test_all_legal_forms_are_read(schema: Any, body: bytes, value: Any) -> None:
    """Sized and several blocks, a repeated key (the last counts), the widest numbers."""
    decoded, end = compile_reader(record(schema))(body, 0, len(body))
    assert (decoded["f"], end) == (value, len(body))


@pytest.mark.parametrize(
    ("schema", "body", "why"),
    [
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("long", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02", "64 bits"),
        ("long", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", "64 bits"),
        ("int", b"\x80\x80\x80\x80\x10", "32 bits"),
        ("string", b"\x02\xff", "codec"),
        ("string", b"\x06\xed\xa0\x80", "codec"),
        ("string", b"\x04a", "ends too early"),
        ("string", b"\x01", "negative"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "ends too early"),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc", "ends too early"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "enum index"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "enum index"),
        (["null", "int"], b"\x04", "union index"),
        (["null", "int"], b"\x01", "union index"),
        ({"type": "array", "items": "int"}, b"\x80\x80\x80\x80\x80\x80\x80\x80\x10", "count exceeds"),
        ({"type": "array", "items": "int"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", "count exceeds"),
        ({"type": "map", "values": "string"}, b"\x06\x00\x00\x00\x00", "count exceeds"),
        ({"type": "array", "items": "int"}, b"\x01\x04\x02\x00", "another size"),
        ({"type": "array", "items": "int"}, b"\x01\x01\x02\x00", "negative"),
    ],
)
def test_what_breaks_the_schema_is_named(schema: Any, body: bytes, why: str) -> None:
    with pytest.raises((Undecodable, UnicodeDecodeError), match=why):
        compile_reader(record(schema))(body, 0, len(body))


@pytest.mark.parametrize(
    "schema",
    [
        ["int", "null"],
        ["null", "int", "string"],
        ["null", "null"],
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "N", "fields": []}},
        {"type": "map", "values": {"type": "fixed", "name": "F", "size": 0}},
        ["null", "R"],
        {"type": "array", "items": "R"},
    ],
)
def test_schemas_that_could_explode_are_refused(schema: Any) -> None:
    """Recursion, items without bytes, and wider unions: the bombs that Avro allows."""
    with pytest.raises(UnsupportedSchemaError):
        compile_reader(expand(record(schema)))


def test_defaults_become_values_of_their_type() -> None:
    field = {"name": "new", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "a\u00ff"}
    reader = {"type": "record", "name": "R", "fields": [field]}
    assert compile_reader(record("int"), reader)(b"\2", 0, 1) == ({"new": b"a\xff"}, 1)
    with pytest.raises(UnsupportedSchemaError):
        compile_reader(record("int"), {**reader, "fields": [{**field, "type": record("int"), "default": {"f": 1}}]})


def test_a_reader_of_another_type_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError):
        compile_reader(record("int"), record("string"))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", 2**31),
        ("int", -(2**31) - 1),
        ("long", 2**63),
        ("long", "1"),
        ("string", b"x"),
        ("string", None),
        ("string", "\ud800"),
        ("boolean", "yes"),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "map", "values": "string"}, {"k": 1}),
        ({"type": "map", "values": "string", "recurring": True}, {1: "v"}),
    ],
)
def test_values_that_do_not_fit_are_refused(schema: Any, value: Any) -> None:
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError, OverflowError)):
        compile_encoder(record(schema))({"f": value})


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_fastavros(value: int) -> None:
    body = reference(record("long"), {"f": value})
    assert write_long(value) == body
    assert read_long(body, 0) == (value, len(body))


@given(st.integers(0, 2**43))
def test_times_take_the_short_way_to_the_same_bytes(value: int) -> None:
    assert read_long(write_long(value), 0)[0] == value
    assert write_long(value) == reference(record("long"), {"f": value})


times = st.one_of(st.integers(2**34 - 2, 2**34 + 2), st.integers(2**41 - 2, 2**41 + 2), st.integers(2**34, 2**41 - 1))


@given(st.lists(times) | st.lists(st.one_of(times, st.integers(-(2**63), 2**63 - 1))))
def test_many_numbers_are_the_bytes_of_each(values: list[int]) -> None:
    assert list(write_longs(values)) == [write_long(value) for value in values]
    assert list(write_optional_longs(values)) == [b"\2" + write_long(value) for value in values]
    assert list(write_optional_longs([None, *values])) == [b"\0"] + [b"\2" + write_long(value) for value in values]


@pytest.mark.parametrize("values", [[1.5e12], [2**40, 1.5e12], ["x"], [2**40, None], [1 << 63]])
def test_of_many_numbers_one_that_is_none_is_refused(values: Any) -> None:
    with pytest.raises((TypeError, OverflowError)):
        write_longs(values)


@st.composite
def tuples(draw: st.DrawFn, names: Any, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any], set[str]]:
    """A record of numbers, texts and such records, and tuples that fit it."""
    name, fields, values, inner = f"T{next(names)}", [], [], {f"x{next(names)}"}
    for index in range(draw(st.integers(1, 4))):
        if depth and draw(st.integers(0, 3)) == 0:
            schema, value, more = draw(tuples(names, depth - 1))
            inner |= more
        else:
            schema, value = draw(st.sampled_from(LEAVES))
            if draw(st.booleans()) and schema != "boolean":
                schema, value = ["null", schema], st.none() | value
        fields.append({"name": f"f{index}", "type": schema, "recurring": draw(st.booleans())})
        values.append(value)
    return {"type": "record", "name": name, "fields": fields}, st.tuples(*values), {name, *inner}


@settings(deadline=None)
@given(tuples(count()), st.data())
def test_arrays_that_are_written_field_by_field_are_those_written_one_by_one(case: Any, data: st.DataObject) -> None:
    item, values, names = case
    schema = expand(record({"type": "array", "items": item}))
    rows = data.draw(st.lists(values, max_size=5))
    written = compile_encoder(schema, tuples=names, columns=names)({"f": rows})
    assert written == compile_encoder(schema, tuples=names)({"f": rows})


@pytest.mark.parametrize("rows", [[("a",)], [("a", 1, 2)], [("a", 1), ("b",)], [("a", "b")], [(1, 1)], [1], [None]])
def test_a_tuple_that_does_not_fit_is_refused_field_by_field_too(rows: Any) -> None:
    fields = [{"name": "a", "type": "string"}, {"name": "b", "type": "long"}]
    schema = record({"type": "array", "items": {"type": "record", "name": "T", "fields": fields}})
    with pytest.raises((TypeError, ValueError, AttributeError)):
        compile_encoder(schema, tuples={"T"}, columns={"T"})({"f": rows})


def test_recurring_texts_are_forgotten_not_piled_up() -> None:
    encode = compile_encoder(record({"type": "map", "values": "int", "recurring": True}))
    for index in range(10_000):
        assert encode({"f": {f"key-{index}": 1}})[2:-2] == f"key-{index}".encode()
    assert len(RECURRING) <= 4096
    assert write_int(-1) == b"\x01"
