"""Many journal values to events at once: the same events as `codec.decode` gives, several times as fast.

The values of one schema are read side by side, field by field, with numpy: a vector holds where in each value the
reading stands. What Avro allows but nobody writes (a block in several parts, a negative count), what is long, and
whatever is not exactly right is left to `codec.decode`, value by value, so there is one judge of what is wrong.
Lengths and counts are held against the bytes that remain before anything is made of them, as there.

Needs numpy (extra `stream`), and is imported by nothing that the light client needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import accumulate, repeat
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from . import wire
from .codec import HEADER_MAKERS, MARKER, PREFIX_BYTES, Decoded, decode
from .codegen import Types
from .errors import NotSingleObject, Undecodable, UnknownFingerprint
from .events import EVENT_TYPES
from .events.base import as_urn
from .hashing import partition_of
from .header import Header
from .known import HEADER_NAME, contracts_by_fingerprint

Failure: TypeAlias = NotSingleObject | UnknownFingerprint | Undecodable
Numbers: TypeAlias = npt.NDArray[Any]
Vectors: TypeAlias = "tuple[Numbers, ...] | list[Numbers]"
Values: TypeAlias = list[Any]

_SIDE_BY_SIDE: Final = 8_192
"""Values that are read together: enough to make numpy's calls cheap, few enough to stay in the processor's cache."""
_FEWEST: Final = 16
"""Fewer than so many of one schema are read one by one."""
_MOST_ITEMS: Final = 64
"""Entries of a list or map that are read side by side; a value with more is read by itself."""
_LONGEST_BYTES: Final = 4 * 1024
"""Longest value that is read side by side."""
_KEPT_URNS: Final = 200_000
_PADDING: Final = bytes(16)


def decode_all(values: Sequence[bytes]) -> list[Decoded | Failure]:
    """Header and event of each value, or the error that `codec.decode` raises for it.

    Args:
        values: values of journal records, in any order and of any schemas.
    """
    found: list[Decoded | Failure] = []
    known = _Known()
    for start in range(0, len(values), _SIDE_BY_SIDE):
        some = values[start : start + _SIDE_BY_SIDE]
        found += [one or _alone(value) for one, value in zip(_side_by_side(some, known), some, strict=True)]
    return found


def _alone(value: bytes) -> Decoded | Failure:
    try:
        return decode(value)
    except (NotSingleObject, UnknownFingerprint, Undecodable) as error:
        return error


def _side_by_side(values: Sequence[bytes], known: _Known) -> list[Decoded | None]:
    """The events of some values; None for each that has to be read alone."""
    found: list[Decoded | None] = [None] * len(values)
    source = _Source(values, known)
    for fingerprint, rows in source.rows_by_fingerprint():
        contract = contracts_by_fingerprint().get(fingerprint)
        if contract is None or contract.revision is not None or len(rows) < _FEWEST:
            continue  # a former version is read into the current one's shape by the codec alone
        reader = _reader(fingerprint)
        chosen, decoded = ((), ()) if reader is None else _read(reader, source, rows)
        for row, one in zip(chosen, decoded, strict=True):
            found[row] = one
    return found


def _read(reader: _Record, source: _Source, rows: Numbers) -> tuple[Sequence[int], Sequence[Decoded]]:
    """The events of some rows of a source, and which of the rows they are: those where all is right."""
    cursor = source.cursor(rows)
    state = reader.read(cursor)
    right = cursor.right & (cursor.at == cursor.end)
    if not right.all():
        rest = rows[right]
        return _read(reader, source, rest) if len(rest) else ((), ())
    try:
        return rows.tolist(), reader.make(state, source)
    except UnicodeDecodeError:
        return (), ()


class _Source:
    """Values one behind the other, and texts that came up in them before."""

    def __init__(self, values: Sequence[bytes], known: _Known) -> None:
        self.data = b"".join([value if len(value) <= _LONGEST_BYTES else b"" for value in values]) + _PADDING
        self.text = self.data.decode("latin-1")  # a slice of ASCII bytes out of it is the text itself
        self.known = known
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        lengths[lengths > _LONGEST_BYTES] = 0
        self._bytes = np.frombuffer(self.data, np.uint8)
        self._ends = np.cumsum(lengths)
        self._starts = self._ends - lengths

    def rows_by_fingerprint(self) -> Iterator[tuple[int, Numbers]]:
        """Each fingerprint with the rows of the single objects that name it."""
        rows = np.flatnonzero(self._ends - self._starts >= PREFIX_BYTES)
        starts = self._starts[rows]
        rows = rows[(self._bytes[starts] == MARKER[0]) & (self._bytes[starts + 1] == MARKER[1])]
        named = self._starts[rows, None] + np.arange(len(MARKER), PREFIX_BYTES)
        fingerprints = self._bytes[named].view("<u8").ravel()
        for fingerprint in np.unique(fingerprints):
            yield int(fingerprint), rows[fingerprints == fingerprint]

    def cursor(self, rows: Numbers) -> _Cursor:
        """Behind the prefix of each of these rows."""
        ends = self._ends[rows]
        return _Cursor(self._bytes, self._starts[rows] + PREFIX_BYTES, ends, np.ones(len(rows), np.bool_))

    def texts(self, starts: Numbers, stops: Numbers) -> list[str]:
        """The texts of these spans. Raises: UnicodeDecodeError."""
        text = self.text
        found = [text[start:stop] for start, stop in zip(starts.tolist(), stops.tolist())]  # noqa: B905
        return found if "".join(found).isascii() else list(map(_as_utf8, found))

    def recurring_texts(self, starts: Numbers, stops: Numbers) -> list[str]:
        """The same, one object for equal texts, so that each is hashed once."""
        text, known = self.text, self.known
        return [known[text[start:stop]] for start, stop in zip(starts.tolist(), stops.tolist())]  # noqa: B905


def _as_utf8(text: str) -> str:
    """The text whose UTF-8 was taken for Latin-1."""
    return text if text.isascii() else text.encode("latin-1").decode()


class _Known(dict[str, str]):
    """Texts by what they look like when their UTF-8 is taken for Latin-1."""

    def __missing__(self, text: str) -> str:
        found = self[text] = _as_utf8(text)
        return found


class _Cursor:
    """Where the reading of each of some values stands.

    Attributes:
        data: the bytes of all values, with some to spare behind them.
        at: index of the next byte of each; never beyond its end.
        end: index behind the last byte of each.
        right: False once something was not right; what is read of it then means nothing.
    """

    __slots__ = ("at", "data", "end", "right")

    def __init__(self, data: Numbers, at: Numbers, end: Numbers, right: Numbers) -> None:
        self.data, self.at, self.end, self.right = data, np.minimum(at, end), end, right & (at <= end)

    def only(self, rows: Numbers) -> _Cursor:
        return _Cursor(self.data, self.at[rows], self.end[rows], self.right[rows])

    def put_back(self, rows: Numbers, other: _Cursor) -> None:
        self.at[rows], self.right[rows] = other.at, other.right

    def require(self, holds: Numbers) -> None:
        self.right &= holds

    def byte(self) -> Numbers:
        """The next byte of each."""
        found = self.data[self.at]
        self.skip(np.int64(1))
        return found

    def skip(self, count: Any) -> tuple[Numbers, Numbers]:
        """Go on by so many bytes, none of them negative; gives where they begin and end."""
        start = self.at
        fits = count <= self.end - start
        self.right &= fits
        self.at = np.where(fits, start + np.where(fits, count, 0), self.end)
        return start, self.at

    def long(self) -> Numbers:
        """A number of each, signed."""
        first = self.byte()
        longer = np.flatnonzero(first > 0x7F)
        if not len(longer):
            return _signed(first.astype(np.uint64))
        value = (first & 0x7F).astype(np.uint64)
        rest = self.only(longer)
        value[longer] |= rest.rest_of_long()
        self.put_back(longer, rest)
        return _signed(value)

    def rest_of_long(self) -> Numbers:
        """The bits of a number behind its first seven."""
        total = np.zeros(len(self.at), np.uint64)
        rows, cursor = np.arange(len(self.at)), self
        for shift in range(7, 70, 7):
            byte = cursor.byte()
            if shift == 63:
                cursor.require(byte <= 1)  # more than 64 bits, or yet another byte
            total[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            going_on = np.flatnonzero((byte > 0x7F) & cursor.right)
            if cursor is not self:
                self.put_back(rows, cursor)
            if not len(going_on):
                break
            rows = rows[going_on]
            cursor = self.only(rows)
        return total

    def span(self) -> tuple[Numbers, Numbers]:
        """Begin and end of what its length precedes."""
        length = self.long()
        self.require(length >= 0)
        return self.skip(np.where(length >= 0, length, 0))


def _signed(value: Numbers) -> Numbers:
    """Zigzag. Source: Avro specification 1.12, Binary Encoding."""
    half = (value >> np.uint64(1)).view(np.int64)
    return half ^ -(value & np.uint64(1)).view(np.int64)


# What reads a type: `read` moves the cursor and gives numbers; `make` makes values of them once all is known to be
# right. The numbers of a flat type are `width` vectors, so that it can be the entries of lists.


class _Bytes:
    width = 2

    def __init__(self, size: int | None = None) -> None:
        self._size = size

    def read(self, cursor: _Cursor) -> Vectors:
        return cursor.span() if self._size is None else cursor.skip(np.int64(self._size))

    def make(self, spans: Vectors, source: _Source) -> Values:
        data = source.data
        return [data[start:stop] for start, stop in zip(spans[0].tolist(), spans[1].tolist())]  # noqa: B905


class _Text:
    """A text; one that comes up in many events is made once."""

    width = 2

    def __init__(self, *, recurring: bool) -> None:
        self._recurring = recurring

    def read(self, cursor: _Cursor) -> Vectors:
        return cursor.span()

    def make(self, spans: Vectors, source: _Source) -> Values:
        return source.recurring_texts(*spans) if self._recurring else source.texts(*spans)


class _Long:
    width = 1

    def __init__(self, least: int = wire.MIN_LONG, most: int = wire.MAX_LONG) -> None:
        self._least, self._most = least, most

    def read(self, cursor: _Cursor) -> Vectors:
        value = cursor.long()
        cursor.require((value >= self._least) & (value <= self._most))
        return (value,)

    def make(self, numbers: Vectors, _: _Source) -> Values:
        values: Values = numbers[0].tolist()
        return values


class _Enum(_Long):
    def __init__(self, symbols: Sequence[str]) -> None:
        super().__init__(0, len(symbols) - 1)
        self._symbols = tuple(symbols)

    def make(self, numbers: Vectors, _: _Source) -> Values:
        return [self._symbols[number] for number in numbers[0].tolist()]


class _Boolean:
    width = 1

    def read(self, cursor: _Cursor) -> Vectors:
        value = cursor.byte()
        cursor.require(value <= 1)
        return (value == 1,)

    def make(self, numbers: Vectors, _: _Source) -> Values:
        values: Values = numbers[0].tolist()
        return values


class _Flat:
    """A record of flat fields, or the pairs of a map: its vectors are theirs, one behind the other."""

    def __init__(self, fields: Sequence[Any], make_all: Callable[..., Values]) -> None:
        self._fields = fields
        self._make_all = make_all
        self._bounds = list(accumulate((field.width for field in fields), initial=0))
        self.width = self._bounds[-1]

    def read(self, cursor: _Cursor) -> Vectors:
        return tuple(vector for field in self._fields for vector in field.read(cursor))

    def make(self, vectors: Vectors, source: _Source) -> Values:
        bounds = zip(self._fields, self._bounds, self._bounds[1:], strict=False)
        return self._make_all(*(field.make(vectors[start:stop], source) for field, start, stop in bounds))


def _pairs(keys: Values, values: Values) -> Values:
    return list(zip(keys, values, strict=True))


class _Record:
    """A record of any fields.

    Args:
        fields: what reads each.
        make_all: the records of their fields' columns.
    """

    def __init__(self, fields: Sequence[Any], make_all: Callable[..., Values]) -> None:
        self._fields = fields
        self._make_all = make_all

    def read(self, cursor: _Cursor) -> Any:
        return [field.read(cursor) for field in self._fields]

    def make(self, states: Any, source: _Source) -> Values:
        return self._make_all(*(field.make(state, source) for field, state in zip(self._fields, states, strict=True)))


class _Nullable:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def read(self, cursor: _Cursor) -> Any:
        branch = cursor.long()
        cursor.require((branch == 0) | (branch == 1))
        rows = np.flatnonzero(branch == 1)
        if not len(rows):
            return rows, len(branch), None
        some = cursor.only(rows)
        state = self._inner.read(some)
        cursor.put_back(rows, some)
        return rows, len(branch), state

    def make(self, state: Any, source: _Source) -> Values:
        rows, count, inner = state
        made: Values = self._inner.make(inner, source) if len(rows) else []
        if len(rows) == count:
            return made
        values: Values = [None] * count
        for row, value in zip(rows.tolist(), made, strict=True):
            values[row] = value
        return values


class _List:
    """A list of flat entries, or a map as one of pairs: a single block, and none behind it."""

    def __init__(self, item: Any, container: Callable[[Values], Any]) -> None:
        self._item = item
        self._container = container

    def read(self, cursor: _Cursor) -> Any:
        counts = cursor.long()
        cursor.require((counts >= 0) & (counts <= _MOST_ITEMS))
        counts = np.where(cursor.right, counts, 0)
        stops = np.cumsum(counts)
        vectors = [np.empty(stops[-1], np.int64) for _ in range(self._item.width)]
        for number in range(int(counts.max())):
            rows = np.flatnonzero(counts > number)
            some = cursor.only(rows)
            places = stops[rows] - counts[rows] + number
            for vector, read in zip(vectors, self._item.read(some), strict=True):
                vector[places] = read
            cursor.put_back(rows, some)
        filled = np.flatnonzero(counts)
        some = cursor.only(filled)
        some.require(some.byte() == 0)
        cursor.put_back(filled, some)
        return stops, vectors

    def make(self, state: Any, source: _Source) -> Values:
        stops, vectors = state
        items, container, bounds = self._item.make(vectors, source), self._container, stops.tolist()
        if container is tuple and bounds[0] == 1 and bounds[-1] == len(bounds) and (np.diff(stops) == 1).all():
            return list(zip(items, strict=True))  # one each, as nearly every event has one entity
        return [container(items[start:stop]) for start, stop in zip([0, *bounds], bounds)]  # noqa: B905


class _Urns(dict[str, Any]):
    """The URN of each text, or the text itself where it is none. Bounded: it starts anew when full."""

    def __missing__(self, text: str) -> Any:
        if len(self) >= _KEPT_URNS:
            self.clear()
        found = self[text] = as_urn(text)
        return found


_URNS: Final = _Urns()


@cache
def _reader(fingerprint: int) -> _Record | None:
    """What reads a contract side by side; None where it has a shape that is left to `codec.decode`."""
    contract = contracts_by_fingerprint()[fingerprint]
    event_class = EVENT_TYPES[contract.event_type]
    names = [field["name"] for field in contract.schema["fields"]][1:]
    makers = {name: _calling(maker) for name, maker in (HEADER_MAKERS | getattr(event_class, "NESTED", {})).items()}
    try:
        makers |= {HEADER_NAME: _headers, contract.name: _maker_of(event_class, names, contract.name)}
        record: _Record = _Builder(Types(contract.schema), makers).reader(contract.schema)
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

    def make_all(headers: Values, *columns: Values) -> Values:
        events = [object.__new__(event_class) for _ in headers]
        for name, fill, column in zip(names, slots, columns, strict=True):
            deque(map(fill, events, map(_URNS.__getitem__, column) if name == "entity" else column), maxlen=0)
        return list(map(tuple.__new__, repeat(Decoded), zip(headers, events, repeat(schema))))

    return make_all


def _with_schema(make_all: Callable[..., Values]) -> Callable[..., Values]:
    """The two forms that a schema has on the wire, in the one field that the event has for it."""

    def merged(
        headers: Values, entity: Values, description: Values, text: Values, named: Values, *rest: Values
    ) -> Values:
        schemas = [there if one is None else one for one, there in zip(text, named)]  # noqa: B905
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
                return _Nullable(self.reader(self._types.nullable(schema), recurring=recurring))
            case "array":
                return _List(self._flat(schema["items"]), tuple)
            case "map":
                return _List(
                    _Flat([_Text(recurring=True), self._flat(schema["values"], recurring=False)], _pairs), dict
                )
            case "record":
                return _Record([self._field(field) for field in schema["fields"]], self._maker(schema))
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
                return _Text(recurring=recurring)
            case "bytes":
                return _Bytes()
            case "fixed":
                return _Bytes(schema["size"])
            case "long":
                return _Long()
            case "int":
                return _Long(wire.MIN_INT, wire.MAX_INT)
            case "enum":
                return _Enum(schema["symbols"])
            case "boolean":
                return _Boolean()
            case "record":
                return _Flat([self._flat(field["type"]) for field in schema["fields"]], self._maker(schema))
            case _:
                raise _LeftOutError  # floats, and lists in lists


_LONGEST_KEY_BYTES: Final = 256
_M: Final = np.uint32(0x5BD1E995)
_SEED: Final = 0x9747B28C


def partitions_of(keys: Sequence[bytes], partitions: int) -> list[int]:
    """`hashing.partition_of` of each key, twenty times as fast."""
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    short = np.flatnonzero(lengths <= _LONGEST_KEY_BYTES)
    found = np.empty(len(keys), np.int64)
    for index in np.flatnonzero(lengths > _LONGEST_KEY_BYTES).tolist():
        found[index] = partition_of(keys[index], partitions)
    for start in range(0, len(short), _SIDE_BY_SIDE):
        rows = short[start : start + _SIDE_BY_SIDE]
        found[rows] = (_murmur2([keys[row] for row in rows.tolist()]) & np.uint32(0x7FFFFFFF)) % partitions
    return found.tolist()


def _murmur2(keys: Sequence[bytes]) -> Numbers:
    """`hashing.murmur2` of each key, unsigned. Source: org.apache.kafka.common.utils.Utils.murmur2."""
    lengths = np.fromiter(map(len, keys), np.uint32, len(keys))
    width = (int(lengths.max(initial=0)) + 4) // 4 * 4
    words = np.frombuffer(b"".join([key.ljust(width, b"\0") for key in keys]), "<u4").reshape(len(keys), -1)
    hashes = np.uint32(_SEED) ^ lengths
    for number in range(words.shape[1]):
        word = words[:, number] * _M
        mixed = hashes * _M ^ (word ^ word >> np.uint32(24)) * _M
        hashes = np.where(4 * (number + 1) <= lengths, mixed, hashes)
    rest = words[np.arange(len(keys)), lengths // 4]  # what is left behind the last whole word, zeros behind it
    hashes = np.where(lengths % 4 > 0, (hashes ^ rest) * _M, hashes)
    hashes = (hashes ^ hashes >> np.uint32(13)) * _M
    return hashes ^ hashes >> np.uint32(15)
