"""Records that the stream cannot have written: counted, said, passed over, and what it writes after them comes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from metajournal.consumers.filters import Filter
from metajournal.consumers.ledger import CompactedLedger, Ledger
from metajournal.consumers.records import change_of, identity, state_of
from metajournal.consumers.subscription import changes, states
from metajournal.consumers.watermarks import Watermark
from metajournal.producers.asked_ends import AskedEnds
from metajournal.producers.topics import Epochs, ensure_topics
from metajournal.schemas.errors import DecodeError
from metajournal.schemas.settings import Settings
from metajournal.schemas.untrusted import UNREADABLE
from tests.consumers.test_subscriptions import each, own, told
from tests.consumers.wire import START, Event, Wire, change, identities, state
from tests.untrusted import any_bytes, damaged_json

URN = "dataset:default/a"
BEYOND = (START + 10**6, 2 * START, 7 * START + 3, (1 << 63) - 1)
"""Positions that the journal does not hold: beyond its end, of epochs that are not there, the greatest of all."""


class Record(NamedTuple):
    """A message that anybody may have written."""

    content: bytes | None
    name: bytes | None
    head: list[tuple[str, bytes | None]] | None

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return self.name

    def headers(self) -> Any:
        return self.head

    def topic(self) -> str:
        return "metajournal.changes.catalog"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 1, 5


def headers(identity: str, urn: str = URN) -> list[tuple[str, bytes | None]]:
    return [("ce_id", identity.encode()), ("ce_type", b"t"), ("ce_subject", urn.encode())]


_TRUE = headers(f"journal/0/{START}/0")
_NAMES = ("ce_id", "ce_type", "ce_subject", "ce_domain")
_heads = st.one_of(
    st.none(),
    st.just(_TRUE),
    st.lists(
        st.tuples(st.sampled_from(["ce_id", "ce_type", "ce_subject", "ce_domain", "x"]), st.none() | any_bytes),
        max_size=5,
    ),
    st.text(st.sampled_from("j/0123456789-_ ٣"), max_size=30).map(headers),
)
_EVENT = Event(0, 0)


def test_a_change_tells_its_domain_from_its_header_or_else_from_its_topic() -> None:
    for more, domain in (((), "catalog"), ((("ce_domain", b"files"),), "files")):
        record: Any = Record(json.dumps(change(_EVENT)).encode(), f"default/{URN}".encode(), [*_TRUE, *more])
        assert change_of(record, identity(record), "USER", "catalog").domain == domain


@given(st.none() | any_bytes | damaged_json(change(_EVENT), state(_EVENT, URN)), _heads)
def test_any_bytes_are_read_or_refused_as_undecodable(value: bytes | None, head: Any) -> None:
    """And what is read has the shape that filters and the command line count on."""
    record: Any = Record(value, f"default/{URN}".encode(), head)
    wanted = Filter.of(tags="a", keys="b", touches="additions")
    try:
        found = identity(record)
    except DecodeError:
        return
    assert 0 <= min(found.place) <= max(found.place) < 1 << 63
    with suppress(DecodeError):
        change_record = change_of(record, found, "USER", "catalog").record
        wanted.wants_change(change_record)
        json.dumps(change_record, ensure_ascii=False, allow_nan=False).encode()
    with suppress(DecodeError):
        document = state_of(record, found).document
        wanted.wants_state(document)
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


@given(any_bytes, st.none() | any_bytes)
def test_any_key_and_value_is_an_outcome_or_is_refused(value: bytes, key: bytes | None) -> None:
    with pytest.raises(UNREADABLE):
        Watermark.of(Record(value, key, None))  # type: ignore[arg-type]


_OUTCOME = {"topic": "j", "partition": 0, "from": 1, "to": 3, "verdicts": [[2, "unchanged"]], "ends": {"s": {"0": 4}}}


@given(damaged_json({**_OUTCOME, "system_time": 5, "written": 6}))
def test_damaged_outcomes_are_read_or_refused(value: bytes) -> None:
    try:
        found = Watermark.of(Record(value, b"j/0", None))  # type: ignore[arg-type]
    except UNREADABLE:
        return
    assert 0 <= found.to < 1 << 63
    assert all(0 <= end < 1 << 63 for end in found.ends.values())


def test_what_is_passed_over_is_no_gap_in_a_compacted_topic() -> None:
    source = ("j", 0)
    ledger = CompactedLedger()
    ledger.take(source, (1, 0), b"a", 0)
    ledger.pass_over(1)
    ledger.take(source, (2, 0), b"b", 2)
    assert ledger.reached[source].since == (-1, -1)
    ledger.pass_over(4)  # what stood at 3 is gone
    assert ledger.reached[source].since == (2, 0)
    plain = Ledger()
    plain.pass_over(9)
    assert plain.reached == {}


# --- between the stream and a subscription


@pytest.fixture
def epochs(settings: Settings) -> Epochs:
    return ensure_topics(settings)


@pytest.fixture
def wire(settings: Settings, epochs: Epochs) -> Wire:
    return Wire(settings)


class Forger:
    """Writes into the stream's topics."""

    def __init__(self, settings: Settings) -> None:
        self._producer = Producer({**settings.kafka, "message.max.bytes": 4 << 20})

    def write(self, topic: str, value: bytes | None, key: str | None, head: Any = None, partition: int = 0) -> None:
        self._producer.produce(topic, value, key, partition, headers=head)
        assert self._producer.flush(10) == 0


@pytest.fixture
def forger(settings: Settings) -> Forger:
    return Forger(settings)


def forged(wire: Wire, document: dict[str, Any]) -> Iterator[tuple[bytes, str, Any]]:
    """Value, key and headers of records in partition 0 that claim what is not so, or cannot be read."""
    key, value = f"default/{URN}", json.dumps(document).encode()
    for position in BEYOND:
        lie = json.dumps({**document, "logical_timestamp": position}).encode()
        yield lie, key, headers(f"{wire.journal}/0/{position}/0")
    yield value, key, headers(f"{wire.journal}/0/{START}/{1 << 40}")  # the number of its row
    yield value, key, headers(f"{wire.journal}/1/{START}/0")  # stands in another partition
    yield value, key, headers(f"{wire.journal}/9/{START}/0")
    yield value, key, headers(f"other/0/{START}/0")
    yield value, "default/dataset:default/b", headers(f"{wire.journal}/0/{START}/0")
    yield value, key, headers(f"{wire.journal}/0/{1 << 80}/0")
    for damaged in (
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b"{}"[:1],
        b"[]",
        b'{"changes": 3}',
    ):
        yield damaged, key, headers(f"{wire.journal}/0/{START}/0")


@pytest.mark.services
def test_forged_changes_are_passed_over_and_the_real_ones_behind_them_come(
    settings: Settings, epochs: Epochs, wire: Wire, forger: Forger, caplog: pytest.LogCaptureFixture
) -> None:
    lies = list(forged(wire, change(_EVENT)))
    with changes(settings, epochs, group=own(settings), since="earliest", timeout_s=2) as found:
        for lie in lies:
            forger.write(wire.names.changes("catalog"), *lie)
        wire.batch(each(0, 0, 5))
        for lie in lies:
            forger.write(wire.names.changes("catalog"), *lie)
        wire.batch(each(0, 5, 9))
        delivered = list(found)
        for scope in ("USER", "SYSTEM"):
            mine = told([one for one in delivered if one.scope == scope])
            assert mine == identities(each(0, 0, 9), scope)
        # What stands at a place that was delivered already is a repetition, whatever it says.
        assert len(lies) <= found.passed_over <= 2 * len(lies)
        assert found.passed_over >= 2 * 6
    named = [one for one in caplog.records if "contradicts the journal" in one.getMessage()]
    assert 1 <= len(named) <= 3  # the first, the tenth, ...
    assert all(one.levelno == logging.ERROR for one in named)
    with changes(settings, epochs, group=own(settings), timeout_s=1) as found:  # nothing forged was committed
        wire.batch(each(0, 9, 12))
        assert told([one for one in found if one.scope == "USER"]) == identities(each(0, 9, 12), "USER")


@pytest.mark.services
def test_forged_states_are_passed_over_too(settings: Settings, epochs: Epochs, wire: Wire, forger: Forger) -> None:
    lies = list(forged(wire, state(_EVENT, URN)))
    found = states(settings, epochs, timeout_s=4)
    for lie in lies:
        forger.write(wire.names.state("catalog"), *lie)
    wire.batch(each(0, 0, 5))
    assert told(list(found)) == identities(each(0, 0, 5), "STATE")
    assert found.passed_over == len(lies)


@pytest.mark.services
def test_forged_outcomes_move_no_start(settings: Settings, epochs: Epochs, wire: Wire, forger: Forger) -> None:
    events = each(0, 0, 30, scopes=("USER",))
    outcomes, changed = wire.names.outcomes("catalog"), wire.names.changes("catalog")
    key = f"{wire.journal}/0"
    true = {"topic": wire.journal, "partition": 0, "from": START, "to": START + 1, "verdicts": [], "ends": {}}
    lies: list[dict[str, Any]] = [
        {"to": START + 10**6},
        {"to": 3 * START},
        {"to": 1 << 70},
        {"ends": {changed: {"0": 10**6}}},
        {"ends": {changed: {"0": 1e400}}},
        {"ends": {changed: {"99": 1}}},
        {"ends": {changed: {str(1 << 32): 1}}},
        {"ends": []},
        {"partition": 1},
    ]
    for start in range(0, 30, 3):
        wire.batch(events[start : start + 3])
        for lie in lies:
            value = {**true, "system_time": 1, "written": 1, **lie}
            forger.write(outcomes, json.dumps(value).encode(), key)
        forger.write(outcomes, b"[" * 100_000, key)
        forger.write(outcomes, b"\xff", key)
    for middle in (events[0], events[13], events[29]):
        cut = {(wire.journal, 0): middle.value + 1}
        found = changes(settings, epochs, since=cut, timeout_s=0.5, wanted=Filter.of(scope="USER"))
        assert told(list(found)) == identities(events[middle.offset + 1 :], "USER")
    after = changes(settings, epochs, timeout_s=20, limit=3, wanted=Filter.of(scope="USER"))
    wire.publish(events[20:])  # a stream that crashed repeats
    wire.batch(each(0, 30, 33, scopes=("USER",)))
    assert told(list(after)) == identities(each(0, 30, 33), "USER")


@pytest.mark.services
def test_what_was_held_once_is_not_asked_for_again(
    settings: Settings, epochs: Epochs, wire: Wire, forger: Forger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog asks for each journal partition's end once, and a flood of forged records once an arrival."""
    asked: list[Any] = []
    end = AskedEnds.end

    def counted(ends: AskedEnds, topic: str, partition: int, *, committed: bool = True) -> Any:
        if not committed:
            asked.append((topic, partition))
        return end(ends, topic, partition, committed=committed)

    monkeypatch.setattr(AskedEnds, "end", counted)
    wire.batch(each(0, 0, 500, scopes=("USER",)))
    found = changes(settings, epochs, since="earliest", timeout_s=1, wanted=Filter.of(scope="USER"))
    assert len(list(found)) == 500
    assert asked == [(wire.journal, 0)]
