"""An entity as of a time: its accepted events, folded again in the order of their own times.

The history rows of an entity name every position at which the journal accepted something of it, so nothing but those
events is read, and no table is scanned. Facts go by the time that they speak of, everything else by its event time; of
events of one time the journal's order decides. What a domain adds stands in the file `as_of` of its folder.

What the journal accepted stays accepted, also where the other order finds the entity missing: an annotation whose time
is before its entity's waits for it. `docs/decisions/` says why, and what is bad about it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from ..rules import Accepted, At, EntityRow, FactKey, Rejected, apply
from ..rules.tables import TABLE_OF, key_of
from ..schemas.encoding.codec import decode
from ..schemas.errors import OperatorError
from ..schemas.hashing import digest
from ..schemas.header import Header
from ..schemas.registry import domains_in, role
from ..schemas.urn import Urn
from . import scan
from .lookup import possible_files
from .selecting import select_rows
from .views.table import PartitionKey
from .views.views import View


class PlacedEvent(NamedTuple):
    """An accepted event.

    Attributes:
        happened_at: the time that orders it, milliseconds UTC.
        place: its place in the journal.
    """

    happened_at: int
    place: At
    header: Header
    event: Any

    @property
    def order(self) -> tuple[int, int]:
        return self.happened_at, self.place.position


def rows_as_of(
    view: View, place: PartitionKey, tenant: str, urn: Urn, seen: str, as_of_ms: int
) -> list[EntityRow]:  # fmt: skip
    """The rows of an entity's events up to a time, in the order of that time.

    Args:
        view: the lake, with the tables of `tables_of`.
        place: the journal topic and partition of the entity.
        seen: which rows of the history tables are seen, as SQL: below the marks, or as at an earlier point.
        as_of_ms: events of later times are left out, milliseconds UTC.
    Returns:
        The last one is what stood then. A row is in the place where it took effect, and bears its event's own times:
        the row of an annotation that waited for its entity comes behind the entity's first.
    Raises:
        OperatorError: the journal table lacks an event that a history table has a row of.
        UnknownFingerprint: a newer version wrote one of the events.
    """
    events = _standing(list(_events_at(view, place, _positions(view, tenant, urn, seen))))
    return refolded(urn, [event for event in events if event.happened_at <= as_of_ms])


def refolded(urn: Urn, events: Iterable[PlacedEvent]) -> list[EntityRow]:
    """The rows that events give an entity in the order of their times; they may come in any order."""
    fold = _Refold()
    for event in sorted(events, key=lambda event: event.order):
        fold.take(event)
    return [row for row in fold.made if row.urn == urn]


class _Refold:
    """Applies events one after the other; it is also what the rules read, the rows so far."""

    def __init__(self) -> None:
        self.made: list[EntityRow] = []
        self._newest: dict[str, EntityRow] = {}
        self._facts: dict[tuple[str, FactKey], Any] = {}
        self._waiting: list[PlacedEvent] = []

    def entity(self, urn: str) -> EntityRow | None:
        return self._newest.get(urn)

    def members(self, aggregate: str, kinds: Collection[str]) -> list[EntityRow]:
        return [row for row in self._newest.values() if row.kind in kinds and row.aggregate == aggregate]

    def fact(self, key: FactKey) -> Any:
        return self._facts.get((key.TABLE, key))

    def take(self, event: PlacedEvent) -> None:
        # What `expected` asked for was so in the journal's order, and is meaningless in another one.
        outcome = apply(event.header._replace(expected=None), event.event, event.place, self)
        if isinstance(outcome, Accepted):
            self._keep(outcome)
        elif isinstance(outcome, Rejected) and outcome.reason == "unknown-entity":
            self._waiting.append(event)
        if _hook(event.event, "begins", _any)(event.event):
            self._wake(event)

    def _keep(self, outcome: Accepted) -> None:
        self.made += outcome.rows
        self._newest.update((row.urn, row) for row in outcome.rows)
        for fact in outcome.facts:
            self._facts[TABLE_OF[type(fact)], key_of(fact)] = fact

    def _wake(self, beginning: PlacedEvent) -> None:
        """Apply what waited for an entity that begins: what came behind the beginning in the journal.

        What came before it there belongs to an earlier life of the entity, and ended with that.
        """
        woken, still = list[PlacedEvent](), list[PlacedEvent]()
        for waiting in self._waiting:
            is_of_it = waiting.event.entity in beginning.header.entities
            (woken if is_of_it and waiting.place.position > beginning.place.position else still).append(waiting)
        self._waiting = still
        for event in woken:
            self.take(event)


class BeginsFile(Protocol):
    """The file `as_of` of a domain, where not every event of it can begin an entity."""

    def begins(self, event: Any) -> bool:
        """Whether entities may begin with an event; the others change or end what is there."""


class FactsFile(Protocol):
    """The same of a domain of facts, which go by the time that they speak of."""

    def happened_at(self, header: Header, event: Any) -> int:
        """The time that a fact speaks of, milliseconds UTC."""

    def positions_in(self, urn: Urn) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Tables and keys, besides those of `entities`, whose rows tell where something of an entity was accepted."""

    def superseded(self, events: Sequence[Any]) -> set[int]:
        """Indices of facts that do not stand, whatever their order."""


def tables_of(urn: Urn) -> tuple[str, ...]:
    """The history tables that tell where something of an entity was accepted."""
    return tuple({name: None for name, _ in _keys(urn)})


def _keys(urn: Urn) -> list[tuple[str, Mapping[str, str]]]:
    """Tables, and what finds the rows in them that tell of an entity: it may end with its aggregate."""
    keys: list[tuple[str, Mapping[str, str]]] = [("entities", {"urn": name}) for name in {str(urn), str(urn.aggregate)}]
    for domain in domains_in(urn.domain):
        module = role(domain.name, "as_of")
        if module is not None and hasattr(module, "positions_in"):
            keys += module.positions_in(urn)
    return keys


def _positions(view: View, tenant: str, urn: Urn, seen: str) -> list[int]:
    """Where the journal accepted something that can touch an entity, ascending."""
    statement = f"select distinct logical_timestamp from rows where {seen}"
    rows = [select_rows(view, name, {"tenant": tenant, **key}, statement) for name, key in _keys(urn)]
    return sorted({position for some in rows for (position,) in some})


def _events_at(view: View, place: PartitionKey, positions: list[int]) -> Iterator[PlacedEvent]:
    """The events at some positions of a journal partition."""
    rows = _journal_rows(view, place, positions) if positions else []
    if len(rows) != len(positions):
        raise OperatorError(
            f"The journal table lacks {len(positions) - len(rows):,} events of {place[0]}/{place[1]} whose rows are "
            "in the history tables, so nothing can be said as of a time.",
            hint="Compare them with `metajournal verify`; the journal topic still contains what is missing.",
        )
    for position, system_time, value in rows:
        header, event, _ = decode(value)
        happened_at = _hook(event, "happened_at", _when_emitted)(header, event)
        yield PlacedEvent(happened_at, At(position, system_time, digest(value)), header, event)


def _journal_rows(view: View, place: PartitionKey, positions: list[int]) -> list[tuple[int, int, bytes]]:
    """Position, system_time in milliseconds and value of each of some records."""
    topic, partition = place
    table = view.journal
    among: Mapping[str, list[Any]] = {
        "topic": [topic], "journal_partition": [partition], "logical_timestamp": positions
    }  # fmt: skip
    paths = possible_files(table, among)
    if not paths:
        return []
    with scan.cursor() as cursor:
        cursor.register("wanted", pa.table({"logical_timestamp": positions}))
        records: list[tuple[int, int, bytes]] = cursor.sql(
            f"""select logical_timestamp, epoch_ms(system_time), event_payload
            from {scan.source(cursor, table, paths)} semi join wanted using (logical_timestamp)
            where topic = $topic and journal_partition = $partition
            and logical_timestamp between {positions[0]} and {positions[-1]}""",
            params={"topic": topic, "partition": partition},
        ).fetchall()
        return records


def _standing(events: Sequence[PlacedEvent]) -> list[PlacedEvent]:
    """The same without the events that others of them supersede whatever their order."""
    gone: set[int] = set()
    by_domain: dict[str, list[int]] = {}
    for index, event in enumerate(events):
        by_domain.setdefault(_domain_of(event.event), []).append(index)
    for domain, indices in by_domain.items():
        module = role(domain, "as_of")
        if module is not None and hasattr(module, "superseded"):
            gone |= {indices[number] for number in module.superseded([events[index].event for index in indices])}
    return [event for index, event in enumerate(events) if index not in gone]


def _domain_of(event: Any) -> str:
    return str(event.TYPE).partition(".")[0]


def _hook(event: Any, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
    """What the event's domain says in its file `as_of`."""
    hook: Callable[..., Any] = getattr(role(_domain_of(event), "as_of"), name, default)
    return hook


def _any(*_: Any) -> bool:
    return True


def _when_emitted(header: Header, _: Any) -> int:
    return header.event_time
