"""Events to the bytes of a journal record's value, and back.

A value is Avro's single-object encoding: `C3 01`, the schema's CRC-64-AVRO fingerprint (8 bytes, little-endian), then
the body, whose first field is the header. Decoding raises only NotSingleObject, UnknownFingerprint and Undecodable,
whatever the bytes; what the values mean, and whether they are valid, is left to `validate()` and the rules.

Source: Avro specification 1.12, Single-object encoding.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, Final, NamedTuple

from ..errors import EventTooLargeError, Fault, InvalidEventError, NotSingleObject, Undecodable, UnknownFingerprint
from ..events import Event
from ..events import event_class as class_of
from ..header import Header, Unit
from ..limits import MAX_EVENT_BYTES
from . import wire
from .decoders import Reader, compile_reader
from .encoders import Encoder, compile_encoder
from .known import HEADER_NAME, Contract, contracts_by_fingerprint, current_contracts, header_schema

MARKER: Final = b"\xc3\x01"
PREFIX_BYTES: Final = 10
_ID_BYTES: Final = 16
_REST_BYTES: Final = 4096
"""More than what stands behind the entities in a header: an actor and some numbers."""

_MISFITS: Final = (AttributeError, KeyError, TypeError, ValueError, OverflowError)


class Decoded(NamedTuple):
    """A decoded value."""

    header: Header
    event: Any
    """An instance of the event type's class."""
    schema: str
    """Avro full name of the writer's schema."""


def encode(event: Event, header: Header) -> bytes:
    """Value of the journal record for an event.

    Args:
        event: an event of a known type; valid, as `validate()` says.
        header: its header; nothing in it is checked but the types.
    Raises:
        InvalidEventError: a value does not fit the contract.
        EventTooLargeError: the value exceeds MAX_EVENT_BYTES.
    """
    try:
        value = _encoder(event.TYPE)(header, event)
    except _MISFITS as error:
        raise InvalidEventError(_misfits(event, header, error)) from error
    if len(value) > MAX_EVENT_BYTES:
        raise EventTooLargeError(len(value), MAX_EVENT_BYTES, _largest_field(event))
    return value


def decode(value: bytes) -> Decoded:
    """Header and event of a journal record's value.

    Raises:
        NotSingleObject: the value does not begin with the single-object header.
        UnknownFingerprint: no version of the contract that this package knows wrote it.
        Undecodable: the body does not follow its schema, something stands behind it, or it is too large.
    """
    number = fingerprint_in(value)
    contract = contracts_by_fingerprint().get(number)
    if contract is None:
        raise UnknownFingerprint(number)
    (header, event), end = _run(_reader(number), value)
    if end != len(value):
        raise Undecodable(f"{len(value) - end} bytes follow the event")
    return Decoded(header, event, contract.name)


def decode_header_only(value: bytes) -> Header:
    """Header of a value of any type, known or not: it stands first in every body.

    Raises:
        NotSingleObject: the value does not begin with the single-object header.
        Undecodable: what follows is no header.
    """
    fingerprint_in(value)
    header, _ = _run(_header_reader(), value)
    return header  # type: ignore[no-any-return]


def header_apart(value: bytes) -> tuple[Header, tuple[int, int], int]:
    """Header of a value without its entities, where these begin and end in it, and where the header ends.

    An event names up to a thousand of them, which make nearly all of its header's price.

    Raises:
        as `decode_header_only`; IndexError, UnicodeDecodeError: what follows is no header.
    """
    fingerprint_in(value)
    place = PREFIX_BYTES + _ID_BYTES
    for _ in ("tenant", "type", "aggregate"):
        _, place = wire.read_span(value, place)
    begin = place
    while (count := wire.read_long(value, place))[0] > 0:
        place = count[1]
        for _ in range(count[0]):
            short = value[place]
            place = place + 1 + (short >> 1) if short < 0x80 else wire.read_span(value, place)[1]
    end = count[1]
    rest = value[:begin] + b"\0" + value[end : end + _REST_BYTES]
    header, place = _header_reader()(rest, PREFIX_BYTES, len(rest))
    return header, (begin, end), end + place - begin - 1


def fingerprint_in(value: bytes) -> int:
    """Fingerprint of the schema that a value names, unsigned. Raises: NotSingleObject."""
    if len(value) < PREFIX_BYTES or value[:2] != MARKER:
        raise NotSingleObject
    return int.from_bytes(value[2:PREFIX_BYTES], "little")


def single_object_prefix(contract: Contract) -> bytes:
    """The ten bytes in front of every body of a contract."""
    return MARKER + contract.fingerprint.to_bytes(8, "little")


def _run(read: Reader, value: bytes) -> tuple[Any, int]:
    if len(value) > MAX_EVENT_BYTES:
        raise Undecodable(f"it takes {len(value):,} bytes, the limit is {MAX_EVENT_BYTES:,}")
    try:
        return read(bytes(value), PREFIX_BYTES, len(value))
    except IndexError:
        raise Undecodable("it ends too early") from None
    except UnicodeDecodeError:
        raise Undecodable("a text is not UTF-8") from None


_ENCODERS: dict[str, Encoder] = {}


def _encoder(event_type: str) -> Encoder:
    encoder = _ENCODERS.get(event_type)
    if encoder is None:
        contract = current_contracts().get(event_type)
        if contract is None:
            raise InvalidEventError(
                [Fault("event", f"is a {event_type}; no domain that is served here declares that type")]
            )
        encoder = _ENCODERS[event_type] = _make_encoder(contract)
    return encoder


def _make_encoder(contract: Contract) -> Encoder:
    names = [field["name"] for field in contract.schema["fields"]]
    owners = {name: "header" if name == "header" else "event" for name in names}
    return compile_encoder(
        contract.schema,
        prefix=single_object_prefix(contract),
        arguments=owners,
        tuples={HEADER_NAME},
        columns=getattr(class_of(contract.event_type), "IN_BULK", ()),
    )


@cache
def _reader(fingerprint: int) -> Reader:
    contract = contracts_by_fingerprint()[fingerprint]
    current = current_contracts()[contract.event_type]
    event_class = class_of(contract.event_type)
    from_wire = getattr(event_class, "from_wire", event_class)
    makers = HEADER_MAKERS | getattr(event_class, "NESTED", {})
    makers |= {current.name: lambda header, *values: (header, from_wire(*values))}
    return compile_reader(contract.schema, current.schema, makers=makers)


HEADER_MAKERS: Final[dict[str, Any]] = {HEADER_NAME: Header, HEADER_NAME.replace("Header", "Unit"): Unit}


@cache
def _header_reader() -> Reader:
    return compile_reader(header_schema(), makers=HEADER_MAKERS)


def _misfits(event: Event, header: Header, error: Exception) -> list[Fault]:
    faults = event.validate() if hasattr(event, "validate") else []
    return faults or [Fault("header" if _unfit(header) else "event", f"does not fit its contract: {error!r}")]


def _unfit(header: Header) -> bool:
    try:
        _header_encoder()(*header)
    except _MISFITS:
        return True
    return False


@cache
def _header_encoder() -> Encoder:
    schema = header_schema()
    return compile_encoder(schema, arguments={field["name"]: field["name"] for field in schema["fields"]})


def _largest_field(event: Any) -> str:
    sizes = {field.name: len(repr(getattr(event, field.name))) for field in fields(event)}
    return max(sizes, key=sizes.__getitem__)
