"""Plans the events that bring the journal in line with what a source found, entity by entity. Pure.

On each entity a source owns the SYSTEM property `source.<kind>.<id>` (its mark), the properties with its prefix, and
those of `description`, `schema` and the SYSTEM tags that its mark lists. Everything else belongs to others and stays:
all of scope USER, and what people, other sources and programs set in SYSTEM. Whoever sets the description, the schema
or a tag first keeps it.

An entity that no longer exists is deleted if a source registered it (see its `created_by`) and no other source has a
mark on it; otherwise only the source's own metadata is removed. Nothing is removed after an incomplete read, nor from
an entity that changed after the read began: it may be newer than what the read saw.
Invariant: planning again after a plan's events, with the same findings, gives no events; a plan interrupted anywhere,
planned again, leads to the same result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from ..domains.catalog.events import (
    SYSTEM,
    EntityDeleted,
    EntityRegistered,
    PropertiesRemoved,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)
from ..domains.catalog.urns import run
from ..domains.lineage.events import DEFINITION, READ, WRITE, Access, AccessesRecorded, RunStarted, RunStopped
from ..schemas.errors import InvalidUrnError
from ..schemas.hashing import canonical_json
from ..schemas.limits import MAX_ENTRIES
from ..schemas.positions import Cut, Position, shows
from ..schemas.urn import Urn
from .found import Found, fitted
from .source import APP, MARK, Identity

SHARED: Final = ("description", "schema")
"""Properties that several sources may set, so that the mark lists which ones a source owns."""
RUN: Final = "run"
"""Key after the prefix: the run that represents an entity's lineage; its facts are not emitted again."""
BEGUN: Final = "begun_run"
"""Key after the prefix: the run that was or will be started. It is noted first, so that it is also stopped if nothing
more of it was emitted."""
ENDED: Final = "ended_run"
"""Key after the prefix: the runs that were or will be stopped last, separated by spaces. They are noted first, so that
none is ever resumed."""
REPLACED: Final = "REPLACED"
DROPPED: Final = "DROPPED"
"""Final status of a view's run when its definition has changed, and when the view is gone."""
_KEPT_READS: Final = MAX_ENTRIES - 1  # and the write


Selects = Callable[[Urn, Mapping[str, str]], bool]


def every(_entity: Urn, _properties: Mapping[str, str]) -> bool:
    """A read that is about everything."""
    return True


class Held(NamedTuple):
    """The state of an entity in the journal.

    Attributes:
        live: whether it exists; if not, it was deleted.
        deleted_at: logical timestamp of its last deletion; 0 if it never was deleted.
        properties, tags: of scope SYSTEM.
        newest: position of its last change; None: not known.
    """

    live: bool
    deleted_at: int
    properties: Mapping[str, str]
    tags: tuple[str, ...] = ()
    newest: Position | None = None


class Mark(NamedTuple):
    """What a source owns of an entity, besides the properties with its prefix."""

    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The mark as a property's value."""
        return canonical_json({"keys": list(self.keys), "tags": list(self.tags)}).decode()

    @classmethod
    def read(cls, text: str) -> Mark:
        """The mark of a property's value; an empty one if somebody has written something else there."""
        try:
            value = json.loads(text)
            return cls(*[tuple(sorted(filter(_is_text, value.get(name, ())))) for name in cls._fields])
        except (ValueError, AttributeError, TypeError):
            return cls()


class Change(StrEnum):
    """What happens to an entity, in the word for what was done."""

    REGISTER = "registered"
    CHANGE = "changed"
    DELETE = "deleted"
    RELEASE = "released"
    """The source's metadata is removed; the entity stays, since somebody else registered or describes it."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be emitted about one entity.

    Attributes:
        notes: events that note which runs are to start and stop; they must be in the journal first.
        facts: lineage, which must be there before the events that say it was emitted.
        events: in their order, all of the entity.
        expected: of a deletion, logical timestamp of the row that was compared; None: no condition.
    """

    entity: Urn
    change: Change
    notes: tuple[Any, ...] = ()
    facts: tuple[Any, ...] = ()
    events: tuple[Any, ...] = ()
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be emitted, and how much is unchanged.

    Attributes:
        kept: entities that were not found and stay, because the read was incomplete, or they changed after it began.
        unselected: entities that stay because the read was not about them.
    """

    steps: list[Step]
    unchanged: int
    kept: int
    unselected: int = 0

    def of(self, change: Change) -> list[Urn]:
        """The entities to which this happens."""
        return [step.entity for step in self.steps if step.change == change]


def plan(
    source: Identity, found: Iterable[Found], held: Mapping[str, Held], *, whole: bool, at_ms: int,
    selects: Selects = every, since: Cut | None = None,
) -> Plan:  # fmt: skip
    """Compare what a source found with the contents of the journal.

    Args:
        found: if an entity comes twice, the first one counts.
        held: by URN, at least all that was found or has the source's mark, deleted ones included.
        whole: whether everything was read, so that what was not found no longer exists.
        at_ms: when the read began, milliseconds UTC: the time of the facts.
        selects: whether the read was about an entity that the source brought in; others are never deleted.
        since: the journal's end when the read began: what changed behind it, by another run of this source for example,
            is not deleted. Positions depend on no clock. None: there is no such condition.
    """
    steps, seen = list[Step](), set[str]()
    unchanged = kept = unselected = 0
    for one in found:
        if one.entity in seen:
            continue
        seen.add(one.entity)
        step = _stated(source, one, held.get(one.entity), at_ms)
        if step is None:
            unchanged += 1
        else:
            steps.append(step)
    for urn, row in held.items():
        if row.live and urn not in seen and is_of(source, row):
            entity = Urn.parse(urn)
            if not whole or _is_newer(row, since):
                kept += 1
            elif not selects(entity, row.properties):
                unselected += 1
            else:
                steps.append(_gone(source, entity, row, at_ms))
    return Plan(steps, unchanged, kept, unselected)


def _is_newer(row: Held, since: Cut | None) -> bool:
    return since is not None and row.newest is not None and not shows(since, row.newest)


def is_of(source: Identity, row: Held) -> bool:
    """Whether a source brought in an entity: it has its mark or, after a kill, no mark but was registered by it."""
    if source.mark in row.properties:
        return True
    return row.properties.get("created_by") == source.actor and not any(key.startswith(MARK) for key in row.properties)


def _stated(source: Identity, found: Found, row: Held | None, at_ms: int) -> Step | None:
    """What is to be emitted about an existing entity; None: nothing."""
    live = row is not None and row.live
    properties: Mapping[str, str] = row.properties if row is not None and live else {}
    tags = row.tags if row is not None and live else ()
    found = fitted(found.beside(properties))
    own, others = _mark(source, properties), _others(source, properties)
    shared = {"description": found.description, "schema": _schema_text(found)}
    shared_texts = {
        key: text for key, text in shared.items()
        if text and key not in others.keys and (key in own.keys or properties.get(key, text) == text)
    }  # fmt: skip
    for key in {*own.keys} & found.keeps & properties.keys():
        shared_texts.setdefault(key, properties[key])
    own_tags = {*found.tags, *(own.tags if "tags" in found.keeps else ())} - ({*tags} - {*own.tags})
    mark = Mark(tuple(sorted(shared_texts)), tuple(sorted(own_tags - {*others.tags})))
    stated = {f"{source.prefix}{key}": value for key, value in found.stated.items()}
    if found.keeps or found.leaves:
        own_keys = (key for key in properties if key.startswith(source.prefix))
        kept = {key: properties[key] for key in own_keys if found.is_kept(key.removeprefix(source.prefix))}
        stated = {**kept, **stated}
    now = _run(source, found, row)
    notes, ending = _noted(source, found.entity, row, now)
    facts: list[Any] = [RunStopped(run, at_ms, REPLACED) for run in ending]
    facts += [] if now is None or properties.get(f"{source.prefix}{RUN}") == now else _begun(found, now, at_ms)
    if now is not None:
        stated |= {f"{source.prefix}{key}": str(now) for key in (RUN, BEGUN)}
    if notes and not live:
        notes.insert(0, EntityRegistered(found.entity))
    for note in notes[-1:]:
        properties = {**properties, **note.properties}
    if (ended_key := f"{source.prefix}{ENDED}") in properties:
        stated[ended_key] = properties[ended_key]
    wanted = {**stated, **shared_texts, source.mark: mark.text}
    before = {key for key in properties if key.startswith(source.prefix)} | (set(own.keys) - set(others.keys))
    events: list[Any] = []
    if not live and not notes:
        events.append(EntityRegistered(found.entity))  # the rest comes in one event, so that it is one change
    new = {key: value for key, value in wanted.items() if properties.get(key) != value}
    events += _removed(found.entity, (before & properties.keys()) - wanted.keys())
    gone_tags = (set(own.tags) - set(mark.tags) - set(others.tags)) & set(tags)
    events += [TagsRemoved(found.entity, sorted(gone_tags), scope=SYSTEM)] if gone_tags else []
    # What the mark lists goes before the mark, and comes after it: a kill leaves nothing that nobody lists.
    events += [PropertiesSet(found.entity, some, SYSTEM) for some in _pieces(new, first=source.mark)]
    new_tags = set(mark.tags) - set(tags)
    events += [TagsAdded(found.entity, sorted(new_tags), scope=SYSTEM)] if new_tags else []
    if not events:
        return None
    return Step(found.entity, Change.CHANGE if live else Change.REGISTER, tuple(notes), tuple(facts), tuple(events))


def _gone(source: Identity, entity: Urn, row: Held, at_ms: int) -> Step:
    """What is to be emitted about an entity that no longer exists."""
    noted, ending = _noted(source, entity, row, None)
    notes, facts = tuple(noted), tuple(RunStopped(run, at_ms, DROPPED) for run in ending)
    others = _others(source, row.properties)
    marked = any(key.startswith(MARK) and key != source.mark for key in row.properties)
    if not marked and row.properties.get("created_by", "").startswith(f"{APP}/"):
        expected = None if row.newest is None else row.newest.value
        return Step(entity, Change.DELETE, notes, facts, (EntityDeleted(entity),), expected)
    own = _mark(source, row.properties)
    ended_key = f"{source.prefix}{ENDED}"
    keys = {key for key in row.properties if key.startswith(source.prefix)} | {source.mark}
    keys |= set(own.keys) - set(others.keys)
    keys -= {ended_key}
    tags = (set(own.tags) - set(others.tags)) & set(row.tags)
    events: list[Any] = [TagsRemoved(entity, sorted(tags), scope=SYSTEM)] if tags else []
    events += _removed(entity, keys & row.properties.keys(), last=source.mark)
    return Step(entity, Change.RELEASE, notes, facts, tuple(events))


def _mark(source: Identity, properties: Mapping[str, str]) -> Mark:
    return Mark.read(properties.get(source.mark, ""))


def _others(source: Identity, properties: Mapping[str, str]) -> Mark:
    """What other sources own."""
    marks = [Mark.read(value) for key, value in properties.items() if key.startswith(MARK) and key != source.mark]
    return Mark(tuple(key for mark in marks for key in mark.keys), tuple(tag for mark in marks for tag in mark.tags))


def _removed(entity: Urn, keys: Iterable[str], last: str = "") -> list[PropertiesRemoved]:
    """The removal of properties, the last one in the last event."""
    names = sorted(keys, key=lambda key: (key == last, key))
    return [
        PropertiesRemoved(entity, names[start : start + MAX_ENTRIES], scope=SYSTEM)
        for start in range(0, len(names), MAX_ENTRIES)
    ]


def _pieces(properties: Mapping[str, str], first: str) -> list[dict[str, str]]:
    """Properties as events take them, the first one in the first event."""
    pairs = sorted(properties.items(), key=lambda pair: (pair[0] != first, pair[0]))
    return [dict(pairs[start : start + MAX_ENTRIES]) for start in range(0, len(pairs), MAX_ENTRIES)]


def _schema_text(found: Found) -> str | None:
    """The schema as the rules keep it, so that it can be compared with what is held."""
    return None if found.schema is None else canonical_json([list(column) for column in found.schema]).decode()


# Lineage of what is made of other data by its definition: one run, from when it was first seen to when it is no more.


class _Runs(NamedTuple):
    """What is noted about an entity's runs.

    Attributes:
        told: the run whose facts were all emitted.
        begun: the run to start last; different from `told` after a kill in between.
        ended: the runs to stop last.
    """

    told: Urn | None
    begun: Urn | None
    ended: tuple[Urn, ...]

    @classmethod
    def of(cls, source: Identity, row: Held | None) -> _Runs:
        properties = row.properties if row is not None and row.live else {}
        told, begun, ended = (
            tuple(filter(None, map(_as_run, properties.get(f"{source.prefix}{key}", "").split())))
            for key in (RUN, BEGUN, ENDED)
        )
        return cls(next(iter(told), None), next(iter(begun), None), ended)


def _as_run(text: str) -> Urn | None:
    """A run's URN; None if somebody has written something else there."""
    try:
        urn = Urn.parse(text)
    except InvalidUrnError:
        return None
    return urn if urn.kind == "run" else None


def _noted(source: Identity, entity: Urn, row: Held | None, now: Urn | None) -> tuple[list[Any], list[Urn]]:
    """The note of which runs start and stop (none if there is nothing to note), and the runs to stop.

    A run that is noted as stopped is stopped again until all of it is emitted, and never resumed.
    """
    told, begun, ended = _Runs.of(source, row)
    killed = begun is not None and begun != told
    ending = [run for run in dict.fromkeys((*(ended if killed else ()), told, begun)) if run is not None and run != now]
    note = {}
    if ending and not {*ending} <= {*ended}:
        note[f"{source.prefix}{ENDED}"] = " ".join(ending)
    if now is not None and begun != now:
        note[f"{source.prefix}{BEGUN}"] = str(now)
    if note and (row is None or not row.live or source.mark not in row.properties):
        note[source.mark] = Mark().text  # or nobody would know whose the note is, after a kill
    return ([PropertiesSet(entity, note, SYSTEM)] if note else []), ending


def _run(source: Identity, found: Found, row: Held | None) -> Urn | None:
    """The run that represents an entity's present lineage: a new one whenever that changes, the same after a kill.

    None if the entity reads nothing, or its name does not fit into a URN.
    """
    runs = _Runs.of(source, row)
    if found.upstreams is None:
        return runs.told if found.is_kept(RUN) else None
    content = [
        found.entity,
        *found.upstreams,
        *(f"{name}<{','.join(of)}" for name, of in sorted(found.columns.items())),
    ]
    for known in (runs.begun, runs.told):
        if known is not None and known not in runs.ended and known.name.endswith(f"-{_digest(content)}"):
            return known
    before = [str(0 if row is None else row.deleted_at), *filter(None, (runs.told, runs.begun)), *runs.ended]
    number = f"{DEFINITION}{_digest(before)}-{_digest(content)}"
    try:
        return run(found.entity.parts[0], found.entity.name, "workflow", found.made_by, number)
    except InvalidUrnError:
        return None


def _begun(found: Found, now: Urn, at_ms: int) -> list[Any]:
    """The facts of a run that begins."""
    reads = [Access(data, READ, at_ms) for data in (found.upstreams or ())[:_KEPT_READS]]
    wrote = Access(found.entity, WRITE, at_ms)
    return [RunStarted(now, at_ms), AccessesRecorded(now, [*reads, wrote])]


def _digest(texts: Iterable[str]) -> str:
    return blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _is_text(value: object) -> bool:
    return isinstance(value, str)
