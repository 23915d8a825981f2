"""What is to be told so that the journal holds what a source found: events, entity by entity. Pure.

A source's own are, on each entity: the SYSTEM property `source.<kind>.<id>` (its mark), the properties with its prefix,
and of `description`, `schema` and the SYSTEM tags those that its mark lists. Everything else is somebody else's and
stays: all of scope USER, and what other sources and programs say in SYSTEM. Of two sources that would both say the
description or schema, the one that said it first keeps it.

An entity that is gone is deleted where a source registered it (its `created_by` says so) and no other source has a
mark on it; else only the source's own goes. Nothing goes after a read that was not whole.
Invariant: what a plan's events make of the journal, planned again with the same findings, gives no events; a plan cut
anywhere, planned again, leads to the same end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
from ..domains.lineage.events import READ, WRITE, Access, AccessesRecorded, RunStarted, RunStopped
from ..schemas.errors import InvalidUrnError
from ..schemas.hashing import canonical_json
from ..schemas.limits import MAX_ENTRIES
from ..schemas.urn import Urn
from .found import Found, fitted
from .source import APP, MARK, Identity

SHARED: Final = ("description", "schema")
"""Properties that several sources may know, so that a mark lists whose they are."""
RUN: Final = "run"
"""Behind the prefix: the run by which something is made of other data; what was told of it is not told again."""
BEGUN: Final = "begun_run"
"""Behind the prefix: the run that was begun or is to be; it is noted first, so that one that nothing more was told of
is ended too."""
ENDED: Final = "ended_run"
"""Behind the prefix: the runs that were ended last or are to be, parted by blanks; they are noted first, so that none
is ever taken up again."""
REPLACED: Final = "REPLACED"
DROPPED: Final = "DROPPED"
"""How the run of a view ends that has another definition now, and of one that is gone."""
_KEPT_READS: Final = MAX_ENTRIES - 1  # and the write


class Held(NamedTuple):
    """What the journal holds of an entity.

    Attributes:
        live: whether it is there; if not, it was deleted.
        deleted_at: logical timestamp of its last deletion; 0 where it never was.
        properties, tags: of scope SYSTEM.
    """

    live: bool
    deleted_at: int
    properties: Mapping[str, str]
    tags: tuple[str, ...] = ()


class Mark(NamedTuple):
    """What a source says is its own of an entity, besides the properties with its prefix."""

    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The mark as a property's value."""
        return canonical_json({"keys": list(self.keys), "tags": list(self.tags)}).decode()

    @classmethod
    def read(cls, text: str) -> Mark:
        """The mark of a property's value; an empty one where somebody has written something else there."""
        try:
            value = json.loads(text)
            return cls(*[tuple(sorted(filter(_is_text, value.get(name, ())))) for name in cls._fields])
        except (ValueError, AttributeError, TypeError):
            return cls()


class Change(StrEnum):
    """What becomes of an entity."""

    REGISTER = "register"
    CHANGE = "change"
    DELETE = "delete"
    RELEASE = "release"
    """The source says nothing more of it; it stays, since somebody else registered or describes it."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be told of one entity.

    Attributes:
        notes: events that say which runs are to be begun and ended; they stand in the journal before that is told.
        facts: lineage, which stands there before the events that say it was told.
        events: in their order, all of the entity.
    """

    entity: Urn
    change: Change
    notes: tuple[Any, ...] = ()
    facts: tuple[Any, ...] = ()
    events: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be told, and how much stays as it is.

    Attributes:
        kept: entities that were not found and stay, because the read was not whole.
    """

    steps: list[Step] = field(default_factory=list)
    unchanged: int = 0
    kept: int = 0

    def of(self, change: Change) -> list[Urn]:
        """The entities with which this happens."""
        return [step.entity for step in self.steps if step.change == change]


def plan(source: Identity, found: Iterable[Found], held: Mapping[str, Held], *, whole: bool, at_ms: int) -> Plan:
    """Compare what a source found with what the journal holds.

    Args:
        found: of an entity that comes twice, the first counts.
        held: by URN, at least all that was found or has the source's mark, deleted ones included.
        whole: whether everything was read, so that what was not found is gone.
        at_ms: when the reading began, milliseconds UTC: the time of the facts.
    """
    made, seen = Plan(), set[str]()
    unchanged = kept = 0
    for one in found:
        if one.entity in seen:
            continue
        seen.add(one.entity)
        step = _stated(source, fitted(one), held.get(one.entity), at_ms)
        if step is None:
            unchanged += 1
        else:
            made.steps.append(step)
    for urn, row in held.items():
        if row.live and urn not in seen and is_of(source, row):
            kept += not whole
            if whole:
                made.steps.append(_gone(source, Urn.parse(urn), row, at_ms))
    return Plan(made.steps, unchanged, kept)


def is_of(source: Identity, row: Held) -> bool:
    """Whether a source brought an entity: it has its mark; or none yet, after a kill, and was registered by it."""
    if source.mark in row.properties:
        return True
    return row.properties.get("created_by") == source.actor and not any(key.startswith(MARK) for key in row.properties)


def _stated(source: Identity, found: Found, row: Held | None, at_ms: int) -> Step | None:
    """What is to be told of something that is there; None: nothing."""
    live = row is not None and row.live
    properties: Mapping[str, str] = row.properties if row is not None and live else {}
    tags = row.tags if row is not None and live else ()
    own, others = _mark(source, properties), _others(source, properties)
    shared = {"description": found.description, "schema": _schema_text(found)}
    shared_texts = {key: text for key, text in shared.items() if text and key not in others.keys}
    for key in {*own.keys} & found.keeps & properties.keys():
        shared_texts.setdefault(key, properties[key])
    own_tags = {*found.tags, *(own.tags if "tags" in found.keeps else ())}
    mark = Mark(tuple(sorted(shared_texts)), tuple(sorted(own_tags - {*others.tags})))
    stated = {f"{source.prefix}{key}": value for key, value in found.stated.items()}
    if found.keeps:
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
    """What is to be told of something that is there no more."""
    noted, ending = _noted(source, entity, row, None)
    notes, facts = tuple(noted), tuple(RunStopped(run, at_ms, DROPPED) for run in ending)
    others = _others(source, row.properties)
    marked = any(key.startswith(MARK) and key != source.mark for key in row.properties)
    if not marked and row.properties.get("created_by", "").startswith(f"{APP}/"):
        return Step(entity, Change.DELETE, notes, facts, (EntityDeleted(entity),))
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
    """What other sources say is theirs."""
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
    """What is noted of an entity's runs.

    Attributes:
        told: the run that everything was told of.
        begun: the run that was to be begun last; another than `told` after a kill before its end.
        ended: the runs that were to be ended last.
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
    """A run's URN; None where somebody has written something else there."""
    try:
        urn = Urn.parse(text)
    except InvalidUrnError:
        return None
    return urn if urn.kind == "run" else None


def _noted(source: Identity, entity: Urn, row: Held | None, now: Urn | None) -> tuple[list[Any], list[Urn]]:
    """The note of which runs begin and end, none where nothing is to be noted, and the runs that are to be ended.

    A run that is noted as ended is ended again until nothing of it is left to be told, and never taken up again.
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
    """The run by which something is made of other data now: another one whenever that changes, the same after a kill.

    None where it is made of nothing else, or no URN can hold the name.
    """
    if found.upstreams is None:
        return None
    runs = _Runs.of(source, row)
    content = [
        found.entity,
        *found.upstreams,
        *(f"{name}<{','.join(of)}" for name, of in sorted(found.columns.items())),
    ]
    for known in (runs.begun, runs.told):
        if known is not None and known not in runs.ended and known.name.endswith(f"-{_digest(content)}"):
            return known
    before = [str(0 if row is None else row.deleted_at), *filter(None, (runs.told, runs.begun)), *runs.ended]
    number = f"{_digest(before)}-{_digest(content)}"
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
