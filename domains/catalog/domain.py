"""The catalog: datasets, streams, apps with their programs and runs, and every kind that nobody declares."""

from __future__ import annotations

from typing import Final

from ...schemas.domain import Choice, Domain, Kind

PROGRAM_TYPES: Final = frozenset({"flow", "mapreduce", "spark", "service", "worker", "workflow"})
_PROGRAM_TYPE: Final = Choice(2, PROGRAM_TYPES, "program type")

DOMAIN: Final = Domain(
    "catalog",
    __package__,
    kinds=(
        Kind("dataset", "catalog", 2, 2),
        Kind("stream", "catalog", 2, 2),
        Kind("app", "catalog", 2, 2),
        Kind("program", "catalog", 4, 4, "app", 2, _PROGRAM_TYPE),
        Kind("run", "catalog", 5, 5, "app", 2, _PROGRAM_TYPE),
    ),
    event_types=(
        "catalog.EntityRegistered.1",
        "catalog.EntityDeleted.1",
        "catalog.PropertiesSet.1",
        "catalog.PropertiesRemoved.1",
        "catalog.TagsAdded.1",
        "catalog.TagsRemoved.1",
        "catalog.MetadataCleared.1",
        "catalog.PropertiesReplaced.1",
    ),
    reasons=("unknown-entity", "too-large"),
    next_steps=(
        ("unknown-entity", "Register the entity first, then send a new event."),
        ("too-large", "Send less, or remove something first; the detail names the limit."),
    ),
    owns_undeclared_kinds=True,
    has_namespaces=True,
    original=True,
)
