"""From journal records as Kafka gave them to events: digest, single-object header, key, schema.

What does not pass is *shelved* with a reason, verbatim; what carries a valid digest and a fingerprint that this package
does not know stops the partition there. Nothing is decided here about what an event means: that is the rules' matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise, repeat
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..schemas.encoding.bulk import decode_all
from ..schemas.encoding.codec import Decoded, decode, decode_header_only
from ..schemas.errors import InvalidUrnError, NotSingleObject, Undecodable, UnknownFingerprint
from ..schemas.hashing import DIGEST_BYTES, DIGEST_HEADER, digest, partition_of
from ..schemas.header import Header
from ..schemas.kinds import undeclared
from ..schemas.limits import MAX_EVENT_BYTES
from ..schemas.partitions import partitions_of
from ..schemas.positions import position
from ..schemas.registry import domain_named, owner_of_undeclared
from ..schemas.urn import Urn

_SHOWN_BYTES = 1_200  # a tenant and the longest URN
SOURCE: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""Journal records as Spark's Kafka source gives them."""
Headers = Sequence[tuple[str, bytes | None]]
_OFFSETS: Mapping[pa.DataType, Literal["i", "q"]] = {pa.binary(): "i", pa.large_binary(): "q"}


class Record(NamedTuple):
    """One journal record, verbatim. (A tuple: there is one for every event.)

    Attributes:
        position: epoch and offset in one number.
        append_time: the broker's append time, milliseconds UTC.
    """

    position: int
    append_time: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition's records stand, and what of them the operator has shelved by hand.

    Attributes:
        moved: kinds of domains from outside, each with the position below which it is read as undeclared here.
        first: rows below it are another topic's, of when the kind was still that one's.
    """

    topic: str
    partition: int
    partitions: int
    domain: str
    shelved: frozenset[int]
    moved: tuple[tuple[str, int], ...] = ()
    first: int = 0

    def moved_away(self, aggregate: str, position: int) -> bool:
        """Whether an aggregate's kind was read as undeclared here, and is no more at a position."""
        kind = aggregate.partition(":")[0]
        return any(kind == name and position >= cut for name, cut in self.moved)


@dataclass(frozen=True, slots=True)
class Shelved:
    """Bytes that are no event: why, in one word, and what was found."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class UnknownSchema:
    """A valid record of a schema that this package does not know."""

    fingerprint: int


Reading = Decoded | Shelved | UnknownSchema


def records_of(table: pa.Table, epoch: int) -> Iterator[Record]:
    """Records of one partition, in the table's order.

    Args:
        table: columns offset (int64), timestamp (timestamp), key, value (binary), headers (list of key, value structs).
        epoch: the topic's epoch.
    """
    first = position(epoch, 0)
    positions = [first + offset for offset in table["offset"].to_pylist()]
    times = table["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    keys, values = _bytes_of(table["key"].dictionary_encode()), _bytes_of(table["value"])
    columns = zip(positions, times, keys, values, _headers_of(table["headers"]), strict=True)
    return map(tuple.__new__, repeat(Record), columns)


def _bytes_of(column: pa.ChunkedArray) -> list[bytes | None]:
    """Binary values of a column; of a dictionary one object for equal values."""
    values: list[bytes | None] = []
    for chunk in column.chunks:
        if isinstance(chunk, pa.DictionaryArray):
            distinct = bytes_of_array(chunk.dictionary)
            values += [None if index is None else distinct[index] for index in chunk.indices.to_pylist()]
        else:
            values += bytes_of_array(chunk)
    return values


def bytes_of_array(array: pa.Array) -> list[bytes | None]:
    """The same as `to_pylist` of a binary or large binary array, at a third of its price where nothing is null."""
    width = _OFFSETS.get(array.type)
    if array.null_count or width is None or not len(array):
        return array.to_pylist()  # type: ignore[no-any-return]
    _, offsets, data = array.buffers()
    bounds = memoryview(offsets).cast(width)[array.offset : array.offset + len(array) + 1].tolist()
    start = bounds[0]
    whole = data.slice(start, bounds[-1] - start).to_pybytes() if data is not None else b""
    return [whole[begin - start : end - start] for begin, end in pairwise(bounds)]


def _headers_of(column: pa.ChunkedArray) -> list[Headers]:
    headers: list[Headers] = []
    for chunk in column.chunks:
        names, values = _only_headers(chunk)
        if names is None:
            headers += [tuple((header["key"], header["value"]) for header in many or ()) for many in chunk.to_pylist()]
        else:
            headers += zip(zip(names, values, strict=False), strict=True)
    return headers


def _only_headers(chunk: pa.ListArray) -> tuple[Iterable[str] | None, Sequence[bytes | None]]:
    """Names and values of headers where each record has the digest alone, as producers write it; else no names."""
    flat = chunk.flatten()
    alone = len(flat) == len(chunk) and pc.all(pc.equal(pc.list_value_length(chunk), 1), skip_nulls=False).as_py()
    if not alone or flat.null_count:
        return None, ()
    names, values = flat.flatten()
    if not pc.all(pc.equal(names, DIGEST_HEADER), skip_nulls=False).as_py():
        return None, ()
    return repeat(DIGEST_HEADER), bytes_of_array(values)


def named_in(table: pa.Table, place: Place) -> Iterator[tuple[str, str]]:
    """Tenant and URN of entities that records name, as far as it is told cheaply; of what is no event, anything.

    Where keys are entities, they are those: most events are about what gives its name to their aggregate. Where they
    are not, and events name up to a thousand each, headers are read.
    """
    declared = domain_named(place.domain)
    if declared is not None and declared.names_many:
        for value in table["value"].drop_null().to_pylist():
            with suppress(NotSingleObject, Undecodable):
                header = decode_header_only(value)
                yield from zip(repeat(header.tenant), header.entities)
        return
    for key in pc.unique(table["key"].drop_null()).to_pylist():
        with suppress(UnicodeDecodeError):
            tenant, _, urn = key.decode().partition("/")
            yield tenant, urn


def read_side_by_side(records: Sequence[Record], place: Place) -> list[Reading]:
    """What `read` gives for each record, several times as fast; up to the first unknown schema and no further.

    Every value with the right digest is decoded together with the others; what is not an event in its place is then
    judged by `read` alone, so that there is one judge of what is wrong.
    """
    whole = [is_whole(record, place) for record in records]
    decoded = iter(decode_all([record.value or b"" for record, fine in zip(records, whole, strict=True) if fine]))
    placed = Placed(records, place)
    known = placed.known
    readings: list[Reading] = []
    for record, fine in zip(records, whole, strict=True):
        event = next(decoded) if fine else None
        if type(event) is Decoded:
            header = event.header
            if known.get(record.key) == (header.tenant, header.aggregate) or placed.holds(record, header):
                readings.append(event)
                continue
        readings.append(reading := read(record, place))
        if type(reading) is UnknownSchema:
            break
    return readings


def digest_of(record: Record) -> bytes:
    """The digest in the headers of a record that was read as an event: there is one, and it is the value's."""
    headers = record.headers
    header_digest = (
        headers[0][1] if len(headers) == 1 else next(value for name, value in headers if name == DIGEST_HEADER)
    )
    assert header_digest is not None  # else it would be shelved
    return header_digest


def is_whole(record: Record, place: Place) -> bool:
    """Whether nothing speaks against decoding a record."""
    headers, value = record.headers, record.value
    return (
        value is not None
        and len(headers) == 1
        and headers[0][0] == DIGEST_HEADER
        and headers[0][1] == blake2b(value, digest_size=DIGEST_BYTES).digest()
        and len(value) <= MAX_EVENT_BYTES
        and record.position not in place.shelved
        and not (place.moved and _names_moved(value, place))
    )


def _names_moved(value: bytes, place: Place) -> bool:
    """Whether a record may name an entity of a kind from outside: such ones are read one by one."""
    return any(f"{kind}:".encode() in value for kind, _ in place.moved)


class Placed:
    """Which records stand under the key and in the partition and topic of their aggregate: looked up once for a key.

    Attributes:
        known: tenant and aggregate by the keys that are in their place.
    """

    def __init__(self, records: Sequence[Record], place: Place) -> None:
        keys = [*{record.key for record in records if record.key is not None}]
        belongs = partitions_of(keys, place.partitions)
        self._here = {key for key, partition in zip(keys, belongs, strict=True) if partition == place.partition}
        self._domain = place.domain
        self.known: dict[bytes | None, tuple[str, str]] = {}

    def holds(self, record: Record, header: Header) -> bool:
        """True where a record is in its place; False where `read` has to see why not."""
        key = record.key
        fine = (
            key in self._here
            and key == f"{header.tenant}/{header.aggregate}".encode()
            and _belongs(header.aggregate, self._domain)
        )
        if fine:
            self.known[key] = (header.tenant, header.aggregate)
        return fine


def read(record: Record, place: Place) -> Reading:
    """The event of a record, or why it is none. Order of the checks: operator, digest, size, envelope, body, place."""
    if record.position in place.shelved:
        return Shelved("operator", "shelved by an operator's record in the epochs topic")
    value = record.value or b""
    digests = [value for name, value in record.headers if name == DIGEST_HEADER]
    if len(digests) != 1 or digests[0] is None:
        return Shelved("no-digest", f"{len(digests)} {DIGEST_HEADER} headers; exactly one is needed")
    if digests[0] != digest(value):
        return Shelved("bad-digest", f"the {DIGEST_HEADER} header does not match the value")
    if len(value) > MAX_EVENT_BYTES:
        return Shelved("too-large", f"{len(value)} bytes; the limit is {MAX_EVENT_BYTES}")
    if place.moved and _names_moved(value, place):
        with undeclared([kind for kind, cut in place.moved if record.position < cut]):
            return _decoded(record, value, place)
    return _decoded(record, value, place)


def _decoded(record: Record, value: bytes, place: Place) -> Reading:
    try:
        decoded = decode(value)
    except NotSingleObject as error:
        return Shelved("not-single-object", str(error))
    except UnknownFingerprint as error:
        return UnknownSchema(error.fingerprint)
    except Undecodable as error:
        return Shelved("undecodable", str(error))
    return _misplaced(record, decoded, place) or decoded


def _shown(key: bytes | None) -> str:
    """A key of any bytes, short enough for a verdict."""
    return repr(key) if key is None or len(key) <= _SHOWN_BYTES else f"{key[:_SHOWN_BYTES]!r}... ({len(key)} bytes)"


def _misplaced(record: Record, decoded: Decoded, place: Place) -> Shelved | None:
    """A record under another key, partition or topic than its aggregate's would break the aggregate's order."""
    header = decoded.header
    key = f"{header.tenant}/{header.aggregate}".encode("utf-8", "surrogatepass")
    if record.key != key:
        return Shelved("wrong-key", f"the key is {_shown(record.key)}; the header says {_shown(key)}")
    belongs = partition_of(key, place.partitions)
    if belongs != place.partition:
        return Shelved("wrong-partition", f"key {_shown(key)} belongs to partition {belongs}")
    if not _belongs(header.aggregate, place.domain) and not _moved_away(header.aggregate, record, place):
        return Shelved("wrong-topic", f"{header.aggregate} belongs to domain {Urn.parse(header.aggregate).domain!r}")
    return None


def _moved_away(aggregate: str, record: Record, place: Place) -> bool:
    """Whether the topic took an aggregate's events once: the rules' way of refusing tells a sender more."""
    return place.domain == owner_of_undeclared() and place.moved_away(aggregate, record.position)


def _belongs(aggregate: str, domain: str) -> bool:
    """Whether an aggregate's events belong to a domain's topic; what is no URN, the rules refuse with every fault."""
    try:
        return Urn.parse(aggregate).domain == domain
    except InvalidUrnError:
        return True
