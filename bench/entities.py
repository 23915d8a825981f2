"""Entities as a catalog has them, for figures of the index: varied names, tags, properties, schemas and descriptions.

Their words are those of this Python environment's own metadata, drawn as often as texts use words (a few all the time,
most of them seldom), and the environment's distributions stand among them. The same number gives the same entity, on
any machine that has the same packages installed.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from metajournal.domains.catalog.urns import dataset, program, stream
from metajournal.rules.documents import state_document
from metajournal.rules.entity import EntityRow
from metajournal.schemas.positions import position
from metajournal.schemas.urn import Urn
from metajournal.sources.python_environment import python_environment

PARTITIONS: Final = 4
_EPOCH_MS: Final = 1_760_000_000_000
_KINDS: Final = ("dataset",) * 8 + ("stream", "program")
_TYPES: Final = ("string", "long", "int", "double", "boolean", "timestamp-millis", "null|string", "decimal")
_KEYS: Final = (
    "owner", "team", "source", "retention_days", "Region", "costCenter", "sla", "refresh", "licence", "quality.score",
    "upstream", "contact_mail", "path", "ticket", "classification", "lastReviewedBy", "rows", "format", "steward",
)  # fmt: skip


@lru_cache(maxsize=1)
def _environment() -> tuple[list[Any], list[str], list[float]]:
    """The environment's registrations, its words, and how often each is drawn (summed up)."""
    events = python_environment()
    texts = " ".join(f"{event.description or ''} {' '.join(event.properties.values())}" for event in events)
    words = sorted(set(re.findall(r"[A-Za-z][A-Za-z0-9]{2,14}", texts)))
    random.Random(7).shuffle(words)
    return events, words, list(accumulate(1 / (rank + 3) for rank in range(len(words))))


class _Writer:
    """Draws texts for one entity."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        _, self._words, self._weights = _environment()

    def words(self, count: int) -> list[str]:
        return self.random.choices(self._words, cum_weights=self._weights, k=count)

    def text(self, least: int, most: int) -> str:
        return " ".join(self.words(self.random.randint(least, most)))

    def name(self, number: int) -> str:
        first, second = self.words(2)
        style = self.random.randrange(4)
        if style == 0:
            return f"{first.lower()}_{second.lower()}_{number}"
        if style == 1:
            return f"{first.lower()}{second.capitalize()}{number}"
        return f"{first}.{second}/part-{number:06}" if style == 2 else f"{first}-{second}-{number}"

    def properties(self) -> dict[str, str]:
        return dict(sorted((key, self._value(key)) for key in self.random.sample(_KEYS, self.random.randint(1, 6))))

    def _value(self, key: str) -> str:
        if key in ("owner", "lastReviewedBy", "steward"):
            return " ".join(word.capitalize() for word in self.words(2))
        if key == "contact_mail":
            return "{}.{}@example.org".format(*self.words(2)).lower()
        if key in ("rows", "retention_days", "quality.score", "ticket"):
            return str(self.random.randrange(10**6))
        return "/data/{}/{}/{}".format(*self.words(3)) if key == "path" else self.text(1, 5)

    def tags(self) -> tuple[str, ...]:
        return tuple(
            sorted({"-".join(self.words(1 + (number == 0))).lower() for number in range(self.random.randint(0, 4))})
        )

    def system(self, number: int) -> dict[str, str]:
        properties = {"creation_time": str(_EPOCH_MS + number), "last_update_time": str(_EPOCH_MS + 7 * number)}
        if self.random.random() < 0.7:
            properties["description"] = self.text(5, 40)
        if self.random.random() < 0.4:
            names = dict.fromkeys("_".join(self.words(2)).lower() for _ in range(self.random.randint(2, 12)))
            properties["schema"] = json.dumps([[name, self.random.choice(_TYPES)] for name in names])
        return dict(sorted(properties.items()))

    def urn(self, number: int) -> Urn:
        namespace, name = self.words(1)[0].lower(), self.name(number)
        match self.random.choice(_KINDS):
            case "stream":
                return stream(namespace, name)
            case "program":
                return program(namespace, self.words(1)[0], "spark", name)
        return dataset(namespace, name)


def row(number: int, *, version: int = 0) -> EntityRow:
    """The newest row of the n-th entity; the first ones are this environment's distributions.

    Args:
        version: another content of the same entity, at a greater position.
    """
    events, *_ = _environment()
    draws = _Writer(number)
    entity = draws.urn(number) if number >= len(events) else events[number].entity
    user, tags, system = draws.properties(), draws.tags(), draws.system(number)
    if number < len(events):
        event = events[number]
        user, tags = dict(sorted(event.properties.items())), tuple(sorted(set(event.tags)))
        system = dict(sorted({**system, "description": event.description or ""}.items()))
    if version:
        user = dict(sorted({**user, "version": str(version)}.items()))
    place = position(1, version * 10_000_000 + number)
    identity = f"01900000-0000-7000-8000-{number:012x}"
    named = Urn.parse(entity)
    head = ("bench", str(named), named.kind, named.namespace, named.name, str(named.aggregate))
    time_ms = _EPOCH_MS + number
    return EntityRow(*head, place, 0, time_ms, time_ms, identity, "bench", False, None, user, tags, system, ())


def state(number: int, *, version: int = 0) -> dict[str, Any]:
    """The state document of the n-th entity."""
    return state_document(row(number, version=version), number % PARTITIONS)


def states(count: int) -> Iterator[dict[str, Any]]:
    """The state documents of the first entities."""
    return (state(number) for number in range(count))
