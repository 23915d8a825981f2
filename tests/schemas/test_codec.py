"""Every event becomes a single-object value with fastavro's body and comes back equal; hostile bytes do no harm."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import asdict, fields
from typing import Any

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metajournal import (
    EntityRegistered,
    EventTooLargeError,
    InvalidEventError,
    PropertiesSet,
    TagsAdded,
    Urn,
)
from metajournal.schemas.encoding import codec
from metajournal.schemas.encoding.known import current_contracts
from metajournal.schemas.errors import NotSingleObject, Undecodable, UnknownFingerprint
from metajournal.schemas.header import Header, Unit
from metajournal.schemas.limits import MAX_EVENT_BYTES
from tests.properties import byte_values, examples
from tests.schemas.builders import PURCHASES, a_header, events_with_headers

NAMED_ERRORS = (NotSingleObject, UnknownFingerprint, Undecodable)
REFERENCE = {name: fastavro.parse_schema(json.loads(contract.text)) for name, contract in current_contracts().items()}


def as_plain(value: Any) -> Any:
    """Named tuples as mappings, however deep."""
    if hasattr(value, "_asdict"):
        return {name: as_plain(item) for name, item in value._asdict().items()}
    return [as_plain(item) for item in value] if isinstance(value, tuple) else value


def as_datum(event: Any, header: Header) -> dict[str, Any]:
    """An event as fastavro wants it."""
    datum = {field.name: as_plain(getattr(event, field.name)) for field in fields(event) if field.name != "schema"}
    if isinstance(event, EntityRegistered):
        named = None if event.schema_fields is None else [field._asdict() for field in event.schema_fields]
        datum |= {"schema_text": event.schema_text, "schema_fields": named}
    unit = None if header.unit is None else asdict(header.unit)
    return {"header": {**header._asdict(), "unit": unit}, **datum}


@settings(deadline=None, max_examples=examples(100))
@given(events_with_headers())
def test_events_round_trip_with_fastavros_bytes(case: tuple[Any, Header]) -> None:
    event, header = case
    value = codec.encode(event, header)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, REFERENCE[event.TYPE], as_datum(event, header))
    assert value[:2] == b"\xc3\x01"
    assert value[10:] == out.getvalue()
    assert codec.decode(value) == (header, event, current_contracts()[event.TYPE].name)
    assert codec.decode_header_only(value) == header


@settings(deadline=None)
@given(events_with_headers())
def test_what_the_strategies_make_is_valid_but_for_reserved_keys(case: tuple[Any, Header]) -> None:
    assert [fault for fault in case[0].validate() if "kept by the journal" not in fault.message] == []


def test_decoded_values_have_their_own_types() -> None:
    event = EntityRegistered(PURCHASES, schema=[("a", "int")], properties={"z": "1", "a": "2"}, tags=["t"])
    unit = Unit(b"u" * 16, 0, 2)
    header, decoded, _ = codec.decode(codec.encode(event, a_header(event, unit=unit)))
    assert type(header) is Header
    assert header.unit == unit
    assert type(header.entities) is tuple
    assert type(decoded.entity) is Urn
    assert list(decoded.properties) == ["z", "a"]
    assert decoded.schema[0].name == "a"


def test_a_foreign_events_bad_urn_is_left_to_validate() -> None:
    event = TagsAdded("no urn", ["a"])
    decoded = codec.decode(codec.encode(event, a_header(TagsAdded(PURCHASES, ["a"])))).event
    assert [fault.field for fault in decoded.validate()] == ["entity"]


def test_oversized_events_are_refused_with_size_limit_and_field() -> None:
    event = PropertiesSet(PURCHASES, {"k": "x" * MAX_EVENT_BYTES})
    with pytest.raises(EventTooLargeError) as caught:
        codec.encode(event, a_header(event))
    assert caught.value.size_bytes > caught.value.limit_bytes == MAX_EVENT_BYTES
    assert caught.value.field == "properties"


def test_the_largest_event_fits_exactly() -> None:
    empty = PropertiesSet(PURCHASES, {"k": "x" * 100_000})
    room = MAX_EVENT_BYTES - len(codec.encode(empty, a_header(empty)))
    largest = PropertiesSet(PURCHASES, {"k": "x" * (100_000 + room)})
    assert len(codec.encode(largest, a_header(largest))) == MAX_EVENT_BYTES
    assert codec.decode(codec.encode(largest, a_header(largest))).event == largest


@pytest.mark.parametrize(
    ("event", "changes", "field"),
    [
        (TagsAdded(PURCHASES, ["\ud800"]), {}, "tags[0]"),
        (TagsAdded(PURCHASES, ["a"], scope="BOTH"), {}, "scope"),
        (TagsAdded(PURCHASES, ["a"]), {"event_id": b"short"}, "header"),
        (TagsAdded(PURCHASES, ["a"]), {"event_time": 2**63}, "header"),
        (TagsAdded(PURCHASES, ["a"]), {"tenant": None}, "header"),
        (PropertiesSet(PURCHASES, {"k": 1}), {}, "properties['k']"),  # type: ignore[dict-item]
    ],
)
def test_values_that_do_not_fit_become_faults(event: Any, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        codec.encode(event, a_header(event, **changes))
    assert field in [fault.field for fault in caught.value.faults]


def a_value() -> bytes:
    event = PropertiesSet(PURCHASES, {"owner": "alice", "retention": "30 days"})
    return codec.encode(event, a_header(event, unit=Unit(b"u" * 16, 1, 3), cause=b"c" * 16, expected=7))


@pytest.mark.parametrize("value", [b"", b"\xc3", b"\xc3\x01", b"\xc3\x01" + b"1234567", b"\xc3\x02" + b"0" * 30, b"{}"])
def test_other_values_are_no_single_objects(value: bytes) -> None:
    for read in (codec.decode, codec.decode_header_only):
        with pytest.raises(NotSingleObject):
            read(value)


def test_an_unknown_schema_is_named_and_its_header_still_reads() -> None:
    value = a_value()
    strange = value[:2] + b"\x07" * 8 + value[10:]
    with pytest.raises(UnknownFingerprint) as caught:
        codec.decode(strange)
    assert caught.value.fingerprint == 0x0707070707070707
    assert codec.decode_header_only(strange) == codec.decode(value).header


def test_trailing_and_missing_bytes_are_refused() -> None:
    value = a_value()
    with pytest.raises(Undecodable, match="1 bytes follow"):
        codec.decode(value + b"\0")
    for end in range(10, len(value)):
        with pytest.raises(Undecodable):
            codec.decode(value[:end])


def test_values_beyond_the_limit_are_refused_unread() -> None:
    with pytest.raises(Undecodable, match="the limit is 1,048,576"):
        codec.decode(a_value() + bytes(MAX_EVENT_BYTES))


def check_harmless(value: bytes) -> None:
    for read in (codec.decode, codec.decode_header_only):
        try:
            read(value)
        except NAMED_ERRORS:
            continue


@settings(deadline=None, max_examples=examples(150))
@given(st.sampled_from(sorted(current_contracts())), st.binary(max_size=300))
@example("catalog.TagsAdded.1", b"\xff" * 300)
def test_any_bytes_behind_a_known_prefix_do_no_harm(event_type: str, body: bytes) -> None:
    check_harmless(codec.single_object_prefix(current_contracts()[event_type]) + body)


@settings(deadline=None, max_examples=examples(150))
@given(events_with_headers(), st.data())
def test_mutated_values_do_no_harm(case: tuple[Any, Header], data: st.DataObject) -> None:
    value = bytearray(codec.encode(*case))
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(value)))
        kind = data.draw(st.sampled_from(["set", "insert", "delete", "repeat"]))
        if kind == "set" and index < len(value):
            value[index] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            value[index:index] = data.draw(st.binary(min_size=1, max_size=12))
        elif kind == "delete":
            del value[index : index + data.draw(st.integers(1, 12))]
        else:
            value[index:index] = value[index : index + 20] * data.draw(st.integers(1, 5))
    check_harmless(bytes(value))


def test_every_single_byte_change_does_no_harm() -> None:
    value = a_value()
    for index in range(len(value)):
        for byte in byte_values(index):
            check_harmless(value[:index] + bytes((byte,)) + value[index + 1 :])


BOMB = """
import resource, sys
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import Undecodable
from metajournal.schemas.encoding.known import current_contracts
HUGE = b"\\x80\\x80\\x80\\x80\\x08"
COUNTS = (b"\\xfe" + b"\\xff" * 8 + b"\\x01", HUGE, b"\\x03" + HUGE)
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
for name, contract in current_contracts().items():
    start = codec.single_object_prefix(contract) + b"i" * 16 + b"\\x02a\\x02b\\x02c"
    for count in COUNTS:
        try:
            codec.decode(start + count + b"\\0" * 5000)
        except Undecodable as error:
            print(error.why)
"""


def test_counts_are_checked_before_memory_is_taken() -> None:
    """In a child with little memory, so that an allocation on a promise would end it."""
    done = subprocess.run([sys.executable, "-c", BOMB], capture_output=True, text=True, check=True, timeout=60)
    assert len(done.stdout.splitlines()) == 3 * len(current_contracts())
