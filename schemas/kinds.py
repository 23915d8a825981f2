"""The table of entity kinds: which domain owns each, what its aggregate is, how many parts its path has.

The journal topic of an event follows from its entity's kind alone. A kind that is not in the table belongs to the
catalog and is its own aggregate. A kind never changes its row: that would move an aggregate to another topic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

SERVED_DOMAINS: Final = ("catalog", "files")
"""Domains with a journal topic, whose events this version writes and folds."""

CHANGES_OF: Final[dict[str, tuple[str, ...]]] = {"catalog": ("catalog", "lineage"), "files": ("catalog", "files")}
"""The domains whose change records follow from each journal topic: annotations are the catalog's whatever they are of,
and facts about runs travel with their app."""

CHANGE_DOMAINS: Final = ("catalog", "files", "lineage")
"""Domains that have a change topic."""

PROGRAM_TYPES: Final = frozenset({"flow", "mapreduce", "spark", "service", "worker", "workflow"})

KIND_PATTERN: Final = re.compile(r"[a-z][a-z0-9-]*")

MANY: Final = 1024
"""No bound on the parts but the URN's length."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table.

    Args:
        name: the word before the colon.
        domain: the domain whose journal topic takes its events.
        min_parts: fewest parts of the path.
        max_parts: most parts of the path.
        aggregate_kind: kind of the aggregate; None where the entity is its own aggregate.
        aggregate_parts: leading parts that name the aggregate.
        program_type_at: index of the part that must be a program type; None where there is none.
    """

    name: str
    domain: str
    min_parts: int = 1
    max_parts: int = MANY
    aggregate_kind: str | None = None
    aggregate_parts: int = 0
    program_type_at: int | None = None


_ROWS = (
    Kind("dataset", "catalog", 2, 2),
    Kind("stream", "catalog", 2, 2),
    Kind("app", "catalog", 2, 2),
    Kind("program", "catalog", 4, 4, "app", 2, program_type_at=2),
    Kind("run", "catalog", 5, 5, "app", 2, program_type_at=2),
    Kind("file", "files", 3, 3, "files", 2),
    Kind("files", "files", 2, 2),
    Kind("repo", "repositories", 1, 1),
    Kind("branch", "repositories", 2, 2, "repo", 1),
    Kind("commit", "repositories", 2, 2, "repo", 1),
    Kind("object", "repositories", 2, MANY, "repo", 1),
    Kind("table", "tables", 2, 2),
    Kind("chain", "datasets"),
)

KINDS: Final[dict[str, Kind]] = {row.name: row for row in _ROWS}


def kind_of(name: str) -> Kind:
    """Row of a kind; a name outside the table is a custom kind of the catalog.

    Raises:
        ValueError: the name is not `[a-z][a-z0-9-]*`.
    """
    known = KINDS.get(name)
    if known is not None:
        return known
    if not KIND_PATTERN.fullmatch(name):
        raise ValueError("the kind must match [a-z][a-z0-9-]*")
    return Kind(name, "catalog")


def domain_of_kind(name: str) -> str:
    """Domain that owns a kind: `catalog` for every kind outside the table."""
    known = KINDS.get(name)
    return "catalog" if known is None else known.domain
