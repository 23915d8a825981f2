"""What a search returns back: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ...schemas.positions import Cut
from ...schemas.urn import Urn
from ..documents import DESCRIPTION_KEY
from .explain import Why
from .ranking import Tier

TIER_NAMES: Final[Mapping[Tier, str]] = {
    Tier.EXACT_NAME: "exact name",
    Tier.NAME_WORDS: "every term in the name",
    Tier.EVERY_TERM: "every term",
    Tier.SOME_TERMS: "some terms",
    Tier.TYPING_ERROR: "a similar word",
}


@dataclass(frozen=True, slots=True)
class Hit:
    """One entity found.

    Args:
        urn, kind, namespace, name: which entity.
        tier: the reason for its rank; None if the query asks for everything.
        score: the tier as a number and, after the decimal point, how well it fits inside the tier: comparable within
            one search only. 0 if the query asks for everything.
        why: which of its texts matched: the first of each term, then the second of each, at most 20.
        document: the entity's state document, as the index holds it.
    """

    urn: Urn
    kind: str
    namespace: str | None
    name: str
    tier: Tier | None
    score: float
    why: tuple[Why, ...]
    document: Mapping[str, Any]

    @property
    def entity(self) -> Mapping[str, Any]:
        """The document under its other name."""
        return self.document

    @property
    def description(self) -> str:
        """The description of the entity's registration; empty if it has none."""
        return str(self.document["system"]["properties"].get(DESCRIPTION_KEY, ""))

    @property
    def highlights(self) -> tuple[str, ...]:
        """The matching texts, each match between square brackets."""
        return tuple(why.marked() for why in self.why if why.matched)

    @property
    def unindexed(self) -> str | None:
        """Why only names of this entity are searchable; None if all of it is."""
        reason = self.document.get("unindexed")
        return None if reason is None else str(reason)


class Count(NamedTuple):
    """A value and how many hits have it."""

    value: str
    hits: int


@dataclass(frozen=True, slots=True)
class Results:
    """The answer to a search.

    Args:
        total: how many entities match, exactly.
        hits: this page of them, best first.
        position_vector: how far of the journal the answer includes, at least: next position by topic and partition.
        facets: exact counts over all hits by `kind`, `namespace` and `tag`; empty unless asked for.
        cursor: asks for the next page; None at the end.
        note: what the caller should know about the query; empty most of the time.
    """

    total: int
    hits: tuple[Hit, ...]
    position_vector: Cut
    facets: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)
    cursor: str | None = None
    note: str = ""
