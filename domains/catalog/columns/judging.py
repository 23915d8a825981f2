"""The catalog's rules over columns: what the commonest events do to many entities at once, without an object for each.

The same rules as `catalog`, which stay the judge of everything that is not plain: no event here has a precondition, is
invalid, may be a duplicate, touches another entity than its aggregate, or brings an entity near its greatest size (who
calls has left those out, with all other events of their aggregates). What may be left out is not decided here.

Every entity has *places* in time: one before the first of its events, and one for each event. A property or tag that
is set at a place is held until the same name is set or removed again, or a later event clears its scope, or the entity
ends; a row holds what is held at its place. An event has changed its entity where something begins or ends to be held.

Needs numpy (extra `stream`), and is imported by nothing that the light client needs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from ....schemas.encoding.cursor import Numbers

ANNOTATED, REGISTERED, DELETED = 0, 1, 2
ACCEPTED, UNCHANGED, REJECTED = 0, 1, 2
USER_PROPERTIES, USER_TAGS, SYSTEM_PROPERTIES, SYSTEM_TAGS = range(4)
SPACES: Final = 4
REMOVED: Final = -1


class Operations(NamedTuple):
    """What is set or removed.

    Attributes:
        at: number of the event; of what was held before: number of the entity.
        name: number of the space times the number of names, and the name's rank among all names.
        value: number of the value, or REMOVED; tags have any number, the same for all.
    """

    at: Numbers
    name: Numbers
    value: Numbers


class Clears(NamedTuple):
    """Spaces that events clear: number of the event, and the space."""

    at: Numbers
    space: Numbers


class Kept(NamedTuple):
    """The SYSTEM properties that the fold keeps: the names' numbers, and what each event would write into them.

    Attributes:
        times: the value that is each event's system_time.
        actors: the value that is each event's actor, or REMOVED.
    """

    creation_time: int
    created_by: int
    last_update_time: int
    last_updated_by: int
    times: Numbers
    actors: Numbers

    @property
    def names(self) -> tuple[int, int, int, int]:
        return self.creation_time, self.created_by, self.last_update_time, self.last_updated_by


class Held(NamedTuple):
    """What the new rows hold of one space: sorted by row, and by name within it.

    Attributes:
        row: number of the row, by the events' order.
        name, value: as in Operations.
    """

    row: Numbers
    name: Numbers
    value: Numbers


class Judged(NamedTuple):
    """What became of the events.

    Attributes:
        outcome: of each event.
        spaces: what the rows of the accepted ones hold in each space.
        begun, ended: what a row holds that the one before it did not, and what that one held and this does not; of what
            has another value, both. Without what the fold keeps. `at` is the number of the row, by the events' order.
    """

    outcome: Numbers
    spaces: tuple[Held, ...]
    begun: Operations
    ended: Operations


def judge(
    entity: Numbers,
    kind: Numbers,
    live: Numbers,
    names: int,
    held: Operations,
    operations: Operations,
    clears: Clears,
    kept: Kept,
    same: Callable[[Numbers, Numbers], Numbers],
) -> Judged:
    """Judge plain events.

    Args:
        entity: number of each event's entity, in the events' order; every number from 0 on has an event.
        kind: of each event: ANNOTATED, REGISTERED or DELETED.
        live: of each entity, whether it is there before.
        names: how many names there are.
        held: what the live entities hold before.
        same: whether the values of these numbers are the same as those of the others.
    """
    places = _Places(entity, len(live))
    was_live = places.live_before(kind, live)
    rejected = (kind == ANNOTATED) & ~was_live
    created = (kind == REGISTERED) & ~was_live
    ended = (kind == DELETED) & was_live
    stamps = _stamps(kept, np.flatnonzero(kind != DELETED), np.flatnonzero(created))
    judged, cleared = ~rejected[operations.at], ~rejected[clears.at]
    at = [places.first[held.at], *(places.of[one.at] for one in stamps), places.of[operations.at[judged]]]
    name = [held.name, *(one.name for one in stamps), operations.name[judged]]
    value = [held.value, *(one.value for one in stamps), operations.value[judged]]
    spans = _spans(np.concatenate(at), np.concatenate(name), np.concatenate(value), places.count)
    ends = _ends(places, names, spans, clears.at[cleared], clears.space[cleared], np.flatnonzero(ended), kept)
    begun, gone = _differences(places, spans, ends, kept, same)
    changed = np.zeros(places.count, np.bool_)
    changed[begun.at] = changed[gone.at] = True
    accepted = created | ended | changed[places.of]
    outcome = np.where(accepted, ACCEPTED, np.where(rejected, REJECTED, UNCHANGED))
    rows = _Rows(places, accepted)
    spaces = tuple(_held(rows, names, spans, ends))
    return Judged(outcome, spaces, begun._replace(at=rows.at(begun.at)), gone._replace(at=rows.at(gone.at)))


class _Places:
    """The places in time of all entities, one entity's behind the other's.

    Attributes:
        count: of all places.
        first: of each entity, the place before its events.
        of: the place of each event.
        end: of each place, the one behind its entity's last.
    """

    def __init__(self, entity: Numbers, entities: int) -> None:
        events = np.bincount(entity, minlength=entities)
        behind = np.cumsum(events + 1)
        self.count = int(behind[-1]) if entities else 0
        self.first = behind - events - 1
        self.by_entity = np.argsort(_narrow(entity, entities), kind="stable")
        self.of = np.empty(len(entity), np.int64)
        self.of[self.by_entity] = np.arange(1, len(entity) + 1) + entity[self.by_entity]
        self.end = np.repeat(behind, events + 1)

    def live_before(self, kind: Numbers, live: Numbers) -> Numbers:
        """Of each event, whether its entity is there before it."""
        life = np.zeros(self.count, np.int8)
        life[self.first] = np.where(live, REGISTERED, DELETED)
        life[self.of] = kind
        newest = np.maximum.accumulate(np.where(life != ANNOTATED, np.arange(self.count), 0))
        found: Numbers = life[newest[self.of - 1]] == REGISTERED
        return found


def _narrow(numbers: Numbers, limit: int) -> Numbers:
    """The same numbers in the narrowest type: up to 16 bits they are sorted without comparing any."""
    return numbers.astype(np.uint16 if limit <= 1 << 16 else np.int64)


def _stamps(kept: Kept, writes: Numbers, created: Numbers) -> list[Operations]:
    """What the fold keeps of who wrote last and first, and when. (What no row is made of is never looked at.)"""

    def one(at: Numbers, name: int, values: Numbers) -> Operations:
        return Operations(at, np.full(len(at), name), values[at])

    return [
        one(writes, kept.last_update_time, kept.times),
        one(writes, kept.last_updated_by, kept.actors),
        one(created, kept.creation_time, kept.times),
        one(created, kept.created_by, kept.actors),
    ]


def _spans(at: Numbers, name: Numbers, value: Numbers, places: int) -> Operations:
    """Operations by name, and by place within it; so those of one entity on one name stand side by side.

    Where an event names one twice, the last time counts.
    """
    key = name * places + at
    order = np.argsort(key)
    again = key[order[1:]] == key[order[:-1]]
    if again.any():
        order = np.argsort(key, kind="stable")
        order = order[np.append(~again, True)]
    return Operations(at[order], name[order], value[order])


class _Ends(NamedTuple):
    """Where what is set ends to be held.

    Attributes:
        follows: whether the operation before is on the same name of the same entity.
        next: place of the next operation on it, or behind its entity's last.
        clear: place of the next event that clears it; that may be another entity's.
    """

    follows: Numbers
    next: Numbers
    clear: Numbers


def _ends(
    places: _Places, names: int, spans: Operations, at: Numbers, space: Numbers, ended: Numbers, kept: Kept
) -> _Ends:
    end = places.end[spans.at]
    follows = np.zeros(len(spans.at), np.bool_)
    follows[1:] = (spans.name[1:] == spans.name[:-1]) & (end[1:] == end[:-1])
    following = end.copy()
    following[:-1] = np.where(follows[1:], spans.at[1:], end[:-1])
    clear = np.full(len(spans.at), places.count)
    for number in range(SPACES):
        of_space = slice(*np.searchsorted(spans.name, [number * names, (number + 1) * names]).tolist())
        cleared = np.concatenate([places.of[at[space == number]], places.of[ended]])
        clear[of_space] = _next(np.sort(cleared), spans.at[of_space], places.count)
    for name in kept.names:
        of_name = slice(*np.searchsorted(spans.name, [name, name + 1]).tolist())
        clear[of_name] = _next(np.sort(places.of[ended]), spans.at[of_name], places.count)
    return _Ends(follows, following, clear)


def _next(marks: Numbers, at: Numbers, none: int) -> Numbers:
    """The first of sorted marks behind each place."""
    found: Numbers = np.append(marks, none)[np.searchsorted(marks, at, side="right")]
    return found


def _differences(
    places: _Places, spans: Operations, ends: _Ends, kept: Kept, same: Callable[[Numbers, Numbers], Numbers]
) -> tuple[Operations, Operations]:
    """What begins and what ends to be held at the place of an event, but for what the fold keeps."""
    own = ~np.isin(spans.name, kept.names)
    is_set = spans.value != REMOVED
    before = np.zeros(len(own), np.bool_)
    # An event that clears a space and sets a name of it anew has at most another value for that name.
    before[1:] = ends.follows[1:] & is_set[:-1] & (ends.clear[:-1] >= spans.at[1:])
    was = np.flatnonzero(before & is_set & own)
    differs = was[spans.value[was] != spans.value[was - 1]]
    if len(differs):
        differs = differs[~same(spans.value[differs], spans.value[differs - 1])]
    begins, ceases = own & is_set & ~before, own & ~is_set & before
    begins[differs] = ceases[differs] = True
    first = np.zeros(places.count, np.bool_)
    first[places.first] = True
    begins &= ~first[spans.at]
    cleared = own & is_set & (ends.clear < ends.next)
    gone = np.concatenate([np.flatnonzero(ceases) - 1, np.flatnonzero(cleared)])
    ended_at = np.concatenate([spans.at[ceases], ends.clear[cleared]])
    begun = Operations(spans.at[begins], spans.name[begins], spans.value[begins])
    return begun, Operations(ended_at, spans.name[gone], spans.value[gone])


class _Rows:
    """The rows of the accepted events, and where in time they stand.

    Attributes:
        count: of rows.
        before: of each place and the end, how many rows stand before it.
        by_place: the number of each row, by place.
    """

    def __init__(self, places: _Places, accepted: Numbers) -> None:
        self.count = int(np.count_nonzero(accepted))
        events = places.by_entity[accepted[places.by_entity]]
        self.by_place = (np.cumsum(accepted) - 1)[events]
        self.before = np.zeros(places.count + 1, np.int64)
        self.before[places.of[events] + 1] = 1
        np.cumsum(self.before, out=self.before)

    def at(self, places: Numbers) -> Numbers:
        """The rows that stand at places."""
        found: Numbers = self.by_place[self.before[places]]
        return found


def _held(rows: _Rows, names: int, spans: Operations, ends: _Ends) -> list[Held]:
    before = rows.before
    first = before[spans.at]
    count = np.where(spans.value == REMOVED, 0, before[np.minimum(ends.next, ends.clear)] - first)
    bounds = np.searchsorted(spans.name, np.arange(SPACES + 1) * names).tolist()
    found = []
    for start, stop in pairwise(bounds):
        counts = count[start:stop]
        which = np.repeat(np.arange(start, stop), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        row = rows.by_place[first[which] + within]
        order = np.argsort(_narrow(row, rows.count), kind="stable")
        chosen = which[order]
        found.append(Held(row[order], spans.name[chosen], spans.value[chosen]))
    return found
