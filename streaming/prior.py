"""What stood before a batch: current rows from a bounded cache or the lake, and earlier events by identity.

The cache holds rows as of the journal table's marks and advances only when a batch is finished (step 6), so a batch
that fails leaves it true. Every look-up is bounded by the position at which its partition's batch begins, so rows
that a crash left ahead of the marks are never seen.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from ..lake.entities import COLUMNS, row_from_dict
from ..lake.tables import Lake, quoted
from ..rules.entity import EntityRow
from ..schemas.ids import id_text
from .fold import Folded, IdKey, Needs, Prior, Readings, RowKey, Verdict

_KEYS_PER_QUERY = 500
_T = TypeVar("_T")


class PriorRows:
    """Prior rows for the partitions of a batch.

    Args:
        lake: tables to look rows up in.
        cache_rows: most rows (and known absences) kept in memory.
    """

    def __init__(self, lake: Lake, cache_rows: int) -> None:
        self._lake = lake
        self._cache: OrderedDict[RowKey, EntityRow | None] = OrderedDict()
        self._limit = cache_rows
        self._marked: dict[tuple[str, int], dict[IdKey, tuple[int, Verdict]]] = {}

    def fetch(self, batch: Sequence[Readings]) -> list[Prior]:
        """The prior rows of each partition of a batch.

        Args:
            batch: the readings of each partition.
        """
        needs = [one.needs() for one in batch]
        missing = [{key for key in need.rows if key not in self._cache} | set(need.apps) for need in needs]
        found = self._rows(batch, missing)
        for keys in missing:
            self._cache.update((key, found.get(key)) for key in keys if key not in self._cache)
        prior = [
            Prior(self._known(need), self._programs(one, need), self._originals(one, need))
            for one, need in zip(batch, needs, strict=True)
        ]
        self._shrink()
        return prior

    def _known(self, need: Needs) -> dict[RowKey, EntityRow | None]:
        known: dict[RowKey, EntityRow | None] = {}
        for key in need.rows | need.apps:
            self._cache.move_to_end(key)
            known[key] = self._cache[key]
        return known

    def _rows(self, batch: Sequence[Readings], missing: Sequence[set[RowKey]]) -> dict[RowKey, EntityRow]:
        found: dict[RowKey, EntityRow] = {}
        for one, keys in zip(batch, missing, strict=True):
            wanted = [key for key in sorted(keys) if key not in self._cache]
            for tenant, urns in _by_tenant(wanted).items():
                for chunk in _chunks(urns, _KEYS_PER_QUERY):
                    names = ", ".join(map(quoted, chunk))
                    where = f"tenant = {quoted(tenant)} and urn in ({names}) and {_before(one)}"
                    found |= {(row.tenant, row.urn): row for row in self._newest(where)}
        return found

    def _newest(self, where: str) -> Iterator[EntityRow]:
        """The newest row of each key among the rows of a condition."""
        ranked = (
            f"select {COLUMNS}, row_number() over "
            "(partition by tenant, urn order by logical_timestamp desc, seq desc) as age "
            f"from entities where {where}"
        )
        table = self._lake.tables["entities"].sql(f"select * from ({ranked}) where age = 1")
        return map(row_from_dict, table.to_pylist(maps_as_pydicts="strict"))

    def _programs(self, one: Readings, need: Needs) -> dict[RowKey, list[EntityRow]]:
        programs: dict[RowKey, list[EntityRow]] = {}
        for tenant, app in need.apps:
            where = f"tenant = {quoted(tenant)} and aggregate = {quoted(app)} and kind = 'program' and {_before(one)}"
            programs[(tenant, app)] = list(self._newest(where))
        return programs

    def _originals(self, one: Readings, need: Needs) -> KnownOriginals:
        place = (one.place.topic, one.place.partition)
        if place not in self._marked:
            self._marked[place] = dict(self._journal(one, "repeat"))
        found: dict[IdKey, tuple[int, Verdict]] = {}
        for chunk in _chunks(sorted(need.originals), _KEYS_PER_QUERY):
            ids = ", ".join(quoted(id_text(event_id)) for _, _, event_id in chunk)
            found |= dict(self._journal(one, f"event_id in ({ids})"))
        return KnownOriginals(found, self._marked[place])

    def _journal(self, one: Readings, where: str) -> Iterator[tuple[IdKey, tuple[int, Verdict]]]:
        """Identity, position and verdict of earlier events of a partition, highest first: the lowest one wins."""
        rows = self._lake.journal.query(
            "tenant, aggregate, event_id, logical_timestamp, outcome, reason, detail, duplicate_of",
            f"topic = {quoted(one.place.topic)} and {_before(one)} and {where} order by logical_timestamp desc",
        )
        for row in rows:
            detail = None if row["detail"] is None else json.loads(row["detail"])
            verdict = Verdict(row["outcome"], row["reason"], detail, row["duplicate_of"])
            key = (row["tenant"], row["aggregate"], bytes.fromhex(row["event_id"].replace("-", "")))
            yield key, (row["logical_timestamp"], verdict)

    def advance(self, folded: Iterable[Folded]) -> None:
        """Take over a finished batch's rows: call this after step 6 only."""
        for one in folded:
            marked = self._marked.setdefault((one.place.topic, one.place.partition), {})
            for identity, original in one.marked.items():
                marked.setdefault(identity, original)
            for key, row in one.current.items():
                self._cache[key] = row
                self._cache.move_to_end(key)
        self._shrink()

    def _shrink(self) -> None:
        while len(self._cache) > self._limit:
            self._cache.popitem(last=False)


class KnownOriginals:
    """Earlier events by identity: what this batch asked for, and all marked ones of the partition."""

    def __init__(self, found: Mapping[IdKey, tuple[int, Verdict]], marked: Mapping[IdKey, tuple[int, Verdict]]) -> None:
        self._found = found
        self._marked = marked

    def find(self, key: IdKey) -> tuple[int, Verdict] | None:
        return self._found.get(key)

    def marked(self, key: IdKey) -> tuple[int, Verdict] | None:
        return self._marked.get(key)


def _before(one: Readings) -> str:
    return f"journal_partition = {one.place.partition} and logical_timestamp < {one.start}"


def _by_tenant(keys: Iterable[RowKey]) -> dict[str, list[str]]:
    tenants: dict[str, list[str]] = {}
    for tenant, urn in keys:
        tenants.setdefault(tenant, []).append(urn)
    return tenants


def _chunks(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
