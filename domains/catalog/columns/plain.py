"""Which of a partition's records are plain, and what stands in them, as columns.

A record is plain when it is an event of the catalog on an entity that is alone in its aggregate, has its present form,
and nothing about it or about any other record of its aggregate here asks for more than `rules.catalog_columns` knows:
no damage, no precondition, no mark, no fault. Where in doubt it is not plain: then the fold reads and judges it, and
all others of its aggregate, one by one. So nothing is shelved, refused or found to be a duplicate here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.records import Place
from ....fold.repeats import Repeats
from ....fold.texts import NotTextError, spans, texts
from ....rules.admission import EARLIEST_MS, LATEST_MS
from ....schemas.encoding.bulk import Spans, spans_of
from ....schemas.encoding.cursor import PADDING, Known, Numbers, Source
from ....schemas.hashing import DIGEST_BYTES, DIGEST_HEADER
from ....schemas.positions import position
from .. import events as catalog
from .judging import ANNOTATED, DELETED, REGISTERED
from .keys import NOT_ALONE, Keys
from .named import Named

_KINDS: Final = {event_class.TYPE: ANNOTATED for event_class in catalog.EVENTS} | {
    catalog.EntityRegistered.TYPE: REGISTERED,
    catalog.EntityDeleted.TYPE: DELETED,
}
TYPES: Final = tuple(_KINDS)
_NOTHING: Final = pa.array([], pa.string())


class Units(NamedTuple):
    """Units that events belong to: of each such event the unit's id (16 bytes), its place in it, and their number."""

    ids: Numbers
    places: Numbers
    sizes: Numbers


@dataclass(frozen=True)
class Plain:
    """Plain events: columns with a row for each, in position order.

    Attributes:
        row: number of its record.
        key: number of its Kafka key.
        kind: as in `rules.catalog_columns`.
        type: number of its type among TYPES.
        event_id: 16 bytes each.
        actor: number of its actor among `actors`, negative for none; likewise `unit`, and `cause` (16 bytes each).
        event: of each name that is set or removed, the number of its event; the other columns as in `Named`.
        cleared_at: of each space that is cleared, the number of its event.
    """

    row: Numbers
    position: Numbers
    key: Numbers
    kind: Numbers
    type: Numbers
    event_time: Numbers
    event_id: Numbers
    actor: Numbers
    actors: pa.Array
    unit: Numbers
    units: Units
    cause: Numbers
    causes: Numbers
    event: Numbers
    space: Numbers
    name: pa.Array
    value: Numbers
    values: pa.Array
    cleared_at: Numbers
    cleared: Numbers

    def only(self, those: Numbers) -> Plain | None:
        """Those of the events for which a mask is true; None where there are none."""
        if not those.any():
            return None
        number = np.cumsum(those) - 1
        named, cleared = those[self.event], those[self.cleared_at]
        own = {name: getattr(self, name)[those] for name in _OF_EVENTS}
        return replace(
            self,
            **own,
            event=number[self.event[named]],
            space=self.space[named],
            name=self.name.filter(pa.array(named)),
            value=self.value[named],
            cleared_at=number[self.cleared_at[cleared]],
            cleared=self.cleared[cleared],
        )


_OF_EVENTS: Final = ("row", "position", "key", "kind", "event_time", "event_id", "actor", "type", "unit", "cause")


def plain_events(
    table: pa.Table, place: Place, epoch: int, keys: Keys, repeats: Repeats, room: Numbers
) -> Plain | None:
    """The plain events among some records, or None where there are none.

    Args:
        table: records of one partition, as `records_of` takes them.
        epoch: the topic's epoch.
        keys: numbers for the Kafka keys.
        repeats: earlier events that were marked `repeat`: what may be a copy of one is not plain.
        room: of each key's number, how many bytes of names and values its entity may still be given.
    """
    positions = position(epoch, 0) + table["offset"].to_numpy()
    encoded = table["key"].combine_chunks().dictionary_encode()
    known = keys.numbers(encoded.dictionary.to_pylist())
    group = encoded.indices.fill_null(len(known)).to_numpy()
    key = np.append(known, NOT_ALONE)[group]
    fine = key != NOT_ALONE
    if place.shelved:
        fine &= ~np.isin(positions, list(place.shelved))
    read = _Read(table, fine, repeats)
    try:
        for type_spans in spans_of(read.source, _KINDS.keys()):
            read.take(type_spans, encoded)
    except NotTextError:
        return None
    return read.plain(positions, key, group, len(known) + 1, room)


class _Read:
    """The events of some records, of which not all need be plain."""

    def __init__(self, table: pa.Table, fine: Numbers, repeats: Repeats) -> None:
        values = table["value"].combine_chunks().cast(pa.binary())
        bounds = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
        bounds = bounds.astype(np.int64)
        first = int(bounds[0])
        data_buffer = values.buffers()[2]
        data = (
            b"" if data_buffer is None else data_buffer.slice(first, int(bounds[-1]) - first).to_pybytes()
        ) + PADDING
        starts, ends = bounds[:-1] - first, bounds[1:] - first
        whole = fine & _undamaged(data, starts, ends, table["headers"].combine_chunks(), fine)
        self.source = Source(data, starts, np.where(whole, ends, starts), Known())
        rows = len(values)
        self._repeats = repeats
        self._faulty = ~np.zeros(rows, np.bool_)
        self._kind, self._type = np.zeros(rows, np.int8), np.zeros(rows, np.int8)
        self._event_time = np.zeros(rows, np.int64)
        self._event_id = np.zeros((rows, 16), np.uint8)
        self._actor = np.full(rows, -1)
        self._actors: list[pa.Array] = [_NOTHING]
        self._actor_count = 0
        self._unit, self._cause = np.full(rows, -1), np.full(rows, -1)
        self._units = [_none(np.uint8, 16), _none(np.int64), _none(np.int64)]
        self._causes = _none(np.uint8, 16)
        self._named = Named(self.source, self._faulty)

    def take(self, type_spans: Spans, keys: pa.DictionaryArray) -> None:
        """Add the events of one type. Raises: NotTextError."""
        rows, header, source = type_spans.rows, type_spans.header, self.source
        self._faulty[rows] = ~self._in_agreement(type_spans, keys)
        self._faulty[rows[header["expected"][0]]] = True
        (repeat,), (time,) = header["repeat"], header["event_time"]
        self._faulty[rows[repeat | (time < EARLIEST_MS) | (time > LATEST_MS)]] = True
        self._kind[rows], self._type[rows] = _KINDS[type_spans.event_type], TYPES.index(type_spans.event_type)
        self._event_time[rows] = time
        self._event_id[rows] = ids = self._sixteen(header["event_id"][0])
        if self._repeats:
            self._faulty[rows[self._repeats.hits(ids)]] = True
        acted, _, actor = header["actor"]
        if len(acted):
            self._actor[rows[acted]] = np.arange(self._actor_count, self._actor_count + len(acted))
            self._actors.append(texts(source, *actor))
            self._actor_count += len(acted)
        self._unusual(rows, header["unit"], header["cause"])
        self._named.take(type_spans)

    def _unusual(self, rows: Numbers, unit: Any, cause: Any) -> None:
        """What few events have: a unit, a cause."""
        some, _, inner = unit
        if len(some):
            self._unit[rows[some]] = len(self._units[1]) + np.arange(len(some))
            (identity, _), (index,), (count,) = inner
            for number, more in enumerate((self._sixteen(identity), index, count)):
                self._units[number] = np.concatenate([self._units[number], more])
        some, _, inner = cause
        if len(some):
            self._cause[rows[some]] = len(self._causes) + np.arange(len(some))
            self._causes = np.concatenate([self._causes, self._sixteen(inner[0])])

    def _sixteen(self, starts: Numbers) -> Numbers:
        """The 16 bytes that begin at each place."""
        sixteen: Numbers = self.source.bytes[starts[:, None] + np.arange(16)]
        return sixteen

    def _in_agreement(self, type_spans: Spans, keys: pa.DictionaryArray) -> Numbers:
        """Whether key, header and event name the same one entity, and header and schema the same type."""
        source, header = self.source, type_spans.header
        tenant, aggregate, of_type = (spans(source, *header[name]) for name in ("tenant", "aggregate", "type"))
        entity = spans(source, *type_spans.fields["entity"])
        stops, named = header["entities"]
        alone = np.diff(stops, prepend=0) == 1
        starts, ends = (np.where(alone, np.append(those, 0)[stops - 1], start)  # what ascends, in any case
                        for those, start in zip(named, header["aggregate"], strict=True))  # fmt: skip
        key = pc.binary_join_element_wise(tenant, aggregate, pa.scalar(b"/", pa.binary()))
        right = pc.equal(key, keys.take(pa.array(type_spans.rows)).cast(pa.binary()))
        right = pc.and_(right, pc.equal(aggregate, entity))
        right = pc.and_(right, pc.equal(entity, spans(source, starts, ends)))
        right = pc.and_(right, pc.equal(of_type, pa.scalar(type_spans.event_type.encode(), pa.binary())))
        agreeing: Numbers = right.to_numpy(zero_copy_only=False) & alone
        return agreeing

    def plain(self, positions: Numbers, key: Numbers, group: Numbers, groups: int, room: Numbers) -> Plain | None:
        """What is plain of it."""
        named = self._named
        records, size = _joined(named.record), _joined(named.size)
        spoiled = np.zeros(groups, np.bool_)
        spoiled[group[self._faulty]] = True
        given = np.bincount(key[records], size, minlength=len(room))
        plain = ~spoiled[group]
        plain[plain] = given[key[plain]] <= room[key[plain]]
        if not plain.any():
            return None
        number = np.cumsum(plain) - 1
        own, cleared_at = plain[records], _joined(named.cleared_at)
        cleared = plain[cleared_at]
        return Plain(
            row=np.flatnonzero(plain),
            position=positions[plain],
            key=key[plain],
            kind=self._kind[plain],
            type=self._type[plain],
            event_time=self._event_time[plain],
            event_id=self._event_id[plain],
            actor=self._actor[plain],
            actors=pa.concat_arrays(self._actors),
            unit=self._unit[plain],
            units=Units(*self._units),
            cause=self._cause[plain],
            causes=self._causes,
            event=number[records[own]],
            space=_joined(named.space)[own],
            name=pa.concat_arrays([_NOTHING, *named.names]).filter(pa.array(own)),
            value=_joined(named.value)[own],
            values=pa.concat_arrays([_NOTHING, *named.values]),
            cleared_at=number[cleared_at[cleared]],
            cleared=_joined(named.cleared)[cleared],
        )


def _none(kind: type[Any], *width: int) -> Numbers:
    return np.zeros((0, *width), kind)


def _joined(parts: list[Numbers]) -> Numbers:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _undamaged(data: bytes, starts: Numbers, ends: Numbers, headers: pa.ListArray, fine: Numbers) -> Numbers:
    """Which of the records that are fine so far have the one right digest."""
    undamaged = np.zeros(len(starts), np.bool_)
    bounds = headers.offsets.to_numpy()
    rows = np.flatnonzero(fine & (np.diff(bounds) == 1))
    flat = headers.values.take(pa.array(bounds[rows]))
    names, values = flat.flatten()
    digests = values.fill_null(b"").to_pylist()
    view = memoryview(data)
    right: Any = [
        header_digest == blake2b(view[start:end], digest_size=DIGEST_BYTES).digest()
        for header_digest, start, end in zip(digests, starts[rows].tolist(), ends[rows].tolist(), strict=True)
    ]
    is_digest = pc.fill_null(pc.equal(names, DIGEST_HEADER), False).to_numpy(zero_copy_only=False)
    undamaged[rows] = is_digest & np.array(right, np.bool_)
    return undamaged
