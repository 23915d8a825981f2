"""What stood before a batch: current rows from a bounded cache or the lake, and earlier events by identity.

The cache holds rows as of the journal table's marks and advances only when a batch is finished (step 6), so a batch
that fails leaves it true. Every look-up is bounded by the position at which its partition's batch begins, so rows
that a crash left ahead of the marks are never seen.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress, groupby, islice
from operator import itemgetter
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from ..lake.declared import made_row
from ..lake.entities import COLUMNS, row_from_dict
from ..lake.lookup import BELOW, PARTITION, keys_with_rows, newest_rows_below
from ..lake.tables import quoted
from ..lake.views.table import Readable
from ..rules.entity import EntityRow
from ..rules.tables import KEYS, key_of
from ..schemas.encoding.cursor import Numbers
from ..schemas.ids import id_text
from .folded import Folded, IdKey, KeyOfFact, MembersKey, Prior, RowKey, Verdict
from .known_keys import KnownKeys
from .readings import Needs, Readings
from .records import Place, Shelved
from .repeats import Repeats, ids_of
from .snapshot import Snapshot

_KEYS_PER_QUERY = 500
_AGGREGATES_PER_QUERY = 20  # so many alternatives still keep files and row groups from being read
_MANY_MISSING = 64
_HASHES_PER_ROW = 20
"""So many hashes of keys are kept for each row that may be: they take less memory than that."""
PartitionKey = tuple[str, int]
_T = TypeVar("_T")


class AskedTable(Protocol):
    """A table that rows are looked up in (`lake.table.Table`, `lake.views.viewed.ViewedTable`)."""

    schema: pa.Schema

    @property
    def readable(self) -> Readable: ...

    def sql(self, statement: str, among: Mapping[str, Sequence[Any]] | None = None) -> pa.Table: ...

    def query(
        self, select: str, where: str, among: Mapping[str, Sequence[Any]] | None = None
    ) -> list[dict[str, Any]]: ...


class Tables(Protocol):
    """The tables that are looked at: a whole lake, or some of it at fixed versions."""

    @property
    def tables(self) -> Mapping[str, AskedTable]: ...

    @property
    def journal(self) -> AskedTable: ...


class PriorRows:
    """Prior rows for the partitions of a batch.

    Args:
        lake: tables to look rows up in.
        cache_rows: most rows (and known absences) kept in memory; None: all.
        below: look only at rows below this position; None: below each batch's first position. A task that folds its
            share in slices gives the first one's, since what it has folded itself stands in the cache alone.
        marks: gives the next position of every journal partition; where it is given, many missing rows at once have
            the newest rows of the whole table kept, if those are no more than the cache takes, and many missing
            facts the hashes of all keys of their table.
    """

    def __init__(
        self,
        lake: Tables,
        cache_rows: int | None,
        below: int | None = None,
        marks: Callable[[], Mapping[PartitionKey, int]] | None = None,
    ) -> None:
        self._lake = lake
        self._marks = marks
        self._snapshot: Snapshot | None = None
        self._fits = True
        self._below = below
        self._own_members: dict[MembersKey, dict[str, EntityRow]] = {}
        self._own_events: dict[IdKey, tuple[int, Verdict]] = {}
        self._own_marked: set[IdKey] = set()
        self._cache: OrderedDict[RowKey, EntityRow | None] = OrderedDict()
        self._facts: OrderedDict[KeyOfFact, Any] = OrderedDict()
        self._known_keys: dict[str, KnownKeys | None] = {}
        self._facts_missed: Counter[str] = Counter()
        self._limit = cache_rows
        self._repeats: dict[PartitionKey, Repeats] = {}

    def fetch(self, batch: Sequence[Readings]) -> list[Prior]:
        """The prior rows of each partition of a batch.

        Args:
            batch: the readings of each partition.
        """
        needs = [readings.needs() for readings in batch]
        missing = [{key for key in need.rows if key not in self._cache} for need in needs]
        rows = self._rows(batch, missing)
        for keys in missing:
            self._cache.update((key, rows.get(key)) for key in keys if key not in self._cache)
        self._look_facts_up(
            (need.facts, readings.place.partition, self._below_of(readings.start))
            for readings, need in zip(batch, needs, strict=True)
        )
        prior = [
            Prior(
                self._known(need),
                self._members(readings, need),
                self._originals(readings, need),
                self.facts(need.facts, readings.place, readings.start),
            )
            for readings, need in zip(batch, needs, strict=True)
        ]
        self._shrink()
        return prior

    def prefetch(self, named: Iterable[RowKey], place: Place) -> None:
        """Look many entities of a partition up in one pass, before the records that ask for them are read.

        Args:
            named: keys, as `records.named_in` gives them.
            place: the partition that the records stand in.
        """
        if self._below is None:
            return
        wanted = [key for key in dict.fromkeys(named) if key not in self._cache]
        if len(wanted) > _KEYS_PER_QUERY:
            rows = self._newest_of_many(wanted, [(place.partition, self._below)] * len(wanted))
            self._cache.update((key, rows.get(key)) for key in wanted)

    def put(self, rows: Mapping[RowKey, EntityRow | None]) -> None:
        """Take over newest rows that somebody else has."""
        self._cache.update(rows)

    def drop(self, keys: Iterable[RowKey]) -> None:
        """Forget rows that are no longer the newest: whoever has those puts them in again where they are needed."""
        for key in keys:
            self._cache.pop(key, None)

    def put_events(self, events: Iterable[tuple[IdKey, tuple[int, Verdict]]]) -> None:
        """Take over events of earlier slices that somebody else has judged; the lowest of an identity counts."""
        for key, (position, verdict) in events:
            lowest, _ = self._own_events.get(key, (None, None))
            if lowest is None or position < lowest:
                self._own_events[key] = position, verdict

    def repeats(self, place: Place, start: int) -> Repeats:
        """The ids of a partition's earlier events that were marked `repeat`: read once, then kept in 8 bytes each."""
        key = (place.topic, place.partition)
        if key not in self._repeats:
            self._repeats[key] = Repeats().plus(self._marked_before(place, start))
        return self._repeats[key]

    def begin_with(self, key: PartitionKey, repeats: Repeats) -> None:
        """Take over the ids of a partition's earlier marked events from who has read them."""
        self._repeats[key] = repeats

    def remember(self, key: PartitionKey, marked: Collection[bytes]) -> None:
        """Add the ids of a partition's newest marked events. (Where none are kept yet, all will be read.)"""
        if key in self._repeats:
            self._repeats[key] = self._repeats[key].plus(ids_of(marked))

    def forget_rows(self) -> None:
        """Drop the cached rows, after others have folded."""
        self._forget_entities()
        self._facts.clear()
        self._known_keys.clear()
        self._facts_missed.clear()

    def _forget_entities(self) -> None:
        self._snapshot = None
        self._cache.clear()

    def _known(self, need: Needs) -> Mapping[RowKey, EntityRow | None]:
        if self._limit is None:
            return self._cache  # all of it stays, so nobody minds who was asked for last
        known: dict[RowKey, EntityRow | None] = {}
        for key in need.rows:
            self._cache.move_to_end(key)
            known[key] = self._cache[key]
        return known

    def facts(self, wanted: Collection[KeyOfFact], place: Place, start: int) -> dict[KeyOfFact, Any]:
        """The newest rows of other tables than `entities`; None where there is none.

        Args:
            wanted: their keys.
            place: the partition that their events stand in.
            start: only rows below it count, where this is nobody's task.
        """
        if not wanted:
            return {}
        self._look_facts_up([(wanted, place.partition, self._below_of(start))])
        for key in wanted:
            self._facts.move_to_end(key)
        return {key: self._facts[key] for key in wanted}

    def _look_facts_up(self, asked: Iterable[tuple[Collection[KeyOfFact], int, int]]) -> None:
        """Have the newest rows of facts in the cache, in one pass over each table.

        Args:
            asked: keys, with the partition that their events stand in and the position below which rows count.
        """
        missing: dict[str, dict[KeyOfFact, tuple[int, int]]] = {}
        for wanted, partition, below in asked:
            for key in wanted:
                if key not in self._facts:
                    missing.setdefault(key[0], {}).setdefault(key, (partition, below))
        for table, places in missing.items():
            self._facts.update(dict.fromkeys(places))
            keys = self._keys_of(table, places)
            known = self._known_in(table, len(places))
            if known is not None:
                hits = known.hits(keys)
                if not hits.any():
                    continue
                keys = keys.filter(pa.array(hits))
                places = dict(compress(places.items(), hits))
            self._facts.update(self._newest_facts(table, keys, places.values()))

    def _known_in(self, table: str, missing: int) -> KnownKeys | None:
        """The keys that a table has, where they are kept: many missing ones have them read, where they are not many."""
        if table not in self._known_keys and self._marks is not None and self._limit is not None:
            self._facts_missed[table] += missing
            if self._facts_missed[table] >= _MANY_MISSING:
                readable, most = self._lake.tables[table].readable, _HASHES_PER_ROW * self._limit
                self._known_keys[table] = KnownKeys.load(readable, _key_columns(table), most)
        return self._known_keys.get(table)

    def _keys_of(self, table: str, facts: Collection[KeyOfFact]) -> pa.Table:
        schema, names = self._lake.tables[table].schema, _key_columns(table)
        columns = zip(*((tenant, *key) for _, tenant, key in facts), strict=True)
        return pa.table(
            {name: pa.array(column, schema.field(name).type) for name, column in zip(names, columns, strict=True)}
        )

    def _newest_facts(
        self, table: str, keys: pa.Table, places: Collection[tuple[int, int]]
    ) -> Iterator[tuple[KeyOfFact, Any]]:
        wanted = keys.append_column(PARTITION, pa.array([partition for partition, _ in places], pa.int32()))
        wanted = wanted.append_column(BELOW, pa.array([below for _, below in places], pa.int64()))
        rows = newest_rows_below(self._lake.tables[table].readable, wanted)
        make = made_row(table)
        for made in map(make, rows.to_pylist(maps_as_pydicts="strict")):
            yield (table, made.tenant, key_of(made)), made

    def _rows(self, batch: Sequence[Readings], missing: Sequence[set[RowKey]]) -> dict[RowKey, EntityRow]:
        """The newest rows of all missing keys of a batch, in one pass over what can hold them."""
        if self._has_snapshot(sum(map(len, missing))):
            assert self._snapshot is not None
            return self._snapshot.rows(key for keys in missing for key in keys if key not in self._cache)
        keys: list[RowKey] = []
        places: list[tuple[int, int]] = []
        for readings, wanted in zip(batch, missing, strict=True):
            new = [key for key in sorted(wanted) if key not in self._cache]
            keys += new
            places += [(readings.place.partition, self._below_of(readings.start))] * len(new)
        return self._newest_of_many(keys, places) if keys else {}

    def _has_snapshot(self, missing: int) -> bool:
        """Whether missing rows stand in memory; many of them have all rows read, where those fit."""
        asked = self._snapshot is None and self._fits and missing >= _MANY_MISSING
        if asked and self._marks is not None and self._limit is not None:
            self._snapshot = Snapshot.load(self._lake.tables["entities"].readable, self._marks(), self._limit)
            self._fits = self._snapshot is not None  # a table that is too large only grows
        return self._snapshot is not None

    def _newest_of_many(self, keys: Sequence[RowKey], places: Sequence[tuple[int, int]]) -> dict[RowKey, EntityRow]:
        rows = self.newest_of(keys, places).to_pylist(maps_as_pydicts="strict")
        return {(row["tenant"], row["urn"]): row_from_dict(row) for row in rows}

    def newest_of(self, keys: Sequence[RowKey], places: Sequence[tuple[int, int]]) -> pa.Table:
        """The newest rows in the lake of many keys, each below a position of its partition, as the table has them."""
        wanted = pa.table(
            {
                "tenant": pa.array([tenant for tenant, _ in keys], pa.string()),
                "urn": pa.array([urn for _, urn in keys], pa.string()),
                PARTITION: pa.array([partition for partition, _ in places], pa.int32()),
                BELOW: pa.array([below for _, below in places], pa.int64()),
            }
        )
        return newest_rows_below(self._lake.tables["entities"].readable, wanted)

    def keys_before(self, keys: pa.Table, place: Place) -> pa.Table:
        """Those of some keys (tenant, urn) of a partition that have a row in the lake."""
        below = self._below
        assert below is not None  # a task's
        return keys_with_rows(self._lake.tables["entities"].readable, keys, place.partition, below)

    def _newest(self, where: str, among: Mapping[str, Sequence[Any]]) -> Iterator[EntityRow]:
        """The newest row of each key among the rows of a condition, which have some values of some columns."""
        ranked = (
            f"select {COLUMNS}, row_number() over "
            "(partition by tenant, urn order by logical_timestamp desc, seq desc) as age "
            f"from entities where {where}"
        )
        table = self._lake.tables["entities"].sql(f"select * from ({ranked}) where age = 1", among)
        return map(row_from_dict, table.to_pylist(maps_as_pydicts="strict"))

    def _members(self, readings: Readings, need: Needs) -> dict[MembersKey, list[EntityRow]]:
        """The newest rows of the aggregates' entities of each kind that a partition's events may ask for."""
        members: dict[MembersKey, dict[str, EntityRow]] = {key: {} for key in need.members}
        for (tenant, kind), keys in groupby(sorted(need.members, key=itemgetter(0, 2, 1)), key=itemgetter(0, 2)):
            for aggregates in _chunks([aggregate for _, aggregate, _ in keys], _AGGREGATES_PER_QUERY):
                these = f"tenant = {quoted(tenant)} and aggregate in ({', '.join(map(quoted, aggregates))})"
                where = f"{these} and kind = {quoted(kind)} and {self._before(readings)}"
                for row in self._newest(where, {"tenant": [tenant], "aggregate": aggregates}):
                    members[tenant, row.aggregate, kind][row.urn] = row
        return {key: list({**rows, **self._own_members.get(key, {})}.values()) for key, rows in members.items()}

    def _originals(self, readings: Readings, need: Needs) -> KnownOriginals:
        start = self._below_of(readings.start)
        wanted = need.originals | _suspects(readings, self.repeats(readings.place, start))
        events = {key: self._own_events[key] for key in wanted if key in self._own_events}
        marked = self._own_marked & wanted
        for chunk in _chunks(sorted(wanted), _KEYS_PER_QUERY):
            for key, event, repeat in self._earlier(readings.place, start, chunk):
                events[key] = event
                if repeat:
                    marked.add(key)
        return KnownOriginals(events, marked)

    def _earlier(
        self, place: Place, start: int, keys: Iterable[IdKey]
    ) -> Iterator[tuple[IdKey, tuple[int, Verdict], bool]]:
        """Earlier events of a partition with some ids: identity, position and verdict, and whether it is marked.

        Highest first: the lowest one of an identity comes last.
        """
        texts = [id_text(event_id) for _, _, event_id in keys]
        ids = ", ".join(map(quoted, texts))
        rows = self._lake.journal.query(
            "tenant, aggregate, event_id, logical_timestamp, outcome, reason, detail, duplicate_of, repeat",
            f"{_before(place, start)} and event_id in ({ids}) order by logical_timestamp desc",
            {"topic": [place.topic], "journal_partition": [place.partition], "event_id": texts},
        )
        for row in rows:
            detail = None if row["detail"] is None else json.loads(row["detail"])
            verdict = Verdict(row["outcome"], row["reason"], detail, row["duplicate_of"])
            key = (row["tenant"], row["aggregate"], bytes.fromhex(row["event_id"].replace("-", "")))
            yield key, (row["logical_timestamp"], verdict), row["repeat"]

    def _marked_before(self, place: Place, start: int) -> Numbers:
        """The ids of all earlier events of a partition that are marked: bytes, 16 a row."""
        statement = f"select event_id from journal where {_before(place, start)} and repeat"
        column = self._lake.journal.sql(statement)["event_id"]
        return ids_of([bytes.fromhex("".join(chunk.to_pylist()).replace("-", "")) for chunk in column.chunks])

    def advance(self, folded: Iterable[Folded]) -> None:
        """Take over a finished batch's rows: call this after step 6 only (or after a slice, within a task)."""
        for partition_folded in folded:
            if self._below is not None:
                self._remember_events(partition_folded)
            self.remember((partition_folded.place.topic, partition_folded.place.partition), partition_folded.marked)
            for key, row in partition_folded.current.items():
                if self._below is not None and row.urn != row.aggregate:
                    self._own_members.setdefault((row.tenant, row.aggregate, row.kind), {})[row.urn] = row
                self._cache[key] = row
                if self._limit is not None:
                    self._cache.move_to_end(key)
            for fact, made in partition_folded.current_facts.items():
                self._facts[fact] = made
                self._facts.move_to_end(fact)
            self._add_known(partition_folded.current_facts)
        self._shrink()

    def _add_known(self, facts: Iterable[KeyOfFact]) -> None:
        """Add the keys of new rows to those that the tables are known to have."""
        made: dict[str, list[KeyOfFact]] = {}
        for fact in facts:
            if self._known_keys.get(fact[0]) is not None:
                made.setdefault(fact[0], []).append(fact)
        for table, keys in made.items():
            known = self._known_keys[table]
            assert known is not None  # asked for above
            self._known_keys[table] = known.plus(self._keys_of(table, keys))

    def _remember_events(self, folded: Folded) -> None:
        """Within a task, a later slice may repeat an event of an earlier one, which the lake does not hold yet."""
        for judged in folded.judged:
            header = judged.header
            if header is not None:
                key = (header.tenant, header.aggregate, header.event_id)
                self._own_events.setdefault(key, (judged.record.position, judged.verdict))
                if header.repeat:
                    self._own_marked.add(key)

    def _shrink(self) -> None:
        if self._snapshot is not None and self._limit is not None and len(self._cache) > self._limit:
            self._forget_entities()  # a row that left the cache would be looked up as the snapshot has it
        while self._limit is not None and len(self._cache) > self._limit:
            self._cache.popitem(last=False)
        while self._limit is not None and len(self._facts) > self._limit:
            self._facts.popitem(last=False)

    def _before(self, readings: Readings) -> str:
        return _below(readings.place, self._below_of(readings.start))

    def _below_of(self, start: int) -> int:
        """The position below which rows count for a batch that begins at `start`."""
        return start if self._below is None else self._below


def _key_columns(table: str) -> list[str]:
    return ["tenant", *KEYS[table]._fields]


class KnownOriginals:
    """Earlier events by identity: what this batch asked for.

    Args:
        originals: the lowest of each.
        marked: those of which any was marked `repeat`.
    """

    def __init__(self, originals: Mapping[IdKey, tuple[int, Verdict]], marked: Collection[IdKey]) -> None:
        self._found = originals
        self._marked = marked

    def find(self, key: IdKey) -> tuple[int, Verdict] | None:
        return self._found.get(key)

    def marked(self, key: IdKey) -> tuple[int, Verdict] | None:
        return self._found.get(key) if key in self._marked else None

    def any_marked(self) -> bool:
        return bool(self._marked)


def _suspects(readings: Readings, repeats: Repeats) -> set[IdKey]:
    """Identities of the events that may be copies of marked ones."""
    headers = [reading.header for _, reading in readings.items if not isinstance(reading, Shelved)] if repeats else []
    if not headers:
        return set()
    hits = [headers[number] for number in np.flatnonzero(repeats.hits(ids_of([header.event_id for header in headers])))]
    return {(header.tenant, header.aggregate, header.event_id) for header in hits}


def _before(place: Place, start: int) -> str:
    """The condition of the journal table's rows of a partition's earlier records."""
    return f"topic = {quoted(place.topic)} and {_below(place, start)}"


def _below(place: Place, start: int) -> str:
    return f"journal_partition = {place.partition} and logical_timestamp < {start}"


def _chunks(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
