"""Many journal values to events at once: the same events as `codec.decode` gives, several times as fast.

The values of one schema are read side by side, field by field, with numpy: a vector holds where in each value the
reading stands. What Avro allows but nobody writes (a block in several parts, a negative count), what is long, and
whatever is not exactly right is left to `codec.decode`, value by value, so there is one judge of what is wrong.
Lengths and counts are held against the bytes that remain before anything is made of them, as there.

Needs numpy (extra `lake`), and is imported by nothing that the light client needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

from ..errors import NotSingleObject, Undecodable, UnknownFingerprint
from ..events import event_class as class_of
from ..events.base import as_urn
from ..header import Header
from . import wire
from .codec import HEADER_MAKERS, Decoded, decode
from .codegen import Types
from .columns import (
    BooleanColumn,
    BytesColumn,
    EnumColumn,
    FlatRecordColumn,
    ListColumn,
    LongColumn,
    NullableColumn,
    RecordColumn,
    TextColumn,
    Values,
    pairs,
)
from .cursor import Known, Numbers, Source
from .known import HEADER_NAME, contracts_by_fingerprint

Failure: TypeAlias = NotSingleObject | UnknownFingerprint | Undecodable

_SIDE_BY_SIDE: Final = 8_192
"""Values that are read together: enough to make numpy's calls cheap, few enough to stay in the processor's cache."""
_FEWEST: Final = 16
"""Fewer than so many of one schema are read one by one."""
_KEPT_URNS: Final = 100_000
_KEPT_CHARACTERS: Final = 256


def decode_all(values: Sequence[bytes]) -> list[Decoded | Failure]:
    """Header and event of each value, or the error that `codec.decode` raises for it.

    Args:
        values: values of journal records, in any order and of any schemas.
    """
    results: list[Decoded | Failure] = []
    known = Known()
    for start in range(0, len(values), _SIDE_BY_SIDE):
        some = values[start : start + _SIDE_BY_SIDE]
        results += [result or _alone(value) for result, value in zip(_side_by_side(some, known), some, strict=True)]
    return results


def _alone(value: bytes) -> Decoded | Failure:
    try:
        return decode(value)
    except (NotSingleObject, UnknownFingerprint, Undecodable) as error:
        return error


def _side_by_side(values: Sequence[bytes], known: Known) -> list[Decoded | None]:
    """The events of some values; None for each that has to be read alone."""
    results: list[Decoded | None] = [None] * len(values)
    source = Source.of(values, known)
    for fingerprint, rows in source.rows_by_fingerprint():
        contract = contracts_by_fingerprint().get(fingerprint)
        if contract is None or contract.revision is not None or len(rows) < _FEWEST:
            continue  # a former version is read into the current one's shape by the codec alone
        reader = _reader(fingerprint)
        chosen, decoded = ((), ()) if reader is None else _read(reader, source, rows)
        for row, result in zip(chosen, decoded, strict=True):
            results[row] = result
    return results


class Spans(NamedTuple):
    """Where the fields of one schema's values stand in their bytes: no object has been made of any.

    Attributes:
        rows: the values that were read, ascending; all others of this schema have to be read alone.
        header, fields: by field what its reader in `columns` found, a row for each of `rows`.
    """

    event_type: str
    rows: Numbers
    header: Mapping[str, Any]
    fields: Mapping[str, Any]


def spans_of(source: Source, event_types: Collection[str]) -> Iterator[Spans]:
    """The fields of all values that are events of these types in their present form."""
    for fingerprint, rows in source.rows_by_fingerprint():
        contract = contracts_by_fingerprint().get(fingerprint)
        if contract is None or contract.revision is not None or contract.event_type not in event_types:
            continue
        reader = _reader(fingerprint)
        state = None
        while reader is not None and len(rows) and state is None:
            state, rows = _state(reader, source, rows)
        if state is not None:
            header, *fields = state
            names = [field["name"] for field in contract.schema["fields"]]
            yield Spans(contract.event_type, rows, dict(zip(Header._fields, header)), dict(zip(names[1:], fields)))  # noqa: B905


def _state(reader: RecordColumn, source: Source, rows: Numbers) -> tuple[Any, Numbers]:
    """What a reader finds of some rows; None where not all of them are right, with those that are."""
    cursor = source.cursor(rows)
    state = reader.read(cursor)
    right = cursor.right & (cursor.at == cursor.end)
    return (state, rows) if right.all() else (None, rows[right])


def _read(reader: RecordColumn, source: Source, rows: Numbers) -> tuple[Sequence[int], Sequence[Decoded]]:
    """The events of some rows of a source, and which of the rows they are: those where all is right."""
    state, right = _state(reader, source, rows)
    if state is None:
        return _read(reader, source, right) if len(right) else ((), ())
    try:
        return rows.tolist(), reader.make(state, source)
    except UnicodeDecodeError:
        return (), ()


class _Urns(dict[str, Any]):
    """The URN of each text, or the text itself where it is none; None of None, of a field that may be null.

    Bounded: starts anew when full, keeps no long ones.
    """

    def __missing__(self, text: str | None) -> Any:
        if text is None:
            return None
        urn = as_urn(text)
        if len(text) <= _KEPT_CHARACTERS:
            if len(self) >= _KEPT_URNS:
                self.clear()
            self[text] = urn
        return urn


_URNS: Final = _Urns()


@cache
def _reader(fingerprint: int) -> RecordColumn | None:
    """What reads a contract side by side; None where it has a shape that is left to `codec.decode`."""
    contract = contracts_by_fingerprint()[fingerprint]
    event_class = class_of(contract.event_type)
    names = [field["name"] for field in contract.schema["fields"]][1:]
    makers = {name: _calling(maker) for name, maker in (HEADER_MAKERS | getattr(event_class, "NESTED", {})).items()}
    try:
        makers |= {HEADER_NAME: _headers, contract.name: _maker_of(event_class, names, contract.name)}
        record: RecordColumn = _Builder(Types(contract.schema), makers).reader(contract.schema)
    except _LeftOutError:
        return None
    return record


def _calling(maker: Callable[..., Any]) -> Callable[..., Values]:
    return lambda *columns: list(map(maker, *columns))


def _headers(*columns: Values) -> Values:
    """Headers of columns in order, without the price of a call by names."""
    return list(map(tuple.__new__, repeat(Header), zip(*columns, strict=True)))


def _maker_of(event_class: type[Any], names: list[str], schema: str) -> Callable[..., Values]:
    if names[2:4] != ["schema_text", "schema_fields"]:
        return _events(event_class, names, schema)
    return _with_schema(_events(event_class, [*names[:2], "schema", *names[4:]], schema))


def _events(event_class: type[Any], names: list[str], schema: str) -> Callable[..., Values]:
    """What makes decoded events of columns, the first of which are the headers.

    What is decoded has the types that an event holds, so its slots are filled without its constructor, which is there
    to take what people give.
    """
    if names != [field.name for field in fields(event_class)]:
        raise _LeftOutError
    slots = [getattr(event_class, name).__set__ for name in names]
    urns = getattr(event_class, "URN_FIELDS", ("entity",))

    def make_all(headers: Values, *columns: Values) -> Values:
        events = [object.__new__(event_class) for _ in headers]
        for name, fill, column in zip(names, slots, columns, strict=True):
            deque(map(fill, events, map(_URNS.__getitem__, column) if name in urns else column), maxlen=0)
        return list(map(tuple.__new__, repeat(Decoded), zip(headers, events, repeat(schema))))

    return make_all


def _with_schema(make_all: Callable[..., Values]) -> Callable[..., Values]:
    """The two forms that a schema has on the wire, in the one field that the event has for it."""

    def merged(
        headers: Values, entity: Values, description: Values, text: Values, named: Values, *rest: Values
    ) -> Values:
        schemas = [there if schema is None else schema for schema, there in zip(text, named)]  # noqa: B905
        return make_all(headers, entity, description, schemas, *rest)

    return merged


class _LeftOutError(Exception):
    """A shape that is not read side by side."""


class _Builder:
    """Readers of a contract's types.

    Args:
        types: the contract's definitions.
        makers: by record name what makes the records of their fields' columns.
    """

    def __init__(self, types: Types, makers: Mapping[str, Callable[..., Values]]) -> None:
        self._types = types
        self._makers = makers

    def reader(self, schema: Any, *, recurring: bool = True) -> Any:
        """What reads a type. Raises: _LeftOutError."""
        schema = self._types.definition(schema)
        match self._types.kind(schema):
            case "union":
                return NullableColumn(self.reader(self._types.nullable(schema), recurring=recurring))
            case "array":
                return ListColumn(self._flat(schema["items"]), tuple)
            case "map":
                return ListColumn(
                    FlatRecordColumn(
                        [TextColumn(recurring=True), self._flat(schema["values"], recurring=False)], pairs
                    ),
                    dict,
                )
            case "record":
                return RecordColumn([self._field(field) for field in schema["fields"]], self._maker(schema))
            case _:
                return self._flat(schema, recurring=recurring)

    def _field(self, field: Any) -> Any:
        """A required text comes up again in other events more often than not; an optional one where it says so."""
        return self.reader(field["type"], recurring=field["type"] == "string" or field.get("recurring", False))

    def _maker(self, schema: Any) -> Callable[..., Values]:
        maker = self._makers.get(schema["name"])
        if maker is None:
            raise _LeftOutError
        return maker

    def _flat(self, schema: Any, *, recurring: bool = True) -> Any:
        schema = self._types.definition(schema)
        match self._types.kind(schema):
            case "string":
                return TextColumn(recurring=recurring)
            case "bytes":
                return BytesColumn()
            case "fixed":
                return BytesColumn(schema["size"])
            case "long":
                return LongColumn()
            case "int":
                return LongColumn(wire.MIN_INT, wire.MAX_INT)
            case "enum":
                return EnumColumn(schema["symbols"])
            case "boolean":
                return BooleanColumn()
            case "record":
                return FlatRecordColumn([self._flat(field["type"]) for field in schema["fields"]], self._maker(schema))
            case _:
                raise _LeftOutError  # floats, and lists in lists
