"""Values read side by side are what the codec reads one by one, whatever they are: events, errors and their words."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import EntityRegistered, PropertiesRemoved, PropertiesSet, TagsAdded
from metajournal.domains.repositories.events import BranchCreated
from metajournal.domains.repositories.urns import branch_urn, commit_urn
from metajournal.schemas.encoding import bulk, codec, columns
from metajournal.schemas.encoding.known import current_contracts
from metajournal.schemas.errors import NotSingleObject, Undecodable, UnknownFingerprint
from metajournal.schemas.hashing import partition_of
from metajournal.schemas.header import Header, Unit
from metajournal.schemas.partitions import partitions_of
from tests.properties import byte_values, examples
from tests.schemas.builders import PURCHASES, a_header, events_with_headers

ERRORS = (NotSingleObject, UnknownFingerprint, Undecodable)
many = settings(deadline=None, max_examples=examples(75))


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also two values of a schema are read side by side, and lists of more than five entries alone."""
    monkeypatch.setattr(bulk, "_FEWEST", 1)
    monkeypatch.setattr(columns, "MOST_ITEMS", 5)


def one_by_one(value: bytes) -> Any:
    try:
        return codec.decode(value)
    except ERRORS as error:
        return error


def assert_same(values: list[bytes]) -> None:
    """Equal and of equal types; errors of the same class with the same words."""
    results: list[Any] = bulk.decode_all(values)
    for got, value in zip(results, values, strict=True):
        wanted = one_by_one(value)
        assert type(got) is type(wanted)
        if isinstance(wanted, ERRORS):
            assert (str(got), got.args) == (str(wanted), wanted.args)
            continue
        assert got == wanted
        assert repr(got) == repr(wanted)  # the order of properties, True that is no 1
        assert type(got.header) is Header
        assert [type(field) for field in got.header] == [type(field) for field in wanted.header]
        for name in (field.name for field in fields(wanted.event)):
            assert type(getattr(got.event, name)) is type(getattr(wanted.event, name))  # a URN that is no mere text


def mutated(value: bytes, chance: random.Random) -> bytes:
    changed = bytearray(value)
    for _ in range(chance.randint(1, 3)):
        index = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0 if index < len(changed):
                changed[index] = chance.choice(
                    [0, 1, 2, 3, 4, 6, 0x7F, 0x80, 0x81, 0xC0, 0xED, 0xFF, chance.randrange(256)]
                )
            case 1:
                changed[index:index] = chance.randbytes(chance.randint(1, 12))
            case 2:
                del changed[index : index + chance.randint(1, 12)]
            case 3:
                changed[index:index] = b"\x80" * chance.randint(1, 9) + b"\0"
            case _:
                changed[index:index] = changed[index : index + 20] * chance.randint(1, 3)
    return bytes(changed)


@pytest.mark.thorough
@many
@given(st.lists(events_with_headers(), min_size=1, max_size=6), st.integers())
def test_whole_and_damaged_values_are_read_as_one_by_one(cases: list[tuple[Any, Header]], seed: int) -> None:
    chance = random.Random(seed)
    values = [codec.encode(*case) for case in cases]
    values += [mutated(chance.choice(values), chance) for _ in range(6)]
    chance.shuffle(values)
    assert_same(values)


def test_a_urn_that_may_be_null_is_read_as_one_by_one() -> None:
    branch = branch_urn("r", "dev")
    events = [BranchCreated(branch, commit) for commit in (None, commit_urn("r", "ab" * 32), None)]
    assert_same([codec.encode(event, a_header(event)) for event in events])


@many
@given(st.lists(st.tuples(st.sampled_from(sorted(current_contracts())), st.binary(max_size=120)), max_size=8))
def test_any_bytes_behind_a_known_prefix_are_read_as_one_by_one(bodies: list[tuple[str, bytes]]) -> None:
    assert_same([codec.single_object_prefix(current_contracts()[name]) + body for name, body in bodies])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "event", [PropertiesSet(PURCHASES, {"ä": "ß", "b": "x"}), PropertiesRemoved(PURCHASES, ["a", "\u20ac"])]
)
def test_every_single_byte_change_is_read_as_one_by_one(event: Any) -> None:
    value = codec.encode(event, a_header(event, unit=Unit(b"u" * 16, 1, 3), cause=b"c" * 16, expected=7))
    changed = [
        value[:index] + bytes((byte,)) + value[index + 1 :]
        for index in range(len(value))
        for byte in byte_values(index)
    ]
    assert_same([*changed, *(value[:end] for end in range(len(value)))])


def long_of(number: int, width: int) -> bytes:
    """A varint of a zigzag number in so many bytes, most of them for nothing."""
    return bytes((number >> 7 * index & 0x7F) | (0x80 if index < width - 1 else 0) for index in range(width))


def body(event_time: bytes = b"\0", tags: bytes = b"\x02\x02a\0", scope: bytes = b"\0", repeat: bytes = b"\0") -> bytes:
    """A TagsAdded event, some of it written by hand."""
    urn = b"\x16dataset:a/b"
    header = b"i" * 16 + b"\x02t" + b"\x02x" + urn + b"\x02" + urn + b"\0" + b"\0" + event_time + b"\0\0\0" + repeat
    return codec.single_object_prefix(current_contracts()["catalog.TagsAdded.1"]) + header + urn + tags + scope


def test_what_avro_allows_and_nobody_writes_is_read_as_one_by_one() -> None:
    spelled = [
        *(
            body(event_time=long_of(number, width))
            for number in (0, 1, 2**63, 2**64 - 1, 2**64)
            for width in range(1, 12)
        ),
        body(tags=b"\x01\x04\x02a\0"),  # a negative count, then the block's size
        body(tags=b"\x01\x06\x02a\0"),  # with a wrong one
        body(tags=b"\x02\x02a\x02\x02b\0"),  # two blocks
        body(tags=b"\0"),
        body(tags=b"\x82\x00\x02a\0"),
        body(tags=b"\x0e" + b"\x02a" * 7 + b"\0"),  # more than are read side by side
        body(tags=b"\x02\x06\xed\xa0\x80\0"),  # a surrogate
        body(tags=b"\x02\x04\xc0\x80\0"),
        body(tags=b"\x02\x04\xc3\xa4\0"),
        body(tags=b"\x02\x01\0"),  # a negative length
        *(body(tags=b"\x02" + long_of(length, 10) + b"a\0") for length in (2**63, 2**64 - 2, 2**64 - 1, 2**40)),
        *(body(tags=long_of(count, 10) + b"\x02a\0") for count in (2**63, 2**64 - 2, 2**64 - 1, 2**40)),
        *(body(scope=bytes((byte,))) for byte in range(8)),
        *(body(repeat=bytes((byte,))) for byte in (0, 1, 2, 0x80, 0xFF)),
        body() + b"\0",
        body()[:-1],
    ]
    assert isinstance(one_by_one(body()), codec.Decoded)
    assert_same(spelled)
    for value in spelled:  # nor does any of them change what its neighbours are read as
        assert_same([body(), value, body(tags=b"\x02\x02z\0")])


def test_properties_named_twice_are_read_as_one_by_one() -> None:
    prefix = codec.single_object_prefix(current_contracts()["catalog.PropertiesSet.1"])
    twice = (
        prefix + body()[10:-4].removesuffix(b"\x02") + b"\x06" + b"\x02a\x021" + b"\x02b\x022" + b"\x02a\x023" + b"\0\0"
    )
    decoded = one_by_one(twice)
    assert list(decoded.event.properties.items()) == [("a", "3"), ("b", "2")]
    assert_same([twice, twice])


def test_values_of_many_schemas_come_back_in_their_order() -> None:
    events = [TagsAdded(PURCHASES, [f"t{n}"]) if n % 3 else EntityRegistered(PURCHASES, str(n)) for n in range(300)]
    values = [codec.encode(event, a_header(event, event_time=n)) for n, event in enumerate(events)]
    values[7], values[70], values[90] = b"", b"{}", values[90][:2] + b"\x07" * 8 + values[90][10:]
    large = PropertiesSet(PURCHASES, {"k": "x" * 5000})
    values[100] = codec.encode(large, a_header(large))
    assert_same(values)
    assert bulk.decode_all([]) == []


def test_good_values_are_read_side_by_side_also_beside_bad_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one bad value would make its neighbours slow."""
    alone: list[bytes] = []

    def decode(value: bytes) -> codec.Decoded:
        alone.append(value)
        return codec.decode(value)

    monkeypatch.setattr(bulk, "decode", decode)
    good, bad = body(), body(tags=b"\x02\x01\0")
    bulk.decode_all([good, bad, good, good])
    assert alone == [bad]


BOMB = """
import resource
from metajournal.schemas.encoding import bulk, codec
from metajournal.schemas.encoding.known import current_contracts
bulk._FEWEST = 1
resource.setrlimit(resource.RLIMIT_AS, (900 << 20, 900 << 20))
huge = b"\\x80\\x80\\x80\\x80\\x08"
values = [
    codec.single_object_prefix(contract) + b"i" * 16 + b"\\x02a\\x02b\\x02c" + count + b"\\0" * 4000
    for contract in current_contracts().values()
    for count in (b"\\xfe" + b"\\xff" * 8 + b"\\x01", huge, b"\\x03" + huge)
]
for one in bulk.decode_all(values * 50):
    print(one.why)
"""


@pytest.mark.thorough
def test_counts_are_checked_before_memory_is_taken() -> None:
    """In a child with little memory, so that an allocation on a promise would end it."""
    done = subprocess.run([sys.executable, "-c", BOMB], capture_output=True, text=True, check=True, timeout=60)
    assert len(done.stdout.splitlines()) == 150 * len(current_contracts())


@many
@given(st.lists(st.binary(max_size=40) | st.binary(min_size=250, max_size=270), max_size=12), st.integers(1, 64))
def test_partitions_of_many_keys_are_those_of_each(keys: list[bytes], partitions: int) -> None:
    assert partitions_of(keys, partitions) == [partition_of(key, partitions) for key in keys]
