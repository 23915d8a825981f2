"""The columnar way: the plain events of a partition's records folded by `rules.catalog_columns`, rows out as Arrow.

The same rows and verdicts as `fold` gives, at a fraction of its price, for what `plain` lets through; whatever else a
partition holds goes through `fold`, aggregate by aggregate. Both ways see each other's rows: those of the columnar way
stand in `newest`, and are made into objects where `fold` needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold import folded
from ....fold.folded import Folded, IdKey, Verdict
from ....fold.prior import PriorRows
from ....fold.readings import Readings
from ....fold.records import Place
from ....fold.texts import chosen, id_texts
from ....lake.columns import ENTITIES
from ....lake.entities import microseconds, rows_to_arrow
from ....rules.entity import EntityRow
from ....schemas.encoding.cursor import Numbers
from .judging import ACCEPTED, DELETED, REJECTED, Clears, Judged, judge
from .keys import NOT_ALONE, Keys
from .newest import METADATA, NewestRows
from .numbered import Numbered
from .plain import Plain, plain_events

OUTCOMES: Final = (folded.ACCEPTED, folded.UNCHANGED, folded.REJECTED)
"""The words of the rules' outcomes."""


class Made(NamedTuple):
    """What plain events gave.

    Attributes:
        system_time: of each event, milliseconds UTC.
        judged: their outcomes, by number among OUTCOMES, and what changed.
        accepted: the numbers of the accepted events, of each of which there is one row.
        rows: of the `entities` table.
        entity: the number of each row's entity, below `entities`.
        numbered: names and values; what it tells of events and entities is by the same numbers.
        keys: what the numbers of the events' keys name.
    """

    plain: Plain
    system_time: Numbers
    judged: Judged
    accepted: Numbers
    rows: pa.Table
    entity: Numbers
    entities: int
    numbered: Numbered
    keys: Keys

    def verdict(self, number: int) -> Verdict:
        """The verdict on one of the events."""
        return verdict(self.judged.outcome[number], self.keys.key(self.plain.key[number])[1])


def verdict(outcome: int, urn: str) -> Verdict:
    """The verdict on a plain event: where it is rejected, there is no such entity."""
    refused = ("unknown-entity", {"entity": urn}) if outcome == REJECTED else ()
    return Verdict(OUTCOMES[outcome], *refused)


class Columnar:
    """Folds the plain events of one partition's records, slice by slice.

    Args:
        place: the partition.
        below: the first position that is folded; the lake is looked at below it.
        prior: what the other way looks rows up in.
    """

    def __init__(self, place: Place, below: int, prior: PriorRows) -> None:
        self._place = place
        self._below = below
        self._prior = prior
        self._keys = Keys(place)
        self._newest = NewestRows()
        self._lent: set[int] = set()
        self._borrowed: dict[int, EntityRow] = {}
        self._events: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []

    def prefetch(self, keys: pa.ChunkedArray) -> pa.Array:
        """Look up what nothing is known of. Gives the Kafka keys that the other way has to look up."""
        distinct = pc.unique(keys.drop_null())
        numbers = self._keys.numbers(distinct.to_pylist())
        self._newest.grow(len(self._keys))
        unknown = self._newest.unknown(numbers[numbers != NOT_ALONE])
        if len(unknown):
            named = [self._keys.key(number) for number in unknown.tolist()]
            rows = self._prior.newest_of(named, [(self._place.partition, self._below)] * len(named))
            self._newest.learn_absent(unknown)
            keyed = zip(rows["tenant"].to_pylist(), rows["urn"].to_pylist(), strict=True)
            known = np.array([self._keys.number_of(key) for key in keyed], np.int64)
            self._newest.learn(known, np.arange(len(known)), rows)
        return distinct.filter(pa.array(numbers == NOT_ALONE))

    def plain(self, records: pa.Table, epoch: int) -> Plain | None:
        """The plain events among records whose keys were prefetched."""
        self._settle()
        repeats = self._prior.repeats(self._place, self._below)
        return plain_events(records, self._place, epoch, self._keys, repeats, self._newest.room())

    def lend(self, readings: Readings) -> None:
        """Let the other way see the rows and events that it needs of those that were folded in columns."""
        needs = readings.needs()
        numbers = {key: self._keys.number_of(key) for key in needs.rows}
        new = {key: number for key, number in numbers.items() if number != NOT_ALONE and number not in self._lent}
        self._prior.put({key: self._newest.row(number) for key, number in new.items()})
        self._lent.update(new.values())
        if needs.originals and self._events:
            self._prior.put_events(self._originals(needs.originals))

    def _originals(self, wanted: Iterable[IdKey]) -> Iterable[tuple[IdKey, tuple[int, Verdict]]]:
        """The events with these identities that were folded in columns."""
        sought = {
            (self._keys.number_of((tenant, aggregate)), event_id): (tenant, aggregate, event_id)
            for tenant, aggregate, event_id in wanted
        }
        numbers = np.array(sorted({number for number, _ in sought}), np.int64)
        for keys, ids, positions, outcomes in self._events:
            for event in np.flatnonzero(np.isin(keys, numbers)).tolist():
                key = sought.get((int(keys[event]), ids[event].tobytes()))
                if key is not None:
                    _, aggregate, _ = key
                    yield key, (int(positions[event]), verdict(outcomes[event], aggregate))

    def borrow(self, other: Folded) -> None:
        """Take over the newest rows that the other way has made."""
        numbered = {self._keys.number_of(key): row for key, row in other.current.items()}
        numbered.pop(NOT_ALONE, None)
        self._borrowed.update(numbered)

    def _settle(self) -> None:
        """Put borrowed rows into columns, before anything is folded upon them."""
        rows_by_key = self._borrowed
        if rows_by_key:
            rows = rows_to_arrow((row, self._place.domain, self._place.partition) for row in rows_by_key.values())
            self._newest.learn(np.array(list(rows_by_key), np.int64), np.arange(len(rows_by_key)), rows)
            self._borrowed = {}

    def fold(self, plain: Plain, system_time: Numbers) -> Made:
        """Judge plain events.

        Args:
            plain: the events, of keys that the other way folds nothing of in these records.
            system_time: that of each, milliseconds UTC.
        """
        numbers, entity = np.unique(plain.key, return_inverse=True)
        texts = Numbered(plain, system_time, self._newest, numbers)
        judged = judge(
            entity,
            plain.kind,
            self._newest.live(numbers),
            texts.width,
            texts.held,
            texts.operations,
            Clears(plain.cleared_at, plain.cleared),
            texts.kept,
            texts.same,
        )
        accepted = np.flatnonzero(judged.outcome == ACCEPTED)
        of_keys = self._keys.columns(plain.key[accepted])
        rows = _rows(self._place, plain, system_time, accepted, of_keys, texts, judged)
        last = np.full(len(numbers), -1)
        last[entity[accepted]] = np.arange(len(accepted))
        changed = np.flatnonzero(last >= 0)
        self._newest.learn(numbers[changed], last[changed], rows)
        stale = self._lent.intersection(numbers.tolist()) if self._lent else set()
        self._prior.drop(map(self._keys.key, stale))
        self._lent -= stale
        self._events.append((plain.key, plain.event_id, plain.position, judged.outcome))
        return Made(plain, system_time, judged, accepted, rows, entity[accepted], len(numbers), texts, self._keys)


def _rows(
    place: Place,
    plain: Plain,
    system_time: Numbers,
    accepted: Numbers,
    of_keys: dict[str, Any],
    texts: Numbered,
    judged: Judged,
) -> pa.Table:
    """The rows of the `entities` table that the accepted events make."""
    count = len(accepted)
    made = of_keys | {
        "domain": pa.repeat(place.domain, count),
        "journal_partition": pa.repeat(pa.scalar(place.partition, pa.int32()), count),
        "logical_timestamp": pa.array(plain.position[accepted]),
        "seq": pa.repeat(pa.scalar(0, pa.int32()), count),
        "system_time": microseconds(system_time[accepted]),
        "event_time": microseconds(plain.event_time[accepted]),
        "event_id": id_texts(plain.event_id[accepted]),
        "actor": chosen(plain.actors, plain.actor[accepted]),
        "deleted": pa.array(plain.kind[accepted] == DELETED),
        "record": pa.nulls(count, pa.string()),
    }
    for space, (name, space_held) in enumerate(zip(METADATA, judged.spaces, strict=True)):
        made[name] = texts.column(space, space_held, count)
    return pa.table([made[field.name] for field in ENTITIES], schema=ENTITIES)
