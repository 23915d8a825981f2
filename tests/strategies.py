"""Hypothesis strategies: catalog events, and journals as hostile as a real topic may hold.

A journal mixes, over a few entities of two tenants and several partitions: events that change something, say nothing
new, are rejected for every reason, stand on right and wrong preconditions, are sent twice with and without the mark,
and records that are damaged in every way that is shelved. Clocks jump, offsets have gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from metajournal.domains.catalog import events as catalog
from metajournal.domains.catalog.urns import app, dataset, program, run, stream
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import partition_of, record_key
from metajournal.schemas.header import Header
from metajournal.schemas.limits import MAX_ENTRIES, MAX_EVENT_BYTES
from metajournal.schemas.urn import Urn, urn
from tests.builders import NOON, header_for, raw_record
from tests.model import JournalRecord

PURCHASES: Final = dataset("default", "purchases")
ORDERS: Final = dataset("default", "Kundenaufträge/2024")
HISTORY: Final = app("default", "History")
FLOW: Final = program("default", "History", "flow", "Flow")
BUILDER: Final = program("default", "History", "spark", "Builder")
RUN: Final = run("default", "History", "flow", "Flow", "run-1")

GROUPS: Final[tuple[tuple[Urn, ...], ...]] = (
    (PURCHASES,),
    (HISTORY, FLOW, BUILDER),
    (PURCHASES, HISTORY, FLOW, RUN),
    (PURCHASES, ORDERS, stream("default", "log"), urn("team", "data science")),
    (HISTORY, BUILDER, FLOW, RUN, ORDERS, PURCHASES),
)
"""What a journal is about: few enough that its events meet, and often several of one aggregate."""

ACTORS: Final = ("alice", "bob", "", None)

_BIG: Final = "v" * 300_000
_TRICKY: Final = 'Ω\n"quoted" 😀'

_BEGINNINGS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"tags": ["pii"]},
    {"properties": {"b": "2", "a": "1"}, "tags": ["z", "gold"]},
    {"description": "What was bought", "schema": '{"type":"string"}'},
    {"schema": [("id", "long"), ("naïve", "string")], "properties": {"owner": "alice"}},
    {"description": "", "schema": [], "properties": {"creation_time": "mine"}},
    {"properties": {"big": _BIG}},
)

_PROPERTIES: Final[tuple[dict[str, str], ...]] = (
    {"owner": "alice"},
    {"owner": "bob", "a": "1"},
    {"a": "1"},
    {"Größe": _TRICKY, "b": ""},
    {"creation_time": "mine", "x:y": "1"},
    {"description": "other"},
    {"a": _BIG},
    {"b": _BIG},
    {f"{number:03}": "" for number in range(MAX_ENTRIES)},
    {},
)

_KEYS: Final[tuple[list[str], ...]] = (["owner"], ["a", "nowhere"], ["description", "schema"], ["creation_time"], [])
_TAGS: Final[tuple[list[str], ...]] = (["pii"], ["gold", "pii"], ["été", "[CC BY 4.0]"], ["z", "z"], [])


def _events_about(entity: Urn) -> list[Any]:
    """Events on an entity, simple ones first; a few are invalid."""
    found: list[Any] = [catalog.EntityRegistered(entity, **fields) for fields in _BEGINNINGS]
    found += [catalog.EntityDeleted(entity)] * (12 if entity.kind == "app" else 3)
    for scope in ("USER", "SYSTEM"):
        found += [catalog.PropertiesSet(entity, properties, scope) for properties in _PROPERTIES]
        found += [catalog.PropertiesReplaced(entity, properties, scope) for properties in _PROPERTIES]
        found += [catalog.TagsAdded(entity, tags, scope) for tags in _TAGS]
        found += [catalog.PropertiesRemoved(entity, keys, scope=scope) for keys in _KEYS]
        found += [catalog.TagsRemoved(entity, tags, scope=scope) for tags in _TAGS]
        found += [catalog.PropertiesRemoved(entity, all=True, scope=scope)]
        found += [catalog.TagsRemoved(entity, all=True, scope=scope)]
    return found + [catalog.MetadataCleared(entity, scope) for scope in ("USER", "SYSTEM", "BOTH")]


_EVENTS: Final = {group: tuple(event for entity in group for event in _events_about(entity)) for group in GROUPS}

_PLAIN: Final = {
    group: tuple(
        event
        for entity in group
        for event in _events_about(entity)
        if not event.validate() and len(codec.encode(event, header_for(event))) < 1_000
    )
    for group in GROUPS
}
"""Of these the valid ones of ordinary size."""

_FOREIGN: Final = catalog.TagsAdded(urn("file", "s3", "bucket", "part-1"), ["pii"])


def events(entities: tuple[Urn, ...] = GROUPS[-1]) -> st.SearchStrategy[Any]:
    """A catalog event on one of the entities of a group of GROUPS: mostly valid, sometimes empty or reserved."""
    return st.sampled_from(_EVENTS[entities])


def ordinary_events(entities: tuple[Urn, ...] = GROUPS[-1]) -> st.SearchStrategy[Any]:
    """A valid catalog event of ordinary size on one of the entities of a group of GROUPS."""
    return st.sampled_from(_PLAIN[entities])


_HOSTILE_HEADERS: Final[tuple[dict[str, Any], ...]] = (
    {"aggregate": "dataset:default/purchases"},
    {"aggregate": "no urn"},
    {"entities": ()},
    {"entities": ("dataset:default/purchases", "team:data%20science")},
    {"type": "catalog.TagsAdded.1"},
    {"tenant": "Not/A Tenant"},
    {"event_time": (1 << 63) - 1},
    {"event_time": -(1 << 63)},
)

_DAMAGES: Final[tuple[Callable[[JournalRecord], JournalRecord], ...]] = (
    lambda record: record._replace(digest=None),
    lambda record: record._replace(digest=b"\0" * 16),
    lambda record: record._replace(digest=b""),
    lambda record: record._replace(value=None),
    lambda record: record._replace(key=None),
    lambda record: record._replace(key=b"acme/dataset:default/elsewhere"),
    lambda record: _with_value(record, None),
    lambda record: _with_value(record, b"{}"),
    lambda record: _with_value(record, (record.value or b"")[:-1]),
    lambda record: _with_value(record, (record.value or b"") + b"\0"),
    lambda record: _with_value(record, (record.value or b"")[:10]),
    lambda record: _with_value(record, (record.value or b"")[:10] + b"\xff" * 40),
    lambda record: _with_value(record, b"\0" * (MAX_EVENT_BYTES + 1)),
)


def _with_value(record: JournalRecord, value: bytes | None) -> JournalRecord:
    return record._replace(value=value, digest=raw_record(value, 0).digest)


@st.composite
def journals(draw: st.DrawFn, *, partitions: int = 3, max_records: int = 25) -> list[JournalRecord]:
    """The records of a journal topic, in the order of their arrival (positions grow within each partition).

    Args:
        partitions: number of partitions; every record stands in that of its key (one without a key in 0).
        max_records: most records after the first ones, which register some of the entities.
    """
    writer = _Writer(draw, partitions)
    writer.begin()
    for _ in range(draw(st.integers(0, max_records))):
        writer.write()
    return writer.records


@st.composite
def plain_journals(draw: st.DrawFn, *, partitions: int = 3, max_records: int = 40) -> list[JournalRecord]:
    """The same where nearly all is ordinary: valid events, of which one in fifteen is as hostile as in `journals`."""
    writer = _OrdinaryWriter(draw, partitions)
    writer.begin()
    for _ in range(draw(st.integers(0, max_records))):
        writer.write()
    return writer.records


_SIDES: Final = (1 << 20) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15


class _Dice:
    """Many small throws out of one drawn number: a draw for each would take most of a test's time.

    Hypothesis prefers small numbers, so the number is spread. Zero stays zero and makes ordinary throws: failing
    examples shrink towards ordinary journals.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self._left = draw(st.integers(0, _SIDES)) * _SPREAD % (1 << 64) >> 24

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        self._left, rest = divmod(self._left, n)
        return rest

    def one_in(self, n: int) -> bool:
        return self.below(n) == n - 1


class _Writer:
    """Producers of all kinds, writing one topic."""

    def __init__(self, draw: st.DrawFn, partitions: int) -> None:
        self.records: list[JournalRecord] = []
        self._draw = draw
        self._partitions = partitions
        self._offsets = [0] * partitions
        self._group = draw(st.sampled_from(GROUPS))
        self._sent: list[tuple[Any, Header]] = []
        self._last: dict[str, int] = {}

    def begin(self) -> None:
        """Register most of the entities, so that much of what follows is accepted."""
        for entity in self._group:
            dice = _Dice(self._draw)
            if not dice.one_in(5):
                event = catalog.EntityRegistered(entity, **_BEGINNINGS[dice.below(len(_BEGINNINGS))])
                self._send(dice, event, header_for(event, len(self.records) + 1))

    def write(self) -> None:
        """One more record of any kind."""
        dice = _Dice(self._draw)
        event, header = self._again(dice) if self._sent and dice.one_in(7) else self._new(dice)
        damaged = dice.one_in(9)
        self._send(_Dice(self._draw), event, header)
        if damaged:
            self.records[-1] = self._draw(st.sampled_from(_DAMAGES))(self.records[-1])

    def _new(self, dice: _Dice) -> tuple[Any, Header]:
        event = _FOREIGN if dice.one_in(50) else self._draw(events(self._group))
        fields: dict[str, Any] = {"actor": ACTORS[dice.below(len(ACTORS))], "repeat": dice.one_in(8)}
        if dice.one_in(6):
            newest = self._last.get(str(event.entity), 0)
            fields["expected"] = (newest, newest, 0, 1)[dice.below(4)]
        if dice.one_in(12):
            fields["tenant"] = "acme"
        if dice.one_in(15):
            fields |= self._draw(st.sampled_from(_HOSTILE_HEADERS))
        return event, header_for(event, len(self.records) + 1, **fields)

    def _again(self, dice: _Dice) -> tuple[Any, Header]:
        """An event that was sent before, marked or not; seldom under another tenant."""
        event, header = self._draw(st.sampled_from(self._sent))
        tenant = "acme" if dice.one_in(8) else header.tenant
        return event, header._replace(repeat=dice.one_in(2), tenant=tenant)

    def _send(self, dice: _Dice, event: Any, header: Header) -> None:
        key = record_key(header.tenant, header.aggregate)
        partition = partition_of(key, self._partitions)
        offset = self._offsets[partition] + dice.below(3)
        self._offsets[partition] = offset + 1
        moment = NOON + 10 * len(self.records) + dice.below(81) - 40
        value = codec.encode(event, header)
        self.records.append(raw_record(value, offset, partition=partition, key=key, append_time=moment))
        self._sent.append((event, header))
        self._last[str(event.entity)] = self.records[-1].position


class _OrdinaryWriter(_Writer):
    """Producers that nearly always do what they should."""

    def write(self) -> None:
        dice = _Dice(self._draw)
        if dice.one_in(15):
            super().write()
            return
        event = self._draw(ordinary_events(self._group))
        tenant = "acme" if dice.one_in(9) else "default"
        header = header_for(event, len(self.records) + 1, actor=ACTORS[dice.below(len(ACTORS))], tenant=tenant)
        self._send(dice, event, header)
