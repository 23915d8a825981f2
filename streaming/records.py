"""From journal records as Kafka gave them to events: digest, single-object header, key, schema.

What does not pass is *shelved* with a reason, verbatim; what carries a valid digest and a fingerprint that this package
does not know stops the partition there. Nothing is decided here about what an event means: that is the rules' matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..schemas.codec import Decoded, decode
from ..schemas.errors import InvalidUrnError, NotSingleObject, Undecodable, UnknownFingerprint
from ..schemas.hashing import DIGEST_HEADER, digest, partition_of
from ..schemas.limits import MAX_EVENT_BYTES
from ..schemas.positions import position
from ..schemas.urn import Urn

_SHOWN_BYTES = 1_200  # a tenant and the longest URN
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One journal record, verbatim.

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
    """Where a partition's records stand, and what of them the operator has shelved by hand."""

    topic: str
    partition: int
    partitions: int
    domain: str
    shelved: frozenset[int]


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
    offsets = table["offset"].to_pylist()
    times = table["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    for offset, time_ms, key, value, headers in zip(
        offsets, times, keys, values, table["headers"].to_pylist(), strict=True
    ):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield Record(position(epoch, offset), time_ms, key, value, pairs)


def read(record: Record, place: Place) -> Reading:
    """The event of a record, or why it is none. Order of the checks: operator, digest, size, envelope, body, place."""
    if record.position in place.shelved:
        return Shelved("operator", "shelved by an operator's record in the epochs topic")
    value = record.value or b""
    digests = [found for name, found in record.headers if name == DIGEST_HEADER]
    if len(digests) != 1 or digests[0] is None:
        return Shelved("no-digest", f"{len(digests)} {DIGEST_HEADER} headers; exactly one is needed")
    if digests[0] != digest(value):
        return Shelved("bad-digest", f"the {DIGEST_HEADER} header does not match the value")
    if len(value) > MAX_EVENT_BYTES:
        return Shelved("too-large", f"{len(value)} bytes; the limit is {MAX_EVENT_BYTES}")
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
    try:
        domain = Urn.parse(header.aggregate).domain
    except InvalidUrnError:
        return None  # the rules refuse it, with every other fault of the event
    if domain != place.domain:
        return Shelved("wrong-topic", f"{header.aggregate} belongs to domain {domain!r}")
    return None
