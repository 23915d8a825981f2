"""What facets that come in any order make of an entity: the latest of each stands, with its time. Pure.

`schema` and `documentation` of data become its schema and description, every other facet a SYSTEM property
`openlineage.<facet>`; `openlineage.times` says when each was so. Of the facets of one name the latest stands, of equal
times the one with the greater digest, so the order of arrival decides nothing. Schema and description of data that was
only read are a stopgap: whatever else says one wins, and among themselves the earliest stands, since readers see parts.
Invariant: a facet that says what stands already moves its time only by an hour or more, so runs that repeat themselves
write nothing; whoever remembers the repetitions (`remembered`) still gets the order right in between.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from ...schemas.events.base import text_fault
from ...schemas.hashing import canonical_json
from ...schemas.limits import MAX_ENTRIES, MAX_KEY_BYTES
from ...schemas.untrusted import json_object
from .facets import DOCUMENTATION, SCHEMA, Described, Side, columns_of, description_of, is_removal, listed

PREFIX: Final = "openlineage."
TIMES: Final = f"{PREFIX}times"
MOST_BYTES: Final = 64 * 1024
"""Largest facet that is kept, bytes of its property."""
MOST_SCHEMA_BYTES: Final = 256 * 1024
"""Largest schema or description that is kept."""
AGAIN_MS: Final = 3_600_000
"""How far the time of a facet that stands moves at least."""
_NAME_BYTES: Final = MAX_KEY_BYTES - len(PREFIX)
MOST_FACETS: Final = MAX_ENTRIES // 2
"""Most facets of an entity that one event adds: a property each, and the times."""
_KNOWN_BYTES: Final = 32 * 1024
"""Largest schema facet whose text is remembered, as `marshal` writes it: that takes a quarter of the time of JSON."""
_NO_REFERENCES: Final = 2
"""The version of `marshal` that writes equal values with equal bytes, whichever texts are the same object."""
_INPUT: Final = "input"
_NEVER_MS: Final = -(1 << 62)


class Standing(NamedTuple):
    """What a facet is compared by: the greater one stands.

    Attributes:
        weight: 0 for schema and description of data that was only read, else 1.
        order: its time, milliseconds UTC; negative where the earliest stands.
        digest: of its text; empty where it was removed.
    """

    weight: int
    order: float
    digest: bytes


class Facet(NamedTuple):
    """One facet of an entity, as an event says it.

    Attributes:
        name: the facet's.
        key: of the property that it becomes.
        text: the property; None: the facet is no more.
        at_ms: when it was so, milliseconds UTC.
        is_stopgap: whether it is a schema or description of data that was only read.
    """

    name: str
    key: str
    text: str | None
    at_ms: int
    is_stopgap: bool = False

    @property
    def standing(self) -> Standing:
        """What it is compared by."""
        return _standing(self.at_ms, self.text, is_stopgap=self.is_stopgap)


class Stood(NamedTuple):
    """What stands of a facet after an update, or without one.

    Attributes:
        standing: of the latest that is known.
        at_ms: the time that the entity's properties have for it.
    """

    standing: Standing
    at_ms: int

    def has(self, facet: Facet, now: Standing) -> bool:
        """Whether a facet changes nothing: a later one stands, or it says the same at about the same time.

        Args:
            now: what it is compared by.
        """
        return now <= self.standing or (
            (now.weight, now.digest) == (self.standing.weight, self.standing.digest)
            and abs(facet.at_ms - self.at_ms) < AGAIN_MS
        )


class Omitted(NamedTuple):
    """A facet that is not kept.

    Attributes:
        name: the facet's.
        reason: one word, or a few.
    """

    name: str
    reason: str


class Update(NamedTuple):
    """What is to be written to an entity.

    Attributes:
        properties: to be set, the times included.
        removed: keys to be removed before.
    """

    properties: dict[str, str]
    removed: tuple[str, ...]


def facets_of(one: Described, at_ms: int) -> tuple[list[Facet], list[Omitted]]:
    """The facets of an entity, as they are kept, and those that are not.

    Args:
        at_ms: when the event happened, milliseconds UTC.
    """
    kept: dict[str, Facet] = {}
    omitted: list[Omitted] = []
    for name, facet in [*one.facets.items(), *one.of_side]:
        try:
            found = _facet(one.side, name, facet, at_ms)
        except (ValueError, RecursionError):  # a number or text that JSON in UTF-8 cannot carry
            omitted.append(Omitted(name, "not-json"))
            continue
        if found is None:
            continue
        why = _why_not(found) if name in kept or len(kept) < MOST_FACETS else "too-many"
        if why is not None:
            omitted.append(Omitted(name, why))
            continue
        if kept.get(name, found) != found:  # what a run says of the data as it had them is the nearer
            omitted.append(Omitted(name, "twice"))
        kept[name] = found
    return list(kept.values()), omitted


def together(said: Iterable[tuple[Side, Sequence[Facet]]]) -> list[Facet]:
    """The facets of one entity that an event names several times.

    Of data that a run reads and writes, what is said of them as written stands: what was read is gone by then.
    """
    told = list(said)
    if len(told) == 1:
        return list(told[0][1])
    written = {facet.name for side, facets in told if side is not Side.INPUT for facet in facets}
    return [facet for side, facets in told for facet in facets if side is not Side.INPUT or facet.name not in written]


def bounded(facets: Sequence[Facet]) -> tuple[list[Facet], list[Omitted]]:
    """Those of the first `MOST_FACETS` names, and what is left out for that."""
    names = frozenset(list(dict.fromkeys(facet.name for facet in facets))[:MOST_FACETS])
    kept = [facet for facet in facets if facet.name in names]
    return kept, [Omitted(facet.name, "too-many") for facet in facets if facet.name not in names]


def _facet(side: Side, name: str, facet: Mapping[str, Any], at_ms: int) -> Facet | None:
    """One facet; None: it says nothing. Raises: ValueError, RecursionError: it cannot be written as JSON."""
    is_data = side in (Side.DATASET, Side.INPUT, Side.OUTPUT)
    key = {SCHEMA: "schema", DOCUMENTATION: "description"}.get(name) if is_data else None
    if is_removal(facet):
        if key is not None and side is Side.INPUT:
            return None
        return Facet(name, key or f"{PREFIX}{name}", None, at_ms)
    if key is None:
        return Facet(name, f"{PREFIX}{name}", canonical_json(facet).decode(), at_ms)
    text = _schema_text(facet) if name == SCHEMA else description_of(facet)
    return None if text is None else Facet(name, key, text, at_ms, side is Side.INPUT)


def _schema_text(facet: Mapping[str, Any]) -> str | None:
    """The columns as a registration's schema is kept; None: it has none. Runs say the same ones again and again.

    Those of nested columns are not remembered: they may be far longer than what says them.
    """
    is_flat = not any(field.get("fields") for field in listed(facet, "fields") if isinstance(field, dict))
    said = marshal.dumps(facet, _NO_REFERENCES) if is_flat and type(facet) is dict else b""
    return _known_schema(said) if 0 < len(said) <= _KNOWN_BYTES else _text_of_schema(facet)


@lru_cache(maxsize=1024)
def _known_schema(facet: bytes) -> str | None:
    return _text_of_schema(marshal.loads(facet))


def _text_of_schema(facet: Mapping[str, Any]) -> str | None:
    canonical_json(facet)  # raises where any of it cannot be written
    return _text_of_columns(facet)


def _text_of_columns(facet: Mapping[str, Any]) -> str | None:
    """The columns as a text; one that is too large, in characters, ends behind its limit."""
    columns, size = [], 0
    for name, kind, _ in columns_of(facet):
        columns.append([name, kind])
        size += len(name) + len(kind)
        if size > MOST_SCHEMA_BYTES:
            break
    return canonical_json(columns).decode() if columns else None


def _why_not(facet: Facet) -> str | None:
    """Why a facet is not kept."""
    if facet.key == TIMES or text_fault(facet.name, empty=False, limit_bytes=_NAME_BYTES) is not None:
        return "not-a-name"
    if facet.text is None or text_fault(facet.text, limit_bytes=_most_bytes(facet)) is None:
        return None
    return "too-large" if text_fault(facet.text) is None else "not-json"


def _most_bytes(facet: Facet) -> int:
    return MOST_BYTES if facet.key.startswith(PREFIX) else MOST_SCHEMA_BYTES


def update_of(properties: Mapping[str, str], facets: Iterable[Facet]) -> tuple[Update | None, dict[str, Stood]]:
    """What facets change of an entity, and what then stands of each of them.

    Args:
        properties: of the entity, of scope SYSTEM.
        facets: of the entity, in any order.
    """
    times = _times(properties.get(TIMES, ""))
    stood: dict[str, Stood] = {}
    new: dict[str, str] = {}
    removed: list[str] = []
    for facet in latest(facets):
        before = _stood(times.get(facet.name), properties.get(facet.key))
        if before is not None and before.has(facet, facet.standing):
            stood[facet.name] = before._replace(standing=max(before.standing, facet.standing))
            continue
        if facet.text is not None:
            new[facet.key] = facet.text
        elif facet.key in properties:
            removed.append(facet.key)
        times[facet.name] = _Time(facet.at_ms, facet.is_stopgap)
        stood[facet.name] = Stood(facet.standing, facet.at_ms)
        new[TIMES] = ""
    if not new:
        return None, stood
    new[TIMES] = _times_text(times)
    return Update(new, tuple(removed)), stood


def as_late(properties: Mapping[str, str], at_ms: Mapping[str, int]) -> frozenset[str]:
    """Of some facets those that stand at the same time or a later one; no stopgaps.

    Args:
        properties: of the entity, of scope SYSTEM.
        at_ms: the time of each facet by its name, milliseconds UTC.
    """
    times = _times(properties.get(TIMES, ""))
    known = {name: times[name] for name in at_ms.keys() & times.keys() if not times[name].is_stopgap}
    return frozenset(name for name, time in known.items() if time.at_ms >= at_ms[name])


class _Time(NamedTuple):
    """The time of a facet, as an entity's properties have it."""

    at_ms: int
    is_stopgap: bool


def latest(facets: Iterable[Facet]) -> Sequence[Facet]:
    """Of each name the one that stands."""
    newest: dict[str, Facet] = {}
    for facet in facets:
        other = newest.get(facet.name)
        if other is None or facet.standing > other.standing:
            newest[facet.name] = facet
    return list(newest.values())


def _stood(time: _Time | None, text: str | None) -> Stood | None:
    """What stands of a facet; what somebody else says stands before stopgaps, and after all that has a time."""
    if time is not None:
        return Stood(_standing(time.at_ms, text, is_stopgap=time.is_stopgap), time.at_ms)
    return None if text is None else Stood(Standing(1, float("-inf"), _digest(text)), _NEVER_MS)


def _standing(at_ms: int, text: str | None, *, is_stopgap: bool) -> Standing:
    return Standing(0, -at_ms, _digest(text)) if is_stopgap else Standing(1, at_ms, _digest(text))


def _digest(text: str | None) -> bytes:
    return b"" if text is None else blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _times(text: str) -> dict[str, _Time]:
    """The times by facet; none where somebody has written something else there."""
    try:
        said = json_object(text.encode())
    except ValueError:
        return {}
    times = {name: (value[_INPUT], True) if _is_stopgap(value) else (value, False) for name, value in said.items()}
    return {name: _Time(at_ms, is_stopgap) for name, (at_ms, is_stopgap) in times.items() if type(at_ms) is int}


def _is_stopgap(value: Any) -> bool:
    return isinstance(value, dict) and _INPUT in value


def _times_text(times: Mapping[str, _Time]) -> str:
    return canonical_json({name: {_INPUT: at} if stopgap else at for name, (at, stopgap) in times.items()}).decode()
